"""Steps that take long end when the time of a run is over, or Ctrl-C waits."""

from functools import partial
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp

import cutplane as cp
from cutplane.compute import pace
from cutplane.compute.products import conjugate_gradients
from cutplane.core import interrupts, loop
from cutplane.core.state import Problem
from cutplane.data.layouts import CompressedRows, DenseRows
from cutplane.losses import Huber
from cutplane.solvers.dual_ascent import DualAscent
from cutplane.solvers.newton import SmoothedNewton
from cutplane.solvers.stochastic import passes as pieces


class Clock:
    """A clock that goes on by a second with each product, and by a thousand with a matrix."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        # By its name the package has the function of the module, not the module.
        for module in (pace, loop, import_module("cutplane.solvers.minimize")):
            monkeypatch.setattr(module, "clock", lambda: self.now)
        for rows in (CompressedRows, DenseRows):
            for name in ("scores", "pullback", "class_scores", "class_pullback"):
                self._slow(monkeypatch, rows, name, 1.0)
            self._slow(monkeypatch, rows, "weighted_gram", 1000.0)
        self._slow(monkeypatch, DualAscent, "_epoch", 2.0)
        # Estimates know how slow it is to make a matrix.
        monkeypatch.setattr("cutplane.models.multiclass.newton._SECONDS_PER_CUBE", 1.0)
        monkeypatch.setattr(import_module("cutplane.solvers.newton"), "_SECONDS", 1.0)

    def _slow(self, monkeypatch, kind, name, seconds):
        method = getattr(kind, name)

        def slowly(*args, **kwargs):
            self.now += seconds
            return method(*args, **kwargs)

        monkeypatch.setattr(kind, name, slowly)


def problem(loss, *, sparse, classes=2, shape=(300, 40)):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) * (rng.random(shape) < 0.3) * np.logspace(0, 2, shape[1])
    y = (X @ rng.normal(size=(shape[1], classes)) + rng.normal(size=(len(X), classes))).argmax(1)
    if isinstance(loss, Huber):
        y = X[:, 0] + rng.normal(size=len(X))
    elif classes == 2:
        y = 2 * y - 1
    return cp.ScoredRisk(sp.csr_array(X) if sparse else X, y, loss)


CASES = {
    "newton": (cp.newton, lambda: cp.Hinge(), 2),
    "newton, smooth": (cp.newton, lambda: cp.Logistic(), 2),
    "dual ascent": (cp.dual_ascent, lambda: cp.Hinge(), 2),
    "newton of classes": (cp.class_newton, lambda: cp.CrammerSinger(), 4),
    "softmax": (cp.class_newton, lambda: cp.Softmax(), 4),
    "bundle": (cp.bmrm, lambda: cp.Hinge(), 2),
    "quasi-newton": (cp.quasi_newton, lambda: cp.Logistic(), 2),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_soon_after_its_time_limit(case, sparse, monkeypatch):
    make, loss, classes = CASES[case]
    risk = problem(loss(), sparse=sparse, classes=classes)
    exact = cp.minimize(risk, cp.L2(1e-6), method=make(), tol=1e-6, max_iter=3000)
    clock = Clock(monkeypatch)
    limit = 60.0
    found = cp.minimize(risk, cp.L2(1e-6), method=make(), tol=1e-9, time_limit=limit)
    assert found.status == "time_limit"
    # What a step does besides: a direction is tried, measured, and the objective computed afresh.
    assert clock.now <= limit + 15.0
    assert found.certificate.valid
    assert found.certificate.lower_bound <= exact.objective * (1 + 1e-9)
    assert found.objective >= exact.certificate.lower_bound * (1 - 1e-9)


# Passes of stochastic steps: the method, its compiled steps, and where these have the examples.
PASSES = {
    "pegasos": (cp.pegasos, "cutplane.solvers.stochastic.loops.epoch", 6),
    "optimistic": (cp.optimistic, "cutplane.solvers.stochastic.loops.epoch", 6),
    "batches": (partial(cp.pegasos, batch=7), "cutplane.solvers.stochastic.loops.epoch", 6),
    "margin": (cp.pegasos, "cutplane.models.sequences.passes.margin_pass", 2),
    "parts": (partial(cp.pegasos, batch=10), None, 0),
}


def chains(n_sequences=300):
    rng = np.random.default_rng(1)
    offsets = np.arange(0, 4 * n_sequences + 1, 4)
    X = rng.normal(size=(offsets[-1], 5))
    return cp.ChainRisk(X, X[:, :3].argmax(1), offsets, cp.ChainMargin())


def risk_for(case, sparse):
    if case == "margin":
        return chains()
    if case == "parts":
        like = problem(cp.Softmax(), sparse=False, classes=4)
        return cp.StructuredRisk(cp.MulticlassModel(), like.rows.X, like.y)
    return problem(cp.Logistic(), sparse=sparse)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("case", PASSES)
def test_a_pass_ends_soon_after_the_time_limit(case, sparse, monkeypatch):
    make, steps, place = PASSES[case]
    risk = risk_for(case, sparse)
    exact = cp.minimize(risk, cp.L2(1e-2), tol=1e-6, max_iter=3000)
    clock = Clock(monkeypatch)
    monkeypatch.setattr(pieces.Passes, "_in_a_piece", 60)
    if steps is None:
        clock._slow(monkeypatch, cp.StructuredRisk, "part", 10.0)
    else:
        module, _, name = steps.rpartition(".")
        compiled = getattr(import_module(module), name)

        def slowly(*args):
            clock.now += len(args[place])
            return compiled(*args)

        monkeypatch.setattr(import_module(module), name, slowly)
    limit = 60.0  # a pass takes 300 seconds
    found = cp.minimize(risk, cp.L2(1e-2), method=make(), tol=1e-9, time_limit=limit)
    assert found.status == "time_limit"
    assert clock.now <= limit + 35.0
    assert found.certificate.valid
    assert found.certificate.lower_bound <= exact.objective * (1 + 1e-9)
    assert found.objective >= exact.certificate.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("case", [case for case in PASSES if case != "parts"])
def test_in_how_many_pieces_a_pass_is_taken_does_not_show(case, monkeypatch):
    make, risk, found = PASSES[case][0], risk_for(case, sparse=True), []
    for size in (1, 1000, 1 << 20):
        monkeypatch.setattr(pieces.Passes, "_in_a_piece", size)
        found.append(cp.minimize(risk, cp.L2(1e-2), method=make(), tol=1e-9, max_iter=5))
    for other in found[1:]:
        np.testing.assert_array_equal(other.w, found[0].w)
        assert other.certificate == found[0].certificate


def test_a_matrix_that_takes_too_long_is_not_made(monkeypatch):
    risk = problem(cp.Hinge(), sparse=False)
    made = []
    gram = DenseRows.weighted_gram
    monkeypatch.setattr(
        DenseRows, "weighted_gram", lambda self, c: made.append(len(c)) or gram(self, c)
    )
    usual = cp.minimize(risk, cp.L2(1e-3), method=cp.newton(), tol=1e-6)
    assert made
    made.clear()
    monkeypatch.setattr(import_module("cutplane.solvers.newton"), "_SECONDS", 1e3)
    hurried = cp.minimize(risk, cp.L2(1e-3), method=cp.newton(), tol=1e-6, time_limit=1e6)
    assert not made
    assert usual.status == hurried.status == "optimal"
    assert hurried.objective == pytest.approx(usual.objective, rel=2e-6)


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic(), cp.SquaredHinge(), Huber()])
@pytest.mark.parametrize("intercept", [False, True])
def test_directions_with_and_without_a_matrix(loss, intercept, monkeypatch):
    risk = problem(loss, sparse=True)
    risk = cp.ScoredRisk(risk.rows, risk.y, loss, intercept=intercept)
    monkeypatch.setattr(import_module("cutplane.solvers.newton"), "_LEFT", 1e-12)
    monkeypatch.setattr(import_module("cutplane.solvers.newton"), "_MOST_PRODUCTS", 10_000)
    both = []
    for by_products in (False, True):
        steps = SmoothedNewton(Problem(risk, cp.L2(0.1)), by_products=by_products)
        start = risk.at(np.zeros(risk.n_parameters))
        own = steps.initial(start, 0.0 if loss.smoothed(1.0) is loss else 2.0)
        steps.step(own)
        both.append(own.point)
    np.testing.assert_allclose(both[1].w, both[0].w, atol=1e-7 * np.abs(both[0].w).max())
    assert both[1].offset == pytest.approx(both[0].offset, abs=1e-7)


def test_wide_data_need_no_matrix():
    """More features than a matrix of their products has room for, and memory of the data's size."""
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 200_000), density=1e-4, rng=rng).tocsr()
    y = np.where(X.sum(axis=1) > np.median(X.sum(axis=1)), 1, -1)
    found = cp.minimize(cp.ScoredRisk(X, y, cp.Hinge()), cp.L2(1e-3), method=cp.newton())
    assert found.status == "optimal"


