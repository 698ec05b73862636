"""A quadratic form, for coordinates that are tied to each other.

r(w)  = lam/2 * (w - c)' Q (w - c)
r*(u) = u.c + u' Q^-1 u / (2*lam),    attained at  w = c + Q^-1 u / lam
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Matrix, Vector
from cutplane.regularizers.l2 import SquaredNorm, finite

# A triangular factor with a smaller ratio of diagonal entries is singular up to rounding.
_SINGULAR = 1e-13


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
    if diagonal.min() <= _SINGULAR * diagonal.max():
        raise ValueError("the columns of the factor must be linearly independent")
    return root
