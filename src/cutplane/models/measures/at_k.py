"""Precision and recall of the ``k`` examples with the highest scores, as convex upper bounds.

With ``P`` positives among which ``min(k, P)`` could be at the top, the worst labeling with ``k``
predicted positives makes ``t`` exchanges: it leaves out ``u = t + max(P - k, 0)`` positives and
flags ``b = t + max(k - P, 0)`` negatives. An exchange costs ``1/n`` (``n`` is ``k`` for precision,
``P`` for recall) and is compared by the mean margins of those concerned:

    R(z) = Delta_0 + max_t  (t/n) * (1 - mean of the u smallest margins of positives
                                       - mean of the b smallest margins of negatives)

For ``k = P`` (the precision/recall break-even point) this is Joachims's bound. For other ``k`` his
compares a labeling with ``k`` positives to the true one, which has another number of them: that is
no upper bound, and adding a constant to all scores makes it as small as you like. Comparing with
labelings of ``k`` positives avoids both (P. Kar, H. Narasimhan, P. Jain, Surrogate functions for
maximizing precision at the top, ICML 2015, have this for ``k <= P``).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.losses.score_loss import AtBestOffset, Tangent
from cutplane.models.measures.error_rate import (
    CountingMeasure,
    Flips,
    Sides,
    best_exchanges,
    count_positives,
    flip_slopes,
    for_both,
    limits_of,
    threshold_between,
)


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
        return threshold_between(used, self.top(len(used), count_positives(y, weights)).k)

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
        for_both(np.ndarray.sort, missed, flagged, width=most)
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
            total = exchanges / self._top(sides).scale
            amounts = (total / flips.missed, total / flips.flagged)
            flip_slopes(y, scores, weights, limits_of(sides, flips), amounts, slopes)
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
