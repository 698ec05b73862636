"""Runs that are killed and go on give the same bits as runs that were not.

Children are forks of this process, in which everything is compiled, and kill themselves. At the end
there are new interpreters, as a user would have them.
"""

import os
import subprocess
import sys
import time
from functools import cache, partial

import numpy as np
import pytest

import cutplane as cp

from . import killing
from .killing import (
    KILLED,
    at_call,
    calls_of,
    in_child,
    interrupted_at,
    require_kill,
    require_same_after_kills_at_boundaries,
)
from .runs import RUNS, run

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

# One method of each kind.
SEVERAL = ["bmrm", "few planes", "adaptive", "newton", "dual ascent", "block ascent", "nrbm"]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    # A kill does not lose what the system has taken; that the disk is waited for has its own test.
    monkeypatch.setattr(os, "fsync", lambda _: None)


@cache
def baseline(name):
    return run(name)


def checkpointed(name, folder, every=0.0):
    return run(name, cp.Checkpoint(folder, every))


@pytest.mark.parametrize("name", RUNS)
def test_checkpoints_change_nothing(name, tmp_path):
    assert checkpointed(name, tmp_path) == baseline(name)
    # Nothing is left to do, and the outcome is the same once more.
    assert checkpointed(name, tmp_path) == baseline(name)


@pytest.mark.parametrize(
    "name",
    [name if name in SEVERAL else pytest.param(name, marks=pytest.mark.slow) for name in RUNS],
)
def test_every_method_goes_on_after_two_kills(name, tmp_path):
    calls = calls_of(partial(checkpointed, name, tmp_path / "first"))
    work = partial(checkpointed, name, tmp_path / "killed")
    for _ in range(2):
        require_kill(work, partial(at_call, int(0.35 * calls)))
    assert in_child(work) == (0, baseline(name))


def test_every_write_boundary(tmp_path):
    # Three writes: the first one, one that has a state before it, and one that removes files.
    work = partial(run, "few planes", max_iter=3)
    require_same_after_kills_at_boundaries(work, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_kills_anywhere(name, tmp_path):
    # 8 kills each, in 32 runs. What the interval is matters too: some writes are far apart. No run
    # has fewer calls than one that writes its end alone, so that none ends before it is killed.
    calls = calls_of(partial(checkpointed, name, tmp_path / "first", every=1e9))
    points = np.random.default_rng(len(name)).integers(calls // 20, calls * 9 // 10, size=8)
    for k, nth in enumerate(points.tolist()):
        work = partial(checkpointed, name, tmp_path / str(k), every=k % 2 * 0.02)
        require_kill(work, partial(at_call, nth))
        assert in_child(work) == (0, baseline(name))


@pytest.mark.parametrize("name", SEVERAL)
def test_ctrl_c(name, tmp_path):
    for work, (status, found) in interrupted_at((0.2, 0.5, 0.8), checkpointed, name, tmp_path):
        assert (status, found["certificate"][2]) == (0, "interrupted")
        assert 0 < len(found["history"]) < len(baseline(name)["history"])
        assert in_child(work) == (0, baseline(name))


SCRIPT = """
import sys
from tests.checkpoints.killing import at_boundary
from tests.checkpoints.runs import run
import cutplane as cp
if sys.argv[3] != "-":
    at_boundary(int(sys.argv[3]))
print(run(sys.argv[1], cp.Checkpoint(sys.argv[2], 0)))
"""


@pytest.mark.parametrize("name", ["bmrm, function", "dual ascent"])
def test_new_interpreters(name, tmp_path):
    def begin(nth):
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, name, tmp_path / "c", nth],
            capture_output=True,
            text=True,
            check=False,
        )

    for nth in ("100", "123"):
        assert begin(nth).returncode == KILLED
    done = begin("-")
    assert done.stderr == ""
    assert done.stdout.strip() == str(baseline(name))


def test_a_child_that_hangs_is_forked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(killing, "PATIENCE", 2.0)
    hung = tmp_path / "hung"

    def work():
        if not hung.exists():
            hung.touch()
            time.sleep(1000.0)
        return "done"

    assert in_child(work) == (0, "done")
    assert hung.exists()
