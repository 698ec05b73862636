"""Weights for those pairs of feature and class that occur together.

With named features most pairs never occur: in CoNLL-2000 with the templates of CRF++ and 22 labels,
one in 16 does. A model with weights for these only is another model, and a smaller one: its vectors
and planes have a number for each pair that occurs, and no memory is spent on the others.

A few features occur with many classes, and most entries of the matrix are theirs. Their weights are
written to a table with a column for every class, whose rows can be added up without looking at
single pairs. On CoNLL-2000 that, and to have these features first in each row, makes the two
products take a third of the time. Positions are unsigned for the reason given in
:mod:`cutplane.maps.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.threads import count_blocks, run_blocks
from cutplane.maps.kernels import REORDER
from cutplane.maps.rows import Bounds, Entries, Examples, Rows
from cutplane.maps.score_maps import PairMap
from cutplane.maps.stored import CompressedRows, balanced_bounds, chosen_entries

# A feature is common if it occurs with at least this share of the classes. (CoNLL-2000, both
# products: 0.13 s with a quarter, 0.18 s with an eighth, 0.17 s with a third, 0.4 s without.)
_SHARE = 0.25
# Rows of the table have a multiple of this many numbers, as the processor adds them up.
_LANES = 8
# Each block of a pullback has sums of its own: at most this many.
_MOST_SUMS = 8

# Spans of the features, and classes of the pairs.
Pairs = tuple[NDArray[Any], NDArray[Any]]
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
    """

    observed = True

    def __init__(self, rows: Rows, y: NDArray[np.int32], n_classes: int) -> None:
        if not isinstance(rows, CompressedRows):
            raise ValueError("observed pairs of feature and class need a sparse matrix of features")
        self.rows = rows
        self.score_shape = (n_classes,)
        self._n_classes = n_classes
        self._n_threads = rows.n_threads
        n_features = rows.shape[1]
        seen = np.zeros((n_features, n_classes), dtype=np.bool_)
        counts = np.zeros(n_features, dtype=np.int64)
        _mark_pairs(rows.entries(), y, seen, counts)
        per_feature = np.count_nonzero(seen, axis=1)
        self._starts = np.concatenate([[0], np.cumsum(per_feature)]).astype(np.int64)
        self._classes = np.nonzero(seen)[1].astype(np.min_scalar_type(max(n_classes - 1, 0)))
        self.n_parameters = len(self._classes)
        # From here on features are numbered anew: common ones first, then those with many entries.
        common = per_feature >= max(_SHARE * n_classes, 2.0)
        order = np.lexsort((-counts, ~common))
        self._n_common = int(np.count_nonzero(common))
        spans = np.column_stack([self._starts[:-1], self._starts[1:]])[order]
        self._spans = spans.astype(np.min_scalar_type(self.n_parameters))
        number = np.empty(n_features, dtype=rows.indices.dtype)
        number[order] = np.arange(n_features)
        # Features are mostly there or not there. Then one value serves all.
        values = rows.values[: rows.n_entries]
        self._values = np.ones(1, values.dtype) if (values == 1.0).all() else np.empty_like(values)
        self._indices = np.empty(rows.n_entries, dtype=rows.indices.dtype)
        self.row_starts = rows.starts
        _common_first(rows.entries(), number, self._n_common, self._values, self._indices)
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
        table = self._empty_table()
        _fill_table(self._pairs, w, table)
        return partial(_scores, self._entries, self._pairs, w, table)

    def sums(self) -> PairSums:
        """Return sums of slopes over examples: none so far."""
        total, table = np.zeros(self.n_parameters), self._empty_table()
        return PairSums(self._entries, self._pairs, total, table)

    def pullback(self, slopes: Matrix) -> Vector:
        """Return the derivatives by the weights."""
        bounds = balanced_bounds(self.row_starts, self.n_sums)
        return np.asarray(self.block_pullbacks(slopes, bounds).sum(axis=0))

    def part(self, examples: Examples) -> ObservedPairs:
        """Return the map for some examples, with weights for the same pairs."""
        part = copy(self)
        part.row_starts, entries = chosen_entries(self.row_starts, examples)
        part._indices = self._indices[entries]
        if len(self._values) > 1:
            part._values = self._values[entries]
        part.rows = self.rows.part(examples)
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

    @property
    def _entries(self) -> Entries:
        return self._values, self._indices, self.row_starts

    @property
    def _pairs(self) -> Pairs:
        return self._spans, self._classes

    def _empty_table(self) -> Matrix:
        width = -(-self._n_classes // _LANES) * _LANES
        return np.zeros((self._n_common, width))


class PairSums:
    """Derivatives by the weights, summed over some examples."""

    def __init__(self, entries: Entries, pairs: Pairs, total: Vector, table: Matrix) -> None:
        self._entries, self._pairs = entries, pairs
        self._total, self._table = total, table

    def add(self, slopes: Matrix, begin: int) -> None:
        """Add what examples contribute, from ``begin`` on, whose scores have these derivatives."""
        _add_pullback(self._entries, self._pairs, slopes, self._total, self._table, begin)

    def add_sums(self, other: PairSums) -> None:
        """Add those of other examples."""
        self._total += other._total
        self._table += other._table

    def by_pair(self) -> Vector:
        """Return the sums, one for each weight. The object is of no use after that."""
        _read_table(self._pairs, self._table, self._total)
        return self._total


@njit(cache=True, nogil=True)
def _mark_pairs(
    csr: Entries, y: NDArray[np.int32], seen: NDArray[np.bool_], counts: NDArray[np.int64]
) -> None:
    """Mark the pairs that occur, and count the entries of each feature."""
    values, indices, starts = csr
    for i in range(len(y)):
        for entry in range(starts[i], starts[i + 1]):
            counts[indices[entry]] += 1
            if y[i] >= 0 and values[entry] != 0.0:
                seen[indices[entry], y[i]] = True


@njit(cache=True, nogil=True)
def _common_first(
    csr: Entries,
    number: NDArray[Any],
    n_common: int,
    out_values: NDArray[Any],
    out_indices: NDArray[Any],
) -> None:
    """Copy the entries with new numbers, those of common features first in each row."""
    values, indices, starts = csr
    with_values = len(out_values) == len(out_indices)
    for i in range(len(starts) - 1):
        place = starts[i]
        for rare in (False, True):
            for entry in range(starts[i], starts[i + 1]):
                j = number[indices[entry]]
                if (j >= n_common) == rare:
                    out_indices[place] = j
                    if with_values:
                        out_values[place] = values[entry]
                    place += 1


@njit(cache=True, nogil=True)
def _fill_table(pairs: Pairs, w: Vector, table: Matrix) -> None:
    spans, classes = pairs
    for j in range(len(table)):
        for pair in range(spans[j, 0], spans[j, 1]):
            table[j, classes[pair]] = w[pair]


@njit(cache=True, nogil=True)
def _read_table(pairs: Pairs, table: Matrix, total: Vector) -> None:
    spans, classes = pairs
    for j in range(len(table)):
        for pair in range(spans[j, 0], spans[j, 1]):
            total[pair] = table[j, classes[pair]]


@njit(cache=True, nogil=True, fastmath=REORDER)
def _scores(
    csr: Entries, pairs: Pairs, w: Vector, table: Matrix, begin: int, end: int, out: Matrix
) -> None:
    values, indices, starts = csr
    spans, classes = pairs
    n_common, width = table.shape
    step = 1 if len(values) > 1 else 0
    z = np.empty(width)
    for i in range(begin, end):
        z[:] = 0.0
        for entry in range(starts[i], starts[i + 1]):
            x, j = values[np.uint64(entry * step)], np.uint64(indices[entry])
            if j < np.uint64(n_common):
                for k in range(width):
                    z[k] += x * table[j, k]
            else:
                for pair in range(np.uint64(spans[j, 0]), np.uint64(spans[j, 1])):
                    z[classes[pair]] += x * w[pair]
        for k in range(out.shape[1]):
            out[i - begin, k] = z[k]


@njit(cache=True, nogil=True, fastmath=REORDER)
def _add_pullback(
    csr: Entries, pairs: Pairs, slopes: Matrix, total: Vector, table: Matrix, begin: int
) -> None:
    values, indices, starts = csr
    spans, classes = pairs
    n_common, width = table.shape
    n_classes = slopes.shape[1]
    step = 1 if len(values) > 1 else 0
    s = np.zeros(width)
    for i in range(len(slopes)):
        some = False
        for k in range(n_classes):
            s[k] = slopes[i, k]
            some = some or s[k] != 0.0
        if not some:  # as most examples of a margin loss
            continue
        for entry in range(starts[begin + i], starts[begin + i + 1]):
            x, j = values[np.uint64(entry * step)], np.uint64(indices[entry])
            if j < np.uint64(n_common):
                for k in range(width):
                    table[j, k] += x * s[k]
            else:
                for pair in range(np.uint64(spans[j, 0]), np.uint64(spans[j, 1])):
                    total[pair] += x * s[classes[pair]]
