"""How good rankings are: NDCG, average precision, reciprocal rank, and pairs in the right order.

A document is relevant if its relevance is positive; its gain is ``2^relevance - 1``, and position p
counts ``1/log2(1 + p)``. Documents of equal score are ranked worst first, so that a model which
cannot tell them apart gains nothing by the order of the file.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.losses import PairwiseHinge
from cutplane.losses.ranking.queries import Queries, discounts_at, gains_of


class Rankings:
    """The documents of each query ranked by score.

    The measures have a number for each query, NaN for those without a relevant document.

    Parameters
    ----------
    y : ndarray of shape (n_documents,)
        Relevance, not negative.
    scores : ndarray of shape (n_documents,)
        Higher ones are ranked first.
    queries : Queries
        The query of each document.
    """

    def __init__(self, y: Vector, scores: Vector, queries: Queries) -> None:
        if (y < 0.0).any():
            raise ValueError(f"relevance must not be negative to measure rankings, got {y.min():g}")
        self._y, self._scores, self._queries = y, scores, queries
        self._starts, self._positions = queries.starts[:-1], queries.positions()
        self._ranked = y[np.lexsort((y, -scores, queries.numbers))]

    def ndcg(self, k: int) -> Vector:
        """Return NDCG@k of each query."""
        ideal = self._y[np.lexsort((-self._y, self._queries.numbers))]
        with np.errstate(invalid="ignore"):
            return self._dcg(self._ranked, k) / self._dcg(ideal, k)

    def average_precision(self) -> Vector:
        """Return for each query the mean precision at its relevant documents."""
        hits = self._hits
        total = np.cumsum(hits)
        before: Vector = np.repeat(total[self._starts] - hits[self._starts], self._queries.sizes)
        precision = (total - before) / (self._positions + 1.0)
        with np.errstate(invalid="ignore"):
            return self._sums(precision * hits) / self._sums(hits.astype(np.float64))

    def reciprocal_rank(self) -> Vector:
        """Return for each query one over the position of its first relevant document."""
        each = np.where(self._hits, 1.0 / (self._positions + 1.0), 0.0)
        best = np.maximum.reduceat(each, self._starts)
        return np.where(best > 0.0, best, np.nan)

    def pairwise_accuracy(self) -> float | None:
        """Return the share of pairs in the right order, ties counting half, as a mean over queries.

        Only queries with documents of different relevance count; None if there are none.
        """
        # With whole numbers for scores, a pair has a loss if it is tied or in the wrong order, and
        # with relevances reversed if it is tied or in the right one.
        _, places = np.unique(self._scores, return_inverse=True)
        loss, weights = PairwiseHinge().for_queries(self._queries), np.ones(len(self._y))
        try:
            wrong = loss.evaluate(self._y, places.astype(np.float64), weights).offset
        except ValueError:  # no pairs
            return None
        right = loss.evaluate(-self._y, places.astype(np.float64), weights).offset
        return (1.0 + right - wrong) / 2.0

    @cached_property
    def _hits(self) -> NDArray[np.bool_]:
        return self._ranked > 0.0

    def _dcg(self, relevance: Vector, k: int) -> Vector:
        return self._sums(gains_of(relevance) * discounts_at(self._positions, k))

    def _sums(self, values: Vector) -> Vector:
        sums: Vector = np.add.reduceat(values, self._starts)
        return sums


def mean_of_defined(values: Vector, weights: Vector | None = None) -> float | None:
    """Return the mean over queries with a relevant document, None if there are none."""
    defined = ~np.isnan(values)
    weights = defined.astype(np.float64) if weights is None else np.where(defined, weights, 0.0)
    total = float(weights.sum())
    return float(weights[defined] @ values[defined]) / total if total > 0.0 else None
