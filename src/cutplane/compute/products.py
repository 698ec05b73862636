"""Linear algebra of long vectors and small systems.

Products and combinations of vectors without BLAS.

NumPy hands long dot products to a threaded BLAS, whose threads go on spinning for some 30 ms after
each call. That is the time of many iterations, on cores that the passes over the data need. These
loops are limited by memory in the same way, and leave the other cores alone. Only products with
rows that no cache holds are shared among threads, row by row, so that bits are the same.

Vectors are rows of a matrix; which of them, and in what order, is told by their numbers. So a
vector can be dropped without moving the others.

Sums over all examples of vectors and of their products, along the tree of blocks.

Solve a small positive definite system.

LAPACK could do it, but its threads go on spinning after each call, and starve those that read the
data: with other work on the machine a system of 123 unknowns then took 100 ms in place of one.

Solve a positive definite system whose matrix is known by its products only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector, empty
from cutplane.compute.blocks import add_up, joined, total
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.pace import hurried
from cutplane.compute.threads import map_arrays, map_blocks

Numbers = NDArray[np.int64]

# Rows with more numbers than this, 32 MB of them, are read from memory each time.
_LARGE = 1 << 22


@njit(cache=True, nogil=True, fastmath=REORDER)
def dot(a: Vector, b: Vector) -> float:
    """Return ``a.b``."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


def inner_products(rows: Matrix, numbers: Numbers, vector: Vector) -> Vector:
    """Return the dot products of the numbered rows with a vector."""
    if len(numbers) * len(vector) < _LARGE:
        return _inner_products(rows, numbers, vector)
    parts = map_blocks(
        lambda i: _inner_products(rows, numbers[i], vector), len(numbers), width=len(vector)
    )
    return np.concatenate(parts)


@njit(cache=True, nogil=True, fastmath=REORDER)
def _inner_products(rows: Matrix, numbers: Numbers, vector: Vector) -> Vector:
    out = np.empty(len(numbers))
    for i in range(len(numbers)):
        row = rows[numbers[i]]
        total = 0.0
        for j in range(len(vector)):
            total += row[j] * vector[j]
        out[i] = total
    return out


def extend_gram(gram: Matrix, rows: Matrix, numbers: Numbers, vectors: Matrix) -> None:
    """Write the dot products of vectors with the numbered rows into a symmetric matrix.

    The vectors belong to the last rows: the products of each with all rows up to its own become a
    row and a column of the matrix.
    """
    if len(numbers) * rows.shape[1] < _LARGE:
        _extend_gram(gram, rows, numbers, vectors, 0, len(numbers))
    else:
        map_blocks(
            lambda i: _extend_gram(gram, rows, numbers, vectors, i.start, i.stop),
            len(numbers),
            width=rows.shape[1],
        )


@njit(cache=True, nogil=True, fastmath=REORDER)
def _extend_gram(
    gram: Matrix, rows: Matrix, numbers: Numbers, vectors: Matrix, begin: int, end: int
) -> None:
    n = len(numbers) - len(vectors)
    fours = len(vectors) // 4 * 4
    for i in range(begin, end):
        row = rows[numbers[i]]
        # Four at a time: a row is read from memory a quarter as often.
        for k in range(0, fours, 4):
            v0, v1, v2, v3 = vectors[k], vectors[k + 1], vectors[k + 2], vectors[k + 3]
            t0 = t1 = t2 = t3 = 0.0
            for j in range(len(row)):
                t0 += row[j] * v0[j]
                t1 += row[j] * v1[j]
                t2 += row[j] * v2[j]
                t3 += row[j] * v3[j]
            # Plain lines: a loop over pairs of row and product takes longer to compile.
            last = n + k
            if i <= last:
                gram[i, last] = gram[last, i] = t0
            if i <= last + 1:
                gram[i, last + 1] = gram[last + 1, i] = t1
            if i <= last + 2:
                gram[i, last + 2] = gram[last + 2, i] = t2
            if i <= last + 3:
                gram[i, last + 3] = gram[last + 3, i] = t3
        for k in range(fours, len(vectors)):
            v0, t0 = vectors[k], 0.0
            for j in range(len(row)):
                t0 += row[j] * v0[j]
            if i <= n + k:
                gram[i, n + k] = gram[n + k, i] = t0


def combination(rows: Matrix, numbers: Numbers, weights: Vector) -> Vector:
    """Return the sum of the numbered rows, weighted; rows without weight are not read."""
    out = np.zeros(rows.shape[1])
    if len(numbers) * len(out) < _LARGE:
        _combine(rows, numbers, weights, 0, len(out), out)
    else:  # in pieces of the sum that a core's cache holds
        map_blocks(
            lambda j: _combine(rows, numbers, weights, j.start, j.stop, out),
            len(out),
        )
    return out


@njit(cache=True, nogil=True, fastmath=REORDER)
def _combine(
    rows: Matrix, numbers: Numbers, weights: Vector, begin: int, end: int, out: Vector
) -> None:
    for i in range(len(weights)):
        if weights[i] != 0.0:
            row, weight = rows[numbers[i]], weights[i]
            for j in range(begin, end):
                out[j] += weight * row[j]


