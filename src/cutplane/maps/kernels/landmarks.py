"""Functions in the span of some examples, the landmarks: a linear model (Nystroem's method).

With the kernel matrix ``U S U'`` of the landmarks, ``phi(x) = S^-1/2 U' k(landmarks, x)`` are
features whose inner products are those of the kernel, as far as functions in the span of the
landmarks can tell: ``|w|`` is the norm of ``f(x) = w.phi(x)``. So everything that fits linear
models fits these functions, and the objective of the best of them is above that of all functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.maps.kernels.functions import Kernel, around_zero
from cutplane.maps.kernels.matrix import FULL_PRECISION, one_blas_thread

_ROWS = 1024
# Directions with a smaller share of the largest eigenvalue are rounding.
_LEAST = 1e-10


class LandmarkFeatures(NamedTuple):
    """Features of all examples, and what they are made of.

    Attributes
    ----------
    chosen : ndarray
        The numbers of the landmarks, ascending.
    features : ndarray of shape (n_examples, n_features)
        In float32 for more than 2,048 examples.
    back : ndarray of shape (n_landmarks, n_features)
        From a weight vector of the features to coefficients of the landmarks.
    lost : float
        The share of the kernel's trace that the features do not reproduce: 0 if the landmarks span
        all examples.
    """

    chosen: NDArray[np.intp]
    features: NDArray[Any]
    back: Matrix
    lost: float


def landmark_features(
    kernel: Kernel, X: Any, number: int, *, seed: int | None, n_threads: int | None = None
) -> LandmarkFeatures:
    """Choose landmarks among the examples at random, and return the features that they give."""
    m = X.shape[0]
    draw = np.random.default_rng(seed)
    chosen = np.sort(draw.choice(m, min(number, m), replace=False))
    landmarks = X[chosen]
    with one_blas_thread():
        sizes, directions = np.linalg.eigh(_between(kernel, landmarks, landmarks))
    kept = sizes > _LEAST * sizes[-1]
    back = directions[:, kept] / np.sqrt(sizes[kept])
    features = np.empty((m, back.shape[1]), np.float64 if m <= FULL_PRECISION else np.float32)
    starts = range(0, m, _ROWS)

    def run(first: int, last: int) -> None:
        for begin in starts[first:last]:
            rows = slice(begin, begin + _ROWS)
            features[rows] = _between(kernel, X[rows], landmarks) @ back

    with one_blas_thread():
        wanted = default_threads() if n_threads is None else n_threads
        run_blocks(run, len(starts), n_threads=1 if kernel.function is not None else wanted)
    there = float(np.einsum("ij,ij->", features, features, dtype=np.float64))
    lost = 1.0 - there / float(kernel.of_pairs(X).sum())
    return LandmarkFeatures(chosen, features, back, max(lost, 0.0))


def _between(kernel: Kernel, A: Any, B: Any) -> Matrix:
    pair = around_zero(A, B) if kernel.name == "rbf" else (A, B)
    return np.asarray(kernel.between(*pair))
