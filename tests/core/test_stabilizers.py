"""Each stabilizer solves the problem it stands for; Clarabel and closed forms are the judges."""

from dataclasses import replace
from itertools import pairwise

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.bundle import Bundle
from cutplane.core.policies.bmrm import NoStabilizer
from cutplane.core.policies.flat import OverSet
from cutplane.core.policies.stabilizers import (
    Balance,
    BalancedProximal,
    Level,
    PlainBound,
    Proximal,
    ProximalProblem,
    TrustRegion,
)
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem, State

from ..risks.exact import clarabel
from .problems import PROBLEMS, MaxOfPlanes
from .test_minimize import InterruptAtLine

EPS = np.finfo(np.float64).eps


def random_bundle(seed, n=12, d=4):
    rng = np.random.default_rng(seed)
    regularizer = cp.L2(
        10.0 ** rng.uniform(-2, 1), center=rng.normal(size=d), weights=rng.uniform(0.3, 2.0, d)
    )
    bundle = Bundle(d, regularizer)
    for _ in range(n):
        bundle.add(Plane(rng.normal(size=d), float(rng.normal())))
    return bundle, regularizer, rng


class Exact:
    """The planes and the regularizer of a bundle as CVXPY sees them."""

    def __init__(self, bundle, regularizer, center):
        self.w = cvxpy.Variable(bundle.n_parameters)
        theta, lam = regularizer.weights, regularizer.lam
        self.model = 0.5 * lam * cvxpy.sum_squares(
            cvxpy.multiply(theta, self.w - regularizer.center)
        ) + cvxpy.max(bundle.slopes @ self.w + bundle.offsets)
        self.distance = cvxpy.norm(cvxpy.multiply(theta, self.w - center))
        self.squared = cvxpy.sum_squares(cvxpy.multiply(theta, self.w - center))

    def minimize(self, goal, *constraints):
        problem = cvxpy.Problem(cvxpy.Minimize(goal), list(constraints))
        problem.solve(solver=cvxpy.CLARABEL)
        return self.w.value, float(self.model.value)


@given(seed=st.integers(0, 10**6), log_mu=st.floats(-3, 3))
@settings(max_examples=25)
def test_the_reduced_problem_near_a_center(seed, log_mu):
    bundle, regularizer, rng = random_bundle(seed)
    center, mu = rng.normal(size=4), 10.0**log_mu
    near = ProximalProblem(bundle, regularizer, center, 0.0).minimize(mu)
    exact = Exact(bundle, regularizer, center)
    w, value = exact.minimize(exact.model + 0.5 * mu * exact.squared)
    np.testing.assert_allclose(near.w, w, atol=1e-4 * (1 + np.abs(w).max()))
    total = near.value + 0.5 * mu * near.distance**2
    assert total == pytest.approx(value + 0.5 * mu * exact.squared.value, rel=1e-7, abs=1e-7)
    # What it says about its point is true of it, to rounding.
    assert near.model == pytest.approx(bundle.height_at(near.w), rel=1e-9, abs=1e-9)
    assert near.value == pytest.approx(near.model + regularizer.value(near.w))
    assert near.distance == pytest.approx(
        np.linalg.norm(regularizer.weights * (near.w - center)), rel=1e-9
    )
    # The bound is one of the problem without a center, and the plain one is its minimum.
    plain, _ = PlainBound().solved(bundle, regularizer, 0.0)
    _, lowest = exact.minimize(exact.model)
    assert near.lower <= plain.lower + 1e-9 * abs(plain.lower)
    assert plain.lower == pytest.approx(lowest, rel=1e-7, abs=1e-7)


@given(seed=st.integers(0, 10**6), data=st.data())
@settings(max_examples=25)
def test_plain_bound_survives_that_planes_are_dropped(seed, data):
    bundle, regularizer, rng = random_bundle(seed)
    bound = PlainBound()
    for _ in range(4):
        plain, bound = bound.solved(bundle, regularizer, 0.0)
        afresh, _ = PlainBound().solved(bundle, regularizer, 0.0)
        assert plain.lower == pytest.approx(afresh.lower, rel=1e-10, abs=1e-10)
        assert (np.diff(bundle.numbers) > 0).all()
        kept = data.draw(st.sets(st.integers(0, bundle.n_planes - 1), min_size=1))
        bundle.keep(np.array(sorted(kept)))
        for _ in range(data.draw(st.integers(0, 3))):
            bundle.add(Plane(rng.normal(size=4), float(rng.normal())))


