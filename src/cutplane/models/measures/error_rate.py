"""The error rate, and what losses of a whole sample share.

Compiled loops over the examples of a sample that is judged as a whole.

What the losses for a performance measure share: they judge a sample as a whole.

The loss is the largest value, over labelings ``y'`` of the whole sample, of the measure's loss
``Delta`` plus the difference in score between ``y'`` and the true labels (T. Joachims, A support
vector method for multivariate performance measures, ICML 2005):

    R(z) = max_y'  Delta(y, y') + sum_i (y'_i - y_i) z_i / (2 n)

``Delta`` depends only on how many positives ``y'`` misses and how many negatives it flags. For
given numbers the worst labeling flips the examples with the smallest margins ``y_i * z_i``: so
margins are sorted, and labelings are pairs of counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.compute.threads import map_blocks
from cutplane.losses.loss import Loss
from cutplane.losses.pieces import Hinge


@njit(cache=True, nogil=True)
def split_margins(y: Vector, scores: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return the margins ``y*z`` of positives and of negatives, without examples of no weight."""
    n_positive, n_negative = 0, 0
    for i in range(len(y)):
        if weights[i] > 0.0:
            if y[i] > 0.0:
                n_positive += 1
            else:
                n_negative += 1
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
    y: Vector,
    scores: Vector,
    weights: Vector,
    thresholds: Vector,
    ties: Vector,
    amounts: Vector,
    out: Vector,
) -> None:
    """Add ``-y * amount`` where a labeling differs from the true one.

    It differs where the margin is below the threshold of the example's side (0: positives, 1:
    negatives), and in the first so many examples whose margin equals it.
    """
    left = ties.copy()
    for i in range(len(y)):
        if weights[i] > 0.0:
            side = 0 if y[i] > 0.0 else 1
            margin = y[i] * scores[i]
            flipped = margin < thresholds[side]
            if margin == thresholds[side] and left[side] > 0.0:
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


S = TypeVar("S")
T = TypeVar("T")


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
        for_both(np.ndarray.sort, *self, width=(len(self.positive) + len(self.negative)) // 2)


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


def for_both(task: Callable[[S], T], positive: S, negative: S, *, width: int) -> list[T]:
    """Return the results for positives and negatives, in two threads if they are ``width`` long."""
    both: list[S] = [positive, negative]
    parts = map_blocks(lambda i: [task(side) for side in both[i]], 2, width=width)
    return [result for part in parts for result in part]


def count_positives(y: Vector, weights: Vector) -> int:
    """Return how many positives have a weight."""
    return int(np.count_nonzero((y > 0.0) & (weights > 0.0)))


class Limit(NamedTuple):
    """The largest of the margins of a side that are flipped, and how many of these are equal."""

    margin: float
    ties: int


def flip_slopes(
    y: Vector,
    scores: Vector,
    weights: Vector,
    limits: tuple[Limit, Limit],
    amounts: tuple[float, float],
    out: Vector,
) -> None:
    """Add the slopes of a labeling.

    They are minus the first amount where a positive is missed, plus the second where a negative is
    flagged. Of equal margins the first ones are flipped.
    """
    thresholds, ties = np.array(limits).T.copy()
    add_flips(y, scores, weights, thresholds, ties, np.array(amounts), out)


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


def threshold_between(scores: Vector, k: int) -> float:
    """Return a threshold that ``k`` scores are above, or fewer if there are ties."""
    if k == 0:
        return float(scores.max())
    if k == len(scores):
        lowest = float(scores.min())
        return lowest - max(1.0, abs(lowest))
    ordered = np.partition(scores, (len(scores) - k - 1, len(scores) - k))
    below, above = ordered[len(scores) - k - 1], ordered[len(scores) - k]
    middle = float(below + 0.5 * (above - below))
    return middle if middle < above else float(below)
