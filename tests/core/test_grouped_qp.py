"""The QP over a product of simplices: laws, degenerate problems, agreement with Clarabel."""

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cutplane.core.simplex_qp import SimplexQP

from .test_simplex_qp import EPS, SLOPES, dual_value, resolution


def true_gap(problem, groups, alpha):
    """The sum over groups of max_j g_j - alpha.g, in extended precision."""
    gram, offsets, lam = problem
    alpha = alpha.astype(np.longdouble)
    gradient = offsets - gram.astype(np.longdouble) @ alpha / np.longdouble(lam)
    tops = [gradient[groups == k].max() for k in range(groups.max() + 1)]
    return sum(tops) - alpha @ gradient


def noise(problem, groups):
    """What rounding of the gradient does to the gap: one error for each group, each of g terms."""
    n_groups = int(groups.max()) + 1
    return n_groups**2 * resolution(*problem)


def check_solution(problem, groups, solution):
    """Feasible; the gap is the true one; the gap is as small as rounding allows."""
    alpha, rounding = solution.alpha, 2 * noise(problem, groups)
    assert alpha.min() >= 0.0
    np.testing.assert_allclose(np.bincount(groups, weights=alpha), 1.0, atol=4 * EPS, rtol=0)
    assert abs(solution.gap - true_gap(problem, groups, alpha)) <= rounding
    assert 0.0 <= solution.gap <= rounding


def solve(problem, groups, **options):
    return SimplexQP().solve(*problem, groups=groups, **options)


def random_groups(rng, n):
    """Numbers of groups in any order, each of them at least once."""
    n_groups = int(rng.integers(1, n + 1))
    return rng.permutation(
        np.append(np.arange(n_groups), rng.integers(n_groups, size=n - n_groups))
    )


def random_problem(family, seed, n_planes=20):
    rng = np.random.default_rng([seed, 5])
    n = int(rng.integers(1, n_planes + 1))
    slopes = SLOPES[family](rng, n)
    flat = rng.random(n) < 0.2
    slopes[flat] = 0.0
    lam = float(10.0 ** rng.uniform(-4, 2))
    gram = slopes @ slopes.T
    kind = seed % 3
    offsets = rng.standard_normal(n) if kind == 0 else np.full(n, 2.0 * (kind - 1))
    return (gram, offsets, lam), random_groups(rng, n)


@st.composite
def problems(draw):
    """Small problems that shrink well: slopes from a grid, so that ties and dependence abound."""
    n, d = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    entry = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, -0.3, 1e-5])
    slopes = np.array(draw(st.lists(entry, min_size=n * d, max_size=n * d))).reshape(n, d)
    offsets = np.array(draw(st.lists(entry, min_size=n, max_size=n)))
    groups = random_groups(np.random.default_rng(draw(st.integers(0, 1000))), n)
    return (slopes @ slopes.T, offsets, draw(st.sampled_from([1e-4, 0.1, 1.0, 3.0, 1e3]))), groups


def clarabel_value(problem, groups):
    """The value of Clarabel's answer, moved into the simplices. The objective is scaled."""
    gram, offsets, lam = problem
    n, n_groups = len(offsets), int(groups.max()) + 1
    unit = max(np.diag(gram).max() / lam, np.ptp(offsets), 1e-300)
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    sums = (groups == np.arange(n_groups)[:, None]).astype(float)
    solution = clarabel.DefaultSolver(
        sparse.csc_array(np.triu(gram / lam / unit)),
        -(offsets - offsets.max()) / unit,
        sparse.csc_array(np.vstack([sums, -np.eye(n)])),
        np.append(np.ones(n_groups), np.zeros(n)),
        [clarabel.ZeroConeT(n_groups), clarabel.NonnegativeConeT(n)],
        options,
    ).solve()
    alpha = np.maximum(solution.x, 0.0).astype(np.longdouble)
    for k in range(n_groups):  # exactly: weights that sum to more than one would be an advantage
        alpha[groups == k] /= alpha[groups == k].sum()
    return dual_value(*problem, alpha)


@given(problems())
@settings(max_examples=400, deadline=None)
def test_solution_is_feasible_certified_and_optimal(drawn):
    check_solution(*drawn, solve(*drawn))


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_gap_bounds_the_distance_to_every_feasible_point(drawn, seed):
    problem, groups = drawn
    rng = np.random.default_rng(seed)
    coarse = solve(problem, groups, accuracy=rng.exponential(0.1))
    rounding = 2 * noise(problem, groups)
    assert abs(coarse.gap - true_gap(problem, groups, coarse.alpha)) <= rounding
    for _ in range(20):
        other = rng.exponential(size=len(groups)) ** 3
        other /= np.bincount(groups, weights=other)[groups]
        missing = dual_value(*problem, other) - dual_value(*problem, coarse.alpha)
        assert missing <= coarse.gap + rounding


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_order_of_planes_and_names_of_groups_do_not_matter(drawn, random):
    (gram, offsets, lam), groups = drawn
    planes, names = list(range(len(offsets))), list(range(groups.max() + 1))
    random.shuffle(planes)
    random.shuffle(names)
    shuffled = gram[np.ix_(planes, planes)], offsets[planes], lam
    renamed = np.array(names)[groups[planes]]
    solution = solve(shuffled, renamed)
    check_solution(shuffled, renamed, solution)
    difference = dual_value(gram, offsets, lam, solve(*drawn).alpha) - dual_value(
        *shuffled, solution.alpha
    )
    assert abs(difference) <= 4 * noise(*drawn)


