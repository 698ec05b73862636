"""Coordinate descent: bounds that hold at each step, exact optima, every loss, layout and bound."""

from itertools import product

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy.transforms import indicator
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.regularizers.l2 import Coordinates
from cutplane.solvers import coordinates

from ..risks.exact import TWINS, clarabel

LOSSES = [factory() for factory in (*CLASSIFICATION.values(), *REGRESSION.values())]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "csr": sp.csr_array,
    "float32": lambda X: X.astype(np.float32),
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
}
LOW, HIGH = np.array([-0.1, 0.0, -np.inf, 0.05, -np.inf]), np.array([0.1, np.inf, 0.0, 0.3, np.inf])
REGULARIZERS = {
    "L1": lambda lam: cp.L1(lam),
    "ElasticNet": lambda lam: cp.ElasticNet(lam, 0.7),
    "L2": lambda lam: cp.L2(lam, center=LOW.clip(-1, 1)),
    "BoundedL2": lambda lam: cp.BoundedL2(lam, lower=LOW, upper=HIGH),
    "BoundedElasticNet": lambda lam: cp.BoundedElasticNet(lam, 0.4, lower=LOW, upper=HIGH),
    "L1, bounded": lambda lam: cp.BoundedElasticNet(lam, 1.0, lower=LOW, upper=HIGH),
}


def sample(loss, seed, layout="rows", *, m=40, d=5):
    """Rows whose numbers float32 has exactly, targets, and weights of which one is zero."""
    rng = np.random.default_rng(seed)
    X = np.round(4 * rng.normal(size=(m, d))) / 4 * (rng.uniform(size=(m, d)) < 0.7)
    if loss.task == "classification":
        y = rng.choice([-1.0, 1.0], m)
    else:
        y = rng.poisson(1.5, m) if isinstance(loss, cp.Poisson) else 3.0 * rng.normal(size=m)
    weights = rng.uniform(0.5, 2.0, m)
    weights[m // 2] = 0.0
    return LAYOUTS[layout](X), y.astype(np.float64), weights


def exact(X, y, weights, loss, regularizer, *, intercept):
    """Return the optimum by Clarabel, from the formulas alone."""
    w, c = cvxpy.Variable(X.shape[1]), cvxpy.Variable()
    used = weights > 0.0
    scores = X[used] @ w + (c if intercept else 0.0)
    p = weights[used] / weights.sum()
    form = regularizer.by_coordinate(X.shape[1])
    goal = p @ TWINS[type(loss)].expression(loss, y[used], scores) + form.l1 * cvxpy.norm1(w)
    goal += 0.5 * cvxpy.sum(cvxpy.multiply(form.l2, cvxpy.square(w - form.center)))
    low, high = np.isfinite(form.lower), np.isfinite(form.upper)
    limits = [w[low] >= form.lower[low]] if low.any() else []
    limits += [w[high] <= form.upper[high]] if high.any() else []
    clarabel(cvxpy.Minimize(goal + indicator(limits) if limits else goal), 1e-9)
    return float(goal.value)


@every_loss
@pytest.mark.parametrize("kind", REGULARIZERS)
def test_the_optimum_is_that_of_an_exact_solver(loss, kind):
    X, y, weights = sample(loss, 3)
    regularizer = REGULARIZERS[kind](0.05)
    risk = cp.ScoredRisk(X, y, loss, weights=weights)
    result = cp.minimize(risk, regularizer, method=cp.coordinate_descent(), tol=1e-7)
    optimum = exact(X, y, weights, loss, regularizer, intercept=True)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(optimum, rel=2e-6)
    form = regularizer.by_coordinate(5)
    assert ((result.w >= form.lower) & (result.w <= form.upper)).all()


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(LOSSES),
    st.sampled_from(sorted(REGULARIZERS)),
    st.sampled_from(sorted(LAYOUTS)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 50),
)
def test_bounds_hold_at_every_step(loss, kind, layout, intercept, by_columns, seed):
    X, y, weights = sample(loss, seed, layout)
    risk = cp.ScoredRisk(X, y, loss, weights=weights, intercept=intercept)
    regularizer = REGULARIZERS[kind](0.02)
    with pytest.MonkeyPatch.context() as patch:
        if by_columns:
            patch.setattr(coordinates, "prefers_gram", lambda rows: False)
        result = cp.minimize(risk, regularizer, method=cp.coordinate_descent(), tol=1e-6)
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.valid
    lowest = result.objective
    for record in result.history:
        assert record.lower_bound <= lowest + 1e-12 * abs(lowest)
        assert record.objective >= lowest - 1e-12 * abs(lowest)
    # And no other point is lower.
    rng = np.random.default_rng(seed)
    form = regularizer.by_coordinate(5)
    for _ in range(5):
        w = np.clip(result.w + 0.1 * rng.normal(size=5), form.lower, form.upper)
        assert regularizer.value(w) + risk.at(w).value >= result.certificate.lower_bound


@pytest.mark.parametrize("loss", [cp.Logistic(), cp.Squared(), cp.Hinge()], ids=repr)
def test_all_ways_to_a_step_lead_to_the_same_optimum(loss, monkeypatch):
    X, y, weights = sample(loss, 1, m=60, d=12)
    found = []
    for by_gram in (True, False):
        monkeypatch.setattr(coordinates, "prefers_gram", lambda rows, by_gram=by_gram: by_gram)
        for layout in ("rows", "csr"):
            risk = cp.ScoredRisk(LAYOUTS[layout](X), y, loss, weights=weights)
            method = cp.coordinate_descent()
            result = cp.minimize(risk, cp.L1(0.05), method=method, tol=1e-8)
            assert result.status is cp.Status.OPTIMAL
            found.append(result)
    for other in found[1:]:
        assert other.objective == pytest.approx(found[0].objective, rel=2e-8)
    assert len({tuple(np.flatnonzero(result.w)) for result in found}) == 1


