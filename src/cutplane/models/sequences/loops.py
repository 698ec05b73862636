"""Compiled: the best labels of chains, by Viterbi's algorithm.

A sequence of n tokens with labels ``y_1 .. y_n`` out of L has the score

    score(y) = start[y_1] + sum_t S[t, y_t] + sum_t T[y_t-1, y_t] + end[y_n]

The program costs L^2 a token. Its inner loop runs along rows of a matrix that is padded to
`padded(L)` columns, so that whole vectors fit.

Scores and blocks of work are those of :mod:`cutplane.models.sequences.chain`, whose
`Chains.run` calls the kernels: for the blocks from ``first_block`` up to and not including
``last_block``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

if TYPE_CHECKING:
    from cutplane.models.sequences.chain import Blocks, ChainScores

Indices = NDArray[np.int64]
Labels = NDArray[np.int32]


def padded(n_labels: int) -> int:
    """Return the number of columns that rows of ``n_labels`` numbers are given."""
    return -(-n_labels // 8) * 8 if n_labels > 4 else n_labels


def with_padding(matrix: Matrix, fill: float) -> Matrix:
    """Return a square matrix with both sides padded."""
    n, width = len(matrix), padded(len(matrix))
    wide = np.full((width, width), fill)  # np.pad takes 0.15 ms, and this is done for each piece
    wide[:n, :n] = matrix
    return wide


@njit(cache=True, nogil=True)
def longest_in(offsets: Indices, first: int, last: int) -> int:
    """Return the length of the longest of some sequences, at least 1."""
    longest = 1
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@njit(cache=True, nogil=True)
def _gain(scores: ChainScores, y: Labels, labels: Labels, i0: int, i1: int) -> float:
    """Return ``score(labels) - score(y)`` of the tokens from i0 to i1, as a sum of differences."""
    if i0 == i1:
        return 0.0
    S, T, start, end = scores
    total: float = start[labels[i0]] - start[y[i0]]
    for t in range(i0, i1):
        if labels[t] != y[t]:
            total += S[t, labels[t]] - S[t, y[t]]
        if t > i0 and (labels[t] != y[t] or labels[t - 1] != y[t - 1]):
            total += T[labels[t - 1], labels[t]] - T[y[t - 1], y[t]]
    total += end[labels[i1 - 1]] - end[y[i1 - 1]]
    return total


@njit(cache=True, nogil=True)
def fill_gains(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, labels: Labels, gains: Vector,
) -> None:  # fmt: skip
    """Fill in ``score(labels) - score(y)`` of each sequence."""
    offsets, bounds = blocks
    for i in range(bounds[first_block], bounds[last_block]):
        gains[i] = _gain(scores, y, labels, offsets[i], offsets[i + 1])


@njit(cache=True, nogil=True)
def reach_labels(
    scores: ChainScores, y: Labels, margin: float, i0: int, i1: int, best: Matrix, reach: Vector
) -> None:
    """Fill in the largest ``score + margin * (number of mistakes)`` up to each token and label.

    Row ``t`` of ``best`` is for token ``i0 + t``, and relative: a number may be added to all of it.
    Its columns beyond the labels must be minus infinity. ``reach`` is room for one more row.
    """
    S, T, start, _ = scores
    n_labels, width = S.shape[1], T.shape[1]
    fours = n_labels // 4 * 4
    for b in range(n_labels):
        best[0, b] = S[i0, b] + start[b] + margin
    best[0, y[i0]] -= margin
    for t in range(1, i1 - i0):
        # Relative to the largest, so that the sums of long sequences keep their last digits.
        top = best[t - 1, 0]
        for a in range(1, n_labels):
            top = max(top, best[t - 1, a])
        for b in range(width):
            reach[b] = -np.inf
        for a in range(0, fours, 4):
            s0, s1 = best[t - 1, a] - top, best[t - 1, a + 1] - top
            s2, s3 = best[t - 1, a + 2] - top, best[t - 1, a + 3] - top
            for b in range(width):
                u0, u1 = s0 + T[a, b], s1 + T[a + 1, b]
                u2, u3 = s2 + T[a + 2, b], s3 + T[a + 3, b]
                v0 = u0 if u0 > u1 else u1
                v1 = u2 if u2 > u3 else u3
                v = v0 if v0 > v1 else v1
                reach[b] = v if v > reach[b] else reach[b]
        for a in range(fours, n_labels):
            s = best[t - 1, a] - top
            for b in range(width):
                v = s + T[a, b]
                reach[b] = v if v > reach[b] else reach[b]
        for b in range(n_labels):
            best[t, b] = reach[b] + (S[i0 + t, b] + margin)
        best[t, y[i0 + t]] = reach[y[i0 + t]] + S[i0 + t, y[i0 + t]]


@njit(cache=True, nogil=True)
def last_label(best: Matrix, n: int, end: Vector) -> int:
    """Return the best label of the last of n tokens, the first if several are."""
    label, height = 0, -np.inf
    for b in range(len(end)):
        if best[n - 1, b] + end[b] > height:
            label, height = b, best[n - 1, b] + end[b]
    return label


@njit(cache=True, nogil=True)
def trace_back(best: Matrix, backward: Matrix, i0: int, t: int, labels: Labels) -> None:
    """Fill in the best labels before token ``i0 + t``, given its own; the first if several are."""
    n_labels = len(backward)
    label = labels[i0 + t]
    for s in range(t, 0, -1):
        following, label, height = label, 0, -np.inf
        for a in range(n_labels):
            v = best[s - 1, a] + backward[following, a]
            if v > height:
                label, height = a, v
        labels[i0 + s - 1] = label


@njit(cache=True, nogil=True)
def fill_worst(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, margin: float,
    labels: Labels, gains: Vector, mistakes: Indices,
) -> None:  # fmt: skip
    """Fill in the labels with the largest ``score(labels) + margin * (number of mistakes)``.

    Also what they score more than ``y``, and their mistakes. Transitions are padded with -inf.
    """
    offsets, bounds = blocks
    n_labels, width = scores.emissions.shape[1], scores.transitions.shape[1]
    first, last = bounds[first_block], bounds[last_block]
    best = np.full((longest_in(offsets, first, last), width), -np.inf)
    reach = np.empty(width)
    backward = np.ascontiguousarray(scores.transitions[:n_labels, :n_labels].T)
    for i in range(first, last):
        i0, i1 = offsets[i], offsets[i + 1]
        if i0 == i1:
            gains[i], mistakes[i] = 0.0, 0
            continue
        reach_labels(scores, y, margin, i0, i1, best, reach)
        labels[i1 - 1] = last_label(best, i1 - i0, scores.end)
        trace_back(best, backward, i0, i1 - i0 - 1, labels)
        wrong = 0
        for t in range(i0, i1):
            if labels[t] != y[t]:
                wrong += 1
        gain = _gain(scores, y, labels, i0, i1)
        if margin > 0.0 and gain + margin * wrong < 0.0:  # by rounding only: y itself is as good
            for t in range(i0, i1):
                labels[t] = y[t]
            gain, wrong = 0.0, 0
        gains[i], mistakes[i] = gain, wrong
