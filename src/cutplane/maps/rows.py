"""What a risk of scores asks of its data: the products ``X w`` and ``X' slopes``, and a few more.

A risk reads X twice per iteration, for the scores ``X w`` and for the subgradient ``X' slopes``.
Whoever offers these two products can be trained on: memory on this machine, a memory map, a
cluster. All else has a default made of them, or is declared as missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutplane.compute.arrays import Matrix, Vector

Bounds = NDArray[np.int64]
Examples = NDArray[np.int64] | slice
# A matrix in CSR: values, columns, and where rows start.
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


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


class Rows(ABC):
    """The rows of a data matrix X with ``m`` examples and ``d`` features.

    Attributes
    ----------
    shape : tuple of ints
        ``(m, d)``.
    layout : str
        What they are called in messages.
    n_entries : int
        How many numbers a product reads; 0 if unknown.
    n_threads : int
        How many threads a product may use.
    sparse : bool
        Whether they are CSR: ``values``, ``indices`` and ``starts``.
    one_by_one : bool
        Whether compiled code may read a row by itself; then they have `squared_norms`.
    second_derivatives : bool
        Whether they have `weighted_gram`.
    """

    shape: tuple[int, int]
    layout: str
    n_entries: int = 0
    n_threads: int = 1
    sparse: ClassVar[bool] = False
    one_by_one: ClassVar[bool] = False
    second_derivatives: ClassVar[bool] = False

    @abstractmethod
    def scores(self, w: Vector) -> Vector:
        """Return ``X w``, a new float64 vector of length ``m``."""

    @abstractmethod
    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``, a new float64 vector of length ``d``.

        Rows whose slope is exactly zero may be skipped, whatever they contain.
        """

    @abstractmethod
    def part(self, examples: Examples) -> Rows:
        """Return some of the rows, by their numbers or as a slice."""

    def block_pullbacks(self, slopes: Vector, bounds: Bounds) -> Matrix:
        """Return ``X' slopes`` for each block of consecutive rows alone, one line a block."""
        return np.array([self.pullback(block) for block in _blocks_alone(slopes, bounds)])

    def class_scores(self, W: Matrix) -> Matrix:
        """Return ``X W'``, one row an example and one column a class (row of W)."""
        W = as_array(W, (len(W), self.shape[1]), "W")
        return np.ascontiguousarray(np.transpose([self.scores(w) for w in W]))

    def class_pullback(self, slopes: Matrix) -> Matrix:
        """Return ``slopes' X``, one row a class (column of slopes) and one column a feature."""
        slopes = as_array(slopes, (self.shape[0], slopes.shape[1]), "slopes")
        return np.array([self.pullback(column) for column in slopes.T])

    def class_block_pullbacks(self, slopes: Matrix, bounds: Bounds) -> NDArray[np.float64]:
        """Return ``slopes' X`` for each block of consecutive rows alone.

        Parameters
        ----------
        slopes : ndarray of shape (n_samples, n_classes)
        bounds : ndarray
            The row where each block begins, and where the last ends.

        Returns
        -------
        ndarray of shape (n_blocks, n_classes, n_features)
        """
        return np.array([self.class_pullback(block) for block in _blocks_alone(slopes, bounds)])

    def entries(self) -> Entries | None:
        """Return values, columns and starts of rows in CSR, or None if they cannot be told."""
        return None

    def weighted_gram(self, curvatures: Vector) -> Matrix:
        """Return ``X' diag(curvatures) X``, if there are `second_derivatives`."""
        raise NotImplementedError(f"{self.layout} has no second derivatives")

    def squared_norms(self) -> Vector:
        """Return the squared length of each row, if they are read `one_by_one`."""
        raise NotImplementedError(f"{self.layout} does not know the lengths of rows")

    def __str__(self) -> str:
        """Return the size and the layout, such as ``32561 x 123 CSR``."""
        return f"{self.shape[0]} x {self.shape[1]} {self.layout}"


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


def as_array(values: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Return ``values`` as a contiguous float64 array, or say in one sentence why it is not."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match X, got {array.shape}.")
    return np.ascontiguousarray(array)


def _blocks_alone(slopes: NDArray[Any], bounds: Bounds) -> list[NDArray[Any]]:
    """Return the slopes once for each block, with zeros outside of it."""
    blocks = []
    for begin, end in pairwise(bounds):
        alone = np.zeros_like(slopes)
        alone[begin:end] = slopes[begin:end]
        blocks.append(alone)
    return blocks
