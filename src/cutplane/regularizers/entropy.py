"""The relative entropy, for parameters that are positive and differ by factors.

r(w)  = lam * sum_j (w_j * log(w_j / c_j) - w_j + c_j)    for w >= 0, else infinite
r*(u) = lam * sum_j c_j * (exp(u_j / lam) - 1),           attained at  w_j = c_j * exp(u_j / lam)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import gram_with_diagonal
from cutplane.regularizers.bounded_l2 import ROUNDING
from cutplane.regularizers.l2 import Centered, same_shape


class Entropy(Centered):
    """Relative entropy ``lam * sum_j (w_j*log(w_j/center_j) - w_j + center_j)`` for ``w >= 0``.

    The solution is positive: the center, with each coordinate multiplied by an exponential.

    Parameters
    ----------
    lam : float
        Strength, positive.
    center : array-like, optional
        The positive ``w`` that costs nothing; all ones by default.
    """

    def __init__(self, lam: float, *, center: ArrayLike | None = None) -> None:
        super().__init__(lam, center)
        if self.center is not None and not (self.center > 0.0).all():
            raise ValueError("the center must be positive")

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; coordinates below zero by rounding count as zero."""
        same_shape(self, "center", self.center, w)
        if w.min(initial=0.0) < -ROUNDING * np.abs(w).max(initial=0.0):
            return np.inf
        center = np.ones_like(w) if self.center is None else self.center
        w = np.maximum(w, 0.0)
        return self.lam * float((rel_entr(w, center) - w + center).sum())

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it; both are infinite far out."""
        with np.errstate(over="ignore"):
            grown = np.expm1(u / self.lam)
            scaled = grown if self.center is None else self.center * grown
            w = scaled + (1.0 if self.center is None else self.center)
            return self.lam * float(scaled.sum()), w

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``."""
        return gram_with_diagonal(slopes, self.conjugate(u)[1] / self.lam)
