"""Where the risk is evaluated next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cutplane.core.products import dot
from cutplane.core.protocols import Point, QuadraticRegularizer, Risk
from cutplane.core.state import Candidate


class Found(NamedTuple):
    """What a query brings back: points that may be the best, and points to take planes at."""

    points: list[Point]
    cut_at: list[Point]


class Query(Protocol):
    """Chooses the points of an iteration."""

    def __call__(
        self, risk: Risk, regularizer: QuadraticRegularizer, best: Point, candidate: Candidate
    ) -> Found:
        """Evaluate the risk at or on the way to the candidate."""


@dataclass(frozen=True, slots=True)
class AtCandidate:
    """Evaluate at the minimiser of the reduced problem, as the plain methods do."""

    def __call__(
        self, risk: Risk, regularizer: QuadraticRegularizer, best: Point, candidate: Candidate
    ) -> Found:
        """Evaluate the risk at the candidate."""
        point = risk.at(candidate.w)
        return Found([point], [point])


# How far beyond the candidate a search may go. When candidate and best point are the same up to
# rounding, the direction between them is noise, and a long step along it would amplify the noise.
_FARTHEST = 8.0


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
        self, risk: Risk, regularizer: QuadraticRegularizer, best: Point, candidate: Candidate
    ) -> Found:
        """Evaluate at the candidate, then at the best point of the ray."""
        there = risk.at(candidate.w)
        if not hasattr(best, "toward"):
            raise TypeError(
                f"{type(best).__name__} has no method toward(), which a line search needs; "
                "use bmrm(line_search=False)"
            )
        segment = best.toward(there)
        step = min(segment.minimize(regularizer.along(best.w, there.w)), _FARTHEST)
        lowest = segment.at(step)
        cut = segment.at(step + self.beyond * (1.0 - step))
        if not _usable(cut):  # the loss overflows a little beyond the best point
            cut = lowest
        model = candidate.lower - regularizer.value(candidate.w)
        plane = cut.plane()
        closed = dot(plane.slope, candidate.w) + plane.offset - model
        if closed < self.enough * (there.value - model) and _usable(there):
            return Found([lowest, there], [cut, there])
        return Found([lowest], [cut])


def _usable(point: Point) -> bool:
    """Whether the plane at a point has numbers that can be computed with."""
    return bool(
        np.isfinite(point.value) and np.isfinite(dot(point.plane().slope, point.plane().slope))
    )
