"""F-measures as losses: the worst counts of mistakes, found by bins.

The worst labeling for the F-measure, and its minimum over an intercept.

With ``u`` missed positives, ``b`` flagged negatives and ``a = P - u``:

    Delta(u, b) = 1 - (1 + beta^2) a / (a + b + beta^2 P)

For a given ``u`` it is concave in ``b``, and so is the sum of the ``b`` largest scores of
negatives: the best ``b`` is where another negative no longer pays. As ``u`` grows this ``b`` first
grows and then falls (docs/train-for-a-measure.md proves it), so walking from the last ``b`` to the
next one takes a number of steps that is linear in the numbers to choose from, all ``u`` together.

Margins in bins: which of them the worst labeling for the F-measure can depend on.

A labeling flips the smallest margins of either side. Bins of equal width say how many margins lie
below their edges, and what these sum to: so the labelings that flip whole bins are known exactly,
and the worst of them is a lower bound of the loss. An upper bound takes the margins of each bin to
its two edges, so that their sum stays the same: then the sum of the ``b`` smallest margins is
nowhere larger than it was, and straight from one edge to the next. Where ``S`` is straight in ``u``

    max_b  Delta(u, b) - S(u) - S(b)

is convex in ``u``, because Delta is; so this bound is largest at an edge. Only bins where it is not
below the lower bound can hold the number of missed positives. They are few, and only their margins
have to be sorted, with those of negatives that can be flagged together with them.

The search for the worst labeling of a sample: bins first, then only what they leave open.

The F-measure of the whole sample, as a convex upper bound.

Delta = 1 - F_beta,    F_beta = (1 + beta^2) precision * recall / (beta^2 precision + recall)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector, positive
from cutplane.compute.compiled import njit
from cutplane.compute.threads import map_parts
from cutplane.core.protocols import Quadratic
from cutplane.core.search import minimize_roughly
from cutplane.losses.loss import AtBestOffset, Ray, Tangent
from cutplane.models.measures.measures import (
    CountingMeasure,
    Flips,
    Limit,
    Sides,
    add_flips,
    count_positives,
    limits_of,
    sums_below,
)

Counts = NDArray[np.int64]

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
    for trial in range(200):
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
        for _ in range(200):
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


# What rounding can move a bound by, as a share of the largest sum of margins.
_ROUNDING_OF_BINS = 1e-12


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
    tolerance = _ROUNDING_OF_BINS * (1.0 + largest * (n_positive + negative.counts[-1]) / scale)
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
    slack = _ROUNDING_OF_BINS * (max(abs(edges[0]), abs(edges[-1])) + abs(offset))
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


# Bins of positives and bins of negatives: the first one, and the one after the last.
Region = tuple[tuple[int, int], tuple[int, int]]


class _Side(NamedTuple):
    """The margins of one side, and how they lie in bins."""

    margins: Vector
    low: float
    per_unit: float
    bins: Bins

    @classmethod
    def of(cls, margins: Vector, n_bins: int) -> _Side:
        """Put margins that are not all the same into bins."""
        low, high = float(margins.min()), float(margins.max())
        per_unit = n_bins / (high - low)
        counts, sums = put_into_bins(margins, low, per_unit, n_bins)
        edges = low + np.arange(n_bins + 1) / per_unit
        bins = Bins(edges, counts, sums, *moved_to_edges(edges, counts, sums))
        return cls(margins, low, per_unit, bins)

    def sorted_inside(self, first: int, end: int) -> tuple[int, float, Vector]:
        """Return number and sum of the margins before some bins, and those inside, increasing."""
        counts = self.bins.counts
        before, size = int(counts[first]), int(counts[end])
        last = float(end) if end < len(counts) - 1 else np.inf
        inside = margins_inside(
            self.margins, self.low, self.per_unit, float(first), last, size - before
        )
        inside.sort()
        return before, float(self.bins.sums[first]), inside


class MarginSearch:
    """The margins of both sides of a sample, sorted as far as was needed.

    Without bins, they are sorted all.
    """

    few = 1 << 13  # fewer examples are sorted at once
    # With 581,012 examples, of which half are positive, 1,024 to 4,096 bins take the same time.
    n_bins = 2048

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        n_positive, n_negative = map(len, sides)
        self._parts: list[_Side] = []
        self._region: Region | None = None
        if (
            n_positive + n_negative >= self.few
            and min(n_positive, n_negative) > 0
            and all(0.0 < side.max() - side.min() < np.inf for side in sides)
        ):
            self._parts = map_parts(
                lambda side: _Side.of(side, self.n_bins), sides, n_positive + n_negative
            )
        else:
            sides.sort()
            self._inside = [(0, 0.0, margins) for margins in sides]

    def worst(self, beta2: float) -> tuple[float, int, int]:
        """Return the loss, and how many positives are missed and negatives flagged at it."""
        if self._parts:
            value = worst_flips(self._whole_bins(), beta2, 0.0)[0]
            self._look_at(self._open(beta2, 0.0, value))
        found: tuple[float, int, int] = worst_flips(self._choices(), beta2, 0.0)
        return found

    def minimize(self, beta2: float) -> Minimum:
        """Return the least loss over a constant added to all scores."""
        if not self._parts:
            return Minimum(*minimize_over_offset(self._choices(), beta2, 0.0))
        least = Minimum(*minimize_over_offset(self._whole_bins(), beta2, 0.0))
        # What is sorted gives a function that is nowhere above the loss, and the same where no
        # other bin is open. If that is so at the minimizer of the function, it is the loss's too.
        all_bins = (0, self.n_bins), (0, self.n_bins)
        while True:
            wanted = [self._open(beta2, at, least.value) for at in set(least[-2:])]
            known = not self._look_at(*wanted)
            # The two labelings fall and rise, so that a mean of both is level.
            (left_missed, left_flagged), (right_missed, right_flagged) = least.left, least.right
            balances = left_missed >= left_flagged and right_missed <= right_flagged
            if known and (balances or not self._look_at(all_bins)):
                return least
            least = Minimum(*minimize_over_offset(self._choices(), beta2, least.offset))

    def limits(self, missed: int, flagged: int) -> tuple[Limit, Limit]:
        """Return what tells the flipped ones of a labeling from the others."""
        found = [_limit(*part) for part in zip(self._inside, (missed, flagged), strict=True)]
        if found[0] is None or found[1] is None:
            return limits_of(self._sides, Flips(missed, flagged))
        return found[0], found[1]

    def _open(self, beta2: float, offset: float, value: float) -> Region:
        positive, negative = self._parts
        first, end, begin, stop = open_bins(positive.bins, negative.bins, beta2, offset, value)
        return (first, end), (begin, stop)

    def _look_at(self, *regions: Region) -> bool:
        """Sort the margins of some bins, if they are not sorted yet; return whether they were."""
        known = regions if self._region is None else (*regions, self._region)
        sides = zip(*known, strict=True)
        wanted = [(min(b for b, _ in side), max(e for _, e in side)) for side in sides]
        if self._region is not None and list(self._region) == wanted:
            return False
        self._region = wanted[0], wanted[1]
        self._inside = [
            part.sorted_inside(*bins) for part, bins in zip(self._parts, wanted, strict=True)
        ]
        return True

    def _whole_bins(self) -> Choices:
        """Return the labelings that flip whole bins."""
        positive, negative = (part.bins for part in self._parts)
        sizes, means = np.diff(negative.counts), negative.edges[:-1].copy()
        np.divide(np.diff(negative.sums), sizes, out=means, where=sizes > 0)
        return Choices(*positive[1:3], *negative[1:3], means, len(self._sides.positive))

    def _choices(self) -> Choices:
        """Return the labelings that are told apart by what is sorted."""
        (missed, missed_sums), (flagged, flagged_sums) = map(_counted, self._inside)
        margins, n_positive = self._inside[1][2], len(self._sides.positive)
        return Choices(missed, missed_sums, flagged, flagged_sums, margins, n_positive)


def _counted(inside: tuple[int, float, Vector]) -> tuple[Counts, Vector]:
    before, total, margins = inside
    sums = np.empty(len(margins) + 1)
    sums[0] = total
    np.cumsum(margins, out=sums[1:])
    sums[1:] += total
    return np.arange(before, before + len(margins) + 1, dtype=np.int64), sums


def _limit(inside: tuple[int, float, Vector], count: int) -> Limit | None:
    """Return the largest of the ``count`` smallest margins, None if it is not among the sorted."""
    before, _, margins = inside
    if count == 0:
        return Limit(-np.inf, 0)
    if count > before:
        largest = float(margins[count - before - 1])
        equal = count - before - int(np.searchsorted(margins, largest))
        return Limit(largest, equal)
    # All that are before the sorted ones: those below the first of these.
    return Limit(float(margins[0]), 0) if len(margins) else None


class Labeling(NamedTuple):
    """How many are flipped, and which."""

    flips: Flips
    limits: tuple[Limit, Limit]


class FBeta(CountingMeasure):
    """One minus the F-measure of the sample, bounded over all labelings.

    Scores count by ``1 / n_positive``: so ``Delta`` and margins are of the same order.

    Parameters
    ----------
    beta : float
        How much more recall counts than precision. 1 gives the F1 score.
    """

    shown = ("beta",)
    finds_offsets = True

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = positive("beta", beta)
        self._beta2 = self.beta**2

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        value, labeling = self._worst(y, scores, weights)
        return value, self._slopes_of(y, scores, weights, [(1.0, labeling)])

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        return self._worst(y, scores, weights)[0]

    def on_ray(self, y: Vector, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        starts, changes = (Sides.of(y, z, weights) for z in (ray.scores, ray.direction))
        return self._along(starts, changes, step)

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        starts, changes = (Sides.of(y, z, weights) for z in (scores, direction))
        return minimize_roughly(
            lambda step: self._along(starts, changes, step), extra, share=self.search_slack
        )

    def _along(self, starts: Sides, changes: Sides, step: float) -> tuple[float, float]:
        """Return the loss of ``starts + step * changes``, and its derivative by the step."""
        margins = [start + step * change for start, change in zip(starts, changes, strict=True)]
        search = MarginSearch(Sides(*(side.copy() for side in margins)))  # it may sort them
        value, *flips = search.worst(self._beta2)
        slope = 0.0
        for side, change, limit in zip(margins, changes, search.limits(*flips), strict=True):
            below, tied, n_tied = sums_below(side, change, limit.margin)
            # All choices among equal margins are worst labelings, and their mean is one of planes.
            slope -= below + tied * limit.ties / max(n_tied, 1)
        return value, slope / max(len(starts.positive), 1)

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        search = MarginSearch(Sides.of(y, scores, weights))
        least = search.minimize(self._beta2)
        falling, rising = (
            Labeling(Flips(*one), search.limits(*one)) for one in (least.left, least.right)
        )
        # Together they flag as many negatives as they miss positives.
        down = falling.flips.missed - falling.flips.flagged
        up = rising.flips.flagged - rising.flips.missed
        share = down / (down + up) if down + up > 0 else 0.0
        balance = [(1.0 - share, falling), (share, rising)]
        return AtBestOffset(least.offset, least.value, balance)

    def slopes_at(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Vector:
        """Return the slopes of the tangent alone."""
        return self.tangent(y, scores, weights, at).slopes

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at the best constant, that sum to zero."""
        best = self.minimize_offset(y, scores, weights)
        return self.tangent(y, scores, weights, best).slopes

    def tangent(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the mean of one or two labelings' planes; the offset is that of their Deltas."""
        parts: list[tuple[float, Labeling]] = at.witness
        if at.offset is None:
            parts = [(1.0, self._worst(y, scores, weights)[1])]
        slopes = self._slopes_of(y, scores, weights, parts)
        n_positive = count_positives(y, weights)
        deltas = [share * self.delta(n_positive, *labeling.flips) for share, labeling in parts]
        return Tangent(slopes, float(sum(deltas)))

    def delta(self, n_positive: int, missed: int, flagged: int) -> float:
        """Return one minus the F-measure of a labeling; zero if there is nothing to find."""
        found = n_positive - missed
        size = found + flagged + self._beta2 * n_positive
        return (flagged + self._beta2 * missed) / size if size > 0.0 else 0.0

    def _worst(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Labeling]:
        search = MarginSearch(Sides.of(y, scores, weights))
        value, *flips = search.worst(self._beta2)
        return value, Labeling(Flips(*flips), search.limits(*flips))

    def _slopes_of(
        self, y: Vector, scores: Vector, weights: Vector, parts: list[tuple[float, Labeling]]
    ) -> Vector:
        slopes = np.zeros_like(scores)
        scale = max(count_positives(y, weights), 1)
        for share, labeling in parts:
            if share > 0.0:
                limits, amounts = np.array(labeling.limits), np.full(2, share / scale)
                add_flips(y, scores, weights, limits, amounts, slopes)
        return slopes


def f1() -> FBeta:
    """Return the loss for the F1 score."""
    return FBeta(1.0)
