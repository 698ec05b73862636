"""Losses that judge a sample as a whole: error rate, precision and recall at the top, ROC area.

The loss is the largest value, over labelings ``y'`` of the whole sample, of the measure's loss
``Delta`` plus the difference in score between ``y'`` and the true labels (T. Joachims, A support
vector method for multivariate performance measures, ICML 2005):

    R(z) = max_y'  Delta(y, y') + sum_i (y'_i - y_i) z_i / (2 n)

``Delta`` depends only on how many positives ``y'`` misses and how many negatives it flags. For
given numbers the worst labeling flips the examples with the smallest margins ``y_i * z_i``: so
margins are sorted, and labelings are pairs of counts.

At the top: with ``P`` positives among which ``min(k, P)`` could be at the top, the worst labeling
with ``k`` predicted positives makes ``t`` exchanges: it leaves out ``u = t + max(P - k, 0)``
positives and flags ``b = t + max(k - P, 0)`` negatives. An exchange costs ``1/n`` (``n`` is ``k``
for precision, ``P`` for recall) and is compared by the mean margins of those concerned:

    R(z) = Delta_0 + max_t  (t/n) * (1 - mean of the u smallest margins of positives
                                       - mean of the b smallest margins of negatives)

For ``k = P`` (the precision/recall break-even point) this is Joachims's bound. For other ``k`` his
compares a labeling with ``k`` positives to the true one, which has another number of them: that is
no upper bound, and adding a constant to all scores makes it as small as you like. Comparing with
labelings of ``k`` positives avoids both (P. Kar, H. Narasimhan, P. Jain, Surrogate functions for
maximizing precision at the top, ICML 2015, have this for ``k <= P``).

The area under the ROC curve: one minus the area is the share of pairs of a positive and a negative
in which the negative has the higher score (half of those in which they are equal). Each pair has a
hinge loss:

    R(z) = sum_{i positive, j negative} p_i q_j max(0, 1 - (z_i - z_j))

where ``p`` and ``q`` are the weights of positives and of negatives, each scaled to sum to one. A
pair counts if the positive's score minus one, its bar, is below the negative's score. The same
comparison decides for value and slopes of both, so that they belong to the same set of pairs even
where rounding makes ties.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.threads import map_parts
from cutplane.losses.loss import AtBestOffset, Loss, Tangent
from cutplane.losses.piecewise import Hinge


@njit(cache=True, nogil=True)
def split_margins(y: Vector, scores: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the margins ``y*z`` of positives and of negatives, without examples of no weight."""
    n_positive, n_negative = 0, 0
    for i in range(len(y)):
        n_positive += weights[i] > 0.0 and y[i] > 0.0
        n_negative += weights[i] > 0.0 and not y[i] > 0.0
    # Each margin is written to both, and counts only where it belongs: no branch to be mistaken.
    positive, negative = np.empty(n_positive + 1), np.empty(n_negative + 1)
    n_positive, n_negative = 0, 0
    for i in range(len(y)):
        positive[n_positive] = scores[i]
        negative[n_negative] = -scores[i]
        used = weights[i] > 0.0
        n_positive += used and y[i] > 0.0
        n_negative += used and y[i] < 0.0
    return positive[:n_positive], negative[:n_negative]


@njit(cache=True, nogil=True)
def add_flips(
    y: Vector, scores: Vector, weights: Vector, limits: Matrix, amounts: Vector, out: Vector
) -> None:
    """Add the slopes of a labeling: ``-y * amount`` of a side where it differs from the true one.

    It differs where the margin is below the limit of the example's side (0: positives, 1:
    negatives), and in the first so many examples whose margin equals it.
    """
    left = limits[:, 1].copy()
    for i in range(len(y)):
        if weights[i] > 0.0:
            side = 0 if y[i] > 0.0 else 1
            margin = y[i] * scores[i]
            flipped = margin < limits[side, 0]
            if margin == limits[side, 0] and left[side] > 0.0:
                left[side] -= 1.0
                flipped = True
            if flipped:
                out[i] -= y[i] * amounts[side]


@njit(cache=True, nogil=True)
def sums_below(margins: Vector, changes: Vector, limit: float) -> tuple[float, float, int]:
    """Return sums of changes, of margins below a limit and equal to it, and how many are equal."""
    below, tied, n_tied = 0.0, 0.0, 0
    for i in range(len(margins)):
        below += changes[i] if margins[i] < limit else 0.0
        if margins[i] == limit:
            tied += changes[i]
            n_tied += 1
    return below, tied, n_tied


