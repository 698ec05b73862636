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

from cutplane.core.protocols import Vector
from cutplane.losses.loss import AtBestOffset, Tangent
from cutplane.losses.measures import (
    CountingMeasure,
    Flips,
    Sides,
    count_positives,
    flip_slopes,
    threshold_between,
)


class _Worst(NamedTuple):
    """The loss, and the exchanges that attain it."""

    value: float
    exchanges: int
    scale: int


class AtTop(CountingMeasure):
    """A measure of the examples with the highest scores."""

    of_differences = True

    @abstractmethod
    def count(self, n_samples: int, n_positive: int) -> int:
        """Return how many examples are predicted positive."""

    @abstractmethod
    def scale(self, n_samples: int, n_positive: int) -> int:
        """Return how many exchanges make a loss of one."""

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        worst = self._worst(Sides.of(y, scores, weights))
        return worst.value, self._slopes_of(y, scores, weights, worst)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        return self._worst(Sides.of(y, scores, weights)).value

    def tangent(
        self,
        y: Vector,
        scores: Vector,
        weights: Vector,
        *,
        value: float,
        best: AtBestOffset | None = None,
    ) -> Tangent:
        """Return the labeling's plane, whose offset is its Delta; no constant changes it."""
        sides = Sides.of(y, scores, weights)
        worst = self._worst(sides)
        delta = self._least(sides) + worst.exchanges / worst.scale
        return Tangent(self._slopes_of(y, scores, weights, worst), delta)

    def threshold(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the score above which lie as many examples as are predicted positive."""
        used = scores[weights > 0.0]
        return threshold_between(used, self.count(len(used), count_positives(y, weights)))

    def _sizes(self, sides: Sides) -> tuple[int, int, int]:
        """Return the numbers of examples predicted positive, of positives and of negatives."""
        n_positive, n_negative = len(sides.positive), len(sides.negative)
        return self.count(n_positive + n_negative, n_positive), n_positive, n_negative

    def _flips(self, sides: Sides, exchanges: int) -> Flips:
        k, n_positive, _ = self._sizes(sides)
        return Flips(exchanges + max(n_positive - k, 0), exchanges + max(k - n_positive, 0))

    def _least(self, sides: Sides) -> float:
        """Return the Delta of the best labeling."""
        k, n_positive, n_negative = self._sizes(sides)
        scale = self.scale(n_positive + n_negative, n_positive)
        return 1.0 - min(k, n_positive) / scale if scale > 0 else 0.0

    def _worst(self, sides: Sides) -> _Worst:
        _, n_positive, n_negative = self._sizes(sides)
        scale = max(self.scale(n_positive + n_negative, n_positive), 1)
        fewest = self._flips(sides, 0)
        most = min(n_positive - fewest.missed, n_negative - fewest.flagged)
        if most == 0:
            return _Worst(self._least(sides), 0, scale)
        exchanges = np.arange(1, most + 1)
        margins = sum(
            _sums_of_smallest(side, first, most) / (first + exchanges)
            for side, first in zip(sides, fewest, strict=True)
        )
        gains = exchanges / scale * (1.0 - margins)
        largest = int(gains.argmax())
        if not gains[largest] > 0.0:
            return _Worst(self._least(sides), 0, scale)
        return _Worst(self._least(sides) + float(gains[largest]), largest + 1, scale)

    def _slopes_of(self, y: Vector, scores: Vector, weights: Vector, worst: _Worst) -> Vector:
        slopes = np.zeros_like(scores)
        if worst.exchanges > 0:
            flips = self._flips(Sides.of(y, scores, weights), worst.exchanges)
            total = worst.exchanges / worst.scale
            amounts = (total / flips.missed, total / flips.flagged)
            flip_slopes(y, scores, weights, flips, amounts, slopes)
        return slopes


class _AtK(AtTop):
    """A measure of the ``k`` examples with the highest scores."""

    def __init__(self, k: float = 0.1) -> None:
        if not (k >= 1 and k == int(k)) and not 0.0 < k < 1.0:
            raise ValueError(
                f"k must be a count of at least 1, or a share between 0 and 1, got {k}"
            )
        self.k = float(k) if k < 1 else int(k)

    def count(self, n_samples: int, n_positive: int) -> int:
        """Return ``k`` as a count."""
        return int(self.k) if self.k >= 1 else max(1, round(self.k * n_samples))

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if there are fewer than ``k`` examples."""
        super().check_targets(y)
        if self.k > len(y):
            raise ValueError(f"k is {self.k}, but there are only {len(y)} examples")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.k:g})"


class PrecisionAtK(_AtK):
    """One minus the share of positives among the ``k`` highest scores, bounded from above.

    Parameters
    ----------
    k : int or float
        A count, or a share of the sample between 0 and 1.
    """

    def scale(self, n_samples: int, n_positive: int) -> int:
        """Return ``k``."""
        return self.count(n_samples, n_positive)


class RecallAtK(_AtK):
    """One minus the share of the positives that are among the ``k`` highest scores.

    Parameters
    ----------
    k : int or float
        A count, or a share of the sample between 0 and 1.
    """

    def scale(self, n_samples: int, n_positive: int) -> int:
        """Return the number of positives."""
        return n_positive


class BreakEven(AtTop):
    """Precision and recall where they are equal: as many predicted as there are positives."""

    def count(self, n_samples: int, n_positive: int) -> int:
        """Return the number of positives."""
        return n_positive

    def scale(self, n_samples: int, n_positive: int) -> int:
        """Return the number of positives."""
        return n_positive


def _sums_of_smallest(margins: Vector, first: int, most: int) -> Vector:
    """Return the sums of the smallest ``first + 1``, ..., ``first + most`` margins."""
    last = first + most
    if last < len(margins):
        margins = np.partition(margins, last - 1)[:last]
    if first > 0:
        margins = np.partition(margins, first - 1)
    sums: Vector = np.cumsum(np.sort(margins[first:]))
    sums += margins[:first].sum()
    return sums
