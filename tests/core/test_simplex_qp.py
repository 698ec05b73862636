"""The simplex QP: laws, the certificate, agreement with Clarabel, and the kernels' plain twins."""

import clarabel
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from cutplane.core import simplex_qp as simplex_kernels
from cutplane.core.simplex_qp import SimplexQP

EPS = np.finfo(np.float64).eps


def dual_value(gram, offsets, lam, alpha):
    """D(alpha) in extended precision."""
    alpha, gram = alpha.astype(np.longdouble), gram.astype(np.longdouble)
    return offsets @ alpha - alpha @ gram @ alpha / (2 * np.longdouble(lam))


def true_gap(gram, offsets, lam, alpha):
    """max_j g_j - alpha.g in extended precision."""
    alpha = alpha.astype(np.longdouble)
    gradient = offsets - gram.astype(np.longdouble) @ alpha / np.longdouble(lam)
    return gradient.max() - alpha @ gradient


def resolution(gram, offsets, lam):
    """Rounding error of one gradient entry, at worst: no float64 method can see below this."""
    return EPS * (np.abs(offsets).max() + np.diag(gram).max() / lam)


def check_solution(problem, solution):
    """Feasible; the gap is the true one; the gap is as small as rounding allows."""
    gram, offsets, lam = problem
    alpha = solution.alpha
    assert alpha.shape == offsets.shape
    assert alpha.min() >= 0.0
    assert abs(alpha.sum() - 1.0) <= 4 * EPS
    noise = resolution(gram, offsets, lam)
    assert abs(solution.gap - true_gap(gram, offsets, lam, alpha)) <= 2 * noise
    assert 0.0 <= solution.gap <= 2 * noise


def solve(problem, **options):
    return SimplexQP().solve(*problem, **options)


# Families of Gram matrices, from the benign to the degenerate. Each makes n slopes.


def _repeated(rng, n):
    return rng.standard_normal((3, 5))[rng.integers(3, size=n)]


SLOPES = {
    "full rank": lambda rng, n: rng.standard_normal((n, n + 2)),
    "low rank": lambda rng, n: rng.standard_normal((n, 3)),
    "rank one": lambda rng, n: rng.standard_normal((n, 1)),
    "duplicates": _repeated,
    "1e-9 apart": lambda rng, n: _repeated(rng, n) + 1e-9 * rng.standard_normal((n, 5)),
    "1e-5 apart": lambda rng, n: _repeated(rng, n) + 1e-5 * rng.standard_normal((n, 5)),
    "opposites": lambda rng, n: np.outer((-1.0) ** np.arange(n), rng.standard_normal(4)),
    "common part": lambda rng, n: rng.standard_normal(4) + 1e-4 * rng.standard_normal((n, 4)),
    "steep and shallow": lambda rng, n: (
        rng.standard_normal((n, 6)) * 10.0 ** rng.uniform(-3, 1, (n, 1))
    ),
    "small integers": lambda rng, n: rng.integers(-2, 3, (n, 4)).astype(float),
    "zero": lambda rng, n: np.zeros((n, 2)),
}

OFFSETS = {
    "random": lambda rng, gram, lam: rng.standard_normal(len(gram)),
    "equal": lambda rng, gram, lam: np.full(len(gram), 3.0),
    "none": lambda rng, gram, lam: np.zeros(len(gram)),
    # Every vertex equally good: the planes compete closely, supports are large.
    "tangent": lambda rng, gram, lam: np.diag(gram) / (2 * lam) + 1e-3 * rng.random(len(gram)),
}


def random_problem(family, seed, n_planes=12):
    rng = np.random.default_rng([seed, 11])
    n = int(rng.integers(1, n_planes + 1))
    slopes = SLOPES[family](rng, n)
    if rng.random() < 0.3:
        slopes[rng.integers(n)] = 0.0
    gram, lam = slopes @ slopes.T, float(10.0 ** rng.uniform(-4, 2))
    return gram, list(OFFSETS.values())[seed % len(OFFSETS)](rng, gram, lam), lam


