"""Fewer features in place of a kernel matrix: landmarks and random waves.

Functions in the span of some examples, the landmarks: a linear model (Nystroem's method).

With the kernel matrix ``R'R`` of the landmarks, ``phi(x) = R'^-1 k(landmarks, x)`` are features
whose inner products are those of the kernel, as far as functions in the span of the landmarks can
tell: ``|w|`` is the norm of ``f(x) = w.phi(x)``. So everything that fits linear models fits these
functions, and the objective of the best of them is above that of all functions.

``R`` is a triangle by Cholesky's method, which takes the landmark that the others say least of
next, and ends when they say all: such landmarks get no coefficient. With 4,000 of them it takes a
thirtieth of the time of eigenvectors.

Features are kept in float64, however many there are: what is proven of them is then proven of the
function that predicts, which is computed from kernels with the landmarks.

Random waves in place of the Gaussian kernel: a linear model (Rahimi and Recht 2007).

The kernel ``exp(-gamma |x - y|^2)`` is the mean of ``cos(v.(x - y))`` over frequencies ``v`` from a
normal distribution of variance ``2 gamma``. So with ``n`` of them drawn, the cosines and sines

    phi(x) = (cos(v_1.x), sin(v_1.x), ..., cos(v_n.x), sin(v_n.x)) / sqrt(n)

are features whose inner products are the kernel in the mean, with errors of about ``1 / sqrt(2 n)``
that do not depend on the number of examples. Everything that fits linear models fits these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf, dtrtri

from cutplane.compute.arrays import Matrix
from cutplane.compute.pace import OutOfTime, affords, deadline
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.models.gram.functions import Kernel, around_zero
from cutplane.models.gram.matrix import one_blas_thread

_ROWS = 1024
# Features that are made first, whatever the time; after them always twice as many as before. And
# what a multiplication takes, for all of the factors: a third of their cube, and as much again.
_FIRST, _SECONDS = 64, 1e-10
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
    """Return the features that some of the examples give as landmarks.

    When the step should end (`cutplane.compute.pace`), landmarks that there was no time for are
    left out: they get no coefficient, as those that the others say all of.
    """
    m, own = X.shape[0], np.arange(len(chosen))
    while len(own) > _FIRST and not affords(_SECONDS * len(own) ** 3):
        own = own[::2]
    with one_blas_thread():
        order, factor = _factor(_between(kernel, X[chosen[own]], X[chosen[own]]))
        triangle = np.triu(dtrtri(factor)[0]) if factor.any() else factor
    landmarks = X[chosen[own[order]]]
    features = np.empty((m, len(order)))
    done, size = 0, _FIRST
    wanted = default_threads() if n_threads is None else n_threads
    while done < len(order):
        part = slice(done, min(done + size, len(order)))
        try:
            _fill(kernel, X, landmarks, factor, features, part, wanted)
        except OutOfTime:
            features = np.ascontiguousarray(features[:, :done])
            break
        done, size = part.stop, 2 * size
    back = np.zeros((len(chosen), done))
    back[own[order[:done]]] = triangle[:done, :done]
    there = float(np.einsum("ij,ij->", features, features))
    trace = float(kernel.of_pairs(X).sum())
    lost = 1.0 - there / trace if trace > 0.0 else 0.0
    return LandmarkFeatures(features, back, max(lost, 0.0))


def _fill(
    kernel: Kernel,
    X: Any,
    landmarks: Any,
    factor: Matrix,
    features: Matrix,
    part: slice,
    n_threads: int,
) -> None:
    """Write some more features of all examples; the first ones whatever the time."""
    starts, done = range(0, len(features), _ROWS), part.start
    require_time = deadline()
    inverse = np.triu(dtrtri(factor[part, part])[0]) if factor.any() else factor

    def run(first: int, last: int) -> None:
        for begin in starts[first:last]:
            if done:
                require_time()
            rows = features[begin : begin + _ROWS]
            kernels = _between(kernel, X[begin : begin + _ROWS], landmarks[part])
            kernels -= rows[:, :done] @ factor[:done, part]
            np.matmul(kernels, inverse, out=rows[:, part])

    with one_blas_thread():
        run_blocks(run, len(starts), n_threads=1 if kernel.function is not None else n_threads)


def _factor(matrix: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Return an order of landmarks, and the triangle ``R`` with ``R'R`` their matrix in this order.

    Landmarks that the others say all of are left out. If all are zero in the kernel's space, one of
    them is kept, with a coefficient of zero.
    """
    largest = float(matrix.diagonal().max())
    if not largest > 0.0:
        return np.zeros(1, dtype=np.intp), np.zeros((1, 1))
    factor, order, rank, _ = dpstrf(matrix, tol=_LEAST * largest, lower=0)
    return order[:rank].astype(np.intp) - 1, np.triu(factor[:rank, :rank])


def _between(kernel: Kernel, A: Any, B: Any) -> Matrix:
    pair = around_zero(A, B) if kernel.name == "rbf" else (A, B)
    return np.asarray(kernel.between(*pair))


_ROWS_OF_WAVES = 1024
# Examples whose kernels are compared with the products of their features.
_COMPARED = 500


class WaveFeatures(NamedTuple):
    """Features of all examples, and what they are made of.

    Attributes
    ----------
    frequencies : ndarray of shape (n_waves, n_features)
    features : ndarray of shape (n_examples, 2 * n_waves)
        In float64, as predictions compute them: what is proven holds for the function that
        predicts.
    error : float
        The root of the mean squared error of the kernel, over pairs of examples.
    """

    frequencies: Matrix
    features: Matrix
    error: float


def wave_features(
    kernel: Kernel, X: Any, number: int, *, seed: int | None, n_threads: int | None = None
) -> WaveFeatures:
    """Draw frequencies, and return the features that they give."""
    draw = np.random.default_rng(seed)
    frequencies = np.sqrt(2.0 * kernel.gamma) * draw.normal(size=(number, X.shape[1]))
    m = X.shape[0]
    features = np.empty((m, 2 * number))
    starts = range(0, m, _ROWS_OF_WAVES)

    def run(first: int, last: int) -> None:
        for begin in starts[first:last]:
            rows = slice(begin, begin + _ROWS_OF_WAVES)
            features[rows] = waves(X[rows], frequencies)

    with one_blas_thread():
        wanted = default_threads() if n_threads is None else n_threads
        run_blocks(run, len(starts), n_threads=wanted)
        some = np.sort(draw.choice(m, min(m, _COMPARED), replace=False))
        made = features[some]
        errors = made @ made.T - kernel.between(X[some], X[some])
    return WaveFeatures(frequencies, features, float(np.sqrt(np.mean(errors * errors))))


def waves(X: Any, frequencies: Matrix) -> Matrix:
    """Return the cosines and sines of all frequencies, a row for each example."""
    phases = np.asarray(X @ frequencies.T, dtype=np.float64)
    out = np.empty((len(phases), 2 * len(frequencies)))
    np.cos(phases, out=out[:, ::2])
    np.sin(phases, out=out[:, 1::2])
    out /= np.sqrt(len(frequencies))
    return out


def wave_scores(X: Any, frequencies: Matrix, coef: Matrix) -> Matrix:
    """Return the values of functions of the features: a row an example, a column a function."""
    out = np.empty((X.shape[0], len(coef)))
    with one_blas_thread():
        for begin in range(0, len(out), _ROWS_OF_WAVES):
            rows = slice(begin, begin + _ROWS_OF_WAVES)
            out[rows] = waves(X[rows], frequencies) @ coef.T
    return out
