"""Which documents compete with those that are here, where a query has documents elsewhere too.

Rows of a sample that lies on several members of a team are cut by their numbers alone
(`cutplane.compute.blocks`), so that a query may have documents in two blocks. Its rows stay where
they are. Whoever has a document of it gets the scores of all others, a number for each, and
evaluates the whole query: so no query is ever split, whatever order the documents are in, and none
of their features travel. If documents are sorted by query, there is at most one such query at each
bound of blocks.

Sums over queries are taken along the tree of blocks, each query in the block of its first document.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import add_up, joined, placed, row_numbers
from cutplane.compute.threads import map_blocks
from cutplane.losses.ranking.queries import Queries


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
        self._homes = self._queries_by_block()

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

    def _queries_by_block(self) -> list[NDArray[np.int64]]:
        """Return for each block here the queries whose first document is in it, in that order."""
        first = np.full(len(self.queries), np.iinfo(np.int64).max)
        np.minimum.at(first, self.queries.numbers, self.rows)
        order = np.argsort(first)
        rows = self.rows
        ends = map_blocks(lambda i: (rows[i.start], rows[i.stop - 1] + 1), self.n_here)
        edges = np.searchsorted(first[order], np.array(ends))
        return [order[begin:end] for begin, end in edges.tolist()]

    def sums(self, *of_queries: Vector) -> tuple[float, ...]:
        """Return the sums over all queries of vectors with a number for each of those here."""
        parts = [tuple(float(v[own].sum()) for v in of_queries) for own in self._homes]
        return add_up(parts)
