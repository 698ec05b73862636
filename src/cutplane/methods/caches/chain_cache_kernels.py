"""Compiled block ascent on cached labels of chains.

Sequence ``i`` has cached labels ``p``, with weights ``alpha[i, p]`` that sum to one; label
sequence 0 is the true one. With ``D[i, p]`` their features beyond those of the true labels,

    w = -1/lam * sum_i weight_i * sum_p alpha[i, p] * D[i, p].

With a proximal term the sum is divided by ``lam`` plus its strength, which is what ``lam`` means in
this file, and a multiple of its center is added: see :mod:`cutplane.methods.caches.output_weights`.

A visit scores the cached labels of one sequence at ``w``, moves weight from the worst to the best
of them until that sequence has little to gain, and brings ``w`` up to date. Inner products of the
``D[i, p]`` are kept, so only the beginning and the end of a visit touch the features.

Coefficients are stored feature by feature, all labels of a feature side by side: a token's
features then score all labels at once. Pairs of feature and label that have no weight
(``weighted``) stay zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.structured.chains.kernels import Indices, Labels, longest_in

Flags = NDArray[np.bool_]

# A visit ends when the best label sequence is ahead of the worst with weight by so small a share of
# what it was, or after so many moves for each cached one.
_FLAT = 0.1
_MOVES_EACH = 3


@njit(cache=True, nogil=True)
def _score_token(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], token: int,
    coef: Matrix, scores: Matrix, row: int,
) -> None:  # fmt: skip
    """Write the scores of a token's labels to a row."""
    n_labels = coef.shape[1]
    for b in range(n_labels):
        scores[row, b] = 0.0
    for e in range(np.uint64(starts[token]), np.uint64(starts[token + 1])):
        x, feature = values[e], np.uint64(indices[e])
        for b in range(n_labels):
            scores[row, b] += x * coef[feature, b]


@njit(cache=True, nogil=True)
def _add_token(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], token: int,
    label: int, by: float, weighted: Flags, coef: Matrix,
) -> None:  # fmt: skip
    """Add a token's features, times a number, to the coefficients of a label."""
    for e in range(np.uint64(starts[token]), np.uint64(starts[token + 1])):
        feature = np.uint64(indices[e])
        if weighted[feature, label]:
            coef[feature, label] += by * values[e]


@njit(cache=True, nogil=True)
def _add_labels(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], i0: int, i1: int,
    labels: Labels, at: int, skip: Labels, skip_at: int, by: float, weighted: Flags,
    coef: Matrix, transitions: Matrix, ends: Matrix,
) -> None:  # fmt: skip
    """Add the features of ``labels[at:]``, times a number, but for tokens labeled as ``skip``."""
    for t in range(i1 - i0):
        if labels[at + t] != skip[skip_at + t]:
            _add_token(values, indices, starts, i0 + t, labels[at + t], by, weighted, coef)
        if t > 0:
            transitions[labels[at + t - 1], labels[at + t]] += by
    ends[0, labels[at]] += by
    ends[1, labels[at + i1 - i0 - 1]] += by


@njit(cache=True, nogil=True)
def _rank(
    scores: Matrix, transitions: Matrix, ends: Matrix, n: int,
    labels: Labels, first: int, count: int, losses: Matrix, i: int, heights: Vector,
) -> None:  # fmt: skip
    """Fill in ``loss + score`` of each cached label sequence, but for what all have in common."""
    for p in range(count):
        at = first + p * n
        height = losses[i, p] + ends[0, labels[at]] + ends[1, labels[at + n - 1]]
        for t in range(n):
            height += scores[t, labels[at + t]]
        for t in range(1, n):
            height += transitions[labels[at + t - 1], labels[at + t]]
        heights[p] = height


