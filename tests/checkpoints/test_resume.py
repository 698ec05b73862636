"""Going on from a checkpoint: what is the same, what is refused, and when it is written."""

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np
import pytest

import cutplane as cp
from cutplane.checkpoints import checkpoint as module
from cutplane.checkpoints.checkpoint import Snapshots
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem

from .runs import HINGE, L2, dense, outcome, steep
from .signing import signed
from .test_store import contents


def minimized(folder, *, risk=None, regularizer=L2, method=None, max_iter=6, **options):
    return cp.minimize(
        risk or HINGE(),
        regularizer,
        method=method,
        tol=1e-9,
        max_iter=max_iter,
        checkpoint=folder,
        **options,
    )


def test_the_same_call_goes_on_and_counts_go_on(tmp_path):
    first = minimized(tmp_path, max_iter=3)
    assert (first.iterations, first.status) == (3, cp.Status.ITERATION_LIMIT)
    risk = HINGE()
    second = minimized(tmp_path, risk=risk)
    assert second.iterations == 6
    assert [line.iteration for line in second.history] == [1, 2, 3, 4, 5, 6]
    assert second.history[:3] == first.history
    assert second.seconds > first.seconds
    assert risk.evaluations < second.evaluations
    assert outcome(second) == outcome(minimized(None))


def test_a_finished_run_takes_one_evaluation(tmp_path):
    first = minimized(tmp_path)
    risk = HINGE()
    assert outcome(minimized(tmp_path, risk=risk)) == outcome(first)
    assert risk.evaluations == 1


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("method", [cp.bmrm, cp.level, cp.newton, lambda: cp.bmrm(planes=4)])
def test_resume_knows_the_method(tmp_path, method, together):
    minimized(tmp_path, method=method(), max_iter=3)
    problem = [Problem(HINGE(), L2)] if together else [HINGE(), L2]
    found = cp.resume(tmp_path, *problem, tol=1e-9, max_iter=6)
    assert outcome(found) == outcome(minimized(None, method=method()))


