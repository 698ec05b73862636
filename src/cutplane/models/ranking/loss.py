"""What losses for ranking share: documents compete within queries.

Only differences of scores within a query matter. The losses are sums over queries, of which those
without documents of different relevance do not count.

Rows of a sample that lies on several members of a team are cut by their numbers alone
(`cutplane.compute.blocks`), so that a query may have documents in two blocks. Its rows stay where
they are. Whoever has a document of it gets the scores of all others, a number for each, and
evaluates the whole query: so no query is ever split, whatever order the documents are in, and none
of their features travel. If documents are sorted by query, there is at most one such query at each
bound of blocks. Sums over queries are taken along the tree of blocks, each query in the block of
its first document.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import add_up, joined, placed, row_numbers
from cutplane.compute.products import product_over
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.core.search import minimize_roughly
from cutplane.losses.loss import AtBestOffset, Examples, Loss, Tangent


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
        self, queries: Queries, y: Vector, weights: Vector, rows: NDArray[np.int64]
    ) -> None:
        if len(y) != len(queries.numbers):
            raise ValueError(f"{len(y)} targets, but queries of {len(queries.numbers)} documents")
        self.documents = np.lexsort((rows, -y, queries.numbers))
        self.starts, self.positions = queries.starts, queries.positions
        self.relevance = y[self.documents]
        # Grades are counted from the end, where the least relevant document of a query stands.
        query = queries.numbers[self.documents][::-1]
        first = np.diff(query, prepend=-1) != 0
        rises = np.cumsum(first | (np.diff(self.relevance[::-1], prepend=0.0) != 0.0))
        before = rises[first] - 1
        self.grades: NDArray[np.int64] = (rises - before[np.cumsum(first) - 1])[::-1].copy()
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
    counting: Vector = np.append(discounts_of(n), 0.0)
    return counting[np.minimum(positions, n)]


class Competition:
    """The documents that are here, and behind them those elsewhere of the same queries.

    Parameters
    ----------
    queries : Queries
        Of the documents that are here.

    Attributes
    ----------
    queries : Queries
        Of all of these documents.
    rows : ndarray
        The number of each in the whole sample.
    n_here : int
        How many are here.
    """

    def __init__(self, queries: Queries) -> None:
        self.n_here = len(queries.numbers)
        self.queries, self.rows = queries, row_numbers(self.n_here)
        # Documents here that others need, and places of the others' in what all send together.
        self._sent, self._guests = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._alone = placed() is None
        if not self._alone:
            self._invite(queries)
        # For each block here the queries whose first document is in it, in that order.
        first = np.full(len(self.queries), np.iinfo(np.int64).max)
        np.minimum.at(first, self.queries.numbers, self.rows)
        order, rows = np.argsort(first), self.rows
        ends = map_blocks(lambda i: (rows[i.start], rows[i.stop - 1] + 1), self.n_here)
        edges = np.searchsorted(first[order], np.array(ends))
        self._homes = [order[begin:end] for begin, end in edges.tolist()]

    def _invite(self, own: Queries) -> None:
        """Find the documents elsewhere of queries that have one here."""
        found = joined(map_blocks(lambda i: (np.unique(own.qid(i)),), self.n_here))[0]
        names, n_blocks = np.unique(found, return_counts=True)
        spread = names[n_blocks > 1]
        if len(spread) == 0:  # for all members alike
            self._alone = True
            return
        self._sent = np.flatnonzero(np.isin(own.names, spread)[own.numbers])
        qid, rows = self._sent_by_all(own.qid(slice(None)), self.rows)
        elsewhere = np.isin(rows, self.rows[self._sent], invert=True)
        self._guests = np.flatnonzero(elsewhere & np.isin(qid, own.names))
        self.queries = Queries(np.concatenate([own.qid(slice(None)), qid[self._guests]]))
        self.rows = np.concatenate([self.rows, rows[self._guests]])

    def _sent_by_all(self, *vectors: NDArray[Any]) -> list[NDArray[Any]]:
        def sent(part: slice) -> tuple[NDArray[Any], ...]:
            first, last = np.searchsorted(self._sent, [part.start, part.stop])
            own = self._sent[first:last]
            return tuple(vector[own] for vector in vectors)

        return joined(map_blocks(sent, self.n_here))

    def with_guests(self, *vectors: Vector) -> list[Vector]:
        """Return vectors of the documents here, each followed by the numbers of those elsewhere."""
        if self._alone:
            return [*vectors]
        everywhere = self._sent_by_all(*vectors)
        return [
            np.concatenate([own, found[self._guests]])
            for own, found in zip(vectors, everywhere, strict=True)
        ]

    def sums(self, *of_queries: Vector) -> tuple[float, ...]:
        """Return the sums over all queries of vectors with a number for each of those here."""
        parts = [tuple(float(v[own].sum()) for v in of_queries) for own in self._homes]
        return add_up(parts)


class Evaluated(NamedTuple):
    """The loss at some scores, and its tangent there: ``value = offset + slopes.scores``."""

    value: float
    slopes: Vector
    offset: float


class _Prepared(NamedTuple):
    """What depends on targets and weights only."""

    y: Vector
    weights: Vector
    competition: Competition
    judged: Judged
    tables: tuple[Any, ...]


class _Last(NamedTuple):
    """What was computed last, for which scores, and where these were."""

    prepared: _Prepared
    scores: Vector
    place: Vector
    evaluated: Evaluated


class RankingLoss(Loss):
    """What losses over queries share. Without `for_queries` all documents are of one query."""

    task = "ranking"
    additive = False
    in_blocks = True
    of_differences = True
    # Each step of a search along a ray costs as much as an evaluation of the loss. On MQ2008 (folds
    # 1 to 3, lam = 1e-2 to 1e-4, gap 1e-3) there are about 8 evaluations in an iteration, 17 with
    # an exact search, and as many iterations.
    search_slack = 0.2
    # One of `kernels.py`.
    _kernel: ClassVar[Callable[..., None]]

    def __init__(self) -> None:
        self._queries: Queries | None = None
        self._prepared: _Prepared | None = None
        self._sortings: list[NDArray[np.int64]] = []
        self._last: _Last | None = None

    def for_queries(self, qid: Any) -> Self:
        """Return the loss for documents of these queries: numbers or words, in any order."""
        bound = copy(self)
        bound._queries = qid if isinstance(qid, Queries) else Queries(qid)
        return bound

    def part(self, examples: Examples) -> Self:
        """Return the loss for some of the documents."""
        return self if self._queries is None else self.for_queries(self._queries.qid(examples))

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if the loss is not defined for these degrees of relevance."""
        if not np.isfinite(y).all():
            raise ValueError("a relevance is not finite")

    def check_judgements(self, y: Vector, weights: Vector) -> None:
        """Raise ValueError if there is nothing to rank, or weights differ within a query."""
        self._prepare(y, weights)

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        value, slopes, _ = self.evaluate(y, scores, weights)
        return value, slopes.copy()

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        return self.evaluate(y, scores, weights).value

    def tangent(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the tangent at these scores; its offset is computed without cancellation."""
        _, slopes, offset = self.evaluate(y, scores, weights)
        return Tangent(slopes, offset)

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return nearly the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        prepared = self._prepare(y, weights)

        # Scores elsewhere are sent for once, not for each step.
        known = prepared.competition.with_guests(scores, direction)

        def on_ray(step: float) -> tuple[float, float]:
            value, slopes, _ = self._evaluate(prepared, known[0] + step * known[1])
            return value, product_over(slopes, direction)

        return minimize_roughly(on_ray, extra, share=self.search_slack)

    def evaluate(self, y: Vector, scores: Vector, weights: Vector) -> Evaluated:
        """Return the loss and its tangent; the last ones are kept, since a point asks for both."""
        prepared, last = self._prepare(y, weights), self._last
        if last is not None and last.prepared is prepared:
            same = last.place is scores  # all members say the same
            if placed() is None:  # else scores elsewhere may differ where those here do not
                same = np.array_equal(last.scores, scores)
            if same:
                return last.evaluated
        found = self._evaluate(prepared, *prepared.competition.with_guests(scores))
        self._last = _Last(prepared, scores.copy(), scores, found)
        return found

    def _prepare(self, y: Vector, weights: Vector) -> _Prepared:
        """Return what depends on targets and weights only; kept, since they rarely change."""
        prepared = self._prepared
        if (
            prepared is None
            or not np.array_equal(y, prepared.y)
            or not np.array_equal(weights, prepared.weights)
        ):
            competition = Competition(self._queries or Queries.one(len(y)))
            relevance, their_weights = competition.with_guests(y, weights)
            judged = Judged(competition.queries, relevance, their_weights, competition.rows)
            tables = self._tables(competition, judged)
            self._prepared = prepared = _Prepared(
                y.copy(), weights.copy(), competition, judged, tables
            )
        return prepared

    @abstractmethod
    def _tables(self, competition: Competition, judged: Judged) -> tuple[Any, ...]:
        """Return what the kernel needs besides documents and scores."""

    def _evaluate(self, prepared: _Prepared, scores: Vector) -> Evaluated:
        """Return the loss at the scores of all documents that compete with those here."""
        judged, tables = prepared.judged, prepared.tables
        n_queries = len(judged.weights)
        slopes, values, offsets = np.zeros(len(scores)), np.zeros(n_queries), np.zeros(n_queries)
        # What was sorted last is a good start for sorting. It has no effect on the result, so that
        # it may come from any earlier call; a call in another thread makes its own.
        sorting = np.empty(0, dtype=np.int64)
        with suppress(IndexError):
            sorting = self._sortings.pop()
        if len(sorting) != len(scores):
            sorting = judged.positions()
        given = (scores, judged.documents, judged.starts)
        results = (sorting, slopes, values, offsets)
        map_blocks(
            lambda part: self._kernel(part.start, part.stop, given, tables, results),
            n_queries,
            width=max(1, len(scores) // n_queries),
        )
        self._sortings.append(sorting)
        value, offset = prepared.competition.sums(values, offsets)
        return Evaluated(value, slopes[: prepared.competition.n_here], offset)

    def __getstate__(self) -> dict[str, Any]:
        # A copy, too, starts without what is kept between calls.
        return {**self.__dict__, "_prepared": None, "_sortings": [], "_last": None}


def total_of(competition: Competition, weights: Vector) -> float:
    """Return the sum of the weights of the queries that count."""
    (total,) = competition.sums(weights)
    if not total > 0.0:
        raise ValueError(
            "nothing to rank: no query has two documents of different relevance and a weight"
        )
    return total
