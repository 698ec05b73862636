"""Processes that do inference, and Ctrl-C, which a terminal sends to all of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cutplane

PROGRAM = """
import os, signal, threading, time
import numpy as np
import cutplane as cp

class Model:
    n_parameters = 3

    def joint_feature(self, x, y):
        return x * np.eye(3)[y]

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def inference(self, x, w):
        return int(np.argmax(w * x))

    def loss_augmented_inference(self, x, y, w):
        time.sleep(0.05)
        return int(np.argmax(w * x + (np.arange(3) != y)))

def press(state):
    if state.iteration == 1:  # while the workers are at work, as a terminal does
        threading.Timer(0.4, os.killpg, (0, signal.SIGINT)).start()

rng = np.random.default_rng(0)
X, Y = list(rng.normal(size=30)), rng.integers(0, 3, size=30).tolist()
risk = cp.StructuredRisk(Model(), X, Y, n_jobs=2)
result = cp.minimize(risk, cp.L2(1e-3), method=cp.bmrm(), tol=1e-9, callbacks=[press])
print(result.status, result.certificate.valid)
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
def test_ctrl_c_in_a_terminal_is_no_business_of_the_workers():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(Path(cutplane.__file__).parents[1])},
        capture_output=True,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        check=False,
    )
    assert done.stdout == "interrupted True\n", done.stderr
    assert "KeyboardInterrupt" not in done.stderr