def test_resume_needs_a_checkpoint_and_a_problem(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(cp.CheckpointError, match=rf"^{folder}: there is no checkpoint$"):
            cp.resume(folder, HINGE(), L2)
    assert not (tmp_path / "none").exists()
    minimized(tmp_path)
    with pytest.raises(TypeError, match="a problem, or a risk and a regularizer"):
        cp.resume(tmp_path, HINGE())


def changed(**changes):
    X, y = dense()
    parts = {"X": X, "y": y, "loss": cp.Hinge()} | changes
    options = {name: parts[name] for name in ("weights", "intercept") if name in parts}
    return cp.ScoredRisk(parts["X"], parts["y"], parts["loss"], **options)


X, Y = dense()
OTHERS = {
    "features": {"risk": lambda: changed(X=np.nextafter(X, 1.0))},
    "targets": {"risk": lambda: changed(y=-Y)},
    "loss": {"risk": lambda: changed(loss=cp.SquaredHinge())},
    "weights": {"risk": lambda: changed(weights=np.arange(1.0, 121.0))},
    "intercept": {"risk": lambda: changed(intercept=False)},
    "regularizer": {"regularizer": lambda: cp.L2(2e-2)},
    "stabilizer": {"method": cp.level},
    "memory": {"method": lambda: cp.bmrm(planes=5)},
    "query": {"method": lambda: cp.bmrm(line_search=False)},
}


@pytest.mark.parametrize("part", OTHERS)
def test_a_checkpoint_of_something_else_is_refused_and_nothing_changes(tmp_path, part):
    minimized(tmp_path)
    before = contents(tmp_path)
    what = "method" if "method" in OTHERS[part] else "problem"
    options = {name: make() for name, make in OTHERS[part].items()}
    with pytest.raises(cp.CheckpointError) as caught:
        minimized(tmp_path, **options)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: a checkpoint of another {what} (other: ")
    assert part in message
    assert "\n" not in message
    assert contents(tmp_path) == before
    assert outcome(minimized(tmp_path)) == outcome(minimized(None))


def edit(folder, **changes):
    path = folder / "checkpoint.json"
    manifest = json.loads(path.read_text())
    manifest["about"] |= changes
    path.write_bytes(signed(manifest))


def test_another_version_is_refused(tmp_path):
    minimized(tmp_path)
    edit(tmp_path, library="0.0.1")
    before = contents(tmp_path)
    with pytest.raises(cp.CheckpointError, match=r"of cutplane 0\.0\.1, and this is \d"):
        minimized(tmp_path)
    assert contents(tmp_path) == before


def test_another_processor_is_said_and_the_run_goes_on(tmp_path, caplog):
    minimized(tmp_path, max_iter=3)
    edit(tmp_path, processor="abacus")
    assert outcome(minimized(tmp_path)) == outcome(minimized(None))
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "written elsewhere (abacus; here: " in line.getMessage()


@dataclass
class Opaque:
    """A risk that another process could not recognize."""

    function: object = steep
    lock: object = field(default_factory=threading.Lock)
    n_parameters = 5
    convex = True
    lower_bound = 0.0
    evaluations: int = 0

    def at(self, w):
        self.evaluations += 1
        return OpaquePoint(self, w)


class OpaquePoint:
    def __init__(self, risk, w):
        self.risk, self.w, self.lock = risk, w, threading.Lock()
        self.value, self.slope = risk.function(w)

    def plane(self):
        return Plane(self.slope, self.value - float(self.slope @ self.w))


class Known(Opaque):
    def identity(self):
        return {"function": self.function}


def test_a_risk_that_cannot_be_recognized_is_refused_at_the_beginning(tmp_path):
    with pytest.raises(cp.CheckpointError, match=r"lock cannot be recognized .* identity\(\)$"):
        minimized(tmp_path, risk=Opaque())


def test_a_point_that_is_no_data_is_evaluated_again(tmp_path):
    expected = minimized(None, risk=Known())
    minimized(tmp_path, risk=Known(), max_iter=3)
    assert outcome(minimized(tmp_path, risk=Known())) == outcome(expected)


def test_functions_by_name_and_by_content(tmp_path):
    first = minimized(tmp_path, risk=steep, start=np.zeros(5), max_iter=3)
    assert first.iterations == 3
    found = minimized(tmp_path, risk=steep, start=np.zeros(5))
    assert outcome(found) == outcome(minimized(None, risk=steep, start=np.zeros(5)))
    with pytest.raises(cp.CheckpointError, match="another problem"):
        minimized(tmp_path, risk=lambda w: steep(2.0 * w), start=np.zeros(5))


def test_where_to_begin_matters_only_the_first_time(tmp_path):
    first = minimized(tmp_path, start=np.ones(8), max_iter=3)
    found = minimized(tmp_path, resume=minimized(None, max_iter=1).state)
    assert found.history[:3] == first.history


@pytest.mark.parametrize("every", [-1.0, float("nan")])
def test_the_interval_is_checked(tmp_path, every):
    with pytest.raises(ValueError, match="every must be a number of seconds"):
        cp.Checkpoint(tmp_path, every)


def test_a_full_disk_does_not_end_a_run(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError(28, "No space left on device")

    expected = minimized(tmp_path, max_iter=3)
    monkeypatch.setattr(module.Store, "write", fail)
    found = minimized(cp.Checkpoint(tmp_path, 0))
    assert found.iterations == 6
    assert "cannot write the checkpoint" in caplog.text
    assert "No space left on device" in caplog.text
    monkeypatch.undo()
    assert minimized(tmp_path, max_iter=3).history == expected.history


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


class AtOnce(ThreadPoolExecutor):
    """Writes while the run waits."""

    def submit(self, *call):
        future = super().submit(*call)
        wait([future])
        return future


@pytest.mark.parametrize(
    ("every", "duration", "written"),
    [
        (0.0, 0.0, list(range(1, 201))),
        (70.0, 10.0, [7, 15, 23, 31]),  # as often as is asked for
        (None, 0.0, [6, 12, 18, 24]),
        (None, 10.0, [6, 40, 74, 108]),  # at most one second in 33
    ],
)
def test_when_a_checkpoint_is_written(tmp_path, monkeypatch, every, duration, written):
    clock, found = Clock(), []
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "ThreadPoolExecutor", AtOnce)

    def write(*_):
        found.append(round(clock.now / 10.0))
        clock.now += duration
        return duration

    monkeypatch.setattr(module.Store, "write", write)
    state = minimized(None).state
    with module.keeper(cp.Checkpoint(tmp_path, every), Problem(HINGE(), L2), cp.bmrm()) as kept:
        for i in range(200):
            clock.now += 10.0
            state.iteration = i
            kept.write_if_due(state)
    assert found[: len(written)] == written


def test_the_end_is_written_once(tmp_path, monkeypatch):
    written = []
    before = module.Store.write

    def write(self, about, iteration, *rest):
        written.append(iteration)
        return before(self, about, iteration, *rest)

    monkeypatch.setattr(module.Store, "write", write)
    minimized(tmp_path)
    minimized(tmp_path)
    minimized(cp.Checkpoint(tmp_path, 0), max_iter=8)
    assert written == [6, 7, 8]


@pytest.mark.parametrize("method", [cp.bmrm(), cp.bmrm(planes=2), cp.bmrm_without_qp()])
def test_slopes_that_are_being_written_do_not_change_while_a_run_goes_on(method):
    result = minimized(None, method=method)
    state, bundle = result.state, result.state.bundle
    snapshots = Snapshots(state.problem, method)
    encoded, planes = snapshots.take(state, 0)
    before = [planes.slope(row).copy() for row in range(len(planes.numbers))]
    offsets = {name: array.copy() for name, array in encoded.arrays.items()}

    def go_on(steps):
        for i in range(steps):
            method.memory.make_room(bundle, 1, state.own.memory)
            bundle.add(Plane(np.full(8, float(i)), 0.0))
            bundle.alpha[:] = 0.0
            bundle.alpha[-1] = 1.0

    go_on(50)
    for row, slope in enumerate(before):
        assert planes.slope(row).tobytes() == slope.tobytes()
    for name, array in offsets.items():
        assert encoded.arrays[name].tobytes() == array.tobytes()
    snapshots.release(state)
    rows = len(bundle.matrices[0])
    if bundle.n_planes < 10:
        go_on(100)
        assert len(bundle.matrices[0]) == rows  # the places are used again


def test_without_a_checkpoint_nothing_is_digested(monkeypatch):
    def fail(*_, **__):
        raise AssertionError

    monkeypatch.setattr(module, "fingerprints_of_parts", fail)
    assert minimized(None).iterations == 6
