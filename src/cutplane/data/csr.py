"""Sparse rows (CSR), and their compiled products.

Row ``i`` has the entries ``values[k]`` in the columns ``indices[k]``, ``starts[i] <= k <
starts[i+1]``. Positions are cast to unsigned integers because Numba otherwise tests each of them
for a negative index, which costs more than the multiplication. For the rest see
`cutplane.data.dense`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import added, rows_in_all
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.mapped import in_memory, require_same
from cutplane.compute.threads import count_blocks
from cutplane.data.rows import Bounds, Entries, Examples, Kernels, StoredRows, read_only
from cutplane.data.shards import most_sparse_sums
from cutplane.data.weighted_gram import add_sparse


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
        # Plain loops: assignments to slices take a second each to compile.
        for j in range(total.shape[0]):
            for k in range(n_classes):
                total[j, k] = 0.0
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
    kernels = Kernels(
        csr_scores,
        csr_pullback,
        csr_class_scores,
        csr_class_pullback,
        add_sparse,
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
        self._score_bounds = self.even_blocks(count_blocks(n_entries))

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it."""
        return "sparse", self.shape, self.values, self.indices, self.starts

    def entries(self) -> Entries:
        """Return values, columns and starts of rows."""
        return self.values, self.indices, self.starts

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
