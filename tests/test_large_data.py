"""Memory-mapped data larger than the memory that a process may allocate are fitted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "large_data.py"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit counts mapped memory on Linux only")
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_fit_without_the_memory_to_load_the_data(kind):
    command = [sys.executable, str(SCRIPT), "--data", kind, "--json"]
    command += ["--rows", "120000", "--features", "120", "--memory", "35"]
    run = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert run["bytes"] > 57e6
    assert not run["loads"]  # the limit is real
    assert run["status"] == "optimal"
    assert run["gap"] <= 1e-3
    assert run["accuracy"] > 0.9
