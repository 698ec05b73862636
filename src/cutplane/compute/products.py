"""Products and combinations of vectors without BLAS.

NumPy hands long dot products to a threaded BLAS, whose threads go on spinning for some 30 ms after
each call. That is the time of many iterations, on cores that the passes over the data need. These
loops are limited by memory in the same way, and leave the other cores alone. Only products with
rows that no cache holds are shared among threads, row by row, so that bits are the same.

Vectors are rows of a matrix; which of them, and in what order, is told by their numbers. So a
vector can be dropped without moving the others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.room import empty_like
from cutplane.compute.threads import map_blocks

Numbers = NDArray[np.int64]

_REORDER = {"reassoc", "contract", "nsz"}
# Rows with more numbers than this, 32 MB of them, are read from memory each time.
_LARGE = 1 << 22


@njit(cache=True, nogil=True, fastmath=_REORDER)
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


@njit(cache=True, nogil=True, fastmath=_REORDER)
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


@njit(cache=True, nogil=True, fastmath=_REORDER)
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


@njit(cache=True, nogil=True, fastmath=_REORDER)
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
    out = empty_like(start) if out is None else out

    def block(i: slice) -> None:
        np.subtract(end[i], start[i], out=out[i])
        out[i] *= step
        out[i] += start[i]

    map_blocks(block, len(out), width=out[:1].size)
    return out


def all_finite(numbers: NDArray[np.float64]) -> bool:
    """Say whether no number is infinite or NaN: the extremes tell of all."""

    def block(i: slice) -> bool:
        part = numbers[i]
        return math.isfinite(float(part.max(initial=0.0)) - float(part.min(initial=0.0)))

    return all(map_blocks(block, len(numbers), width=numbers[:1].size))
