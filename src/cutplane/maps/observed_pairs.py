"""Weights for those pairs of feature and class that occur together.

With named features most pairs never occur: in CoNLL-2000 with the templates of CRF++ and 22 labels,
one in 16 does. A model with weights for these only is another model, and a smaller one: its vectors
and planes have a number for each pair that occurs, and no memory is spent on the others.

A few features occur with many classes, and most entries of the matrix are theirs. Their weights are
written to a table with a column for every class, whose rows can be added up without looking at
single pairs. Entries of other features are written out as the pairs that they stand for, so that
nothing has to be looked up: see :mod:`cutplane.maps.pair_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import count_blocks, run_blocks
from cutplane.maps.csr import CompressedRows, balanced_bounds, chosen_entries
from cutplane.maps.pair_kernels import (
    LANES,
    SplitEntries,
    add_pullback,
    count_parts,
    fill_parts,
    fill_scores,
    mark_pairs,
)
from cutplane.maps.rows import Bounds, Examples, Rows
from cutplane.maps.score_maps import PairMap

# A feature is common if it occurs with at least this share of the classes.
_SHARE = 0.25
# Each block of a pullback has sums of its own: at most this many.
_MOST_SUMS = 8

Scorer = Callable[[int, int, Matrix], None]


class ObservedPairs(PairMap):
    """A weight for every pair of a feature and a class that occur together, feature after feature.

    Parameters
    ----------
    rows : Rows
        The features of all examples; sparse.
    y : ndarray of shape (n_samples,)
        The class of each example; -1 for those that are not to be looked at.
    n_classes : int
        Number of classes.
    weighted : ndarray of bools of shape (n_features, n_classes), optional
        The pairs that have a weight, where these examples are only a part of all.
    """

    observed = True

    def __init__(
        self,
        rows: Rows,
        y: NDArray[np.int32],
        n_classes: int,
        *,
        weighted: NDArray[np.bool_] | None = None,
    ) -> None:
        if not isinstance(rows, CompressedRows):
            raise ValueError("observed pairs of feature and class need a sparse matrix of features")
        self.rows = rows
        self.row_starts = rows.starts
        self.score_shape = (n_classes,)
        self._n_classes = n_classes
        self._n_threads = rows.n_threads
        n_features = rows.shape[1]
        seen = np.zeros((n_features, n_classes), dtype=np.bool_)
        counts = np.zeros(n_features, dtype=np.int64)
        mark_pairs(rows.entries(), y, seen, counts)
        if weighted is not None:
            seen = weighted
        per_feature = np.count_nonzero(seen, axis=1)
        self._starts = np.concatenate([[0], np.cumsum(per_feature)]).astype(np.int64)
        self._classes = np.nonzero(seen)[1].astype(np.min_scalar_type(max(n_classes - 1, 0)))
        self.n_parameters = len(self._classes)
        # Common features have rows of the table, those with many entries the first ones.
        common = np.flatnonzero(per_feature >= max(_SHARE * n_classes, 2.0))
        common = common[np.argsort(-counts[common], kind="stable")]
        table_row = np.full(n_features, -1, dtype=np.int32)
        table_row[common] = np.arange(len(common), dtype=np.int32)
        self._entries = _split(rows, self._starts, self._classes, table_row)
        self._table = _Table.of(table_row, self._starts, self._classes, n_classes)
        # A weight is cleared and added up in each block that has sums: four products pay for that.
        products = int(counts @ per_feature)
        affordable = products // (4 * max(self.n_parameters, 1))
        self.n_sums = count_blocks(products, most=min(affordable, _MOST_SUMS))
        self._n_blocks = count_blocks(products)

    def scores(self, w: Vector) -> Matrix:
        """Return the score of each class (column) for each example (row)."""
        out = np.empty((len(self.row_starts) - 1, self._n_classes))
        score = self.scorer(w)
        bounds = balanced_bounds(self.row_starts, self._n_blocks)
        run_blocks(
            lambda first, last: score(bounds[first], bounds[last], out[bounds[first] :]),
            len(bounds) - 1,
            n_threads=self._n_threads,
        )
        return out

    def scorer(self, w: Vector) -> Scorer:
        """Return what writes the scores of examples ``begin <= i < end`` to the rows of ``out``."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        return partial(fill_scores, self._entries, w, self._table.filled(w), self._table.width)

    def sums(self) -> PairSums:
        """Return sums of slopes over examples: none so far."""
        return PairSums(self._entries, self._table, np.zeros(self.n_parameters))

    def pullback(self, slopes: Matrix) -> Vector:
        """Return the derivatives by the weights."""
        bounds = balanced_bounds(self.row_starts, self.n_sums)
        return np.asarray(self.block_pullbacks(slopes, bounds).sum(axis=0))

    def squared(self) -> ObservedPairs:
        """Return the map with the squares of the features."""
        changed, entries = copy(self), self._entries
        changed._entries = entries._replace(
            common_values=entries.common_values**2, rare_values=entries.rare_values**2
        )
        return changed

    def part(self, examples: Examples) -> ObservedPairs:
        """Return the map for some examples, with weights for the same pairs."""
        part = copy(self)
        part.rows = self.rows.part(examples)
        part.row_starts = chosen_entries(self.row_starts, examples)[0]
        common, rare = (_chosen(examples, *some) for some in (self._entries[:3], self._entries[3:]))
        part._entries = SplitEntries._make([*common, *rare])
        return part

    def block_pullbacks(self, slopes: Matrix, bounds: Bounds) -> Matrix:
        """Return the part of each block in `pullback`, one line a block."""
        slopes = np.ascontiguousarray(slopes, dtype=np.float64)
        found = np.empty((len(bounds) - 1, self.n_parameters))

        def pull_back(first: int, last: int) -> None:
            for block in range(first, last):
                begin, end = bounds[block], bounds[block + 1]
                sums = self.sums()
                sums.add(slopes[begin:end], begin)
                found[block] = sums.by_pair()

        run_blocks(pull_back, len(found), n_threads=self._n_threads)
        return found

    def weighted(self) -> NDArray[np.bool_]:
        """Say of each feature (row) and class (column) whether they have a weight."""
        flags = np.zeros((len(self._starts) - 1, self._n_classes), dtype=np.bool_)
        flags[self._features(), self._classes] = True
        return flags

    def from_table(self, table: Matrix) -> Vector:
        """Return the weights of a table."""
        return np.asarray(table[self._features(), self._classes])

    def add_to_table(self, w: Vector, table: Matrix) -> None:
        """Add weights to a table."""
        table[self._features(), self._classes] += w

    def _features(self) -> NDArray[np.int64]:
        """Return the feature of each pair."""
        return np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))

    def as_matrix(self, w: Vector) -> Any:
        """Return the weights with one row a class and one column a feature: a sparse matrix."""
        shape = (len(self._starts) - 1, self._n_classes)
        classes = self._classes.astype(np.int32)
        by_feature = scipy.sparse.csr_array((w, classes, self._starts), shape=shape)
        return by_feature.T.tocsr()


