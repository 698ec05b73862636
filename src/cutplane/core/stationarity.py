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
from dataclasses import dataclass

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.needs import quadratic
from cutplane.core.protocols import Point, sum_of
from cutplane.core.reduced.simplex_qp import SimplexQP
from cutplane.core.state import State

# With a gap of eps, an optimum of a convex objective would be within sqrt(2 eps / lam), and a slope
# of length sqrt(2 lam eps) would not be told from zero. The radii are shares of that distance.
_RADII = (1.0, 0.1, 0.01)
_STEPS_EACH = 4
# A descent is worth going on for if it is more than this share of eps.
_WORTH = 0.1
# Within a small radius little can be gained: a step that gains this share of what its slope
# promises is followed as long as doubling it gains more.
_PROMISE = 0.1


@dataclass(frozen=True, slots=True)
class Stationarity:
    """How the best point was tested.

    Attributes
    ----------
    radius : float
        The smallest ball around the best point in which slopes were taken, in the metric of the
        regularizer.
    slope : float
        The length of the shortest vector in their hull; zero in the limit at a stationary point.
    worth : float
        No step that was tried lowers the objective by more than this.
    """

    radius: float
    slope: float
    worth: float


def descent_from_best(state: State, tolerance: float) -> Point | Stationarity:
    """Return a point that is lower than the best one, or how it was looked for in vain.

    Parameters
    ----------
    state : State
        Of a run with a quadratic regularizer.
    tolerance : float
        The gap that is small enough.
    """
    search = _Search(state, _WORTH * tolerance)
    lam = quadratic(state.problem.regularizer).lam
    distance, flat = math.sqrt(2.0 * tolerance / lam), math.sqrt(2.0 * tolerance * lam)
    for radius in (share * distance for share in _RADII):
        if (better := search.within(radius, flat)) is not None:
            return better
    return Stationarity(radius, search.length, search.worth)


class _Search:
    """Slopes of the objective around the best point, and what their hull says."""

    def __init__(self, state: State, worth: float) -> None:
        self._state, self.worth = state, worth
        self._regularizer = quadratic(state.problem.regularizer)
        self._slopes = [(0.0, self._slope(state.best))]
        self.length = math.inf

    def within(self, radius: float, flat: float) -> Point | None:
        """Try steps of this length until the hull's shortest vector is flat, or often enough."""
        self._slopes = [(at, slope) for at, slope in self._slopes if at <= radius]
        for _ in range(_STEPS_EACH):
            direction = self._descent()
            if self.length <= flat:
                break
            point = self._followed(direction, radius)
            if self._gain(point) > self.worth:
                return point
            self._slopes.append((radius, self._slope(point)))
        return None

    def _descent(self) -> Vector:
        """Return the direction of steepest descent for the hull, of length one."""
        slopes = np.array([slope for _, slope in self._slopes])
        images = np.array([self._regularizer.dual_metric(slope) for slope in slopes])
        alpha = SimplexQP().solve(slopes @ images.T, np.zeros(len(slopes)), 1.0).alpha
        self.length = math.sqrt(max(dot(alpha @ slopes, alpha @ images), 0.0))
        return np.asarray(-(alpha @ images) / self.length if self.length else 0.0 * slopes[0])

    def _followed(self, direction: Vector, step: float) -> Point:
        """Return the point after a step, or after a longer one if the short one kept its promise."""
        point = self._at(direction, step)
        while _PROMISE * step * self.length < self._gain(point) <= self.worth:
            farther = self._at(direction, 2.0 * step)
            if self._gain(farther) <= self._gain(point):
                break
            point, step = farther, 2.0 * step
        return point

    def _at(self, direction: Vector, step: float) -> Point:
        return self._state.problem.risk.at(self._state.best.w + step * direction)

    def _gain(self, point: Point) -> float:
        return self._state.objective - self._state.problem.objective(point)

    def _slope(self, point: Point) -> Vector:
        plane = sum_of(self._state.planes_at(point))
        return np.asarray(plane.slope + self._regularizer.gradient(point.w))
