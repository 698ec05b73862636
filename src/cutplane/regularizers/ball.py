"""The indicator of a ball: no regularization but a bound on the norm.

r(w)  = 0 if |w| <= radius, else infinite           (papers 001 and 003; paper 004, Algorithm 1)
r*(u) = radius * |u|,    attained at  w = radius * u / |u|
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Quadratic

# The point that attains the conjugate is drawn in by this share, so that rounding cannot put it
# outside, where the objective would be infinite.
_INSIDE = 1.0 - 1e-13


class Ball:
    """Constraint ``|w| <= radius`` in place of a penalty: for `kelley`.

    Parameters
    ----------
    radius : float
        Positive.
    """

    lam = 0.0
    strongly_convex = False
    confines = True

    def __init__(self, radius: float) -> None:
        if not (np.isfinite(radius) and radius > 0.0):
            raise ValueError(f"the radius must be positive and finite, got {radius}")
        self.radius = float(radius)

    def value(self, w: Vector) -> float:
        """Return 0 inside the ball, infinity outside."""
        return 0.0 if dot(w, w) <= self.radius**2 else float("inf")

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``radius * |u|`` and the ``w`` that attains it, up to rounding."""
        size = float(np.sqrt(dot(u, u)))
        if size == 0.0:
            return 0.0, np.zeros_like(u)
        return self.radius * size, u * (_INSIDE * self.radius / size)

    def at_center(self, slope: Vector) -> float:
        """Return zero: the center is the origin."""
        return 0.0

    def dual_metric(self, slope: Vector) -> Vector:
        """Return the slope itself."""
        return slope

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return zero, which holds as long as the ray stays inside."""
        return Quadratic(slope=0.0, curvature=0.0)

    def __repr__(self) -> str:
        return f"Ball({self.radius:g})"
