"""The sum of absolute values: the sparsest solutions.

r(w)  = lam * |w|_1
r*(u) = 0 if |u|_inf <= lam, else infinite
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Regularizer
from cutplane.regularizers.base import positive
from cutplane.regularizers.elastic_net import AbsoluteAndSquare


class L1:
    """Absolute values ``lam * |w|_1``: many coordinates of the solution are exactly zero.

    It has corners but no curvature, so the reduced problem is a linear program, whose solutions
    jump about. The method keeps them near the best point by a level. The
    risk must have a known ``lower_bound``.

    Parameters
    ----------
    lam : float
        Strength, positive.
    """

    def __init__(self, lam: float) -> None:
        self.lam = positive("lam", lam)

    @property
    def dual_radius(self) -> float:
        """Up to which largest coordinate the conjugate is zero; beyond it is infinite."""
        return self.lam

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        return self.lam * float(np.abs(w).sum())

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and a ``w`` that attains it: zero, also where there is none."""
        inside = float(np.abs(u).max(initial=0.0)) <= self.lam
        return (0.0 if inside else np.inf), np.zeros_like(u)

    def with_square(self, strength: float, center: Vector) -> Regularizer:
        """Return ``r(w) + strength/2 * |w - center|^2``."""
        return AbsoluteAndSquare(self.lam, strength, center)

    def __repr__(self) -> str:
        return f"L1({self.lam:g})"
