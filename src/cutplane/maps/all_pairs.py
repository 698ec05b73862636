"""A weight for every pair of feature and class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.maps.class_products import class_block_pullbacks, class_pullback, class_scores
from cutplane.maps.rows import Rows


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

    def weighted(self) -> NDArray[np.bool_]:
        """Say of each feature (row) and class (column) whether they have a weight: all have."""
        return np.broadcast_to(np.True_, self._shape[::-1])

    def from_table(self, table: Matrix) -> Vector:
        """Return the weights that a table with one row a feature and one column a class holds."""
        return table.T.ravel()

    def add_to_table(self, w: Vector, table: Matrix) -> None:
        """Add weights to such a table."""
        table += self.as_matrix(w).T

    def as_matrix(self, w: Vector) -> Any:
        """Return the weights with one row a class and one column a feature: a view."""
        return w.reshape(self._shape)
