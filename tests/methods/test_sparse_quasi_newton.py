"""Quasi-Newton steps for sparse weights: exact optima, bounds at each step, models, taggers."""

from itertools import pairwise, product

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.loop import first_state
from cutplane.core.state import Problem
from cutplane.regularizers.l2 import Coordinates
from cutplane.solvers import quasi_newton
from cutplane.solvers.coordinates import low_rank_descent, products_with_rows
from cutplane.solvers.quasi_newton import SparseSteps, bounding

from ..risks.exact import clarabel

LOW, HIGH = np.tile([-0.1, 0.0, -np.inf], 3), np.tile([0.1, np.inf, 0.2], 3)
REGULARIZERS = {
    "L1": cp.L1(0.02),
    "ElasticNet": cp.ElasticNet(0.02, 0.8),
    "nearly L1": cp.ElasticNet(0.02, 0.9999),
    "BoundedElasticNet": cp.BoundedElasticNet(0.02, 0.6, lower=LOW, upper=HIGH),
    "L1, bounded": cp.BoundedElasticNet(0.02, 1.0, lower=LOW, upper=HIGH),
}


def classes(seed, *, m=40):
    """Features, classes and weights, one of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(m, 3))).argmax(axis=1)
    y[:3] = range(3)
    weights = rng.uniform(0.5, 2.0, m)
    weights[-1] = 0.0
    return X, y, weights


def optimum_of_classes(X, y, weights, regularizer, *, intercept):
    """Return the optimum by Clarabel, from the formulas alone."""
    W, c = cvxpy.Variable((3, X.shape[1])), cvxpy.Variable(3)
    p, used = weights / weights.sum(), weights > 0.0
    goal = _penalty(regularizer, cvxpy.vec(W, order="C"))
    for i in np.flatnonzero(used):
        scores = W @ X[i] + (c if intercept else 0.0)
        goal += p[i] * (cvxpy.log_sum_exp(scores) - scores[y[i]])
    form, w = regularizer.by_coordinate(9), cvxpy.vec(W, order="C")
    low, high = np.isfinite(form.lower), np.isfinite(form.upper)
    limits = [w[low] >= form.lower[low]] if low.any() else []
    limits += [w[high] <= form.upper[high]] if high.any() else []
    problem = cvxpy.Problem(cvxpy.Minimize(goal), limits)
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(goal.value)


def _penalty(regularizer, w):
    form = regularizer.by_coordinate(w.size)
    return form.l1 * cvxpy.norm1(w) + 0.5 * cvxpy.sum(cvxpy.multiply(form.l2, cvxpy.square(w)))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", REGULARIZERS)
def test_the_optimum_of_classes_is_that_of_an_exact_solver(kind, intercept):
    X, y, weights = classes(2)
    regularizer = REGULARIZERS[kind]
    risk = cp.ScoredRisk(X, y, cp.Softmax(), weights=weights, intercept=intercept)
    result = cp.minimize(risk, regularizer, method=cp.sparse_quasi_newton(), tol=1e-6)
    optimum = optimum_of_classes(X, y, weights, regularizer, intercept=intercept)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    assert result.certificate.lower_bound <= optimum * (1.0 + 1e-7)
    assert (result.w == 0.0).any()


def chain(seed, *, n_sequences=6):
    """A chain of two labels with random features, and its sequences."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, n_sequences)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.normal(size=(offsets[-1], 3)) * (rng.random((offsets[-1], 3)) < 0.7)
    return X, rng.integers(0, 2, offsets[-1]), offsets


def joint_features(X, labels):
    """Return what the parameters of a chain of two labels are multiplied with, ends included."""
    emissions, pairs, ends = np.zeros((2, 3)), np.zeros((2, 2)), np.zeros((2, 2))
    for x, label in zip(X, labels, strict=True):
        emissions[label] += x
    for before, after in pairwise(labels):
        pairs[before, after] += 1
    ends[0, labels[0]] += 1
    ends[1, labels[-1]] += 1
    return np.concatenate([emissions.ravel(), pairs.ravel(), ends.ravel()])


