"""Sums over all pairs of a positive and a negative, by one walk through both in order.

A pair counts if the positive's score minus one, its ``bar``, is below the negative's score. The
same comparison decides for value and slopes of both, so that they belong to the same set of pairs
even where rounding makes ties.
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
    ``above[j]`` that of all but the first ``j`` scores. Each step of the walk adds the length of a
    gap, for all pairs that span it: no term is negative, so nothing cancels.
    """
    total = 0.0
    i, j, n, m = 0, 0, len(bars), len(scores)
    place = 0.0
    while j < m:
        here = bars[i] if i < n and bars[i] <= scores[j] else scores[j]
        total += below[i] * above[j] * (here - place) if i > 0 else 0.0
        place = here
        if i < n and bars[i] <= scores[j]:
            i += 1
        else:
            j += 1
    return total


@njit(cache=True, nogil=True)
def add_pair_slopes(
    bars: Vector,
    scores: Vector,
    bar_order: NDArray[np.int64],
    score_order: NDArray[np.int64],
    below: Vector,
    above: Vector,
    out: Vector,
) -> None:
    """Add to the slopes of both sides the weight of the partners in pairs that count.

    ``out[bar_order[i]]`` belongs to ``bars[i]``, ``out[score_order[j]]`` to ``scores[j]``.
    """
    j = 0
    for i in range(len(bars)):
        while j < len(scores) and scores[j] <= bars[i]:
            j += 1
        out[bar_order[i]] = -above[j]
    i = 0
    for j in range(len(scores)):
        while i < len(bars) and bars[i] < scores[j]:
            i += 1
        out[score_order[j]] = below[i]