def first_state(seed):
    """Return a state with planes that touch a risk at random points, and its regularizer."""
    bundle, regularizer, rng = random_bundle(seed)
    risk = MaxOfPlanes(bundle.slopes.copy(), bundle.offsets.copy())
    point = risk.at(rng.normal(size=4))
    problem = Problem(risk, regularizer)
    state = State(problem, cp.bmrm(), bundle, point, regularizer.value(point.w) + point.value)
    plain, _ = PlainBound().solved(bundle, regularizer, 0.0)
    state.lower = plain.lower - 0.1 * (state.objective - plain.lower)
    return state, regularizer


def proposed(stabilizer, state):
    """Return the first candidate of a stabilizer."""
    return stabilizer.propose(state, stabilizer.init(state.problem))[0]


@pytest.mark.parametrize("stabilizer", [Proximal(), TrustRegion(), Level(), BalancedProximal()])
def test_ordinary_steps_when_no_bound_moves(stabilizer):
    state, regularizer = first_state(5)
    plain, _ = PlainBound().solved(state.bundle, regularizer, 1e-3 * state.gap)
    near, own = stabilizer.propose(state, stabilizer.init(state.problem))
    assert not np.allclose(near.w, plain.w, rtol=1e-3)
    state.stalled_for = 10
    ordinary, _ = stabilizer.propose(state, own)
    np.testing.assert_allclose(ordinary.w, plain.w, rtol=1e-2)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25)
def test_trust_region(seed):
    state, regularizer = first_state(seed)
    candidate = proposed(TrustRegion(), state)
    center = state.best.w
    distance = np.linalg.norm(regularizer.weights * (candidate.w - center))
    farthest = 0.1 * np.sqrt(2.0 * (state.objective - candidate.lower) / regularizer.lam)
    assert distance <= farthest * (1 + 1e-9)
    # Of all points as near as the candidate, the model is lowest there.
    exact = Exact(state.bundle, regularizer, center)
    _, value = exact.minimize(exact.model, exact.distance <= distance)
    reached = candidate.model + regularizer.value(candidate.w)
    assert reached == pytest.approx(value, abs=2e-3 * state.gap)


@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.1, 0.3, 0.7]))
@settings(max_examples=25)
def test_level(seed, share):
    state, regularizer = first_state(seed)
    candidate = proposed(Level(share), state)
    lower = max(candidate.lower, state.lower)
    reached = candidate.model + regularizer.value(candidate.w)
    assert reached <= lower + share * (state.objective - lower) + 1e-9 * abs(lower)
    # Of all points where the model is as low, the candidate is the nearest.
    exact = Exact(state.bundle, regularizer, state.best.w)
    exact.minimize(exact.squared, exact.model <= reached)
    distance = np.linalg.norm(regularizer.weights * (candidate.w - state.best.w))
    assert distance == pytest.approx(float(exact.distance.value), rel=2e-2, abs=1e-6)


@given(seed=st.integers(0, 10**6), radius=st.sampled_from([1e-2, 1.0, 3.0, 100.0]))
@settings(max_examples=40)
def test_kelley_minimises_the_planes_over_the_ball(seed, radius):
    rng = np.random.default_rng(seed)
    ball, bundle = cp.Ball(radius), Bundle(4, cp.Ball(radius))
    bundle.add(Plane(np.zeros(4), -2.0))  # so that there is a minimum
    for _ in range(12):
        bundle.add(Plane(rng.normal(size=4), float(rng.normal())))
    risk = MaxOfPlanes(bundle.slopes.copy(), bundle.offsets.copy())
    point = risk.at(np.zeros(4))
    state = State(Problem(risk, ball), cp.kelley(), bundle, point, point.value)
    candidate = proposed(OverSet(), state)
    w = cvxpy.Variable(4)
    problem = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.max(bundle.slopes @ w + bundle.offsets)), [cvxpy.norm(w) <= radius]
    )
    lowest = problem.solve(solver=cvxpy.CLARABEL)
    gap = point.value - candidate.lower
    assert candidate.lower <= lowest + 1e-7
    assert candidate.model >= lowest - 1e-7
    assert candidate.model - candidate.lower <= 2e-3 * gap + 1e-12
    assert ball.value(candidate.w) == 0.0
    assert candidate.model == pytest.approx(bundle.height_at(candidate.w), rel=1e-12)


