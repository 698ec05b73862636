"""Paths of losses made of straight pieces: exact at every lam, and never sure of what is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.data import as_rows
from cutplane.lam_proof.bounds import LamBounds
from cutplane.lam_proof.path import KinkPath, kinks_of

LOSSES = [cp.Hinge(), cp.Absolute(), cp.Quantile(0.8), cp.EpsilonInsensitive(0.3)]
HIGH, LOW = 1.0, 1e-3


def sample(loss, *, seed=0, m=60, d=4, whole=False):
    """Return features and targets; whole numbers make ties, equal rows and dependent ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) + np.linspace(-1.0, 1.0, d)
    if whole:
        X = np.round(X)
    y = X @ rng.normal(size=d) + rng.normal(size=m)
    if whole:
        y = np.round(y)
    return X, np.where(y > 0.0, 1.0, -1.0) if loss.task == "classification" else y


def bounds_of(loss, X, y, n, *, intercept=True, weights=None, signs_only=False):
    risk = cp.ScoredRisk(X[:n], y[:n], loss, intercept=intercept, weights=weights)
    return LamBounds(risk, as_rows(X[n:]), signs_only=signs_only)


def follow(bounds, high=HIGH, low=LOW):
    start = cp.minimize(bounds.risk, cp.L2(high), tol=1e-2).w
    bounds.path.cover(high, low, start)
    return bounds.path


def check_ranges(bounds, lams):
    """All optimal scores lie in the ranges, as far as nearly exact fits can tell."""
    known = None
    for lam in lams:
        best = cp.minimize(bounds.risk, cp.L2(lam), tol=1e-11, planes_from=known, max_iter=5000)
        known = best.state
        found = bounds.path.scores(lam, lam)
        if found is None:
            continue
        slack = np.sqrt(2.0 * best.certificate.gap / lam) * np.sqrt(bounds.rows.squared_norms())
        scores = bounds.rows.scores(best.w) + best.point.intercept
        assert (scores >= found[0] - slack - 1e-5).all()
        assert (scores <= found[1] + slack + 1e-5).all()


