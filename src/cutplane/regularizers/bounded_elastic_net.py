"""Absolute values and squares with bounds on the parameters: sparse, and of known signs.

r(w)  = lam * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)   for lower <= w <= upper, else infinite
r*(u) : see `cutplane.regularizers.coordinates`
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import gram_with_diagonal
from cutplane.regularizers.bounded_l2 import Bounded, checked_bounds, within
from cutplane.regularizers.coordinates import Coordinates
from cutplane.regularizers.l2 import positive


class BoundedElasticNet(Bounded):
    """Elastic net with ``lower <= w <= upper``.

    Without squares (``l1_ratio=1``) it has no curvature, and goes with `coordinate_descent`.

    Parameters
    ----------
    lam : float
        Strength, positive.
    l1_ratio : float
        Share of the absolute values, from 0 to 1.
    lower, upper : float or array-like
        Bounds, for all coordinates or for each; they may be infinite. By default ``w >= 0``.
    """

    def __init__(
        self,
        lam: float,
        l1_ratio: float = 0.5,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
    ) -> None:
        self.lam = positive("lam", lam)
        if not 0.0 <= l1_ratio <= 1.0:
            raise ValueError(f"l1_ratio must be from 0 to 1, got {l1_ratio}")
        self.l1_ratio = float(l1_ratio)
        self.lower, self.upper = checked_bounds(lower, upper)

    @property
    def strongly_convex(self) -> bool:
        """Whether there are squares."""
        return self.l1_ratio < 1.0

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        l1, l2 = self.lam * self.l1_ratio, self.lam * (1.0 - self.l1_ratio)
        return Coordinates.of(n, l1=l1, l2=l2, lower=self.lower, upper=self.upper)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; what leaves the bounds by rounding is inside."""
        return self.by_coordinate(len(w)).value(w) if within(self, w) else np.inf

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and a ``w`` that attains it, if there is one."""
        return self.by_coordinate(len(u)).conjugate(u)

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``: coordinates at zero or at a bound do not move."""
        form = self.by_coordinate(len(u))
        _, w = form.conjugate(u)
        bends = (w != 0.0) & (w > form.lower) & (w < form.upper)
        return gram_with_diagonal(slopes, np.divide(1.0, form.l2, where=bends, out=0.0 * u))

    def __repr__(self) -> str:
        bounds = "".join(
            f", {name}={given:g}" if given.ndim == 0 else f", {name}=..."
            for name, given in (("lower", self.lower), ("upper", self.upper))
        )
        return f"BoundedElasticNet({self.lam:g}, l1_ratio={self.l1_ratio:g}{bounds})"
