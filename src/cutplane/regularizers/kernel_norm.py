"""The squared norm of a function in the span of examples, without its kernel matrix.

With ``w = (beta, z)``, ``z = K beta``, and planes kept as ``(K q, q) / 2`` (see
`cutplane.maps.kernels.span`):

r(w)  = lam/2 * beta.z                                        = lam/2 |f|^2
r*(u) = (v, q)' (q, v) / lam    for u = (v, q), v = K q       attained at  w = 2 (q, v) / lam
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Quadratic
from cutplane.regularizers.l2 import Centered


class KernelNorm(Centered):
    """Squared norm ``lam/2 |f|^2`` of a function, kept by coefficients and values.

    Parameters
    ----------
    lam : float
        Strength, positive.
    """

    def __init__(self, lam: float) -> None:
        super().__init__(lam)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        beta, z = _halves(w)
        return max(0.5 * self.lam * dot(beta, z), 0.0)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        image = self.dual_metric(u)
        return max(dot(u, image) / (2.0 * self.lam), 0.0), image / self.lam

    def dual_metric(self, slope: Vector) -> Vector:
        """Return the function whose product with another slope is their inner product."""
        values, duals = _halves(slope)
        return 2.0 * np.concatenate([duals, values])

    def at_center(self, slope: Vector) -> float:
        """Return zero: the function that costs nothing."""
        return 0.0

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return the regularizer on the ray from ``start`` through ``end``."""
        beta, z = _halves(start)
        toward, rise = _halves(end - start)
        return Quadratic(
            slope=0.5 * self.lam * (dot(beta, rise) + dot(toward, z)),
            curvature=max(self.lam * dot(toward, rise), 0.0),
        )

    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``, as a slope."""
        beta, z = _halves(w)
        return 0.5 * self.lam * np.concatenate([z, beta])


def _halves(w: Vector) -> tuple[Vector, Vector]:
    m = len(w) // 2
    return w[:m], w[m:]
