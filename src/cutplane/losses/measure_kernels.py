"""Compiled loops over the examples of a sample that is judged as a whole."""

from __future__ import annotations

import numpy as np
from numba import njit

from cutplane.core.protocols import Vector


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
    positive, negative = np.empty(n_positive), np.empty(n_negative)
    n_positive, n_negative = 0, 0
    for i in range(len(y)):
        if weights[i] > 0.0:
            if y[i] > 0.0:
                positive[n_positive] = scores[i]
                n_positive += 1
            else:
                negative[n_negative] = -scores[i]
                n_negative += 1
    return positive, negative


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
