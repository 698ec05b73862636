"""The kernel matrix as rows: in memory, on demand, or computed from the examples again.

What a kernel matrix is computed from, with the precision of predictions: in float64, by blocks.

A large matrix is kept in float32, and what is added to its diagonal is no part of the kernel. So
what a model's values at the examples are, and what a bound is, is computed from the examples once
more: for the coefficients that are not zero, without keeping a kernel. Where it is a matter of few
examples, their matrix is kept in float64.

The rows of a kernel matrix, all of them or those that are asked for.

Steps on pairs of duals need the rows of the examples whose duals move. Where these are few, as in
libsvm, most of a large matrix is never computed. An entry is computed once: a row that comes later
takes from earlier ones what they have in common, so that the matrix is symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from cutplane.compute.arrays import EPS, MappedFile, Matrix, Vector, files_of
from cutplane.data.layouts import as_rows
from cutplane.data.rows import Examples, Rows
from cutplane.models.gram.functions import (
    FULL_PRECISION,
    Kernel,
    compute,
    compute_rows,
    computed,
    copied,
    kernel_matrix,
    precision_of,
    prepared,
    products_with,
    ridge_of,
)

# Rows of a matrix that was given, which are read at a time.
_ROWS = 512
# How many products are remembered besides the last one.
_KNOWN = 2
# Entries that differ by less, as a share, differ by rounding.
_ROUNDING = 4.0 * EPS


@dataclass(frozen=True)
class KernelSource:
    """A kernel and the examples of a matrix.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
        The examples; with the kernel "precomputed" the matrix that was given.
    places : ndarray, optional
        Which of them, by their numbers; all by default.
    n_threads : int, optional
        How many threads may work.
    """

    kernel: Kernel
    X: Any
    places: NDArray[np.intp] | None = None
    n_threads: int | None = None

    @property
    def n_examples(self) -> int:
        """How many examples there are."""
        return int(self.X.shape[0]) if self.places is None else len(self.places)

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The files that the examples lie in."""
        X = self.X
        return files_of((X.data, X.indices, X.indptr) if issparse(X) else (X,))

    def part(self, examples: NDArray[np.intp]) -> KernelSource:
        """Return that of some of the examples."""
        places = examples if self.places is None else self.places[examples]
        return KernelSource(self.kernel, self.X, places, self.n_threads)

    @property
    def has_tensors(self) -> bool:
        """Whether the lengths of functions are computed from the examples."""
        return self.kernel.has_tensors(self.X.shape[1])

    def tensor_length(self, duals: Vector) -> tuple[float, float] | None:
        """Return the length of the function with these coefficients, as `Kernel.tensor_length`."""
        if not (self.has_tensors and duals.any()):
            return None
        used = np.flatnonzero(duals)
        return self.kernel.tensor_length(self._rows(used), duals[used])

    def _rows(self, examples: NDArray[np.intp] | None = None) -> Any:
        """Return some of the examples, or of the rows that were given; all by default."""
        if examples is None:
            return self.X if self.places is None else self.X[self.places]
        return self.X[examples if self.places is None else self.places[examples]]

    def matrix(self) -> Matrix:
        """Return the kernel of all pairs."""
        if self.kernel.name == "precomputed":
            places = self.places
            return copied(self.X if places is None else self.X[np.ix_(places, places)])
        return computed(self.kernel, self._rows(), np.float64, n_threads=self.n_threads)

    def products(self, coef: Matrix) -> Matrix:
        """Return ``coef K``: a row for each row of coefficients."""
        used = np.flatnonzero(coef.any(axis=0))
        own = np.ascontiguousarray(coef[:, used])
        if self.kernel.name != "precomputed":
            pair = self._rows(), self._rows(used)
            found = products_with(self.kernel, *pair, own, n_threads=self.n_threads)
            return np.ascontiguousarray(found.T)
        out = np.empty((len(coef), self.n_examples))
        columns = used if self.places is None else self.places[used]
        for begin in range(0, self.n_examples, _ROWS):
            rows = self._rows(np.arange(begin, min(begin + _ROWS, self.n_examples)))
            out[:, begin : begin + _ROWS] = own @ rows[:, columns].T.astype(np.float64)
        return out