@njit(cache=True, nogil=True)
def best_exchanges(
    missed: Vector, flagged: Vector, missed_sum: float, flagged_sum: float, first: Vector
) -> tuple[float, int]:
    """Return the largest of ``t * (1 - mean missed - mean flagged)`` and its ``t``, from 0 on.

    The means are over so many margins as ``first`` says, whose sums are given, and the first ``t``
    of those that follow, which increase.
    """
    largest, exchanges = 0.0, 0
    for t in range(1, min(len(missed), len(flagged)) + 1):
        missed_sum += missed[t - 1]
        flagged_sum += flagged[t - 1]
        gain = t * (1.0 - missed_sum / (first[0] + t) - flagged_sum / (first[1] + t))
        if gain > largest:
            largest, exchanges = gain, t
    return largest, exchanges


class Flips(NamedTuple):
    """A labeling: so many positives with the smallest margins are missed, negatives flagged."""

    missed: int
    flagged: int


class Sides(NamedTuple):
    """Margins ``y*z`` of the positives and of the negatives that have a weight."""

    positive: Vector
    negative: Vector

    @classmethod
    def of(cls, y: Vector, scores: Vector, weights: Vector) -> Sides:
        """Split the margins of a sample."""
        return cls(*split_margins(y, scores, weights))

    def sort(self) -> None:
        """Sort both in place."""
        map_parts(np.ndarray.sort, self, len(self.positive) + len(self.negative))


class Measure(Loss):
    """A loss that judges a sample as a whole, by a measure of classification."""

    task = "classification"
    additive = False
    search_slack = 0.1  # a trial step sorts the sample


class CountingMeasure(Measure):
    """A measure that counts examples, so that their weights must be equal."""

    def check_weights(self, weights: Vector) -> None:
        """Raise ValueError unless all are equal, up to rounding."""
        if weights.max() > weights.min() * (1.0 + 1e-9):
            raise ValueError(
                f"{self!r} counts examples, so the weights must be equal or zero: leave out "
                "sample_weight and class_weight"
            )


class ErrorRate(Hinge):
    """The share of wrong labels. Its bound over all labelings is the hinge loss, exactly.

    ``Delta`` and the scores are sums over examples, and so the worst labeling is found for each
    example by itself: ``max(0, 1/m - y*z/m)``.
    """


def count_positives(y: Vector, weights: Vector) -> int:
    """Return how many positives have a weight."""
    return int(np.count_nonzero((y > 0.0) & (weights > 0.0)))


class Limit(NamedTuple):
    """The largest of the margins of a side that are flipped, and how many of these are equal."""

    margin: float
    ties: int


def limits_of(sides: Sides, flips: Flips) -> tuple[Limit, Limit]:
    """Return what tells those that are flipped from the others; ``sides`` may be reordered."""
    return _limit(sides.positive, flips.missed), _limit(sides.negative, flips.flagged)


def _limit(margins: Vector, count: int) -> Limit:
    """Return the largest of the ``count`` smallest, and how many of these are equal to it."""
    if count == 0:
        return Limit(-np.inf, 0)
    margins.partition(count - 1)
    largest = float(margins[count - 1])
    return Limit(largest, int(np.count_nonzero(margins[:count] == largest)))


def _middle(below: float, above: float) -> float:
    """Return what lies between two numbers, the lower one if there is nothing."""
    middle = float(below + 0.5 * (above - below))
    return middle if middle < above else float(below)


class _Top(NamedTuple):
    """How many examples are at the top, and how many exchanges make a loss of one."""

    k: int
    scale: int


