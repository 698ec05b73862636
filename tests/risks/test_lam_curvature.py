"""Bounds by the curvature of the loss: they hold, and are far narrower than balls."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.data import as_rows
from cutplane.lam_proof.bounds import CurvedStretch, LamBounds, Stretch, _Metric, is_curved

from .test_lam_bounds import anchored

STEADY = [cp.Logistic(), cp.Exponential(), cp.Poisson(), cp.Squared()]


def problem(loss, *, intercept=True, seed=0, sparse=False, n=80, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * (rng.uniform(size=(n, 4)) < 0.6) + np.array([0.5, 0, 0, -0.3])
    y = X @ [1.0, -1.0, 0.3, 0.0] + rng.normal(size=n)
    if loss.task == "classification":
        y = np.where(y > 0.0, 1.0, -1.0)
    elif isinstance(loss, cp.Poisson):
        y = rng.poisson(np.exp(np.clip(y, -2.0, 2.0))).astype(float)
    X, half = np.ascontiguousarray(X[:, :d]), n // 2
    seen = sp.csr_array(X[half:]) if sparse else X[half:]
    X = sp.csr_array(X[:half]) if sparse else X[:half]
    return cp.ScoredRisk(X, y[:half], loss, intercept=intercept), as_rows(seen)


def curved_stretch(risk, rows, lams, tol):
    bounds = LamBounds(risk, rows)
    states = [cp.minimize(risk, cp.L2(lam), tol=tol, max_iter=5000).state for lam in lams]
    ends = [anchored(bounds, lam, state) for lam, state in zip(lams, states, strict=True)]
    return bounds, bounds.curved(*ends), ends


@pytest.mark.parametrize("loss", STEADY, ids=repr)
@given(
    seed=st.integers(0, 10**6),
    intercept=st.booleans(),
    sparse=st.booleans(),
    tol=st.sampled_from([1e-2, 1e-4, 1e-8]),
    ratio=st.sampled_from([1.0, 0.9, 0.5, 0.1]),
    lam=st.sampled_from([1.0, 0.1, 1e-3]),
    part=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    d=st.sampled_from([4, 1]),
)
@settings(max_examples=30, deadline=None)
def test_scores_of_the_best_models_are_in_their_ranges(
    loss, seed, intercept, sparse, tol, ratio, lam, part, d
):
    risk, rows = problem(loss, intercept=intercept, seed=seed, sparse=sparse, d=d)
    _, curved, _ = curved_stretch(risk, rows, (lam, lam * ratio), tol)
    high, low = (lam * ratio**share for share in sorted(part))
    found = curved.scores(high, low)
    if found is None:
        return  # nothing is claimed
    lower, upper = found
    for one in np.geomspace(high, low, 3):
        best = cp.minimize(risk, cp.L2(one), tol=1e-11, max_iter=5000)
        scores = rows.scores(best.w) + best.point.intercept
        # How far the best fit may be off itself, intercept included.
        slack = 10.0 * np.sqrt(2.0 * max(best.certificate.gap, 1e-16) / one) + 1e-8
        assert (scores >= lower - slack).all()
        assert (scores <= upper + slack).all()


@pytest.mark.parametrize("loss", STEADY, ids=repr)
def test_they_are_known_and_narrower_than_balls(loss):
    risk, rows = problem(loss, n=2000)
    bounds, curved, ends = curved_stretch(risk, rows, (0.01, 0.009), 1e-8)
    lower, upper = curved.scores(0.0095, 0.0095)
    stretch = Stretch(bounds, *ends)
    np.testing.assert_allclose(stretch.scores(0.0095, 0.0095), (lower, upper), rtol=1e-3)
    stretch._curved = None
    least, most = stretch.scores(0.0095, 0.0095)
    assert np.mean(upper - lower) < 0.3 * np.mean(most - least)
    assert (np.maximum(lower, least) <= np.minimum(upper, most)).all()


@pytest.mark.parametrize("loss", STEADY, ids=repr)
@given(z=st.floats(-30, 30), step=st.floats(-5, 5), y=st.sampled_from([-1.0, 1.0]))
@settings(deadline=None)
def test_the_logarithm_of_the_curvature_changes_no_faster_than_the_score(loss, z, step, y):
    y = abs(y) if isinstance(loss, cp.Poisson) else y
    before, after = loss.curvatures(np.array([y, y]), np.array([z, z + step]), np.ones(2))
    assert abs(np.log(after) - np.log(before)) <= abs(step) + 1e-9


def test_losses_with_kinks_have_no_steady_curvature():
    for loss in (cp.Hinge(), cp.SquaredHinge(), cp.Huber(), cp.SmoothHinge()):
        assert not is_curved(problem(loss)[0])


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_norms_are_those_of_the_inverse(sparse, intercept):
    risk, rows = problem(cp.Logistic(), intercept=intercept, sparse=sparse)
    weights = np.random.default_rng(1).uniform(size=40)
    metric = _Metric.of(risk, weights, 0.1)
    X, seen = (np.array([r.scores(e) for e in np.eye(4)]).T for r in (risk.rows, rows))
    ridge = np.eye(4) * 0.1
    if intercept:
        X, seen = (np.column_stack([each, np.ones(40)]) for each in (X, seen))
        ridge = np.diag([0.1] * 4 + [0.0])
    inverse = np.linalg.inv(X.T @ (weights[:, None] * X) + ridge)
    np.testing.assert_allclose(metric.inverse, inverse, rtol=1e-8, atol=1e-12)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", seen, inverse, seen))
    np.testing.assert_allclose(metric.norms(rows), expected, rtol=1e-6, atol=1e-6)


def in_extended_precision(metric, parts, mixture):
    """Return the norm of a mixture of vectors, by the factor of the metric."""
    factor, vector = (np.asarray(a).astype(np.longdouble) for a in (metric.factor, mixture @ parts))
    solved = np.zeros_like(vector)
    for i in range(len(vector)):
        solved[i] = (vector[i] - factor[i, :i] @ solved[:i]) / factor[i, i]
    return np.sqrt(solved @ solved)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("d", [1, 4])
def test_a_gradient_of_nearly_zero_is_no_shorter_than_it_is(d, intercept):
    for seed in range(20):
        risk, rows = problem(cp.Logistic(), intercept=intercept, seed=seed, d=d)
        _, curved, _ = curved_stretch(risk, rows, (1.0, 0.05), 1e-10)
        # Vectors that cancel but for their last digits.
        rng = np.random.default_rng(seed)
        parts = np.array(10.0 ** rng.uniform(-3, 3, (4, 1)) * rng.normal(size=(1, d + intercept)))
        mixture = rng.normal(size=4)
        parts[3] = -(mixture[:3] @ parts[:3]) / mixture[3] * (1.0 + rng.choice([0.0, 1e-13, 1e-9]))
        curved._roots = curved._metric.divided(parts)
        curved._gram = curved._roots @ curved._roots.T
        exact = in_extended_precision(curved._metric, parts.astype(np.longdouble), mixture)
        found = curved._length(mixture)
        assert exact <= found
        longest = np.abs(mixture * np.linalg.norm(curved._roots, axis=1)).max()
        assert found <= 1.2 * exact + 1e-10 * longest


def test_what_is_nearly_singular_or_far_away_is_left_to_the_balls():
    risk, rows = problem(cp.Logistic())
    assert _Metric.of(risk, np.zeros(40), 0.1) is None  # nothing holds the intercept
    _, curved, ends = curved_stretch(risk, rows, (1.0, 1e-6), 1e-2)
    assert curved.scores(1.0, 1e-6) is None
    flat = CurvedStretch(risk, rows, *ends, np.zeros(40))
    assert flat.scores(1.0, 1.0) is None
