"""Regularizers that are sums over coordinates: what coordinate descent has to know of them.

    r(w) = sum_j  l1 |w_j| + l2_j/2 (w_j - c_j)^2      for lower_j <= w_j <= upper_j, else infinite

With ``soft(v, t) = sign(v) * max(|v| - t, 0)``, and for ``l2_j > 0``,

    r*(u) = u.w - r(w)      at      w_j = clip(soft(u_j + l2_j c_j, l1) / l2_j, lower_j, upper_j)

Without squares ``w_j`` is at a bound if ``|u_j| > l1``. If there is no bound on that side, the
conjugate is infinite; then a plane whose slope is scaled down gives a bound: see `scale_for`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot

# A slope that is scaled until it touches the limit must not be beyond it by rounding.
_INSIDE = 1.0 - 8 * float(np.finfo(np.float64).eps)
# The best scale need not be exact: any is valid.
_HALVINGS = 12


class Coordinates(NamedTuple):
    """The numbers of a sum over coordinates; each but the first has one for every coordinate."""

    l1: float
    l2: Vector
    center: Vector
    lower: Vector
    upper: Vector

    @classmethod
    def of(
        cls,
        n: int,
        *,
        l1: float = 0.0,
        l2: ArrayLike = 0.0,
        center: ArrayLike | None = None,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
    ) -> Coordinates:
        """Return the numbers for ``n`` coordinates."""
        given = (l2, 0.0 if center is None else center, lower, upper)
        return cls(l1, *(np.ascontiguousarray(np.broadcast_to(each, n), float) for each in given))

    def value(self, w: Vector) -> float:
        """Return ``r(w)`` for a ``w`` within the bounds."""
        shifted = w - self.center
        return self.l1 * float(np.abs(w).sum()) + 0.5 * dot(self.l2 * shifted, shifted)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it; zeros where there is none."""
        pull = u + self.l2 * self.center
        beyond = np.copysign(np.maximum(np.abs(pull) - self.l1, 0.0), pull)
        ends = np.where(beyond > 0.0, self.upper, np.where(beyond < 0.0, self.lower, 0.0))
        curved = self.l2 > 0.0
        free = np.divide(beyond, self.l2, out=ends, where=curved)
        w = np.clip(free, self.lower, self.upper)
        missing = ~np.isfinite(w)
        if missing.any():
            return np.inf, np.where(missing, 0.0, w)
        return dot(u, w) - self.value(w), w

    def scale_for(self, u: Vector) -> float:
        """Return the largest number up to 1 that times ``u`` has a finite conjugate."""
        free = (self.l2 == 0.0) & np.where(u > 0.0, self.upper == np.inf, self.lower == -np.inf)
        steepest = float(np.abs(u[free]).max(initial=0.0))
        if steepest <= self.l1:
            return 1.0
        scale = self.l1 / steepest * _INSIDE
        return scale if scale * steepest <= self.l1 else 0.0  # tiny numbers are rounded coarsely

    def best_scale(self, u: Vector, gain: float) -> float:
        """Return the ``s`` from 0 to 1 where ``s gain - r*(s u)`` is the largest."""
        most = self.scale_for(u)
        _, ends = self.conjugate(most * u)
        # A coordinate that is zero at the end and has no center is zero all the way.
        some = (ends != 0.0) | (self.center != 0.0)
        part = Coordinates(self.l1, *(each[some] for each in self[1:]))
        if dot(u[some], ends[some]) <= gain:
            return most
        least = 0.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (least + most)
            _, w = part.conjugate(middle * u[some])
            if dot(u[some], w) <= gain:
                least = middle
            else:
                most = middle
        return least

    def descents(self, w: Vector, slope: Vector) -> Vector:
        """Return how steeply the objective falls along each coordinate; zero if it does not.

        ``slope`` is that of the risk. This is the distance from zero to the derivatives.
        """
        smooth = slope + self.l2 * (w - self.center)
        up = -(smooth + np.where(w >= 0.0, self.l1, -self.l1))  # gained by a step to the right
        down = smooth + np.where(w > 0.0, self.l1, -self.l1)
        up[w >= self.upper] = 0.0
        down[w <= self.lower] = 0.0
        return np.asarray(np.maximum(np.maximum(up, down), 0.0))
