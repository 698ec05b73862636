"""The product of all choices: each combination works, or says in one sentence why it cannot.

A new stabilizer, memory, query or kind of cuts is one line of a dictionary here. Solvers are those
of the registry.
"""

import re
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import cvxpy
import numpy as np
import pytest
from cvxpy.transforms import indicator

import cutplane as cp
from cutplane.core import state as core
from cutplane.core.policies.bmrm import (
    AggregateOnly,
    AtCandidate,
    ByTrials,
    ConvexCuts,
    CutAt,
    ForgetIdle,
    KeepAll,
    LimitedMemory,
    NoStabilizer,
    OnSegment,
)
from cutplane.core.policies.cuts import NonConvexCuts, ObjectiveCuts, ProximalToBest
from cutplane.core.policies.flat import OverSet
from cutplane.core.policies.stabilizers import BalancedProximal, Level, Proximal, TrustRegion
from cutplane.core.solver import BundleSolver
from cutplane.models.multiclass.ascent import ClassEpochs
from cutplane.models.multiclass.newton import ClassNewtonSteps
from cutplane.solvers.quasi_newton import QuasiNewtonSteps
from cutplane.solvers.registry import (
    KERNEL_METHODS,
    ROBUST_METHODS,
    STOCHASTIC_METHODS,
    STRUCTURED_METHODS,
)

from ..risks.exact import clarabel
from .oracles import FunctionRisk, largest, ramp_loss, waves
from .problems import PROBLEMS, MaxOfPlanes, structured_problem

STABILIZERS = {
    "none": NoStabilizer(),
    "proximal": Proximal(),
    "adaptive": Proximal(None),
    "trust region": TrustRegion(),
    "level": Level(),
    "balanced": BalancedProximal(),
    "set": OverSet(),
    "proximal to best": ProximalToBest(),
}
MEMORIES = {
    "all": KeepAll(),
    "used": ForgetIdle(),
    "limited": LimitedMemory(12),
    "aggregate": AggregateOnly(),
}
QUERIES = {
    "candidate": AtCandidate(),
    "segment": OnSegment(),
    "greedy": OnSegment(beyond=0.0, enough=0.0, otherwise=ByTrials(cut_at=CutAt.LOWEST)),
    **{f"trials, {cut_at}": ByTrials(cut_at=cut_at) for cut_at in CutAt},
}
CUTS = {
    "convex": ConvexCuts(),
    "non-convex": NonConvexCuts(),
    "objective": ObjectiveCuts(),
}
# Those of the registry that are no bundle methods, each made for a problem; and variants of some.
REGISTERED = ROBUST_METHODS | STRUCTURED_METHODS | KERNEL_METHODS
_ANY = core.Problem(PROBLEMS["hinge CSR intercept"].make_risk(), cp.L2(1.0))
SOLVERS = {
    name: make
    for name, make in REGISTERED.items()
    if name != "auto" and not isinstance(make(_ANY), BundleSolver)
} | {
    "class ascent": lambda problem: ClassEpochs(),
    "class newton": lambda problem: ClassNewtonSteps(),
    "quasi-newton, convex": lambda problem: QuasiNewtonSteps(),
    "quasi-newton, limited": lambda problem: QuasiNewtonSteps(planes=12),
    "quasi-newton, non-convex": lambda problem: QuasiNewtonSteps(cuts=NonConvexCuts()),
}


class Problem(NamedTuple):
    """A risk for each run, what is added to it, where to begin, and the minimum if it is known."""

    make_risk: Callable[[], object]
    regularizer: object
    start: np.ndarray
    optimum: float | None = None
    groups: int = 1


def of_planes(slopes, offsets, regularizer, penalty, make_risk=MaxOfPlanes):
    """The maximum of planes, the last of them flat, with its exact minimum."""
    w = cvxpy.Variable(slopes.shape[1])
    goal = cvxpy.max(slopes @ w + offsets) + penalty(w)
    clarabel(cvxpy.Minimize(goal))
    return Problem(
        lambda: make_risk(slopes, offsets), regularizer, np.zeros(w.size), float(goal.value)
    )