@pytest.mark.parametrize("regularizer", [cp.L1(0.05), cp.ElasticNet(0.05, 0.7)], ids=repr)
def test_the_optimum_of_a_random_field_is_that_over_all_labels(regularizer):
    X, y, offsets = chain(5)
    risk = cp.ChainRisk(X, y, offsets, cp.ChainCRF(), n_labels=2, ends=True)
    w = cvxpy.Variable(risk.n_parameters)
    goal = _penalty(regularizer, w)
    for begin, end in pairwise(offsets):
        all_labels = product(range(2), repeat=end - begin)
        rows = np.array([joint_features(X[begin:end], labels) for labels in all_labels])
        right = joint_features(X[begin:end], y[begin:end])
        goal += cvxpy.log_sum_exp((rows - right) @ w) / (len(offsets) - 1)
    clarabel(cvxpy.Minimize(goal), 1e-9)
    result = cp.minimize(risk, regularizer, tol=1e-6)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(float(goal.value), rel=1e-5)
    assert result.certificate.lower_bound <= float(goal.value) * (1.0 + 1e-7)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), lam=st.sampled_from([1e-3, 1e-2, 0.2]), l1_ratio=st.floats(0, 1))
def test_bounds_hold_at_every_step(seed, lam, l1_ratio):
    X, y, offsets = chain(seed, n_sequences=4)
    regularizer = cp.L1(lam) if l1_ratio == 1.0 else cp.ElasticNet(lam, l1_ratio)
    loss = cp.ChainCRF()
    risk = cp.ChainRisk(sp.csr_array(X), y, offsets, loss, n_labels=2, observed_only=True)
    result = cp.minimize(risk, regularizer, method=cp.sparse_quasi_newton(), max_iter=60, tol=1e-8)
    lowest = min(record.objective for record in result.history)
    for record in result.history:
        assert record.lower_bound <= lowest * (1.0 + 1e-12)
    # And in comparison with a method that shares neither points nor planes.
    other = cp.minimize(risk, regularizer, method=cp.bmrm(), max_iter=60)
    assert result.certificate.lower_bound <= other.objective * (1.0 + 1e-12)
    assert other.certificate.lower_bound <= result.objective * (1.0 + 1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_the_model_is_that_of_the_bfgs_formula(seed):
    rng = np.random.default_rng(seed)
    n, most = 7, 4
    root = rng.normal(size=(n, n))
    H = root @ root.T + 0.1 * np.eye(n)
    own = SparseSteps.none_yet(most, n)
    pairs = []
    for _ in range(rng.integers(1, 7)):
        step = np.asarray(rng.normal(size=n), dtype=np.float32).astype(np.float64)
        change = (H @ step).astype(np.float32).astype(np.float64)
        own.remember(step, change)
        pairs.append((step, change))
    last = pairs[-1]
    B = last[1] @ last[1] / (last[0] @ last[1]) * np.eye(n)
    for s, y in pairs[-most:]:
        B += np.outer(y, y) / (s @ y) - np.outer(B @ s, B @ s) / (s @ B @ s)
    chosen = np.arange(n)
    diagonal, factor, signs = own.model(np.ones(n), chosen)
    made = np.diag(diagonal) - factor * signs @ factor.T
    np.testing.assert_allclose(made, B, atol=1e-7 * np.abs(B).max() * np.linalg.cond(B))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_descent_finds_the_minimum_of_the_model(seed):
    rng = np.random.default_rng(seed)
    d, rank = 6, 3
    factor, signs = rng.normal(size=(d, rank)), np.array([1.0, -1.0, -1.0])
    diagonal = np.full(d, float(np.linalg.eigvalsh(factor * signs @ factor.T).max()) + 0.5)
    slope, before = rng.normal(size=d), rng.normal(size=d)
    squares = np.column_stack([np.full(d, 0.1), np.zeros(d), np.full(d, -1.5), np.full(d, 1.5)])
    w = before.clip(-1.5, 1.5)
    before = w.copy()
    low_rank_descent(diagonal, factor, signs, slope, (0.3, squares), w, 1e-12, 5000)
    H = np.diag(diagonal) - factor * signs @ factor.T
    at = slope + H @ (w - before)
    form = Coordinates.of(d, l1=0.3, l2=0.1, lower=-1.5, upper=1.5)
    assert form.descents(w, at).max() <= 1e-8


def test_products_are_those_of_numpy():
    rng = np.random.default_rng(1)
    rows, vector = rng.normal(size=(3, 50)).astype(np.float32), rng.normal(size=50)
    np.testing.assert_allclose(products_with_rows(rows, vector), rows @ vector, rtol=1e-12)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    l2=st.sampled_from([0.0, 1e-6, 0.1]),
    bounded=st.booleans(),
    centered=st.booleans(),
)
def test_no_other_scale_of_a_plane_bounds_more(seed, l2, bounded, centered):
    rng = np.random.default_rng(seed)
    form = Coordinates.of(
        5, l1=0.3, l2=l2, center=rng.normal(size=5) if centered and l2 else None,
        lower=-1.0 if bounded else -np.inf,
    )  # fmt: skip
    plane, floor = cp.Plane(rng.normal(size=5), abs(rng.normal())), 0.0
    made = bounding(plane, form, floor)

    def bound(of):
        return of.offset - form.conjugate(-of.slope)[0]

    best = bound(made)
    assert np.isfinite(best)
    for scale in np.linspace(0.0, 1.0, 50):
        other = bound(cp.Plane(scale * plane.slope, scale * plane.offset + (1 - scale) * floor))
        assert best >= other - 0.02 * abs(other) - 1e-3


