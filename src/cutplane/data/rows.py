"""What a risk of scores asks of its data: a map from parameters to scores, and rows below it.

A risk sees its data through a map: `scores` at some parameters, and `pullback`, which takes the
derivatives by the scores back to derivatives by the parameters. What is done with the scores is the
matter of a loss. The plainest map has one score ``x.w`` for each example.

So X is read twice per iteration, for ``X w`` and for ``X' slopes``. Rows that offer these two
products can be trained on: memory on this machine, a memory map, a cluster. All else has a default
made of them, or is declared as missing.

Rows in this machine's memory have compiled products over blocks of rows, shared among threads. How
rows are cut into blocks depends on the data alone, and sums over blocks are taken along one tree
(`cutplane.compute.blocks`), so that neither the number of threads nor the place of a block leaves a
trace. The products themselves are those of a layout: `cutplane.data.layouts`.

The matrix ``X' diag(c) X`` of second derivatives is made of the rows whose ``c`` is not zero. Near
the optimum of a loss with kinks these are few, so the work is far below ``m d^2``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutplane.compute.arrays import (
    MappedFile,
    Matrix,
    Vector,
    empty,
    files_of,
    require_same,
)
from cutplane.compute.blocks import (
    bounds_here,
    count_blocks,
    rows_in_all,
    total_of_rows,
    vector_blocks,
)
from cutplane.compute.products import dot, sum_over
from cutplane.compute.threads import run_blocks

Indices = NDArray[np.int64]

# Blocks are of rows, used or not, so that there must be some more than threads.
_MOST_BLOCKS = 64


# This many blocks may have sums of their own, even if these take more memory than X.
_FEW = 8


# Dense rows that a block has at least: its sums, one for each feature, cost as much as a row.
ROWS_OF_A_SUM = 16


def most_sparse_sums(n_entries: int, n_features: int) -> int:
    """Return the most blocks of sparse rows: four entries pay for a sum, cleared and added up."""
    return n_entries // (4 * max(1, n_features))


def class_sums(n_entries: int, n_features: int, n_classes: int) -> int:
    """Return how many blocks a pullback for several classes has."""
    affordable = most_sparse_sums(n_entries, n_features)
    most = max(affordable // n_classes, min(affordable, _FEW))
    return count_blocks(n_entries * n_classes, most=most)


def most_shards(n_rows: int, n_features: int, n_entries: int | None, n_classes: int = 1) -> int:
    """Return into how many shards rows can be cut, so that none of their sums needs fewer blocks.

    Parameters
    ----------
    n_rows, n_features : int
        Of the whole sample.
    n_entries : int or None
        How many numbers of sparse rows are stored; None for dense rows.
    n_classes : int
        How many scores an example has.
    """
    if n_entries is None:
        n_entries, most = n_rows * n_features, n_rows // ROWS_OF_A_SUM
    else:
        most = most_sparse_sums(n_entries, n_features)
    blocks = [vector_blocks(n_rows), count_blocks(n_entries, most=most)]
    if n_classes > 1:
        blocks.append(class_sums(n_entries, n_features, n_classes))
    return min(blocks)


Bounds = NDArray[np.int64]
Examples = NDArray[np.int64] | slice
# A matrix in CSR: values, columns, and where rows start.
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
# Mapped files of as many bytes in all stay in the system's cache once they are read: whoever fits
# models has that much memory to spare. joblib maps the data of its workers too, most of it smaller.
IN_CACHE = 1 << 30


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
    dual_steps : bool
        Whether dual coordinate ascent may take steps on their examples.
    second_derivatives : bool
        Whether they have `weighted_gram`.
    on_disk : bool
        Whether they lie in files that memory may not hold, so that they are best read in order.
    files : tuple of MappedFile
        The files that they lie in: a bound holds only if none of them has changed.
    """

    shape: tuple[int, int]
    layout: str
    n_entries: int = 0
    n_threads: int = 1
    on_disk: bool = False
    files: tuple[MappedFile, ...] = ()
    sparse: ClassVar[bool] = False
    one_by_one: ClassVar[bool] = False
    dual_steps: ClassVar[bool] = False
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


