"""Groups of examples: bounds hold, one group is the ordinary case, nothing else breaks."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_arrays import random_array

import cutplane as cp
from cutplane.core.bundle import Bundle
from cutplane.core.policies.bmrm import ForgetIdle, LimitedMemory
from cutplane.core.protocols import Plane
from cutplane.core.state import candidate_below, sum_of

from .problems import PROBLEMS, MaxOfPlanes, linear_problem


def _grouped_problems():
    rng = np.random.default_rng(20240611)
    X = rng.normal(size=(40, 5))
    X[np.abs(X) < 0.3] = 0.0
    signal = X @ rng.normal(size=5) + 0.2
    labels = np.where(signal + rng.normal(size=40) > 0, 1.0, -1.0)
    numbers = signal + rng.standard_t(3, size=40)
    counts = rng.poisson(np.exp(0.3 * signal)).astype(np.float64)
    weights = rng.uniform(0.1, 2.0, 40)
    weights[:12] = 0.0  # a group or two without weight
    center, theta = rng.normal(size=5), rng.uniform(0.5, 2.0, 5)
    csr, fortran = scipy.sparse.csr_array(X), np.asfortranarray(X, dtype=np.float32)
    plain = {"intercept": False}
    yield linear_problem("hinge", X, labels, cp.Hinge(), 0.01, **plain)
    yield linear_problem(
        "hinge CSR weighted", csr, labels, cp.Hinge(), 0.1, weights=weights, **plain
    )
    yield linear_problem("hinge float32", fortran, labels, cp.Hinge(), 0.1, **plain)
    yield linear_problem(
        "absolute centered", X, numbers, cp.Absolute(), 0.1, center=center, theta=theta, **plain
    )
    yield linear_problem("logistic", X, labels, cp.Logistic(), 0.1, **plain)
    yield linear_problem("squared CSR", csr, numbers, cp.Squared(), 0.3, **plain)
    yield linear_problem("poisson", X, counts, cp.Poisson(), 0.3, **plain)
    yield linear_problem("hinge intercept", X, labels, cp.Hinge(), 0.01)
    yield linear_problem("hinge CSR intercept", csr, labels, cp.Hinge(), 1e-3, weights=weights)
    yield linear_problem("absolute intercept", X, numbers + 1e3, cp.Absolute(), 0.1, center=center)
    yield linear_problem("logistic intercept", X, labels, cp.Logistic(), 0.1)
    yield linear_problem("squared intercept", X, numbers, cp.Squared(), 0.01)


GROUPED = {problem.name: problem for problem in _grouped_problems()}


class AnyRows:
    """Features that offer the two products and nothing else."""

    def __init__(self, X):
        self.X = X
        self.shape = X.shape

    def scores(self, w):
        return self.X @ w

    def pullback(self, slopes):
        return self.X.T @ slopes


class SumOfMaxima:
    """``R(w) = sum_k max_i a_ki.w + b_ki``: a risk of one's own, with its own way to split it."""

    convex = True
    good_groups = 3

    def __init__(self, slopes, offsets):
        self.slopes, self.offsets = slopes, offsets
        self.n_parameters = slopes.shape[2]
        self.lower_bound = -np.inf
        self.evaluations = 0

    def at(self, w):
        self.evaluations += 1
        return MaximaPoint(self, w)

    def group_bounds(self, n_groups):
        return np.full(n_groups, -np.inf)


class MaximaPoint:
    def __init__(self, risk, w):
        heights = risk.slopes @ w + risk.offsets
        tops = np.arange(len(heights)), heights.argmax(axis=1)
        self.w, self.value = w, float(heights[tops].sum())
        self._slopes, self._offsets = risk.slopes[tops], risk.offsets[tops]

    def plane(self):
        return sum_of(self.planes(len(self._slopes)))

    def planes(self, n_groups):
        parts = [slice(k, None, n_groups) for k in range(n_groups)]
        return [
            Plane(self._slopes[part].sum(axis=0), float(self._offsets[part].sum()))
            for part in parts
        ]


# Planes of groups