# Paper 002, Algorithm 4


def test_balanced_proximal_takes_the_steps_of_algorithm_4():
    rng = np.random.default_rng(3)
    lam, radius, d = 0.05, 4.0, 5
    risk = MaxOfPlanes(rng.normal(size=(40, d)), rng.normal(size=40))
    states = []
    cp.minimize(
        risk,
        cp.L2(lam),
        method=cp.balanced_proximal(radius=radius),
        stop=cp.Gap(absolute=1e-12),
        max_iter=12,
        callbacks=[lambda state: states.append((state.own.stabilizer, state.gap))],
    )
    iterates, planes, taus = [np.zeros(d)], [], []
    gap_before = np.inf
    for t, (balance, gap) in enumerate(states, start=1):
        # One step as the paper writes it, from the iterates so far.
        plane = risk.at(iterates[-1]).plane()
        planes.append(plane)
        before = lam * t + sum(taus)
        steep = (lam * radius + np.linalg.norm(plane.slope)) / radius
        taus.append(0.5 * (-before + np.sqrt(before**2 + steep**2)))
        w = cvxpy.Variable(d)
        slopes = np.array([plane.slope for plane in planes])
        offsets = np.array([plane.offset for plane in planes])
        model = 0.5 * lam * cvxpy.sum_squares(w) + cvxpy.max(slopes @ w + offsets)
        terms = [
            0.5 * tau * cvxpy.sum_squares(w - at) for tau, at in zip(taus, iterates, strict=True)
        ]
        goal = t * model + sum(terms)
        clarabel(cvxpy.Minimize(goal))
        lowest = float(goal.value)
        w.value = balance.iterate
        assert balance.t == t
        assert balance.total == pytest.approx(sum(taus), rel=1e-9)
        # The reduced problem is solved to a thousandth of the gap before it, the first exactly.
        allowed = 1e-3 * gap_before if gap_before < np.inf else 0.0
        assert lowest - 1e-8 <= float(goal.value) <= lowest + t * allowed + 1e-8
        iterates.append(balance.iterate)
        gap_before = gap


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.01, 0.1, 1.0]))
@settings(max_examples=20)
def test_proposition_3(seed, lam):
    rng = np.random.default_rng(seed)
    slopes, offsets = rng.normal(size=(40, 5)), rng.uniform(0.0, 1.0, 40)
    slopes, offsets = np.vstack([slopes, np.zeros(5)]), np.append(offsets, 0.0)
    risk = MaxOfPlanes(slopes, offsets, lower_bound=0.0)
    optimum = cp.minimize(risk, cp.L2(lam), tol=1e-9)
    radius = 4.0 * np.sqrt(2.0 * risk.at(np.zeros(5)).value / lam)
    balances, objectives = [], []

    def look(state):
        balances.append(state.own.stabilizer)
        objectives.append(state.objective)

    cp.minimize(
        risk,
        cp.L2(lam),
        method=cp.balanced_proximal(radius=radius),
        stop=cp.Gap(absolute=1e-9),
        max_iter=60,
        callbacks=[look],
    )
    steepest = float(np.linalg.norm(slopes, axis=1).max())
    bound, total = 0.0, 0.0
    for balance, objective in zip(balances, objectives, strict=True):
        assert np.linalg.norm(balance.iterate) <= radius
        tau, total = balance.total - total, balance.total
        bound += 2 * tau * radius**2
        bound += (lam * radius + steepest) ** 2 / (2 * (lam * balance.t + total))
        assert objective - optimum.objective <= bound / balance.t


def test_tau_makes_the_two_terms_equal():
    balance, lam = Balance(3.0, 0, 0.0, np.zeros(1), np.zeros(1)), 0.2
    for steepness in (1.0, 5.0, 0.0, 2.0):
        after = balance.with_term(lam, steepness)
        tau = after.total - balance.total
        other = (lam * 3.0 + steepness) ** 2 / (2 * (lam * after.t + after.total))
        assert 2 * tau * 3.0**2 == pytest.approx(other, rel=1e-12)
        balance = after


