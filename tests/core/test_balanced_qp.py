"""Groups that share a free parameter: weights balance, and are the best that do."""

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cutplane.core.simplex_qp import SimplexQP, lowest_model

from .test_simplex_qp import EPS, SLOPES, dual_value


def problem_of(family, seed, turns=8, n_groups=4):
    """Planes as points bring them: one for each group, with tilts that sum to zero."""
    rng = np.random.default_rng([seed, 3])
    n_groups, turns = int(rng.integers(2, n_groups + 1)), int(rng.integers(1, turns + 1))
    n = n_groups * turns
    slopes = SLOPES[family](rng, n)
    tilts = rng.standard_normal((turns, n_groups)) * (rng.random((turns, 1)) < 0.8)
    if seed % 3 == 0:
        tilts = np.round(2 * tilts)  # ties
    tilts[:, -1] -= tilts.sum(axis=1)
    lam = float(10.0 ** rng.uniform(-3, 1))
    return (
        slopes @ slopes.T,
        rng.standard_normal(n),
        tilts.ravel(),
        lam,
        np.tile(np.arange(n_groups), turns),
    )


def solve(problem, start=None, accuracy=0.0, free=0.0):
    gram, offsets, tilts, lam, groups = problem
    start = np.zeros(len(groups)) if start is None else start
    solver = SimplexQP(free=free, warm=start)
    alpha = solver.solve_balanced(
        gram, offsets, tilts, lam, groups=groups, start=start, accuracy=accuracy
    )
    return alpha, solver.free


def check_feasible(problem, alpha):
    _, _, tilts, _, groups = problem
    assert alpha.min() >= 0.0
    np.testing.assert_allclose(np.bincount(groups, weights=alpha), 1.0, atol=8 * EPS, rtol=0)
    assert abs(tilts @ alpha) <= 32 * EPS * (np.abs(tilts) @ alpha)


def scale_of(problem):
    gram, offsets, _, lam, groups = problem
    return (groups.max() + 1) ** 2 * (np.abs(offsets).max() + np.diag(gram).max() / lam)


def clarabel_value(problem):
    """The value of Clarabel's answer; its small infeasibility is left to the tolerance."""
    gram, offsets, tilts, lam, groups = problem
    n, n_groups = len(offsets), int(groups.max()) + 1
    unit = max(np.diag(gram).max() / lam, np.ptp(offsets), 1e-300)
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    sums = (groups == np.arange(n_groups)[:, None]).astype(float)
    solution = clarabel.DefaultSolver(
        sparse.csc_array(np.triu(gram / lam / unit)),
        -offsets / unit,
        sparse.csc_array(np.vstack([sums, tilts, -np.eye(n)])),
        np.concatenate([np.ones(n_groups), [0.0], np.zeros(n)]),
        [clarabel.ZeroConeT(n_groups + 1), clarabel.NonnegativeConeT(n)],
        options,
    ).solve()
    return float(dual_value(gram, offsets, lam, np.array(solution.x)))


@pytest.mark.parametrize("family", SLOPES)
def test_clarabel_agrees(family):
    for seed in range(60):
        problem = problem_of(family, seed)
        gram, offsets, _, lam, _ = problem
        alpha, _ = solve(problem)
        check_feasible(problem, alpha)
        ours = float(dual_value(gram, offsets, lam, alpha))
        assert ours == pytest.approx(clarabel_value(problem), abs=1e-7 * scale_of(problem))


@given(st.sampled_from(list(SLOPES)), st.integers(0, 10**6), st.floats(1e-6, 1.0))
@settings(max_examples=150, deadline=None)
def test_any_accuracy_gives_a_feasible_answer_that_is_no_worse(family, seed, accuracy):
    problem = problem_of(family, seed)
    gram, offsets, _, lam, _ = problem
    (exact, _), (coarse, _) = solve(problem), solve(problem, accuracy=accuracy)
    check_feasible(problem, coarse)
    missing = dual_value(gram, offsets, lam, exact) - dual_value(gram, offsets, lam, coarse)
    assert missing <= accuracy + 1e-12 * scale_of(problem)


@given(st.sampled_from(list(SLOPES)), st.integers(0, 10**6), st.floats(-1e3, 1e3))
@settings(max_examples=100, deadline=None)
def test_where_the_search_begins_does_not_matter(family, seed, free):
    problem = problem_of(family, seed)
    gram, offsets, _, lam, _ = problem
    here, _ = solve(problem)
    there, _ = solve(problem, start=here, free=free)
    check_feasible(problem, there)
    values = [float(dual_value(gram, offsets, lam, alpha)) for alpha in (here, there)]
    assert values[0] == pytest.approx(values[1], abs=1e-10 * scale_of(problem))


def test_the_multiplier_is_the_best_free_parameter():
    """In the model, whose minimizer the weights give, the returned parameter is the best one."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(24, 6))
    offsets, lam, groups = rng.normal(size=24), 0.3, np.tile(np.arange(3), 8)
    tilts = rng.normal(size=(8, 3))
    tilts[:, 2] -= tilts.sum(axis=1)
    problem = slopes @ slopes.T, offsets, tilts.ravel(), lam, groups
    alpha, free = solve(problem)
    heights = slopes @ (-(alpha @ slopes) / lam) + offsets

    def model(c):
        return sum((heights + c * tilts.ravel())[groups == k].max() for k in range(3))

    lowest = min(model(c) for c in free + np.linspace(-1.0, 1.0, 201))
    assert model(free) <= lowest + 1e-9


# The minimum over the free parameter


def model_at(heights, tilts, groups, c):
    top = np.full(groups.max() + 1, -np.inf)
    np.maximum.at(top, groups, heights + c * tilts)
    return float(top.sum())


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 6), st.booleans())
@settings(max_examples=300, deadline=None)
def test_lowest_model_is_the_lowest_breakpoint(seed, n_groups, turns, ties):
    rng = np.random.default_rng(seed)
    groups = np.tile(np.arange(n_groups), turns)
    heights, tilts = rng.standard_normal((2, turns, n_groups)) * 10.0 ** rng.uniform(
        -3, 3, (2, 1, 1)
    )
    if ties:
        heights, tilts = np.round(heights), np.round(tilts)
    tilts -= tilts.mean(axis=1, keepdims=True)  # the model is bounded below
    heights, tilts = heights.ravel(), tilts.ravel()
    crossings = [0.0]
    for k in range(n_groups):
        h, t = heights[groups == k], tilts[groups == k]
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings.extend(((h[:, None] - h) / (t - t[:, None])).ravel())
    lowest = min(model_at(heights, tilts, groups, c) for c in crossings if np.isfinite(c))
    value, at = lowest_model(heights, tilts, groups, n_groups)
    size = n_groups * (1.0 + np.abs(heights).max() + abs(at) * np.abs(tilts).max())
    assert value == pytest.approx(model_at(heights, tilts, groups, at), abs=1e-13 * size)
    assert value == pytest.approx(lowest, abs=1e-10 * size)


def test_without_tilts_the_model_is_as_it_is():
    groups = np.array([0, 0, 1])
    assert lowest_model(np.array([1.0, 3.0, -1.0]), np.zeros(3), groups, 2) == (2.0, 0.0)
