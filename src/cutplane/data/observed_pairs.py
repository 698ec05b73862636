"""Features of pairs of labels, for pairs that were observed.

Compiled: products with features whose weights belong to pairs of a feature and a class.

Entries of common features name a row of a table, which has a column for each class. All other
entries are written out as the pairs of their feature. Rows of the table are a multiple of `LANES`
numbers long, and dealt with so many at a time: loops whose length the compiler knows become a few
vector instructions, others take several times as long on rows that are so short. Positions are
unsigned for the reason given in `cutplane.data.layouts`.

Weights for those pairs of feature and class that occur together.

With named features most pairs never occur: in CoNLL-2000 with the templates of CRF++ and 22 labels,
one in 16 does. A model with weights for these only is another model, and a smaller one: its vectors
and planes have a number for each pair that occurs, and no memory is spent on the others.

A few features occur with many classes, and most entries of the matrix are theirs. Their weights are
written to a table with a column for every class, whose rows can be added up without looking at
single pairs. Entries of other features are written out as the pairs that they stand for, so that
nothing has to be looked up: see :mod:`cutplane.data.observed_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import count_blocks
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.threads import run_blocks
from cutplane.data.layouts import CompressedRows, balanced_bounds, chosen_entries
from cutplane.data.rows import Bounds, Entries, Examples, PairMap, Rows

LANES = 8


class SplitEntries(NamedTuple):
    """The entries of a matrix, split into those of common features and the pairs of all others.

    Where all entries are one, there is a single value for all of them.
    """

    common_starts: NDArray[np.int64]  # where the entries of each example begin
    common_rows: NDArray[np.int32]  # the row of the table
    common_values: NDArray[Any]
    rare_starts: NDArray[np.int64]  # where the pairs of each example begin
    rare_pairs: NDArray[Any]
    rare_classes: NDArray[Any]
    rare_values: NDArray[Any]


@njit(cache=True, nogil=True)
def mark_pairs(
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
def count_parts(
    csr: Entries, pair_starts: NDArray[np.int64], place: NDArray[np.int32], into: SplitEntries
) -> None:
    """Fill in where the entries of each example begin; ``place`` is a row of the table, or -1."""
    _, indices, starts = csr
    for i in range(len(starts) - 1):
        common, rare = into.common_starts[i], into.rare_starts[i]
        for entry in range(starts[i], starts[i + 1]):
            j = indices[entry]
            if place[j] >= 0:
                common += 1
            else:
                rare += pair_starts[j + 1] - pair_starts[j]
        into.common_starts[i + 1], into.rare_starts[i + 1] = common, rare


@njit(cache=True, nogil=True)
def fill_parts(
    csr: Entries,
    pair_starts: NDArray[np.int64],
    classes: NDArray[Any],
    place: NDArray[np.int32],
    into: SplitEntries,
) -> None:
    """Fill in the entries, once it is known where those of each example begin."""
    values, indices, starts = csr
    with_common, with_rare = len(into.common_values) > 1, len(into.rare_values) > 1
    for i in range(len(starts) - 1):
        common, rare = into.common_starts[i], into.rare_starts[i]
        for entry in range(starts[i], starts[i + 1]):
            j = indices[entry]
            if place[j] >= 0:
                into.common_rows[common] = place[j]
                if with_common:
                    into.common_values[common] = values[entry]
                common += 1
            else:
                for pair in range(pair_starts[j], pair_starts[j + 1]):
                    into.rare_pairs[rare] = pair
                    into.rare_classes[rare] = classes[pair]
                    if with_rare:
                        into.rare_values[rare] = values[entry]
                    rare += 1


@njit(cache=True, nogil=True, fastmath=REORDER)
def fill_scores(
    entries: SplitEntries, w: Vector, table: Vector, width: int, begin: int, end: int,
    out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write the scores of examples ``begin <= i < end`` to the rows of ``out``."""
    starts, rows, values, rare_starts, pairs, classes, rare_values = entries
    step, rare_step = min(len(values) - 1, 1), min(len(rare_values) - 1, 1)
    z = np.zeros(width)
    for i in range(begin, end):
        for c in range(0, width, LANES):
            z0 = z1 = z2 = z3 = z4 = z5 = z6 = z7 = 0.0
            for entry in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                x = np.float64(values[np.uint64(entry * step)])
                k = np.uint64(rows[entry]) * np.uint64(width) + np.uint64(c)
                z0 += x * table[k]
                z1 += x * table[k + np.uint64(1)]
                z2 += x * table[k + np.uint64(2)]
                z3 += x * table[k + np.uint64(3)]
                z4 += x * table[k + np.uint64(4)]
                z5 += x * table[k + np.uint64(5)]
                z6 += x * table[k + np.uint64(6)]
                z7 += x * table[k + np.uint64(7)]
            z[c], z[c + 1], z[c + 2], z[c + 3] = z0, z1, z2, z3
            z[c + 4], z[c + 5], z[c + 6], z[c + 7] = z4, z5, z6, z7
        for entry in range(np.uint64(rare_starts[i]), np.uint64(rare_starts[i + 1])):
            x = np.float64(rare_values[np.uint64(entry * rare_step)])
            z[np.uint64(classes[entry])] += x * w[np.uint64(pairs[entry])]
        for label in range(out.shape[1]):
            out[i - begin, label] = z[label]


