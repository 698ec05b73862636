"""Dense matrices, stored by rows (C order) or by columns (Fortran order).

Both products read X once and do little else, so what counts is how many cache lines are on their
way from memory at a time. One pass from front to back leaves half the bandwidth unused: a core runs
only a few hundred instructions ahead. The kernels therefore read *four streams* at once, four rows
a quarter of a block apart or four parts of a column. On a 2-core machine this gave 28 GB/s instead
of 24 for float64 and 24 instead of 17 for float32, which needs more instructions per byte.

Rounding may differ from a sum taken in another order; infinities and NaN propagate as usual.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.maps import class_kernels
from cutplane.maps.rows import Bounds, Examples
from cutplane.maps.stored import Kernels, StoredRows, even_bounds, read_only
from cutplane.maps.weighted_gram import Indices, add_dense

# Leave to reorder sums (that is what vectorizes them), but no assumption that numbers are finite.
_REORDER = {"reassoc", "contract", "nsz"}
# Rows of a column-major matrix handled at a time: 128 kB of scores or slopes stay in L2.
_TILE = 1 << 14


class _DenseRows(StoredRows):
    """A matrix of which every number is stored."""

    X: NDArray[Any]

    def __init__(
        self, X: NDArray[Any], stored: NDArray[Any], *, most_sums: int, n_threads: int
    ) -> None:
        self.X = read_only(X)
        super().__init__(
            (read_only(stored),), X.shape, X.size, most_sums=most_sums, n_threads=n_threads
        )

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it, nor the order in memory."""
        return "dense", self.X

    def even_blocks(self, n_blocks: int) -> Bounds:
        """Return the rows where blocks of as many rows begin, and where the last ends."""
        return even_bounds(self.shape[0], n_blocks)

    def entries(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return values, columns and starts of rows in CSR, without the zeros: a copy."""
        X = csr_array(self.X)
        return read_only(X.data), read_only(X.indices), read_only(X.indptr)

    def _gram_work(self) -> int:
        return self.shape[1] * self.shape[1] // 8


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _row_scores(
    X: NDArray[Any],
    w: Vector,
    out: Vector,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    for block in range(first_block, last_block):
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


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _row_pullback(
    X: NDArray[Any],
    slopes: Vector,
    sums: NDArray[np.float64],
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    for block in range(first_block, last_block):
        rows = X[bounds[block] : bounds[block + 1]]
        s = slopes[bounds[block] : bounds[block + 1]]
        total = sums[block]
        total[:] = 0.0
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


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _column_scores(
    columns: NDArray[Any],
    w: Vector,
    out: Vector,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    d = len(columns)
    for block in range(first_block, last_block):
        end = bounds[block + 1]
        for start in range(bounds[block], end, _TILE):
            stop = min(start + _TILE, end)
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


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _column_pullback(
    columns: NDArray[Any],
    slopes: Vector,
    sums: NDArray[np.float64],
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    for block in range(first_block, last_block):
        sums[block] = 0.0
        end = bounds[block + 1]
        for start in range(bounds[block], end, _TILE):
            stop = min(start + _TILE, end)
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


class RowMajor(_DenseRows):
    """A C-contiguous matrix of float32 or float64.

    Rows whose slope is exactly zero are not read by :meth:`pullback`: after a hinge loss that is
    most of them. An infinity or NaN in such a row does not show in the result.
    """

    layout = "dense"
    kernels = Kernels(
        _row_scores,
        _row_pullback,
        class_kernels.row_scores,
        class_kernels.row_pullback,
        add_dense,
    )

    def __init__(self, X: NDArray[Any], *, n_threads: int) -> None:
        # 16 rows or more for each buffer of d sums, which cost as much as a row.
        super().__init__(X, X, most_sums=X.shape[0] // 16, n_threads=n_threads)

    def part(self, examples: Examples) -> RowMajor:
        """Return some of the rows: a view of a slice, else a copy."""
        return RowMajor(np.ascontiguousarray(self.X[examples]), n_threads=self.n_threads)


def _add_columns(columns: NDArray[Any], curvatures: Vector, rows: Indices, out: Matrix) -> None:
    add_dense(columns.T, curvatures, rows, out)


class ColumnMajor(_DenseRows):
    """A Fortran-contiguous matrix of float32 or float64; the kernels see its transpose."""

    layout = "dense, by columns"
    kernels = Kernels(
        _column_scores,
        _column_pullback,
        class_kernels.column_scores,
        class_kernels.column_pullback,
        _add_columns,
    )

    def __init__(self, X: NDArray[Any], *, n_threads: int) -> None:
        # Long pieces of a column stream best, but a short matrix needs a few blocks as well.
        most = max(X.shape[0] // (_TILE // 2), min(32, X.shape[0] // 512))
        super().__init__(X, X.T, most_sums=most, n_threads=n_threads)

    def part(self, examples: Examples) -> ColumnMajor:
        """Return a copy of some of the rows."""
        return ColumnMajor(np.asfortranarray(self.X[examples]), n_threads=self.n_threads)