def gap_of(path):
    """Return the gap at the end of a path, from its duals alone, and that of the objective."""
    risk, kinks, u = path.risk, path._kinks, path._u
    pull, total = path._others()
    theta, w, c = path._settled(pull, total)
    duals = np.where(path._side > 0, kinks.high, kinks.low)
    duals[path._members] = theta[: len(path._members)] / u
    assert (duals >= kinks.low - 1e-12).all()
    assert (duals <= kinks.high + 1e-12).all()
    if risk.minimizes_intercept:
        assert abs(duals.sum()) <= 1e-12
    slopes = np.bincount(kinks.rows, duals, minlength=risk.rows.shape[0])
    np.testing.assert_allclose(w, -u * risk.rows.pullback(slopes), rtol=1e-9, atol=1e-9)
    upper = w @ w / (2.0 * u) + risk.loss.value(risk.y, risk.rows.scores(w) + c, risk.weights)
    lower = -(duals @ kinks.at) - w @ w / (2.0 * u)
    return upper - lower, upper


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_the_path_is_exact(loss, intercept, whole):
    X, y = sample(loss, whole=whole)
    bounds = bounds_of(loss, X, y, 39, intercept=intercept)  # so that classes are not as many
    for low in np.geomspace(HIGH, LOW, 7):
        path = follow(bounds, low=low)
        assert not path._is_lost
        np.testing.assert_allclose(path._u, 1.0 / low)
        gap, objective = gap_of(path)
        assert abs(gap) <= 1e-8 * objective


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_best_scores_lie_in_the_ranges(loss, intercept):
    X, y = sample(loss, seed=1)
    weights = np.random.default_rng(0).uniform(size=40)
    weights[:3] = 0.0
    bounds = bounds_of(loss, X, y, 40, intercept=intercept, weights=weights)
    path = follow(bounds)
    lams = np.geomspace(HIGH, LOW, 30)
    check_ranges(bounds, lams)
    widths = [np.subtract(*path.scores(lam, lam)[::-1]).mean() for lam in lams]
    assert np.median(widths) < 0.3
    whole = path.scores(HIGH, LOW)
    for lam in lams:
        lower, upper = path.scores(lam, lam)
        assert (whole[0] <= lower + 1e-9).all()
        assert (upper <= whole[1] + 1e-9).all()


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(LOSSES),
    st.integers(0, 10**6),
    st.integers(3, 30),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
)
def test_ranges_hold_with_ties_and_equal_rows(loss, seed, m, d, intercept, repeated):
    X, y = sample(loss, seed=seed, m=m + 5, d=d, whole=True)
    if repeated:
        X[: m // 2], y[: m // 2] = X[0], y[0]
    bounds = bounds_of(loss, X, y, m, intercept=intercept)
    follow(bounds)
    check_ranges(bounds, np.geomspace(HIGH, LOW, 6))


@pytest.mark.parametrize("intercept", [True, False])
def test_signs_need_no_narrow_ranges(intercept):
    X, y = sample(cp.Hinge(), m=400, seed=2)
    narrow, wide = (
        follow(bounds_of(cp.Hinge(), X, y, 200, intercept=intercept, signs_only=signs_only))
        for signs_only in (False, True)
    )
    for high, low in ((0.5, 0.2), (0.05, 0.02), (0.003, 0.002)):
        (lower, upper), (lowest, highest) = narrow.scores(high, low), wide.scores(high, low)
        assert (lowest <= lower + 1e-9).all()
        assert (highest >= upper - 1e-9).all()
        np.testing.assert_array_equal(lower > 0.0, lowest > 0.0)
        np.testing.assert_array_equal(upper < 0.0, highest < 0.0)


def test_examples_that_can_be_separated():
    X = np.linspace(-2.0, 2.0, 21)[:, None]
    y = np.where(X[:, 0] > 0.1, 1.0, -1.0)
    bounds = bounds_of(cp.Hinge(), np.vstack((X, X)), np.append(y, y), 21)
    follow(bounds, low=1e-6)
    check_ranges(bounds, np.geomspace(HIGH, 1e-6, 12))


def test_an_intercept_with_a_range_is_not_known():
    # As many of either class, all within their margins: intercepts near zero are equally good.
    X, y = np.array([[0.1], [0.1], [-0.1], [-0.1], [0.0]]), np.array([1.0, 1.0, -1.0, -1.0, 1.0])
    bounds = bounds_of(cp.Hinge(), X, y, 4)
    assert follow(bounds, high=1.0, low=0.5).scores(1.0, 0.5) is None


def test_kinks_are_those_of_the_loss():
    rng = np.random.default_rng(0)
    for loss in LOSSES:
        X, y = sample(loss)
        risk = cp.ScoredRisk(X, y, loss, weights=rng.uniform(size=len(y)))
        kinks = kinks_of(risk)
        z = rng.normal(scale=2.0, size=len(y))
        beyond = z[kinks.rows] - kinks.at
        slopes = np.bincount(kinks.rows, np.where(beyond > 0.0, kinks.high, kinks.low))
        np.testing.assert_allclose(slopes, risk.loss.slopes(risk.y, z, risk.weights))
    for smooth in (cp.SquaredHinge(), cp.Logistic(), cp.Huber()):
        X, y = sample(smooth)
        assert kinks_of(cp.ScoredRisk(X, y, smooth)) is None


def test_too_many_members_end_the_path(monkeypatch):
    monkeypatch.setattr(KinkPath, "few_members", 2)
    monkeypatch.setattr(KinkPath, "most_members", 4)
    X, y = sample(cp.Absolute(), d=8)
    bounds = bounds_of(cp.Absolute(), X, y, 40)
    path = follow(bounds)
    assert not path.is_alive
    assert path.scores(HIGH, LOW) is None
    monkeypatch.setattr(KinkPath, "most_members", 64)
    bounds = bounds_of(cp.Absolute(), X, y, 40)
    assert follow(bounds).is_alive
    check_ranges(bounds, np.geomspace(HIGH, LOW, 5))


def test_time_and_forgetting():
    X, y = sample(cp.Hinge())
    bounds = bounds_of(cp.Hinge(), X, y, 40)
    bounds.stop_at(0.0)
    path = follow(bounds)
    assert path.scores(HIGH, LOW) is None
    bounds = bounds_of(cp.Hinge(), X, y, 40)
    path = follow(bounds)
    bounds.forget_above(0.01)
    assert path.scores(HIGH, LOW) is None
    assert path.scores(0.01, LOW) is not None
