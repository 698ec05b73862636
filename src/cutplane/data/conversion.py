"""Where features come in: arrays, sparse matrices, objects that know the products, maps."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.collections import require_in_memory
from cutplane.compute.threads import default_threads
from cutplane.data.csr import CompressedRows
from cutplane.data.dense import ColumnMajor, RowMajor
from cutplane.data.rows import Examples, Rows, ScoreMap


@runtime_checkable
class HasProducts(Protocol):
    """What rows that a user wrote must offer."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return ``(m, d)``."""

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``, a new float64 vector of length ``m``."""

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``, a new float64 vector of length ``d``."""


class UserRows(Rows):
    """Rows that a user wrote, known by their two products alone.

    Parameters
    ----------
    products : HasProducts
        With ``shape``, ``scores`` and ``pullback``.
    examples : ndarray, optional
        The rows to take; all by default.
    """

    def __init__(self, products: HasProducts, examples: Examples | None = None) -> None:
        self._products, self._examples = products, examples
        m, d = products.shape
        self.shape = (m if examples is None else len(np.arange(m)[examples]), d)
        self.layout = type(products).__name__

    def identity(self) -> tuple[Any, ...]:
        """Return what was given."""
        return self._products, self._examples

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``."""
        scores = self._products.scores(w)
        return scores if self._examples is None else scores[self._examples]

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``; rows that were not taken have slope zero."""
        if self._examples is not None:
            n_rows = self._products.shape[0]
            examples = np.arange(n_rows)[self._examples]
            slopes = np.bincount(examples, slopes, minlength=n_rows).astype(np.float64)
        return self._products.pullback(slopes)

    def part(self, examples: Examples) -> UserRows:
        """Return some of the rows; their products still pass over all."""
        chosen: Examples = examples
        if self._examples is not None:
            chosen = np.arange(self._products.shape[0])[self._examples][examples]
        return UserRows(self._products, chosen)


def as_rows(X: Any, *, n_threads: int | None = None) -> Rows:
    """Return the rows of ``X``, ready for products.

    Parameters
    ----------
    X
        Used where it lies, never copied or written to: a dense array in C or Fortran order, or a
        SciPy CSR matrix or array, with float32 or float64 values; read-only arrays and memory maps
        too (of the latter ``indptr`` is copied, since the file may change). Anything else (other
        sparse formats, integers, strided views, lists, data frames) is converted once, to CSR or C
        order and float64 if it was neither float32 nor float64.
        An object that has ``shape``, ``scores`` and ``pullback`` is asked for these products.
    n_threads
        Number of threads for each product; by default see
        :func:`cutplane.compute.threads.default_threads`. It has no influence on the results.

    Returns
    -------
    Rows
        Keeps a view of ``X``: later changes of its values show in the products.

    Examples
    --------
    >>> rows = as_rows(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> rows.scores(np.array([1.0, 1.0]))
    array([3., 3.])
    >>> rows.pullback(np.array([1.0, -1.0]))
    array([ 1., -1.])
    """
    if isinstance(X, Rows):
        return X
    if isinstance(X, HasProducts):
        return UserRows(X)
    require_in_memory("as_rows", X, "sharded_sample and ShardedRisk take it as it is")
    if n_threads is None:
        n_threads = default_threads()
    elif n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}.")
    sparse = scipy.sparse.issparse(X)
    if not sparse:
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}.")
    if sparse:
        X = X.tocsr()  # X itself if it is CSR
        return CompressedRows(
            np.ascontiguousarray(_as_float(X.data)),
            np.ascontiguousarray(_as_signed(X.indices)),
            np.ascontiguousarray(_as_signed(X.indptr)),
            X.shape,
            n_threads=n_threads,
        )
    X = _as_float(X)
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        return ColumnMajor(X, n_threads=n_threads)
    return RowMajor(np.ascontiguousarray(X), n_threads=n_threads)


def rows_and_map(features: Any, *, n_threads: int | None = None) -> tuple[Rows, ScoreMap | None]:
    """Return the rows of features, and the map to their scores if one is given."""
    if isinstance(features, ScoreMap):
        return features.rows, features
    return as_rows(features, n_threads=n_threads), None


def _as_float(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    if np.iscomplexobj(values):
        raise ValueError(f"X must be real, got {values.dtype}.")
    # Big-endian float32 stays float32; everything else becomes float64.
    return values.astype(np.float32 if values.dtype == np.float32 else np.float64)


def _as_signed(indices: NDArray[Any]) -> NDArray[Any]:
    if indices.dtype in (np.int32, np.int64) and indices.dtype.isnative:
        return indices
    return indices.astype(np.int64)
