"""Compiled: densities of frames under many Gaussians at once, and their slopes.

Gaussian ``m`` of state ``s`` is number ``m * S + s``, with S states in all: so the best Gaussian of
each state is a maximum of rows. The inner loops run over Gaussians, four frames at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit


class Gaussians(NamedTuple):
    """Gaussians, one in each column."""

    means: Matrix  # (D, G)
    scales: Matrix  # (D, G): one over the standard deviation
    lower: Matrix  # (D (D - 1) / 2, G), or (0, G) for diagonal covariances: row by row
    constants: Vector  # (G,): logarithm of the density's factor, and of the weight in the mixture


class GaussianSums(NamedTuple):
    """Sums of slopes by means, logarithms of standard deviations, and weights: a row a Gaussian."""

    means: Matrix  # (G, D)
    log_sds: Matrix  # (G, D)
    lower: Matrix  # (G, D (D - 1) / 2), or (G, 0)
    weights: Vector  # (G,)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _four_squares(
    frames: Matrix, rows: tuple[int, int, int, int], table: Gaussians,
    a0: Vector, a1: Vector, a2: Vector, a3: Vector,
) -> None:  # fmt: skip
    """Fill in ``|z|^2`` of four frames for each Gaussian with a diagonal covariance."""
    means, scales, _, _ = table
    n_features, n_gaussians = means.shape
    t0, t1, t2, t3 = rows
    for g in range(n_gaussians):
        a0[g] = 0.0
        a1[g] = 0.0
        a2[g] = 0.0
        a3[g] = 0.0
    for d in range(n_features):
        x0, x1, x2, x3 = frames[t0, d], frames[t1, d], frames[t2, d], frames[t3, d]
        for g in range(n_gaussians):
            mean, scale = means[d, g], scales[d, g]
            z0, z1 = (x0 - mean) * scale, (x1 - mean) * scale
            z2, z3 = (x2 - mean) * scale, (x3 - mean) * scale
            a0[g] += z0 * z0
            a1[g] += z1 * z1
            a2[g] += z2 * z2
            a3[g] += z3 * z3


@njit(cache=True, nogil=True, fastmath={"contract"})
def _squares(frames: Matrix, t: int, table: Gaussians, z: Vector, squares: Vector) -> None:
    """Fill in ``|z|^2`` of a frame for each Gaussian with a full covariance."""
    means, scales, lower, _ = table
    n_features, n_gaussians = means.shape
    for g in range(n_gaussians):
        squares[g] = 0.0
    row = 0
    for d in range(n_features):
        for g in range(n_gaussians):
            z[g] = frames[t, d] - means[d, g]
        for j in range(d):
            for g in range(n_gaussians):
                z[g] += lower[row, g] * (frames[t, j] - means[j, g])
            row += 1
        for g in range(n_gaussians):
            r = z[g] * scales[d, g]
            squares[g] += r * r


@njit(cache=True, nogil=True)
def _best(table: Gaussians, squares: Vector, n_states: int, out: Matrix, t: int) -> None:
    """Fill in the score of the best Gaussian of each state."""
    constants = table.constants
    for s in range(n_states):
        out[t, s] = constants[s] - 0.5 * squares[s]
    for begin in range(n_states, len(constants), n_states):
        for s in range(n_states):
            v = constants[begin + s] - 0.5 * squares[begin + s]
            out[t, s] = v if v > out[t, s] else out[t, s]


@njit(cache=True, nogil=True)
def fill_best(
    frames: Matrix, first: int, last: int, table: Gaussians, n_states: int, out: Matrix
) -> None:
    """Fill in what each state scores from frame ``first`` to ``last``, by its best Gaussian.

    With as many states as Gaussians these are the scores of all Gaussians.
    """
    n_gaussians = len(table.constants)
    a0, a1 = np.empty(n_gaussians), np.empty(n_gaussians)
    a2, a3 = np.empty(n_gaussians), np.empty(n_gaussians)
    if table.lower.shape[0]:
        for t in range(first, last):
            _squares(frames, t, table, a0, a1)
            _best(table, a1, n_states, out, t - first)
        return
    for t in range(first, last, 4):
        # The last rows may be less than four: then the very last one is computed again.
        t1, t2, t3 = min(t + 1, last - 1), min(t + 2, last - 1), min(t + 3, last - 1)
        _four_squares(frames, (t, t1, t2, t3), table, a0, a1, a2, a3)
        _best(table, a0, n_states, out, t - first)
        _best(table, a1, n_states, out, t1 - first)
        _best(table, a2, n_states, out, t2 - first)
        _best(table, a3, n_states, out, t3 - first)


@njit(cache=True, nogil=True)
def _whiten(frames: Matrix, t: int, table: Gaussians, g: int, z: Vector) -> float:
    """Fill in ``z`` of a frame for one Gaussian; return its score."""
    means, scales, lower, constants = table
    total, row = 0.0, 0
    for d in range(len(z)):
        z[d] = frames[t, d] - means[d, g]
        if lower.shape[0]:
            for j in range(d):
                z[d] += lower[row, g] * (frames[t, j] - means[j, g])
                row += 1
        z[d] *= scales[d, g]
        total += z[d] * z[d]
    score: float = constants[g] - 0.5 * total
    return score


@njit(cache=True, nogil=True)
def add_slopes(
    frames: Matrix, t: int, state: int, n_states: int, weight: float, table: Gaussians,
    sums: GaussianSums, z: Vector,
) -> None:  # fmt: skip
    """Add the slopes of the score of a state at a frame, which its best Gaussian has.

    ``z`` is room for a frame.
    """
    g, top = state, -np.inf
    for each in range(state, len(table.constants), n_states):
        score = _whiten(frames, t, table, each, z)
        if score > top:
            g, top = each, score
    _whiten(frames, t, table, g, z)
    sums.weights[g] += weight
    row = 0
    for d in range(len(z)):
        pull = weight * z[d] * table.scales[d, g]  # of the distance from the mean, in z_d
        sums.means[g, d] += pull
        sums.log_sds[g, d] += weight * (z[d] * z[d] - 1.0)
        if table.lower.shape[0]:
            for j in range(d):
                sums.means[g, j] += pull * table.lower[row, g]
                sums.lower[g, row] -= pull * (frames[t, j] - table.means[j, g])
                row += 1