def test_zeros_are_exact_and_more_for_a_larger_lam():
    X, y, _ = sample(cp.Logistic(), 5, m=200, d=30)
    counts = [
        np.count_nonzero(
            cp.minimize(
                cp.ScoredRisk(X, y, cp.Logistic()), cp.L1(lam), method=cp.coordinate_descent()
            ).w
        )
        for lam in (1.0, 0.03, 0.001)
    ]
    assert counts[0] == 0
    assert counts[0] < counts[1] < counts[2]


def test_columns_of_zeros_and_equal_columns():
    X, y, _ = sample(cp.Squared(), 2, d=4)
    X = np.hstack([X, np.zeros((len(y), 1)), X[:, :1]])
    for most in (X, sp.csr_array(X)):
        risk = cp.ScoredRisk(most, y, cp.Squared())
        # From a start that is not zero there.
        result = cp.minimize(
            risk, cp.L1(0.05), method=cp.coordinate_descent(), start=np.ones(6), tol=1e-7
        )
        assert result.status is cp.Status.OPTIMAL
        assert result.w[4] == 0.0


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.booleans(), st.sampled_from([0.0, 0.3]), st.floats(0.0, 1.0))
@example(135, False, 0.0, 5e-324)
def test_conjugate_of_a_sum_over_coordinates(seed, bounded, l2, l1):
    rng = np.random.default_rng(seed)
    n = 4
    lower = np.where(bounded, -rng.uniform(0, 1, n), -np.inf)
    upper = np.where(bounded, rng.uniform(0, 1, n), np.inf)
    center = rng.normal(size=n) if l2 else None
    form = Coordinates.of(n, l1=l1, l2=l2, center=center, lower=lower, upper=upper)
    u = rng.normal(size=n)
    u *= form.scale_for(u)
    conjugate, w = form.conjugate(u)
    assert np.isfinite(conjugate)
    assert conjugate == pytest.approx(float(u @ w) - form.value(w), abs=1e-12)
    for _ in range(10):
        other = np.clip(w + rng.normal(size=n), lower, upper)
        assert u @ other - form.value(other) <= conjugate + 1e-12
        fall = form.descents(other, -u)
        assert (fall >= 0.0).all()
    assert form.descents(w, -u).max() <= 1e-9


def test_kernels_against_plain_formulas():
    rng = np.random.default_rng(0)
    X, h = rng.normal(size=(30, 6)), rng.uniform(0.1, 1.0, 30)
    csc = sp.csc_array(X)
    matrix = (csc.data, csc.indices, csc.indptr)
    chosen = np.arange(6)
    second, first = coordinates.sparse_moments(matrix, chosen, h)
    np.testing.assert_allclose(second, (h[:, None] * X**2).sum(axis=0))
    np.testing.assert_allclose(first, h @ X)
    speed = np.zeros(30)
    coordinates.sparse_scores(matrix, chosen, np.arange(6.0), speed)
    np.testing.assert_allclose(speed, X @ np.arange(6.0))
    # Both ways to the minimum of the same model, with and without an intercept.
    g = rng.normal(size=30)
    g -= g.mean()
    forms = [
        Coordinates.of(6, l1=0.5, l2=0.1),
        Coordinates.of(6, l1=0.5, l2=0.1, lower=-0.02, upper=0.01),
        Coordinates.of(6, l2=0.1, lower=-0.02),
    ]
    for intercept, form in product((True, False), forms):
        model = coordinates.QuadraticModel(np.zeros(6), X.T @ g, g, h, intercept, form)
        steps = [
            coordinates.minimum_by_gram(cp.as_rows(X), model, 1e-12),
            coordinates.minimum_by_columns(matrix, chosen, chosen, model, 1e-12),
        ]

        def height(w, c, model=model):
            r = X @ w + c
            return g @ r + 0.5 * h @ r**2 + model.form.value(w)

        for step in steps:
            np.testing.assert_allclose(step.w, steps[0].w, atol=1e-9)
            np.testing.assert_allclose(step.speed, X @ step.w, atol=1e-9)
            lowest = height(step.w, step.intercept)
            for _ in range(20):
                w = step.w + 0.1 * rng.normal(size=6)
                c = step.intercept + (0.1 * rng.normal() if intercept else 0.0)
                w = np.clip(w, form.lower, form.upper)
                assert height(w, c) >= lowest - 1e-12
        assert (steps[0].intercept == 0.0) is not intercept


def test_what_it_needs_is_said():
    X, y, _ = sample(cp.Logistic(), 0)
    with pytest.raises(ValueError, match="needs a regularizer that is a sum over coordinates"):
        cp.minimize(
            cp.ScoredRisk(X, y, cp.Logistic()), cp.SquaredLp(0.1, 1.5),
            method=cp.coordinate_descent(),
        )  # fmt: skip
    with pytest.raises(ValueError, match="needs a loss with second derivatives"):
        cp.minimize(cp.ScoredRisk(X, y, cp.ROCArea()), cp.L1(0.1), method=cp.coordinate_descent())
