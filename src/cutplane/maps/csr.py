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
from cutplane.maps import class_kernels
from cutplane.maps.rows import Bounds, Examples
from cutplane.maps.stored import Kernels, StoredRows, read_only
from cutplane.maps.weighted_gram import add_sparse


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


class CompressedRows(StoredRows):
    """A CSR matrix of float32 or float64, given by its three arrays.

    Rows whose slope is exactly zero are not read by :meth:`pullback`. An infinity or NaN in such a
    row does not show in the result.

    Raises
    ------
    ValueError
        If an index points outside the matrix: compiled code would read memory that is not its own.
    """

    layout = "CSR"
    sparse = True
    kernels = Kernels(
        _scores, _pullback, class_kernels.csr_scores, class_kernels.csr_pullback, add_sparse
    )

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
        n_entries = int(starts[-1])
        super().__init__(
            (self.values, self.indices, self.starts),
            shape,
            n_entries,
            # Each block needs d sums, cleared and added up: four entries pay for one.
            most_sums=n_entries // (4 * max(1, shape[1])),
            n_threads=n_threads,
        )

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it."""
        return "sparse", self.shape, self.values, self.indices, self.starts

    def even_blocks(self, n_blocks: int) -> Bounds:
        """Return the rows where blocks of about as many entries begin, and where the last ends."""
        return balanced_bounds(self.starts, n_blocks)

    def _bounds_of_scores(self, n_blocks: int) -> Bounds:
        return self.even_blocks(n_blocks)

    def entries(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return values, columns and starts of rows."""
        return self.values, self.indices, self.starts

    def squared_norms(self) -> Vector:
        """Return the squared length of each row; computed once."""
        return self._norms

    @cached_property
    def _norms(self) -> Vector:
        return _squared_norms(self.values, self.starts)

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

    def class_block_pullbacks(self, slopes: Matrix, bounds: Bounds) -> NDArray[np.float64]:
        """Return ``slopes' X`` for each block of consecutive rows alone."""
        return super().class_block_pullbacks(slopes, bounds).transpose(0, 2, 1)

    def _weights_as_read(self, W: Matrix) -> Matrix:
        return np.ascontiguousarray(W.T)

    def _room_for_sums(self, n_blocks: int, n_classes: int) -> NDArray[np.float64]:
        return np.empty((n_blocks, self.shape[1], n_classes))

    def _gram_work(self) -> int:
        mean_length = self.n_entries // max(self.shape[0], 1)
        return mean_length * mean_length // 2


def chosen_entries(
    starts: NDArray[Any], examples: Examples
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return where the entries of some rows begin in a copy, and which entries these are."""
    begins = starts[:-1][examples]
    lengths = starts[1:][examples] - begins
    new = np.concatenate(([0], np.cumsum(lengths))).astype(starts.dtype)
    # Entry k of the copy is entry k + shift of the original, with one shift for each row.
    return new, np.arange(new[-1]) + np.repeat(begins - new[:-1], lengths)
