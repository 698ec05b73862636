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
    QuadraticRegularizer,
    Risk,
    Segment,
    Vector,
)
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

    def __call__(
        self, risk: Any, regularizer: QuadraticRegularizer, state: State, candidate: Candidate
    ) -> Found:
        """Evaluate the risk at or on the way to the candidate."""


@dataclass(frozen=True, slots=True)
class AtCandidate:
    """Evaluate at the minimiser of the reduced problem, as the plain methods do."""

    def __call__(
        self, risk: Risk, regularizer: QuadraticRegularizer, state: State, candidate: Candidate
    ) -> Found:
        """Evaluate the risk at the candidate."""
        point = risk.at(candidate.w)
        return Found([point], [point])


# How far beyond its second point a search may go. When both points are the same up to rounding, the
# direction between them is noise, and a long step along it would amplify the noise.
_FARTHEST = 8.0


def best_step(segment: Segment, regularizer: Quadratic) -> float:
    """Return the step that minimises the objective on a ray, within reason."""
    return min(segment.minimize(regularizer), _FARTHEST)


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
        self, risk: Risk, regularizer: QuadraticRegularizer, state: State, candidate: Candidate
    ) -> Found:
        """Evaluate at the candidate, then at the best point of the ray."""
        best, there = state.best, risk.at(candidate.w)
        if not hasattr(best, "toward"):
            raise TypeError(
                f"{type(best).__name__} has no method toward(), which a line search needs; "
                "use bmrm(line_search=False)"
            )
        segment = best.toward(there)
        step = best_step(segment, regularizer.along(best.w, there.w))
        lowest = segment.at(step)
        cut = segment.at(step + self.beyond * (1.0 - step))
        if not _usable(cut, state):  # the loss overflows a little beyond the best point
            cut = lowest
        closed = _height_gained(state, cut, candidate.w, candidate.model)
        if closed < self.enough * (there.value - candidate.model) and _usable(there, state):
            return Found([lowest, there], [cut, there])
        return Found([lowest], [cut])


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