def awkward_classes(seed):
    """Return rows, labels and lam: features that are zero, constant or of wild sizes, small lams.

    Near an optimum of about 1e-10 what a step promises is rounding, of either sign.
    """
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    m = int(rng.choice([k, k + 1, 12]))
    X = rng.normal(size=(m, d)).round(int(rng.integers(0, 6)))
    kind = seed % 4
    if kind == 0:
        X[:, 0] = 0.0
    elif kind == 1:
        X[:, 0] = 1.0
    elif kind == 2:
        X *= 10.0 ** rng.uniform(-60, 60)
    else:
        X[:] = X[0]
    y = np.append(np.arange(k), np.zeros(m - k, dtype=int))
    lam = 10.0 ** (rng.uniform(-12, -8) if seed % 3 else rng.uniform(6, 12))
    return X, y, lam


@pytest.mark.parametrize("seed", range(12))
def test_awkward_features_and_lams_end_with_finite_numbers(seed):
    X, y, lam = awkward_classes(seed)
    for intercept in (True, False):
        pairs = cp.data.AllPairs(cp.as_rows(X), int(y.max()) + 1)
        risk = cp.ScoredRisk(pairs, y, cp.Softmax(), intercept=intercept)
        for regularizer in (cp.L1(lam), cp.ElasticNet(lam, 0.5)):
            method = cp.solvers.sparse_quasi_newton()
            result = cp.minimize(risk, regularizer, method=method, tol=1e-8, max_iter=60)
            assert np.isfinite(result.w).all()
            assert np.isfinite(result.objective)


def test_a_direction_that_promises_nothing_is_given_up(monkeypatch):
    """The model may lead uphill by rounding, along a line on which the risk does not bend."""
    flat = cp.FunctionRisk(
        lambda w: (1.0 + w.sum(), np.ones(3)), 3, convex=True, lower_bound=-np.inf
    )
    monkeypatch.setattr(quasi_newton, "minimum_of_model", lambda own, w, *others: w + 2.0**-20)
    monkeypatch.setattr(quasi_newton, "coordinates_of", lambda problem: None)
    state = first_state(Problem(flat, cp.L1(0.25)), None, cp.bmrm(), convex=True)
    own = SparseSteps.none_yet(5, 3)
    step = quasi_newton.SparseQuasiNewton().step(state, own)
    assert all(np.isfinite(point.value) for point in step.points)


@pytest.mark.parametrize("sizes", [(1e60, 1.0), (1.0, 1e60), (1e-60, 1.0)])
def test_steps_beyond_single_precision_are_not_remembered(sizes):
    past = quasi_newton.PastSteps.none_yet(5, 3)
    past.remember(*(size * np.ones(3) for size in sizes))
    assert not past.slots
    past.remember(np.ones(3), np.ones(3))
    assert len(past.slots) == 1