def gram_with_diagonal(rows: Matrix, diagonal: Vector) -> Matrix:
    """Return ``rows diag(diagonal) rows'``; columns where the diagonal is zero are not read."""
    used = np.flatnonzero(diagonal)
    scaled = (rows if len(used) == len(diagonal) else rows[:, used]) * np.sqrt(diagonal[used])
    gram = np.empty((len(rows), len(rows)))
    extend_gram(gram, scaled, np.arange(len(rows)), scaled)
    return gram


def between(
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    step: float,
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return ``start + step * (end - start)``, in ``out`` if it is given, which may be ``end``."""
    out = empty(*start.shape) if out is None else out

    def fill(start: NDArray[Any], end: NDArray[Any], out: NDArray[Any]) -> None:
        np.subtract(end, start, out=out)
        out *= step
        out += start

    map_arrays(fill, start, end, out)
    return out


def all_finite(numbers: NDArray[np.float64]) -> bool:
    """Say whether no number is infinite or NaN: the extremes tell of all."""
    ends = map_arrays(lambda part: (part.min(initial=0.0), part.max(initial=0.0)), numbers)
    return all(math.isfinite(float(high) - float(low)) for low, high in ends)


def sum_over(values: NDArray[Any]) -> Any:
    """Return the sum over all examples: a number, or one for each column."""
    summed = total(map_arrays(lambda part: part.sum(axis=0), values))
    return float(summed) if values.ndim == 1 else summed


def product_over(a: Vector, b: Vector) -> float:
    """Return the sum over all examples of ``a * b``."""
    return float(total(map_arrays(dot, np.ascontiguousarray(a), np.ascontiguousarray(b))))


def sum_and_size_over(values: Vector) -> tuple[float, float]:
    """Return the sums over all examples of values, and of absolute values."""
    both = add_up(map_arrays(lambda part: (part.sum(), np.abs(part).sum()), values))
    return float(both[0]), float(both[1])


def largest_over(values: Vector) -> float:
    """Return the largest number of all examples; minus infinity if there are none."""
    tops = map_arrays(lambda part: (np.array([part.max(initial=-np.inf)]),), values)
    return float(joined(tops)[0].max())


def largest_size_over(values: Vector) -> float:
    """Return the largest absolute value of all examples; zero if there are none."""
    tops = map_arrays(lambda part: (np.array([np.abs(part).max(initial=0.0)]),), values)
    return float(joined(tops)[0].max())


# A pivot below this share of its diagonal entry is rounding.
_LEAST_PIVOT = 64.0 * EPS


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def solve_positive(matrix: Matrix, right: Vector) -> Vector:
    """Return the solution of ``matrix @ x = right`` by Cholesky's factors.

    The lower triangle of the matrix is read, and overwritten. Where rounding has left nothing of a
    pivot, the unknown is set to zero, as if its row and column were not there.
    """
    n = len(right)
    x = right.copy()
    for i in range(n):
        diagonal = matrix[i, i]
        for j in range(i):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = total * matrix[j, j]
        pivot = diagonal
        for k in range(i):
            pivot -= matrix[i, k] * matrix[i, k]
        # The diagonal holds the inverse of the factor's: zero takes the unknown out.
        matrix[i, i] = 1.0 / np.sqrt(pivot) if pivot > _LEAST_PIVOT * diagonal else 0.0
        total = x[i]
        for k in range(i):
            total -= matrix[i, k] * x[k]
        x[i] = total * matrix[i, i]
    for i in range(n - 1, -1, -1):
        x[i] *= matrix[i, i]
        for k in range(i):
            x[k] -= matrix[i, k] * x[i]
    return x


Array = NDArray[np.float64]


def conjugate_gradients(
    times: Callable[[Any], Array],
    right: Array,
    *,
    roughly_divided: Callable[[Any], Array],
    left: float,
    most: int,
) -> Array:
    """Return ``x`` with ``times(x)`` near ``right``, which is overwritten.

    In a minimization every iterate is a direction of descent, so that it may end at any time: at
    the latest after ``most`` products, and early where the run is in a hurry.

    Parameters
    ----------
    times : callable
        The product with the matrix.
    right : ndarray
        Vector or matrix; what is left of it at the end.
    roughly_divided : callable
        The product with a rough inverse.
    left : float
        The share of the right side that may be left, in the norm of the rough inverse.
    most : int
        The most products.
    """
    solution = np.zeros_like(right)
    divided = roughly_divided(right)
    along, size = divided, _dot(right, divided)
    enough = left**2 * size
    for _ in range(most):
        changed = times(along)
        bent = _dot(along, changed)
        if not bent > 0.0:
            break
        length = size / bent
        solution += length * along
        right -= length * changed
        divided = roughly_divided(right)
        before, size = size, _dot(right, divided)
        if size <= enough or hurried():
            break
        along = divided + (size / before) * along
    return solution


def _dot(a: Array, b: Array) -> float:
    return float(dot(a.ravel(), b.ravel()))
