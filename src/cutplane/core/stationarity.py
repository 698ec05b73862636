"""Before a run may call itself stationary, it must have failed to descend.

The gap of a method for risks that are not convex is small near stationary points, but elsewhere
too: a plane that was replaced (paper 004, Algorithm 6) makes it small whatever the slope is. So
when the gap is small enough, steps from the best point ``w*`` are tried in the direction

    -d,   d = the shortest vector in the hull of slopes of J taken within r of w*

for a radius ``r`` that shrinks until the slope at ``w*`` itself promises nothing so near. A step
that does not lower the objective brings a slope into the hull, which makes ``d`` shorter. If ``d``
vanishes, the point is stationary in Goldstein's sense for that radius (A. Goldstein: Optimization
of Lipschitz continuous functions, 1977; the search is that of N. Mahdavi-Amiri and R. Yousefpour,
2012). That alone says little: a large ball holds opposite slopes of the two sides of any narrow
valley. Lengths are those of the regularizer's metric.

Straight steps see little of a valley whose floor is a curved kink: each gains next to nothing, and
many gain much. There the shortest vector of the smallest ball is not short, and if parameters are
few, BFGS goes on from ``w*``. It learns where the floor lies and then follows it, if its steps need
only satisfy Wolfe's weak conditions (A. Lewis, M. Overton: Nonsmooth optimization via quasi-Newton
methods, 2013).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.certificate import Stationarity
from cutplane.core.policies.bmrm import as_searchable
from cutplane.core.policies.stabilizers import distance
from cutplane.core.protocols import Point
from cutplane.core.search import Trial, wolfe_search
from cutplane.core.simplex_qp import SimplexQP
from cutplane.core.state import State, sum_of


class DescentSettings(NamedTuple):
    """How descent is looked for.

    Chosen on random transductive problems, differences of convex functions and the chained
    functions of paper 004, so that few steps were needed, and other directions found no descent.

    Attributes
    ----------
    largest, shrink : float
        With a gap of eps, an optimum of a convex objective would be within sqrt(2 eps / lam). The
        first radius is the share ``largest`` of that distance, each of the others the share
        ``shrink`` of the one before.
    shrink_alone, promise_alone : float
        The same in one dimension, where there is a single way down. A cusp on it hides from longer
        and shorter steps, and the slope so far from it promises only the share ``promise_alone`` of
        what is gained there.
    n_steps : int
        How many steps are tried in each radius.
    worth : float
        A descent is worth going on for if it is more than this share of eps. No step is tried that
        can gain no more than that by the slopes that are known.
    followed : float
        A descent by more than this share of that is followed: in a curved valley, many steps that
        gain little each may gain much.
    flat : float
        A slope that gains no more than eps over all that distance is flat: it is no longer than
        this share of sqrt(2 eps lam).
    level, few : float, int
        BFGS is tried where the shortest vector is longer than the share ``level`` of a flat slope,
        and ends at a slope that is no longer. With more than ``few`` parameters it would take more
        steps to learn of kinks than a test is worth.
    idle, going : int
        It ends after ``idle`` steps in a row that gained less than the share to be followed: the
        kinks of a valley of three dimensions took up to 28. Once it has gained what is worth it,
        after ``going``.
    sign : float
        If it gains more than this share of what is worth it, the run goes on from there.
    promise : float
        Within a small radius little can be gained: a step that gains this share of what its slope
        promises is followed as long as doubling it gains more.
    """

    largest: float = 0.1
    shrink: float = 0.1
    shrink_alone: float = 0.5
    promise_alone: float = 0.02
    n_steps: int = 8
    worth: float = 0.1
    followed: float = 0.02
    flat: float = 0.5
    level: float = 0.1
    few: int = 20
    idle: int = 30
    going: int = 10
    sign: float = 0.5
    promise: float = 0.1


SETTINGS = DescentSettings()

# Steps that are shorter than this share of the parameters' length are rounding.
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


def look_for_descent(
    state: State, tolerance: float, check: Callable[[], None]
) -> tuple[Stationarity | None, Point]:
    """Test the best point, and others a little lower that are found on the way.

    Parameters
    ----------
    state : State
        Of a run with a quadratic regularizer.
    tolerance : float
        The gap that is small enough.
    check : callable
        Called before each evaluation; may raise KeyboardInterrupt.

    Returns
    -------
    Stationarity or None
        How a point passed the test; None if a descent was found that is worth going on for.
    Point
        The lowest that was seen: at most a twentieth of the tolerance below the one that passed.
    """
    lam, worth = state.problem.norm.lam, SETTINGS.worth * tolerance
    flat = SETTINGS.flat * math.sqrt(2.0 * tolerance * lam)
    radius = SETTINGS.largest * math.sqrt(2.0 * tolerance / lam)
    center, gained = state.best, 0.0
    while True:
        search = _Search(state, center, worth, worth - gained, check)
        smallest = search.try_radii(radius, flat)
        gained += search.gained
        if gained > worth:
            return None, search.lowest
        if search.gained <= SETTINGS.followed * worth:
            break
        center, radius = search.lowest, search.gained_within
    slope, lowest = search.shortest(), search.lowest
    if slope > SETTINGS.level * flat and len(lowest.w) <= SETTINGS.few:
        aside = worth / search.steepness * search.radial
        lowest = _along_valley(state, search.lowest, aside, worth, SETTINGS.level * flat, check)
        gain = state.problem.objective(search.lowest) - state.problem.objective(lowest)
        if gain > SETTINGS.sign * worth:
            return None, lowest
    return Stationarity(smallest, slope, tolerance), lowest


def _along_valley(
    state: State,
    center: Point,
    aside: Vector,
    worth: float,
    level: float,
    check: Callable[[], None],
) -> Point:
    """Go on by BFGS from beside a point, while there is hope; return the lowest point seen.

    From beside it: where only rounding is between the point and a kink, no slope tells where to go.
    """
    problem, dual_metric = state.problem, state.problem.norm.dual_metric

    lowest = _Place(problem.objective(center), center, _slope(state, center))

    def evaluate(w: Vector) -> _Place:
        nonlocal lowest
        check()
        point = problem.risk.at(w)
        place = _Place(problem.objective(point), point, _slope(state, point))
        lowest = place if place.objective < lowest.objective else lowest
        return place

    enough, idle = lowest.objective - worth, 0
    at = evaluate(center.w + aside)
    inverse, known = np.array([dual_metric(unit) for unit in np.eye(len(aside))]), False
    while idle < (SETTINGS.idle if lowest.objective > enough else SETTINGS.going):
        direction = -(inverse @ at.slope)
        promise = -dot(at.slope, direction)
        if not promise > 0.0 or dot(at.slope, dual_metric(at.slope)) <= level * level:
            break
        before = lowest.objective
        # Without second derivatives, the first step promises just what is worth it.
        then = _wolfe_step(evaluate, at, direction, 1.0 if known else worth / promise)
        if not then.objective < at.objective:
            break
        idle = 0 if before - lowest.objective > SETTINGS.followed * worth else idle + 1
        step, change = then.point.w - at.point.w, then.slope - at.slope
        curved, at = dot(step, change), then
        if curved > _TINY + _ROUNDING * math.sqrt(dot(step, step) * dot(change, change)):
            if not known:
                inverse, known = inverse * (curved / dot(change, dual_metric(change))), True
            turn = np.eye(len(step)) - np.outer(step, change) / curved
            inverse = turn @ inverse @ turn.T + np.outer(step, step) / curved
    return lowest.point


class _Place(NamedTuple):
    objective: float
    point: Point
    slope: Vector


def _wolfe_step(
    evaluate: Callable[[Vector], _Place], at: _Place, direction: Vector, first: float
) -> _Place:
    """Return the trial that satisfies Wolfe's weak conditions, or else the lowest."""
    trials: list[_Place] = []

    def trial(step: float) -> Trial:
        trials.append(evaluate(at.point.w + step * direction))
        return Trial(step, trials[-1].objective, dot(trials[-1].slope, direction))

    start = Trial(0.0, at.objective, dot(at.slope, direction))
    # Wolfe's second condition with 0.5; brackets are halved.
    wolfe_search(trial, start, first, most=20, margin=0.5, curvature=0.5)
    last = trials[-1]
    return last if last.objective < at.objective else min(trials, key=lambda t: t.objective)


