"""Rows in memory, dense (C-contiguous or by columns) or CSR, and their compiled products.

All loops take the arrays of X, what to multiply, the array to fill, where blocks of rows begin, and
which blocks are theirs: ``first <= block < last``. Scores ``X w`` are written row by row; pullbacks
``X' slopes`` are sums, one for each block. Sums are float64, whatever the type of X. Rounding may
differ from a sum taken in another order; infinities and NaN propagate as usual.

Products with a vector read X once and do little else, so what counts is how many cache lines are on
their way from memory at a time. One pass from front to back leaves half the bandwidth unused: a
core runs only a few hundred instructions ahead. The loops therefore read *four streams* at once,
four rows a quarter of a block apart or four parts of a column.

Products for many classes, ``X W'`` and ``slopes' X``, read X only once: a few rows are in the cache
while all classes use them. That makes them limited by arithmetic, not by memory. Figures of both,
also beside BLAS, are in docs/decisions/2026-11-18-products.md.

Row ``i`` of CSR has the entries ``values[k]`` in the columns ``indices[k]``, ``starts[i] <= k <
starts[i+1]``. Positions are cast to unsigned integers because Numba otherwise tests each of them
for a negative index, which costs more than the multiplication.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cutplane.compute.arrays import Matrix, Vector, in_memory, require_in_memory, require_same
from cutplane.compute.blocks import added, bounds_here, count_blocks, rows_in_all
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.threads import default_threads
from cutplane.data.rows import (
    ROWS_OF_A_SUM,
    Bounds,
    Entries,
    Examples,
    Indices,
    Kernels,
    Rows,
    StoredRows,
    most_sparse_sums,
    read_only,
)

# Rows of a column-major matrix handled at a time: 128 kB of scores or slopes stay in L2.
COLUMN_TILE = 1 << 14
# With many classes: a column's part stays in L1 for all of them.
_CLASS_TILE = 512
# A number and its column in CSR.
_BYTES_OF_ENTRY = 12


@njit(cache=True, nogil=True, fastmath=REORDER)
def row_scores(
    X: NDArray[Any], w: Vector, out: Vector, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the scores, rows stored one after the other."""
    for block in range(first, last):
        rows = X[bounds[block] : bounds[block + 1]]
        z = out[bounds[block] : bounds[block + 1]]
        n, d = rows.shape
        q = n // 4
        for i in range(q):
            z0 = z1 = z2 = z3 = 0.0
            for j in range(d):
                z0 += rows[i, j] * w[j]
                z1 += rows[i + q, j] * w[j]
                z2 += rows[i + 2 * q, j] * w[j]
                z3 += rows[i + 3 * q, j] * w[j]
            z[i] = z0
            z[i + q] = z1
            z[i + 2 * q] = z2
            z[i + 3 * q] = z3
        for i in range(4 * q, n):
            z0 = 0.0
            for j in range(d):
                z0 += rows[i, j] * w[j]
            z[i] = z0


