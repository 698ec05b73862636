"""Signals at any moment: no model is lost, torn or wrong, and nobody sees a traceback.

A few moments, chosen by a seed, belong to the ordinary tests. The slow ones send 200 SIGINT and 200
SIGKILL to ``cutplane fit --out``, spread evenly from its first import to its last line.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.processes import PATIENCE, Started

import cutplane as cp
from cutplane.core.interrupts import held
from cutplane.io import InputError, load_model, read_conll, read_svmlight
from cutplane.io.labels import class_labels

# The first byte tells that Python is there: what comes before is not ours.
PROGRAM = """
import os, sys
os.write(int(sys.argv.pop(1)), b".")
from cutplane.cli import main
main()
"""
# The disk waits for the end of standard input, so that a signal meets the program while it writes.
SLOW_DISK = """
import os, sys
ready, fsync = int(sys.argv.pop(1)), os.fsync
def slow(handle):
    os.write(ready, b".")
    os.read(0, 1)
    fsync(handle)
os.fsync = slow
from cutplane.cli import main
main()
"""

JOBS = {
    "bmrm": ["--method", "bmrm"],
    "newton": ["--method", "newton", "--loss", "smooth_hinge"],
    "dual-ascent": ["--method", "dual-ascent"],
    "ranking": ["--loss", "pairwise"],
    "tagger": ["--task", "sequences", "--min-count", "1"],
}


def write_rows(path, *, queries=False):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 60)).round(3), rng.integers(0, 2, size=2000)  # a hard problem
    with open(path, "w", encoding="utf-8") as file:
        for i, (label, row) in enumerate(zip(y, X, strict=True)):
            query = f" qid:{i // 20}" if queries else ""
            file.write(f"{label}{query} {' '.join(f'{j}:{x}' for j, x in enumerate(row, 1))}\n")


def write_sequences(path):
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(400):
            for word in rng.integers(0, 300, size=rng.integers(3, 15)):
                file.write(f"w{word} p{word % 7} L{(word + rng.integers(0, 2)) % 5}\n")
            file.write("\n")


class Job(NamedTuple):
    """A command, the model that is already there, and what is known of the new one."""

    name: str
    data: str
    model: str
    arguments: list[str]
    before: bytes
    seconds: float


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signals")
    write_rows(folder / "rows")
    write_rows(folder / "queries", queries=True)
    write_sequences(folder / "sequences")
    return folder


@pytest.fixture(scope="module")
def job_of(folder):
    """Return a function that prepares a job, once."""
    jobs = {}

    def prepare(name):
        if name not in jobs:
            data = folder / {"ranking": "queries", "tagger": "sequences"}.get(name, "rows")
            model = folder / name / "model"
            model.parent.mkdir()
            arguments = ["fit", str(data), "--out", str(model), "--tol", "1e-13", "--quiet"]
            arguments += ["--max-iter", "1000000", *JOBS[name]]
            # The model that is there already; this also compiles whatever is not compiled yet.
            begin = time.monotonic()
            start(*arguments, "--lam", 1, "--tol", 0.1).communicate()
            limit = min(max((time.monotonic() - begin) / 2, 0.3), 5.0)
            arguments += ["--lam", "1e-9", "--time-limit", str(limit)]
            before, begin = model.read_bytes(), time.monotonic()
            process = start(*arguments)
            process.communicate()
            assert process.returncode in (0, 1)
            assert model.read_bytes() != before
            seconds = time.monotonic() - begin
            jobs[name] = Job(name, str(data), str(model), arguments, before, seconds)
        return jobs[name]

    return prepare


STARTED = Started()


@pytest.fixture(autouse=True)
def _nothing_is_left_running():
    yield
    STARTED.end()


def start(*arguments, program=PROGRAM):
    """Start the program, and return when Python runs it."""
    ready, write = os.pipe()
    process = STARTED(
        [sys.executable, "-c", program, write, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[write],
    )
    os.close(write)
    assert os.read(ready, 1) == b"."
    os.close(ready)
    return process


def signalled(job, number, delay):
    """Run a job, signal it after so many seconds, and return exit code and standard error."""
    with open(job.model, "wb") as file:
        file.write(job.before)
    process = start(*job.arguments)
    time.sleep(delay)
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert output == b""
    return process.returncode, errors.decode()


class _Start(Exception):
    """Where a fit would begin, and the objective there."""


def objective_of(job, model):
    """Return the objective of a model, computed from the data."""

    def first_point(risk, regularizer, *, start, **options):
        raise _Start(regularizer.value(start) + risk.at(start).value)

    if job.name == "tagger":
        given, options = read_conll(job.data, labels=True).split_labels(), {}
    else:
        X, y, qid = read_svmlight(job.data, queries=job.name == "ranking")
        given = X, class_labels(y, job.data, certain=True) if qid is None else y.astype(float)
        options = {} if qid is None else {"qid": qid}
    model.set_params(warm_start=True)
    with (
        mock.patch("cutplane.estimators.fit.minimize", first_point),
        pytest.raises(_Start) as caught,
    ):
        model.fit(*given, **options)
    return caught.value.args[0]


@pytest.fixture(scope="module")
def bounds_of():
    """Return a function that gives bounds on the optimum of a job: those of the best model."""
    best = {}

    def bounds(job, certificate):
        lower, upper = best.get(job.name, (-np.inf, np.inf))
        best[job.name] = max(lower, certificate.lower_bound), min(upper, certificate.objective)
        return best[job.name]

    return bounds


def require_sound(job, bounds_of, *, new):
    """Check the model that is there: the old one, or a new one whose certificate is true."""
    with open(job.model, "rb") as file:
        content = file.read()
    if content == job.before:
        assert not new
        return "old model"
    model = load_model(job.model)
    certificate = model.certificate_
    assert certificate.valid
    assert objective_of(job, model) == pytest.approx(certificate.objective, rel=1e-9)
    # Bounds of all runs on the same problem agree.
    lower, upper = bounds_of(job, certificate)
    assert lower <= upper * (1 + 1e-12)
    return "new model"


def leftovers(job):
    folder = os.path.dirname(job.model)
    return [os.path.join(folder, name) for name in os.listdir(folder) if name != "model"]


def interrupt(job, delay, bounds_of):
    code, errors = signalled(job, signal.SIGINT, delay)
    lines = errors.splitlines()
    assert "Traceback" not in errors, errors
    assert all(line.startswith("cutplane: ") for line in lines), errors
    assert leftovers(job) == []
    if code in (0, 1):  # too late to cut the fit short
        return code, require_sound(job, bounds_of, new=True)
    assert code == 130, (code, errors)
    found = require_sound(job, bounds_of, new=lines != ["cutplane: interrupted"])
    if found == "new model":
        assert load_model(job.model).certificate_.status == "interrupted"
    return code, found


def kill(job, delay, bounds_of):
    code, errors = signalled(job, signal.SIGKILL, delay)
    assert code in (0, 1, -signal.SIGKILL), (code, errors)
    found = require_sound(job, bounds_of, new=code >= 0)
    require_harmless_leftovers(job)
    return code, found


def require_harmless_leftovers(job):
    """Check that a temporary file is hidden, and no model unless it is whole; remove it."""
    for path in leftovers(job):
        assert os.path.basename(path).startswith(".cutplane-")
        assert path.endswith(".tmp")
        try:
            load_model(path)
        except InputError:
            assert os.path.getsize(path) < os.path.getsize(job.model)
        os.unlink(path)


def moments(n, seed):
    """Return the n moments of a run, as shares of its duration, in random order."""
    rng = random.Random(seed)
    shares = [(k + rng.random()) / n for k in range(n)]
    rng.shuffle(shares)
    return shares


@pytest.mark.parametrize("share", [0.1, 0.7])
def test_interrupts_at_a_few_moments(share, job_of, bounds_of):
    job = job_of("bmrm")
    interrupt(job, share * job.seconds, bounds_of)


@pytest.mark.slow
@pytest.mark.parametrize(("action", "seed"), [(interrupt, 1), (kill, 2)])
def test_signals_at_two_hundred_moments(action, seed, job_of, bounds_of, capsys):
    seen = Counter()
    for k, share in enumerate(moments(200, seed)):
        job = job_of(list(JOBS)[k % len(JOBS)])
        seen[action(job, share * job.seconds, bounds_of)] += 1
    assert sum(seen.values()) == 200
    with capsys.disabled():
        print(f"\n{action.__name__}: {dict(seen)}")


def start_writing(job):
    """Start a fit, and return when it has written its model, but not brought it to the disk."""
    with open(job.model, "wb") as file:
        file.write(job.before)
    limit = job.arguments.index("--time-limit") + 1
    arguments = [*job.arguments[:limit], "0.05"]
    return start(*arguments, program=SLOW_DISK)


def test_an_interrupt_while_the_model_is_written_comes_too_late(job_of, bounds_of):
    job = job_of("bmrm")
    process = start_writing(job)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, errors  # the time limit, as if there had been no signal
    assert require_sound(job, bounds_of, new=True) == "new model"
    assert leftovers(job) == []


def test_a_kill_while_the_model_is_written_leaves_the_old_one(job_of, bounds_of):
    job = job_of("bmrm")
    process = start_writing(job)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert require_sound(job, bounds_of, new=False) == "old model"
    assert len(leftovers(job)) == 1
    require_harmless_leftovers(job)


# In this process


def rows(rng, loss=None, as_rows=np.asarray, n=20_000):
    X = rng.normal(size=(n, 12))
    y = np.where(X @ rng.normal(size=12) + rng.normal(size=n) > 0, 1.0, -1.0)
    return cp.ScoredRisk(as_rows(X), y, loss or cp.Hinge())


def chains(rng, loss):
    X = rng.normal(size=(1000, 6))
    return cp.ChainRisk(X, rng.integers(0, 3, size=1000), np.arange(0, 1001, 10), loss, n_labels=3)


RUNS = {
    "bmrm": (cp.bmrm(), rows),
    "planes": (cp.bmrm(planes=5, line_search=False), rows),
    "level": (cp.level(), rows),
    "newton": (cp.newton(), rows),
    "newton, logistic": (cp.newton(), lambda rng: rows(rng, cp.Logistic())),
    "dual-ascent": (cp.dual_ascent(), lambda rng: rows(rng, as_rows=csr_array, n=2000)),
    "block-ascent": (cp.block_ascent(), lambda rng: chains(rng, cp.ChainMargin())),
    "quasi-newton": (cp.quasi_newton(), lambda rng: chains(rng, cp.ChainCRF())),
}


def interrupt_runs(name, n, seed):
    """Press Ctrl-C at n moments of a run; return how the runs ended."""
    method, make = RUNS[name]
    risk, regularizer = make(np.random.default_rng(0)), cp.L2(1e-5)

    def run(tol, max_iter):
        return cp.minimize(risk, regularizer, method=method, tol=tol, max_iter=max_iter)

    run(1e-3, 20)  # compiles
    begin = time.monotonic()
    exact = run(1e-10, 40)
    seconds, ended = time.monotonic() - begin, Counter()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for share in moments(n, seed):
            timer = threading.Timer(share * seconds, os.kill, (os.getpid(), signal.SIGINT))
            try:
                with held():  # so that what comes after the run is not raised here
                    timer.start()
                    result = run(1e-10, 40)
                    timer.join()
            except KeyboardInterrupt:  # before it began
                ended["not begun"] += 1
                continue
            ended[str(result.status)] += 1
            assert result.certificate.valid
            assert result.certificate.lower_bound <= exact.objective * (1 + 1e-12)
            assert exact.certificate.lower_bound <= result.objective * (1 + 1e-12)
            value = regularizer.value(result.w) + risk.at(result.w).value
            assert result.objective == pytest.approx(value, rel=1e-12)
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(ended) <= {"interrupted", "optimal", "stalled", "iteration_limit", "not begun"}
    return ended


@pytest.mark.parametrize("name", RUNS)
def test_interrupts_of_runs_at_a_few_moments(name):
    ended = interrupt_runs(name, 4, seed=3)
    assert ended["interrupted"] >= 1


@pytest.mark.slow
def test_interrupts_of_runs_at_many_moments(capsys):
    seen = sum((interrupt_runs(name, 60, seed=4) for name in RUNS), Counter())
    assert sum(seen.values()) == 60 * len(RUNS)
    with capsys.disabled():
        print(f"\nin this process: {dict(seen)}")
