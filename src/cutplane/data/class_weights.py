"""Which pairs of feature and class have a weight: all of them, or those that occur together.

With named features most pairs never occur: in CoNLL-2000 with the templates of CRF++ and 22 labels,
one in 16 does. A model with weights for these only is another model, and a smaller one: its vectors
and planes have a number for each pair that occurs, and no memory is spent on the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray

from cutplane.core.protocols import Matrix, Vector
from cutplane.core.threads import count_blocks, run_blocks
from cutplane.data.class_products import class_block_pullbacks, class_pullback, class_scores
from cutplane.data.csr import CompressedRows, balanced_bounds
from cutplane.data.rows import Rows

# Each block of a pullback has sums of its own: so many at most.
_MOST_SUMS = 8


class AllPairs:
    """A weight for every class and feature, class after class.

    Parameters
    ----------
    rows : Rows
        The features of all examples.
    n_classes : int
        Number of classes.
    """

    def __init__(self, rows: Rows, n_classes: int) -> None:
        self._rows = rows
        self._shape = (n_classes, rows.shape[1])
        self.n_weights = n_classes * rows.shape[1]

    def scores(self, w: Vector) -> Matrix:
        """Return the score of each class (column) for each example (row)."""
        return class_scores(self._rows, self.as_matrix(w))

    def pullback(self, slopes: Matrix) -> Vector:
        """Return the derivatives by the weights, of a function with these derivatives by scores."""
        return class_pullback(self._rows, slopes).ravel()

    def block_pullbacks(self, slopes: Matrix, bounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the part of each block of consecutive examples in `pullback`, block by block."""
        return class_block_pullbacks(self._rows, slopes, bounds)

    def as_matrix(self, w: Vector) -> Any:
        """Return the weights with one row a class and one column a feature: a view."""
        return w.reshape(self._shape)


class ObservedPairs:
    """A weight for every pair of a feature and a class that occur together, feature after feature.

    Parameters
    ----------
    rows : Rows
        The features of all examples; sparse.
    y : ndarray of shape (n_samples,)
        The class of each example; -1 for those that are not to be looked at.
    n_classes : int
        Number of classes.
    """

    def __init__(self, rows: Rows, y: NDArray[np.int32], n_classes: int) -> None:
        if not isinstance(rows, CompressedRows):
            raise ValueError("observed pairs of feature and class need a sparse matrix of features")
        self._rows = rows
        self._n_classes = n_classes
        n_features = rows.shape[1]
        classes = np.repeat(y, np.diff(rows.starts))
        there = (classes >= 0) & (rows.values != 0.0)
        seen = np.zeros((n_features, n_classes), dtype=np.bool_)
        seen[rows.indices[there], classes[there]] = True
        per_feature = np.count_nonzero(seen, axis=1)
        self._starts = np.concatenate([[0], np.cumsum(per_feature)]).astype(np.int64)
        self._classes = np.nonzero(seen)[1].astype(np.int32)
        self.n_weights = len(self._classes)
        # A weight is cleared and added up in each block that has sums: four products pay for that.
        products = int(per_feature[rows.indices].sum())
        affordable = products // (4 * max(self.n_weights, 1))
        self._score_bounds = balanced_bounds(rows.starts, count_blocks(products))
        n_sums = count_blocks(products, most=min(affordable, _MOST_SUMS))
        self._sum_bounds = balanced_bounds(rows.starts, n_sums)

    def scores(self, w: Vector) -> Matrix:
        """Return the score of each class (column) for each example (row)."""
        rows, bounds = self._rows, self._score_bounds
        w = np.ascontiguousarray(w, dtype=np.float64)
        out = np.empty((rows.shape[0], self._n_classes))
        arrays = (rows.values, rows.indices, rows.starts, self._starts, self._classes)
        run_blocks(
            lambda first, last: _scores(*arrays, w, out, bounds, first, last),
            len(bounds) - 1,
            n_threads=rows.n_threads,
        )
        return out

    def pullback(self, slopes: Matrix) -> Vector:
        """Return the derivatives by the weights, of a function with these derivatives by scores."""
        return np.asarray(self.block_pullbacks(slopes, self._sum_bounds).sum(axis=0))

    def block_pullbacks(self, slopes: Matrix, bounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the part of each block of consecutive examples in `pullback`, block by block."""
        rows = self._rows
        slopes = np.ascontiguousarray(slopes, dtype=np.float64)
        sums = np.empty((len(bounds) - 1, self.n_weights))
        arrays = (rows.values, rows.indices, rows.starts, self._starts, self._classes)
        run_blocks(
            lambda first, last: _pullback(*arrays, slopes, sums, bounds, first, last),
            len(bounds) - 1,
            n_threads=rows.n_threads,
        )
        return sums

    def as_matrix(self, w: Vector) -> Any:
        """Return the weights with one row a class and one column a feature: a sparse matrix."""
        shape = (self._rows.shape[1], self._n_classes)
        by_feature = scipy.sparse.csr_array((w, self._classes, self._starts), shape=shape)
        return by_feature.T.tocsr()


@njit(cache=True, nogil=True)
def _scores(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    pair_starts: NDArray[np.int64],
    classes: NDArray[np.int32],
    w: Vector,
    out: Matrix,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    for i in range(bounds[first_block], bounds[last_block]):
        z = out[i]
        for k in range(len(z)):
            z[k] = 0.0
        for entry in range(starts[i], starts[i + 1]):
            x, j = values[entry], indices[entry]
            for pair in range(pair_starts[j], pair_starts[j + 1]):
                z[classes[pair]] += x * w[pair]


@njit(cache=True, nogil=True)
def _pullback(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    pair_starts: NDArray[np.int64],
    classes: NDArray[np.int32],
    slopes: Matrix,
    sums: Matrix,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    for block in range(first_block, last_block):
        total = sums[block]
        for pair in range(len(total)):
            total[pair] = 0.0
        for i in range(bounds[block], bounds[block + 1]):
            s = slopes[i]
            some = False
            for k in range(len(s)):
                some = some or s[k] != 0.0
            if not some:  # as most examples of a margin loss
                continue
            for entry in range(starts[i], starts[i + 1]):
                x, j = values[entry], indices[entry]
                for pair in range(pair_starts[j], pair_starts[j + 1]):
                    total[pair] += x * s[classes[pair]]
