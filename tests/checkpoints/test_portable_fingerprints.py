"""Fingerprints that another process understands."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.core.fingerprint import Opaque, fingerprint

# Run in two processes, with different seeds of the hashes of words. The text is a user's module.
SCRIPT = """
import json, math, sys
from dataclasses import dataclass
from functools import partial
import numpy as np, scipy.sparse, scipy.special
from numba import njit
import cutplane as cp
from cutplane.core.fingerprint import fingerprint

NUMBERS = np.arange(5.0)

def helper(w):
    return scipy.special.expit(np.exp(-abs(w))) if {"a", "b", "c"} else math.inf

def function(w, scale=SCALE):
    return float(helper(w) @ NUMBERS), scale * NUMBERS

@njit
def compiled(w):
    return w + SCALE

class Model(cp.StructuredModel):
    offset = SCALE
    def __init__(self, words):
        self.words = words
    def value(self, w):
        return [self.offset for _ in w]
    @property
    def double(self):
        return 2 * self.offset

@dataclass(frozen=True)
class Small:
    x: float = 1.0

def made():
    class Local(Small):
        def f(self):
            return SCALE
    return Local()

X = scipy.sparse.csr_array(np.eye(20, 7))
y = np.where(np.arange(20) % 2, 1.0, -1.0)
THINGS = dict(
    function=function, closure=(lambda a: lambda w: a + w)(SCALE), compiled=compiled,
    model=Model({"x", "y", "zz"}), cls=Model, small=Small(), local=made(),
    partial=partial(function, scale=SCALE), ufunc=np.exp, builtin=len, module=np,
    method=Model([]).value,
    function_risk=cp.FunctionRisk(function, 5), l2=cp.L2(0.1, center=np.ones(7)),
    risk=cp.WeightedSum([(1.0, cp.FunctionRisk(function, 5)), (2.0, cp.FunctionRisk(helper, 5))]),
)
print(json.dumps({name: fingerprint(thing, portable=True) for name, thing in THINGS.items()}))
"""
SAME_IN_ALL = {"small", "ufunc", "builtin", "module", "l2"}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")

    def run(seed, scale):
        script = folder / "script.py"
        script.write_text(SCRIPT.replace("SCALE", scale))
        done = subprocess.run(
            [sys.executable, script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        return json.loads(done.stdout)

    return run("1", "2.0"), run("2", "2.0"), run("1", "3.0")


def test_another_process_finds_the_same(found):
    assert found[0] == found[1]


def test_changed_code_is_noticed(found):
    same = {name for name, digest in found[0].items() if digest == found[2][name]}
    assert same == SAME_IN_ALL
    assert len(set(found[0].values())) == len(found[0])


@pytest.mark.parametrize(
    "thing",
    [threading.Lock(), (i for i in range(3)), [open]],
    ids=["lock", "generator", "known"],
)
def test_what_cannot_be_recognized_is_refused(thing):
    if thing == [open]:
        assert fingerprint(thing, portable=True) == fingerprint(thing)
        return
    with pytest.raises(Opaque, match=r"^\w+ cannot be recognized in another process$"):
        fingerprint([thing], portable=True)


def test_arrays_and_losses_are_portable():
    things = [np.ones(3), scipy.sparse.eye_array(3, format="csr"), cp.Hinge(), cp.L1(0.5)]
    for thing in things:
        assert fingerprint(thing, portable=True) == fingerprint(thing)