class AtTop(CountingMeasure):
    """A measure of the examples with the highest scores."""

    of_differences = True

    @abstractmethod
    def top(self, n_samples: int, n_positive: int) -> _Top:
        """Return what is at the top of a sample."""

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        sides = Sides.of(y, scores, weights)
        value, exchanges = self._worst(sides)
        return value, self._slopes_of(y, scores, weights, sides, exchanges)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        return self._worst(Sides.of(y, scores, weights))[0]

    def tangent(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the labeling's plane, whose offset is its Delta; no constant changes it."""
        sides = Sides.of(y, scores, weights)
        _, exchanges = self._worst(sides)
        slopes = self._slopes_of(y, scores, weights, sides, exchanges)
        return Tangent(slopes, self._delta(sides, exchanges))

    def threshold(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the score above which lie as many examples as are predicted positive."""
        used = scores[weights > 0.0]
        k = self.top(len(used), count_positives(y, weights)).k
        if k == 0:
            return float(used.max())
        if k == len(used):
            lowest = float(used.min())
            return lowest - max(1.0, abs(lowest))
        ordered = np.partition(used, (len(used) - k - 1, len(used) - k))
        return _middle(ordered[len(used) - k - 1], ordered[len(used) - k])

    def _top(self, sides: Sides) -> _Top:
        n_positive, n_negative = map(len, sides)
        return self.top(n_positive + n_negative, n_positive)

    def _flips(self, sides: Sides, exchanges: int) -> Flips:
        beyond = self._top(sides).k - len(sides.positive)
        return Flips(exchanges + max(-beyond, 0), exchanges + max(beyond, 0))

    def _delta(self, sides: Sides, exchanges: int) -> float:
        k, scale = self._top(sides)
        found = min(k, len(sides.positive)) - exchanges
        return 1.0 - found / scale if scale > 0 else 0.0

    def _worst(self, sides: Sides) -> tuple[float, int]:
        """Return the loss and the exchanges that attain it."""
        fewest = self._flips(sides, 0)
        most = min(len(side) - first for side, first in zip(sides, fewest, strict=True))
        ends = [_smallest(*part, most) for part in zip(sides, fewest, strict=True)]
        (missed_sum, missed), (flagged_sum, flagged) = ends
        map_parts(np.ndarray.sort, (missed, flagged), 2 * most)
        gain, exchanges = best_exchanges(
            missed, flagged, missed_sum, flagged_sum, np.array(fewest, dtype=np.float64)
        )
        return self._delta(sides, 0) + gain / max(self._top(sides).scale, 1), exchanges

    def _slopes_of(
        self, y: Vector, scores: Vector, weights: Vector, sides: Sides, exchanges: int
    ) -> Vector:
        slopes = np.zeros_like(scores)
        if exchanges > 0:
            flips = self._flips(sides, exchanges)
            amounts = exchanges / self._top(sides).scale / np.array(flips, dtype=np.float64)
            limits = np.array(limits_of(sides, flips))
            add_flips(y, scores, weights, limits, amounts, slopes)
        return slopes


class _AtK(AtTop):
    """A measure of the ``k`` examples with the highest scores."""

    shown = ("k",)

    def __init__(self, k: float = 0.1) -> None:
        if not 0.0 < k < 1.0 and not (1 <= k < np.inf and k == int(k)):
            raise ValueError(
                f"k must be a count of at least 1, or a share between 0 and 1, got {k}"
            )
        self.k = float(k) if k < 1 else int(k)

    def count(self, n_samples: int) -> int:
        """Return ``k`` as a count."""
        return int(self.k) if self.k >= 1 else max(1, round(self.k * n_samples))

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if there are fewer than ``k`` examples."""
        super().check_targets(y)
        if self.k > len(y):
            raise ValueError(f"k is {self.k}, but there are only {len(y)} examples")


class PrecisionAtK(_AtK):
    """One minus the share of positives among the ``k`` highest scores, bounded from above.

    ``k`` is a count, or a share of the sample between 0 and 1.
    """

    def top(self, n_samples: int, n_positive: int) -> _Top:
        """Return ``k`` as a count, of which each is ``1/k`` of the precision."""
        k = self.count(n_samples)
        return _Top(k, k)


class RecallAtK(_AtK):
    """One minus the share of the positives that are among the ``k`` highest scores.

    ``k`` is a count, or a share of the sample between 0 and 1.
    """

    def top(self, n_samples: int, n_positive: int) -> _Top:
        """Return ``k`` as a count, and the number of positives."""
        return _Top(self.count(n_samples), n_positive)


class BreakEven(AtTop):
    """Precision and recall where they are equal: as many predicted as there are positives."""

    def top(self, n_samples: int, n_positive: int) -> _Top:
        """Return the number of positives, twice."""
        return _Top(n_positive, n_positive)


def _smallest(margins: Vector, first: int, most: int) -> tuple[float, Vector]:
    """Return the sum of the ``first`` smallest margins, and the next ``most`` in any order."""
    if first > 0:
        margins.partition(first - 1)
    rest = margins[first:]
    if most < len(rest):
        rest = np.partition(rest, most)[:most]
    return float(margins[:first].sum()), rest


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
def count_partners(positive: _Side, negative: _Side, out: Vector) -> None:
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
    """Both sides of a sample, and the weight of all pairs."""

    positive: _Side
    negative: _Side
    weight: float

    @classmethod
    def of(cls, y: Vector, scores: Vector, weights: Vector) -> _Pairs:
        """Return both sides, each made in a thread of its own if there are many examples."""
        positive, negative = map_parts(
            lambda label: _Side.of(y, scores, weights, label), (1.0, -1.0), len(y)
        )
        return cls(positive, negative, float(positive.sums[-1] * negative.sums[0]))

    def loss(self) -> float:
        """Return the mean loss of the pairs."""
        if self.weight == 0.0:
            return 0.0
        (bars, _, below), (others, _, above), weight = self
        return float(sum_over_pairs(bars, others, below, above)) / weight

    def tangent(self, weights: Vector) -> Tangent:
        """Return the slopes, and the weight of the pairs that count."""
        slopes = np.zeros(len(weights))
        if self.weight == 0.0:
            return Tangent(slopes, 0.0)
        count_partners(self.positive, self.negative, slopes)
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
        return _middle(places[lowest - 1], places[lowest])


def _equal(weights: Vector) -> bool:
    return bool(weights.min() == weights.max())
