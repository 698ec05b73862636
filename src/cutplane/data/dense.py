"""Dense rows, C-contiguous or by columns, and their compiled products.

All take the arrays of X, what to multiply, room for the result, where blocks of rows begin, and
which blocks are theirs: ``first <= block < last``. Scores ``X w`` are written row by row; pullbacks
``X' slopes`` are sums, one for each block. Sums are float64, whatever the type of X. Rounding may
differ from a sum taken in another order; infinities and NaN propagate as usual.

Products with a vector read X once and do little else, so what counts is how many cache lines are on
their way from memory at a time. One pass from front to back leaves half the bandwidth unused: a
core runs only a few hundred instructions ahead. The kernels therefore read *four streams* at once,
four rows a quarter of a block apart or four parts of a column. On a 2-core machine this gave 28
GB/s instead of 24 for float64 and 24 instead of 17 for float32, which needs more instructions per
byte, and 25 instead of 18 for the scores of covtype in CSR.

Products for many classes, ``X W'`` and ``slopes' X``, read X only once: a few rows are in the cache
while all classes use them. That makes them limited by arithmetic, not by memory. Compared with one
product for each of ten classes, on one core: dense with 784 features 3 times as fast for scores and
2.5 times for pullbacks, with 64 features 4 times; CSR (a fifth is not zero) 1.2 and 1.8 times, with
64 features 3 times. A BLAS is not faster for scores and at most 1.7 times for pullbacks, but would
need X in float64, and its threads go on spinning after a call.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import rows_in_all
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.mapped import require_same
from cutplane.data.rows import Bounds, Entries, Examples, Kernels, StoredRows, read_only
from cutplane.data.shards import most_dense_sums
from cutplane.data.weighted_gram import Indices, add_dense

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


class DenseRows(StoredRows):
    """A matrix of float32 or float64 of which every number is stored."""

    def __init__(
        self, X: NDArray[Any], stored: NDArray[Any], *, most_sums: int, n_threads: int
    ) -> None:
        self.X = read_only(X)
        super().__init__(
            read_only(stored),
            X.shape,
            rows_in_all(X.shape[0]) * X.shape[1],
            most_sums=most_sums,
            gram_work=X.shape[1] * X.shape[1] // 8,
            n_threads=n_threads,
        )

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


class RowMajor(DenseRows):
    """A C-contiguous matrix.

    Rows whose slope is exactly zero are not read by :meth:`pullback`: after a hinge loss that is
    most of them. An infinity or NaN in such a row does not show in the result.
    """

    layout = "dense"
    kernels = Kernels(
        row_scores,
        row_pullback,
        row_class_scores,
        row_class_pullback,
        add_dense,
    )

    def __init__(self, X: NDArray[Any], *, n_threads: int) -> None:
        most_sums = most_dense_sums(rows_in_all(X.shape[0]))
        super().__init__(X, X, most_sums=most_sums, n_threads=n_threads)

    def part(self, examples: Examples) -> RowMajor:
        """Return some of the rows: a view of a slice, else a copy."""
        return RowMajor(np.ascontiguousarray(self.X[examples]), n_threads=self.n_threads)


def _add_columns(columns: NDArray[Any], curvatures: Vector, rows: Indices, out: Matrix) -> None:
    add_dense(columns.T, curvatures, rows, out)


class ColumnMajor(DenseRows):
    """A Fortran-contiguous matrix; the kernels see its transpose."""

    layout = "dense, by columns"
    kernels = Kernels(
        column_scores,
        column_pullback,
        column_class_scores,
        column_class_pullback,
        _add_columns,
    )

    def __init__(self, X: NDArray[Any], *, n_threads: int) -> None:
        # Long pieces of a column stream best, but a short matrix needs a few blocks as well.
        n_rows = rows_in_all(X.shape[0])
        most = max(n_rows // (COLUMN_TILE // 2), min(32, n_rows // 512))
        super().__init__(X, X.T, most_sums=most, n_threads=n_threads)

    def part(self, examples: Examples) -> ColumnMajor:
        """Return a copy of some of the rows."""
        return ColumnMajor(np.asfortranarray(self.X[examples]), n_threads=self.n_threads)