def test_optimistic_radius_grows_when_reached_and_then_stays():
    rng = np.random.default_rng(1)
    risk = MaxOfPlanes(rng.normal(size=(40, 5)), 3 * rng.normal(size=40))
    radii = []
    result = cp.minimize(
        risk,
        cp.L2(0.1),
        method=cp.balanced_proximal(),
        tol=1e-6,
        callbacks=[lambda state: radii.append(state.own.stabilizer.radius)],
    )
    assert result.status is cp.Status.OPTIMAL
    assert radii[0] == 1.0
    assert radii[-1] == radii[-2] > 1.0
    assert {round(after / before, 12) for before, after in pairwise(radii)} == {
        1.0,
        round(np.sqrt(2), 12),
    }


def test_optimistic_radius_begins_within_reach():
    # For lam above 1 the optimum of a hinge loss is within 1/sqrt(lam) < 1 (Algorithm 3).
    radii = []
    cp.minimize(
        MaxOfPlanes(np.eye(3), np.zeros(3)),
        cp.L2(4.0),
        method=cp.balanced_proximal(),
        max_iter=1,
        callbacks=[lambda state: radii.append(state.own.stabilizer.radius)],
    )
    assert radii == [0.5]


# Paper 000, section 5


@pytest.mark.parametrize("name", ["planes", "planes with a floor", "hinge", "logistic", "squared"])
def test_without_a_qp_is_the_closed_form(name):
    problem = PROBLEMS[name]
    risk, lam = problem.make_risk(), problem.regularizer.lam
    run = cp.minimize(risk, problem.regularizer, method=cp.bmrm_without_qp(), tol=1e-9, max_iter=40)
    # Equation (15). The first problem has the first plane, and the floor if there is one.
    risk = problem.make_risk()
    point = risk.at(np.zeros(risk.n_parameters))
    slope, offset = np.zeros(risk.n_parameters), risk.lower_bound
    if offset == -np.inf:
        slope, offset = point.plane().slope, point.plane().offset
    w, objective = np.zeros_like(slope), point.value
    for record in run.history:
        plane = point.plane()
        w = -slope / lam
        gamma = plane.slope @ w + plane.offset - (slope @ w + offset)
        curvature = float(np.sum((lam * w + plane.slope) ** 2))
        eta = float(np.clip(lam * gamma / curvature, 0.0, 1.0)) if curvature > 0.0 else 0.0
        slope = (1 - eta) * slope + eta * plane.slope
        offset = (1 - eta) * offset + eta * plane.offset
        assert record.lower_bound == pytest.approx(
            offset - slope @ slope / (2 * lam), rel=1e-9, abs=1e-9
        )
        point = risk.at(-slope / lam)
        objective = min(objective, problem.regularizer.value(point.w) + point.value)
        assert record.objective == pytest.approx(objective, rel=1e-9)
        assert record.planes <= 2


@pytest.mark.parametrize("name", ["planes", "planes with a floor", "hinge", "logistic"])
def test_without_a_qp_is_limited_memory_with_one_plane(name):
    problem = PROBLEMS[name]
    histories = [
        cp.minimize(
            problem.make_risk(), problem.regularizer, method=method, tol=1e-3, max_iter=60
        ).history
        for method in (cp.bmrm_without_qp(), cp.bmrm(planes=1, line_search=False))
    ]
    assert len(histories[0]) == len(histories[1])
    for ours, limited in zip(*histories, strict=True):
        assert ours.lower_bound == pytest.approx(limited.lower_bound, rel=1e-9, abs=1e-9)
        assert ours.objective == pytest.approx(limited.objective, rel=1e-9)


# What goes with a ball


@pytest.mark.parametrize(
    "method", [cp.bmrm(), cp.proximal(), cp.trust_region(), cp.level(), cp.balanced_proximal()]
)
@pytest.mark.parametrize("regularizer", [cp.Ball(1.0), cp.Box(-1.0, 1.0)], ids=repr)
def test_a_set_is_for_kelley(method, regularizer):
    risk = MaxOfPlanes(np.eye(2), np.zeros(2))
    with pytest.raises(ValueError, match=r"needs a (strongly convex|quadratic) regularizer .*"):
        cp.minimize(risk, regularizer, method=method)
    assert risk.evaluations == 0


def test_kelley_is_for_a_set():
    risk = MaxOfPlanes(np.eye(2), np.zeros(2))
    with pytest.raises(
        ValueError, match=r"^OverSet needs a set to stay in, cp\.Ball or cp\.Box; got L2\(1\)"
    ):
        cp.minimize(risk, cp.L2(1.0), method=cp.kelley())