class RowFacts(NamedTuple):
    """What is known of features that lie elsewhere: see `Rows`."""

    shape: tuple[int, int]
    n_entries: int
    sparse: bool
    second_derivatives: bool
    dual_steps: bool


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
        How many numbers are stored, here and on other members of a team.
    most_sums : int
        The most blocks of a pullback, each of which needs a sum for every feature.
    gram_work : int
        How much work a row of the matrix of second derivatives is.
    n_threads : int
        How many threads each product may use.
    """

    kernels: Kernels
    second_derivatives = True
    one_by_one = True
    dual_steps = True

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
        self.files = files_of(matrix if isinstance(matrix, tuple) else (matrix,))
        self.on_disk = sum(file.n_bytes for file in self.files) > IN_CACHE
        # What is small enough for one block is not worth a second thread, however it is cut.
        self.n_threads = n_threads if count_blocks(n_entries) > 1 else 1
        self._sum_bounds = bounds_here(shape[0], count_blocks(n_entries, most=most_sums))
        self._score_bounds = self._sum_bounds

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``."""
        w = as_array(w, self.shape[1:], "w")
        out = empty(self.shape[0])
        self._run(self.kernels.scores, self._score_bounds, w, out)
        return out

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``."""
        return total_of_rows(self.block_pullbacks(slopes, self._sum_bounds))

    def block_pullbacks(self, slopes: Vector, bounds: Bounds) -> Matrix:
        """Return ``X' slopes`` for each block of consecutive rows alone, one line a block."""
        slopes = as_array(slopes, self.shape[:1], "slopes")
        sums = np.empty((len(bounds) - 1, self.shape[1]))
        self._run(self.kernels.pullback, bounds, slopes, sums)
        return sums

    def class_scores(self, W: Matrix) -> Matrix:
        """Return ``X W'``, one row an example and one column a class."""
        W = as_array(W, (len(W), self.shape[1]), "W")
        out = empty(self.shape[0], len(W))
        bounds = bounds_here(self.shape[0], count_blocks(self.n_entries * len(W)))
        # The kernels of sparse rows have the numbers of all classes side by side, by features.
        weights = np.ascontiguousarray(W.T) if self.sparse else W
        self._run(self.kernels.class_scores, bounds, weights, out)
        return out

    def class_pullback(self, slopes: Matrix) -> Matrix:
        """Return ``slopes' X``, one row a class and one column a feature."""
        n_blocks = class_sums(self.n_entries, self.shape[1], slopes.shape[1])
        bounds = bounds_here(self.shape[0], n_blocks)
        return total_of_rows(self.class_block_pullbacks(slopes, bounds))

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
        n_rows, n_columns = rows_in_all(self.shape[0]), self.shape[1]
        # The sums must not take more memory than a part of the rows, nor more time to add up.
        affordable = n_rows // (64 * max(n_columns, 1))
        n_blocks = count_blocks(n_rows * self._gram_work, most=min(affordable, _MOST_BLOCKS))
        bounds = bounds_here(self.shape[0], n_blocks)
        sums = np.zeros((len(bounds) - 1, n_columns, n_columns))

        def task(first: int, last: int) -> None:
            for block in range(first, last):
                begin, end = bounds[block], bounds[block + 1]
                rows = begin + np.flatnonzero(curvatures[begin:end])
                require_same(self.files)
                # Of the lower triangle, with half of what belongs on the diagonal.
                self.kernels.add_gram(self.matrix, curvatures, rows, sums[block])

        run_blocks(task, len(sums), n_threads=self.n_threads)
        half = total_of_rows(sums)
        return np.asarray(half + half.T)

    def _run(
        self, kernel: Callable[..., None], bounds: Bounds, factor: Matrix, out: NDArray[np.float64]
    ) -> None:
        factor = read_only(factor)

        def task(first: int, last: int) -> None:
            require_same(self.files)
            kernel(self.matrix, factor, out, bounds, first, last)

        run_blocks(task, len(bounds) - 1, n_threads=self.n_threads)


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


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to.

    Numba compiles a kernel again for read-only arrays, so there is less to compile if all are.
    """
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


class ScoreMap(ABC):
    """A function from parameters to the scores of all examples.

    Attributes
    ----------
    rows : Rows
        The features.
    n_parameters : int
        How many parameters there are.
    score_shape : tuple of ints
        The shape of an example's scores: ``()`` for one score, ``(k,)`` for ``k`` of them.
    linear : bool
        Whether the scores are affine functions of the parameters. Only then are they known on a
        line between two points, and does a convex loss make a convex risk.
    has_intercepts : bool
        Whether intercepts are among the parameters, and so not minimized out by the risk.
    plain : bool
        Whether a score is the product of a row and the parameters, and nothing else.
    all_pairs : bool
        Whether there is a weight for every class and feature, class after class, and nothing else.
    observed : bool
        Whether only pairs of a class and a feature that occur together have a weight: see
        `ObservedPairs`.
    """

    rows: Rows
    n_parameters: int
    score_shape: tuple[int, ...] = ()
    linear: ClassVar[bool] = True
    has_intercepts: ClassVar[bool] = False
    plain: ClassVar[bool] = False
    all_pairs: ClassVar[bool] = False
    observed: ClassVar[bool] = False

    @abstractmethod
    def scores(self, w: Vector) -> NDArray[np.float64]:
        """Return the scores of all examples, one row an example."""

    @abstractmethod
    def pullback(self, slopes: NDArray[np.float64]) -> Vector:
        """Return the derivatives by the parameters, of a function with these by the scores."""

    def part(self, examples: Examples) -> Self:
        """Return the map to the scores of some examples, of the same parameters."""
        part = copy(self)
        part.rows = self.rows.part(examples)
        return part

    def plane(self, slopes: NDArray[np.float64], offset: float) -> tuple[Vector, float]:
        """Return slope and offset, by the parameters, of an affine function of the scores."""
        return self.pullback(slopes), offset

    def plane_at(
        self, w: Vector, scores: NDArray[np.float64], slopes: NDArray[np.float64], offset: float
    ) -> tuple[Vector, float]:
        """Return the same for a map that is not linear: what touches at ``w``, with its scores."""
        return self.plane(slopes, offset)

    def intercepts(self, w: Vector) -> Any:
        """Return what a score is for features of zero."""
        return np.zeros(self.score_shape) if self.score_shape else 0.0

    def __str__(self) -> str:
        return str(self.rows)


class OneScore(ScoreMap):
    """A score ``x.w`` for each example.

    Parameters
    ----------
    rows : Rows
        The features.
    """

    plain = True

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.n_parameters = rows.shape[1]

    def identity(self) -> Rows:
        """Return the features."""
        return self.rows

    def scores(self, w: Vector) -> Vector:
        """Return ``X w``."""
        return self.rows.scores(w)

    def pullback(self, slopes: Vector) -> Vector:
        """Return ``X' slopes``."""
        return self.rows.pullback(slopes)


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

    def __str__(self) -> str:
        return f"{self.rows}, {len(self.constants)} outputs"
