"""The area under the ROC curve, as a convex upper bound.

One minus the area is the share of pairs of a positive and a negative in which the negative has the
higher score (half of those in which they are equal). Each pair has a hinge loss:

    R(z) = sum_{i positive, j negative} p_i q_j max(0, 1 - (z_i - z_j))

where ``p`` and ``q`` are the weights of positives and of negatives, each scaled to sum to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.core.protocols import Vector
from cutplane.core.threads import map_blocks
from cutplane.losses.loss import AtBestOffset, Tangent
from cutplane.losses.measures import Measure
from cutplane.losses.roc_area_kernels import add_pair_slopes, sum_over_pairs


class _Side(NamedTuple):
    """Positives or negatives: where they are in the sample, their places in order, and weights."""

    where: NDArray[np.int64]
    places: Vector
    weights: Vector


class ROCArea(Measure):
    """One minus the area under the ROC curve, bounded by a hinge loss of each pair.

    A pair's weight is the product of the weights of its examples.
    """

    of_differences = True

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        positive, negative = _ordered(y, scores, weights)
        return (
            _value(positive.places, negative.places, positive.weights, negative.weights),
            _slopes(positive, negative, len(y)),
        )

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        if not _equal(weights):
            positive, negative = _ordered(y, scores, weights)
            return _value(positive.places, negative.places, positive.weights, negative.weights)
        # Sorting alone is several times faster than finding the order.
        bars, others = scores[y > 0.0] - 1.0, scores[y < 0.0]
        map_blocks(lambda i: [side.sort() for side in (bars, others)[i]], 2, width=len(y) // 2)
        return _value(bars, others, np.ones(len(bars)), np.ones(len(others)))

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        positive, negative = _ordered(y, scores, weights)
        return _slopes(positive, negative, len(y))

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


def _equal(weights: Vector) -> bool:
    return bool(weights.min() == weights.max())


def _ordered(y: Vector, scores: Vector, weights: Vector) -> list[_Side]:
    """Return the bars of the positives and the scores of the negatives, in increasing order."""

    def run(sides: slice) -> list[_Side]:
        return [_side(y, scores, weights, label) for label in np.array([1.0, -1.0])[sides]]

    return [side for part in map_blocks(run, 2, width=len(y) // 2) for side in part]


def _side(y: Vector, scores: Vector, weights: Vector, label: float) -> _Side:
    where = np.flatnonzero((y == label) & (weights > 0.0))
    places = scores[where] - 1.0 if label > 0.0 else scores[where]
    order = np.argsort(places)
    where = where[order]
    return _Side(where, places[order], weights[where])


def _value(bars: Vector, others: Vector, bar_weights: Vector, weights: Vector) -> float:
    if len(bars) == 0 or len(others) == 0:
        return 0.0
    below, above = _below(bar_weights), _above(weights)
    return float(sum_over_pairs(bars, others, below, above) / (below[-1] * above[0]))


def _slopes(positive: _Side, negative: _Side, n_samples: int) -> Vector:
    slopes = np.zeros(n_samples)
    if len(positive.where) == 0 or len(negative.where) == 0:
        return slopes
    below, above = _below(positive.weights), _above(negative.weights)
    add_pair_slopes(
        positive.places, negative.places, positive.where, negative.where, below, above, slopes
    )
    total = below[-1] * above[0]
    for side in (positive, negative):
        slopes[side.where] *= side.weights / total
    return slopes


def _below(weights: Vector) -> Vector:
    """Return the weight of the first 0, 1, ... of them."""
    sums = np.zeros(len(weights) + 1)
    np.cumsum(weights, out=sums[1:])
    return sums


def _above(weights: Vector) -> Vector:
    """Return the weight of all but the first 0, 1, ... of them."""
    return _below(weights[::-1])[::-1].copy()
