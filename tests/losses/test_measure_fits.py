"""Fits for measures: the bounds hold against an exact solver that sees every labeling."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.losses import ROCArea

from . import brute_force
from .test_measures import LOSSES, every_loss

SEES_INTERCEPT = [loss for loss in LOSSES if not loss.of_differences]


def optimum(loss, X, y, lam, intercept):
    """Return the minimum of the objective by a quadratic program over all labelings, or pairs."""
    w, c = cvxpy.Variable(X.shape[1]), cvxpy.Variable()
    scores = X @ w + (c if intercept and not loss.of_differences else 0.0)
    if isinstance(loss, ROCArea):
        pairs = [(i, j) for i in np.flatnonzero(y > 0) for j in np.flatnonzero(y < 0)]
        first, second = np.array(pairs).T
        risk = cvxpy.sum(cvxpy.pos(1.0 - scores[first] + scores[second])) / len(pairs)
    else:
        slopes, offsets = brute_force.planes(loss, y)
        risk = cvxpy.max(slopes @ scores + offsets)
    objective = 0.5 * lam * cvxpy.sum_squares(w) + risk
    problem = cvxpy.Problem(cvxpy.Minimize(objective))
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def small_problem(seed, size=8):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(size) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return (rng.normal(size=(size, 3)) + 0.4 * y[:, None]).round(1), y


@every_loss
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-3, 0.1, 3.0]), intercept=st.booleans())
@settings(max_examples=8)
def test_bounds_enclose_the_optimum(loss, seed, lam, intercept):
    X, y = small_problem(seed)
    exact = optimum(loss, X, y, lam, intercept)
    risk = cp.ScoredRisk(X, y, loss, intercept=intercept)
    result = cp.minimize(risk, cp.L2(lam), tol=1e-7, max_iter=400)
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.valid
    # The solver's own error, which is far above the rounding of ours.
    slack = 1e-8 * (1.0 + exact)
    for record in result.history:
        assert record.lower_bound <= exact + slack
        assert record.objective >= exact - slack
    assert result.objective == pytest.approx(exact, abs=2e-7 * (1.0 + exact))


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_points_on_a_segment_are_those_of_fresh_evaluations(loss, intercept):
    X, y = small_problem(3, size=40)
    risk = cp.ScoredRisk(X, y, loss, intercept=intercept)
    rng = np.random.default_rng(0)
    start, end = (risk.at(rng.normal(size=3)) for _ in range(2))
    for step in (0.0, 0.4, 1.0, 2.0):
        on_the_way = start.toward(end).at(step)
        fresh = risk.at(on_the_way.w)
        assert on_the_way.value == pytest.approx(fresh.value, rel=1e-12)
        assert on_the_way.intercept == pytest.approx(fresh.intercept, rel=1e-9, abs=1e-9)


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_the_same_run_gives_the_same_bits(loss, intercept):
    X, y = small_problem(5, size=60)
    runs = [
        cp.minimize(cp.ScoredRisk(X, y, loss, intercept=intercept), cp.L2(0.01)) for _ in range(2)
    ]
    assert np.array_equal(runs[0].w, runs[1].w)
    assert runs[0].certificate == runs[1].certificate
    again = cp.ScoredRisk(X, y, loss, intercept=intercept).at(runs[0].w)
    assert cp.L2(0.01).value(runs[0].w) + again.value == runs[0].objective
    assert again.intercept == runs[0].point.intercept


def test_groups_are_refused():
    X, y = small_problem(0)
    with pytest.raises(ValueError, match=r"a sum over examples, .*ROCArea\(\) is not"):
        cp.minimize(cp.ScoredRisk(X, y, cp.ROCArea()), cp.L2(0.1), method=cp.bmrm(groups=2))


@pytest.mark.parametrize("loss", SEES_INTERCEPT, ids=repr)
def test_shifted_features_change_only_the_intercept(loss):
    # The intercept is minimized out exactly, so a column of ones would change nothing.
    X, y = small_problem(1, size=30)
    plain = cp.minimize(cp.ScoredRisk(X, y, loss), cp.L2(0.1), tol=1e-9)
    shifted = cp.minimize(cp.ScoredRisk(X + 5.0, y, loss), cp.L2(0.1), tol=1e-9)
    assert plain.objective == pytest.approx(shifted.objective, rel=1e-8)