@pytest.mark.parametrize("n_groups", [2, 3, 8, 64])
@pytest.mark.parametrize("problem", GROUPED.values(), ids=GROUPED)
def test_planes_of_groups_add_up_to_the_plane(problem, n_groups):
    risk, rng = problem.make_risk(), np.random.default_rng(0)
    for w in (np.zeros(5), rng.normal(size=5)):
        point = risk.at(w)
        planes = point.planes(n_groups)
        assert len(planes) == n_groups
        whole, together = point.plane(), sum_of(planes)
        np.testing.assert_allclose(together.slope, whole.slope, rtol=1e-12, atol=1e-14)
        assert together.offset == pytest.approx(whole.offset, rel=1e-12, abs=1e-14)
        assert abs(together.tilt) <= 1e-15
        assert risk.intercept or not any(plane.tilt for plane in planes)
        assert point.planes(n_groups) is planes
    assert risk.evaluations == 2


@given(st.integers(0, 10**6), st.integers(2, 6))
@settings(max_examples=50, deadline=None)
def test_each_plane_lies_below_its_own_part(seed, n_groups):
    """The plane of a group at one point is below that at another, each where it was taken."""
    rng = np.random.default_rng(seed)
    risk = PROBLEMS["hinge"].make_risk()
    a, b = (risk.at(rng.normal(size=4) * 10.0 ** rng.uniform(-1, 2)) for _ in range(2))
    for here, there in ((a, b), (b, a)):
        for own, other in zip(here.planes(n_groups), there.planes(n_groups), strict=True):
            height = own.slope @ here.w + own.offset
            assert other.slope @ here.w + other.offset <= height + 1e-12 * (1.0 + abs(height))


def test_groups_are_samples_of_sorted_data():
    """Each group has its share of both classes, though one class comes after the other."""
    y = np.repeat([-1.0, 1.0], [3072, 1024])
    risk = cp.ScoredRisk(np.ones((4096, 1)), y, cp.Hinge(), intercept=False)
    slopes = [float(plane.slope[0]) for plane in risk.at(np.zeros(1)).planes(4)]
    np.testing.assert_allclose(slopes, 0.125, rtol=1e-12)


def test_rows_without_block_products_serve_as_well():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 3)), rng.choice([-1.0, 1.0], 30)
    w = rng.normal(size=3)
    expected = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False).at(w).planes(4)
    risk = cp.ScoredRisk(AnyRows(X), y, cp.Hinge(), intercept=False)
    assert risk.good_groups == 1
    for ours, theirs in zip(risk.at(w).planes(4), expected, strict=True):
        np.testing.assert_allclose(ours.slope, theirs.slope, atol=1e-15)
        assert ours.offset == theirs.offset


@pytest.mark.parametrize(
    ("rows", "features", "groups"), [(10, 5, 1), (2_000, 50, 8), (100_000, 3, 32), (500, 5_000, 4)]
)
def test_good_number_of_groups(rows, features, groups):
    risk = cp.ScoredRisk(np.ones((rows, features)), np.ones(rows), cp.Hinge(), intercept=False)
    assert risk.good_groups == groups


def test_wide_sparse_data_stay_together():
    X = random_array((500, 5_000), density=0.01, rng=np.random.default_rng(0)).tocsr()
    assert cp.ScoredRisk(X, np.ones(500), cp.Hinge(), intercept=False).good_groups == 1


# Runs


@pytest.mark.parametrize("line_search", [True, False])
@pytest.mark.parametrize("groups", [2, 5, 16])
@pytest.mark.parametrize("problem", GROUPED.values(), ids=GROUPED)
def test_bounds_hold_at_every_iteration(problem, groups, line_search):
    result = cp.minimize(
        problem.make_risk(),
        problem.regularizer,
        method=cp.bmrm(groups=groups, line_search=line_search),
        tol=1e-6,
    )
    assert result.status == "optimal"
    optimum = problem.optimum
    for record in result.history:
        assert record.lower_bound <= optimum + 1e-8 * abs(optimum)
        assert record.objective >= optimum - 1e-8 * abs(optimum)
    for before, after in pairwise(result.history):
        assert after.lower_bound >= before.lower_bound
    assert result.objective == pytest.approx(problem.objective(result.w), rel=1e-9)


