"""Methods for risks that are not convex: planes near the best point, and where they end."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.bundle import Bundle
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.core.state import Problem, State
from cutplane.papers.nonconvex import crescent_2, mifflin_2

from .oracles import FunctionRisk, largest, ramp_loss, transductive, waves
from .problems import PROBLEMS

SEARCHES = ("none", "greedy", "full", "all")


def problems():
    rng = np.random.default_rng(7)
    X, U = rng.normal(size=(40, 3)), rng.normal(size=(60, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=40) > 0, 1.0, -1.0)
    yield "waves", waves, cp.L2(1.0), np.array([1.0])
    yield "waves in 3 dimensions", waves, cp.L2(0.5), np.array([1.0, -2.0, 0.3])
    yield "waves weighted", waves, cp.L2(1.0, center=[1.0], weights=[2.0]), np.array([0.5])
    yield "ramp loss", ramp_loss(X, y), cp.L2(0.1), np.array([0.1, 0.1, 0.1])
    yield "transductive", transductive(X, y, U), cp.L2(0.1), np.array([0.1, -0.1, 0.1])
    start = np.full(5, -1.0)
    yield "mifflin", mifflin_2, cp.L2(0.5, center=start), start
    start = np.array([-1.5, 2.0, -1.5, 2.0])
    yield "crescent", crescent_2, cp.L2(1.0, center=start), start


ALL = {name: rest for name, *rest in problems()}
METHODS = {
    **{
        f"nrbm {search}, planes {planes}": cp.nrbm(line_search=search, planes=planes)
        for search in SEARCHES
        for planes in (None, 10)
    },
    "nbm": cp.nbm(),
}
every_problem = pytest.mark.parametrize("name", ALL)
every_method = pytest.mark.parametrize("how", METHODS)


def run(name, how, **options):
    function, regularizer, start = ALL[name]
    risk = FunctionRisk(function, len(start))
    options = {"tol": 1e-4, "max_iter": 3000, **options}
    return cp.minimize(risk, regularizer, method=METHODS[how], start=start, **options), risk


@every_problem
@every_method
def test_never_optimal_never_valid(name, how):
    result, _ = run(name, how)
    assert result.status is cp.Status.STATIONARY
    assert not result.certificate.valid
    assert "not a proof" in str(result.certificate)


@every_problem
@every_method
def test_objective_only_falls_and_is_that_of_w(name, how):
    result, risk = run(name, how)
    function, regularizer, _ = ALL[name]
    objectives = [record.objective for record in result.history]
    assert all(later <= earlier for earlier, later in pairwise(objectives))
    assert result.objective == regularizer.value(result.w) + function(result.w)[0]
    assert result.objective == min(regularizer.value(p.w) + p.value for p in risk.seen)
    assert all(record.lower_bound <= record.objective for record in result.history)


@every_problem
@every_method
def test_resumed_run_equals_one_that_was_not_interrupted(name, how):
    whole, _ = run(name, how, max_iter=12)
    first, _ = run(name, how, max_iter=5)
    function, regularizer, start = ALL[name]
    second = cp.minimize(
        FunctionRisk(function, len(start)), regularizer, method=METHODS[how], tol=1e-4,
        max_iter=12, resume=first.state,
    )  # fmt: skip
    assert np.array_equal(whole.w, second.w)
    assert [replace(r, seconds=0.0) for r in whole.history] == [
        replace(r, seconds=0.0) for r in second.history
    ]


# The two repairs


def state_at(risk, regularizer, best):
    return State(
        problem=Problem(risk, regularizer),
        method=cp.nrbm(),
        bundle=Bundle(risk.n_parameters, regularizer),
        best=best,
        objective=regularizer.value(best.w) + best.value,
        convex=False,
    )


coordinates = st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=2).map(np.array)


@given(coordinates, coordinates, st.floats(0.05, 5.0), coordinates, st.floats(0.0, 8.0))
def test_repaired_planes_meet_both_conditions(v, w, lam, center, factor):
    risk, regularizer = FunctionRisk(waves, 2), cp.L2(lam, center=center, weights=[1.0, 2.0])
    best, other = sorted((risk.at(v), risk.at(w)), key=lambda p: regularizer.value(p.w) + p.value)
    state = state_at(risk, regularizer, best)
    plane = NonConvexCuts(locality=factor).repaired(other, state)
    way = np.array([1.0, 2.0]) * (other.w - best.w)
    rounding = 1e-12 * (1.0 + abs(plane.offset) + abs(state.objective) + regularizer.value(other.w))
    asked = 0.5 * lam * factor * way @ way
    # More than the paper's locality may be too much for (16), and is then cut down to it.
    assert plane.locality in (pytest.approx(asked), pytest.approx(asked / max(factor, 1.0)))
    assert best.value - (plane.slope @ best.w + plane.offset) >= plane.locality - rounding  # (15)
    model = regularizer.value(other.w) + plane.slope @ other.w + plane.offset
    assert model >= state.objective - rounding  # (16)


def one_dimensional(best, point, lam=1.0, factor=1.0):
    """The repaired and the raw plane between two points, given as (w, value, slope)."""
    from .oracles import FunctionPoint

    points = [FunctionPoint(np.array([w]), value, np.array([s])) for w, value, s in (best, point)]
    risk = FunctionRisk(None, 1)
    state = state_at(risk, cp.L2(lam), points[0])
    return NonConvexCuts(factor).repaired(points[1], state), points[1].plane()


def test_plane_without_conflict_is_kept():
    plane, raw = one_dimensional(best=(0.0, 0.0, 0.0), point=(1.0, 1.0, 2.0))
    assert plane == replace(raw, locality=0.5)


def test_plane_in_conflict_is_lowered_to_the_best_objective():
    # J is 0 at 0 and 3 at 1, where the tangent of R has height 2.5 and slope 1: 1.5 at 0.
    plane, raw = one_dimensional(best=(0.0, 0.0, 0.0), point=(1.0, 2.5, 1.0))
    assert np.array_equal(plane.slope, raw.slope)
    assert plane.offset == pytest.approx(-1.5)  # as high as J(0) = 0 at 1, with the regularizer
    assert plane.locality == 0.5


def test_plane_in_severe_conflict_is_replaced():
    # The tangent falls away from the best point, so that no offset satisfies both conditions.
    plane, raw = one_dimensional(best=(1.0, 0.0, 0.0), point=(2.0, 2.0, -3.0))
    assert plane.slope == pytest.approx([-1.0])  # the regularizer plus it is lowest at 1
    assert not np.array_equal(plane.slope, raw.slope)
    assert plane.slope[0] * 1.0 + plane.offset == pytest.approx(0.0 - plane.locality)


def test_locality_beyond_the_papers_is_cut_down_before_a_plane_is_replaced():
    # The tangent at 1 has height 2.5 and slope 1: 1.5 at 0. It must be lowered to -1.5 there to
    # lift the model at 1 to J(0) = 0, and may not be lowered to less than that.
    points = {"best": (0.0, 0.0, 0.0), "point": (1.0, 2.5, 1.0)}
    kept, raw = one_dimensional(**points, factor=3.0)
    assert kept.offset == pytest.approx(-1.5)
    assert kept.locality == pytest.approx(1.5)
    cut_down, _ = one_dimensional(**points, factor=3.1)
    assert np.array_equal(cut_down.slope, raw.slope)
    assert cut_down.offset == pytest.approx(-1.5)
    assert cut_down.locality == pytest.approx(0.5)


@pytest.mark.parametrize("locality", [-0.1, np.inf, np.nan])
def test_bad_locality(locality):
    with pytest.raises(ValueError, match="locality must be finite and not negative"):
        NonConvexCuts(locality=locality)


@every_problem
@pytest.mark.parametrize("how", [how for how in METHODS if how != "nbm"])
def test_all_planes_stay_below_the_risk_at_the_best_point(name, how):
    def look(state):
        heights = state.bundle.heights_at(state.best.w)
        scale = 1.0 + np.abs(state.bundle.offsets) + abs(state.best.value)
        slack = state.best.value - heights - state.bundle.localities
        assert (slack >= -1e-12 * scale).all()
        looked.append(state.gap)

    looked = []
    run(name, how, max_iter=50, callbacks=[look])
    assert min(looked) >= -1e-9 * (1.0 + abs(looked[0]))


@every_problem
def test_gap_of_the_plain_method_only_shrinks(name):
    # Paper 004, Lemma 4: also when planes are lowered.
    # Without a tolerance, so that nothing but the method's own steps moves the best point.
    result, _ = run(name, "nrbm none, planes None", stop=cp.Iterations(60))
    gaps = [record.objective - record.lower_bound for record in result.history]
    scale = max(abs(result.history[0].objective), abs(result.history[0].lower_bound))
    assert all(later <= earlier + 1e-9 * scale for earlier, later in pairwise(gaps))


# Where they end


def steepest_fall(name, w, radius):
    """The steepest mean fall of the objective from ``w`` to random points so far away."""
    function, regularizer, _ = ALL[name]

    def objective(v):
        return regularizer.value(v) + function(v)[0]

    rng = np.random.default_rng(0)
    ways = rng.normal(size=(500, len(w)))
    ways *= radius / np.linalg.norm(ways, axis=1, keepdims=True)
    return max(objective(w) - objective(w + way) for way in ways) / radius


@every_problem
@pytest.mark.parametrize("how", ["nrbm all, planes None", "nrbm full, planes None"])
def test_ends_at_a_stationary_point(name, how):
    result, _ = run(name, how, stop=cp.Gap(absolute=1e-7))
    assert result.status is cp.Status.STATIONARY
    at_start = steepest_fall(name, ALL[name][2], 1e-2)
    assert steepest_fall(name, result.w, 1e-2) <= 1e-2 * at_start


# Convex risks


@pytest.mark.parametrize("name", ["planes", "planes with a floor", "hinge", "logistic centered"])
@pytest.mark.parametrize("planes", [None, 3, 10])
def test_convex_risks_are_minimised_as_by_limited_memory_bmrm(name, planes):
    problem = PROBLEMS[name]

    def solve(method):
        return cp.minimize(
            problem.make_risk(), problem.regularizer, method=method, tol=1e-3, max_iter=300
        )

    ours = solve(cp.nrbm(line_search="none", planes=planes))
    theirs = solve(cp.bmrm(line_search=False, planes=planes))
    assert [replace(r, seconds=0.0) for r in ours.history] == [
        replace(r, seconds=0.0) for r in theirs.history
    ]
    assert ours.certificate == theirs.certificate
    assert ours.certificate.valid


def test_without_localities_conflicts_do_not_occur_for_convex_risks():
    # The same points as by the convex method, though planes are tested and lowered as for others.
    rng = np.random.default_rng(1)
    slopes, offsets = rng.normal(size=(30, 5)), rng.normal(size=30)

    def points(method, convex):
        risk = FunctionRisk(largest(slopes, offsets), 5, convex=convex)
        rule = cp.Gap(relative=1e-12)
        result = cp.minimize(risk, cp.L2(0.3), method=method, stop=rule, max_iter=15)
        # What is evaluated after that tests whether the last one is stationary.
        return np.array([point.w for point in risk.seen[: result.iterations + 1]])

    plain = points(cp.bmrm(line_search=False, planes=8), True)
    method = cp.nrbm(line_search="none", planes=8)
    assert plain == pytest.approx(
        points(replace(method, cuts=NonConvexCuts(locality=0.0)), False), abs=1e-6
    )
    # With localities the planes are lowered, so the points are others.
    assert plain != pytest.approx(points(method, False)[: len(plain)], abs=1e-3)


@pytest.mark.parametrize("name", ["hinge", "absolute", "planes"])
@pytest.mark.parametrize("search", SEARCHES)
def test_convex_risks_with_segments_keep_their_certificate(name, search):
    problem = PROBLEMS[name]
    result = cp.minimize(
        problem.make_risk(), problem.regularizer, method=cp.nrbm(line_search=search), tol=1e-3
    )
    assert result.certificate.valid
    assert result.certificate.lower_bound <= problem.optimum <= result.objective + 1e-9
    # The greedy search can get stuck, and says so.
    assert result.status is cp.Status.OPTIMAL or search == "greedy"


class Segmented(FunctionRisk):
    """A function whose points know the risk along a line, to the accuracy of a grid."""

    def at(self, w):
        point = super().at(w)
        point.toward = lambda other: GridSegment(self, w, other.w)
        return point


class GridSegment:
    def __init__(self, risk, start, end):
        self.risk, self.start, self.way = risk, start, end - start

    def minimize(self, regularizer):
        steps = np.linspace(0.0, 2.0, 401)
        risks = [self.risk.function(self.start + k * self.way)[0] for k in steps]
        totals = risks + regularizer.slope * steps + 0.5 * regularizer.curvature * steps**2
        return float(steps[np.argmin(totals)])

    def at(self, step):
        return self.risk.at(self.start + step * self.way)


@every_problem
@pytest.mark.parametrize("search", ["full", "all"])
def test_segments_are_used_where_there_are_any(name, search):
    function, regularizer, start = ALL[name]
    risk = Segmented(function, len(start))
    first = regularizer.value(start) + function(start)[0]
    method = cp.nrbm(line_search=search)
    result = cp.minimize(risk, regularizer, method=method, start=start, max_iter=200)
    assert result.objective < first
    assert result.status in (cp.Status.STATIONARY, cp.Status.ITERATION_LIMIT, cp.Status.STALLED)
    assert not result.certificate.valid


def test_unknown_search():
    with pytest.raises(ValueError, match="line_search must be one of none, greedy, full, all"):
        cp.nrbm(line_search="exact")


@pytest.mark.parametrize("name", ["planes", "planes with a floor", "hinge", "logistic centered"])
def test_nbm_proves_nothing_of_convex_risks(name):
    problem = PROBLEMS[name]
    result = cp.minimize(problem.make_risk(), problem.regularizer, method=cp.nbm(), tol=1e-3)
    # Its gap need not close where the point is good: then it says that it cannot get on.
    assert result.status in (cp.Status.STATIONARY, cp.Status.STALLED)
    assert result.status is cp.Status.STATIONARY or name == "planes"
    assert not result.certificate.valid
    assert "the gap is not a proof here" in str(result.certificate)
    # It comes close all the same.
    assert result.objective <= problem.optimum + 1e-2 * abs(problem.optimum)


def test_default_for_risks_that_are_not_convex():
    function, regularizer, start = ALL["mifflin"]
    default = cp.minimize(FunctionRisk(function, 5), regularizer, start=start)
    named = cp.minimize(FunctionRisk(function, 5), regularizer, start=start, method=cp.nrbm())
    assert default.objective == named.objective
    assert default.evaluations == named.evaluations


# What is called stationary


def difference_of_convex(seed, d=8):
    """A random difference of two maxima of planes, and a bowl that keeps it bounded below."""
    rng = np.random.default_rng(seed)
    above, below = rng.normal(size=(2, 12, d))
    at_above, at_below = rng.normal(size=(2, 12))

    def function(w):
        up, down = above @ w + at_above, below @ w + at_below
        i, j = int(up.argmax()), int(down.argmax())
        bowl = 2.0 * np.maximum(np.abs(w) - 1.0, 0.0)
        slope = above[i] - below[j] + 2.0 * bowl * np.sign(w)
        return float(up[i] - down[j] + 0.5 * bowl @ bowl), slope

    return function


def largest_fall(function, regularizer, w, start, tolerance):
    """How much lower 20 random and 5 other directions lead, at three scales."""

    def objective(v):
        return function(v)[0] + regularizer.value(v)

    rng = np.random.default_rng(0)
    slope = function(w)[1] + regularizer.gradient(w)
    ways = [*rng.normal(size=(20, len(w))), -slope, w, -w, start - w, w - start]
    reach = np.sqrt(2.0 * tolerance / regularizer.lam)
    return max(
        objective(w) - objective(w + scale * reach * way / np.linalg.norm(way))
        for way in ways
        if way.any()
        for scale in (0.1, 0.01, 0.001)
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("kind", ["difference of convex", "transductive", "chained"])
def test_no_small_step_descends_from_what_is_called_stationary(kind, how, seed):
    rng = np.random.default_rng(seed)
    if kind == "chained":
        start = np.resize([-1.5, 2.0], 40 + 10 * seed)
        function, regularizer = crescent_2, cp.L2(0.2, center=start)
    elif kind == "transductive":
        X, U, start = rng.normal(size=(20, 6)), rng.normal(size=(200, 6)), rng.normal(size=6)
        y = np.where(X @ np.ones(6) > 0, 1.0, -1.0)
        function, regularizer = transductive(X, y, U), cp.L2(0.01)
    else:
        function, regularizer = difference_of_convex(seed), cp.L2(0.1)
        start = rng.normal(size=8)
    risk = FunctionRisk(function, len(start))
    result = cp.minimize(
        risk, regularizer, method=METHODS[how], start=start, stop=cp.Gap(relative=1e-2)
    )
    if result.status is cp.Status.STATIONARY:
        tolerance = 1e-2 * abs(result.objective)
        fall = largest_fall(function, regularizer, result.w, start, tolerance)
        assert fall <= 0.5 * tolerance
        assert result.stationarity.radius <= np.sqrt(2.0 * tolerance / regularizer.lam)
        assert 0.0 <= result.stationarity.slope < np.inf
    else:  # NBM may run out of iterations or stall; then it claims nothing
        assert how == "nbm"
        assert result.status in {cp.Status.ITERATION_LIMIT, cp.Status.STALLED}


def test_small_gap_far_from_stationary_is_found_out():
    # A plane in conflict with the best point is replaced, and makes the gap small: without the
    # test this run ends after two evaluations, where the slope is steep.
    rng = np.random.default_rng(4)
    X, U = rng.normal(size=(20, 6)), rng.normal(size=(200, 6))
    y = np.where(X @ np.ones(6) > 0, 1.0, -1.0)
    function, regularizer = transductive(X, y, U), cp.L2(0.01)
    ends = [
        cp.minimize(
            FunctionRisk(function, 6),
            regularizer,
            method=cp.nrbm(),
            start=start,
            stop=cp.Gap(relative=1e-2),
        )
        for start in rng.normal(size=(10, 6))
    ]
    assert all(end.status is cp.Status.STATIONARY for end in ends)
    assert all(end.objective < end.history[0].objective for end in ends)


@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("name", ["waves in 3 dimensions", "ramp loss", "transductive"])
def test_weighted_regularizer_is_plain_one_in_scaled_coordinates(name, how):
    # Powers of two, so that scaling rounds nothing.
    function, _, start = ALL[name]
    theta = np.array([0.25, 1.0, 8.0])

    def scaled(v):
        value, slope = function(v / theta)
        return value, slope / theta

    weighted = FunctionRisk(function, 3)
    plain = FunctionRisk(scaled, 3)
    options = {"method": METHODS[how], "stop": cp.Gap(relative=1e-3), "max_iter": 200}
    ours = cp.minimize(weighted, cp.L2(0.1, weights=theta), start=start, **options)
    theirs = cp.minimize(plain, cp.L2(0.1), start=theta * start, **options)
    assert ours.evaluations == theirs.evaluations
    assert theta * ours.w == pytest.approx(theirs.w, rel=1e-6, abs=1e-9)


def test_ctrl_c_during_the_test_of_a_point():
    # The run has ended but for the test, and so has its best point.
    function, regularizer, start = ALL["transductive"]
    risk = cp.FunctionRisk(function, 3, convex=False)
    options = {"method": cp.nrbm(), "start": start, "tol": 2.5e-4}
    whole = cp.minimize(risk, regularizer, **options)
    last = whole.history[-1].evaluations
    calls = 0

    def interrupted(w):
        nonlocal calls
        calls += 1
        if calls == last + 2:
            raise KeyboardInterrupt
        return function(w)

    risk = cp.FunctionRisk(interrupted, 3, convex=False)
    result = cp.minimize(risk, regularizer, **options)
    assert whole.evaluations > last + 2
    assert result.status is cp.Status.INTERRUPTED
    assert result.history[-1].objective == whole.history[-1].objective
    assert result.w == pytest.approx(whole.w, rel=1e-2)
    assert result.stationarity is None


def test_without_a_quadratic_regularizer_nothing_is_tested():
    function, _, start = ALL["waves in 3 dimensions"]
    risk = cp.FunctionRisk(function, 3, convex=False)
    with pytest.raises(ValueError, match=r"the method bmrm needs a convex risk, .* use nrbm"):
        cp.minimize(risk, cp.ElasticNet(1.0, 0.5), method=cp.bmrm(), start=start)
    X = np.random.default_rng(0).normal(size=(40, 3))
    ramp = cp.ScoredRisk(X, np.sign(X[:, 0]), cp.Ramp())
    result = cp.minimize(ramp, cp.ElasticNet(0.1, 0.5), method=cp.cccp(), start=np.ones(3))
    assert result.status is cp.Status.STATIONARY
    assert result.stationarity is None
    assert not result.certificate.valid


def test_nothing_to_gain_from_the_start():
    # With an objective of zero the tolerance is zero too, and so are the balls of the test.
    def risk(w):
        return 0.0, np.zeros(2)

    result = cp.minimize(cp.FunctionRisk(risk, 2, convex=False, lower_bound=0.0), cp.L2(1.0))
    assert result.status is cp.Status.STATIONARY
    assert result.objective == 0.0
