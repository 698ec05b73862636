"""The choices that make BMRM (paper 000, Algorithm 1), with a search on the way or without.

- Stabilizer: none; the candidate minimizes the reduced problem.
- Query: at the candidate, or on the ray from the best point through it, also by trials that each
  evaluate the risk (for points that do not know it along a line).
- Memory: every plane is kept, or some of them and their mean.
- Cuts: the planes that touch the risk, as they are.

Points may be those of a user's risk. Whether they know the risk along lines is asked here, where
they come in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.policies.flat import propose_at_level
from cutplane.core.policies.stabilizers import distance
from cutplane.core.protocols import (
    GuidedSegment,
    Point,
    Quadratic,
    SearchablePoint,
    Segment,
    facts_at,
    has_methods_of,
)
from cutplane.core.search import CURVATURE, Trial, minimize_on_segment, wolfe_search
from cutplane.core.solver import QUADRATIC, Cuts, Found, Memory, Query, Stabilizer, Step
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
class ForgetIdle(Memory[None]):
    """Planes that had no weight for long are dropped: groups bring so many that most are idle.

    Parameters
    ----------
    longest : int
        In how many reduced problems a plane may have had no weight. (a9a and ijcnn1, 4 to 64
        groups: 6, 10 and 20 differ by at most 2 iterations, 3 takes up to 6 more.)
    """

    longest: int = 8

    def make_room(self, bundle: Bundle, incoming: int, own: None) -> None:
        """Drop the planes long idle, once they are a quarter of all."""
        used = bundle.used_within(self.longest)
        if len(used) <= 0.75 * bundle.n_planes:
            bundle.keep(used)


@dataclass(frozen=True, slots=True)
class LimitedMemory(Memory[None]):
    """At most ``planes`` planes a group, and one that stands for all those that were dropped.

    Planes without weight go first, the longest idle before the others: the reduced problem does
    not notice. If that is not enough, the weighted mean of the bundle (the aggregated plane of
    paper 004, Algorithm 3), one for each group, takes the place of the lightest ones. The mean
    alone gives the same lower bound as the whole bundle did, so the bound never falls.

    Parameters
    ----------
    planes : int
        Number of planes besides the aggregate, at least 1; on average if there are groups.
    """

    planes: int

    def __post_init__(self) -> None:
        if self.planes < 1:
            raise ValueError(f"a bundle needs room for at least 1 plane, got {self.planes}")

    def make_room(self, bundle: Bundle, incoming: int, own: None) -> None:
        """Drop idle planes, then aggregate, before ``incoming`` new planes are added."""
        bundle.make_room(self.planes, incoming)


@dataclass(frozen=True, slots=True)
class AggregateOnly(Memory[None]):
    """Only the weighted mean of all planes so far, and the newest one (paper 000, section 5).

    The reduced problem then has two planes, and its solution is the closed form (15) of the paper:
    with ``w`` the last candidate and ``a`` the slope of its plane, the new one gets the weight

        eta = min(1, lam * (J(w) - lower bound at w) / |lam w + a|^2)

    It is the same as `LimitedMemory` with one plane: there, too, whatever has no weight goes first,
    and one plane with all the weight is its own aggregate.
    """

    def make_room(self, bundle: Bundle, incoming: int, own: None) -> None:
        """Put the aggregate of each group in the place of its planes."""
        bundle.condense(0)


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
        return min(segment.minimize_near(regularizer, expected), OnSegment.farthest)
    return min(segment.minimize(regularizer), OnSegment.farthest)


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
        farthest=OnSegment.farthest,
    )


class CutAt(StrEnum):
    """Where a search by trials takes planes (paper 004, section 3.3.2)."""

    LOWEST = "lowest"
    LOWEST_AND_CANDIDATE = "lowest and candidate"
    LOWEST_OR_BOTH = "lowest, and candidate if no trial descends"
    ALL = "all"


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
    nearest: float = 0.3
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
            # Beyond the candidate the model has nothing to gain; much closer to the best point, one
            # short step would be followed by many.
            first = min(max(state.last_step / length, self.nearest), 1.0)
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

    # How far beyond its second point a search may go. When both points are the same up to rounding,
    # the direction between them is noise, and a long step along it would amplify the noise.
    farthest: ClassVar[float] = 8.0
    # Beyond this step what a point takes over from the ends of its ray, such as scores, has larger
    # rounding errors than theirs. Search after search they would grow without bound (seen: 3e-6),
    # so such a point is evaluated afresh.
    sound: ClassVar[float] = 2.0
    # How often the candidate's zeros are tried at the lowest point, and which coordinates are small
    # enough, as a share of the largest: the first share that the planes do not rule out. (a9a, tol
    # 1e-4, L1(1e-3): 39 coefficients are not zero for the logistic loss, as in the optimum, and 42
    # for the hinge. Without it there are 83 and 95. One evaluation in ten is for this.)
    tidy_every: ClassVar[int] = 8
    tiny: ClassVar[tuple[float, ...]] = (0.1, 0.01, 0.001)

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
        lowest = (
            segment.at(step) if step <= self.sound else risk.at(best.w + step * (there.w - best.w))
        )
        cut = segment.at(step + self.beyond * (1.0 - step))
        last = None
        if has_methods_of(segment, GuidedSegment):
            if step > 0.0:  # how far the candidate was, or a point beyond, is the model's choice
                way = float(np.linalg.norm(there.w - best.w))
                distance = step * way if step <= self.sound and step != 1.0 else None
            last = LastSearch(problem.objective(lowest), distance)
        if not state.is_usable(cut):  # the loss overflows a little beyond the best point
            cut = lowest
        if problem.quadratic is None and state.iteration % self.tidy_every == 0:
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
    for tiny in OnSegment.tiny:
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
