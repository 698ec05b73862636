"""The squared Euclidean norm with bounds on the parameters, for example ``w >= 0``.

r(w)  = lam/2 * |w - c|^2   for lower <= w <= upper, else infinite
r*(u) = u.w - r(w)          at  w = clip(c + u/lam, lower, upper)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot, gram_with_diagonal
from cutplane.regularizers.coordinates import Coordinates
from cutplane.regularizers.l2 import Centered, same_shape

# A point on the way from one w to another may leave the bounds by rounding: as a share of the
# largest coordinate.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


def checked_bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Vector, Vector]:
    """Return both as arrays, or raise ValueError if nothing lies between them."""
    low, high = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    if not (low <= high).all():
        raise ValueError("each lower bound must be at most the upper one")
    if not ((low < np.inf).all() and (high > -np.inf).all()):
        raise ValueError("the bounds must leave room for finite parameters")
    return low, high


def within(regularizer: Any, w: Vector) -> bool:
    """Say whether ``w`` is within the bounds; what leaves them by rounding is."""
    lower, upper = regularizer.lower, regularizer.upper
    for name, given in (("lower", lower), ("upper", upper)):
        same_shape(regularizer, name, given if given.ndim else None, w)
    slack = ROUNDING * float(np.abs(w).max(initial=0.0))
    return not ((w < lower - slack).any() or (w > upper + slack).any())


class Bounded:
    """What regularizers with bounds on the parameters have in common."""

    lower: Vector
    upper: Vector

    def inside(self, w: Vector) -> Vector:
        """Return ``w``, or the point next to it that is within the bounds, exactly."""
        near = np.clip(w, self.lower, self.upper)
        return w if np.array_equal(near, w) else near


class BoundedL2(Bounded, Centered):
    """Squared Euclidean regularizer ``lam/2 * |w - center|^2`` with ``lower <= w <= upper``.

    Parameters
    ----------
    lam : float
        Strength, positive.
    lower, upper : float or array-like
        Bounds, for all coordinates or for each; they may be infinite. By default ``w >= 0``.
    center : array-like, optional
        The ``w`` that costs nothing if it is within the bounds; zero by default.
    """

    def __init__(
        self,
        lam: float,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        center: ArrayLike | None = None,
    ) -> None:
        super().__init__(lam, center)
        self.lower, self.upper = checked_bounds(lower, upper)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; what leaves the bounds by rounding is inside."""
        shifted = self.shifted(w)
        return 0.5 * self.lam * dot(shifted, shifted) if within(self, w) else np.inf

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        w = np.clip(self._free(u), self.lower, self.upper)
        shifted = self.shifted(w)
        return dot(u, w) - 0.5 * self.lam * dot(shifted, shifted), w

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``: coordinates at a bound do not move."""
        free = self._free(u)
        inside = (free > self.lower) & (free < self.upper)
        return gram_with_diagonal(slopes, inside / self.lam)

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        return Coordinates.of(
            n, l2=self.lam, center=self.center, lower=self.lower, upper=self.upper
        )

    def _free(self, u: Vector) -> Vector:
        w = u / self.lam
        return np.asarray(w if self.center is None else w + self.center)

    def __repr__(self) -> str:
        options = ""
        for name in ("lower", "upper"):
            given = getattr(self, name)
            options += f", {name}={given:g}" if given.ndim == 0 else f", {name}=..."
        return f"{super().__repr__()[:-1]}{options})"
