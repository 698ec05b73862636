"""Sums over all pairs of a positive and a negative, from both in order.

A pair counts if the positive's score minus one, its bar, is below the negative's score. The same
comparison decides for value and slopes of both, so that they belong to the same set of pairs even
where rounding makes ties.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cutplane.core.protocols import Vector


@njit(cache=True, nogil=True)
def sum_over_pairs(bars: Vector, scores: Vector, below: Vector, above: Vector) -> float:
    """Return the weighted sum of ``score - bar`` over pairs with ``bar < score``.

    ``bars`` and ``scores`` increase, ``below[i]`` is the weight of the first ``i`` bars,
    ``above[j]`` that of all but the first ``j`` scores. The walk through both adds the length of
    each gap, for all pairs that span it: no term is negative, so nothing cancels.
    """
    n, m = len(bars), len(scores)
    total, place = 0.0, min(bars[0], scores[0])
    i, j = 0, 0
    while i < n and j < m:
        is_bar = bars[i] <= scores[j]
        here = bars[i] if is_bar else scores[j]
        total += below[i] * above[j] * (here - place)
        place = here
        i += is_bar
        j += not is_bar
    while j < m:
        total += below[n] * above[j] * (scores[j] - place)
        place = scores[j]
        j += 1
    return total


@njit(cache=True, nogil=True)
def bar_slopes(
    bars: Vector,
    scores: Vector,
    where: NDArray[np.int64],
    weights: Vector,
    above: Vector,
    out: Vector,
) -> None:
    """Write minus the weight of the pairs in which a bar counts; ``bars[i]`` is ``where[i]``'s."""
    j = 0
    for i in range(len(bars)):
        while j < len(scores) and scores[j] <= bars[i]:
            j += 1
        out[where[i]] = -weights[where[i]] * above[j]


@njit(cache=True, nogil=True)
def score_slopes(
    bars: Vector,
    scores: Vector,
    where: NDArray[np.int64],
    weights: Vector,
    below: Vector,
    out: Vector,
) -> float:
    """Write the weight of the pairs in which a score counts; ``scores[j]`` is ``where[j]``'s.

    Returns the weight of all pairs that count.
    """
    i, total = 0, 0.0
    for j in range(len(scores)):
        while i < len(bars) and bars[i] < scores[j]:
            i += 1
        out[where[j]] = weights[where[j]] * below[i]
        total += out[where[j]]
    return total
