"""The squared Euclidean norm, with an optional center and weights.

r(w)  = lam/2 * sum_j (theta_j * (w_j - c_j))^2                  (paper 004, section 3.3.1)
r*(u) = u.c + sum_j (u_j / theta_j)^2 / (2*lam),    attained at  w = c + u / (lam * theta^2)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Quadratic
from cutplane.regularizers.checks import finite_vector, positive, same_shape


class L2:
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
        self.lam = positive("lam", lam)
        self.center = finite_vector("center", center)
        self.weights = None if weights is None else np.array(weights, dtype=np.float64)
        if self.weights is not None and not (
            np.isfinite(self.weights).all() and (self.weights > 0.0).all()
        ):
            raise ValueError("weights must be positive and finite")

    @property
    def plain(self) -> bool:
        """Whether it is ``lam/2 |w|^2``, without center and weights."""
        return self.center is None and self.weights is None

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        scaled = self._scaled(w)
        return 0.5 * self.lam * dot(scaled, scaled)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        image = self.dual_metric(u)
        value = dot(u, image) / (2.0 * self.lam) + self.at_center(u)
        w = image / self.lam
        return value, w if self.center is None else w + self.center

    def at_center(self, slope: Vector) -> float:
        """Return ``slope.center``, by which the offset of a plane shifts."""
        return 0.0 if self.center is None else dot(slope, self.center)

    def dual_metric(self, slope: Vector) -> Vector:
        """Return ``slope / weights^2``."""
        return slope if self.weights is None else slope / self.weights**2

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return the regularizer on the ray from ``start`` through ``end``."""
        at_start = self._scaled(start)
        direction = self._scaled(end) - at_start
        return Quadratic(
            slope=self.lam * dot(at_start, direction),
            curvature=self.lam * dot(direction, direction),
        )

    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``."""
        return self.curvature() * (w if self.center is None else w - self.center)

    def curvature(self) -> Vector | float:
        """Return the diagonal of the second derivative."""
        return self.lam if self.weights is None else self.lam * self.weights**2

    def _scaled(self, w: Vector) -> Vector:
        same_shape(self, "center", self.center, w)
        same_shape(self, "weights", self.weights, w)
        shifted = w if self.center is None else w - self.center
        return shifted if self.weights is None else self.weights * shifted

    def __repr__(self) -> str:
        options = ", ".join(
            f"{name}=..." for name in ("center", "weights") if getattr(self, name) is not None
        )
        return f"L2({self.lam:g}{', ' if options else ''}{options})"