class SymmetricRows(Rows):
    """The rows of a kernel matrix."""

    def scores(self, w: Vector) -> Vector:
        """Return ``K w``."""
        return self.pullback(w)

    def part(self, examples: Examples) -> Rows:
        """Refuse: a function is one of all examples, and so is a plane."""
        raise NotImplementedError("rows of a kernel matrix have no parts")


class ExactRows(SymmetricRows):
    """The rows of a kernel matrix that is not kept: products with it are computed by blocks.

    A product costs the coefficients in which a vector is no multiple of the last ones.

    Parameters
    ----------
    source : KernelSource
    """

    layout = "kernel, computed by blocks"

    def __init__(self, source: KernelSource) -> None:
        m = source.n_examples
        self.source, self.shape = source, (m, m)
        self._known: list[tuple[Vector, Vector]] = []

    def learn(self, vectors: Matrix) -> None:
        """Compute the products of several vectors at once, to have them when they are asked for."""
        self._known = [*zip(vectors.copy(), self.source.products(vectors), strict=True)]

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``K slopes``; slopes that are zero cost nothing."""
        change, image = slopes, np.zeros_like(slopes)
        for vector, product in self._known:
            largest = int(np.abs(vector).argmax())
            share = float(slopes[largest] / vector[largest]) if vector[largest] else 0.0
            rest = slopes - share * vector
            rest[np.abs(rest) <= _ROUNDING * np.abs(slopes)] = 0.0
            if np.count_nonzero(rest) < np.count_nonzero(change):
                change, image = rest, share * product
        if change.any():
            image = image + self.source.products(change[None])[0]
        self._known = [*self._known[-_KNOWN:], (slopes.copy(), image)]
        return image.copy()


# From this share of the rows on all are computed: as a symmetric matrix they take half the time.
_MOST_ON_DEMAND = 0.3
# Rows that are copied at a time.
_COPIED = 512


class KernelRows(SymmetricRows):
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
        What the entries were computed from, if that is known.
    rounded : bool
        Whether they are kept in less than float64.
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
        self.source: KernelSource | None = KernelSource(kernel, X, n_threads=n_threads)
        by_rows = on_demand and dtype == np.float32
        if (later or by_rows) and kernel.proven and m > FULL_PRECISION:
            self._on_demand = _MOST_ON_DEMAND if by_rows else 0.0
            stored = np.empty((m, m), dtype=dtype)
            self._source = kernel, prepared(kernel, X, stored.nbytes)
            diagonal = kernel.of_pairs(X)
        else:
            stored = kernel_matrix(kernel, X, dtype, n_threads=n_threads)
            diagonal = stored.diagonal()
        self._take(stored, diagonal, 1.0, n_threads)

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
        made._source, made.source = None, source
        made._take(matrix, matrix.diagonal(), roundings, n_threads)
        return made

    def _take(
        self, stored: NDArray[Any], diagonal: Vector, roundings: float, n_threads: int | None
    ) -> None:
        m = len(stored)
        self.shape, self.n_entries = (m, m), m * m
        self.stored, self.ready = stored, np.full(m, self._source is None)
        self._products = as_rows(stored, n_threads=n_threads)
        self.n_threads = self._products.n_threads
        unit = 0.5 * float(np.finfo(stored.dtype).eps) * roundings
        largest = float(np.abs(diagonal).max())
        # Beside the roundings of products, those of a matrix in float64 do not count.
        self.rounded = stored.dtype != np.float64
        source = self.source
        if source is not None and (self.rounded or source.has_tensors):  # they are read again
            self.files = source.files
        self.ridge = roundings * ridge_of(stored.dtype, m, largest) if self.rounded else 0.0
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
        compute_rows(*self._source, rows, stored, self.n_threads)
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
        compute(*self._source, self.stored, self.n_threads, places)
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

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``K slopes``; rows of slopes that are zero are not read."""
        self.require(np.flatnonzero(slopes))
        return self._products.pullback(slopes)