def test_a_risk_of_ones_own():
    rng = np.random.default_rng(4)
    slopes, offsets = rng.normal(size=(12, 6, 8)), rng.normal(size=(12, 6))
    runs = {
        groups: cp.minimize(
            SumOfMaxima(slopes, offsets),
            cp.L2(0.5),
            method=cp.bmrm(line_search=False, groups=groups),
            tol=1e-6,
        )
        for groups in (1, "auto", 12)
    }
    assert [run.state.bundle.n_groups for run in runs.values()] == [1, 3, 12]
    best = min(run.objective for run in runs.values())
    for run in runs.values():
        assert run.status == "optimal"
        assert max(record.lower_bound for record in run.history) <= best
    assert runs[12].evaluations < runs["auto"].evaluations < runs[1].evaluations


@pytest.mark.parametrize("name", ["hinge", "squared CSR", "planes", "hinge CSR intercept"])
def test_one_group_is_the_ordinary_case(name):
    problem = PROBLEMS[name]
    runs = [
        cp.minimize(problem.make_risk(), problem.regularizer, method=method, tol=1e-6)
        for method in (cp.bmrm(), cp.bmrm(groups=1), cp.bmrm(groups="auto"))
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.w, runs[0].w)
        assert run.certificate == runs[0].certificate
        assert run.evaluations == runs[0].evaluations


def noisy(m=3000, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    y = np.where(X @ rng.normal(size=d) + 2.0 * rng.normal(size=m) > 0, 1.0, -1.0)
    return cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)


def test_more_groups_need_fewer_evaluations():
    evaluations = []
    for groups in (1, 4, 16, 64):
        result = cp.minimize(noisy(), cp.L2(1e-4), method=cp.bmrm(groups=groups), tol=1e-4)
        assert result.status == "optimal"
        evaluations.append(result.evaluations)
    assert evaluations == sorted(evaluations, reverse=True)
    assert evaluations[-1] < evaluations[0] / 2


def test_auto_takes_the_number_that_the_risk_advises():
    run = cp.minimize(noisy(), cp.L2(1e-3), method=cp.bmrm(groups="auto"), tol=1e-3)
    assert run.state.bundle.n_groups == noisy().good_groups == 8


@pytest.mark.parametrize("planes", [1, 2, 5])
@pytest.mark.parametrize("name", ["hinge", "absolute centered", "logistic", "hinge intercept"])
def test_limited_memory_keeps_bounds_and_limits(name, planes):
    problem, groups, sizes = GROUPED[name], 4, []
    result = cp.minimize(
        problem.make_risk(),
        problem.regularizer,
        method=cp.bmrm(groups=groups, planes=planes),
        tol=1e-4,
        max_iter=150,
        callbacks=[lambda state: sizes.append(state.bundle.n_planes)],
    )
    assert max(sizes) <= groups * (max(planes, 2) + 1)  # a search may bring two planes a group
    for record in result.history:
        assert record.lower_bound <= problem.optimum + 1e-8 * abs(problem.optimum)
        assert record.objective >= problem.optimum - 1e-8 * abs(problem.optimum)
    if planes == 5:
        assert result.status == "optimal"


@pytest.mark.parametrize("name", ["hinge", "hinge intercept"])
def test_resuming_equals_never_having_stopped(name):
    problem = GROUPED[name]
    method = cp.bmrm(groups=4)
    whole = cp.minimize(problem.make_risk(), problem.regularizer, method=method, tol=1e-6)
    first = cp.minimize(
        problem.make_risk(), problem.regularizer, method=method, tol=1e-6, max_iter=3
    )
    rest = cp.minimize(
        problem.make_risk(), problem.regularizer, method=method, tol=1e-6, resume=first.state
    )
    np.testing.assert_array_equal(rest.w, whole.w)
    assert rest.certificate == whole.certificate
    assert rest.iterations == whole.iterations


