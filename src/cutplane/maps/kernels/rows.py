"""The rows of a kernel matrix, all of them or those that are asked for.

Steps on pairs of duals need the rows of the examples whose duals move. Where these are few, as in
libsvm, most of a large matrix is never computed. An entry is computed once: a row that comes later
takes from earlier ones what they have in common, so that the matrix is symmetric.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.threads import default_threads
from cutplane.maps.conversion import as_rows
from cutplane.maps.kernels.functions import Kernel
from cutplane.maps.kernels.matrix import (
    FULL_PRECISION,
    compute,
    compute_rows,
    kernel_matrix,
    precision_of,
    prepared,
    ridge_of,
)
from cutplane.maps.kernels.source import KernelSource
from cutplane.maps.rows import Examples, Rows

# From this share of the rows on all are computed: as a symmetric matrix they take half the time.
_MOST_ON_DEMAND = 0.3
# Rows that are copied at a time.
_COPIED = 512


class KernelRows(Rows):
    """The kernel matrix of some examples, symmetric; in float32 raised on its diagonal.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
        The examples; with the kernel "precomputed" the matrix, which is checked and copied.
    on_demand : bool
        Whether rows of a large matrix are computed only when they are needed. The last bits of an
        entry then depend on which of its rows was needed first.
    later : bool
        Whether a large matrix is computed only when any row is needed: in a step of the run, which
        looks at its limit of time.
    most_added : float, optional
        If more had to be added to the diagonal of a matrix in float32, one of up to 8,192 examples
        is kept in float64.
    n_threads : int, optional
        How many threads may work.

    Attributes
    ----------
    diagonal : ndarray of shape (n_examples,)
        The diagonal, as it is kept.
    ridge : float
        What was added to the diagonal of a matrix in float32, so that rounding leaves no negative
        eigenvalue.
    error : float
        By how much an entry beside the diagonal may be off, at most.
    source : KernelSource or None
        What the entries were computed from, if they are kept in less than float64.
    stored : ndarray of shape (n_examples, n_examples)
        The matrix; rows that are not ``ready`` hold anything.
    ready : ndarray of shape (n_examples,)

    Raises
    ------
    IndefiniteKernel
        If a matrix that was given, or one that a function computed, has negative eigenvalues. Of
        more than 2,048 examples so many are looked at.
    """

    layout = "kernel"

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        *,
        on_demand: bool = False,
        later: bool = False,
        most_added: float = np.inf,
        n_threads: int | None = None,
    ) -> None:
        m, dtype = X.shape[0], precision_of(kernel, X, most_added)
        self._source: tuple[Kernel, Any] | None = None
        rounded = dtype == np.float32
        self.source = KernelSource(kernel, X, n_threads=n_threads) if rounded else None
        if (later or (on_demand and rounded)) and kernel.proven and m > FULL_PRECISION:
            self._on_demand = _MOST_ON_DEMAND if on_demand and rounded else 0.0
            stored = np.empty((m, m), dtype=dtype)
            self._source = kernel, prepared(kernel, X, stored.nbytes)
            self._take(stored, kernel.of_pairs(X), 1.0, n_threads)
        else:
            stored = kernel_matrix(kernel, X, dtype, n_threads=n_threads)
            self._take(stored, stored.diagonal(), 1.0, n_threads)

    @classmethod
    def of_matrix(
        cls,
        matrix: NDArray[Any],
        *,
        roundings: float = 1.0,
        source: KernelSource | None = None,
        n_threads: int | None = None,
    ) -> KernelRows:
        """Return rows of a matrix that is known to hold inner products, and is kept.

        ``roundings`` is how many of its largest entry each entry may be off by.
        """
        made = cls.__new__(cls)
        made._source, made.source = None, source if matrix.dtype == np.float32 else None
        made._take(matrix, matrix.diagonal(), roundings, n_threads)
        return made

    def _take(
        self, stored: NDArray[Any], diagonal: Vector, roundings: float, n_threads: int | None
    ) -> None:
        m = len(stored)
        if self.source is not None:  # what a run ends with is computed from the examples again
            self.files = self.source.files
        self.shape, self.n_entries = (m, m), m * m
        self.stored, self.ready = stored, np.full(m, self._source is None)
        self._products = as_rows(stored, n_threads=n_threads)
        self.n_threads = self._products.n_threads
        self._n_workers = default_threads() if n_threads is None else n_threads
        unit = 0.5 * float(np.finfo(stored.dtype).eps) * roundings
        largest = float(np.abs(diagonal).max())
        # Beside the roundings of products, those of a matrix in float64 do not count.
        rounded = stored.dtype != np.float64
        self.ridge = roundings * ridge_of(stored.dtype, m, largest) if rounded else 0.0
        # An exponential in float32 is off by up to 2.5 units in the last place (NumPy), and by what
        # its exponent is; powers by less.
        self.error = 8.0 * unit * largest
        raised = np.asarray(diagonal + self.ridge, dtype=stored.dtype)
        self.diagonal: Vector = raised.astype(np.float64)
        if self._source is None:
            np.fill_diagonal(stored, raised)

    @property
    def matrix(self) -> NDArray[Any]:
        """The whole matrix; what is missing is computed."""
        self._complete()
        return self.stored

    def require(self, rows: NDArray[np.intp]) -> None:
        """Compute those of these rows that are missing."""
        rows = rows[~self.ready[rows]]
        if not len(rows) or self._source is None:
            return
        known = np.flatnonzero(self.ready)
        if len(known) + len(rows) > self._on_demand * len(self.ready):
            self._complete()
            return
        stored = self.stored
        compute_rows(*self._source, rows, stored, self._n_workers)
        stored[np.ix_(rows, known)] = stored[np.ix_(known, rows)].T
        own = stored[np.ix_(rows, rows)]
        stored[np.ix_(rows, rows)] = np.triu(own) + np.triu(own, 1).T
        stored[rows, rows] = self.diagonal[rows]
        self.ready[rows] = True

    def _complete(self) -> None:
        if self._source is None:
            return
        known, missing = np.flatnonzero(self.ready), np.flatnonzero(~self.ready)
        places = missing if len(known) else None
        compute(*self._source, self.stored, self._n_workers, places)
        # What is known stays as it is: scores were computed from it.
        for i in range(0, len(missing) if len(known) else 0, _COPIED):
            rows = missing[i : i + _COPIED]
            self.stored[np.ix_(rows, known)] = self.stored[np.ix_(known, rows)].T
        np.fill_diagonal(self.stored, self.diagonal)
        self._source = None
        self.ready[:] = True

    def identity(self) -> NDArray[Any]:
        """Return the matrix: what it was made of is not compared."""
        return self.matrix

    def scores(self, w: Vector) -> Vector:
        """Return ``K w``."""
        return self.pullback(w)

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``K slopes``; rows of slopes that are zero are not read."""
        self.require(np.flatnonzero(slopes))
        return self._products.pullback(slopes)

    def part(self, examples: Examples) -> Rows:
        """Return the rows of some examples."""
        return as_rows(self.matrix[examples], n_threads=self.n_threads)
