"""Rows in this machine's memory: compiled products over blocks of rows, shared among threads.

How rows are cut into blocks depends on the data alone, and sums over blocks are taken in their
order, so that the number of threads leaves no trace.

Products for many classes at once, ``X W'`` and ``slopes' X``, read X only once: a few rows are in
the cache while all classes use them. That makes them limited by arithmetic, not by memory as those
of one class are. Compared with one product for each of ten classes, on one core: dense with 784
features 3 times as fast for scores and 2.5 times for pullbacks, with 64 features 4 times; CSR (a
fifth is not zero) 1.2 and 1.8 times, with 64 features 3 times. A BLAS is not faster for scores and
at most 1.7 times for pullbacks, but would need X in float64, and its threads go on spinning after a
call.

Sums are float64, whatever the type of X.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import count_blocks, run_blocks
from cutplane.maps.rows import Bounds, Rows, as_matrix
from cutplane.maps.weighted_gram import Indices, sum_over_rows

# This many blocks may have sums of their own, even if these take more memory than X.
_FEW = 8


class Kernels(NamedTuple):
    """Compiled loops; each takes the arrays of the rows, what to multiply, room, and the blocks."""

    scores: Callable[..., None]
    pullback: Callable[..., None]
    class_scores: Callable[..., None]
    class_pullback: Callable[..., None]
    add_gram: Callable[..., None]


class StoredRows(Rows):
    """Rows whose arrays compiled kernels read.

    Parameters
    ----------
    arrays : tuple of ndarrays
        What the kernels take first.
    shape : tuple of ints
        Number of rows and of features.
    n_entries : int
        How many numbers are stored.
    most_sums : int
        The most blocks of a pullback, each of which needs a sum for every feature.
    n_threads : int
        How many threads each product may use.
    """

    kernels: ClassVar[Kernels]
    second_derivatives = True

    def __init__(
        self,
        arrays: tuple[NDArray[Any], ...],
        shape: tuple[int, int],
        n_entries: int,
        *,
        most_sums: int,
        n_threads: int,
    ) -> None:
        self.arrays, self.shape, self.n_entries = arrays, shape, n_entries
        n_blocks = count_blocks(n_entries)
        # What is small enough for one block is not worth a second thread, however it is cut.
        self.n_threads = n_threads if n_blocks > 1 else 1
        self._sum_bounds = self.even_blocks(count_blocks(n_entries, most=most_sums))
        self._score_bounds = self._bounds_of_scores(n_blocks)

    @abstractmethod
    def even_blocks(self, n_blocks: int) -> Bounds:
        """Return the rows where blocks of equal work begin, and where the last ends."""

    def _bounds_of_scores(self, n_blocks: int) -> Bounds:
        """Return the blocks that scores are computed by: those of sums, if nothing is better."""
        return self._sum_bounds

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``."""
        w = as_vector(w, self.shape[1], "w")
        out = np.empty(self.shape[0])
        self._run(self.kernels.scores, self._score_bounds, w, out)
        return out

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``."""
        total: Vector = self.block_pullbacks(slopes, self._sum_bounds).sum(axis=0)
        return total

    def block_pullbacks(self, slopes: Vector, bounds: Bounds) -> Matrix:
        """Return ``X' slopes`` for each block of consecutive rows alone, one line a block."""
        slopes = as_vector(slopes, self.shape[0], "slopes")
        sums = np.empty((len(bounds) - 1, self.shape[1]))
        self._run(self.kernels.pullback, bounds, slopes, sums)
        return sums

    def class_scores(self, W: Matrix) -> Matrix:
        """Return ``X W'``, one row an example and one column a class."""
        W = as_matrix(W, (len(W), self.shape[1]), "W")
        out = np.empty((self.shape[0], len(W)))
        bounds = self.even_blocks(count_blocks(self.n_entries * len(W)))
        self._run(self.kernels.class_scores, bounds, self._weights_as_read(W), out)
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
        n_classes = slopes.shape[1]
        slopes = as_matrix(slopes, (self.shape[0], n_classes), "slopes")
        sums = self._room_for_sums(len(bounds) - 1, n_classes)
        self._run(self.kernels.class_pullback, bounds, slopes, sums)
        return sums

    def _weights_as_read(self, W: Matrix) -> Matrix:
        """Return the weights of classes in the order in which the kernel reads them."""
        return W

    def _room_for_sums(self, n_blocks: int, n_classes: int) -> NDArray[np.float64]:
        """Return room for the sums of classes, in the order in which the kernel writes them."""
        return np.empty((n_blocks, n_classes, self.shape[1]))

    def weighted_gram(self, curvatures: Vector) -> Matrix:
        """Return ``X' diag(curvatures) X``."""
        curvatures = as_vector(curvatures, self.shape[0], "curvatures")

        def add(rows: Indices, out: Matrix) -> None:
            self.kernels.add_gram(*self.arrays, curvatures, rows, out)

        return sum_over_rows(
            add,
            curvatures,
            n_columns=self.shape[1],
            work_per_row=self._gram_work(),
            n_threads=self.n_threads,
        )

    @abstractmethod
    def _gram_work(self) -> int:
        """Return how much work a row of the matrix of second derivatives is."""

    def _run(self, kernel: Callable[..., None], bounds: Bounds, *factors: NDArray[Any]) -> None:
        run_blocks(
            lambda first, last: kernel(*self.arrays, *factors, bounds, first, last),
            len(bounds) - 1,
            n_threads=self.n_threads,
        )


def even_bounds(n_rows: int, n_blocks: int) -> Bounds:
    """Return the rows where ``n_blocks`` blocks of equal size begin, and where the last ends."""
    return np.arange(n_blocks + 1, dtype=np.int64) * n_rows // n_blocks


def as_vector(values: ArrayLike, length: int, name: str) -> Vector:
    """Return ``values`` as a contiguous float64 vector, or say in one sentence why it is not."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},) to match X, got {vector.shape}.")
    return read_only(np.ascontiguousarray(vector))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to.

    Numba compiles a kernel anew for read-only arrays, so there is less to compile if all are.
    """
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
