"""Newton's method where rows lie on the members of a team.

Members run the code of `cutplane.solvers.newton` at the same time, each on its own examples.
Scores, slopes and duals stay with them. What travels are the sums that this code takes: planes, and
the matrix of second derivatives, ``d^2`` numbers a step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cutplane.cluster.calls import Told, told_of
from cutplane.cluster.member import Holding, name_of
from cutplane.cluster.risk import ShardedPoint, ShardedRisk
from cutplane.cluster.sample import Step
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem
from cutplane.regularizers import L2
from cutplane.risks.scored import ScoredPoint, ScoredRisk
from cutplane.solvers.newton import NewtonState, SmoothedNewton


def first_width(holding: Holding, risk: ScoredRisk, point: ScoredPoint, regularizer: L2) -> float:
    """Return how widely to round kinks at first."""
    return SmoothedNewton(Problem(risk, regularizer)).first_width(point)


def begin(
    holding: Holding, risk: ScoredRisk, point: ScoredPoint, regularizer: L2, width: float
) -> tuple[NewtonState, None]:
    """Make the state at a point."""
    steps = SmoothedNewton(Problem(risk, regularizer))
    return steps.begun(point, width, np.zeros(len(point.scores))), None


class Moved(NamedTuple):
    """What the leader is told of a step: the planes that were met, and where it led."""

    planes: list[Plane]
    w: Any


def step(
    holding: Holding, risk: ScoredRisk, state: NewtonState, regularizer: L2
) -> tuple[NewtonState, Moved]:
    """Take a step from a state, which is left as it was."""
    state = replace(state)
    planes = SmoothedNewton(Problem(risk, regularizer)).step(state)
    return state, Moved(planes, state.point.w)


def point_of(holding: Holding, state: NewtonState) -> tuple[ScoredPoint, Told]:
    """Return the point of a state."""
    return told_of(state.point)


class Kept:
    """Something that the members keep, as long as this is alive.

    Attributes
    ----------
    history : list of Step
        How they make it, and before that what it is made of.
    told : object
        What they have told of it.
    """

    def __init__(self, risk: ShardedRisk, history: list[Step]) -> None:
        self.history = history
        self.told = risk.sample.keep(self, self.step)

    @property
    def step(self) -> Step:
        """How the members make it."""
        return self.history[-1]


class ShardedNewtonState:
    """A state of Newton's method that the members keep.

    Attributes
    ----------
    point : ShardedPoint
        The last iterate.
    kept : Kept
        What the members keep it for.
    """

    def __init__(self, point: ShardedPoint, kept: Kept) -> None:
        self.point, self.kept = point, kept


class ShardedNewton:
    """Newton's method for one problem on shards; as `SmoothedNewton` to those who call it."""

    def __init__(self, problem: Problem) -> None:
        self._risk: ShardedRisk = problem.risk  # type: ignore[assignment]
        self._regularizer: L2 = problem.regularizer  # type: ignore[assignment]

    def first_width(self, point: ShardedPoint) -> float:
        """Return a width at which the mean example lies inside the rounded part of its kink."""
        given = [self._risk.step, point.step]
        return float(self._risk.sample.ask(first_width, given, self._regularizer))

    def begun(self, point: ShardedPoint, width: float, duals: None = None) -> ShardedNewtonState:
        """Return the state at a point, with duals of zero."""
        made = Step(
            name_of(begin), (self._risk.step, point.step), (self._regularizer, float(width))
        )
        return ShardedNewtonState(point, Kept(self._risk, [*point.history, made]))

    def step(self, state: ShardedNewtonState) -> list[Plane]:
        """Take a Newton step; return the planes that were met."""
        risk = self._risk
        risk.evaluations += 1
        made = Step(name_of(step), (risk.step, state.kept.step), (self._regularizer,))
        state.kept = Kept(risk, [*state.kept.history, made])
        moved: Moved = state.kept.told
        arrived = Step(name_of(point_of), (made,))
        state.point = ShardedPoint(risk, moved.w, arrived, state.kept.history)
        return moved.planes
