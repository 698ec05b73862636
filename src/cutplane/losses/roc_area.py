"""The area under the ROC curve, as a convex upper bound.

One minus the area is the share of pairs of a positive and a negative in which the negative has the
higher score (half of those in which they are equal). Each pair has a hinge loss:

    R(z) = sum_{i positive, j negative} p_i q_j max(0, 1 - (z_i - z_j))

where ``p`` and ``q`` are the weights of positives and of negatives, each scaled to sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.core.protocols import Vector
from cutplane.core.threads import map_blocks
from cutplane.losses.loss import AtBestOffset, Tangent
from cutplane.losses.measures import Measure, Sides
from cutplane.losses.roc_area_kernels import bar_slopes, score_slopes, sum_over_pairs

T = TypeVar("T")


class _Side(NamedTuple):
    """Bars of the positives or scores of the negatives, increasing, and whose they are."""

    places: Vector
    where: NDArray[np.int64]

    @classmethod
    def of(cls, y: Vector, scores: Vector, weights: Vector, label: float) -> _Side:
        """Return the side of the examples with a label."""
        where = np.flatnonzero((y == label) & (weights > 0.0))
        places = scores[where]
        if label > 0.0:
            places -= 1.0
        order = np.argsort(places)
        return cls(places[order], where[order])


class ROCArea(Measure):
    """One minus the area under the ROC curve, bounded by a hinge loss of each pair.

    A pair's weight is the product of the weights of its examples.
    """

    of_differences = True

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        positive, negative = _in_both(lambda label: _Side.of(y, scores, weights, label), len(y))
        slopes = np.zeros(len(y))
        if len(positive.where) == 0 or len(negative.where) == 0:
            return 0.0, slopes
        # The weights of the first 0, 1, ... bars, and of all but the first 0, 1, ... scores.
        below = _sums(weights[positive.where])
        above = _sums(weights[negative.where][::-1])[::-1].copy()
        total = below[-1] * above[0]
        bars, others = positive.places, negative.places

        def write(label: float) -> None:
            if label > 0.0:
                bar_slopes(bars, others, positive.where, weights, above / total, slopes)
            else:
                score_slopes(bars, others, negative.where, weights, below / total, slopes)

        _in_both(write, len(y))
        return float(sum_over_pairs(bars, others, below, above) / total), slopes

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        if weights.min() < weights.max():
            return self(y, scores, weights)[0]
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

    def tangent(
        self,
        y: Vector,
        scores: Vector,
        weights: Vector,
        *,
        value: float,
        best: AtBestOffset | None = None,
    ) -> Tangent:
        """Return the tangent; its offset is the weight of the pairs that count."""
        slopes = self.slopes(y, scores, weights)
        return Tangent(slopes, float(slopes[y < 0.0].sum()))

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


def _in_both(task: Callable[[float], T], n_samples: int) -> list[T]:
    """Return the results for the labels 1 and -1, in two threads if there are many examples."""
    labels = np.array([1.0, -1.0])
    parts = map_blocks(lambda i: [task(label) for label in labels[i]], 2, width=n_samples // 2)
    return [result for part in parts for result in part]


def _sums(weights: Vector) -> Vector:
    """Return the sums of the first 0, 1, ... of them."""
    sums = np.zeros(len(weights) + 1)
    np.cumsum(weights, out=sums[1:])
    return sums
