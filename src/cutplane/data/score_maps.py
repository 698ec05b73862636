"""Maps from parameters to scores with intercepts among the parameters, or several scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot, sum_over
from cutplane.data.rows import Bounds, Examples, Rows, ScoreMap

# Intercepts are the products of this and parameters, so that regularizing them has next to no
# effect, for some more iterations (docs/decisions/2026-11-18-products.md).
EASE = 30.0


class CenteredScore(ScoreMap):
    """A score ``(x - mean).w + constant``: at the mean it is the constant, whatever ``w`` is.

    Parameters
    ----------
    rows : Rows
        The features.
    mean : ndarray of shape (n_features,)
        Where the score is known.
    constant : float
        What it is there.
    """

    has_intercepts = True

    def __init__(self, rows: Rows, mean: Vector, constant: float) -> None:
        self.rows, self.mean, self.constant = rows, mean, constant
        self.n_parameters = rows.shape[1]

    def scores(self, w: Vector) -> Vector:
        """Return the score of each example."""
        scores = self.rows.scores(w)
        scores += self.intercepts(w)
        return scores

    def pullback(self, slopes: Vector) -> Vector:
        """Return the derivatives by the parameters."""
        return self.rows.pullback(slopes) - float(sum_over(slopes)) * self.mean

    def plane(self, slopes: Vector, offset: float) -> tuple[Vector, float]:
        """Return slope and offset of an affine function of the scores."""
        return self.pullback(slopes), offset + sum_over(slopes) * self.constant

    def part(self, examples: Examples) -> CenteredScore:
        """Return the map for some examples: of the same parameters, so with the same mean."""
        return CenteredScore(self.rows.part(examples), self.mean, self.constant)

    def intercepts(self, w: Vector) -> float:
        """Return the score for features of zero."""
        return self.constant - dot(self.mean, w)


class PairMap(ScoreMap):
    """Scores of classes, with a weight for pairs of a class and a feature."""

    @abstractmethod
    def block_pullbacks(self, slopes: Matrix, bounds: Bounds) -> NDArray[np.float64]:
        """Return the part of each block of consecutive examples in `pullback`, block by block."""

    @abstractmethod
    def weighted(self) -> NDArray[np.bool_]:
        """Say of each feature (row) and class (column) whether they have a weight."""

    @abstractmethod
    def from_table(self, table: Matrix) -> Vector:
        """Return the weights that a table with one row a feature and one column a class holds."""

    @abstractmethod
    def add_to_table(self, w: Vector, table: Matrix) -> None:
        """Add weights to such a table."""

    @abstractmethod
    def as_matrix(self, w: Vector) -> Any:
        """Return the weights with one row a class and one column a feature."""

    def __str__(self) -> str:
        return f"{self.rows}, {self.score_shape[0]} classes"


class AllPairs(PairMap):
    """A weight for every class and feature, class after class.

    Parameters
    ----------
    rows : Rows
        The features of all examples.
    n_classes : int
        Number of classes.
    """

    all_pairs = True

    def __init__(self, rows: Rows, n_classes: int) -> None:
        self.rows = rows
        self.score_shape = (n_classes,)
        self._shape = (n_classes, rows.shape[1])
        self.n_parameters = n_classes * rows.shape[1]

    def scores(self, w: Vector) -> Matrix:
        """Return the score of each class (column) for each example (row)."""
        return self.rows.class_scores(self.as_matrix(w))

    def pullback(self, slopes: Matrix) -> Vector:
        """Return the derivatives by the weights."""
        return self.rows.class_pullback(slopes).ravel()

    def part(self, examples: Examples) -> AllPairs:
        """Return the map for some examples."""
        return AllPairs(self.rows.part(examples), *self.score_shape)

    def block_pullbacks(self, slopes: Matrix, bounds: Bounds) -> NDArray[np.float64]:
        """Return the part of each block in `pullback`, one row a class."""
        return self.rows.class_block_pullbacks(slopes, bounds)

    def weighted(self) -> NDArray[np.bool_]:
        """Say that all pairs have a weight."""
        return np.broadcast_to(np.True_, self._shape[::-1])

    def from_table(self, table: Matrix) -> Vector:
        """Return the weights of a table."""
        return table.T.ravel()

    def add_to_table(self, w: Vector, table: Matrix) -> None:
        """Add weights to a table."""
        table += self.as_matrix(w).T

    def as_matrix(self, w: Vector) -> Matrix:
        """Return the weights with one row a class and one column a feature: a view."""
        return w.reshape(self._shape)


class CenteredColumns(ScoreMap):
    """Scores of several outputs, whose intercepts are parameters like others.

        z_i = W (x_i - mean(x)) + constants + 30 e

    ``W`` has one row an output; the parameters are its rows one after the other, and then ``e``.
    The constants are what a model without features would say, so ``e`` only says how far the
    outputs in the middle of the data are from that. Regularized with ``W``, intercepts cost a 900th
    as much, and because of the constants and the mean no shift of features or of targets makes a
    difference to that.

    Parameters
    ----------
    rows : Rows
        The features.
    constants : ndarray of shape (n_outputs,)
        The scores of a model without features.
    mean : ndarray of shape (n_features,)
        The features of a mean example.
    """

    has_intercepts = True

    def __init__(self, rows: Rows, constants: Vector, mean: Vector) -> None:
        self.rows, self.constants, self.mean = rows, constants, mean
        self.score_shape = constants.shape
        self.n_parameters = len(constants) * (rows.shape[1] + 1)

    def coefficients(self, w: Vector) -> Matrix:
        """Return the coefficients with one row an output: a view."""
        n_columns = len(self.constants)
        return w[:-n_columns].reshape(n_columns, -1)

    def intercepts(self, w: Vector) -> Vector:
        """Return the intercepts for features as they are."""
        shifts = w[-len(self.constants) :]
        intercepts: Vector = self.constants + EASE * shifts - self.coefficients(w) @ self.mean
        return intercepts

    def scores(self, w: Vector) -> Matrix:
        """Return the score of each output (column) for each example (row)."""
        scores = self.rows.class_scores(self.coefficients(w))
        scores += self.intercepts(w)
        return scores

    def pullback(self, slopes: Matrix) -> Vector:
        """Return the derivatives by the parameters."""
        return self.plane(slopes, 0.0)[0]

    def plane(self, slopes: Matrix, offset: float) -> tuple[Vector, float]:
        """Return slope and offset of an affine function of the scores."""
        by_shift = sum_over(slopes)
        by_coef = self.rows.class_pullback(slopes) - np.outer(by_shift, self.mean)
        offset += dot(by_shift, self.constants)
        return np.concatenate([by_coef.ravel(), EASE * by_shift]), offset

    def part(self, examples: Examples) -> CenteredColumns:
        """Return the map for some examples: of the same parameters, so with the same mean."""
        return CenteredColumns(self.rows.part(examples), self.constants, self.mean)

    def __str__(self) -> str:
        return f"{self.rows}, {len(self.constants)} outputs"
