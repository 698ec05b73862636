"""Compiled: the likelihood of sequences, and what hidden states are expected there.

The forward-backward algorithm for the models of one class, in logarithms: so no sequence is too
long. Its counts, or those of the best path alone, are what maximum likelihood re-estimates a model
from (:mod:`cutplane.structured.hmm.estimation`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.structured.chains.kernels import Indices, longest_in
from cutplane.structured.hmm.paths import Moves, Path, last_state, reach, room_for, trace_back


class Counts(NamedTuple):
    """How often states, Gaussians and moves are taken, and what the frames there are.

    Frames count as differences from the present mean, so that no digits are lost.
    """

    gaussians: Vector  # (G,)
    sums: Matrix  # (G, D)
    products: Matrix  # (G, D) or, for full covariances, (G, D * D)
    start: Vector  # (K,)
    bands: Matrix  # (n_jumps, K)
    end: Vector  # (K,)


@njit(cache=True, nogil=True)
def _log_add(a: float, b: float) -> float:
    if a == -np.inf:
        return b
    if b == -np.inf:
        return a
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@njit(cache=True, nogil=True)
def mix(scores: Matrix, n_states: int, out: Matrix) -> None:
    """Fill in the logarithm of each state's density: of the sum over its Gaussians."""
    for t in range(scores.shape[0]):
        for s in range(n_states):
            out[t, s] = scores[t, s]
            for g in range(n_states + s, scores.shape[1], n_states):
                out[t, s] = _log_add(out[t, s], scores[t, g])


@njit(cache=True, nogil=True)
def forward(E: Matrix, moves: Moves, alpha: Matrix) -> float:
    """Fill in the logarithms of the densities up to each frame; return that of the sequence."""
    start, bands, jumps, end, prior, _ = moves
    n, n_states = E.shape
    for s in range(n_states):
        alpha[0, s] = start[s] + prior[0] + E[0, s]
    for t in range(1, n):
        for s in range(n_states):
            total = -np.inf
            for j in range(len(jumps)):
                if 0 <= s - jumps[j] < n_states:
                    total = _log_add(total, alpha[t - 1, s - jumps[j]] + bands[j, s])
            alpha[t, s] = total + E[t, s]
    total = -np.inf
    for s in range(n_states):
        total = _log_add(total, alpha[n - 1, s] + end[s])
    return total


@njit(cache=True, nogil=True)
def backward(E: Matrix, moves: Moves, beta: Matrix) -> None:
    """Fill in the logarithms of the densities after each frame, given its state."""
    _, bands, jumps, end, _, _ = moves
    n, n_states = E.shape
    for s in range(n_states):
        beta[n - 1, s] = end[s]
    for t in range(n - 2, -1, -1):
        for s in range(n_states):
            total = -np.inf
            for j in range(len(jumps)):
                k = s + jumps[j]
                if 0 <= k < n_states:
                    total = _log_add(total, bands[j, k] + E[t + 1, k] + beta[t + 1, k])
            beta[t, s] = total


@njit(cache=True, nogil=True)
def _take(
    frames: Matrix, t: int, means: Matrix, g: int, share: float, counts: Counts, x: Vector
) -> None:
    """Count a share of a frame for a Gaussian."""
    n_features, full = len(x), counts.products.shape[1] > len(x)
    counts.gaussians[g] += share
    for d in range(n_features):
        x[d] = frames[t, d] - means[d, g]
        counts.sums[g, d] += share * x[d]
    for d in range(n_features):
        if full:
            for j in range(n_features):
                counts.products[g, d * n_features + j] += share * x[d] * x[j]
        else:
            counts.products[g, d] += share * x[d] * x[d]


@njit(cache=True, nogil=True)
def count_expected(
    frames: Matrix, offsets: Indices, weights: Vector, scores: Matrix, moves: Moves,
    means: Matrix, counts: Counts,
) -> float:  # fmt: skip
    """Add what is expected of hidden states; return the weighted sum of log-likelihoods.

    ``scores`` are those of all Gaussians at all frames.
    """
    jumps, n_states = moves.jumps, len(moves.start)
    E = np.empty((len(scores), n_states))
    mix(scores, n_states, E)
    alpha, beta, x = np.empty_like(E), np.empty_like(E), np.empty(frames.shape[1])
    total = 0.0
    for i in range(len(weights)):
        i0, i1 = offsets[i], offsets[i + 1]
        weight = weights[i]
        if weight == 0.0:
            continue
        likelihood = forward(E[i0:i1], moves, alpha[i0:i1])
        backward(E[i0:i1], moves, beta[i0:i1])
        total += weight * likelihood
        for t in range(i0, i1):
            for s in range(n_states):
                seen = alpha[t, s] + beta[t, s] - likelihood
                if seen > -700.0:
                    for g in range(s, scores.shape[1], n_states):
                        share = weight * math.exp(seen + scores[t, g] - E[t, s])
                        _take(frames, t, means, g, share, counts, x)
                if t > i0:
                    for j in range(len(jumps)):
                        k = s - jumps[j]
                        if 0 <= k < n_states:
                            passed = alpha[t - 1, k] + moves.bands[j, s] + E[t, s] + beta[t, s]
                            counts.bands[j, s] += weight * math.exp(passed - likelihood)
        for s in range(n_states):
            counts.start[s] += weight * math.exp(alpha[i0, s] + beta[i0, s] - likelihood)
            counts.end[s] += weight * math.exp(alpha[i1 - 1, s] + moves.end[s] - likelihood)
    return total


@njit(cache=True, nogil=True)
def count_path(
    frames: Matrix, offsets: Indices, weights: Vector, path: Path, components: Path,
    means: Matrix, n_states: int, counts: Counts,
) -> None:  # fmt: skip
    """Add what a path takes: its states, the Gaussians in ``components.states``, its moves."""
    x = np.empty(frames.shape[1])
    for i in range(len(weights)):
        i0, i1 = offsets[i], offsets[i + 1]
        for t in range(i0, i1):
            s = path.states[t]
            g = components.states[t] * n_states + s
            _take(frames, t, means, g, weights[i], counts, x)
            if t > i0:
                counts.bands[path.jumps[t], s] += weights[i]
        counts.start[path.states[i0]] += weights[i]
        counts.end[path.states[i1 - 1]] += weights[i]


@njit(cache=True, nogil=True)
def align(offsets: Indices, scores: Matrix, moves: Moves, path: Path, components: Path) -> None:
    """Fill in the best path of each sequence, and the best Gaussian of its state at each frame."""
    n_states, n_gaussians = len(moves.start), scores.shape[1]
    E = np.empty((len(scores), n_states))
    for t in range(len(scores)):
        for s in range(n_states):
            E[t, s] = scores[t, s]
            for g in range(n_states + s, n_gaussians, n_states):
                E[t, s] = max(E[t, s], scores[t, g])
    longest = longest_in(offsets, 0, len(offsets) - 1)
    best, row = room_for(longest, moves), np.empty(n_states)
    nothing = np.empty(0, np.int32)
    for i in range(len(offsets) - 1):
        i0, n = offsets[i], offsets[i + 1] - offsets[i]
        reach(E, i0, n, moves, nothing, 0.0, best, row)
        trace_back(
            best, i0, n, moves, last_state(best, n, moves, 0, n_states), path.states, path.jumps
        )
    for t in range(len(scores)):
        g, s = path.states[t], path.states[t]
        for other in range(s, n_gaussians, n_states):
            if scores[t, other] > scores[t, g]:
                g = other
        components.states[t] = g // n_states
