"""The area under the ROC curve, as a convex upper bound.

One minus the area is the share of pairs of a positive and a negative in which the negative has the
higher score (half of those in which they are equal). Each pair has a hinge loss:

    R(z) = sum_{i positive, j negative} p_i q_j max(0, 1 - (z_i - z_j))

where ``p`` and ``q`` are the weights of positives and of negatives, each scaled to sum to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.core.protocols import Vector
from cutplane.core.threads import map_blocks
from cutplane.losses.loss import AtBestOffset, Tangent
from cutplane.losses.measures import Measure, Sides
from cutplane.losses.roc_area_kernels import index_cells, pair_slopes, sum_over_pairs


class _Pairs(NamedTuple):
    """Bars of the positives and scores of the negatives, increasing, and sums of their weights."""

    bars: Vector
    others: Vector
    below: Vector
    above: Vector

    @classmethod
    def of(cls, y: Vector, scores: Vector, weights: Vector) -> _Pairs | None:
        """Return the two sides of a sample, or None if one of them is empty."""
        sides = Sides.of(y, scores, weights)
        if min(map(len, sides)) == 0:
            return None
        bars, others = sides
        bars -= 1.0
        np.negative(others, out=others)
        if weights.min() == weights.max():
            # Sorting alone is several times faster than finding the order.
            sides.sort()
            shares = [np.broadcast_to(weights[0], len(side)) for side in sides]
        else:
            used = weights > 0.0
            shares = [weights[used & (y > 0.0)], weights[used & (y < 0.0)]]
            for side, share in zip(sides, shares, strict=True):
                order = np.argsort(side)
                side[:], share[:] = side[order], share[order]
        return cls(bars, others, _sums(shares[0]), _sums(shares[1][::-1])[::-1].copy())

    @property
    def total(self) -> float:
        """The weight of all pairs."""
        return float(self.below[-1] * self.above[0])

    @property
    def loss(self) -> float:
        """The sum of the pairs' losses."""
        return float(sum_over_pairs(*self)) / self.total

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        bar_starts, other_starts = (
            np.empty(len(side) + 1, dtype=np.int64) for side in (self.bars, self.others)
        )
        index_cells(self.bars, bar_starts)
        index_cells(self.others, other_starts)
        slopes, total = np.empty(len(y)), self.total

        def block(i: slice) -> None:
            out = slopes[i]
            pair_slopes(y[i], scores[i], weights[i], *self, bar_starts, other_starts, out)
            out /= total

        map_blocks(block, len(y))
        return slopes


def _sums(weights: Vector) -> Vector:
    """Return the sums of the first 0, 1, ... of them."""
    sums = np.zeros(len(weights) + 1)
    np.cumsum(weights, out=sums[1:])
    return sums


class ROCArea(Measure):
    """One minus the area under the ROC curve, bounded by a hinge loss of each pair.

    A pair's weight is the product of the weights of its examples.
    """

    of_differences = True

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        pairs = _Pairs.of(y, scores, weights)
        if pairs is None:
            return 0.0, np.zeros(len(y))
        return pairs.loss, pairs.slopes(y, scores, weights)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        pairs = _Pairs.of(y, scores, weights)
        return 0.0 if pairs is None else pairs.loss

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        pairs = _Pairs.of(y, scores, weights)
        return np.zeros(len(y)) if pairs is None else pairs.slopes(y, scores, weights)

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
