"""What a kernel matrix is computed from, with the precision of predictions: in float64, by blocks.

A large matrix is kept in float32, and what is added to its diagonal is no part of the kernel. So
what a model's values at the examples are, and what a bound is, is computed from the examples once
more: for the coefficients that are not zero, without keeping a kernel. Where it is a matter of few
examples, their matrix is kept in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.mapped import MappedFile, files_of
from cutplane.maps.kernels.functions import Kernel
from cutplane.maps.kernels.matrix import copied, in_double, products_with
from cutplane.maps.rows import Examples, Rows

# Rows of a matrix that was given, which are read at a time.
_ROWS = 512
# How many products are remembered besides the last one.
_KNOWN = 2
# Entries that differ by less, as a share, differ by rounding.
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


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

    def _rows(self, examples: Any) -> Any:
        """Return some of the examples, or of the rows that were given."""
        return self.X[examples if self.places is None else self.places[examples]]

    def matrix(self) -> Matrix:
        """Return the kernel of all pairs."""
        places = self.places
        if self.kernel.name == "precomputed":
            return copied(self.X if places is None else self.X[np.ix_(places, places)])
        everyone = self.X if places is None else self.X[places]
        return in_double(self.kernel, everyone, n_threads=self.n_threads)

    def products(self, coef: Matrix) -> Matrix:
        """Return ``coef K``: a row for each row of coefficients."""
        used = np.flatnonzero(coef.any(axis=0))
        own = np.ascontiguousarray(coef[:, used])
        if self.kernel.name != "precomputed":
            everyone = self.X if self.places is None else self.X[self.places]
            found = products_with(
                self.kernel, everyone, self._rows(used), own, n_threads=self.n_threads
            )
            return np.ascontiguousarray(found.T)
        out = np.empty((len(coef), self.n_examples))
        columns = used if self.places is None else self.places[used]
        for begin in range(0, self.n_examples, _ROWS):
            rows = self._rows(np.arange(begin, min(begin + _ROWS, self.n_examples)))
            out[:, begin : begin + _ROWS] = own @ rows[:, columns].T.astype(np.float64)
        return out


class ExactRows(Rows):
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

    def scores(self, w: Vector) -> Vector:
        """Return ``K w``."""
        return self.pullback(w)

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``K slopes``; slopes that are zero cost nothing."""
        change, image = slopes, np.zeros_like(slopes)
        for vector, product in self._known:
            share = _share(slopes, vector)
            rest = slopes - share * vector
            rest[np.abs(rest) <= _ROUNDING * np.abs(slopes)] = 0.0
            if np.count_nonzero(rest) < np.count_nonzero(change):
                change, image = rest, share * product
        if change.any():
            image = image + self.source.products(change[None])[0]
        self._known = [*self._known[-_KNOWN:], (slopes.copy(), image)]
        return image.copy()

    def part(self, examples: Examples) -> Rows:
        """Return the rows of some examples: there are none by themselves."""
        raise NotImplementedError("rows that are computed by blocks have no parts")


def _share(vector: Vector, other: Vector) -> float:
    """Return how many times the other a vector is, by the largest entry of that."""
    largest = int(np.abs(other).argmax())
    return float(vector[largest] / other[largest]) if other[largest] else 0.0
