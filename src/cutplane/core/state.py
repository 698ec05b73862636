"""What a run knows while it goes on, and where it begins.

It begins at a point, with the planes of an earlier run, or where that one ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector, copied
from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.certificate import Certificate, Record, Stationarity, relative
from cutplane.core.method import Found, Method, PolicyStates
from cutplane.core.needs import as_grouped, good_groups, planes_of_groups
from cutplane.core.problem import Candidate, Problem
from cutplane.core.protocols import NonFiniteRisk, Plane, Point, Risk, sum_of

# Reduced problems are solved to this share of the current gap: tighter would not show in the next
# plane, and the bound holds for any accuracy.
SHARE_OF_GAP = 1e-3

# A lower bound above the objective by more than this share cannot be rounding: the risk is not
# convex, or its subgradient is wrong.
_CONTRADICTION = 1e-9

# A value that differs by more than this share when it is computed once more cannot be rounding: the
# risk is not the same function each time, or its segments do not fit its points.
DISAGREEMENT = 1e-6


@dataclass(slots=True)
class State:
    """Everything that changes while the loop runs: a run can go on from it as if never stopped.

    All of it is data, and nothing else remembers anything. What the policies of the ``method`` know
    is in ``policies``; all bounds belong to the ``problem``. ``last_step`` is how far from the best
    point the last search went. ``seconds_left`` is for a query that may take longer than the time
    limit of the run allows, ``enough`` the gap that is small enough, for a policy that solves
    problems of its own; ``convex_step`` is what is proven of the last one.
    """

    problem: Problem
    method: Method
    bundle: Bundle
    best: Point
    objective: float
    policies: PolicyStates = field(default_factory=PolicyStates)
    lower: float = -np.inf
    convex: bool = True
    iteration: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    seconds_left: float = np.inf
    enough: float = 0.0
    last_step: float | None = None
    stopped: bool = False
    interrupted: bool = False
    stalled_for: int = 0
    stationarity: Stationarity | None = None
    convex_step: Certificate | None = None
    refuted: bool = False
    history: list[Record] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Objective minus lower bound; infinite before the first bound."""
        return self.objective - self.lower

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective."""
        return relative(self.gap, self.objective)

    @property
    def accuracy(self) -> float:
        """How accurately reduced problems should be solved."""
        # Before the first bound the gap is infinite; any accuracy will do, so ask for an exact one.
        return max(SHARE_OF_GAP * self.gap, 0.0) if self.gap < np.inf else 0.0

    @property
    def contradictory(self) -> bool:
        """Whether a bound or a plane is clearly above the risk: no convex one allows that."""
        scale = abs(self.objective) + abs(self.lower) + self.bundle.offset_scale
        return self.refuted or self.gap < -_CONTRADICTION * scale

    def test(self, plane: Plane, points: list[Point]) -> None:
        """Compare a plane with the risk where it is known: above it, the plane is wrong."""
        for point in (self.best, *points):
            height = dot(plane.slope, point.w)
            # Where the risk vanishes these are all rounding, and small beside the objective.
            scale = abs(height) + abs(plane.offset) + abs(point.value) + abs(self.objective)
            if height + plane.offset - point.value > _CONTRADICTION * scale:
                self.refuted = True

    def test_model(self, bundle: Bundle) -> None:
        """Compare the planes of an earlier run with the risk at the best point."""
        height = bundle.height_at(self.best.w)
        scale = abs(height) + float(np.abs(bundle.offsets).max()) + abs(self.best.value)
        if height - self.best.value > _CONTRADICTION * scale:
            self.refuted = True

    def planes_at(self, point: Point) -> Sequence[Plane]:
        """Return the plane of a point, or those of the bundle's groups."""
        return planes_of_groups(point, self.bundle.n_groups)

    def require_finite(self, point: Point) -> None:
        """Raise NonFiniteRisk unless planes can be taken at a point."""
        part = ""
        if not np.isfinite(point.value):
            part = f"the risk is {point.value}"
        else:
            for plane in self.planes_at(point):
                if not np.isfinite(dot(plane.slope, plane.slope)):
                    part = "the subgradient is not finite, or too steep to be squared"
                elif not np.isfinite(plane.offset):
                    part = f"the offset of the plane is {plane.offset}"
        if part:
            raise NonFiniteRisk(
                f"{part} in iteration {self.iteration} at a point of norm "
                f"{np.linalg.norm(point.w):.3g}"
            )

    def raise_lower_bound(self, candidate: Candidate) -> bool:
        """Keep the better bound; return whether it moved."""
        moved = candidate.lower > self.lower
        if moved:
            self.lower = candidate.lower
        return moved

    def keep_best(self, points: list[Point]) -> bool:
        """Keep the point with the lowest objective; return whether it changed."""
        before = self.best
        for point in points:
            objective = self.problem.objective(point)
            if objective < self.objective:
                self.best, self.objective = point, objective
        return self.best is not before

    def record(self) -> Record:
        """Return the current line of the history."""
        return Record(
            iteration=self.iteration,
            objective=self.objective,
            lower_bound=min(self.lower, self.objective),
            evaluations=self.evaluations,
            planes=self.bundle.n_planes,
            seconds=self.seconds,
        )

    def __repr__(self) -> str:
        return (
            f"State(iteration {self.iteration}, objective {self.objective:.8g}, lower bound "
            f"{self.lower:.8g}, {self.bundle.n_planes} planes)"
        )


