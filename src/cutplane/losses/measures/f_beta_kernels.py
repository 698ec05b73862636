"""The worst labeling for the F-measure, and its minimum over an intercept, from sorted margins.

With ``u`` missed positives, ``b`` flagged negatives and ``a = P - u``:

    Delta(u, b) = 1 - (1 + beta^2) a / (a + b + beta^2 P)

For a given ``u`` it is concave in ``b``, and so is the sum of the ``b`` largest scores of
negatives: the best ``b`` is where another negative no longer pays. As ``u`` grows this ``b`` first
grows and then falls (docs/train-for-a-measure.md proves it), so walking from the last ``b`` to the
next one takes a number of steps that is linear in the sample, all ``u`` together.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit

# Margins of positives and of negatives, increasing, and the sums of the first 0, 1, ... of each.
SortedMargins: TypeAlias = tuple[Vector, Vector, Vector, Vector]

_MOST_TRIALS = 200
_ROUNDING = 16.0 * np.finfo(np.float64).eps


@njit(cache=True, nogil=True)
def worst_flips(margins: SortedMargins, beta2: float, offset: float) -> tuple[float, int, int]:
    """Return the loss of scores plus ``offset``, and how many are missed and flagged at it."""
    positive, negative, positive_sums, negative_sums = margins
    n_positive, n_negative = len(positive), len(negative)
    scale = max(n_positive, 1)
    largest, missed, flagged = -np.inf, 0, 0
    b = 0
    for u in range(n_positive + 1):
        a = n_positive - u
        base = a + beta2 * n_positive
        while b < n_negative and scale * _rise(a, base + b, beta2) > negative[b] - offset:
            b += 1
        while b > 0 and scale * _rise(a, base + b - 1, beta2) < negative[b - 1] - offset:
            b -= 1
        delta = (b + beta2 * u) / (base + b) if base + b > 0.0 else 0.0
        value = delta - (positive_sums[u] + negative_sums[b] + offset * (u - b)) / scale
        if value > largest:
            largest, missed, flagged = value, u, b
    return largest, missed, flagged


@njit(cache=True, nogil=True)
def _rise(a: int, size: float, beta2: float) -> float:
    """Return the rise of Delta by one more flagged negative; ``size`` is a + b + beta^2 P."""
    if size == 0.0:
        return 1.0  # without any positives: from nothing predicted to only mistakes
    return (1.0 + beta2) * a / (size * (size + 1.0))


@njit(cache=True, nogil=True)
def _line(margins: SortedMargins, beta2: float, labeling: tuple[int, int]) -> tuple[float, float]:
    """Return height at offset zero and slope of a labeling's line, as a function of the offset."""
    _, _, positive_sums, negative_sums = margins
    u, b = labeling
    n_positive = len(positive_sums) - 1
    scale = max(n_positive, 1)
    size = n_positive - u + b + beta2 * n_positive
    delta = (b + beta2 * u) / size if size > 0.0 else 0.0
    return delta - (positive_sums[u] + negative_sums[b]) / scale, (b - u) / scale


@njit(cache=True, nogil=True)
def minimize_over_offset(
    margins: SortedMargins, beta2: float
) -> tuple[float, float, int, int, int, int]:
    """Minimize over the offset by cutting planes in one dimension; exact, as all parts are lines.

    Returns the best offset, the loss there, and two labelings whose lines meet there: one that
    falls with the offset or is level, and one that rises or is level. Where an interval of offsets
    is best, its middle.
    """
    left, right = (len(margins[0]), 0), (0, len(margins[1]))  # the lines far out on both sides
    lo, hi, pull_lo, pull_hi = -np.inf, np.inf, 0.0, 0.0
    offset, level, moved_lo = 0.0, False, False
    value, u, b = worst_flips(margins, beta2, offset)
    best_offset, best = offset, value
    for trial in range(_MOST_TRIALS):
        if b == u:
            level = True
            break
        if b < u:
            left, lo, pull_lo = (u, b), offset, float(u - b)
            pull_hi *= 0.5 if moved_lo else 1.0
            moved_lo = True
        else:
            right, hi, pull_hi = (u, b), offset, float(b - u)
            pull_lo *= 1.0 if moved_lo else 0.5
            moved_lo = False
        h_left, s_left = _line(margins, beta2, left)
        h_right, s_right = _line(margins, beta2, right)
        if s_left == 0.0 or s_right == 0.0:  # one class only: the loss falls to zero at the end
            crossing = (-h_left / s_left) if s_left < 0.0 else (-h_right / s_right)
        else:
            crossing = (h_left - h_right) / (s_right - s_left)
        if crossing <= lo or crossing >= hi:
            break
        model = h_left + s_left * crossing
        size = abs(h_left) + abs(s_left * crossing) + abs(h_right) + abs(s_right * crossing)
        # With many examples the loss is nearly smooth, and interpolating its slope is fastest (with
        # the pull of an end that stays halved each time, else it would stay for long). The search
        # ends where the crossing of the lines is the minimum, so every fourth trial looks there.
        offset = lo + (hi - lo) * pull_lo / (pull_lo + pull_hi)
        interpolates = trial % 4 != 3 and lo < offset < hi
        if not interpolates:
            offset = crossing
        value, u, b = worst_flips(margins, beta2, offset)
        if value < best:
            best_offset, best = offset, value
        if not interpolates and value <= model + _ROUNDING * size:
            level = b == u
            break
    if not level:
        return best_offset, best, left[0], left[1], right[0], right[1]

    ends = np.empty(2)
    for side in range(2):
        line = left if side == 0 else right
        end = np.nan
        for _ in range(_MOST_TRIALS):
            height, slope = _line(margins, beta2, line)
            if slope == 0.0:  # level all the way
                break
            crossing = (value - height) / slope
            if crossing == end:
                break
            end = crossing
            there, missed, flagged = worst_flips(margins, beta2, end)
            tolerance = _ROUNDING * (abs(height) + abs(slope * end) + abs(value))
            if there <= value + tolerance or (flagged < missed) != (side == 0):
                break
            line = (missed, flagged)
        ends[side] = end
    if np.isnan(ends[0]):
        ends[0] = ends[1]
    if np.isnan(ends[1]):
        ends[1] = ends[0]
    offset = ends[0] + 0.5 * (ends[1] - ends[0])
    value = worst_flips(margins, beta2, offset)[0]
    return offset, value, u, b, u, b
