"""Sparse matrices in compressed sparse row (CSR) format.

Row ``i`` has the entries ``values[k]`` in the columns ``indices[k]``, ``starts[i] <= k <
starts[i+1]``. Entries of the same row and column add up, in any order; stored zeros are harmless.

As in :mod:`cutplane.maps.dense`, the kernels walk through four quarters of a block at once, which
keeps more of the memory bandwidth busy (18 -> 25 GB/s for scores on covtype). Positions are cast to
unsigned integers because Numba otherwise tests each of them for a negative index, which costs more
than the multiplication.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.threads import count_blocks, run_blocks
from cutplane.maps.dense import add_blocks, as_vector, read_only
from cutplane.maps.weighted_gram import add_sparse, sum_over_rows


class CompressedRows:
    """A CSR matrix of float32 or float64, given by its three arrays.

    Rows whose slope is exactly zero are not read by :meth:`pullback`. An infinity or NaN in such a
    row does not show in the result.

    Raises
    ------
    ValueError
        If an index points outside the matrix: compiled code would read memory that is not its own.
    """

    def __init__(
        self,
        values: NDArray[Any],
        indices: NDArray[Any],
        starts: NDArray[Any],
        shape: tuple[int, int],
        *,
        n_threads: int,
    ) -> None:
        _check_structure(values, indices, starts, shape)
        self.values = read_only(values)
        self.indices = read_only(indices)
        self.starts = read_only(starts)
        self.shape = shape
        self.n_entries = n_entries = int(starts[-1])
        self._score_bounds = balanced_bounds(starts, count_blocks(n_entries))
        # What is small enough for one block is not worth a second thread, however it is cut.
        self.n_threads = n_threads if len(self._score_bounds) > 2 else 1
        # Each block of the pullback needs d sums, cleared and added up: four entries pay for one.
        affordable = n_entries // (4 * max(1, shape[1]))
        self._sum_bounds = balanced_bounds(starts, count_blocks(n_entries, most=affordable))

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it."""
        return "sparse", self.shape, self.values, self.indices, self.starts

    def squared_norms(self) -> Vector:
        """Return the squared length of each row; computed once."""
        return self._norms

    @cached_property
    def _norms(self) -> Vector:
        return _squared_norms(self.values, self.starts)

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``."""
        w = as_vector(w, self.shape[1], "w")
        out = np.empty(self.shape[0])
        bounds = self._score_bounds
        run_blocks(
            lambda first, last: _scores(
                self.values, self.indices, self.starts, w, out, bounds, first, last
            ),
            len(bounds) - 1,
            n_threads=self.n_threads,
        )
        return out

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``."""
        return add_blocks(self.block_pullbacks(slopes, self._sum_bounds))

    def block_pullbacks(self, slopes: Vector, bounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``X' slopes`` for each block of consecutive rows alone, one line a block."""
        slopes = as_vector(slopes, self.shape[0], "slopes")
        sums = np.empty((len(bounds) - 1, self.shape[1]))
        run_blocks(
            lambda first, last: _pullback(
                self.values, self.indices, self.starts, slopes, sums, bounds, first, last
            ),
            len(sums),
            n_threads=self.n_threads,
        )
        return sums

    def take(self, rows: NDArray[np.int64]) -> CompressedRows:
        """Return a copy of some rows."""
        lengths = (self.starts[1:] - self.starts[:-1])[rows]
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(self.starts.dtype)
        # Entry k of the copy is entry k + shift of the original, with one shift for each row.
        entries = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return CompressedRows(
            self.values[entries],
            self.indices[entries],
            starts,
            (len(rows), self.shape[1]),
            n_threads=self.n_threads,
        )

    def weighted_gram(self, curvatures: Vector) -> Matrix:
        """Return ``X' diag(curvatures) X``."""
        curvatures = as_vector(curvatures, self.shape[0], "curvatures")
        mean_length = int(self.starts[-1]) // max(self.shape[0], 1)
        return sum_over_rows(
            lambda rows, out: add_sparse(
                self.values, self.indices, self.starts, curvatures, rows, out
            ),
            curvatures,
            n_columns=self.shape[1],
            work_per_row=mean_length * mean_length // 2,
            n_threads=self.n_threads,
        )


def balanced_bounds(starts: NDArray[Any], n_blocks: int) -> NDArray[np.int64]:
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


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _scores(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    w: Vector,
    out: Vector,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    for block in range(first_block, last_block):
        begin, end = bounds[block], bounds[block + 1]
        quarter = (end - begin + 3) // 4
        for offset in range(quarter):
            for i in range(begin + offset, end, quarter):
                z = 0.0
                for k in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                    z += values[k] * w[np.uint64(indices[k])]
                out[i] = z


@njit(cache=True, nogil=True, fastmath={"contract"})
def _pullback(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    slopes: Vector,
    sums: NDArray[np.float64],
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    for block in range(first_block, last_block):
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


@njit(cache=True, nogil=True)
def _squared_norms(values: NDArray[Any], starts: NDArray[Any]) -> Vector:
    out = np.empty(len(starts) - 1)
    for i in range(len(out)):
        total = 0.0
        for k in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            total += np.float64(values[k]) * np.float64(values[k])
        out[i] = total
    return out