def _problems():
    rng = np.random.default_rng(0)
    slopes = np.vstack([rng.normal(size=(12, 3)), np.zeros(3)])
    offsets = np.append(rng.normal(size=12), -1.0)

    def with_floor(slopes, offsets):
        return MaxOfPlanes(slopes, offsets, lower_bound=-1.0)

    def without_lines(slopes, offsets):
        return FunctionRisk(largest(slopes, offsets), 3, convex=True)

    yield "planes", of_planes(slopes, offsets, cp.L2(0.3), lambda w: 0.15 * cvxpy.sum_squares(w))
    center, weights = np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 0.5])
    yield (
        "function, other metric",
        of_planes(
            slopes, offsets, cp.L2(0.3, center=center, weights=weights),
            lambda w: 0.15 * cvxpy.sum_squares(cvxpy.multiply(weights, w - center)), without_lines,
        ),
    )  # fmt: skip
    yield (
        "elastic net",
        of_planes(
            slopes, offsets, cp.ElasticNet(0.2, 0.5),
            lambda w: 0.1 * cvxpy.norm1(w) + 0.05 * cvxpy.sum_squares(w), with_floor,
        ),
    )  # fmt: skip
    yield "L1", of_planes(slopes, offsets, cp.L1(0.1), lambda w: 0.1 * cvxpy.norm1(w), with_floor)
    yield (
        "ball",
        of_planes(slopes, offsets, cp.Ball(1.0), lambda w: indicator([cvxpy.norm2(w) <= 1.0])),
    )
    yield (
        "box",
        of_planes(slopes, offsets, cp.Box(-0.5, 1.0), lambda w: indicator([w >= -0.5, w <= 1.0])),
    )
    hinge = PROBLEMS["hinge CSR intercept"]
    yield "groups", Problem(hinge.make_risk, hinge.regularizer, np.zeros(4), hinge.optimum, 3)
    yield "linear", Problem(hinge.make_risk, hinge.regularizer, np.zeros(4), hinge.optimum)
    X = rng.normal(size=(30, 3))
    classes = structured_problem("structured", X, np.argmax(X, axis=1), 0.1)
    yield (
        "structured",
        Problem(classes.make_risk, classes.regularizer, np.zeros(9), classes.optimum),
    )
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=30) > 0, 1.0, -1.0)
    yield (
        "ramp",
        Problem(lambda: cp.ScoredRisk(X, y, cp.Ramp()), cp.L2(0.1), np.full(3, 0.1)),
    )
    ramp = ramp_loss(X, y)
    yield "ramp loss", Problem(lambda: FunctionRisk(ramp, 3), cp.L2(0.1), np.full(3, 0.1))
    yield "waves", Problem(lambda: FunctionRisk(waves, 2), cp.L2(0.5), np.array([1.0, -2.0]))


ALL = dict(_problems())


# All that can be said against a combination. Each is said of some, and of no other.
REASONS = [
    r"\w+ would leave the set; kelley\(\) needs AtCandidate",
    r"without a regularizer nothing but its planes .* \w+ drops some; kelley\(\) needs KeepAll",
    r"candidates lie anywhere in the set, .* of \w+ say nothing; kelley\(\) needs ConvexCuts",
    r"\w+ takes planes of the (risk|objective), and \w+ makes planes of the (risk|objective)",
    r"\w+ compares planes with the whole risk; groups need ConvexCuts",
    r"\w+ needs a strongly convex regularizer such as cp\.L2 \(.*\); got (Ball|Box)\(.*1\)",
    r"OverSet needs a set to stay in, cp\.Ball or cp\.Box; got .*",
    r"\w+ needs a quadratic regularizer such as cp\.L2; got (ElasticNet|L1|Box)\(.*\)",
    r"the method 'quasi-newton' is for smooth losses: .*",
    r"the method [\w-]+ needs a convex risk, and this one is not.*; use nrbm",
]
# And what solvers say that they need.
NEEDS = {
    rf"{type(made).__name__} needs {re.escape(need.what)}; got .*"
    for make in SOLVERS.values()
    for made in [make(_ANY)]
    for need in made.needs
}


def is_known(refused):
    """Say whether a refusal is one of those that are known, and of no two choices."""
    said = [reason for reason in REASONS if re.fullmatch(reason, refused)]
    return len(said) == 1 or (not said and any(re.fullmatch(need, refused) for need in NEEDS))


def suiting(make, problem):
    """Return the solver for a problem, or the reason why it cannot be used."""
    try:
        found = core.Problem(problem.make_risk(), problem.regularizer)
        solver = make(found)
        solver.require_suitable(found)
    except ValueError as refused:
        return str(refused)
    return solver