@njit(cache=True, nogil=True, fastmath=REORDER)
def add_pullback(
    entries: SplitEntries, slopes: NDArray[np.float64], total: Vector, table: Vector, width: int,
    begin: int,
) -> None:  # fmt: skip
    """Add what examples contribute, from ``begin`` on, to the sums over pairs and the table."""
    starts, rows, values, rare_starts, pairs, classes, rare_values = entries
    step, rare_step = min(len(values) - 1, 1), min(len(rare_values) - 1, 1)
    n_classes = slopes.shape[1]
    s = np.zeros(width)
    for i in range(len(slopes)):
        some = False
        for label in range(n_classes):
            s[label] = slopes[i, label]
            some = some or s[label] != 0.0
        if not some:  # as most examples of a margin loss
            continue
        first, last = np.uint64(starts[begin + i]), np.uint64(starts[begin + i + 1])
        for c in range(0, width, LANES):
            s0, s1, s2, s3 = s[c], s[c + 1], s[c + 2], s[c + 3]
            s4, s5, s6, s7 = s[c + 4], s[c + 5], s[c + 6], s[c + 7]
            for entry in range(first, last):
                x = np.float64(values[np.uint64(entry * step)])
                k = np.uint64(rows[entry]) * np.uint64(width) + np.uint64(c)
                table[k] += x * s0
                table[k + np.uint64(1)] += x * s1
                table[k + np.uint64(2)] += x * s2
                table[k + np.uint64(3)] += x * s3
                table[k + np.uint64(4)] += x * s4
                table[k + np.uint64(5)] += x * s5
                table[k + np.uint64(6)] += x * s6
                table[k + np.uint64(7)] += x * s7
        first, last = np.uint64(rare_starts[begin + i]), np.uint64(rare_starts[begin + i + 1])
        for entry in range(first, last):
            x = np.float64(rare_values[np.uint64(entry * rare_step)])
            total[np.uint64(pairs[entry])] += x * s[np.uint64(classes[entry])]


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

    rows: CompressedRows
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
        self.score_shape = (n_classes,)
        self._n_classes = n_classes
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
        out = np.empty((self.rows.shape[0], self._n_classes))
        score = self.scorer(w)
        bounds = balanced_bounds(self.rows.starts, self._n_blocks)
        run_blocks(
            lambda first, last: score(bounds[first], bounds[last], out[bounds[first] :]),
            len(bounds) - 1,
            n_threads=self.rows.n_threads,
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
        bounds = balanced_bounds(self.rows.starts, self.n_sums)
        return np.asarray(self.block_pullbacks(slopes, bounds).sum(axis=0))

    def squared(self) -> ObservedPairs:
        """Return the map with the squares of the features."""
        changed, entries = copy(self), self._entries
        changed._entries = entries._replace(
            common_values=entries.common_values**2, rare_values=entries.rare_values**2
        )
        return changed

    def part(self, examples: Examples) -> Self:
        """Return the map for some examples, with weights for the same pairs."""
        part = super().part(examples)
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

        run_blocks(pull_back, len(found), n_threads=self.rows.n_threads)
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