@pytest.mark.parametrize("name", ["hinge", "hinge intercept"])
@pytest.mark.parametrize("before", [1, 3, 4])
@pytest.mark.parametrize("after", [1, 4])
def test_planes_of_an_earlier_run(before, after, name):
    problem = GROUPED[name]
    risk = problem.make_risk()
    stronger = cp.L2(10.0 * problem.regularizer.lam)
    earlier = cp.minimize(risk, stronger, method=cp.bmrm(groups=before), tol=1e-4)
    options = {"method": cp.bmrm(groups=after), "tol": 1e-6}
    run = cp.minimize(risk, problem.regularizer, planes_from=earlier.state, **options)
    assert run.status == "optimal"
    assert run.state.bundle.n_groups == after
    assert run.certificate.lower_bound <= problem.optimum
    assert run.objective <= problem.optimum * (1 + 1e-6)
    again = cp.minimize(
        risk, stronger, planes_from=earlier.state, tol=1e-4, method=options["method"]
    )
    assert again.status == "optimal"
    if before == after or after == 1:
        assert again.iterations <= 2
    if before == after:
        # No plane was lost. The bound itself may be lower than before: a reduced problem is solved
        # only to a share of the gap, and that of a new run begins at the floor of the risk.
        bundle = again.state.bundle
        bundle.weigh(stronger.lam, accuracy=0.0)
        bound = candidate_below(bundle.aggregate(), stronger).lower
        known = earlier.certificate.lower_bound
    else:
        # All planes together came over as one, with the weights that they had at the end.
        bound = again.certificate.lower_bound
        known = candidate_below(earlier.state.bundle.aggregate(), stronger).lower
    assert bound >= known - 1e-12


def test_planes_of_other_data_are_found_out():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 4)), rng.choice([-1.0, 1.0], 50)
    method = cp.bmrm(groups=5)
    earlier = cp.minimize(
        cp.ScoredRisk(X, y, cp.Hinge(), intercept=False), cp.L2(0.01), method=method
    )
    separable = cp.ScoredRisk(X, np.sign(X[:, 0]), cp.Hinge(), intercept=False)
    with pytest.raises(ValueError, match=r"another risk \(not the same: targets"):
        cp.minimize(separable, cp.L2(0.01), method=method, planes_from=earlier.state)


# The bundle


def grouped_bundle(seed, turns, n_groups, d=3):
    rng = np.random.default_rng(seed)
    regularizer = cp.L2(0.1, center=rng.normal(size=d))
    bundle = Bundle(d, regularizer, n_groups)
    for _ in range(turns):
        bundle.add(*(Plane(rng.normal(size=d), float(rng.normal())) for _ in range(n_groups)))
        bundle.weigh(regularizer.lam, accuracy=0.0)
    return bundle, regularizer


@given(seed=st.integers(0, 10**6), turns=st.integers(1, 12), n_groups=st.integers(1, 5))
@settings(deadline=None)
def test_the_bound_is_the_minimum_of_the_model(seed, turns, n_groups):
    bundle, regularizer = grouped_bundle(seed, turns, n_groups)
    candidate = candidate_below(bundle.aggregate(), regularizer)
    scale = 1.0 + abs(candidate.lower) + float(np.abs(bundle.offsets).max())
    model = bundle.height_at(candidate.w)
    by_hand = sum(
        float(np.max((bundle.slopes @ candidate.w + bundle.offsets)[bundle.groups == k]))
        for k in range(n_groups)
    )
    assert model == pytest.approx(by_hand, abs=1e-12 * scale)
    assert regularizer.value(candidate.w) + model == pytest.approx(
        candidate.lower, abs=1e-9 * scale
    )
    together = sum_of(bundle.aggregates())
    np.testing.assert_allclose(together.slope, bundle.aggregate().slope, atol=1e-12)
    assert together.offset == pytest.approx(bundle.aggregate().offset, abs=1e-12 * scale)


@given(
    seed=st.integers(0, 10**6),
    turns=st.integers(1, 12),
    n_groups=st.integers(2, 5),
    planes=st.integers(1, 6),
)
@settings(deadline=None)
def test_room_is_made_and_no_bound_is_lost(seed, turns, n_groups, planes):
    bundle, regularizer = grouped_bundle(seed, turns, n_groups)
    before = candidate_below(bundle.aggregate(), regularizer)
    LimitedMemory(planes).make_room(bundle, n_groups, None)
    assert bundle.n_planes <= n_groups * planes
    assert np.bincount(bundle.groups, weights=bundle.alpha) == pytest.approx(np.ones(n_groups))
    noise = 1e-12 * (1.0 + abs(before.lower) + float(np.abs(bundle.offsets).max()))
    after = candidate_below(bundle.aggregate(), regularizer)
    assert after.lower == pytest.approx(before.lower, abs=10 * noise)
    bundle.weigh(regularizer.lam, accuracy=0.0)
    again = candidate_below(bundle.aggregate(), regularizer)
    assert again.lower >= before.lower - 10 * noise