def combined(stabilizer, memory, query, cuts, problem):
    """Return the bundle method for a problem, or the reason why it cannot be used."""
    choices = STABILIZERS[stabilizer], MEMORIES[memory], QUERIES[query], CUTS[cuts]
    return suiting(lambda _: cp.Method(*choices, problem.groups), problem)


def require_right(solver, problem, what):
    """Let a solver run: its bounds hold, and the gap closes. Or it has a known reason not to."""
    if isinstance(solver, str):
        assert is_known(solver), solver
        return
    risk = problem.make_risk()
    first = problem.regularizer.value(problem.start) + risk.at(problem.start).value
    result = cp.minimize(
        problem.make_risk(), problem.regularizer, method=solver, start=problem.start,
        tol=1e-2, max_iter=15,
    )  # fmt: skip
    where = f"{what}: {result!r}"
    assert np.isfinite(result.objective), where
    assert result.objective <= first, where
    if problem.optimum is None or not solver.bounds:
        assert not result.certificate.valid, where
        return
    assert result.certificate.valid, where
    assert result.certificate.lower_bound <= problem.optimum + 1e-9, where
    assert problem.optimum <= result.objective + 1e-9, where
    if result.status is cp.Status.OPTIMAL or "greedy" in what:
        return  # the paper's greedy search may get stuck, and says so
    gaps = [record.gap for record in result.history]
    assert gaps[-1] < 0.9 * gaps[0], where


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("stabilizer", STABILIZERS)
def test_every_combination_works_or_says_why_not(stabilizer, name):
    problem = ALL[name]
    for choices in product(MEMORIES, QUERIES, CUTS):
        method = combined(stabilizer, *choices, problem)
        require_right(method, problem, f"{stabilizer}, {', '.join(choices)}")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_works_or_says_why_not(solver, name):
    require_right(suiting(SOLVERS[solver], ALL[name]), ALL[name], solver)


def test_how_many_combinations_there_are():
    # Which ones can be used is part of the interface: none may be lost, and none become false.
    legal, said = {}, set()

    def heard(method):
        if isinstance(method, str):
            said.update(reason for reason in REASONS if re.fullmatch(reason, method))
        return not isinstance(method, str)

    for name, problem in ALL.items():
        choices = product(STABILIZERS, MEMORIES, QUERIES, CUTS)
        legal[name] = sum(heard(combined(*each, problem)) for each in choices)
    # Stabilizers but the two that go with one choice only.
    queries = 3 + len(CutAt)
    free = 6 * len(MEMORIES) * queries
    # Proximal to best, with planes of the objective: it bounds nothing.
    uncertified = len(MEMORIES) * queries
    everywhere = {"quasi-newton", "quasi-newton, convex", "quasi-newton, limited"}
    everywhere |= {"quasi-newton, non-convex", "subgradient"}
    not_convex = {"quasi-newton", "quasi-newton, non-convex", "subgradient"}
    assert legal == {
        "planes": 2 * free + uncertified,
        "function, other metric": 2 * free + uncertified,
        "elastic net": len(MEMORIES) * 3,  # no stabilizer, no search by trials
        "L1": len(MEMORIES) * 3,
        "ball": 1,
        "box": 1,
        "groups": free,
        "linear": 2 * free + uncertified,
        "structured": 2 * free + uncertified,
        "ramp": free + uncertified,  # non-convex cuts only
        "ramp loss": free + uncertified,
        "waves": free + uncertified,
    }
    passes = {*STOCHASTIC_METHODS}
    linear = passes | {"newton", "dual-ascent", "coordinate-descent", "cccp"}
    of_its_own = {
        "planes": everywhere,
        "function, other metric": everywhere,
        "groups": everywhere | linear,
        "linear": everywhere | linear,
        "structured": everywhere - {"quasi-newton"} | passes | {"block-ascent", "cccp"},
        "ramp": not_convex | {"cccp"},
        "ramp loss": not_convex,
        "waves": not_convex,
    }
    for_none = {"class ascent", "class newton", "sparse-quasi-newton", "pair-ascent"}
    listed = set().union(for_none | {"kernel-newton"}, *of_its_own.values())
    for name, problem in ALL.items():
        able = {key for key, make in SOLVERS.items() if heard(suiting(make, problem))}
        assert able & listed == of_its_own.get(name, set()), name
