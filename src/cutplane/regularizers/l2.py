"""The squared Euclidean norm, other quadratic forms, and what sums over coordinates share.

With an optional center ``c``, and for `L2` a factor ``theta_j`` for each coordinate
(paper 004, section 3.3.1):

    r(w)  = lam/2 * |A (w - c)|^2                                    A = diag(theta) for L2
    r*(u) = u.c + u.(A'A)^-1 u / (2*lam),    attained at  w = c + (A'A)^-1 u / lam

A quadratic form, for coordinates that are tied to each other:

    r(w)  = lam/2 * (w - c)' Q (w - c)
    r*(u) = u.c + u' Q^-1 u / (2*lam),       attained at  w = c + Q^-1 u / lam

`Coordinates` are the numbers of a sum over coordinates, as coordinate descent needs them:

    r(w) = sum_j  l1 |w_j| + l2_j/2 (w_j - c_j)^2      for lower_j <= w_j <= upper_j, else infinite

With ``soft(v, t) = sign(v) * max(|v| - t, 0)``, and for ``l2_j > 0``,

    r*(u) = u.w - r(w)      at      w_j = clip(soft(u_j + l2_j c_j, l1) / l2_j, lower_j, upper_j)

Without squares ``w_j`` is at a bound if ``|u_j| > l1``. If there is no bound on that side, the
conjugate is infinite; then a plane whose slope is scaled down gives a bound: see `scale_for`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import EPS, Matrix, Vector, positive
from cutplane.compute.products import dot
from cutplane.core.protocols import Quadratic


class Coordinates(NamedTuple):
    """The numbers of a sum over coordinates; each but the first has one for every coordinate."""

    l1: float
    l2: Vector
    center: Vector
    lower: Vector
    upper: Vector

    @classmethod
    def of(
        cls,
        n: int,
        *,
        l1: float = 0.0,
        l2: ArrayLike = 0.0,
        center: ArrayLike | None = None,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
    ) -> Coordinates:
        """Return the numbers for ``n`` coordinates."""
        given = (l2, 0.0 if center is None else center, lower, upper)
        return cls(l1, *(np.ascontiguousarray(np.broadcast_to(each, n), float) for each in given))

    def value(self, w: Vector) -> float:
        """Return ``r(w)`` for a ``w`` within the bounds."""
        shifted = w - self.center
        return self.l1 * float(np.abs(w).sum()) + 0.5 * dot(self.l2 * shifted, shifted)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it; zeros where there is none."""
        pull = u + self.l2 * self.center
        beyond = np.copysign(np.maximum(np.abs(pull) - self.l1, 0.0), pull)
        ends = np.where(beyond > 0.0, self.upper, np.where(beyond < 0.0, self.lower, 0.0))
        curved = self.l2 > 0.0
        free = np.divide(beyond, self.l2, out=ends, where=curved)
        w = np.clip(free, self.lower, self.upper)
        missing = ~np.isfinite(w)
        if missing.any():
            return np.inf, np.where(missing, 0.0, w)
        return dot(u, w) - self.value(w), w

    def scale_for(self, u: Vector) -> float:
        """Return the largest number up to 1 that times ``u`` has a finite conjugate."""
        free = (self.l2 == 0.0) & np.where(u > 0.0, self.upper == np.inf, self.lower == -np.inf)
        steepest = float(np.abs(u[free]).max(initial=0.0))
        if steepest <= self.l1:
            return 1.0
        # Scaled until it touches the limit, it must not be beyond it by rounding.
        scale = self.l1 / steepest * (1.0 - 8 * EPS)
        return scale if scale * steepest <= self.l1 else 0.0  # tiny numbers are rounded coarsely

    def best_scale(self, u: Vector, gain: float) -> float:
        """Return the ``s`` from 0 to 1 where ``s gain - r*(s u)`` is the largest."""
        most = self.scale_for(u)
        _, ends = self.conjugate(most * u)
        # A coordinate that is zero at the end and has no center is zero all the way.
        some = (ends != 0.0) | (self.center != 0.0)
        part = Coordinates(self.l1, *(each[some] for each in self[1:]))
        if dot(u[some], ends[some]) <= gain:
            return most
        least = 0.0
        for _ in range(12):  # it need not be exact: any scale is valid
            middle = 0.5 * (least + most)
            _, w = part.conjugate(middle * u[some])
            if dot(u[some], w) <= gain:
                least = middle
            else:
                most = middle
        return least

    def descents(self, w: Vector, slope: Vector) -> Vector:
        """Return how steeply the objective falls along each coordinate; zero if it does not.

        ``slope`` is that of the risk. This is the distance from zero to the derivatives.
        """
        smooth = slope + self.l2 * (w - self.center)
        up = -(smooth + np.where(w >= 0.0, self.l1, -self.l1))  # gained by a step to the right
        down = smooth + np.where(w > 0.0, self.l1, -self.l1)
        up[w >= self.upper] = 0.0
        down[w <= self.lower] = 0.0
        return np.asarray(np.maximum(np.maximum(up, down), 0.0))


@runtime_checkable
class SumOverCoordinates(Protocol):
    """A regularizer that is a sum over coordinates."""

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""


def finite(name: str, values: ArrayLike) -> Vector:
    """Return a copy in float64 if all values are finite."""
    array = np.array(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"the {name} must be finite")
    return array


def same_shape(regularizer: object, name: str, given: Vector, w: Vector) -> None:
    """Raise ValueError if a parameter was given for another number of coordinates."""
    if given.shape != w.shape:
        kind = type(regularizer).__name__
        raise ValueError(f"{kind}: {name} has shape {given.shape}, w has {w.shape}")