def _slope(state: State, point: Point) -> Vector:
    """Return a slope of the objective."""
    plane = sum_of(state.planes_at(point))
    return np.asarray(plane.slope + state.problem.norm.gradient(point.w))


class _Search:
    """Slopes of the objective around a point, and what their hull says."""

    def __init__(
        self, state: State, center: Point, worth: float, missing: float, check: Callable[[], None]
    ) -> None:
        self._problem, self._worth, self._missing = state.problem, worth, missing
        self._check = check
        self._center, self._objective = center, state.problem.objective(center)
        self._state = state
        self._regularizer = state.problem.norm
        self._slopes: list[tuple[float, Vector]] = []
        self._gram = np.empty((0, 0))
        self._add(0.0, _slope(state, center))
        self.steepness = math.sqrt(self._gram[0, 0])
        outward = self._regularizer.gradient(center.w)
        if not outward.any():  # any direction will do: a top is as flat as a hollow
            outward = np.cos(np.arange(1.0, len(outward) + 1.0))
        image = self._regularizer.dual_metric(outward)
        size = max(math.sqrt(max(dot(outward, image), 0.0)), _TINY)
        self.radial = image / (-size if dot(self._slopes[0][1], image) > 0.0 else size)
        self._length = math.inf
        alone = len(outward) == 1
        self._shrink = SETTINGS.shrink_alone if alone else SETTINGS.shrink
        self._hopeless = SETTINGS.promise_alone * worth if alone else worth
        self.lowest, self.gained, self.gained_within = center, 0.0, 0.0
        self._rounding = _ROUNDING * distance(self._regularizer, np.zeros_like(center.w), center.w)

    def try_radii(self, radius: float, flat: float) -> float:
        """Try steps of this length, then shorter ones, until one descends; return the last."""
        first = True
        while True:
            shorter = self._shrink * radius
            last = self.steepness * shorter <= self._hopeless or shorter <= self._rounding
            self._try_within(radius, flat, first=first, last=last)
            if last or self.gained > self._missing:
                return radius
            radius, first = shorter, False

    def shortest(self) -> float:
        """Return the length of the shortest vector in the hull of the slopes taken last."""
        self._descent()
        return self._length

    def _try_within(self, radius: float, flat: float, *, first: bool, last: bool) -> None:
        """Try steps of this length until one descends, or the hull's shortest vector is flat."""
        near = [i for i, (at, _) in enumerate(self._slopes) if at <= radius]
        self._slopes, self._gram = [self._slopes[i] for i in near], self._gram[np.ix_(near, near)]
        for _ in range(SETTINGS.n_steps):
            direction = self._descent()
            if first:
                # All weights larger, or all smaller: hulls of few slopes are often blind to that.
                self._followed(self.radial, radius)
                first = False
            hopeless = self._length * radius <= self._hopeless
            # The last direction is tried all the same: it may lead down beyond the radius.
            if self._length <= flat or (hopeless and not last) or self.gained > self._missing:
                break
            slope = _slope(self._state, self._followed(direction, radius))
            if np.isfinite(slope).all():
                self._add(radius, slope)
            if hopeless:
                break

    def _descent(self) -> Vector:
        """Return the direction of steepest descent for the hull, of length one."""
        alpha = SimplexQP().solve(self._gram, np.zeros(len(self._slopes)), 1.0).alpha
        shortest = np.zeros_like(self._center.w)
        for weight, (_, slope) in zip(alpha, self._slopes, strict=True):
            if weight > 0.0:
                shortest += weight * slope
        image = self._regularizer.dual_metric(shortest)
        self._length = math.sqrt(max(dot(shortest, image), 0.0))
        return np.asarray(image / -max(self._length, _TINY))

    def _followed(self, direction: Vector, radius: float) -> Point:
        """Return the point after a step; go on while doubling the step pays."""
        first, gain = self._after(direction, radius, radius)
        if (center := as_searchable(self._center)) is not None:
            segment = center.toward(first)
            way = self._regularizer.along(center.w, first.w)
            # The best step is found at once, up to a hundred times the radius.
            self._keep(segment.at(min(segment.minimize(way), 100.0)), radius)
            return first
        step = radius
        while SETTINGS.promise * step * self._length < gain <= self._missing:
            step, before = 2.0 * step, gain
            gain = self._after(direction, step, radius)[1]
            if gain <= before:
                break
        return first

    def _after(self, direction: Vector, step: float, radius: float) -> tuple[Point, float]:
        """Return the point after a step, and how much lower it is."""
        self._check()
        point = self._problem.risk.at(self._center.w + step * direction)
        return point, self._keep(point, radius)

    def _keep(self, point: Point, radius: float) -> float:
        """Return how much lower a point is, and keep it if none was as low."""
        gain = self._objective - self._problem.objective(point)
        if gain > self.gained:
            self.lowest, self.gained, self.gained_within = point, gain, radius
        return gain

    def _add(self, radius: float, slope: Vector) -> None:
        """Take a slope into the hull."""
        image = self._regularizer.dual_metric(slope)
        self._slopes.append((radius, slope))
        row = np.array([dot(other, image) for _, other in self._slopes])
        n = len(row)
        gram = np.empty((n, n))
        gram[:-1, :-1], gram[-1], gram[:, -1] = self._gram, row, row
        self._gram = gram
