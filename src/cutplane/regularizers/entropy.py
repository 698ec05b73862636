"""The relative entropy, for parameters that are positive and differ by factors.

r(w)  = lam * sum_j (w_j * log(w_j / c_j) - w_j + c_j)    for w >= 0, else infinite
r*(u) = lam * sum_j c_j * (exp(u_j / lam) - 1),           attained at  w_j = c_j * exp(u_j / lam)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from cutplane.core.products import gram_with_diagonal
from cutplane.core.protocols import Matrix, Vector
from cutplane.regularizers.bounded_l2 import ROUNDING
from cutplane.regularizers.checks import finite_vector, positive, same_shape


class Entropy:
    """Relative entropy ``lam * sum_j (w_j*log(w_j/centre_j) - w_j + centre_j)`` for ``w >= 0``.

    The solution is positive: the centre, with each coordinate multiplied by an exponential.

    Parameters
    ----------
    lam : float
        Strength, positive.
    centre : array-like, optional
        The positive ``w`` that costs nothing; all ones by default.
    """

    def __init__(self, lam: float, *, centre: ArrayLike | None = None) -> None:
        self.lam = positive("lam", lam)
        self.centre = finite_vector("centre", centre)
        if self.centre is not None and not (self.centre > 0.0).all():
            raise ValueError("the centre must be positive")

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; coordinates below zero by rounding count as zero."""
        same_shape(self, "centre", self.centre, w)
        if w.min(initial=0.0) < -ROUNDING * np.abs(w).max(initial=0.0):
            return np.inf
        centre = np.ones_like(w) if self.centre is None else self.centre
        w = np.maximum(w, 0.0)
        return self.lam * float((rel_entr(w, centre) - w + centre).sum())

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it; both are infinite far out."""
        with np.errstate(over="ignore"):
            grown = np.expm1(u / self.lam)
            scaled = grown if self.centre is None else self.centre * grown
            w = scaled + (1.0 if self.centre is None else self.centre)
            return self.lam * float(scaled.sum()), w

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``."""
        return gram_with_diagonal(slopes, self.conjugate(u)[1] / self.lam)

    def __repr__(self) -> str:
        return f"Entropy({self.lam:g}{', centre=...' if self.centre is not None else ''})"
