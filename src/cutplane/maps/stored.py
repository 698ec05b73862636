"""Rows in this machine's memory: compiled products over blocks of rows, shared among threads.

How rows are cut into blocks depends on the data alone, and sums over blocks are taken in their
order, so that the number of threads leaves no trace. The products: :mod:`cutplane.maps.kernels`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import count_blocks, run_blocks
from cutplane.maps import kernels
from cutplane.maps.rows import Bounds, Entries, Examples, Rows, as_array
from cutplane.maps.weighted_gram import Indices, add_dense, add_sparse, sum_over_rows

# A number and its column in CSR.
_BYTES_OF_ENTRY = 12
# This many blocks may have sums of their own, even if these take more memory than X.
_FEW = 8


class Kernels(NamedTuple):
    """Compiled loops; each takes the matrix, what to multiply, room, and the blocks."""

    scores: Callable[..., None]
    pullback: Callable[..., None]
    class_scores: Callable[..., None]
    class_pullback: Callable[..., None]
    add_gram: Callable[..., None]


class StoredRows(Rows):
    """Rows that compiled kernels read.

    Parameters
    ----------
    matrix : ndarray or tuple of ndarrays
        What the kernels take first.
    shape : tuple of ints
        Number of rows and of features.
    n_entries : int
        How many numbers are stored.
    most_sums : int
        The most blocks of a pullback, each of which needs a sum for every feature.
    gram_work : int
        How much work a row of the matrix of second derivatives is.
    n_threads : int
        How many threads each product may use.
    """

    kernels: ClassVar[Kernels]
    second_derivatives = True
    one_by_one = True

    def __init__(
        self,
        matrix: NDArray[Any] | Entries,
        shape: tuple[int, int],
        n_entries: int,
        *,
        most_sums: int,
        gram_work: int,
        n_threads: int,
    ) -> None:
        self.matrix, self.shape, self.n_entries = matrix, shape, n_entries
        self._gram_work = gram_work
        # What is small enough for one block is not worth a second thread, however it is cut.
        self.n_threads = n_threads if count_blocks(n_entries) > 1 else 1
        self._sum_bounds = self.even_blocks(count_blocks(n_entries, most=most_sums))
        self._score_bounds = self._sum_bounds

    @abstractmethod
    def even_blocks(self, n_blocks: int) -> Bounds:
        """Return the rows where blocks of equal work begin, and where the last ends."""

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``."""
        w = as_array(w, self.shape[1:], "w")
        out = np.empty(self.shape[0])
        self._run(self.kernels.scores, self._score_bounds, w, out)
        return out

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``."""
        total: Vector = self.block_pullbacks(slopes, self._sum_bounds).sum(axis=0)
        return total

    def block_pullbacks(self, slopes: Vector, bounds: Bounds) -> Matrix:
        """Return ``X' slopes`` for each block of consecutive rows alone, one line a block."""
        slopes = as_array(slopes, self.shape[:1], "slopes")
        sums = np.empty((len(bounds) - 1, self.shape[1]))
        self._run(self.kernels.pullback, bounds, slopes, sums)
        return sums

    def class_scores(self, W: Matrix) -> Matrix:
        """Return ``X W'``, one row an example and one column a class."""
        W = as_array(W, (len(W), self.shape[1]), "W")
        out = np.empty((self.shape[0], len(W)))
        bounds = self.even_blocks(count_blocks(self.n_entries * len(W)))
        # The kernels of sparse rows have the numbers of all classes side by side, by features.
        weights = np.ascontiguousarray(W.T) if self.sparse else W
        self._run(self.kernels.class_scores, bounds, weights, out)
        return out

    def class_pullback(self, slopes: Matrix) -> Matrix:
        """Return ``slopes' X``, one row a class and one column a feature."""
        n_classes = slopes.shape[1]
        # Clearing and adding up the sums of a block costs, too.
        affordable = self.n_entries // (4 * max(1, self.shape[1]))
        most = max(affordable // n_classes, min(affordable, _FEW))
        bounds = self.even_blocks(count_blocks(self.n_entries * n_classes, most=most))
        return np.ascontiguousarray(self.class_block_pullbacks(slopes, bounds).sum(axis=0))

    def class_block_pullbacks(self, slopes: Matrix, bounds: Bounds) -> NDArray[np.float64]:
        """Return ``slopes' X`` for each block of consecutive rows alone."""
        slopes = as_array(slopes, (self.shape[0], slopes.shape[1]), "slopes")
        shape = (slopes.shape[1], self.shape[1])
        sums = np.empty((len(bounds) - 1, *(shape[::-1] if self.sparse else shape)))
        self._run(self.kernels.class_pullback, bounds, slopes, sums)
        return sums.transpose(0, 2, 1) if self.sparse else sums

    def weighted_gram(self, curvatures: Vector) -> Matrix:
        """Return ``X' diag(curvatures) X``."""
        curvatures = read_only(as_array(curvatures, self.shape[:1], "curvatures"))

        def add(rows: Indices, out: Matrix) -> None:
            self.kernels.add_gram(self.matrix, curvatures, rows, out)

        return sum_over_rows(
            add,
            curvatures,
            n_columns=self.shape[1],
            work_per_row=self._gram_work,
            n_threads=self.n_threads,
        )

    def _run(
        self, kernel: Callable[..., None], bounds: Bounds, factor: Matrix, out: NDArray[np.float64]
    ) -> None:
        factor = read_only(factor)
        run_blocks(
            lambda first, last: kernel(self.matrix, factor, out, bounds, first, last),
            len(bounds) - 1,
            n_threads=self.n_threads,
        )


class DenseRows(StoredRows):
    """A matrix of float32 or float64 of which every number is stored."""

    def __init__(
        self, X: NDArray[Any], stored: NDArray[Any], *, most_sums: int, n_threads: int
    ) -> None:
        self.X = read_only(X)
        super().__init__(
            read_only(stored),
            X.shape,
            X.size,
            most_sums=most_sums,
            gram_work=X.shape[1] * X.shape[1] // 8,
            n_threads=n_threads,
        )

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it, nor the order in memory."""
        return "dense", self.X

    def even_blocks(self, n_blocks: int) -> Bounds:
        """Return the rows where blocks of as many rows begin, and where the last ends."""
        return even_bounds(self.shape[0], n_blocks)

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
        kernels.row_scores,
        kernels.row_pullback,
        kernels.row_class_scores,
        kernels.row_class_pullback,
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


class ColumnMajor(DenseRows):
    """A Fortran-contiguous matrix; the kernels see its transpose."""

    layout = "dense, by columns"
    kernels = Kernels(
        kernels.column_scores,
        kernels.column_pullback,
        kernels.column_class_scores,
        kernels.column_class_pullback,
        _add_columns,
    )

    def __init__(self, X: NDArray[Any], *, n_threads: int) -> None:
        # Long pieces of a column stream best, but a short matrix needs a few blocks as well.
        most = max(X.shape[0] // (kernels.COLUMN_TILE // 2), min(32, X.shape[0] // 512))
        super().__init__(X, X.T, most_sums=most, n_threads=n_threads)

    def part(self, examples: Examples) -> ColumnMajor:
        """Return a copy of some of the rows."""
        return ColumnMajor(np.asfortranarray(self.X[examples]), n_threads=self.n_threads)


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
        kernels.csr_scores,
        kernels.csr_pullback,
        kernels.csr_class_scores,
        kernels.csr_class_pullback,
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
        _check_structure(values, indices, starts, shape)
        self.values = read_only(values)
        self.indices = read_only(indices)
        self.starts = read_only(starts)
        n_entries = int(starts[-1])
        mean_length = n_entries // max(shape[0], 1)
        super().__init__(
            (self.values, self.indices, self.starts),
            shape,
            n_entries,
            # Each block needs d sums, cleared and added up: four entries pay for one.
            most_sums=n_entries // (4 * max(1, shape[1])),
            gram_work=mean_length * mean_length // 2,
            n_threads=n_threads,
        )
        self._score_bounds = self.even_blocks(count_blocks(n_entries))

    def identity(self) -> tuple[Any, ...]:
        """Return the matrix: neither blocks nor threads change it."""
        return "sparse", self.shape, self.values, self.indices, self.starts

    def even_blocks(self, n_blocks: int) -> Bounds:
        """Return the rows where blocks of about as many entries begin, and where the last ends."""
        return balanced_bounds(self.starts, n_blocks)

    def entries(self) -> Entries:
        """Return values, columns and starts of rows."""
        return self.values, self.indices, self.starts

    def squared_norms(self) -> Vector:
        """Return the squared length of each row; computed once."""
        return self._norms

    @cached_property
    def _norms(self) -> Vector:
        return kernels.squared_norms(self.values, self.starts)

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


def even_bounds(n_rows: int, n_blocks: int) -> Bounds:
    """Return the rows where ``n_blocks`` blocks of equal size begin, and where the last ends."""
    return np.arange(n_blocks + 1, dtype=np.int64) * n_rows // n_blocks


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


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to.

    Numba compiles a kernel anew for read-only arrays, so there is less to compile if all are.
    """
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
