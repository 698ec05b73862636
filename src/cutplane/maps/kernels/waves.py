"""Random waves in place of the Gaussian kernel: a linear model (Rahimi and Recht 2007).

The kernel ``exp(-gamma |x - y|^2)`` is the mean of ``cos(v.(x - y))`` over frequencies ``v`` from a
normal distribution of variance ``2 gamma``. So with ``n`` of them drawn, the cosines and sines

    phi(x) = (cos(v_1.x), sin(v_1.x), ..., cos(v_n.x), sin(v_n.x)) / sqrt(n)

are features whose inner products are the kernel in the mean, with errors of about ``1 / sqrt(2 n)``
that do not depend on the number of examples. Everything that fits linear models fits these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.maps.kernels.functions import Kernel
from cutplane.maps.kernels.matrix import one_blas_thread

_ROWS = 1024
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
    starts = range(0, m, _ROWS)

    def run(first: int, last: int) -> None:
        for begin in starts[first:last]:
            rows = slice(begin, begin + _ROWS)
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
        for begin in range(0, len(out), _ROWS):
            rows = slice(begin, begin + _ROWS)
            out[rows] = waves(X[rows], frequencies) @ coef.T
    return out