class PairSums:
    """Derivatives by the weights, summed over some examples."""

    def __init__(self, entries: SplitEntries, table: _Table, total: Vector) -> None:
        self._entries, self._table = entries, table
        self._total, self._sums = total, table.empty()

    def add(self, slopes: Matrix, begin: int) -> None:
        """Add what examples contribute, from ``begin`` on, whose scores have these derivatives."""
        add_pullback(self._entries, slopes, self._total, self._sums, self._table.width, begin)

    def add_sums(self, other: PairSums) -> None:
        """Add those of other examples."""
        self._total += other._total
        self._sums += other._sums

    def by_pair(self) -> Vector:
        """Return the sums, one for each weight. The object is of no use after that."""
        self._total[self._table.pairs] = self._sums[self._table.places]
        return self._total


class _Table(NamedTuple):
    """Where the weights of common features lie in a table, row after row."""

    n_rows: int
    width: int
    pairs: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        table_row: NDArray[np.int32],
        pair_starts: NDArray[np.int64],
        classes: NDArray[Any],
        n_classes: int,
    ) -> _Table:
        """Return the table for features that have rows in it, those of number 0 and more."""
        width = -(-n_classes // LANES) * LANES
        row = np.repeat(table_row, np.diff(pair_starts)).astype(np.int64)
        pairs = np.flatnonzero(row >= 0)
        places = row[pairs] * width + classes[pairs]
        return cls(int(table_row.max(initial=-1)) + 1, width, pairs, places)

    def empty(self) -> Vector:
        """Return a table of zeros."""
        return np.zeros(self.n_rows * self.width)

    def filled(self, w: Vector) -> Vector:
        """Return a table of weights."""
        table = self.empty()
        table[self.places] = w[self.pairs]
        return table


def _split(
    rows: CompressedRows,
    pair_starts: NDArray[np.int64],
    classes: NDArray[Any],
    table_row: NDArray[np.int32],
) -> SplitEntries:
    """Return the entries of common features, and the pairs of all others."""
    n_rows, values = rows.shape[0], rows.values[: rows.n_entries]
    one = np.ones(1, values.dtype)
    starts = [np.zeros(n_rows + 1, dtype=np.int64) for _ in range(2)]
    none = np.empty(0, dtype=np.int32)
    nothing = SplitEntries(starts[0], none, one, starts[1], none, classes[:0], one)
    count_parts(rows.entries(), pair_starts, table_row, nothing)
    n_common, n_rare = int(starts[0][-1]), int(starts[1][-1])
    # Features are mostly there or not there. Then one value serves all; else there are two or more.
    same = bool((values == 1.0).all())
    split = SplitEntries(
        starts[0],
        np.empty(n_common, dtype=np.int32),
        one if same else np.empty(max(n_common, 2), values.dtype),
        starts[1],
        np.empty(n_rare, dtype=np.int32 if len(classes) <= np.iinfo(np.int32).max else np.int64),
        np.empty(n_rare, dtype=classes.dtype),
        one if same else np.empty(max(n_rare, 2), values.dtype),
    )
    fill_parts(rows.entries(), pair_starts, classes, table_row, split)
    return split


def _chosen(examples: Examples, starts: NDArray[np.int64], *parts: NDArray[Any]) -> list[Any]:
    """Return where the entries of some examples begin, and what is known of each of them."""
    new, entries = chosen_entries(starts, examples)
    return [new, *(part if len(part) == 1 else part[entries] for part in parts)]
