"""Other norms: L1 and elastic net, squared p-norms, entropy.

Absolute values, alone for the sparsest solutions, or with squares and strongly convex.

r(w)  = lam * |w|_1
r*(u) = 0 if |u|_inf <= lam, else infinite

r(w)  = l1 * |w|_1 + l2/2 * |w - c|^2
r*(u) = u.w - r(w)   at   w = soft(c + u/l2, l1/l2),      soft(v, t) = sign(v) * max(|v| - t, 0)

The squared p-norm, between the sparse solutions of p = 1 and the smooth ones of p = 2.

r(w)  = lam/2 * |w|_p^2,                      1 < p <= 2
r*(u) = |u|_q^2 / (2*lam),                    1/p + 1/q = 1
        attained at  w_j = sign(u_j) * |u|_q^(2-q) * |u_j|^(q-1) / lam

The relative entropy, for parameters that are positive and differ by factors.

r(w)  = lam * sum_j (w_j * log(w_j / c_j) - w_j + c_j)    for w >= 0, else infinite
r*(u) = lam * sum_j c_j * (exp(u_j / lam) - 1),           attained at  w_j = c_j * exp(u_j / lam)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot, gram_with_diagonal
from cutplane.core.protocols import Regularizer
from cutplane.regularizers.bounded import ROUNDING
from cutplane.regularizers.l2 import Centered, Coordinates, positive, same_shape


class AbsoluteAndSquare:
    """``l1 * |w|_1 + l2/2 * |w - center|^2`` with positive ``l2``.

    The square part may have a center, which makes it the proximal term of `L1`.
    """

    def __init__(self, l1: float, l2: float, center: Vector | None = None) -> None:
        self.l1 = float(l1)
        self.l2 = positive("l2", l2)
        self.center = center

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        shifted = w if self.center is None else w - self.center
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * dot(shifted, shifted)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        pull = self._pull(u)
        beyond = np.maximum(np.abs(pull) - self.l1, 0.0)
        value = dot(beyond, beyond) / (2.0 * self.l2)
        if self.center is not None:
            value -= 0.5 * self.l2 * dot(self.center, self.center)
        return value, np.copysign(beyond, pull) / self.l2

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``: only coordinates that are not zero bend."""
        return gram_with_diagonal(slopes, (np.abs(self._pull(u)) > self.l1) / self.l2)

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        return Coordinates.of(n, l1=self.l1, l2=self.l2, center=self.center)

    def _pull(self, u: Vector) -> Vector:
        return u if self.center is None else u + self.l2 * self.center


class ElasticNet(AbsoluteAndSquare):
    """Elastic net ``lam * (l1_ratio * |w|_1 + (1 - l1_ratio)/2 * |w|^2)``: sparse solutions.

    Parameters
    ----------
    lam : float
        Strength, positive.
    l1_ratio : float
        Share of the absolute values, at least 0 and less than 1. Close to 1 the reduced problem is
        hardly curved, and runs take long: use `L1`.
    """

    def __init__(self, lam: float, l1_ratio: float = 0.5) -> None:
        self.lam = positive("lam", lam)
        if not 0.0 <= l1_ratio < 1.0:
            raise ValueError(f"l1_ratio must be at least 0 and less than 1, got {l1_ratio}")
        self.l1_ratio = float(l1_ratio)
        super().__init__(self.lam * self.l1_ratio, self.lam * (1.0 - self.l1_ratio))

    def __repr__(self) -> str:
        return f"ElasticNet({self.lam:g}, l1_ratio={self.l1_ratio:g})"


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

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        return Coordinates.of(n, l1=self.lam)

    def with_square(self, strength: float, center: Vector) -> Regularizer:
        """Return ``r(w) + strength/2 * |w - center|^2``."""
        return AbsoluteAndSquare(self.lam, strength, center)

    def __repr__(self) -> str:
        return f"L1({self.lam:g})"


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