@njit(cache=True, nogil=True)
def balance(
    alpha: Matrix, gram: NDArray[np.float64], i: int, count: int, stiffness: float,
    heights: Vector, moved: Vector,
) -> float:  # fmt: skip
    """Move weight between the cached labels of a sequence; return what it had to gain before.

    ``moved`` gets the changes of the weights, and stays zero where there are none.
    """
    gap = 0.0
    first_lead = 0.0
    for move in range(_MOVES_EACH * count):
        best, worst = 0, -1
        for p in range(count):
            if heights[p] > heights[best]:
                best = p
            if alpha[i, p] > 0.0 and (worst < 0 or heights[p] < heights[worst]):
                worst = p
        lead = heights[best] - heights[worst]
        if move == 0:
            first_lead = lead
            for p in range(count):
                gap += alpha[i, p] * (heights[best] - heights[p])
        if lead <= _FLAT * first_lead and (move > 0 or lead <= 0.0):
            break
        bend = stiffness * (
            gram[i, best, best] - 2.0 * gram[i, best, worst] + gram[i, worst, worst]
        )
        step = alpha[i, worst]
        if bend * step > lead:
            step = lead / bend
        if step == 0.0:
            break
        alpha[i, best] += step
        alpha[i, worst] = max(alpha[i, worst] - step, 0.0)
        moved[best] += step
        moved[worst] -= step
        for p in range(count):
            heights[p] -= stiffness * step * (gram[i, p, best] - gram[i, p, worst])
    return gap


@njit(cache=True, nogil=True)
def ascend(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], offsets: Indices,
    weights: Vector, lam: float, most: int, labels: Labels, counts: Indices, alpha: Matrix,
    losses: Matrix, gram: NDArray[np.float64], weighted: Flags, coef: Matrix,
    transitions: Matrix, ends: Matrix, has_ends: bool, examples: Indices, gaps: Vector,
) -> None:  # fmt: skip
    """Visit examples one after the other; fill in what each had to gain before its visit."""
    n_labels = coef.shape[1]
    scores = np.zeros((longest_in(offsets, 0, len(offsets) - 1), n_labels))
    heights, moved = np.empty(most), np.zeros(most)
    shares = np.zeros(n_labels)
    for i in examples:
        count, i0, n = counts[i], offsets[i], offsets[i + 1] - offsets[i]
        gaps[i] = 0.0
        if count < 2:
            continue
        first = most * i0
        for t in range(n):
            differ = False
            for p in range(1, count):
                if labels[first + p * n + t] != labels[first + t]:
                    differ = True
            if differ:
                _score_token(values, indices, starts, i0 + t, coef, scores, t)
            else:
                scores[t, labels[first + t]] = 0.0
        _rank(scores, transitions, ends, n, labels, first, count, losses, i, heights)
        gaps[i] = weights[i] * balance(alpha, gram, i, count, weights[i] / lam, heights, moved)
        for t in range(n):
            for p in range(count):
                shares[labels[first + p * n + t]] += moved[p]
            for p in range(count):
                label = labels[first + p * n + t]
                by = -weights[i] / lam * shares[label]
                shares[label] = 0.0
                if by != 0.0:
                    _add_token(values, indices, starts, i0 + t, label, by, weighted, coef)
        for p in range(count):
            if moved[p] != 0.0:
                by = -weights[i] / lam * moved[p]
                at = first + p * n
                for t in range(1, n):
                    transitions[labels[at + t - 1], labels[at + t]] += by
                if has_ends:
                    ends[0, labels[at]] += by
                    ends[1, labels[at + n - 1]] += by
                moved[p] = 0.0


@njit(cache=True, nogil=True)
def place_for_one(counts: Indices, alpha: Matrix, idle: Indices, i: int) -> int:
    """Return where a new output of an example goes, and count it.

    In a full cache it takes the place of the one that had no weight for the longest time, or of
    the lightest, whose weight it takes over. The true output stays.
    """
    place: int = counts[i]
    most = alpha.shape[1]
    if place < most:
        counts[i] += 1
    else:
        place = 1
        for p in range(2, most):
            if idle[i, p] > idle[i, place] or (
                idle[i, p] == 0 and idle[i, place] == 0 and alpha[i, p] < alpha[i, place]
            ):
                place = p
    idle[i, place] = 0
    return place


