"""Before a run may call itself stationary, it must have failed to descend.

The gap of a method for risks that are not convex is small near stationary points, but elsewhere
too: a plane that was replaced (paper 004, Algorithm 6) makes it small whatever the slope is. So
when the gap is small enough, steps from the best point ``w*`` are tried in the direction

    -d,   d = the shortest vector in the hull of slopes of J taken within r of w*

for a radius ``r`` that shrinks. A step that does not lower the objective brings a slope into the
hull, which makes ``d`` shorter. If ``d`` vanishes, the point is stationary in Goldstein's sense
(A. Goldstein: Optimization of Lipschitz continuous functions, 1977; the search is that of
N. Mahdavi-Amiri and R. Yousefpour, 2012). Lengths are those of the regularizer's metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.certificate import Stationarity
from cutplane.core.needs import quadratic
from cutplane.core.policies.bmrm import as_searchable
from cutplane.core.protocols import Point
from cutplane.core.reduced.simplex_qp import SimplexQP
from cutplane.core.state import State, sum_of

# With a gap of eps, an optimum of a convex objective would be within sqrt(2 eps / lam), and a slope
# of length sqrt(2 lam eps) would not be told from zero. The radii are shares of that distance.
_RADII = (0.1, 0.01)
# How many steps are tried in each; chosen with the radii on random transductive problems,
# differences of convex functions and the chained functions of paper 004, so that few of them were
# needed, and other directions found no descent.
_STEPS = (6, 8)
# A descent is worth going on for if it is more than this share of eps.
_WORTH = 0.1
# No step is tried that can gain no more than this share of that, by the slopes that are known.
_HOPEFUL = 0.5
# Within a small radius little can be gained: a step that gains this share of what its slope
# promises is followed as long as doubling it gains more.
_PROMISE = 0.1
# Points that know the risk along lines find the best step at once, up to so many times the radius.
_FARTHEST = 100.0
_TINY = float(np.finfo(np.float64).tiny)


def is_tested(state: State, tolerance: float) -> bool:
    """Say whether the best point was tested already, for a gap about as small."""
    return state.stationarity is not None and state.stationarity.tolerance <= 2.0 * tolerance


def look_for_descent(
    state: State, tolerance: float, check: Callable[[], None]
) -> tuple[Stationarity | None, Point]:
    """Test the best point; return how, or None if it failed, and the lowest point that was seen.

    Parameters
    ----------
    state : State
        Of a run with a quadratic regularizer.
    tolerance : float
        The gap that is small enough.
    check : callable
        Called before each evaluation; may raise KeyboardInterrupt.
    """
    search = _Search(state, _WORTH * tolerance, check)
    lam = quadratic(state.problem.regularizer).lam
    distance, flat = math.sqrt(2.0 * tolerance / lam), math.sqrt(2.0 * tolerance * lam)
    for share, most in zip(_RADII, _STEPS, strict=True):
        radius = share * distance
        if search.descends_within(radius, flat, most):
            return None, search.lowest
    return Stationarity(radius, search.length, tolerance), search.lowest


class _Search:
    """Slopes of the objective around the best point, and what their hull says."""

    def __init__(self, state: State, worth: float, check: Callable[[], None]) -> None:
        self._problem, self._worth, self._check = state.problem, worth, check
        self._center, self._objective = state.best, state.objective
        self._planes_at = state.planes_at
        self._regularizer = quadratic(state.problem.regularizer)
        self._slopes: list[tuple[float, Vector]] = []
        self._gram = np.empty((0, 0))
        self._add(0.0, self._slope(state.best))
        outward = self._regularizer.gradient(state.best.w)
        image = self._regularizer.dual_metric(outward)
        size = max(math.sqrt(dot(outward, image)), _TINY)
        self._radial = image / (-size if dot(self._slopes[0][1], image) > 0.0 else size)
        self.length = math.inf
        self.lowest, self._gained = state.best, 0.0

    def descends_within(self, radius: float, flat: float, most: int) -> bool:
        """Try steps of this length until one descends, or the hull's shortest vector is flat."""
        near = [i for i, (at, _) in enumerate(self._slopes) if at <= radius]
        self._slopes, self._gram = [self._slopes[i] for i in near], self._gram[np.ix_(near, near)]
        for trial in range(most):
            direction = self._descent()
            if self.length <= flat or self.length * radius <= _HOPEFUL * self._worth:
                break
            slope = self._slope(self._followed(direction, radius))
            if np.isfinite(slope).all():
                self._add(radius, slope)
            if trial == 0 and self._gained <= self._worth:
                # All weights larger, or all smaller: hulls of few slopes are often blind to that.
                self._followed(self._radial, radius)
            if self._gained > self._worth:
                return True
        return False

    def _descent(self) -> Vector:
        """Return the direction of steepest descent for the hull, of length one."""
        alpha = SimplexQP().solve(self._gram, np.zeros(len(self._slopes)), 1.0).alpha
        shortest = np.zeros_like(self._center.w)
        for weight, (_, slope) in zip(alpha, self._slopes, strict=True):
            if weight > 0.0:
                shortest += weight * slope
        image = self._regularizer.dual_metric(shortest)
        self.length = math.sqrt(max(dot(shortest, image), 0.0))
        return np.asarray(image / -max(self.length, _TINY))

    def _followed(self, direction: Vector, step: float) -> Point:
        """Return the point after a step; go on while doubling the step pays."""
        first, gain = self._after(direction, step)
        if (center := as_searchable(self._center)) is not None:
            segment = center.toward(first)
            way = self._regularizer.along(center.w, first.w)
            self._keep(segment.at(min(segment.minimize(way), _FARTHEST)))
            return first
        while _PROMISE * step * self.length < gain <= self._worth:
            step, before = 2.0 * step, gain
            gain = self._after(direction, step)[1]
            if gain <= before:
                break
        return first

    def _after(self, direction: Vector, step: float) -> tuple[Point, float]:
        """Return the point after a step, and how much lower it is."""
        self._check()
        point = self._problem.risk.at(self._center.w + step * direction)
        return point, self._keep(point)

    def _keep(self, point: Point) -> float:
        """Return how much lower a point is, and keep it if none was as low."""
        gain = self._objective - self._problem.objective(point)
        if gain > self._gained:
            self.lowest, self._gained = point, gain
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

    def _slope(self, point: Point) -> Vector:
        plane = sum_of(self._planes_at(point))
        return np.asarray(plane.slope + self._regularizer.gradient(point.w))
