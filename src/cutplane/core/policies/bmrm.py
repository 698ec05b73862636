"""The choices that make BMRM (paper 000, Algorithm 1), with a search on the way or without.

- Stabilizer: none; the candidate minimizes the reduced problem.
- Query: at the candidate, or on the ray from the best point through it.
- Memory: every plane is kept.
- Cuts: the planes that touch the risk, as they are.

Points may be those of a user's risk. Whether they know the risk along lines is asked here, where
they come in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.method import Cuts, Found, Memory, Query, Stabilizer
from cutplane.core.policies.trials import ByTrials
from cutplane.core.protocols import (
    GuidedSegment,
    Point,
    Quadratic,
    SearchablePoint,
    Segment,
    facts_at,
    has_methods_of,
)
from cutplane.core.reduced.linear_program import propose_at_level
from cutplane.core.search import minimize_on_segment
from cutplane.core.solver import Step
from cutplane.core.state import Candidate, Problem, Run, sum_of


@dataclass(frozen=True, slots=True)
class NoStabilizer(Stabilizer[float | None]):
    """The reduced problem as it is: ``min_w r(w) + max_i a_i.w + b_i``.

    With a regularizer that has no curvature its solutions jump about. Then the candidate is a point
    on the way to them, and how strongly it is held at the best point is remembered.
    """

    def propose(self, state: Run, own: float | None) -> tuple[Candidate, float | None]:
        """Solve the reduced problem."""
        if flat := state.problem.flat:
            return propose_at_level(flat, state, own)
        return state.bundle.minimize(state.problem, accuracy=state.accuracy), None


@dataclass(frozen=True, slots=True)
class AtCandidate(Query[None]):
    """Evaluate at the minimizer of the reduced problem, as the plain methods do."""

    leaves_candidate: ClassVar[bool] = False

    def __call__(self, state: Run, candidate: Candidate, own: None) -> tuple[Found, None]:
        """Evaluate the risk at the candidate."""
        point = state.problem.risk.at(candidate.w)
        return Found([point], [point]), None


@dataclass(frozen=True, slots=True)
class KeepAll(Memory[None]):
    """Every plane survives: the tightest model, at the price of memory."""

    drops_planes: ClassVar[bool] = False

    def make_room(self, bundle: Bundle, incoming: int, own: None) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class ConvexCuts(Cuts[None]):
    """A convex risk lies above each of its tangent planes, so they are added as they are."""

    for_convex: ClassVar[bool] = True

    def add(self, state: Run, step: Step[Any], before: Point, own: None) -> tuple[bool, None]:
        """Add the plane of each point to the bundle, or one for each group."""
        for planes in map(state.planes_at, step.cut_at):
            state.test(sum_of(planes), [before, *step.points])
            state.bundle.add(*planes)
        return False, None


# How far beyond its second point a search may go. When both points are the same up to rounding, the
# direction between them is noise, and a long step along it would amplify the noise.
_FARTHEST = 8.0
# Beyond this step what a point takes over from the ends of its ray, such as scores, has larger
# rounding errors than theirs. Search after search they would grow without bound (seen: 3e-6), so
# such a point is evaluated afresh.
_SOUND = 2.0

# How often the candidate's zeros are tried at the lowest point, and which coordinates are small
# enough, as a share of the largest: the first share that the planes do not rule out. (a9a, tol
# 1e-4, L1(1e-3): 39 coefficients are not zero for the logistic loss, as in the optimum, and 42 for
# the hinge. Without it there are 83 and 95. One evaluation in ten is for this.)
_TIDY_EVERY = 8
_TINY = (0.1, 0.01, 0.001)


def as_searchable(point: Point) -> SearchablePoint | None:
    """Return a point that knows the risk along lines, or None.

    One that has a method ``toward`` for some risks only says so by ``has_segment``.
    """
    if has_methods_of(point, SearchablePoint) and facts_at(point).has_segment:
        return point
    return None


def best_step(segment: Segment, regularizer: Quadratic, expected: float | None = None) -> float:
    """Return the step that minimizes the objective on a ray, within reason.

    The ``expected`` distance is for a segment whose search begins there.
    """
    if expected is not None and has_methods_of(segment, GuidedSegment):
        return min(segment.minimize_near(regularizer, expected), _FARTHEST)
    return min(segment.minimize(regularizer), _FARTHEST)


def _best_step_with(
    problem: Problem, segment: Segment, start: Vector, end: Vector, expected: float | None
) -> float:
    """Return the step that minimizes the objective on the ray from ``start`` through ``end``."""
    if quadratic := problem.quadratic:
        return best_step(segment, quadratic.along(start, end), expected)
    direction = end - start
    return minimize_on_segment(
        segment,
        lambda step: problem.regularizer.value(start + step * direction),
        farthest=_FARTHEST,
    )


@dataclass(frozen=True, slots=True)
class LastSearch:
    """The lowest point of a search: its objective, and how far from the start it was, if known."""

    objective: float
    distance: float | None


@dataclass(frozen=True, slots=True)
class OnSegment(Query[LastSearch | None]):
    """Search the ray from the best point through the candidate (paper 004, section 3.3.2).

    Parameters
    ----------
    beyond : float
        Where the plane is taken, from the best point of the search (0) to the candidate (1).
        Slightly beyond the best point, as in LIBOCAS, a plane tells more than at the best point
        itself, where the risk was already low.
    enough : float
        A plane from the ray may say nothing new about the candidate, and then the reduced problem
        would propose it again. If at the candidate it closes less than this share of the distance
        between model and risk, a second plane is taken there. At 1 there are always two (the
        paper's full strategy), at 0 never (its greedy one, which may get stuck).
    otherwise : Query
        What to do for points without segments.
    """

    beyond: float = 0.05
    enough: float = 0.01
    otherwise: Query[None] = field(default_factory=ByTrials)

    def __call__(
        self, state: Run, candidate: Candidate, own: LastSearch | None
    ) -> tuple[Found, LastSearch | None]:
        """Evaluate at the candidate, then at the best point of the ray."""
        problem, risk = state.problem, state.problem.risk
        if (best := as_searchable(state.best)) is None:
            query = AtCandidate() if problem.quadratic is None else self.otherwise
            return query(state, candidate, None)
        there = risk.at(candidate.w)
        segment = best.toward(there)
        # The next search will hardly go much farther or less far than the one that led here.
        led_here = own is not None and own.objective == state.objective
        distance = own.distance if own is not None and led_here else None
        step = _best_step_with(problem, segment, best.w, there.w, distance)
        lowest = segment.at(step) if step <= _SOUND else risk.at(best.w + step * (there.w - best.w))
        cut = segment.at(step + self.beyond * (1.0 - step))
        last = None
        if has_methods_of(segment, GuidedSegment):
            if step > 0.0:  # how far the candidate was, or a point beyond, is the model's choice
                way = float(np.linalg.norm(there.w - best.w))
                distance = step * way if step <= _SOUND and step != 1.0 else None
            last = LastSearch(problem.objective(lowest), distance)
        if not state.is_usable(cut):  # the loss overflows a little beyond the best point
            cut = lowest
        if problem.quadratic is None and state.iteration % _TIDY_EVERY == 0:
            lowest = _tidied(state, lowest, cut, candidate.w)
        closed = _height_gained(state, cut, candidate.w, candidate.model)
        if closed < self.enough * (there.value - candidate.model) and state.is_usable(there):
            return Found([lowest, there], [cut, there]), last
        return Found([lowest], [cut]), last


def _tidied(state: Run, point: Point, cut: Point, candidate: Vector) -> Point:
    """Return the point with the candidate's zeros, if it is lower.

    Points on the ray are not zero where one of the ends is not, and never would be again. For a
    sparse regularizer they are a little lower at zero.
    """
    risk, regularizer = state.problem.risk, state.problem.regularizer
    sizes = np.abs(point.w)
    for tiny in _TINY:
        zeros = (candidate == 0.0) & (sizes < tiny * sizes.max(initial=0.0))
        if not point.w[zeros].any():
            break
        w = np.where(zeros, 0.0, point.w)
        rise = regularizer.value(w) - regularizer.value(point.w) - point.value
        if state.convex and rise + state.bundle.height_at(w, *state.planes_at(cut)) >= 0.0:
            continue  # the planes rule it out, at no cost
        tidy = risk.at(w)
        return tidy if rise + tidy.value < 0.0 else point
    return point


def _height_gained(state: Run, cut: Point, w: Vector, model: float) -> float:
    """Return by how much the plane of ``cut`` lifts the model at ``w``, which is ``model`` high."""
    planes = state.planes_at(cut)
    if len(planes) == 1:
        return dot(planes[0].slope, w) + planes[0].offset - model
    return state.bundle.height_at(w, *planes) - state.bundle.height_at(w)
