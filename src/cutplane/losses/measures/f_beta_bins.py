"""Margins in bins: which of them the worst labeling for the F-measure can depend on.

A labeling flips the smallest margins of either side. Bins of equal width say how many margins lie
below their edges, and what these sum to: so the labelings that flip whole bins are known exactly,
and the worst of them is a lower bound of the loss. An upper bound takes the margins of each bin to
its two edges, so that their sum stays the same: then the sum of the ``b`` smallest margins is
nowhere larger than it was, and straight from one edge to the next. Where ``S`` is straight in ``u``

    max_b  Delta(u, b) - S(u) - S(b)

is convex in ``u``, because Delta is; so this bound is largest at an edge. Only bins where it is not
below the lower bound can hold the number of missed positives. They are few, and only their margins
have to be sorted, with those of negatives that can be flagged together with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.losses.measures.f_beta_kernels import Counts

# What rounding can move a bound by, as a share of the largest sum of margins.
_ROUNDING = 1e-12


class Bins(NamedTuple):
    """Margins of one side in bins of equal width.

    ``counts[k]`` margins are in bins before ``k``, and sum to ``sums[k]``; ``edges[k]`` is where
    bin ``k`` begins. If margins are taken to the edges of their bins, ``moved[k]`` of them are at
    edges before ``k``, and sum to ``moved_sums[k]``.
    """

    edges: Vector
    counts: Counts
    sums: Vector
    moved: Vector
    moved_sums: Vector


@njit(cache=True, nogil=True)
def put_into_bins(
    margins: Vector, low: float, per_unit: float, n_bins: int
) -> tuple[Counts, Vector]:
    """Return numbers and sums of the margins before each bin, from a lowest one on."""
    counts, sums = np.zeros(n_bins + 1, dtype=np.int64), np.zeros(n_bins + 1)
    for i in range(len(margins)):
        k = min(int((margins[i] - low) * per_unit), n_bins - 1)
        counts[k + 1] += 1
        sums[k + 1] += margins[i]
    for k in range(n_bins):
        counts[k + 1] += counts[k]
        sums[k + 1] += sums[k]
    return counts, sums


@njit(cache=True, nogil=True)
def margins_inside(
    margins: Vector, low: float, per_unit: float, first: float, end: float, size: int
) -> Vector:
    """Return the margins of some bins, from the first to the one before the end, ``size`` many."""
    found = np.empty(size + 1)
    n = 0
    for i in range(len(margins)):
        k = (margins[i] - low) * per_unit
        found[n] = margins[i]  # counts only if it is inside: no branch to be mistaken
        n += k >= first and k < end
    return found[:size]


@njit(cache=True, nogil=True)
def moved_to_edges(edges: Vector, counts: Counts, sums: Vector) -> tuple[Vector, Vector]:
    """Return how many margins are at edges before each, and their sums, if all are moved there."""
    moved, moved_sums = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
    for k in range(len(edges) - 1):
        size, width = counts[k + 1] - counts[k], edges[k + 1] - edges[k]
        right = (sums[k + 1] - sums[k] - size * edges[k]) / width
        right = min(max(right, 0.0), float(size))
        moved[k + 1] += size - right
        moved[k + 2] += right
    for k in range(len(edges)):
        moved_sums[k + 1] = moved_sums[k] + moved[k + 1] * edges[k]
        moved[k + 1] += moved[k]
    return moved, moved_sums


@njit(cache=True, nogil=True)
def open_bins(
    positive: Bins, negative: Bins, beta2: float, offset: float, value: float
) -> tuple[int, int, int, int]:
    """Return which bins can hold the end of the missed, and of the flagged, in a worst labeling.

    ``value`` is a lower bound of the loss of scores plus ``offset``; there are positives. For
    positives and for negatives: the first bin, and the one after the last.
    """
    n_bins, n_positive = len(positive.edges) - 1, positive.counts[-1]
    scale = float(n_positive)
    largest = max(abs(positive.edges[0]), abs(positive.edges[-1]))
    largest = max(largest, max(abs(negative.edges[0]), abs(negative.edges[-1]))) + abs(offset)
    tolerance = _ROUNDING * (1.0 + largest * (n_positive + negative.counts[-1]) / scale)
    edges, before = negative.edges, negative.moved
    first, end, j = n_bins, 0, 0
    for corner in range(n_bins + 2):
        u = positive.moved[corner]
        a = max(n_positive - u, 0.0)
        base, gain = a + beta2 * n_positive, scale * (1.0 + beta2) * a
        # Another negative pays as long as margin * (base + b)^2 is below the gain.
        while j <= n_bins and (edges[j] - offset) * (base + before[j + 1]) ** 2 < gain:
            j += 1
        while j > 0 and (edges[j - 1] - offset) * (base + before[j]) ** 2 > gain:
            j -= 1
        b, flagged_sum = before[j], negative.moved_sums[j]
        if j <= n_bins and edges[j] > offset:
            more = np.sqrt(gain / (edges[j] - offset)) - base - b
            more = min(max(more, 0.0), before[j + 1] - b)
            b, flagged_sum = b + more, flagged_sum + more * edges[j]
        sums = positive.moved_sums[corner] + flagged_sum + offset * (u - b)
        if (b + beta2 * u) / (base + b) - sums / scale >= value - tolerance:
            # Between this corner and its neighbors; it is inside the bin before it.
            first, end = min(first, corner - 2), max(end, corner + 1)
    first, end = max(first, 0), min(end, n_bins)
    fewest, most = n_positive - positive.counts[end], n_positive - positive.counts[first]
    begin, stop = _flagged_with(negative, beta2, offset, (n_positive, fewest, most))
    return first, end, begin, stop


@njit(cache=True, nogil=True)
def _flagged_with(
    negative: Bins, beta2: float, offset: float, found: tuple[int, int, int]
) -> tuple[int, int]:
    """Return the bins where flagging stops to pay, if between so many positives are found."""
    n_positive, fewest, most = found
    n_bins, edges = len(negative.edges) - 1, negative.edges
    slack = _ROUNDING * (max(abs(edges[0]), abs(edges[-1])) + abs(offset))
    gain = n_positive * (1.0 + beta2)
    begin, stop = 0, n_bins
    while begin < n_bins:
        s = negative.counts[begin + 1] - 1 + beta2 * n_positive
        least = gain * min(_rise(float(fewest), s), _rise(float(most), s))
        if negative.counts[begin + 1] > 0 and least <= edges[begin + 1] - offset + slack:
            break
        begin += 1
    while stop > begin:
        s = negative.counts[stop - 1] + beta2 * n_positive
        peak = min(max(np.sqrt(s * (s + 1.0)), float(fewest)), float(most))
        if gain * _rise(peak, s) > edges[stop - 1] - offset - slack:
            break
        stop -= 1
    return begin, stop


@njit(cache=True, nogil=True)
def _rise(a: float, s: float) -> float:
    """Return the rise of Delta by one more flagged negative, over ``1 + beta^2``."""
    return a / ((a + s) * (a + s + 1.0)) if a > 0.0 else 0.0
