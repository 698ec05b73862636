"""How good rankings are: NDCG, average precision, reciprocal rank, and pairs in the right order.

A document is relevant if its relevance is positive; its gain is ``2^relevance - 1``, and position p
counts ``1/log2(1 + p)``. Documents of equal score are ranked worst first, so that a model which
cannot tell them apart gains nothing by the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.losses import PairwiseHinge
from cutplane.metrics.measures import Columns, Measures
from cutplane.models.ranking.loss import Queries, discounts_at, gains_of

RANKED_AT = (1, 3, 5, 10)
"""The numbers of first documents that rankings are measured at."""


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

    def average_precision(self, k: int | None = None) -> Vector:
        """Return for each query the mean precision at its relevant documents.

        With ``k``, at those among the first k, divided by how many there could be among them.
        """
        hits = self._hits
        total = np.cumsum(hits)
        before: Vector = np.repeat(total[self._starts] - hits[self._starts], self._queries.sizes)
        precision = (total - before) / (self._positions + 1.0)
        relevant = self._sums(hits.astype(np.float64))
        if k is not None:
            precision = precision * (self._positions < k)
            relevant = np.minimum(relevant, k)
        with np.errstate(invalid="ignore"):
            return self._sums(precision * hits) / relevant

    def reciprocal_rank(self, k: int | None = None) -> Vector:
        """Return for each query one over the position of its first relevant document.

        With ``k``, zero if it is not among the first k.
        """
        each = np.where(self._hits, 1.0 / (self._positions + 1.0), 0.0)
        best = np.maximum.reduceat(each, self._starts)
        found = best if k is None else np.where(best * k >= 1.0, best, 0.0)
        return np.where(best > 0.0, found, np.nan)

    def pairs_in_order(self) -> Vector:
        """Return for each query the share of its pairs in the right order, ties counting half.

        NaN where all documents are of the same relevance: there are no pairs.
        """
        order = np.argsort(self._queries.numbers, kind="stable")
        shares = np.full(len(self._queries), np.nan)
        for query, begin in enumerate(self._starts):
            own = order[begin : begin + self._queries.sizes[query]]
            y, scores = self._y[own], self._scores[own]
            if (y == y[0]).all():
                continue
            # With whole numbers for scores, a pair has a loss if it is tied or in the wrong order,
            # and with relevances reversed if it is tied or in the right one.
            _, places = np.unique(scores, return_inverse=True)
            loss, weights = PairwiseHinge().for_queries(Queries.one(len(y))), np.ones(len(y))
            wrong = loss.evaluate(y, places.astype(np.float64), weights).offset
            right = loss.evaluate(-y, places.astype(np.float64), weights).offset
            shares[query] = (1.0 + right - wrong) / 2.0
        return shares

    def pairwise_accuracy(self) -> float | None:
        """Return the mean of `pairs_in_order` over the queries with pairs; None without any."""
        return mean_of_defined(self.pairs_in_order())

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


class RankingQuality:
    """Documents ranked by score beside their relevance: measures at the first k, over queries.

    Parameters
    ----------
    rankings : Rankings
    queries : Queries
    at : sequence of int
        The numbers of first documents to look at.
    """

    unit = "queries"

    def __init__(self, rankings: Rankings, queries: Queries, at: Sequence[int] = RANKED_AT) -> None:
        self.n_units = len(queries)
        self._n_documents = len(queries.numbers)
        self._at = tuple(at)
        reciprocal = rankings.reciprocal_rank()
        self._without_relevant = int(np.isnan(reciprocal).sum())
        self._each = {
            "map": rankings.average_precision(),
            "mrr": reciprocal,
            "pairwise_accuracy": rankings.pairs_in_order(),
        }
        self._columns = {
            "ndcg": [rankings.ndcg(k) for k in self._at],
            "map": [rankings.average_precision(k) for k in self._at],
            "mrr": [rankings.reciprocal_rank(k) for k in self._at],
        }

    def facts(self) -> dict[str, Any]:
        """Return how many documents and queries there are."""
        return {
            "n_samples": self._n_documents,
            "n_queries": self.n_units,
            "n_queries_without_relevant": self._without_relevant,
            "at": [{"k": k} for k in self._at],
        }

    def by_query(self, k: int) -> Vector:
        """Return NDCG@k of each query, NaN without a relevant document."""
        return self._columns["ndcg"][self._at.index(k)]

    def at(self, counts: Vector) -> Measures:
        """Return means over the queries with a relevant document."""
        table: Columns = {
            name: np.array([_mean(values, counts) for values in column])
            for name, column in self._columns.items()
        }
        ndcg = {f"ndcg_{k}": float(v) for k, v in zip(self._at, table["ndcg"], strict=True)}
        whole = {name: _mean(values, counts) for name, values in self._each.items()}
        return {**ndcg, **whole, "at": table}


def _mean(values: Vector, weights: Vector) -> float:
    mean = mean_of_defined(values, weights)
    return float("nan") if mean is None else mean