def first_state(problem: Problem, start: Vector | None, method: Method, *, convex: bool) -> State:
    """Return the state of a run that begins at a point, zero by default."""
    risk, regularizer = problem.risk, problem.regularizer
    w = np.zeros(risk.n_parameters) if start is None else np.array(start, dtype=np.float64)
    if w.shape != (risk.n_parameters,):
        raise ValueError(f"start has shape {w.shape}, the risk has {risk.n_parameters} parameters")
    if not np.isfinite(regularizer.value(w)):
        if start is not None:
            raise ValueError(f"{regularizer!r} does not allow the start: its value is infinite")
        w = regularizer.conjugate(w)[1]  # the conjugate at zero is attained at the minimum
    best = method.query.first(problem, w)
    groups = good_groups(risk) if method.groups is None else method.groups
    state = State(
        problem=problem,
        method=method,
        bundle=Bundle(risk.n_parameters, regularizer, groups),
        best=best,
        objective=problem.objective(best),
        policies=method.init(problem),
        convex=convex,
    )
    state.require_finite(best)
    floors = _floors(risk, groups)
    if min(floor.offset for floor in floors) > -np.inf:
        state.bundle.add(*floors)
        state.raise_lower_bound(problem.below(sum_of(floors)))
    _cut_at_best(state)
    return state


def _floors(risk: Risk, groups: int) -> list[Plane]:
    """Return the flat planes that the risk, or each of its groups, never goes below."""
    if groups == 1:
        return [Plane(np.zeros(risk.n_parameters), risk.lower_bound)]
    bounds = as_grouped(risk).group_bounds(groups)
    return [Plane(np.zeros(risk.n_parameters), float(bound)) for bound in bounds]


def _cut_at_best(state: State) -> None:
    """Add the planes of the best point, the only one so far."""
    own, found = state.policies, Found([state.best], [state.best])
    _, own.cuts = state.method.cuts.add(state, found, state.best, own.cuts)


def with_planes_of(earlier: State, problem: Problem, method: Method, *, convex: bool) -> State:
    """Return the first state of a run that knows the planes of an earlier one on the same risk."""
    risk, regularizer = problem.risk, problem.regularizer
    if not (convex and earlier.convex):
        raise ValueError(
            "planes of a risk that is not convex hold near one point and for one regularizer only; "
            "give start=result.w in place of planes_from"
        )
    n_parameters = earlier.bundle.n_parameters
    if n_parameters != risk.n_parameters:
        raise ValueError(
            f"planes_from has planes of {n_parameters} parameters, the risk has "
            f"{risk.n_parameters}: they are of another risk"
        )
    problem.require_risk_of(earlier.problem, "planes_from")
    start = earlier.best.w if np.isfinite(regularizer.value(earlier.best.w)) else None
    state = first_state(problem, start, method, convex=convex)
    # Only rounding may have changed, which counts beside the terms that values are made of.
    scale = abs(state.objective) + earlier.bundle.offset_scale
    change = abs(state.best.value - earlier.best.value)
    if start is not None and change > DISAGREEMENT * scale:
        raise ValueError(
            f"at the best point of planes_from the risk was {earlier.best.value:.8g} and is now "
            f"{state.best.value:.8g}: its data have changed, and the old bounds do not hold"
        )
    bundle = earlier.bundle
    if type(method.query) is type(earlier.method.query):
        state.policies.query = method.query.carried_over(earlier.policies.query, state)
    state.test_model(bundle)
    if bundle.n_groups == state.bundle.n_groups:
        state.bundle = bundle.carried_over(regularizer)
        _cut_at_best(state)
        return state
    # Planes of other groups cannot be used one by one. All together they are a plane.
    together = bundle.aggregate()
    state.raise_lower_bound(problem.below(together))
    if state.bundle.n_groups == 1:
        state.bundle.add(together)
    return state


def continued(earlier: State, problem: Problem, method: Method) -> State:
    """Return a state to go on with that shares nothing mutable with the earlier run's."""
    problem.require_risk_of(earlier.problem, "resume")
    problem.require_regularizer_of(earlier.problem)
    before, n_groups = earlier.method, earlier.bundle.n_groups
    if method.groups not in (None, n_groups):
        raise ValueError(
            f"resume is of a run with planes of {n_groups} groups, and the method asks for "
            f"{method.groups}; give planes_from= in place of it"
        )
    if not earlier.convex and type(method.cuts) is not type(before.cuts):
        raise ValueError(
            f"resume is of a run with planes of {type(before.cuts).__name__}, which mean nothing "
            f"to {type(method.cuts).__name__}; give start=, with its w, in place of it"
        )
    return replace(
        earlier,
        problem=problem,
        method=method,
        bundle=earlier.bundle.copied(),
        policies=_remembered(earlier, problem, method),
        history=list(earlier.history),
        stopped=False,
        interrupted=False,
    )


def _remembered(earlier: State, problem: Problem, method: Method) -> PolicyStates:
    """Return what policies know: those of another kind than before begin anew."""
    own: dict[str, Any] = {}
    for choice in (part.name for part in fields(PolicyStates)):
        policy = getattr(method, choice)
        if type(policy) is type(getattr(earlier.method, choice)):
            own[choice] = copied(getattr(earlier.policies, choice))
        else:  # only then: to begin may cost an evaluation
            own[choice] = policy.init(problem)
    return PolicyStates(**own)
