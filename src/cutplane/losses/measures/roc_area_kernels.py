"""Sums over all pairs of a positive and a negative, from both in order.

A pair counts if the positive's score minus one, its bar, is below the negative's score. The same
comparison decides for value and slopes of both, so that they belong to the same set of pairs even
where rounding makes ties.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit

Side: TypeAlias = tuple[Vector, NDArray[np.int64], Vector]
"""Bars or scores, increasing, whose they are, and sums of weights as in `sum_over_pairs`."""


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
def count_partners(positive: Side, negative: Side, out: Vector) -> None:
    """Write the weight of each example's partners in pairs that count, negative for bars.

    ``bars[i]`` belongs to ``out[bar_where[i]]``, ``scores[j]`` to ``out[score_where[j]]``.
    """
    (bars, bar_where, below), (scores, score_where, above) = positive, negative
    n, m = len(bars), len(scores)
    i, j = 0, 0
    while i < n and j < m:
        is_bar = bars[i] < scores[j]
        out[bar_where[i] if is_bar else score_where[j]] = -above[j] if is_bar else below[i]
        i += is_bar
        j += not is_bar
    for last in range(i, n):
        out[bar_where[last]] = -above[m]
    for last in range(j, m):
        out[score_where[last]] = below[n]


@njit(cache=True, nogil=True)
def keys_of_side(y: Vector, scores: Vector, weights: Vector, label: float) -> NDArray[np.int64]:
    """Return whole numbers in the order of the label's scores, but for the last bits: the indices.

    Sorting numbers is several times faster than finding an order, and so the order comes with them.
    """
    n = 0
    for i in range(len(y)):
        n += y[i] == label and weights[i] > 0.0
    bits, keys = scores.view(np.int64), np.empty(n + 1, dtype=np.int64)
    kept = ~_index_mask(len(y))
    n = 0
    for i in range(len(y)):
        # Of negative numbers the larger has the smaller bits.
        ordered = bits[i] ^ ((bits[i] >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
        keys[n] = (ordered & kept) | i
        n += y[i] == label and weights[i] > 0.0
    return keys[:n]


@njit(cache=True, nogil=True)
def places_of_keys(keys: NDArray[np.int64], scores: Vector, shift: float) -> Vector:
    """Return the scores minus ``shift`` of sorted keys, which become the indices that they hold."""
    mask = _index_mask(len(scores))
    places = np.empty(len(keys))
    for i in range(len(keys)):
        keys[i] &= mask
        places[i] = scores[keys[i]] - shift
    return places


@njit(cache=True, nogil=True)
def _index_mask(n_samples: int) -> np.int64:
    mask = np.int64(1)
    while mask < n_samples:
        mask = 2 * mask + 1
    return mask


@njit(cache=True, nogil=True)
def repair_order(places: Vector, order: NDArray[np.int64]) -> bool:
    """Sort places that are nearly sorted, and their order with them; false if it was given up."""
    left = 8 * len(places)
    for i in range(1, len(places)):
        place, index, j = places[i], order[i], i
        while j > 0 and places[j - 1] > place and left >= 0:
            places[j], order[j] = places[j - 1], order[j - 1]
            j -= 1
            left -= 1
        places[j], order[j] = place, index
        if left < 0:
            return False
    return True
