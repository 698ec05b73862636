"""Compiled loops over the examples of a sample that is judged as a whole."""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit


@njit(cache=True, nogil=True)
def split_margins(y: Vector, scores: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the margins ``y*z`` of positives and of negatives, without examples of no weight."""
    n_positive, n_negative = 0, 0
    for i in range(len(y)):
        if weights[i] > 0.0:
            if y[i] > 0.0:
                n_positive += 1
            else:
                n_negative += 1
    # Each margin is written to both, and counts only where it belongs: no branch to be mistaken.
    positive, negative = np.empty(n_positive + 1), np.empty(n_negative + 1)
    n_positive, n_negative = 0, 0
    for i in range(len(y)):
        positive[n_positive] = scores[i]
        negative[n_negative] = -scores[i]
        used = weights[i] > 0.0
        n_positive += used and y[i] > 0.0
        n_negative += used and y[i] < 0.0
    return positive[:n_positive], negative[:n_negative]


@njit(cache=True, nogil=True)
def add_flips(
    y: Vector,
    scores: Vector,
    weights: Vector,
    thresholds: Vector,
    ties: Vector,
    amounts: Vector,
    out: Vector,
) -> None:
    """Add ``-y * amount`` where a labeling differs from the true one.

    It differs where the margin is below the threshold of the example's side (0: positives, 1:
    negatives), and in the first so many examples whose margin equals it.
    """
    left = ties.copy()
    for i in range(len(y)):
        if weights[i] > 0.0:
            side = 0 if y[i] > 0.0 else 1
            margin = y[i] * scores[i]
            flipped = margin < thresholds[side]
            if margin == thresholds[side] and left[side] > 0.0:
                left[side] -= 1.0
                flipped = True
            if flipped:
                out[i] -= y[i] * amounts[side]


@njit(cache=True, nogil=True)
def sums_below(margins: Vector, changes: Vector, limit: float) -> tuple[float, float, int]:
    """Return sums of changes, of margins below a limit and equal to it, and how many are equal."""
    below, tied, n_tied = 0.0, 0.0, 0
    for i in range(len(margins)):
        below += changes[i] if margins[i] < limit else 0.0
        if margins[i] == limit:
            tied += changes[i]
            n_tied += 1
    return below, tied, n_tied


@njit(cache=True, nogil=True)
def best_exchanges(
    missed: Vector, flagged: Vector, missed_sum: float, flagged_sum: float, first: Vector
) -> tuple[float, int]:
    """Return the largest of ``t * (1 - mean missed - mean flagged)`` and its ``t``, from 0 on.

    The means are over so many margins as ``first`` says, whose sums are given, and the first ``t``
    of those that follow, which increase.
    """
    largest, exchanges = 0.0, 0
    for t in range(1, min(len(missed), len(flagged)) + 1):
        missed_sum += missed[t - 1]
        flagged_sum += flagged[t - 1]
        gain = t * (1.0 - missed_sum / (first[0] + t) - flagged_sum / (first[1] + t))
        if gain > largest:
            largest, exchanges = gain, t
    return largest, exchanges
