"""Squares of norms, the Euclidean one first, and what other regularizers share with them.

With an optional center ``c``, and for `L2` a factor ``theta_j`` for each coordinate
(paper 004, section 3.3.1):

r(w)  = lam/2 * |A (w - c)|^2                                    A = diag(theta) for L2
r*(u) = u.c + u.(A'A)^-1 u / (2*lam),    attained at  w = c + (A'A)^-1 u / lam
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Quadratic
from cutplane.regularizers.coordinates import Coordinates


def positive(name: str, value: Any) -> float:
    """Return the value as a float if it is positive and finite."""
    if not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def finite(name: str, values: ArrayLike) -> Vector:
    """Return a copy in float64 if all values are finite."""
    array = np.array(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"the {name} must be finite")
    return array


def same_shape(regularizer: object, name: str, given: Vector | None, w: Vector) -> None:
    """Raise ValueError if a parameter was given for another number of coordinates."""
    if given is not None and given.shape != w.shape:
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
        same_shape(self, "center", self.center, w)
        return w if self.center is None else w - self.center

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
        value = dot(u, image) / (2.0 * self.lam) + self.at_center(u)
        w = image / self.lam
        return value, w if self.center is None else w + self.center

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
        same_shape(self, "weights", self.weights, w)
        shifted = self.shifted(w)
        return shifted if self.weights is None else self.weights * shifted

    def __repr__(self) -> str:
        return super().__repr__()[:-1] + (", weights=...)" if self.weights is not None else ")")