def test_idle_planes_are_forgotten_and_each_group_keeps_one():
    bundle, regularizer = grouped_bundle(5, 30, 4)
    before = candidate_below(bundle.aggregate(), regularizer)
    n_planes = bundle.n_planes
    ForgetIdle(longest=2).make_room(bundle, 4, None)
    assert bundle.n_planes < n_planes
    assert bundle.idle.max() <= 2
    assert set(bundle.groups) == set(range(4))
    assert candidate_below(bundle.aggregate(), regularizer).lower == pytest.approx(before.lower)


@pytest.mark.parametrize("n_groups", [1, 3, 4, 7, 12])
def test_inner_products_are_kept_up_to_date(n_groups):
    bundle, _ = grouped_bundle(2, 9, n_groups, d=6)
    np.testing.assert_allclose(bundle.gram, bundle.slopes @ bundle.slopes.T, atol=1e-13)
    np.testing.assert_array_equal(bundle.gram, bundle.gram.T)
    np.testing.assert_array_equal(bundle.groups, np.tile(np.arange(n_groups), 9))


def test_another_geometry_measures_anew():
    bundle, _ = grouped_bundle(1, 4, 3)
    other = cp.L2(0.3, weights=[1.0, 2.0, 3.0])
    carried = bundle.carried_over(other)
    images = np.array([other.dual_metric(slope) for slope in bundle.slopes])
    np.testing.assert_allclose(carried.gram, bundle.slopes @ images.T, atol=1e-12)
    np.testing.assert_array_equal(carried.groups, bundle.groups)
    assert carried.n_groups == 3


def test_a_shared_intercept_leaves_room_for_tilts():
    """With an intercept a plane of one group may rise above its part, but not all together."""
    risk = GROUPED["hinge intercept"].make_risk()
    bundle = Bundle(5, cp.L2(0.1), 4)
    rng = np.random.default_rng(1)
    points = [risk.at(rng.normal(size=5)) for _ in range(6)]
    for point in points:
        bundle.add(*point.planes(4))
    for point in points:
        assert bundle.height_at(point.w) == pytest.approx(point.value, rel=1e-12)
    for _ in range(20):
        elsewhere = risk.at(3.0 * rng.normal(size=5))
        assert bundle.height_at(elsewhere.w) <= elsewhere.value * (1 + 1e-12)


# What does not work says so


def test_a_whole_plane_does_not_join_planes_of_groups():
    bundle, _ = grouped_bundle(0, 1, 3)
    with pytest.raises(ValueError, match="planes of 3 groups come together, got 1"):
        bundle.add(Plane(np.zeros(3), 0.0))


def test_a_risk_that_cannot_be_split_is_refused():
    risk = MaxOfPlanes(np.eye(2), np.zeros(2))
    with pytest.raises(TypeError, match=r"has no method group_bounds\(\), which groups need"):
        cp.minimize(risk, cp.L2(0.1), method=cp.bmrm(groups=4))


@pytest.mark.parametrize("groups", [0, -3])
def test_at_least_one_group(groups):
    with pytest.raises(ValueError, match="at least 1"):
        cp.bmrm(groups=groups)


class LargestMargin(cp.Loss):
    """The largest hinge loss of all examples: not a sum."""

    task = "classification"
    additive = False

    def __call__(self, y, scores, weights):
        losses = np.maximum(1.0 - y * scores, 0.0)
        worst = int(losses.argmax())
        slopes = np.zeros_like(scores)
        slopes[worst] = -y[worst] if losses[worst] > 0.0 else 0.0
        return float(losses[worst]), slopes


def test_loss_that_is_no_sum_is_not_split():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 3))
    risk = cp.ScoredRisk(X, np.sign(X[:, 0]), LargestMargin(), intercept=False)
    assert cp.minimize(risk, cp.L2(0.1), method=cp.bmrm(groups="auto")).certificate.valid
    with pytest.raises(ValueError, match=r"LargestMargin\(\) is not"):
        cp.minimize(risk, cp.L2(0.1), method=cp.bmrm(groups=4))
