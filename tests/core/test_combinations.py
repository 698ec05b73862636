"""The product of all choices: each combination works, or says in one sentence why it cannot.

A new stabilizer, memory, query or kind of cuts is one line of a dictionary here.
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
from cutplane.core.policies.bmrm import AtCandidate, ConvexCuts, KeepAll, NoStabilizer, OnSegment
from cutplane.core.policies.cuts import NonConvexCuts, ObjectiveCuts, ProximalToBest
from cutplane.core.policies.memory import AggregateOnly, ForgetIdle, LimitedMemory
from cutplane.core.policies.over_set import OverSet
from cutplane.core.policies.stabilizers import BalancedProximal, Level, Proximal, TrustRegion
from cutplane.core.policies.trials import ByTrials, CutAt
from cutplane.models.multiclass.ascent import ClassEpochs
from cutplane.models.multiclass.newton import ClassNewtonSteps
from cutplane.solvers.block_ascent import BlockAscent
from cutplane.solvers.cccp import ConvexSteps, NoPlanes
from cutplane.solvers.coordinates.descent import CoordinateSteps, StayAtBest
from cutplane.solvers.coordinates.quasi_newton import BoundAtBest, SparseQuasiNewton
from cutplane.solvers.dual_ascent import DualEpochs
from cutplane.solvers.newton import NewtonSteps
from cutplane.solvers.quasi_newton import QuasiNewtonSteps
from cutplane.solvers.stochastic import StochasticPasses
from cutplane.solvers.subgradient import SubgradientSteps

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
    "convex steps": ConvexSteps(),
    "subgradient steps": SubgradientSteps(),
    "stay": StayAtBest(),
    "bound": BoundAtBest(),
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
    "newton": NewtonSteps(),
    "dual ascent": DualEpochs(),
    "class ascent": ClassEpochs(),
    "class newton": ClassNewtonSteps(),
    "block ascent": BlockAscent(),
    "quasi-newton": QuasiNewtonSteps(),
    "stochastic": StochasticPasses(),
    "coordinates": CoordinateSteps(),
    "sparse quasi-newton": SparseQuasiNewton(),
}
CUTS = {
    "convex": ConvexCuts(),
    "non-convex": NonConvexCuts(),
    "objective": ObjectiveCuts(),
    "none": NoPlanes(),
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
    r"\w+ makes planes of duals, which hold for convex risks; it needs ConvexCuts",
    r"\w+ makes planes of the whole risk; it needs groups=1",
    r"\w+ compares planes with the whole risk; groups need ConvexCuts",
    r"\w+ needs a strongly convex regularizer such as cp\.L2 \(.*\); got (Ball|Box)\(.*1\)",
    r"OverSet needs a set to stay in, cp\.Ball or cp\.Box; got .*",
    r"\w+ needs a quadratic regularizer such as cp\.L2; got (ElasticNet|L1|Box)\(.*\)",
    r"NewtonSteps needs a linear risk on dense or CSR rows; got .*",
    r"DualEpochs needs a linear risk on rows in memory; got .*",
    r"Class(Epochs|NewtonSteps) needs a loss of all classes \(CrammerSinger or Softmax\); got .*",
    r"CoordinateSteps needs a linear risk with one score an example; got .*",
    r"SparseQuasiNewton needs a smooth loss; got .*",
    r"BoundAtBest needs a regularizer that is a sum over coordinates; got .*",
    r"(StayAtBest|BoundAtBest) proposes nothing, and \w+ needs a candidate",
    r"StochasticPasses needs a risk that is a sum over examples; got .*",
    r"BlockAscent needs a structured model, and a loss that .*; got .*",
    r"the method \w+ needs a convex risk, and this one is not.*; use nrbm",
    r"\w+ takes no planes, and \w+ makes planes of the (risk|objective)",
    r"\w+ takes planes of the (risk|objective), and \w+ makes no planes",
    r"\w+ has no model to search by; it needs AtCandidate",
    r"\w+ has no planes that \w+ could drop; it needs KeepAll",
    r"ConvexSteps needs a risk whose losses have a convex part, such as cp\.Ramp\(\); got .*",
]


def combined(stabilizer, memory, query, cuts, problem):
    """Return the method for a problem, or the reason why it cannot be used."""
    try:
        method = cp.Method(
            STABILIZERS[stabilizer], MEMORIES[memory], QUERIES[query], CUTS[cuts], problem.groups
        )
        method.require_suitable(core.Problem(problem.make_risk(), problem.regularizer))
    except ValueError as refused:
        return str(refused)
    return method


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("stabilizer", STABILIZERS)
def test_every_combination_works_or_says_why_not(stabilizer, name):
    problem = ALL[name]
    risk = problem.make_risk()
    first = problem.regularizer.value(problem.start) + risk.at(problem.start).value
    for choices in product(MEMORIES, QUERIES, CUTS):
        method = combined(stabilizer, *choices, problem)
        if isinstance(method, str):
            assert sum(bool(re.fullmatch(reason, method)) for reason in REASONS) == 1, method
            continue
        result = cp.minimize(
            problem.make_risk(), problem.regularizer, method=method, start=problem.start,
            tol=1e-2, max_iter=15,
        )  # fmt: skip
        where = f"{stabilizer}, {', '.join(choices)}: {result!r}"
        assert np.isfinite(result.objective), where
        assert result.objective <= first, where
        if problem.optimum is None or method.cuts.planes_of != "risk":
            assert not result.certificate.valid, where
            continue
        assert result.certificate.valid, where
        assert result.certificate.lower_bound <= problem.optimum + 1e-9, where
        assert problem.optimum <= result.objective + 1e-9, where
        if result.status is cp.Status.OPTIMAL or "greedy" in choices:
            continue  # the paper's greedy search may get stuck, and says so
        gaps = [record.gap for record in result.history]
        assert gaps[-1] < 0.9 * gaps[0], where


def test_how_many_combinations_there_are():
    # Which ones can be used is part of the interface: none may be lost, and none become false.
    legal, said = {}, set()
    for name, problem in ALL.items():
        legal[name] = 0
        for choices in product(STABILIZERS, MEMORIES, QUERIES, CUTS):
            method = combined(*choices, problem)
            if isinstance(method, str):
                said |= {reason for reason in REASONS if re.fullmatch(reason, method)}
            else:
                legal[name] += 1
    # Stabilizers but the four that go with one choice only; quasi-Newton steps, and those at
    # the candidate, on segments and by trials.
    queries = 4 + len(CutAt)
    free = 6 * len(MEMORIES) * queries
    # Proximal to best, with planes of the objective, and subgradient steps: they bound nothing.
    uncertified = len(MEMORIES) * queries + 1
    assert legal == {
        "planes": 2 * free + uncertified,
        "function, other metric": 2 * free + uncertified,
        "elastic net": len(MEMORIES) * 3,  # no stabilizer, no search by trials
        "L1": len(MEMORIES) * 3,
        "ball": 1,
        "box": 1,
        "groups": free,
        # And Newton steps, dual ascent, stochastic passes, coordinates; these also without a
        # reduced problem, with a bound or without; convex steps.
        "linear": 2 * free + uncertified + (4 * 6 + 2) * len(MEMORIES) + 1,
        "structured": 2 * free + uncertified + 2 * 6 * len(MEMORIES) + 1,
        "ramp": free + uncertified + 1,  # non-convex cuts only; and convex steps
        "ramp loss": free + uncertified,
        "waves": free + uncertified,
    }
    assert said == set(REASONS)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("query", ["candidate", "segment"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("stabilizer", list(STABILIZERS)[:6])
def test_convex_combinations_reach_the_optimum(stabilizer, memory, query, groups):
    problem = PROBLEMS["hinge CSR intercept"]
    method = cp.Method(
        STABILIZERS[stabilizer], MEMORIES[memory], QUERIES[query], ConvexCuts(), groups
    )
    # Two planes close the gap like 1/t, so less is asked of them.
    result = cp.minimize(
        problem.make_risk(),
        problem.regularizer,
        method=method,
        stop=cp.Gap(relative=0.05 if memory == "aggregate" else 1e-4),
    )
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.lower_bound <= problem.optimum <= result.objective + 1e-9
