"""The area under the ROC curve as a loss, with its compiled loops.

Sums over all pairs of a positive and a negative, from both in order.

A pair counts if the positive's score minus one, its bar, is below the negative's score. The same
comparison decides for value and slopes of both, so that they belong to the same set of pairs even
where rounding makes ties.

The area under the ROC curve, as a convex upper bound.

One minus the area is the share of pairs of a positive and a negative in which the negative has the
higher score (half of those in which they are equal). Each pair has a hinge loss:

    R(z) = sum_{i positive, j negative} p_i q_j max(0, 1 - (z_i - z_j))

where ``p`` and ``q`` are the weights of positives and of negatives, each scaled to sum to one.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.losses.loss import AtBestOffset, Tangent
from cutplane.models.measures.labelings import Measure, Sides, for_both

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


class _Side(NamedTuple):
    """Bars of the positives or scores of the negatives, increasing, and whose they are.

    ``sums`` are the weights of the first 0, 1, ... bars, and of all but the first 0, 1, ... scores.
    """

    places: Vector
    where: NDArray[np.int64]
    sums: Vector

    @classmethod
    def of(cls, y: Vector, scores: Vector, weights: Vector, label: float) -> _Side:
        """Return the side of the examples with a label."""
        where = keys_of_side(y, scores, weights, label)
        where.sort()
        shift = 1.0 if label > 0.0 else 0.0
        places = places_of_keys(where, scores, shift)
        # Scores that differ in their last bits only may be in the wrong order; seldom are there
        # many.
        if not repair_order(places, where):
            where = where[np.argsort(scores[where])]
            places = scores[where] - shift
        if _equal(weights):
            sums = weights[0] * np.arange(len(where) + 1.0)
        else:
            sums = np.zeros(len(where) + 1)
            np.cumsum(weights[where] if label > 0.0 else weights[where[::-1]], out=sums[1:])
        return cls(places, where, sums if label > 0.0 else sums[::-1].copy())


class _Pairs(NamedTuple):
    """Both sides of a sample."""

    positive: _Side
    negative: _Side

    @classmethod
    def of(cls, y: Vector, scores: Vector, weights: Vector) -> _Pairs:
        """Return both sides, each made in a thread of its own if there are many examples."""
        return cls(
            *for_both(
                lambda label: _Side.of(y, scores, weights, label), 1.0, -1.0, width=len(y) // 2
            )
        )

    @property
    def weight(self) -> float:
        """The weight of all pairs."""
        return float(self.positive.sums[-1] * self.negative.sums[0])

    def loss(self) -> float:
        """Return the mean loss of the pairs."""
        if self.weight == 0.0:
            return 0.0
        (bars, _, below), (others, _, above) = self
        return float(sum_over_pairs(bars, others, below, above)) / self.weight

    def tangent(self, weights: Vector) -> Tangent:
        """Return the slopes, and the weight of the pairs that count."""
        slopes = np.zeros(len(weights))
        if self.weight == 0.0:
            return Tangent(slopes, 0.0)
        count_partners(*self, slopes)
        slopes *= weights
        slopes /= self.weight
        # The weight of the pairs that count, as each of their negatives has it.
        return Tangent(slopes, 0.5 * float(np.abs(slopes).sum()))


class ROCArea(Measure):
    """One minus the area under the ROC curve, bounded by a hinge loss of each pair.

    A pair's weight is the product of the weights of its examples.
    """

    of_differences = True

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        pairs = _Pairs.of(y, scores, weights)
        return pairs.loss(), pairs.tangent(weights).slopes

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        if not _equal(weights):
            return _Pairs.of(y, scores, weights).loss()
        # Sorting alone is several times faster than finding the order.
        sides = Sides.of(y, scores, weights)
        if min(map(len, sides)) == 0:
            return 0.0
        bars, others = sides
        bars -= 1.0
        np.negative(others, out=others)
        sides.sort()
        below, above = np.arange(len(bars) + 1.0), np.arange(len(others), -1.0, -1.0)
        return float(sum_over_pairs(bars, others, below, above) / (below[-1] * above[0]))

    def tangent(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the tangent; its offset is the weight of the pairs that count."""
        return _Pairs.of(y, scores, weights).tangent(weights)

    def threshold(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the threshold with the fewest errors, by weight; of several the lowest."""
        places, inverse = np.unique(scores[weights > 0.0], return_inverse=True)
        signed = np.bincount(inverse, (y * weights)[weights > 0.0])
        # Raising the threshold above a place loses its positives and gains its negatives.
        errors = np.concatenate([[0.0], np.cumsum(signed)])
        lowest = int(np.argmax(errors <= errors.min() + 1e-12))
        if lowest == 0:
            return float(places[0] - max(1.0, abs(places[0])))
        if lowest == len(places):
            return float(places[-1])
        middle = float(places[lowest - 1] + 0.5 * (places[lowest] - places[lowest - 1]))
        return middle if middle < places[lowest] else float(places[lowest - 1])


def _equal(weights: Vector) -> bool:
    return bool(weights.min() == weights.max())