@given(problems(), st.integers(-45, 45), st.integers(-45, 45))
@settings(max_examples=100, deadline=None)
def test_units_do_not_matter(drawn, slope_exponent, value_exponent):
    """A change of units by powers of two is exact in floating point, so every bit must agree."""
    (gram, offsets, lam), groups = drawn
    slopes, values = 4.0**slope_exponent, 2.0**value_exponent
    reference = solve(*drawn)
    scaled = solve((gram * slopes, offsets * values, lam * slopes / values), groups)
    np.testing.assert_array_equal(scaled.alpha, reference.alpha)
    assert scaled.gap == reference.gap * values


@pytest.mark.parametrize("family", SLOPES)
def test_clarabel_finds_nothing_better_and_nearly_the_same(family):
    for seed in range(200):
        problem, groups = random_problem(family, seed)
        gram, offsets, lam = problem
        solution = solve(problem, groups)
        check_solution(problem, groups, solution)
        ours = dual_value(*problem, solution.alpha)
        theirs = clarabel_value(problem, groups)
        rounding = 2 * noise(problem, groups)
        size = (groups.max() + 1) * (np.ptp(offsets) + np.diag(gram).max() / lam)
        assert theirs - ours <= solution.gap + rounding
        assert ours - theirs <= 1e-7 * (groups.max() + 1) * size + rounding


@pytest.mark.parametrize("family", SLOPES)
def test_larger_problems_are_solved_to_rounding(family):
    for seed in range(6):
        problem, groups = random_problem(family, seed, n_planes=250)
        check_solution(problem, groups, solve(problem, groups))


@pytest.mark.parametrize("n_groups", [2, 7, 30])
@pytest.mark.parametrize("family", SLOPES)
def test_a_long_life(family, n_groups):
    """Planes of all groups come, idle ones go, lam changes: the factor must not decay."""
    rng = np.random.default_rng(7)
    slopes, offsets = SLOPES[family](rng, 20 * n_groups), rng.standard_normal(20 * n_groups)
    solver, planes, alpha = SimplexQP(), np.empty(0, dtype=np.int64), None
    for turn in range(20):
        if len(planes) > 5 * n_groups and rng.random() < 0.5:
            kept = np.flatnonzero((alpha > 0.0) | (rng.random(len(planes)) < 0.5))
            planes, alpha = planes[kept], alpha[kept]
            solver = solver.after_dropping(kept)
        planes = np.append(planes, np.arange(turn * n_groups, (turn + 1) * n_groups))
        rows, groups = slopes[planes], planes % n_groups
        problem = rows @ rows.T, offsets[planes], 10.0 ** rng.choice([-2.0, 0.0, 0.5])
        solution = solver.solve(*problem, groups=groups, start=alpha)
        check_solution(problem, groups, solution)
        alpha = solution.alpha


def test_dropping_idle_planes_keeps_the_factor_and_dropping_others_does_not():
    rng = np.random.default_rng(11)
    slopes, offsets, lam, groups = rng.normal(size=(40, 30)), np.zeros(40), 1.0, np.arange(40) % 3
    gram, solver = slopes @ slopes.T, SimplexQP()
    alpha = solver.solve(gram, offsets, lam, groups=groups).alpha
    assert 3 < np.count_nonzero(alpha) < 40
    for rows in (np.flatnonzero(alpha), np.flatnonzero(alpha)[1:]):
        left = gram[np.ix_(rows, rows)], offsets[rows], lam
        names = groups[rows]
        smaller = solver.after_dropping(rows)
        whole = bool(alpha[rows].sum() > 2.999)
        assert bool(smaller.scale) is whole
        solution = smaller.solve(*left, groups=names, start=alpha[rows])
        check_solution(left, names, solution)
        assert solution.steps == 0 or not whole


def test_one_plane_in_each_group_needs_no_step():
    problem, _ = random_problem("full rank", 3)
    groups = np.arange(len(problem[1]))
    solution = solve(problem, groups)
    assert solution.alpha.tolist() == [1.0] * len(groups)
    assert solution.steps == 0


def test_groups_without_inner_products_are_solved_each_by_itself():
    rng = np.random.default_rng(2)
    slopes = np.zeros((12, 8))
    slopes[:6, :4], slopes[6:, 4:] = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    offsets, lam = rng.normal(size=12), 0.3
    gram, groups = slopes @ slopes.T, np.repeat([0, 1], 6)
    together = solve((gram, offsets, lam), groups).alpha
    for part in (slice(0, 6), slice(6, 12)):
        alone = SimplexQP().solve(gram[part, part], offsets[part], lam).alpha
        np.testing.assert_allclose(together[part], alone, atol=1e-12)
