"""Functions in the span of some examples, the landmarks: a linear model (Nystroem's method).

With the kernel matrix ``R'R`` of the landmarks, ``phi(x) = R'^-1 k(landmarks, x)`` are features
whose inner products are those of the kernel, as far as functions in the span of the landmarks can
tell: ``|w|`` is the norm of ``f(x) = w.phi(x)``. So everything that fits linear models fits these
functions, and the objective of the best of them is above that of all functions.

``R`` is a triangle by Cholesky's method, which takes the landmark that the others say least of
next, and ends when they say all: such landmarks get no coefficient. With 4,000 of them it takes a
thirtieth of the time of eigenvectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf, dtrtri

from cutplane.compute.arrays import Matrix
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.maps.kernels.functions import Kernel, around_zero
from cutplane.maps.kernels.matrix import FULL_PRECISION, one_blas_thread

_ROWS, _COLUMNS = 1024, 512
# What is left of a landmark beside the others, as a share of the largest: less is rounding.
_LEAST = 1e-10
# Features that are kept in float32 are computed in it, too, if that leaves them right to five
# digits: if more than this is left of each landmark, and the exponents of the corners of a box
# around the examples are no larger than that.
_CLEAR, _LARGEST_EXPONENT = 1e-3, 100.0


class LandmarkFeatures(NamedTuple):
    """Features of all examples, and what they are made of.

    Attributes
    ----------
    features : ndarray of shape (n_examples, n_features)
        In float32 for more than 2,048 examples.
    back : ndarray of shape (n_landmarks, n_features)
        From a weight vector of the features to coefficients of the landmarks.
    lost : float
        The share of the kernel's trace that the features do not reproduce: 0 if the landmarks span
        all examples.
    """

    features: NDArray[Any]
    back: Matrix
    lost: float


def landmark_features(
    kernel: Kernel, X: Any, chosen: NDArray[np.intp], *, n_threads: int | None = None
) -> LandmarkFeatures:
    """Return the features that some of the examples give as landmarks."""
    m = X.shape[0]
    dtype = np.float64 if m <= FULL_PRECISION else np.float32
    with one_blas_thread():
        order, triangle, left = _orthogonal(_between(kernel, X[chosen], X[chosen]))
    single = dtype == np.float32 and left > _CLEAR and _fits_single(kernel, X)
    products = _Products(kernel, X[chosen[order]], triangle, single=single)
    back = np.zeros((len(chosen), len(order)))
    back[order] = triangle
    features = np.empty((m, back.shape[1]), dtype)
    starts = range(0, m, _ROWS)

    def run(first: int, last: int) -> None:
        for begin in starts[first:last]:
            rows = slice(begin, begin + _ROWS)
            features[rows] = products.of(X[rows])

    with one_blas_thread():
        wanted = default_threads() if n_threads is None else n_threads
        run_blocks(run, len(starts), n_threads=1 if kernel.function is not None else wanted)
    there = float(np.einsum("ij,ij->", features, features, dtype=np.float64))
    trace = float(kernel.of_pairs(X).sum())
    lost = 1.0 - there / trace if trace > 0.0 else 0.0
    return LandmarkFeatures(features, back, max(lost, 0.0))


def _orthogonal(matrix: Matrix) -> tuple[NDArray[np.intp], Matrix, float]:
    """Return an order of landmarks, and what makes functions of length one of them.

    The columns of the triangle ``B`` are coefficients of functions that are orthogonal to each
    other in the kernel's space: ``B' matrix B`` is the identity, for the matrix in this order,
    without landmarks that the others say all of. The last number is the least that is left of one.
    If all are zero in that space, one of them is kept, with a coefficient of zero.
    """
    largest = float(matrix.diagonal().max())
    if not largest > 0.0:
        return np.zeros(1, dtype=np.intp), np.zeros((1, 1)), 0.0
    factor, order, rank, _ = dpstrf(matrix, tol=_LEAST * largest, lower=0)
    inverse, _ = dtrtri(factor[:rank, :rank])
    left = float(factor[rank - 1, rank - 1]) ** 2 / largest
    return order[:rank].astype(np.intp) - 1, np.triu(inverse), left


def _fits_single(kernel: Kernel, X: Any) -> bool:
    """Say whether the kernels of dense examples are right to five digits in float32."""
    if kernel.name != "rbf" or not isinstance(X, np.ndarray):
        return False
    widths = X.max(axis=0).astype(np.float64) - X.min(axis=0)
    return bool(kernel.gamma * (widths @ widths) <= _LARGEST_EXPONENT)


class _Products:
    """The features of some examples: their kernels with the landmarks, times a matrix."""

    def __init__(self, kernel: Kernel, landmarks: Any, triangle: Matrix, *, single: bool) -> None:
        self.kernel, self.landmarks = kernel, landmarks
        self.triangle, self.single = triangle, single
        if single:
            self.middle = landmarks.mean(axis=0, dtype=np.float64)
            centered = landmarks - self.middle
            norms = kernel.gamma * np.einsum("ij,ij->i", centered, centered)
            self.norms, self.columns = norms.astype(np.float32), centered.astype(np.float32).T
            self.triangle = triangle.astype(np.float32)

    def of(self, X: Any) -> NDArray[Any]:
        """Return the features of these examples."""
        kernels = self._kernels(X)
        out = np.empty_like(kernels)
        for begin in range(0, out.shape[1], _COLUMNS):  # what is below the diagonal is zero
            end = min(begin + _COLUMNS, out.shape[1])
            np.matmul(kernels[:, :end], self.triangle[:end, begin:end], out=out[:, begin:end])
        return out

    def _kernels(self, X: Any) -> NDArray[Any]:
        if not self.single:
            return _between(self.kernel, X, self.landmarks)
        rows = np.asarray(X - self.middle, dtype=np.float32)
        exponents = rows @ self.columns
        exponents *= 2.0 * self.kernel.gamma
        exponents -= self.norms
        exponents -= self.kernel.gamma * np.einsum("ij,ij->i", rows, rows)[:, None]
        np.minimum(exponents, 0.0, out=exponents)
        return np.asarray(np.exp(exponents, out=exponents))


def _between(kernel: Kernel, A: Any, B: Any) -> Matrix:
    pair = around_zero(A, B) if kernel.name == "rbf" else (A, B)
    return np.asarray(kernel.between(*pair))
