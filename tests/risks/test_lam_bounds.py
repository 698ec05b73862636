"""Bounds for lams that were not fitted: never violated by the best models for these lams."""

from itertools import pairwise

import numpy as np
import pytest

import cutplane as cp
from cutplane.data import as_rows
from cutplane.lam_proof.bounds import LamBounds, Stretch, score_ranges

LOSSES = [
    cp.Hinge(),
    cp.SquaredHinge(),
    cp.Logistic(),
    cp.Absolute(),
    cp.Quantile(0.8),
    cp.Huber(),
    cp.Squared(),
]


def problem(loss, *, intercept, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) + np.array([1.0, 0.0, -2.0, 0.5])
    y = X @ [1.0, -1.0, 0.3, 0.0] + rng.normal(size=60)
    y = np.where(y > 0.0, 1.0, -1.0) if loss.task == "classification" else 5.0 + y
    return cp.ScoredRisk(X[:40], y[:40], loss, intercept=intercept), as_rows(X[40:])


def fitted(risk, lam, tol):
    return cp.minimize(risk, cp.L2(lam), tol=tol, max_iter=5000)


def a_plane(result):
    state = result.state
    state.bundle.minimize(state.problem, accuracy=0.0)
    return state.bundle.aggregate()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_balls_hold_the_best_parameters_for_any_lam(loss, intercept):
    risk, _ = problem(loss, intercept=intercept)
    rough = fitted(risk, 0.1, 0.1)
    w, touching, plane = rough.w, rough.point.plane(), a_plane(rough)
    for lam in np.geomspace(1.0, 0.01, 5):
        best = fitted(risk, lam, 1e-10)
        slack = np.sqrt(2.0 * best.certificate.gap / lam) + 1e-9  # how far it may be off itself
        for a, b in ((touching.slope, touching.offset), (plane.slope, plane.offset)):
            square = np.sum((w - a / lam) ** 2) / 4.0 + (rough.point.value - b) / lam
            away = np.linalg.norm(best.w - (w - a / lam) / 2.0)
            assert away <= np.sqrt(square) + slack
            gap = lam / 2 * w @ w + rough.point.value - b + a @ a / (2 * lam)
            assert np.linalg.norm(best.w - w) <= np.sqrt(2.0 * gap / lam) + slack
            # The one ball lies inside the other.
            shift = np.linalg.norm(w + a / lam) / 2.0
            assert shift + np.sqrt(square) <= np.sqrt(2.0 * gap / lam) * (1 + 1e-9)
        # With the plane that touches the risk at w it is the ball of monotonicity.
        radius = np.linalg.norm(w + touching.slope / lam) / 2.0
        square = np.sum((w - touching.slope / lam) ** 2) / 4.0
        square += (rough.point.value - touching.offset) / lam
        np.testing.assert_allclose(np.sqrt(square), radius, rtol=1e-9)


def anchored(bounds, lam, state):
    """Return what a run has found: its best point, and its best plane."""
    state.bundle.minimize(state.problem, accuracy=state.accuracy)
    return bounds.anchor(lam, state.problem, state.best, state.bundle.aggregate())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("tol", [0.1, 1e-6])
def test_scores_between_two_fits_lie_in_their_ranges(loss, intercept, tol):
    risk, rows = problem(loss, intercept=intercept)
    bounds = LamBounds(risk, rows)
    ends = [anchored(bounds, lam, fitted(risk, lam, tol).state) for lam in (0.2, 0.05)]
    stretch = Stretch(bounds, *ends)
    edges = np.geomspace(0.2, 0.05, 5)
    for high, low in pairwise(edges):
        lower, upper = stretch.scores(high, low)
        for lam in np.geomspace(high, low, 3):
            best = fitted(risk, lam, 1e-11)
            slack = np.sqrt(2.0 * best.certificate.gap / lam) * np.sqrt(rows.squared_norms())
            scores = rows.scores(best.w) + best.point.intercept
            # An intercept of a loss with kinks may have a range, of which all are bounded.
            slack = slack + (0.0 if risk.loss.smooth else 1e-6) + 1e-8
            assert (scores >= lower - slack).all()
            assert (scores <= upper + slack).all()


def test_shorter_intervals_have_narrower_ranges():
    risk, rows = problem(cp.Logistic(), intercept=True)
    bounds = LamBounds(risk, rows)
    ends = [anchored(bounds, lam, fitted(risk, lam, 1e-9).state) for lam in (0.2, 0.1)]
    stretch = Stretch(bounds, *ends)
    wide, narrow, point = (
        np.mean(np.subtract(*stretch.scores(high, low)[::-1]))
        for high, low in [(0.2, 0.1), (0.15, 0.14), (0.145, 0.145)]
    )
    assert point < narrow < 0.2 * wide


def test_ranges_of_scores_are_those_of_the_polynomial():
    rng = np.random.default_rng(0)
    powers, products, reach = rng.normal(size=(3, 4)), rng.normal(size=(4, 9)), np.ones(9)
    lower, upper = score_ranges(powers, products, reach, 0.5)
    way = np.linspace(0.0, 1.0, 201)[:, None]
    centers = 0.5 * (powers[0] + way * powers[1] + way**2 * powers[2]) @ products
    assert (lower <= centers.min(axis=0) - 0.5 + 1e-12).all()
    assert (upper >= centers.max(axis=0) + 0.5 - 1e-12).all()
    bend = np.abs(0.5 * powers[2] @ products) / 4.0
    assert (lower >= centers.min(axis=0) - 0.5 - bend - 1e-12).all()
