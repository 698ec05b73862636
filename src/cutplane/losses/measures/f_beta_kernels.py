"""The worst labeling for the F-measure, and its minimum over an intercept.

With ``u`` missed positives, ``b`` flagged negatives and ``a = P - u``:

    Delta(u, b) = 1 - (1 + beta^2) a / (a + b + beta^2 P)

For a given ``u`` it is concave in ``b``, and so is the sum of the ``b`` largest scores of
negatives: the best ``b`` is where another negative no longer pays. As ``u`` grows this ``b`` first
grows and then falls (docs/train-for-a-measure.md proves it), so walking from the last ``b`` to the
next one takes a number of steps that is linear in the numbers to choose from, all ``u`` together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit

Counts = NDArray[np.int64]

_MOST_TRIALS = 200
_ROUNDING = 16.0 * np.finfo(np.float64).eps


class Choices(NamedTuple):
    """Labelings to choose from: so many positives missed, so many negatives flagged.

    Both numbers increase. With each comes the sum of the margins of those that are flipped;
    ``margins`` are the mean ones of the negatives between a number and the next.
    """

    missed: Counts
    missed_sums: Vector
    flagged: Counts
    flagged_sums: Vector
    margins: Vector
    n_positive: int


@njit(cache=True, nogil=True)
def worst_flips(choices: Choices, beta2: float, offset: float) -> tuple[float, int, int]:
    """Return the loss of scores plus ``offset``, and how many are missed and flagged at it."""
    missed, missed_sums, flagged, flagged_sums, margins, n_positive = choices
    scale = max(n_positive, 1)
    largest, worst_missed, worst_flagged = -np.inf, 0, 0
    j = 0
    for i in range(len(missed)):
        u = missed[i]
        a = n_positive - u
        base = a + beta2 * n_positive
        gain = scale * (1.0 + beta2) * a
        while j < len(margins) and _pays(gain, base, flagged, j, margins[j] - offset, scale) > 0.0:
            j += 1
        while j > 0 and _pays(gain, base, flagged, j - 1, margins[j - 1] - offset, scale) < 0.0:
            j -= 1
        b = flagged[j]
        delta = (b + beta2 * u) / (base + b) if base + b > 0.0 else 0.0
        value = delta - (missed_sums[i] + flagged_sums[j] + offset * (u - b)) / scale
        if value > largest:
            largest, worst_missed, worst_flagged = value, u, b
    return largest, worst_missed, worst_flagged


@njit(cache=True, nogil=True)
def _pays(gain: float, base: float, flagged: Counts, j: int, margin: float, scale: int) -> float:
    """Return whether flagging the next negatives raises the loss: above zero if so."""
    size: float = base + flagged[j]
    more: int = flagged[j + 1] - flagged[j]
    if size == 0.0:  # without any positives: from nothing predicted to only mistakes
        return scale - margin * more
    return gain - margin * size * (size + more)


@njit(cache=True, nogil=True)
def _line(choices: Choices, beta2: float, labeling: tuple[int, int]) -> tuple[float, float]:
    """Return height at offset zero and slope of a labeling's line, as a function of the offset."""
    u, b = labeling
    n_positive = choices.n_positive
    scale = max(n_positive, 1)
    size = n_positive - u + b + beta2 * n_positive
    delta = (b + beta2 * u) / size if size > 0.0 else 0.0
    i, j = np.searchsorted(choices.missed, u), np.searchsorted(choices.flagged, b)
    return delta - (choices.missed_sums[i] + choices.flagged_sums[j]) / scale, (b - u) / scale


class Minimum(NamedTuple):
    """The least loss over offsets, as `minimize_over_offset` returns it.

    ``left`` and ``right`` are two labelings whose lines meet there, missed and flagged: one that
    falls with the offset or is level, and one that rises or is level. Offsets from ``begin`` to
    ``end`` are best, and ``offset`` is in the middle.
    """

    offset: float
    value: float
    left: tuple[int, int]
    right: tuple[int, int]
    begin: float
    end: float


@njit(cache=True, nogil=True)
def minimize_over_offset(
    choices: Choices, beta2: float, start: float
) -> tuple[float, float, tuple[int, int], tuple[int, int], float, float]:
    """Minimize over the offset by cutting planes in one dimension; exact, as all parts are lines.

    There must be a labeling that falls with the offset or is level, and one that rises or is level.
    """
    left = (choices.missed[-1], choices.flagged[0])  # the lines far out on both sides
    right = (choices.missed[0], choices.flagged[-1])
    lo, hi, pull_lo, pull_hi = -np.inf, np.inf, 0.0, 0.0
    offset, level, moved_lo = start, False, False
    value, u, b = worst_flips(choices, beta2, offset)
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
        h_left, s_left = _line(choices, beta2, left)
        h_right, s_right = _line(choices, beta2, right)
        if s_left == s_right:
            break
        # With one class only, the loss falls to the level line of no mistakes at one end.
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
        value, u, b = worst_flips(choices, beta2, offset)
        if value < best:
            best_offset, best = offset, value
        if not interpolates and value <= model + _ROUNDING * size:
            level = b == u
            break
    if not level:
        return best_offset, best, left, right, best_offset, best_offset

    ends = np.empty(2)
    for side in range(2):
        line = left if side == 0 else right
        end = np.nan
        for _ in range(_MOST_TRIALS):
            height, slope = _line(choices, beta2, line)
            if slope == 0.0:  # level all the way
                break
            crossing = (value - height) / slope
            if crossing == end:
                break
            end = crossing
            there, missed, flagged = worst_flips(choices, beta2, end)
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
    value = worst_flips(choices, beta2, offset)[0]
    return offset, value, (u, b), (u, b), ends[0], ends[1]
