"""A search on the way to the candidate that evaluates the risk at each trial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from cutplane.compute.products import dot
from cutplane.core.method import Found, Query
from cutplane.core.protocols import Point
from cutplane.core.reduced.proximal import distance
from cutplane.core.search import CURVATURE, Trial, wolfe_search
from cutplane.core.solver import QUADRATIC
from cutplane.core.state import Candidate, Run, sum_of


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
class ByTrials(Query[None]):
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

    def __call__(self, state: Run, candidate: Candidate, own: None) -> tuple[Found, None]:
        """Evaluate the risk on the ray until a step is good enough."""
        risk, best = state.problem.risk, state.best
        regularizer = state.problem.norm
        points: list[Point] = []
        objectives: list[float] = []
        direction = candidate.w - best.w
        along = regularizer.along(best.w, candidate.w)
        length = distance(regularizer, best.w, candidate.w)
        if length == 0.0:
            there = risk.at(candidate.w)
            return Found([there], [there]), None

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
        usable = [i for i, point in enumerate(points) if state.is_usable(point)]
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
