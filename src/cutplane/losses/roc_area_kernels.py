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
def index_cells(values: Vector, starts: NDArray[np.int64]) -> None:
    """Write how many of the increasing ``values`` lie before each equal cell of their range.

    A binary search then has only the values of one cell to look at: mostly one or two.
    """
    n_cells = len(starts) - 1
    low, scale = values[0], _cells_per_unit(values, n_cells)
    i = 0
    for cell in range(n_cells):
        while i < len(values) and _cell(values[i], low, scale, n_cells) < cell:
            i += 1
        starts[cell] = i
    starts[n_cells] = len(values)


@njit(cache=True, nogil=True)
def _cells_per_unit(values: Vector, n_cells: int) -> float:
    width = values[-1] - values[0]
    scale = n_cells / width if width > 0.0 else 0.0
    return scale if np.isfinite(scale) else 0.0


@njit(cache=True, nogil=True)
def _cell(value: float, low: float, scale: float, n_cells: int) -> int:
    """Return the cell of a value. It never decreases with the value, also when rounded."""
    return int(min((value - low) * scale, n_cells - 1.0))


@njit(cache=True, nogil=True)
def _count(
    values: Vector, starts: NDArray[np.int64], scale: float, value: float, equal: bool
) -> int:
    """Return how many of the increasing ``values`` are below ``value``, or also ``equal`` to it."""
    low = values[0]
    if value < low:
        return 0
    cell = _cell(value, low, scale, len(starts) - 1)
    first, last = int(starts[cell]), int(starts[cell + 1])
    while first < last:
        middle = (first + last) // 2
        if values[middle] < value or (equal and values[middle] == value):
            first = middle + 1
        else:
            last = middle
    return first


@njit(cache=True, nogil=True)
def pair_slopes(
    y: Vector,
    scores: Vector,
    weights: Vector,
    bars: Vector,
    others: Vector,
    below: Vector,
    above: Vector,
    bar_starts: NDArray[np.int64],
    other_starts: NDArray[np.int64],
    out: Vector,
) -> None:
    """Write each example's weight times that of its partners in pairs that count.

    ``bars`` and ``others`` are those of the whole sample, with `index_cells` of both.
    """
    bar_scale = _cells_per_unit(bars, len(bar_starts) - 1)
    other_scale = _cells_per_unit(others, len(other_starts) - 1)
    for i in range(len(y)):
        if not weights[i] > 0.0:
            out[i] = 0.0
        elif y[i] > 0.0:
            out[i] = (
                -weights[i]
                * above[_count(others, other_starts, other_scale, scores[i] - 1.0, True)]
            )
        else:
            out[i] = weights[i] * below[_count(bars, bar_starts, bar_scale, scores[i], False)]
