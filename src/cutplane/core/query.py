"""Where the risk is evaluated next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from cutplane.core.products import dot
from cutplane.core.protocols import (
    Plane,
    Point,
    Quadratic,
    Regularizer,
    Risk,
    Segment,
    Vector,
    as_quadratic,
)
from cutplane.core.ray_search import minimize_on_segment
from cutplane.core.state import Candidate, State


class Found(NamedTuple):
    """What a query brings back.

    Attributes
    ----------
    points : list of Point
        Points that may be the best.
    cut_at : list of Point
        Points to take planes at.
    planes : sequence of Plane
        Planes that touch the risk nowhere in particular, such as those of dual solvers.
    """

    points: list[Point]
    cut_at: list[Point]
    planes: Sequence[Plane] = ()


class Query(Protocol):
    """Chooses the points of an iteration."""

    def __call__(self, risk: Any, regularizer: Any, state: State, candidate: Candidate) -> Found:
        """Evaluate the risk at or on the way to the candidate."""


@dataclass(frozen=True, slots=True)
class AtCandidate:
    """Evaluate at the minimiser of the reduced problem, as the plain methods do."""

    def __call__(
        self, risk: Risk, regularizer: Regularizer, state: State, candidate: Candidate
    ) -> Found:
        """Evaluate the risk at the candidate."""
        point = risk.at(candidate.w)
        return Found([point], [point])


# How far beyond its second point a search may go. When both points are the same up to rounding, the
# direction between them is noise, and a long step along it would amplify the noise.
_FARTHEST = 8.0


# How often the candidate's zeros are tried at the lowest point, and which coordinates are small
# enough, as a share of the largest. (a9a, L1(1e-3), tol 1e-4: 39 coefficients are not zero for the
# logistic loss, as in the optimum, and 43 for the hinge. Without it there are 83 and 95. One
# evaluation in 20 is for this.)
_TIDY_EVERY = 8
_TINY = 0.1


def best_step(segment: Segment, regularizer: Quadratic) -> float:
    """Return the step that minimises the objective on a ray, within reason."""
    return min(segment.minimize(regularizer), _FARTHEST)


def _best_step_with(
    regularizer: Regularizer, segment: Segment, start: Vector, end: Vector
) -> float:
    """Return the step that minimises the objective on the ray from ``start`` through ``end``."""
    if quadratic := as_quadratic(regularizer):
        return best_step(segment, quadratic.along(start, end))
    direction = end - start
    return minimize_on_segment(
        segment, lambda step: regularizer.value(start + step * direction), farthest=_FARTHEST
    )


@dataclass(frozen=True, slots=True)
class OnSegment:
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
    """

    beyond: float = 0.05
    enough: float = 0.01

    def __call__(
        self, risk: Risk, regularizer: Regularizer, state: State, candidate: Candidate
    ) -> Found:
        """Evaluate at the candidate, then at the best point of the ray."""
        best, there = state.best, risk.at(candidate.w)
        if not hasattr(best, "toward"):
            raise TypeError(
                f"{type(best).__name__} has no method toward(), which a line search needs; "
                "use bmrm(line_search=False)"
            )
        segment = best.toward(there)
        step = _best_step_with(regularizer, segment, best.w, there.w)
        lowest = segment.at(step)
        if not as_quadratic(regularizer) and state.iteration % _TIDY_EVERY == 0:
            lowest = _tidied(risk, regularizer, lowest, candidate.w)
        cut = segment.at(step + self.beyond * (1.0 - step))
        if not _usable(cut, state):  # the loss overflows a little beyond the best point
            cut = lowest
        closed = _height_gained(state, cut, candidate.w, candidate.model)
        if closed < self.enough * (there.value - candidate.model) and _usable(there, state):
            return Found([lowest, there], [cut, there])
        return Found([lowest], [cut])


def _tidied(risk: Risk, regularizer: Regularizer, point: Point, candidate: Vector) -> Point:
    """Return the point with the candidate's zeros, if it is lower.

    Points on the ray are not zero where one of the ends is not, and never would be again. For a
    sparse regularizer they are a little lower at zero.
    """
    zeros = (candidate == 0.0) & (np.abs(point.w) < _TINY * np.abs(point.w).max(initial=0.0))
    if not point.w[zeros].any():
        return point
    tidy = risk.at(np.where(zeros, 0.0, point.w))
    change = regularizer.value(tidy.w) + tidy.value - regularizer.value(point.w) - point.value
    return tidy if change < 0.0 else point


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
