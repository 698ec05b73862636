"""The search for the worst labeling of a sample: bins first, then only what they leave open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.losses.measures.error_rate import Flips, Limit, Sides, for_both, limits_of
from cutplane.losses.measures.f_beta_bins import (
    Bins,
    margins_inside,
    moved_to_edges,
    open_bins,
    put_into_bins,
)
from cutplane.losses.measures.f_beta_kernels import (
    Choices,
    Counts,
    Minimum,
    minimize_over_offset,
    worst_flips,
)

# Fewer examples are sorted at once.
_FEW = 1 << 13
# With 581,012 examples, of which half are positive, 1,024 to 4,096 bins take the same time.
_N_BINS = 2048

# Bins of positives and bins of negatives: the first one, and the one after the last.
Region = tuple[tuple[int, int], tuple[int, int]]


class _Side(NamedTuple):
    """The margins of one side, and how they lie in bins."""

    margins: Vector
    low: float
    per_unit: float
    bins: Bins

    @classmethod
    def of(cls, given: tuple[Vector, float, float]) -> _Side:
        """Put margins into bins; the smallest and the largest one are given."""
        margins, low, high = given
        per_unit = _N_BINS / (high - low)
        counts, sums = put_into_bins(margins, low, per_unit, _N_BINS)
        edges = low + np.arange(_N_BINS + 1) / per_unit
        return cls(
            margins, low, per_unit, Bins(edges, counts, sums, *moved_to_edges(edges, counts, sums))
        )

    def sorted_inside(self, first: int, end: int) -> tuple[int, float, Vector]:
        """Return number and sum of the margins before some bins, and those inside, increasing."""
        before, size = int(self.bins.counts[first]), int(self.bins.counts[end])
        last = float(end) if end < _N_BINS else np.inf
        inside = margins_inside(
            self.margins, self.low, self.per_unit, float(first), last, size - before
        )
        inside.sort()
        return before, float(self.bins.sums[first]), inside

    @property
    def means(self) -> Vector:
        """The mean margin of each bin, its left edge if it is empty."""
        sizes = np.diff(self.bins.counts)
        means = self.bins.edges[:-1].copy()
        np.divide(np.diff(self.bins.sums), sizes, out=means, where=sizes > 0)
        return means


class MarginSearch:
    """The margins of both sides of a sample, sorted as far as was needed.

    Without bins, they are sorted all.
    """

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        n_positive, n_negative = map(len, sides)
        self._parts: list[_Side] = []
        if n_positive + n_negative >= _FEW and min(n_positive, n_negative) > 0:
            given = [(side, float(side.min()), float(side.max())) for side in sides]
            if all(0.0 < high - low < np.inf for _, low, high in given):
                self._parts = for_both(_Side.of, *given, width=(n_positive + n_negative) // 2)
        self._region: Region | None = None
        if not self._parts:
            sides.sort()
            self._inside = [(0, 0.0, margins) for margins in sides]

    @classmethod
    def of(cls, y: Vector, scores: Vector, weights: Vector) -> MarginSearch:
        """Begin to search a sample."""
        return cls(Sides.of(y, scores, weights))

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
        while True:
            wanted = [self._open(beta2, at, least.value) for at in set(least[-2:])]
            known = not self._look_at(*wanted)
            if known and (_balances(least) or not self._look_at(((0, _N_BINS), (0, _N_BINS)))):
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
        means, n_positive = self._parts[1].means, len(self._sides.positive)
        return Choices(
            positive.counts, positive.sums, negative.counts, negative.sums, means, n_positive
        )

    def _choices(self) -> Choices:
        """Return the labelings that are told apart by what is sorted."""
        (missed, missed_sums), (flagged, flagged_sums) = map(_counted, self._inside)
        margins, n_positive = self._inside[1][2], len(self._sides.positive)
        return Choices(missed, missed_sums, flagged, flagged_sums, margins, n_positive)


def _balances(least: Minimum) -> bool:
    """Whether the two labelings of a minimum fall and rise, so that a mean of both is level."""
    return least.left[0] >= least.left[1] and least.right[0] <= least.right[1]


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