def test_kelley_resumes_on_the_same_ball_only():
    risk = MaxOfPlanes(np.random.default_rng(0).normal(size=(9, 3)), np.zeros(9))
    part = cp.minimize(risk, cp.Ball(1.0), method=cp.kelley(), max_iter=1)
    with pytest.raises(ValueError, match=r"with Ball\(1\), .* not for Ball\(2\)"):
        cp.minimize(risk, cp.Ball(2.0), method=cp.kelley(), resume=part.state)


@pytest.mark.parametrize("first", [cp.proximal(), cp.level(), cp.balanced_proximal(), cp.bmrm()])
@pytest.mark.parametrize(
    "then", [cp.trust_region(), cp.level(), cp.balanced_proximal(), cp.proximal(), cp.bmrm()]
)
def test_one_method_can_go_on_where_another_stopped(first, then):
    problem = PROBLEMS["hinge"]
    risk = problem.make_risk()
    part = cp.minimize(risk, problem.regularizer, method=first, tol=1e-6, max_iter=3)
    rest = cp.minimize(risk, problem.regularizer, method=then, tol=1e-6, resume=part.state)
    assert rest.status is cp.Status.OPTIMAL
    assert rest.objective == pytest.approx(problem.optimum, rel=1e-6)


@pytest.mark.parametrize(
    "method",
    [cp.proximal(planes=5), cp.level(), cp.balanced_proximal()],
    ids=["proximal", "level", "balanced"],
)
def test_interrupt_at_any_line_leaves_a_sound_state(method):
    problem = PROBLEMS["planes"]

    def run(**options):
        options = {"method": method, "tol": 1e-2} | options
        return cp.minimize(problem.make_risk(), problem.regularizer, **options)

    with InterruptAtLine(0) as until_two:
        run(max_iter=2)
    with InterruptAtLine(0) as until_three:
        run(max_iter=3)
    for n in range(until_two.seen + 1, until_three.seen):
        with InterruptAtLine(n):
            part = run()
        assert part.certificate.lower_bound <= problem.optimum <= part.objective + 1e-9
        rest = run(resume=part.state)
        assert rest.status is cp.Status.OPTIMAL
        assert rest.certificate.lower_bound <= problem.optimum + 64 * EPS * abs(problem.optimum)


@pytest.mark.parametrize(
    "make",
    [
        lambda: cp.proximal(weight=0.0),
        lambda: cp.proximal(weight=np.inf),
        lambda: cp.trust_region(share=0.0),
        lambda: cp.trust_region(share=1.1),
        lambda: cp.level(share=-0.1),
        lambda: cp.level(share=1.0),
        lambda: cp.balanced_proximal(radius=0.0),
        lambda: cp.level(groups=0),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(ValueError, match="must be"):
        make()


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic()], ids=repr)
def test_long_steps_do_not_multiply_rounding_errors(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = np.where(X @ rng.normal(size=20) + 3.0 * rng.normal(size=300) > 0.0, 1.0, -1.0)
    drifts = []
    # So strong a pull to the center makes the search go far beyond each candidate.
    result = cp.minimize(
        cp.ScoredRisk(X, y, loss, intercept=False),
        cp.L2(1e-3),
        method=cp.proximal(weight=1e4),
        tol=1e-9,
        max_iter=60,
        callbacks=[lambda state: drifts.append(np.abs(state.best.scores - X @ state.best.w).max())],
    )
    assert max(drifts) < 1e-13
    assert result.certificate.status is not cp.Status.INCONSISTENT


def test_every_so_manieth_step_of_the_level_method_can_be_plain():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.where(rng.random(60) < 0.5, -1.0, 1.0)

    def candidates(stabilizer):
        risk = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
        method = replace(cp.bmrm(line_search=False), stabilizer=stabilizer)
        result = cp.minimize(risk, cp.L2(0.1), method=method, tol=1e-6)
        assert result.status is cp.Status.OPTIMAL
        return [(record.iteration, record.objective) for record in result.history]

    assert candidates(Level(plain_every=1)) == candidates(NoStabilizer())
    assert candidates(Level(plain_every=10_000)) == candidates(Level())
    assert candidates(Level(plain_every=3)) != candidates(Level())
    with pytest.raises(ValueError, match="plain_every must be at least 1, got 0"):
        Level(plain_every=0)