@st.composite
def problems(draw):
    """Small problems that shrink well: slopes from a grid, so that ties and dependence abound."""
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    entry = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, -0.3, 1e-5])
    slopes = np.array(draw(st.lists(entry, min_size=n * d, max_size=n * d))).reshape(n, d)
    offsets = np.array(draw(st.lists(entry, min_size=n, max_size=n)))
    return slopes @ slopes.T, offsets, draw(st.sampled_from([1e-4, 0.1, 1.0, 3.0, 1e3]))


# Laws


@given(problems())
@settings(max_examples=500, deadline=None)
def test_solution_is_feasible_certified_and_optimal(problem):
    check_solution(problem, solve(problem))


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_gap_bounds_the_distance_to_every_feasible_point(problem, seed):
    """Also for the poor points that a coarse accuracy returns."""
    n = len(problem[1])
    rng = np.random.default_rng(seed)
    others = np.vstack([np.eye(n), rng.dirichlet(np.full(n, 0.5), size=20), solve(problem).alpha])
    coarse = solve(problem, accuracy=rng.exponential(0.1))
    rounding = 2 * resolution(*problem)
    assert abs(coarse.gap - true_gap(*problem, coarse.alpha)) <= rounding
    best = max(dual_value(*problem, other) for other in others)
    assert best - dual_value(*problem, coarse.alpha) <= coarse.gap + rounding


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_order_and_repetition_of_planes_do_not_matter(problem, random):
    gram, offsets, lam = problem
    n = len(offsets)
    chosen = list(range(n)) + [random.randrange(n) for _ in range(n)]
    random.shuffle(chosen)
    shuffled = gram[np.ix_(chosen, chosen)], offsets[chosen], lam
    solution = solve(shuffled)
    check_solution(shuffled, solution)
    difference = dual_value(*problem, solve(problem).alpha) - dual_value(*shuffled, solution.alpha)
    assert abs(difference) <= 4 * resolution(*problem)


@given(problems(), st.integers(-45, 45), st.integers(-45, 45))
@settings(max_examples=200, deadline=None)
def test_units_do_not_matter(problem, slope_exponent, value_exponent):
    """A change of units by powers of two is exact in floating point, so every bit must agree."""
    gram, offsets, lam = problem
    slopes, values = 4.0**slope_exponent, 2.0**value_exponent
    reference = solve(problem)
    scaled = SimplexQP().solve(gram * slopes, offsets * values, lam * slopes / values)
    np.testing.assert_array_equal(scaled.alpha, reference.alpha)
    assert scaled.gap == reference.gap * values
    assert scaled.steps == reference.steps


@given(problems(), st.lists(st.sampled_from([0.01, 0.1, 1.0, 1.5, 10.0, 1e3]), min_size=8))
@settings(max_examples=200, deadline=None)
def test_warm_equals_cold_while_planes_arrive_and_lam_changes(problem, factors):
    gram, offsets, lam = problem
    solver, alpha = SimplexQP(), None
    for n, factor in zip(range(1, len(offsets) + 1), factors, strict=False):
        part = gram[:n, :n], offsets[:n], lam * factor
        warm = solver.solve(*part, start=alpha)
        check_solution(part, warm)
        difference = dual_value(*part, warm.alpha) - dual_value(*part, solve(part).alpha)
        assert abs(difference) <= 4 * resolution(*part)
        alpha = warm.alpha


@given(problems(), st.data())
@settings(max_examples=200, deadline=None)
def test_forget_allows_planes_to_be_dropped(problem, data):
    gram, offsets, lam = problem
    solver = SimplexQP()
    alpha = solver.solve(*problem).alpha
    keep = data.draw(st.lists(st.sampled_from(range(len(offsets))), min_size=1, unique=True))
    smaller = gram[np.ix_(keep, keep)], offsets[keep], lam
    solver.forget()
    start = alpha[keep] / alpha[keep].sum() if alpha[keep].any() else None
    check_solution(smaller, solver.solve(*smaller, start=start))