@njit(cache=True, nogil=True)
def insert(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], offsets: Indices,
    most: int, labels: Labels, counts: Indices, alpha: Matrix, losses: Matrix,
    gram: NDArray[np.float64], idle: NDArray[np.int64], has_ends: bool, found: Labels,
    mistakes: Indices, weighted: Flags, coef: Matrix,
) -> int:  # fmt: skip
    """Put the labels that were found for each sequence into its cache, if they are new.

    Returns how often they took over the weight of others. ``coef`` is all zero before and after.
    """
    n_labels = coef.shape[1]
    transitions, ends = np.zeros((n_labels, n_labels)), np.zeros((2, n_labels))
    taken_over = 0
    for i in range(len(counts)):
        i0, i1 = offsets[i], offsets[i + 1]
        n, first = i1 - i0, most * i0
        if n == 0:
            continue
        known = False
        for p in range(counts[i]):
            idle[i, p] = 0 if alpha[i, p] > 0.0 else idle[i, p] + 1
            same = True
            for t in range(n):
                if labels[first + p * n + t] != found[i0 + t]:
                    same = False
                    break
            if same:
                known = True
                idle[i, p] = 0
        if known:
            continue
        place = place_for_one(counts, alpha, idle, i)
        if alpha[i, place] > 0.0:
            taken_over += 1
        losses[i, place] = mistakes[i]
        at = first + place * n
        for t in range(n):
            labels[at + t] = found[i0 + t]
        # The inner products are what the cached labels score with the new features for weights.
        _add_labels(values, indices, starts, i0, i1, labels, at, labels, first, 1.0,
                    weighted, coef, transitions, ends)  # fmt: skip
        _add_labels(values, indices, starts, i0, i1, labels, first, labels, at, -1.0,
                    weighted, coef, transitions, ends)  # fmt: skip
        if not has_ends:
            ends[:] = 0.0
        for p in range(counts[i]):
            product = _gain_of(values, indices, starts, i0, n, labels, first + p * n, first,
                               coef, transitions, ends)  # fmt: skip
            gram[i, place, p] = product
            gram[i, p, place] = product
        for t in range(n):
            for label in (labels[at + t], labels[first + t]):
                for e in range(np.uint64(starts[i0 + t]), np.uint64(starts[i0 + t + 1])):
                    coef[np.uint64(indices[e]), label] = 0.0
            if t > 0:
                transitions[labels[at + t - 1], labels[at + t]] = 0.0
                transitions[labels[first + t - 1], labels[first + t]] = 0.0
        ends[:] = 0.0
    return taken_over


@njit(cache=True, nogil=True)
def _gain_of(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], i0: int, n: int,
    labels: Labels, at: int, true_at: int, coef: Matrix, transitions: Matrix, ends: Matrix,
) -> float:  # fmt: skip
    """Return what cached labels score more than the true ones."""
    gain: float = ends[0, labels[at]] - ends[0, labels[true_at]]
    gain += ends[1, labels[at + n - 1]] - ends[1, labels[true_at + n - 1]]
    for t in range(n):
        label, true = labels[at + t], labels[true_at + t]
        if label != true:
            for e in range(np.uint64(starts[i0 + t]), np.uint64(starts[i0 + t + 1])):
                feature = np.uint64(indices[e])
                gain += values[e] * (coef[feature, label] - coef[feature, true])
        if t > 0:
            gain += transitions[labels[at + t - 1], label]
            gain -= transitions[labels[true_at + t - 1], true]
    return gain


@njit(cache=True, nogil=True)
def rebuild(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], offsets: Indices,
    weights: Vector, lam: float, most: int, labels: Labels, counts: Indices, alpha: Matrix,
    weighted: Flags, coef: Matrix, transitions: Matrix, ends: Matrix, has_ends: bool,
) -> None:  # fmt: skip
    """Compute ``w`` from the weights of all cached labels, free of the visits' rounding."""
    coef[:] = 0.0
    transitions[:] = 0.0
    ends[:] = 0.0
    for i in range(len(counts)):
        i0, i1 = offsets[i], offsets[i + 1]
        n, first = i1 - i0, most * i0
        for p in range(1, counts[i]):
            if alpha[i, p] > 0.0:
                by, at = -weights[i] / lam * alpha[i, p], first + p * n
                _add_labels(values, indices, starts, i0, i1, labels, at, labels, first, by,
                            weighted, coef, transitions, ends)  # fmt: skip
                _add_labels(values, indices, starts, i0, i1, labels, first, labels, at, -by,
                            weighted, coef, transitions, ends)  # fmt: skip
    if not has_ends:
        ends[:] = 0.0
