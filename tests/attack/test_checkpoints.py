"""Checkpoints that were tampered with, for every method: refused in a line, or never a lie.

Somebody without the key changes anything and gets all digests right. What a run then says is true.
Somebody who has the key can sign any bound, so of these no truth is asked; but no change leads
compiled code out of its arrays, and whatever does not fit is refused in one line. Runs go on in
children, whose death is seen. A few changes of each checkpoint belong to the ordinary tests.
"""

import json
import logging
import math
import os
import random
import shutil
import signal
import traceback
import warnings
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest
from tests.checkpoints.killing import in_child
from tests.checkpoints.runs import RUNS
from tests.checkpoints.signing import signed

import cutplane as cp
from cutplane.core.state import Problem

from .checkpoint_mutations import Contents, mutated

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forks"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

# Of the processor, for one change; the usual is some milliseconds.
SECONDS_EACH = 60
BEFORE, AFTER = 5, 12  # iterations, when a checkpoint is written and when a run ends
# One of each kind, for the ordinary tests.
SEVERAL = [
    *("bmrm", "bmrm, sum", "groups", "kelley", "newton", "dual ascent", "class newton, kinks"),
    *("block ascent", "block ascent, chains", "quasi-newton", "coordinate descent", "pair ascent"),
    *("nrbm, ramp", "optimistic"),
]
# Rounding; beyond it a bound is wrong.
ROUNDING = 1e-9


def minimized(name, folder, **options):
    risk, regularizer, method = RUNS[name]
    options = {"tol": 1e-9, "max_iter": AFTER} | options
    return cp.minimize(risk(), regularizer, method=method(), checkpoint=folder, **options)


@cache
def optimum(name):
    """Return a bound that no point is below, and an objective that one has; None if not convex."""
    risk, regularizer, method = RUNS[name]
    if risk().convex is False:
        return None
    suitable = cp.bmrm().obstacle(Problem(risk(), regularizer)) is None
    method = cp.bmrm() if suitable else method()
    found = cp.minimize(risk(), regularizer, method=method, tol=1e-6, max_iter=1000)
    assert found.certificate.valid
    return found.certificate.lower_bound, found.objective


def says_the_truth(name, result):
    """Compare a certificate with what is known of the problem."""
    make, regularizer, _ = RUNS[name]
    certificate = result.certificate
    value = Problem(make(), regularizer).objective(make().at(result.w))
    size = max(abs(value), 1e-3)
    if value == math.inf:  # a number of the best point is huge
        return certificate.objective == math.inf and not certificate.valid
    if not abs(value - certificate.objective) <= 1e-7 * size:
        return False
    known = optimum(name)
    if known is None or not certificate.valid:
        return not (certificate.valid or certificate.status is cp.Status.OPTIMAL)
    return bool(certificate.lower_bound <= known[1] + ROUNDING * size)


def went_on(name, folder):
    """Say what came of a run that goes on from a checkpoint."""
    try:
        result = minimized(name, folder)
    except cp.CheckpointError as error:
        line = str(error)
        good = line.startswith(str(folder)) and line.isprintable() and len(line) < 1000
        return "refused" if good else f"ERROR in the message {line!r}"
    except cp.NonFiniteRisk:  # numbers that are believed may be huge
        return "overflow"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return f"ERROR {type(error).__name__} {str(error)[:100]!r} {where}"
    return "true" if says_the_truth(name, result) else f"false {result.certificate}"


def attack(name, folder, seeds, sign):
    """Return what came of each of several changes to a checkpoint of a run."""
    if not (folder / "checkpoint.json").exists():
        minimized(name, folder, max_iter=BEFORE)
    contents, log = Contents.of(folder), folder.with_suffix(".log")
    minimized(name, None)  # compiles what is needed
    optimum(name)

    def work(seeds):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")  # of numbers that overflow
        with open(log, "a", encoding="utf-8") as lines:
            for seed in seeds:
                signal.setitimer(signal.ITIMER_PROF, SECONDS_EACH)
                changed, what = mutated(random.Random(f"{name} {seed}"), contents)
                forged = folder.with_name("forged")
                shutil.rmtree(forged, ignore_errors=True)
                lines.write(json.dumps([seed, what]) + "\t")
                lines.flush()
                changed.write(forged, sign)
                lines.write(json.dumps(went_on(name, forged)) + "\n")
        signal.setitimer(signal.ITIMER_PROF, 0)

    found = []
    while len(found) < len(seeds):
        log.write_text("")
        status, _ = in_child(partial(work, seeds[len(found) :]))
        lines = [line.split("\t") for line in log.read_text().splitlines()]
        if status != 0:
            assert lines, f"the child ended with {status} before the first change"
            lines[-1] = [lines[-1][0], json.dumps(f"ERROR: the process ended with {status}")]
        found += [(*json.loads(what), json.loads(verdict)) for what, verdict in lines]
    return found


def verdicts(found):
    return Counter(verdict.partition(" ")[0] for *_, verdict in found)


def unsigned(manifest):
    return json.dumps(manifest).encode()


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


def require_honest(found):
    """Check what came of changes by somebody without the key."""
    assert not [line for line in found if line[2] not in ("refused", "true")]


def require_clean(found):
    """Check what came of changes by somebody who has it."""
    assert not [line for line in found if line[2].startswith("ERROR")]


@pytest.mark.parametrize("name", SEVERAL)
def test_tampering(name, tmp_path):
    without = attack(name, tmp_path / "run", range(8), unsigned)
    require_honest(without)
    assert verdicts(without)["true"] > 0
    with_key = attack(name, tmp_path / "run", range(8, 38), signed)
    require_clean(with_key)
    assert verdicts(with_key)["refused"] > 5


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("bmrm, softmax", 1000657),  # half floats
        ("kelley in a box", 1000238),  # tiny slopes
        ("kelley in a box", 1000438),  # huge offsets
        ("quasi-newton", 1000488),  # products that are zero
        ("quasi-newton, linear", 1000653),
        ("block ascent", 1000441),  # squares that are negative
    ],
)
def test_changes_that_once_came_through(name, seed, tmp_path):
    require_clean(attack(name, tmp_path / "run", [seed], signed))


def test_a_checkpoint_as_it_was_goes_on(tmp_path):
    minimized("newton", tmp_path / "run", max_iter=BEFORE)
    for number, (sign, left) in enumerate([(signed, 1), (unsigned, BEFORE + 1)]):
        copy = tmp_path / str(number)
        Contents.of(tmp_path / "run").write(copy, sign)
        seen = []
        result = minimized("newton", copy, max_iter=BEFORE + 1, callbacks=[seen.append])
        assert len(seen) == left  # iterations
        assert len(result.history) == BEFORE + 1
        assert says_the_truth("newton", result)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_much_tampering(name, tmp_path):
    n = int(os.environ.get("CUTPLANE_ATTACKS", "1000"))
    without = attack(name, tmp_path / "run", range(1000, 1000 + n // 4), unsigned)
    with_key = attack(name, tmp_path / "run", range(10**6, 10**6 + n), signed)
    print(name, "without the key:", dict(verdicts(without)), "with it:", dict(verdicts(with_key)))
    require_honest(without)
    require_clean(with_key)