@pytest.mark.parametrize("family", SLOPES)
def test_a_long_life(family):
    """Planes come and go and lam changes for 150 rounds: the factor must not decay."""
    rng = np.random.default_rng(7)
    slopes, offsets = SLOPES[family](rng, 200), rng.standard_normal(200)
    solver, planes, alpha = SimplexQP(), [0], np.ones(1)
    for newcomer in range(1, 150):
        if len(planes) > 20 and rng.random() < 0.2:
            kept = np.flatnonzero((alpha > 0.0) | (rng.random(len(planes)) < 0.5))
            planes, alpha = [planes[j] for j in kept], alpha[kept]
            solver.forget()
        planes.append(newcomer)
        rows = slopes[planes]
        problem = rows @ rows.T, offsets[planes], 10.0 ** rng.choice([-2.0, 0.0, 0.5])
        solution = solver.solve(*problem, start=alpha)
        check_solution(problem, solution)
        alpha = solution.alpha


# Agreement with an independent solver


def clarabel_alpha(gram, offsets, lam):
    """Clarabel's answer, moved onto the simplex. The objective is scaled to be of order one."""
    n = len(offsets)
    unit = max(np.diag(gram).max() / lam, np.ptp(offsets), 1e-300)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solution = clarabel.DefaultSolver(
        sparse.csc_array(np.triu(gram / lam / unit)),
        -(offsets - offsets.max()) / unit,
        sparse.csc_array(np.vstack([np.ones(n), -np.eye(n)])),
        np.append(1.0, np.zeros(n)),
        [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n)],
        settings,
    ).solve()
    alpha = np.maximum(solution.x, 0.0)
    return alpha / alpha.sum()


@pytest.mark.parametrize("family", SLOPES)
def test_clarabel_finds_nothing_better_and_nearly_the_same(family):
    for seed in range(500):
        problem = gram, offsets, lam = random_problem(family, seed)
        solution = solve(problem)
        check_solution(problem, solution)
        ours = dual_value(*problem, solution.alpha)
        theirs = dual_value(*problem, clarabel_alpha(*problem))
        rounding = 2 * resolution(*problem)
        assert theirs - ours <= solution.gap + rounding
        assert ours - theirs <= 1e-7 * (np.ptp(offsets) + np.diag(gram).max() / lam) + rounding


@pytest.mark.parametrize("family", SLOPES)
@pytest.mark.parametrize("n_planes", [60, 250])
def test_larger_problems_are_solved_to_rounding(family, n_planes):
    for seed in range(8):
        problem = random_problem(family, seed, n_planes)
        check_solution(problem, solve(problem))


