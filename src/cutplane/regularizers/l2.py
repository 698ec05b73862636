"""The squared Euclidean norm, with an optional center and weights.

r(w)  = lam/2 * sum_j (theta_j * (w_j - c_j))^2                  (paper 004, section 3.3.1)
r*(u) = u.c + sum_j (u_j / theta_j)^2 / (2*lam),    attained at  w = c + u / (lam * theta^2)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector
from cutplane.regularizers.base import SquaredNorm, same_shape


class L2(SquaredNorm):
    """Squared Euclidean regularizer ``lam/2 * |weights * (w - center)|^2``.

    Parameters
    ----------
    lam : float
        Strength, positive.
    center : array-like, optional
        The ``w`` that costs nothing; zero by default.
    weights : array-like, optional
        A positive factor for each coordinate; one by default.
    """

    def __init__(
        self, lam: float, *, center: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> None:
        super().__init__(lam, center)
        self.weights = None if weights is None else np.array(weights, dtype=np.float64)
        if self.weights is not None and not (
            np.isfinite(self.weights).all() and (self.weights > 0.0).all()
        ):
            raise ValueError("weights must be positive and finite")

    @property
    def plain(self) -> bool:
        """Whether it is ``lam/2 |w|^2``, without center and weights."""
        return self.center is None and self.weights is None

    def dual_metric(self, slope: Vector) -> Vector:
        """Return ``slope / weights^2``."""
        return slope if self.weights is None else slope / self.weights**2

    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``."""
        return self.curvature() * (w if self.center is None else w - self.center)

    def curvature(self) -> Vector | float:
        """Return the diagonal of the second derivative."""
        return self.lam if self.weights is None else self.lam * self.weights**2

    def scaled(self, w: Vector) -> Vector:
        """Return ``weights * (w - center)``."""
        same_shape(self, "weights", self.weights, w)
        shifted = self.shifted(w)
        return shifted if self.weights is None else self.weights * shifted

    def __repr__(self) -> str:
        return super().__repr__()[:-1] + (", weights=...)" if self.weights is not None else ")")
