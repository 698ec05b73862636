"""Functions in the span of some examples, the landmarks: a linear model (Nystroem's method).

With the kernel matrix ``R'R`` of the landmarks, ``phi(x) = R'^-1 k(landmarks, x)`` are features
whose inner products are those of the kernel, as far as functions in the span of the landmarks can
tell: ``|w|`` is the norm of ``f(x) = w.phi(x)``. So everything that fits linear models fits these
functions, and the objective of the best of them is above that of all functions.

``R`` is a triangle by Cholesky's method, which takes the landmark that the others say least of
next, and ends when they say all: such landmarks get no coefficient. With 4,000 of them it takes a
thirtieth of the time of eigenvectors.

Features are kept in float64, however many there are: what is proven of them is then proven of the
function that predicts, which is computed from kernels with the landmarks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf, dtrtri

from cutplane.compute.arrays import Matrix
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.maps.kernels.functions import Kernel, around_zero
from cutplane.maps.kernels.matrix import one_blas_thread

_ROWS, _COLUMNS = 1024, 512
# What is left of a landmark beside the others, as a share of the largest: less is rounding.
_LEAST = 1e-10


class LandmarkFeatures(NamedTuple):
    """Features of all examples, and what they are made of.

    Attributes
    ----------
    features : ndarray of shape (n_examples, n_features)
    back : ndarray of shape (n_landmarks, n_features)
        From a weight vector of the features to coefficients of the landmarks.
    lost : float
        The share of the kernel's trace that the features do not reproduce: 0 if the landmarks span
        all examples.
    """

    features: Matrix
    back: Matrix
    lost: float


def landmark_features(
    kernel: Kernel, X: Any, chosen: NDArray[np.intp], *, n_threads: int | None = None
) -> LandmarkFeatures:
    """Return the features that some of the examples give as landmarks."""
    m = X.shape[0]
    with one_blas_thread():
        order, triangle = _orthogonal(_between(kernel, X[chosen], X[chosen]))
    landmarks = X[chosen[order]]
    back = np.zeros((len(chosen), len(order)))
    back[order] = triangle
    features = np.empty((m, back.shape[1]))
    starts = range(0, m, _ROWS)

    def run(first: int, last: int) -> None:
        for begin in starts[first:last]:
            rows = slice(begin, begin + _ROWS)
            _features(_between(kernel, X[rows], landmarks), triangle, out=features[rows])

    with one_blas_thread():
        wanted = default_threads() if n_threads is None else n_threads
        run_blocks(run, len(starts), n_threads=1 if kernel.function is not None else wanted)
    there = float(np.einsum("ij,ij->", features, features))
    trace = float(kernel.of_pairs(X).sum())
    lost = 1.0 - there / trace if trace > 0.0 else 0.0
    return LandmarkFeatures(features, back, max(lost, 0.0))


def _orthogonal(matrix: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Return an order of landmarks, and what makes functions of length one of them.

    The columns of the triangle ``B`` are coefficients of functions that are orthogonal to each
    other in the kernel's space: ``B' matrix B`` is the identity, for the matrix in this order,
    without landmarks that the others say all of. If all are zero in that space, one of them is
    kept, with a coefficient of zero.
    """
    largest = float(matrix.diagonal().max())
    if not largest > 0.0:
        return np.zeros(1, dtype=np.intp), np.zeros((1, 1))
    factor, order, rank, _ = dpstrf(matrix, tol=_LEAST * largest, lower=0)
    inverse, _ = dtrtri(factor[:rank, :rank])
    return order[:rank].astype(np.intp) - 1, np.triu(inverse)


def _features(kernels: Matrix, triangle: Matrix, *, out: Matrix) -> None:
    """Write kernels with the landmarks, times the triangle; what is below its diagonal is zero."""
    for begin in range(0, out.shape[1], _COLUMNS):
        end = min(begin + _COLUMNS, out.shape[1])
        np.matmul(kernels[:, :end], triangle[:end, begin:end], out=out[:, begin:end])


def _between(kernel: Kernel, A: Any, B: Any) -> Matrix:
    pair = around_zero(A, B) if kernel.name == "rbf" else (A, B)
    return np.asarray(kernel.between(*pair))