@pytest.mark.parametrize("slope_unit", [1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("lam", [1e-12, 1.0, 1e6])
def test_extreme_scales(slope_unit, lam):
    """Only the resolution of the gradient may limit the gap, whatever the units."""
    for family in SLOPES:
        gram, offsets, _ = random_problem(family, seed=4)
        problem = gram * slope_unit, offsets, lam
        check_solution(problem, solve(problem))


# The sequence of problems that a bundle method poses


def hinge_bundle(lam, n_planes, n_features=50, seed=0):
    """Yield the growing Gram matrix and offsets of BMRM on random data, as views."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((400, n_features))
    x *= np.sign(x @ rng.standard_normal(n_features) + 3 * rng.standard_normal(400))[:, None]
    slopes, gram = np.zeros((n_planes, n_features)), np.zeros((2 * n_planes, 2 * n_planes))
    offsets, w = np.zeros(n_planes), np.zeros(n_features)
    for n in range(1, n_planes):  # plane 0 is flat: the risk is never negative
        margins = x @ w
        slopes[n] = -x[margins < 1.0].sum(axis=0) / len(x)
        offsets[n] = np.maximum(0.0, 1.0 - margins).mean() - slopes[n] @ w
        gram[n, : n + 1] = gram[: n + 1, n] = slopes[: n + 1] @ slopes[n]
        alpha = yield gram[: n + 1, : n + 1], offsets[: n + 1], lam
        w = -(alpha @ slopes[: n + 1]) / lam


@pytest.mark.parametrize("lam", [1e-2, 1e-4, 1e-6])
def test_bundle_of_a_hinge_risk(lam):
    solver, bundle = SimplexQP(), hinge_bundle(lam, 150)
    problem, alpha = next(bundle), None
    warm_steps = cold_steps = 0
    lower = -np.inf
    while problem is not None:
        warm = solver.solve(*problem, start=alpha)
        check_solution(problem, warm)
        value = float(dual_value(*problem, warm.alpha))
        assert warm.gap <= 1e-10 * value
        assert value >= lower - 1e-12 * abs(value)  # planes only accumulate
        warm_steps, cold_steps = warm_steps + warm.steps, cold_steps + solve(problem).steps
        lower, alpha = value, warm.alpha
        problem = next_problem(bundle, alpha)
    assert warm_steps < cold_steps / 2


def next_problem(bundle, alpha):
    try:
        return bundle.send(alpha)
    except StopIteration:
        return None


# The interface


def test_single_plane():
    solution = SimplexQP().solve(np.array([[4.0]]), np.array([-1.0]), 0.5)
    assert solution.alpha.tolist() == [1.0]
    assert solution.gap == 0.0
    assert solution.steps == 0


def test_two_planes_in_closed_form():
    """alpha_1 = lam * (b_1 - b_0 + (G_00 - G_01) / lam) / |a_0 - a_1|^2, paper 000, eq. (15)."""
    gram, offsets, lam = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.3, 0.1]), 0.7
    expected = (lam * (0.1 - 0.3) + 2.0 - 0.5) / (2.0 - 2 * 0.5 + 1.0)
    np.testing.assert_allclose(
        SimplexQP().solve(gram, offsets, lam).alpha, [1 - expected, expected], rtol=1e-15
    )


def test_solving_again_takes_no_step():
    problem = random_problem("full rank", 1, n_planes=40)
    solver = SimplexQP()
    first = solver.solve(*problem)
    again = solver.solve(*problem, start=first.alpha)
    assert first.steps > 0
    assert again.steps == 0
    assert again.gap <= 2 * resolution(*problem)


def test_spoilt_factor_is_noticed_and_rebuilt():
    gram, offsets, lam = random_problem("full rank", 4, n_planes=40)
    solver = SimplexQP()
    alpha = solver.solve(gram, offsets, lam).alpha
    solver.factor[:] = np.nan
    changed = gram, offsets, 3 * lam
    solution = solver.solve(*changed, start=alpha)
    assert solution.steps > 0
    check_solution(changed, solution)


@pytest.mark.parametrize(
    "start",
    [[], [0.5], [-0.5, 1.5], [np.nan, 1.0], [np.inf, 0.0], [0.25] * 4, np.zeros(3)],
    ids=str,
)
def test_start_off_the_simplex_is_not_used(start):
    problem = np.diag([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3]), 1.0
    used = solve(problem, start=np.array(start, dtype=float))
    np.testing.assert_array_equal(used.alpha, solve(problem).alpha)


def test_accuracy_saves_steps():
    problem = random_problem("full rank", 3, n_planes=200)
    exact, coarse = solve(problem), solve(problem, accuracy=0.05)
    assert 2 * resolution(*problem) < coarse.gap <= 0.05
    assert coarse.steps < exact.steps


def test_start_may_use_every_plane():
    """A support far from affinely independent, to be factored and then thinned out."""
    problem = random_problem("low rank", 2, n_planes=80)
    n = len(problem[1])
    check_solution(problem, solve(problem, start=np.full(n, 1.0 / n)))


def in_layout(gram, layout):
    n = len(gram)
    roomy = np.full((n + 3, n + 3), np.nan)
    if layout == "leading block":
        roomy[:n, :n] = gram
        return roomy[:n, :n]
    if layout == "inner block":
        roomy[1 : n + 1, 2 : n + 2] = gram
        return roomy[1 : n + 1, 2 : n + 2]
    if layout == "every other":
        wide = np.full((2 * n, 2 * n), np.nan)
        wide[::2, ::2] = gram
        return wide[::2, ::2]
    if layout == "read-only":
        gram = gram.copy()
        gram.flags.writeable = False
        return gram
    return np.array(gram, dtype="f4" if layout == "float32" else "f8", order=layout[0].upper())


LAYOUTS = ["leading block", "inner block", "every other", "read-only", "c", "f", "float32"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout_does_not_matter_and_compiles_nothing_new(layout):
    gram, offsets, lam = random_problem("small integers", 5, n_planes=40)  # exact in float32
    reference = solve((gram, offsets, lam))
    view = in_layout(gram, layout)
    before = view.copy()
    np.testing.assert_array_equal(solve((view, offsets, lam)).alpha, reference.alpha)
    np.testing.assert_array_equal(view, before)
    assert len(simplex_kernels.maximize.signatures) == 1


def test_the_leading_block_of_a_larger_array_counts():
    gram, offsets, lam = random_problem("small integers", 5, n_planes=40)
    n = len(offsets)
    roomy = np.full((n + 3, n + 3), np.nan)
    roomy[:n, :n] = gram
    np.testing.assert_array_equal(
        solve((roomy, offsets, lam)).alpha, solve((gram, offsets, lam)).alpha
    )


def test_arguments_are_left_alone():
    gram, offsets, lam = random_problem("full rank", 2)
    start = np.full(len(offsets), 1.0 / len(offsets))
    copies = gram.copy(), offsets.copy(), start.copy()
    SimplexQP().solve(gram, offsets, lam, start=start)
    for argument, copy in zip((gram, offsets, start), copies, strict=True):
        np.testing.assert_array_equal(argument, copy)


@pytest.mark.parametrize("magnitude", [1e-320, 1e-200, 1e150, 1e300, 8e307])
def test_finite_nonsense_ends_with_a_feasible_answer(magnitude):
    """Indefinite, and beyond the range of float64 in between: no error, no NaN, no endless loop."""
    rng = np.random.default_rng(0)
    for n in (2, 5, 30):
        gram = rng.uniform(-magnitude, magnitude, (n, n))
        for offsets in (rng.standard_normal(n), rng.uniform(-1, 1, n) * magnitude):
            for lam in (1e-12, 1.0, 1e6):
                solution = SimplexQP().solve(gram + gram.T if n > 2 else gram, offsets, lam)
                assert solution.alpha.min() >= 0.0
                assert abs(solution.alpha.sum() - 1.0) <= 1e-12
                assert solution.gap >= 0.0
                assert solution.steps <= simplex_kernels.LIMITS.steps_per_plane * n + n


# The kernels against their plain NumPy twins


def from_python(inner):
    """Return a kernel that only other kernels can call, for these tests to call."""
    return numba.njit(lambda *arguments: inner(*arguments))


factorize = from_python(simplex_kernels.factorize)
drop_weightless = from_python(simplex_kernels.drop_weightless)
find_direction = from_python(simplex_kernels.find_direction)
assess = from_python(simplex_kernels.assess)

WORK = np.empty((simplex_kernels.N_ROWS, 15))
GROUPS = np.array([0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0, 1])
BASE = np.array([3, 8, 9])  # of the groups 0, 1 and 2


@pytest.fixture
def factored():
    """Twelve planes: three are bases, and of the other nine seven, in mixed order, are factored."""
    rng = np.random.default_rng(3)
    slopes = rng.standard_normal((12, 20))
    support = rng.permutation(np.setdiff1d(np.arange(12), BASE))
    gram, scale, size, factor = slopes @ slopes.T, 7.0, 7, np.full((14, 14), np.nan)
    factorize(gram, GROUPS, BASE, support, scale, factor, 0, size)
    return slopes, gram, scale, support, size, factor


def cholesky(slopes, scale, support, base=BASE):
    differences = slopes[support] - slopes[base[GROUPS[support]]]
    return np.linalg.cholesky(differences @ differences.T / scale)


def check_factor(factor, expected):
    size = len(expected)
    np.testing.assert_allclose(np.tril(factor[:size, :size]), expected, rtol=1e-11, atol=1e-13)


def test_factor_is_the_cholesky_factor(factored):
    slopes, _, scale, support, size, factor = factored
    check_factor(factor, cholesky(slopes, scale, support[:size]))


def test_factor_grows_by_rows(factored):
    slopes, gram, scale, support, size, factor = factored
    assert not factorize(gram, GROUPS, BASE, support, scale, factor, size, 9)
    check_factor(factor, cholesky(slopes, scale, support))


@pytest.mark.parametrize("gone", [[0], [4], [6], [0, 3, 6], [3, 4, 5]], ids=str)
def test_factor_shrinks_by_rotations(factored, gone):
    slopes, _, scale, support, size, factor = factored
    remaining = np.delete(support[:size], gone)
    alpha = np.zeros(12)
    alpha[remaining] = alpha[BASE] = 0.25
    size = drop_weightless(alpha, GROUPS, BASE.copy(), support, factor, size, WORK)
    np.testing.assert_array_equal(support[:size], remaining)
    check_factor(factor, cholesky(slopes, scale, remaining))


@pytest.mark.parametrize("groups", [[0], [1], [2], [0, 2], [0, 1, 2]], ids=str)
def test_a_base_without_weight_is_replaced(factored, groups):
    slopes, _, scale, support, size, factor = factored
    alpha = np.zeros(12)
    alpha[support[:size]] = alpha[BASE] = 0.25
    alpha[BASE[groups]] = 0.0
    base, planes = BASE.copy(), support[:size].copy()
    size = drop_weightless(alpha, GROUPS, base, support, factor, size, WORK)
    for group in range(3):
        first = planes[GROUPS[planes] == group][0]
        assert base[group] == (first if group in groups else BASE[group])
    np.testing.assert_array_equal(support[:size], planes[~np.isin(planes, base)])
    check_factor(factor, cholesky(slopes, scale, support[:size], base))


def test_dependent_plane_gets_a_small_pivot():
    gram, factor = np.ones((2, 2)), np.zeros((2, 2))
    group, base, support = np.zeros(2, dtype=np.int64), np.array([0]), np.array([1])
    assert factorize(gram, group, base, support, 1.0, factor, 0, 1)
    assert factor[0, 0] ** 2 == pytest.approx(simplex_kernels.LEAST_PIVOT)


def test_direction_solves_the_equations(factored):
    slopes, _, scale, support, size, factor = factored
    rise, direction = np.random.default_rng(0).standard_normal(size), np.empty(size)
    find_direction(factor, size, rise, direction)
    root = cholesky(slopes, scale, support[:size])
    np.testing.assert_allclose(root @ root.T @ direction, rise, rtol=1e-10, atol=1e-12)


def test_assessment_matches_its_formulas(factored):
    _, gram, _, support, size, _ = factored
    rng = np.random.default_rng(1)
    offsets, alpha, gradient, lam = rng.standard_normal(12), np.zeros(12), np.empty(12), 0.3
    active = np.append(support[:size], BASE)
    alpha[active] = rng.uniform(size=len(active))
    alpha /= np.bincount(GROUPS, weights=alpha)[GROUPS]
    top, lacks, error = np.empty(3, dtype=np.int64), np.empty(3), np.empty(3)
    value, gap, noise = assess(
        gram, offsets, lam, GROUPS, alpha, BASE, support, size, gradient, top, lacks, error
    )
    np.testing.assert_allclose(gradient, offsets - gram @ alpha / lam, rtol=1e-12)
    lengths = np.sqrt(np.diag(gram))
    errors = EPS * (np.abs(offsets) + lengths * (lengths @ alpha) / lam)
    total = 0.0
    for group in range(3):
        members = np.flatnonzero(group == GROUPS)
        best = members[gradient[members].argmax()]
        assert top[group] == best
        mean = alpha[members] @ gradient[members]
        assert lacks[group] == pytest.approx(gradient[best] - mean, rel=1e-12)
        compared = np.append(members[alpha[members] > 0.0], best)
        total += errors[compared].max()
    assert gap == pytest.approx(lacks.sum(), rel=1e-12)
    assert value == pytest.approx(float(dual_value(gram, offsets, lam, alpha)), rel=1e-12)
    assert noise == pytest.approx(total)
