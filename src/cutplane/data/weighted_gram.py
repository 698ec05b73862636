"""The matrix ``X' diag(c) X`` of second derivatives, from the rows whose ``c`` is not zero.

Near the optimum of a loss with kinks these are few, so the work is far below ``m d^2``. Rows are
cut into at most `_MOST_BLOCKS` blocks (`cutplane.compute.blocks`), each with a sum of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import bounds_here, least_blocks, total_of_rows
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.threads import count_blocks, run_blocks

if TYPE_CHECKING:
    from cutplane.data.rows import Entries

Indices = NDArray[np.int64]

# Blocks are of rows, used or not, so that there must be some more than threads.
_MOST_BLOCKS = 64


def sum_over_rows(
    kernel: Callable[[Indices, Matrix], None],
    curvatures: Vector,
    n_columns: int,
    work_per_row: int,
    n_rows: int,
    n_threads: int,
) -> Matrix:
    """Return the sum of what ``kernel(rows, out)`` adds to the lower triangle, made symmetric.

    The kernel adds half of what belongs on the diagonal. ``n_rows`` are there in all.
    """
    # The sums must not take more memory than a part of the rows, nor more time to add up.
    affordable = n_rows // (64 * max(n_columns, 1))
    n_blocks = count_blocks(n_rows * work_per_row, most=min(affordable, _MOST_BLOCKS))
    n_blocks = max(n_blocks, least_blocks())
    bounds = bounds_here(len(curvatures), n_blocks)
    sums = np.zeros((len(bounds) - 1, n_columns, n_columns))

    def task(first: int, last: int) -> None:
        for block in range(first, last):
            begin, end = bounds[block], bounds[block + 1]
            kernel(begin + np.flatnonzero(curvatures[begin:end]), sums[block])

    run_blocks(task, len(sums), n_threads=n_threads)
    half = total_of_rows(sums)
    return np.asarray(half + half.T)


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
