"""Documents by query: who competes with whom, and in which order they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector


class Queries:
    """Which query each document belongs to.

    Parameters
    ----------
    qid : array-like of shape (n_documents,)
        The query of each document: numbers or words, in any order.

    Attributes
    ----------
    names : ndarray of shape (n_queries,)
        The queries, sorted.
    numbers : ndarray of shape (n_documents,)
        The query of each document as its place in ``names``.
    sizes : ndarray of shape (n_queries,)
        How many documents each query has.
    starts : ndarray of shape (n_queries + 1,)
        Where each query begins, in documents sorted by query.
    """

    def __init__(self, qid: Any) -> None:
        names, numbers, sizes = np.unique(np.asarray(qid), return_inverse=True, return_counts=True)
        if numbers.ndim != 1:
            raise ValueError(f"qid has shape {numbers.shape}, but there is one query a document")
        self.names: NDArray[Any] = names
        self.numbers: NDArray[np.int64] = numbers
        self.sizes: NDArray[np.int64] = sizes
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)])

    @classmethod
    def one(cls, n_documents: int) -> Queries:
        """Return a single query that all documents belong to."""
        return cls(np.zeros(n_documents, dtype=np.int64))

    def qid(self, documents: NDArray[np.int64] | slice) -> NDArray[Any]:
        """Return the query of some of the documents."""
        return np.asarray(self.names[self.numbers[documents]])

    def positions(self) -> NDArray[np.int64]:
        """Return the position of each document in its query, from 0, when sorted by query."""
        begins: NDArray[np.int64] = np.repeat(self.starts[:-1], self.sizes)
        return np.arange(len(begins)) - begins

    def weights_of(self, weights: Vector) -> Vector:
        """Return the weight of each query, from equal weights of its documents."""
        each = np.empty(len(self))
        each[self.numbers] = weights
        if not np.array_equal(each[self.numbers], weights):
            raise ValueError("all documents of a query must have the same weight")
        return each

    def __len__(self) -> int:
        return len(self.sizes)


def is_missing(qid: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which queries are NaN, None or pandas' NA."""
    if qid.dtype.kind != "O":
        return np.asarray(qid != qid)
    return np.array(
        [name is None or type(name).__name__ == "NAType" or name != name for name in qid.ravel()],
        dtype=bool,
    )


class Judged:
    """Documents sorted by query, and within each from the most to the least relevant.

    Attributes
    ----------
    documents : ndarray of shape (n_documents,)
        The documents in this order. Ties are in that of their rows in the sample.
    starts : ndarray of shape (n_queries + 1,)
        Where each query begins.
    relevance : ndarray of shape (n_documents,)
        In this order.
    grades : ndarray of shape (n_documents,)
        Different relevances of a query, numbered from 1, the least relevant.
    weights : ndarray of shape (n_queries,)
        The weight of each query.
    """

    def __init__(
        self,
        queries: Queries,
        y: Vector,
        weights: Vector,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        if len(y) != len(queries.numbers):
            raise ValueError(f"{len(y)} targets, but queries of {len(queries.numbers)} documents")
        self.documents = np.lexsort(
            (-y, queries.numbers) if rows is None else (rows, -y, queries.numbers)
        )
        self.starts, self.positions = queries.starts, queries.positions
        self.relevance = y[self.documents]
        self.grades = self._grades(queries.numbers[self.documents])
        self.weights = queries.weights_of(weights)

    def means(self, values: Vector) -> Vector:
        """Return for each document the mean of ``values`` over those of its query and grade."""
        changes = np.ones(len(values), dtype=np.bool_)
        changes[1:] = np.diff(self.grades) != 0
        changes[self.starts[:-1]] = True
        begins = np.flatnonzero(changes)
        lengths = np.diff(np.append(begins, len(values)))
        means: Vector = np.add.reduceat(values, begins) / lengths
        return np.repeat(means, lengths)

    def _grades(self, query: NDArray[np.int64]) -> NDArray[np.int64]:
        # Counted from the end, where the least relevant document of a query stands.
        y, query = self.relevance[::-1], query[::-1]
        first = np.diff(query, prepend=-1) != 0
        rises = np.cumsum(first | (np.diff(y, prepend=0.0) != 0.0))
        before = rises[first] - 1
        grades: NDArray[np.int64] = rises - before[np.cumsum(first) - 1]
        return grades[::-1].copy()


def gains_of(relevance: Vector) -> Vector:
    """Return ``2^relevance - 1``."""
    with np.errstate(over="ignore"):
        gains: Vector = np.exp2(relevance) - 1.0
    if not np.isfinite(gains).all():
        raise ValueError(f"relevance {relevance.max():g} is too large for a gain of 2^relevance")
    return gains


def discounts_of(n: int) -> Vector:
    """Return ``1/log2(1 + p)`` for the first ``n`` positions."""
    discounts: Vector = 1.0 / np.log2(np.arange(2.0, n + 2.0))
    return discounts


def discounts_at(positions: NDArray[np.int64], n: int) -> Vector:
    """Return the discounts of positions, counted from 0, of which only the first ``n`` count."""
    discounts: Vector = np.append(discounts_of(n), 0.0)[np.minimum(positions, n)]
    return discounts