@njit(cache=True, nogil=True, fastmath=REORDER)
def row_pullback(
    X: NDArray[Any], slopes: Vector, sums: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the sums of each block; rows whose slope is zero are not read."""
    for block in range(first, last):
        rows = X[bounds[block] : bounds[block + 1]]
        s = slopes[bounds[block] : bounds[block + 1]]
        total = sums[block]
        for j in range(total.size):
            total[j] = 0.0
        used = np.empty(s.size, np.uint64)
        n = 0
        for i in range(s.size):
            used[n] = i  # overwritten by the next one if this is not kept: cheaper than a branch
            n += s[i] != 0.0
        q = n // 4
        for k in range(q):
            i0, i1, i2, i3 = used[k], used[k + q], used[k + 2 * q], used[k + 3 * q]
            s0, s1, s2, s3 = s[i0], s[i1], s[i2], s[i3]
            for j in range(total.size):
                total[j] += (s0 * rows[i0, j] + s1 * rows[i1, j]) + (
                    s2 * rows[i2, j] + s3 * rows[i3, j]
                )
        for k in range(4 * q, n):
            i0 = used[k]
            for j in range(total.size):
                total[j] += s[i0] * rows[i0, j]


@njit(cache=True, nogil=True, fastmath=REORDER)
def column_scores(
    columns: NDArray[Any], w: Vector, out: Vector, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the scores, columns stored one after the other."""
    d = len(columns)
    for block in range(first, last):
        end = bounds[block + 1]
        for start in range(bounds[block], end, COLUMN_TILE):
            stop = min(start + COLUMN_TILE, end)
            z = out[start:stop]
            z[:] = 0.0
            q = z.size // 4
            # Two columns at a time: half as often are the scores read and written.
            for j in range(0, d - 1, 2):
                x, y = columns[j, start:stop], columns[j + 1, start:stop]
                u, v = w[j], w[j + 1]
                for i in range(q):
                    z[i] += u * x[i] + v * y[i]
                    z[i + q] += u * x[i + q] + v * y[i + q]
                    z[i + 2 * q] += u * x[i + 2 * q] + v * y[i + 2 * q]
                    z[i + 3 * q] += u * x[i + 3 * q] + v * y[i + 3 * q]
                for i in range(4 * q, z.size):
                    z[i] += u * x[i] + v * y[i]
            if d % 2:
                x = columns[d - 1, start:stop]
                for i in range(z.size):
                    z[i] += w[d - 1] * x[i]


@njit(cache=True, nogil=True, fastmath=REORDER)
def column_pullback(
    columns: NDArray[Any], slopes: Vector, sums: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the sums of each block."""
    for block in range(first, last):
        sums[block] = 0.0
        end = bounds[block + 1]
        for start in range(bounds[block], end, COLUMN_TILE):
            stop = min(start + COLUMN_TILE, end)
            s = slopes[start:stop]
            q = s.size // 4
            for j in range(len(columns)):
                x = columns[j, start:stop]
                total = 0.0
                for i in range(q):
                    total += (s[i] * x[i] + s[i + q] * x[i + q]) + (
                        s[i + 2 * q] * x[i + 2 * q] + s[i + 3 * q] * x[i + 3 * q]
                    )
                for i in range(4 * q, s.size):
                    total += s[i] * x[i]
                sums[block, j] += total


# Plain loops, here and below: assignments to slices take a second each to compile.
@njit(cache=True, nogil=True)
def _any(values: NDArray[np.float64]) -> bool:
    for value in values:  # noqa: SIM110
        if value != 0.0:
            return True
    return False


@njit(cache=True, nogil=True)
def _clear(sums: Matrix) -> None:
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            sums[i, j] = 0.0


@njit(cache=True, nogil=True, fastmath=REORDER)
def row_class_scores(
    X: NDArray[Any], W: Matrix, out: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the scores ``X W'`` of all classes, rows stored one after the other."""
    n_features, n_classes = X.shape[1], len(W)
    four = np.zeros((4, n_features))  # in float64
    x0, x1, x2, x3 = four[0], four[1], four[2], four[3]
    # By blocks, so that the same rows go together for any number of threads.
    for block in range(first, last):
        for i in range(bounds[block], bounds[block + 1], 4):
            n = min(4, bounds[block + 1] - i)
            for r in range(n):
                for j in range(n_features):
                    four[r, j] = X[i + r, j]
            for k in range(0, n_classes, 2):
                l = min(k + 1, n_classes - 1)
                w, v = W[k], W[l]
                w0 = w1 = w2 = w3 = v0 = v1 = v2 = v3 = 0.0
                for j in range(n_features):
                    w0 += x0[j] * w[j]
                    w1 += x1[j] * w[j]
                    w2 += x2[j] * w[j]
                    w3 += x3[j] * w[j]
                    v0 += x0[j] * v[j]
                    v1 += x1[j] * v[j]
                    v2 += x2[j] * v[j]
                    v3 += x3[j] * v[j]
                out[i, k], out[i, l] = w0, v0
                if n > 1:
                    out[i + 1, k], out[i + 1, l] = w1, v1
                if n > 2:
                    out[i + 2, k], out[i + 2, l] = w2, v2
                if n > 3:
                    out[i + 3, k], out[i + 3, l] = w3, v3


@njit(cache=True, nogil=True, fastmath=REORDER)
def row_class_pullback(
    X: NDArray[Any], slopes: Matrix, sums: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the sums ``slopes' X`` of each block."""
    n_features, n_classes = X.shape[1], slopes.shape[1]
    four = np.zeros((4, n_features))
    x0, x1, x2, x3 = four[0], four[1], four[2], four[3]
    s = np.zeros((4, n_classes))
    for block in range(first, last):
        total = sums[block]
        _clear(total)
        n = 0
        # Examples with slopes are collected until there are four.
        for i in range(bounds[block], bounds[block + 1] + 1):
            last = i == bounds[block + 1]
            if not last and _any(slopes[i]):
                for k in range(n_classes):
                    s[n, k] = slopes[i, k]
                for j in range(n_features):
                    four[n, j] = X[i, j]
                n += 1
            if n == 4 or (last and n > 0):
                for r in range(n, 4):
                    for k in range(n_classes):
                        s[r, k] = 0.0
                    for j in range(n_features):
                        four[r, j] = 0.0  # whatever it held, it must not spoil the sum
                for k in range(n_classes):
                    s0, s1, s2, s3 = s[0, k], s[1, k], s[2, k], s[3, k]
                    if s0 != 0.0 or s1 != 0.0 or s2 != 0.0 or s3 != 0.0:
                        t = total[k]
                        for j in range(n_features):
                            t[j] += (s0 * x0[j] + s1 * x1[j]) + (s2 * x2[j] + s3 * x3[j])
                n = 0


@njit(cache=True, nogil=True, fastmath=REORDER)
def column_class_scores(
    columns: NDArray[Any], W: Matrix, out: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the scores of all classes, columns stored one after the other."""
    n_features, n_classes = len(columns), len(W)
    by_class = np.empty((n_classes, _CLASS_TILE))
    for block in range(first, last):
        end = bounds[block + 1]
        for start in range(bounds[block], end, _CLASS_TILE):
            n = min(_CLASS_TILE, end - start)
            for k in range(n_classes):
                for i in range(n):
                    by_class[k, i] = 0.0
            for j in range(0, n_features, 2):
                # A last odd column is added once: its twin has no weight.
                l = min(j + 1, n_features - 1)
                x, y = columns[j, start : start + n], columns[l, start : start + n]
                for k in range(n_classes):
                    u, v = W[k, j], W[k, l] if l > j else 0.0
                    z = by_class[k]
                    for i in range(n):
                        z[i] += u * x[i] + v * y[i]
            for i in range(n):
                for k in range(n_classes):
                    out[start + i, k] = by_class[k, i]


@njit(cache=True, nogil=True, fastmath=REORDER)
def column_class_pullback(
    columns: NDArray[Any], slopes: Matrix, sums: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the sums of each block."""
    n_features, n_classes = len(columns), slopes.shape[1]
    by_class = np.empty((n_classes, _CLASS_TILE))
    for block in range(first, last):
        _clear(sums[block])
        end = bounds[block + 1]
        for start in range(bounds[block], end, _CLASS_TILE):
            n = min(_CLASS_TILE, end - start)
            for i in range(n):
                for k in range(n_classes):
                    by_class[k, i] = slopes[start + i, k]
            for j in range(n_features):
                x = columns[j, start : start + n]
                for k in range(n_classes):
                    s = by_class[k]
                    total = 0.0
                    for i in range(n):
                        total += s[i] * x[i]
                    sums[block, k, j] += total


def add_dense(X: NDArray[Any], curvatures: Vector, rows: Indices, out: Matrix) -> None:
    """Add the rows of a dense matrix."""
    # Memory is allocated here: a kernel that calls np.empty compiles that too.
    _add_dense(X, curvatures, rows, out, np.empty((8, X.shape[1])), np.empty(8))


@njit(cache=True, nogil=True, fastmath=REORDER)
def _add_dense(
    X: NDArray[Any], curvatures: Vector, rows: Indices, out: Matrix, x: Matrix, c: Vector
) -> None:
    """Add rows, eight at a time: one load and store for 16 operations."""
    d = X.shape[1]
    for begin in range(0, len(rows), 8):
        n = min(8, len(rows) - begin)
        for r in range(8):
            for j in range(d):
                x[r, j] = X[rows[begin + r], j] if r < n else 0.0
            c[r] = curvatures[rows[begin + r]] if r < n else 0.0
        for a in range(d):
            u0, u1, u2, u3 = c[0] * x[0, a], c[1] * x[1, a], c[2] * x[2, a], c[3] * x[3, a]
            u4, u5, u6, u7 = c[4] * x[4, a], c[5] * x[5, a], c[6] * x[6, a], c[7] * x[7, a]
            diagonal = out[a, a]
            for b in range(a + 1):
                out[a, b] += ((u0 * x[0, b] + u1 * x[1, b]) + (u2 * x[2, b] + u3 * x[3, b])) + (
                    (u4 * x[4, b] + u5 * x[5, b]) + (u6 * x[6, b] + u7 * x[7, b])
                )
            out[a, a] = 0.5 * (diagonal + out[a, a])


@njit(cache=True, nogil=True, fastmath=REORDER)
def add_sparse(csr: Entries, curvatures: Vector, rows: Indices, out: Matrix) -> None:
    """Add the rows of a CSR matrix; entries may be in any order, and repeated ones add up."""
    values, indices, starts = csr
    for i in rows:
        first, last = np.uint64(starts[i]), np.uint64(starts[i + 1])
        for k in range(first, last):
            scaled = curvatures[i] * values[k]
            a = np.uint64(indices[k])
            for other in range(first, k):
                out[a, np.uint64(indices[other])] += scaled * values[other]
            out[a, a] += 0.5 * scaled * values[k]


def _add_columns(columns: NDArray[Any], curvatures: Vector, rows: Indices, out: Matrix) -> None:
    add_dense(columns.T, curvatures, rows, out)


_BY_ROWS = Kernels(row_scores, row_pullback, row_class_scores, row_class_pullback, add_dense)
_BY_COLUMNS = Kernels(
    column_scores, column_pullback, column_class_scores, column_class_pullback, _add_columns
)


class DenseRows(StoredRows):
    """A matrix of float32 or float64 of which every number is stored.

    It is C-contiguous or, if it is stored by columns, Fortran-contiguous; then the kernels see its
    transpose. Of a matrix stored by rows, those whose slope is exactly zero are not read by
    :meth:`pullback`: after a hinge loss that is most of them. An infinity or NaN in such a row does
    not show in the result.
    """

    def __init__(self, X: NDArray[Any], *, by_columns: bool, n_threads: int) -> None:
        n_rows, n_features = rows_in_all(X.shape[0]), X.shape[1]
        self.X, self._by_columns = read_only(X), by_columns
        self.layout = "dense, by columns" if by_columns else "dense"
        self.kernels = _BY_COLUMNS if by_columns else _BY_ROWS
        # Long pieces of a column stream best, but a short matrix needs a few blocks as well.
        long_pieces = max(n_rows // (COLUMN_TILE // 2), min(32, n_rows // 512))
        super().__init__(
            self.X.T if by_columns else self.X,
            X.shape,
            n_rows * n_features,
            most_sums=long_pieces if by_columns else n_rows // ROWS_OF_A_SUM,
            gram_work=n_features * n_features // 8,
            n_threads=n_threads,
        )

    def part(self, examples: Examples) -> DenseRows:
        """Return some of the rows: a view of a slice if they are stored by rows, else a copy."""
        some = self.X[examples]
        some = np.asfortranarray(some) if self._by_columns else np.ascontiguousarray(some)
        return DenseRows(some, by_columns=self._by_columns, n_threads=self.n_threads)

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it, nor the order in memory."""
        return "dense", self.X

    @cached_property
    def by_rows(self) -> NDArray[Any]:
        """The numbers, row after row: a copy, made once, if they are stored by columns."""
        return read_only(np.ascontiguousarray(self.X).reshape(-1))

    @cached_property
    def nonzeros(self) -> Entries | None:
        """The `entries`, made once, if there are any, in half the memory at most; else None."""
        n_bytes = _BYTES_OF_ENTRY * np.count_nonzero(self.X)
        return self.entries() if 0 < n_bytes <= 0.5 * self.X.nbytes else None

    def squared_norms(self) -> Vector:
        """Return the squared length of each row; computed once."""
        return self._norms

    @cached_property
    def _norms(self) -> Vector:
        require_same(self.files)
        norms: Vector = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
        return norms

    def entries(self) -> Entries:
        """Return values, columns and starts of rows in CSR, without the zeros: a copy."""
        X = csr_array(self.X)
        return read_only(X.data), read_only(X.indices), read_only(X.indptr)


@njit(cache=True, nogil=True, fastmath=REORDER)
def csr_scores(csr: Entries, w: Vector, out: Vector, bounds: Bounds, first: int, last: int) -> None:
    """Fill the scores."""
    values, indices, starts = csr
    for block in range(first, last):
        begin, end = bounds[block], bounds[block + 1]
        quarter = (end - begin + 3) // 4
        for offset in range(quarter):
            for i in range(begin + offset, end, quarter):
                z = 0.0
                for k in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                    z += values[k] * w[np.uint64(indices[k])]
                out[i] = z


@njit(cache=True, nogil=True, fastmath={"contract"})
def csr_pullback(
    csr: Entries, slopes: Vector, sums: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the sums of each block; rows whose slope is zero are not read."""
    values, indices, starts = csr
    for block in range(first, last):
        total = sums[block]
        total[:] = 0.0
        begin, end = bounds[block], bounds[block + 1]
        quarter = (end - begin + 3) // 4
        for offset in range(quarter):
            for i in range(begin + offset, end, quarter):
                slope = slopes[i]
                if slope != 0.0:
                    for k in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                        total[np.uint64(indices[k])] += slope * values[k]


@njit(cache=True, nogil=True, fastmath=REORDER)
def squared_norms(values: NDArray[Any], starts: NDArray[Any], out: Vector) -> None:
    """Fill in the squared length of each row of a CSR matrix."""
    for i in range(len(out)):
        total = 0.0
        for k in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            total += np.float64(values[k]) * np.float64(values[k])
        out[i] = total


@njit(cache=True, nogil=True, fastmath=REORDER)
def csr_class_scores(
    csr: Entries, by_feature: Matrix, out: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the scores of all classes; weights are given feature by feature."""
    values, indices, starts = csr
    n_classes = out.shape[1]
    for i in range(bounds[first], bounds[last]):
        z = out[i]
        for k in range(n_classes):
            z[k] = 0.0
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            x = values[e]
            w = by_feature[np.uint64(indices[e])]
            for k in range(n_classes):
                z[k] += x * w[k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def csr_class_pullback(
    csr: Entries, slopes: Matrix, sums: Matrix, bounds: Bounds, first: int, last: int
) -> None:
    """Fill the sums of each block, feature by feature."""
    values, indices, starts = csr
    n_classes = slopes.shape[1]
    for block in range(first, last):
        total = sums[block]
        _clear(total)
        for i in range(bounds[block], bounds[block + 1]):
            s, used = slopes[i], False
            for k in range(n_classes):
                used |= s[k] != 0.0
            if used:
                for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                    x = values[e]
                    t = total[np.uint64(indices[e])]
                    for k in range(n_classes):
                        t[k] += x * s[k]


class CompressedRows(StoredRows):
    """A CSR matrix of float32 or float64, given by its three arrays.

    Entries of the same row and column add up, in any order; stored zeros are harmless.
    Rows whose slope is exactly zero are not read by :meth:`pullback`. An infinity or NaN in such a
    row does not show in the result.

    Raises
    ------
    ValueError
        If an index points outside the matrix: compiled code would read memory that is not its own.
    """

    layout = "CSR"
    sparse = True
    kernels = Kernels(csr_scores, csr_pullback, csr_class_scores, csr_class_pullback, add_sparse)

    def __init__(
        self,
        values: NDArray[Any],
        indices: NDArray[Any],
        starts: NDArray[Any],
        shape: tuple[int, int],
        *,
        n_threads: int,
    ) -> None:
        # Where rows begin must stay as it is checked here: few numbers, beside the entries.
        starts = in_memory(starts)
        _check_structure(values, indices, starts, shape)
        self.values = read_only(values)
        self.indices = read_only(indices)
        self.starts = read_only(starts)
        n_entries = added(int(starts[-1]))
        mean_length = n_entries // max(rows_in_all(shape[0]), 1)
        super().__init__(
            (self.values, self.indices, self.starts),
            shape,
            n_entries,
            most_sums=most_sparse_sums(n_entries, shape[1]),
            gram_work=mean_length * mean_length // 2,
            n_threads=n_threads,
        )
        self._score_bounds = bounds_here(shape[0], count_blocks(n_entries))

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it."""
        return "sparse", self.shape, self.values, self.indices, self.starts

    def entries(self) -> Entries:
        """Return values, columns and starts of rows."""
        return self.values, self.indices, self.starts

    @cached_property
    def by_column(self) -> Entries:
        """Values, rows and starts of columns; made once."""
        csc = csr_array(self.entries(), shape=self.shape).tocsc()
        return csc.data, csc.indices, csc.indptr

    def squared_norms(self) -> Vector:
        """Return the squared length of each row; computed once."""
        return self._norms

    @cached_property
    def _norms(self) -> Vector:
        require_same(self.files)
        norms = np.empty(self.shape[0])
        squared_norms(self.values, self.starts, norms)
        return norms

    def part(self, examples: Examples) -> CompressedRows:
        """Return a copy of some of the rows."""
        starts, entries = chosen_entries(self.starts, examples)
        return CompressedRows(
            self.values[entries],
            self.indices[entries],
            starts,
            (len(starts) - 1, self.shape[1]),
            n_threads=self.n_threads,
        )


def balanced_bounds(starts: NDArray[Any], n_blocks: int) -> Bounds:
    """Return the rows where ``n_blocks`` blocks begin, and where the last ends.

    The blocks hold about as many entries each; how many rows that takes depends on the data.
    """
    entries = np.arange(1, n_blocks, dtype=np.int64) * int(starts[-1]) // n_blocks
    inner = np.searchsorted(starts, entries.astype(starts.dtype))
    return np.concatenate(([0], inner, [len(starts) - 1])).astype(np.int64)


def _check_structure(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], shape: tuple[int, int]
) -> None:
    n_rows, n_columns = shape
    if len(starts) != n_rows + 1 or starts[0] != 0 or np.any(starts[1:] < starts[:-1]):
        raise ValueError(f"indptr must rise from 0 in {n_rows + 1} steps, one per row and the end.")
    n_entries = int(starts[-1])
    if len(values) < n_entries or len(indices) < n_entries:
        raise ValueError(f"indptr announces {n_entries} entries, more than are stored.")
    columns = indices[:n_entries]
    if n_entries and (columns.min() < 0 or columns.max() >= n_columns):
        raise ValueError(f"Column indices must lie in 0 .. {n_columns - 1}.")


def chosen_entries(
    starts: NDArray[Any], examples: Examples
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return where the entries of some rows begin in a copy, and which entries these are."""
    begins = starts[:-1][examples]
    lengths = starts[1:][examples] - begins
    new = np.concatenate(([0], np.cumsum(lengths))).astype(starts.dtype)
    # Entry k of the copy is entry k + shift of the original, with one shift for each row.
    return new, np.arange(new[-1]) + np.repeat(begins - new[:-1], lengths)


@runtime_checkable
class HasProducts(Protocol):
    """What rows that a user wrote must offer."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return ``(m, d)``."""

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``, a new float64 vector of length ``m``."""

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``, a new float64 vector of length ``d``."""


class UserRows(Rows):
    """Rows that a user wrote, known by their two products alone.

    Parameters
    ----------
    products : HasProducts
        With ``shape``, ``scores`` and ``pullback``.
    examples : ndarray, optional
        The rows to take; all by default.
    """

    def __init__(self, products: HasProducts, examples: Examples | None = None) -> None:
        self._products, self._examples = products, examples
        m, d = products.shape
        self.shape = (m if examples is None else len(np.arange(m)[examples]), d)
        self.layout = type(products).__name__

    def identity(self) -> tuple[Any, ...]:
        """Return what was given."""
        return self._products, self._examples

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``."""
        scores = self._products.scores(w)
        return scores if self._examples is None else scores[self._examples]

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``; rows that were not taken have slope zero."""
        if self._examples is not None:
            n_rows = self._products.shape[0]
            examples = np.arange(n_rows)[self._examples]
            slopes = np.bincount(examples, slopes, minlength=n_rows).astype(np.float64)
        return self._products.pullback(slopes)

    def part(self, examples: Examples) -> UserRows:
        """Return some of the rows; their products still pass over all."""
        chosen: Examples = examples
        if self._examples is not None:
            chosen = np.arange(self._products.shape[0])[self._examples][examples]
        return UserRows(self._products, chosen)


def as_rows(X: Any, *, n_threads: int | None = None) -> Rows:
    """Return the rows of ``X``, ready for products.

    Parameters
    ----------
    X
        Used where it lies, never copied or written to: a dense array in C or Fortran order, or a
        SciPy CSR matrix or array, with float32 or float64 values; read-only arrays and memory maps
        too (of the latter ``indptr`` is copied, since the file may change). Anything else (other
        sparse formats, integers, strided views, lists, data frames) is converted once, to CSR or C
        order and float64 if it was neither float32 nor float64.
        An object that has ``shape``, ``scores`` and ``pullback`` is asked for these products.
    n_threads
        Number of threads for each product; by default see
        :func:`cutplane.compute.threads.default_threads`. It has no influence on the results.

    Returns
    -------
    Rows
        Keeps a view of ``X``: later changes of its values show in the products.

    Examples
    --------
    >>> rows = as_rows(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> rows.scores(np.array([1.0, 1.0]))
    array([3., 3.])
    >>> rows.pullback(np.array([1.0, -1.0]))
    array([ 1., -1.])
    """
    if isinstance(X, Rows):
        return X
    if isinstance(X, HasProducts):
        return UserRows(X)
    if not isinstance(X, np.ndarray):
        require_in_memory("as_rows", X, "sharded_sample and ShardedRisk take it as it is")
    if n_threads is None:
        n_threads = default_threads()
    elif n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}.")
    sparse = scipy.sparse.issparse(X)
    if not sparse:
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}.")
    if sparse:
        X = X.tocsr()  # X itself if it is CSR
    values = X.data if sparse else X
    if values.dtype not in (np.float32, np.float64) or not values.dtype.isnative:
        if np.iscomplexobj(values):
            raise ValueError(f"X must be real, got {values.dtype}.")
        # Big-endian float32 stays float32; everything else becomes float64.
        values = values.astype(np.float32 if values.dtype == np.float32 else np.float64)
    if sparse:
        return CompressedRows(
            np.ascontiguousarray(values),
            np.ascontiguousarray(_as_signed(X.indices)),
            np.ascontiguousarray(_as_signed(X.indptr)),
            X.shape,
            n_threads=n_threads,
        )
    by_columns = values.flags.f_contiguous and not values.flags.c_contiguous
    values = values if by_columns else np.ascontiguousarray(values)
    return DenseRows(values, by_columns=by_columns, n_threads=n_threads)


def _as_signed(indices: NDArray[Any]) -> NDArray[Any]:
    if indices.dtype in (np.int32, np.int64) and indices.dtype.isnative:
        return indices
    return indices.astype(np.int64)