class Centered:
    """A regularizer with a strength and, perhaps, a center."""

    center: Vector | None = None

    def __init__(self, lam: float, center: ArrayLike | None = None) -> None:
        self.lam = positive("lam", lam)
        self.center = None if center is None else finite("center", center)

    def shifted(self, w: Vector) -> Vector:
        """Return ``w - center``, having compared their lengths."""
        if self.center is None:
            return w
        same_shape(self, "center", self.center, w)
        return w - self.center

    def __repr__(self) -> str:
        center = ", center=..." if self.center is not None else ""
        return f"{type(self).__name__}({self.lam:g}{center})"


class SquaredNorm(Centered, ABC):
    """The square of a norm ``|A (w - c)|``: the reduced problem is a quadratic program."""

    @abstractmethod
    def scaled(self, w: Vector) -> Vector:
        """Return ``A (w - c)``."""

    @abstractmethod
    def dual_metric(self, slope: Vector) -> Vector:
        """Return ``(A'A)^-1 slope``, whose dot product with another slope is their product."""

    @abstractmethod
    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``."""

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        scaled = self.scaled(w)
        return 0.5 * self.lam * dot(scaled, scaled)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        image = self.dual_metric(u)
        value, w = dot(u, image) / (2.0 * self.lam), image / self.lam
        if self.center is None:
            return value, w
        return value + dot(u, self.center), w + self.center

    def at_center(self, slope: Vector) -> float:
        """Return ``slope.center``, by which the offset of a plane shifts."""
        return 0.0 if self.center is None else dot(slope, self.center)

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return the regularizer on the ray from ``start`` through ``end``."""
        at_start = self.scaled(start)
        direction = self.scaled(end) - at_start
        return Quadratic(
            slope=self.lam * dot(at_start, direction),
            curvature=self.lam * dot(direction, direction),
        )


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

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        return Coordinates.of(n, l2=self.curvature(), center=self.center)

    def scaled(self, w: Vector) -> Vector:
        """Return ``weights * (w - center)``."""
        if self.weights is None:
            return self.shifted(w)
        same_shape(self, "weights", self.weights, w)
        return self.weights * self.shifted(w)

    def __repr__(self) -> str:
        return super().__repr__()[:-1] + (", weights=...)" if self.weights is not None else ")")


class QuadraticForm(SquaredNorm):
    """Quadratic regularizer ``lam/2 * (w - center)' Q (w - center)``, ``Q`` positive definite.

    The reduced problem is the same quadratic program as with `L2`.

    Parameters
    ----------
    lam : float
        Strength, positive.
    matrix : array-like of shape (d, d) or (d,), optional
        ``Q``, or its diagonal.
    factor : array-like of shape (k, d), k >= d, optional
        Takes the place of the matrix: ``Q = factor' factor``. It is never multiplied out, which
        keeps twice as many digits.
    center : array-like of shape (d,), optional
        The ``w`` that costs nothing; zero by default.
    """

    def __init__(
        self,
        lam: float,
        matrix: ArrayLike | None = None,
        *,
        factor: ArrayLike | None = None,
        center: ArrayLike | None = None,
    ) -> None:
        super().__init__(lam, center)
        # Q = root' root; a vector stands for a diagonal root.
        if matrix is not None and factor is None:
            self.root = _root_of(matrix)
        elif factor is not None and matrix is None:
            self.root = _triangle(factor)
        else:
            raise ValueError("give either the matrix Q or a factor of it")

    def dual_metric(self, slope: Vector) -> Vector:
        """Return ``Q^-1 slope``."""
        if self.root.ndim == 1:
            return np.asarray(slope / self.root**2)
        from scipy.linalg import solve_triangular  # slow to import, and rarely needed

        half = solve_triangular(self.root, slope, trans="T")
        return np.asarray(solve_triangular(self.root, half))

    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``."""
        scaled = self.scaled(w)
        return np.asarray(
            self.lam * (self.root * scaled if self.root.ndim == 1 else self.root.T @ scaled)
        )

    def scaled(self, w: Vector) -> Vector:
        """Return the root of ``Q`` times ``w - center``."""
        shifted = self.shifted(w)
        if self.root.shape[-1] != len(w):
            raise ValueError(
                f"QuadraticForm: Q is for {self.root.shape[-1]} parameters, not {len(w)}"
            )
        return np.asarray(self.root * shifted if self.root.ndim == 1 else self.root @ shifted)

    def __repr__(self) -> str:
        return f"QuadraticForm({self.lam:g}, ...)"


def _root_of(matrix: ArrayLike) -> Matrix:
    given = finite("matrix", matrix)
    if given.ndim == 1:
        if not (given > 0.0).all():
            raise ValueError("a diagonal Q must be positive")
        return np.asarray(np.sqrt(given))
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"Q is a square matrix or its diagonal, got the shape {given.shape}")
    scale = np.sqrt(np.abs(np.outer(np.diagonal(given), np.diagonal(given))))
    if (np.abs(given - given.T) > 1e-12 * scale).any():
        raise ValueError("Q must be symmetric")
    try:
        return np.asarray(np.linalg.cholesky(given).T)
    except np.linalg.LinAlgError as error:
        raise ValueError("Q must be positive definite") from error


def _triangle(factor: ArrayLike) -> Matrix:
    given = finite("factor", factor)
    if given.ndim != 2 or given.shape[0] < given.shape[1]:
        raise ValueError(
            f"a factor has at least as many rows as columns, got the shape {given.shape}"
        )
    root: Matrix = np.asarray(np.linalg.qr(given, mode="r"))
    diagonal = np.abs(np.diagonal(root))
    if diagonal.min() <= 1e-13 * diagonal.max():  # singular up to rounding
        raise ValueError("the columns of the factor must be linearly independent")
    return root
