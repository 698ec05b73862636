"""The indicator of a box: no regularization but bounds on the parameters.

r(w)  = 0 if lower <= w <= upper, else infinite                     (papers 001 and 003)
r*(u) = sum_j max(lower_j u_j, upper_j u_j),   attained in a corner
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.regularizers.bounded_l2 import Bounded, checked_bounds, within


class Box(Bounded):
    """Constraint ``lower <= w <= upper`` in place of a penalty: for `kelley`.

    Parameters
    ----------
    lower, upper : float or array-like
        Bounds, for all coordinates or for each; finite.
    """

    lam = 0.0
    strongly_convex = False
    confines = True

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower, self.upper = checked_bounds(lower, upper)
        if not (np.isfinite(self.lower).all() and np.isfinite(self.upper).all()):
            raise ValueError("the bounds of a box must be finite; cp.BoundedL2 takes others")

    def value(self, w: Vector) -> float:
        """Return 0 inside the box, infinity outside; what leaves it by rounding is inside."""
        return 0.0 if within(self, w) else np.inf

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the corner that attains it; where ``u`` is zero, nearest to zero."""
        corner = np.where(u > 0.0, self.upper, self.lower)
        w = np.where(u == 0.0, np.clip(0.0, self.lower, self.upper), corner)
        return dot(u, w), w

    def __repr__(self) -> str:
        shown = [f"{bound:g}" if bound.ndim == 0 else "..." for bound in (self.lower, self.upper)]
        return f"Box({', '.join(shown)})"