@pytest.mark.parametrize("waits", [True, False])
def test_ctrl_c_ends_epochs(waits, monkeypatch):
    monkeypatch.setattr(interrupts._watch, "waiting", waits)
    own = DualAscent(Problem(problem(cp.Hinge(), sparse=True), cp.L2(1e-7)))
    duals, clock = own.initial(), Clock(monkeypatch)
    with pace.using(np.inf, interrupts.is_waiting):
        own.improved(duals, most=20, passes=50.0)
    assert (clock.now == 2.0) is waits  # one epoch


def test_conjugate_gradients_end_with_a_direction_of_descent():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30))
    matrix, right = root @ root.T + 1e-3 * np.eye(30), rng.normal(size=30)
    products = []

    def times(vector):
        products.append(vector)
        return matrix @ vector

    def solved(**options):
        products.clear()
        return conjugate_gradients(
            times, right.copy(), roughly_divided=np.copy, left=1e-13, most=10_000, **options
        )

    np.testing.assert_allclose(matrix @ solved(), right, atol=1e-6)
    with pace.using(-1.0):
        direction = solved()
    assert len(products) == 1
    assert direction @ right > 0.0


def test_pace():
    assert not pace.hurried()
    assert pace.seconds_left() == np.inf
    assert pace.affords(1e300)
    with pace.using(3600.0):
        assert not pace.hurried()
        assert pace.affords(1.0)
        assert not pace.affords(3600.0)
        with pace.using(0.0):
            assert pace.hurried()
    assert not pace.hurried()


def test_steps_of_a_run_that_is_kept_are_whole(tmp_path, monkeypatch):
    # A run that is resumed has the same steps as one that was never stopped.
    risk = problem(cp.Hinge(), sparse=False)
    clock = Clock(monkeypatch)
    found = cp.minimize(
        risk, cp.L2(1e-6), method=cp.newton(), time_limit=60.0, checkpoint=tmp_path / "run"
    )
    assert found.status == "time_limit"
    assert clock.now > 1000.0  # with the matrix
