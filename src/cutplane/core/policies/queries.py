"""Where the risk is evaluated next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core import needs
from cutplane.core.method import Found, Query
from cutplane.core.needs import QUADRATIC, as_quadratic, as_searchable, quadratic
from cutplane.core.problem import Candidate
from cutplane.core.protocols import Point, Quadratic, Regularizer, Segment, sum_of
from cutplane.core.reduced.proximal import distance
from cutplane.core.search import CURVATURE, Trial, minimize_on_segment, wolfe_search
from cutplane.core.state import State


@dataclass(frozen=True, slots=True)
class AtCandidate(Query):
    """Evaluate at the minimizer of the reduced problem, as the plain methods do."""

    leaves_candidate: ClassVar[bool] = False

    def __call__(self, state: State, candidate: Candidate, own: None) -> tuple[Found, None]:
        """Evaluate the risk at the candidate."""
        point = state.problem.risk.at(candidate.w)
        return Found([point], [point]), None


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


def best_step(segment: Segment, regularizer: Quadratic, expected: float | None = None) -> float:
    """Return the step that minimizes the objective on a ray, within reason."""
    return min(needs.best_step(segment, regularizer, expected), _FARTHEST)


def _best_step_with(
    regularizer: Regularizer, segment: Segment, start: Vector, end: Vector, expected: float | None
) -> float:
    """Return the step that minimizes the objective on the ray from ``start`` through ``end``."""
    if quadratic := as_quadratic(regularizer):
        return best_step(segment, quadratic.along(start, end), expected)
    direction = end - start
    return minimize_on_segment(
        segment, lambda step: regularizer.value(start + step * direction), farthest=_FARTHEST
    )


class CutAt(StrEnum):
    """Where a search by trials takes planes (paper 004, section 3.3.2)."""

    LOWEST = "lowest"
    LOWEST_AND_CANDIDATE = "lowest and candidate"
    LOWEST_OR_BOTH = "lowest, and candidate if no trial descends"
    ALL = "all"


# Where the first trial of a search lies, as shares of the way to the candidate. Beyond it the model
# has nothing to gain; much closer, one short step would be followed by many.
_NEAREST, _FARTHEST_FIRST = 0.3, 1.0


@dataclass(frozen=True, slots=True)
class ByTrials(Query):
    """Search the ray from the best point through the candidate, evaluating the risk at each trial.

    For points that cannot tell the risk along a line. The first trial is as far from the best point
    as the lowest one of the last search was, so that one is often enough.

    Parameters
    ----------
    cut_at : CutAt
        The greedy strategy of the paper takes one plane at the lowest trial, its full strategy a
        second one at the candidate. The greedy one gets stuck where no trial descends, and the
        plane at the lowest says nothing new; a plane at the candidate helps. A plane at every trial
        costs nothing more, since the slope there was needed anyway.
    most : int
        Most trials in one search.
    nearest : float
        The first trial is not nearer than this share of the way to the candidate.
    curvature : float
        A trial is long enough where the slope is no more than this share of that at the start.
    """

    needs = (QUADRATIC,)
    cut_at: CutAt = CutAt.ALL
    most: int = 3
    nearest: float = _NEAREST
    curvature: float = CURVATURE

    def __call__(self, state: State, candidate: Candidate, own: None) -> tuple[Found, None]:
        """Evaluate the risk on the ray until a step is good enough."""
        risk, best = state.problem.risk, state.best
        regularizer = quadratic(state.problem.regularizer)
        points: list[Point] = []
        objectives: list[float] = []
        direction = candidate.w - best.w
        along = regularizer.along(best.w, candidate.w)
        length = distance(regularizer, best.w, candidate.w)
        if length == 0.0:
            return AtCandidate()(state, candidate, None)

        def evaluate(step: float) -> Trial:
            point = risk.at(best.w + step * direction if step != 1.0 else candidate.w)
            points.append(point)
            objectives.append(state.problem.objective(point))
            if not math.isfinite(objectives[-1]):
                return Trial(step, math.inf, math.nan)
            slope = dot(sum_of(state.planes_at(point)).slope, direction)
            return Trial(step, objectives[-1], slope + along.slope + step * along.curvature)

        slope = dot(sum_of(state.planes_at(best)).slope, direction) + along.slope
        # At a kink, or when the plane there was dropped, the model knows more than this slope.
        falling = slope if slope < 0.0 else candidate.lower - state.objective
        start = Trial(0.0, state.objective, falling)
        if state.last_step is None:  # nothing is known of the scale yet
            wolfe_search(
                evaluate, start, 1.0, most=self.most, margin=0.05, curvature=self.curvature
            )
        else:
            first = min(max(state.last_step / length, self.nearest), _FARTHEST_FIRST)
            wolfe_search(evaluate, start, first, most=self.most, curvature=self.curvature)
        usable = [i for i, point in enumerate(points) if _usable(point, state)]
        if not usable:
            return Found(points, points, step=state.last_step), None
        lowest = min(usable, key=objectives.__getitem__)
        step = distance(regularizer, best.w, points[lowest].w) or state.last_step
        if self.cut_at is CutAt.ALL:
            sound = [points[i] for i in usable]
            return Found(sound, sound, step=step), None
        if self.cut_at is CutAt.LOWEST_OR_BOTH and objectives[lowest] >= state.objective:
            tried = [point for point in points if point.w is candidate.w]
            there = tried[0] if tried else risk.at(candidate.w)
            cut_at = [points[lowest], there] if there is not points[lowest] else [there]
            return Found([*points, there], cut_at), None  # the last step is that of a descent
        if self.cut_at is CutAt.LOWEST_AND_CANDIDATE:
            there = risk.at(candidate.w)
            return Found([*points, there], [points[lowest], there], step=step), None
        return Found(points, [points[lowest]], step=step), None


@dataclass(frozen=True, slots=True)
class LastSearch:
    """The lowest point of a search: its objective, and how far from the start it was, if known."""

    objective: float
    distance: float | None


@dataclass(frozen=True, slots=True)
class OnSegment(Query):
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
    otherwise: Query = ByTrials()

    def __call__(
        self, state: State, candidate: Candidate, own: LastSearch | None
    ) -> tuple[Found, LastSearch | None]:
        """Evaluate at the candidate, then at the best point of the ray."""
        risk, regularizer = state.problem.risk, state.problem.regularizer
        if (best := as_searchable(state.best)) is None:
            query = self.otherwise if as_quadratic(regularizer) else AtCandidate()
            return query(state, candidate, None)
        there = risk.at(candidate.w)
        segment = best.toward(there)
        # The next search will hardly go much farther or less far than the one that led here.
        led_here = own is not None and own.objective == state.objective
        distance = own.distance if own is not None and led_here else None
        step = _best_step_with(regularizer, segment, best.w, there.w, distance)
        lowest = segment.at(step) if step <= _SOUND else risk.at(best.w + step * (there.w - best.w))
        cut = segment.at(step + self.beyond * (1.0 - step))
        last = None
        if needs.uses_distance(segment):
            if step > 0.0:  # how far the candidate was, or a point beyond, is the model's choice
                way = float(np.linalg.norm(there.w - best.w))
                distance = step * way if step <= _SOUND and step != 1.0 else None
            last = LastSearch(state.problem.objective(lowest), distance)
        if not _usable(cut, state):  # the loss overflows a little beyond the best point
            cut = lowest
        if not as_quadratic(regularizer) and state.iteration % _TIDY_EVERY == 0:
            lowest = _tidied(state, lowest, cut, candidate.w)
        closed = _height_gained(state, cut, candidate.w, candidate.model)
        if closed < self.enough * (there.value - candidate.model) and _usable(there, state):
            return Found([lowest, there], [cut, there]), last
        return Found([lowest], [cut]), last


def _tidied(state: State, point: Point, cut: Point, candidate: Vector) -> Point:
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


def _height_gained(state: State, cut: Point, w: Vector, model: float) -> float:
    """Return by how much the plane of ``cut`` lifts the model at ``w``, which is ``model`` high."""
    planes = state.planes_at(cut)
    if len(planes) == 1:
        return dot(planes[0].slope, w) + planes[0].offset - model
    return state.bundle.height_at(w, *planes) - state.bundle.height_at(w)


def _usable(point: Point, state: State) -> bool:
    """Whether the planes at a point have numbers that can be computed with."""
    return bool(
        np.isfinite(point.value)
        and all(np.isfinite(dot(plane.slope, plane.slope)) for plane in state.planes_at(point))
    )
