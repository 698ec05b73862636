"""The squared p-norm, between the sparse solutions of p = 1 and the smooth ones of p = 2.

r(w)  = lam/2 * |w|_p^2,                      1 < p <= 2
r*(u) = |u|_q^2 / (2*lam),                    1/p + 1/q = 1
        attained at  w_j = sign(u_j) * |u|_q^(2-q) * |u_j|^(q-1) / lam
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import gram_with_diagonal
from cutplane.regularizers.l2 import positive


class SquaredLp:
    """Squared p-norm ``lam/2 * |w|_p^2`` for ``1 < p <= 2``.

    Strongly convex in the p-norm. Close to ``p = 1`` most coordinates are tiny, none is zero.

    Parameters
    ----------
    lam : float
        Strength, positive.
    p : float
        Above 1 and at most 2, where it is `L2`.
    """

    def __init__(self, lam: float, p: float = 1.5) -> None:
        self.lam = positive("lam", lam)
        if not 1.0 < p <= 2.0:
            raise ValueError(f"p must be above 1 and at most 2, got {p}")
        self.p = float(p)
        self._q = self.p / (self.p - 1.0)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        return 0.5 * self.lam * _norm(w, self.p) ** 2

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        norm = _norm(u, self._q)
        if norm == 0.0:
            return 0.0, np.zeros_like(u)
        powers = np.copysign((np.abs(u) / norm) ** (self._q - 1.0), u)
        return norm**2 / (2.0 * self.lam), powers * (norm / self.lam)

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``, a diagonal part less one of rank one."""
        norm, q = _norm(u, self._q), self._q
        if norm == 0.0:  # no second derivative there, but this one is an upper bound
            return gram_with_diagonal(slopes, np.full(len(u), (q - 1.0) / self.lam))
        shares = np.abs(u) / norm
        gram = gram_with_diagonal(slopes, (q - 1.0) / self.lam * shares ** (q - 2.0))
        ray = slopes @ np.copysign(shares ** (q - 1.0), u)
        return np.asarray(gram - (q - 2.0) / self.lam * np.outer(ray, ray))

    def __repr__(self) -> str:
        return f"SquaredLp({self.lam:g}, p={self.p:g})"


def _norm(v: Vector, p: float) -> float:
    # Divided by the largest, because powers overflow and underflow.
    largest = float(np.abs(v).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(((np.abs(v) / largest) ** p).sum() ** (1.0 / p))
