"""Products of vectors that stay on one thread.

NumPy hands long dot products to a threaded BLAS, whose threads go on spinning for some 30 ms after
each call. That is the time of many iterations, on cores that the passes over the data need. These
loops are limited by memory in the same way, and leave the other cores alone.

Vectors are rows of a matrix; which of them, and in what order, is told by their numbers. So a
vector can be dropped without moving the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

Numbers = NDArray[np.int64]

_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def dot(a: Vector, b: Vector) -> float:
    """Return ``a.b``."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def inner_products(rows: Matrix, numbers: Numbers, vector: Vector) -> Vector:
    """Return the dot products of the numbered rows with a vector."""
    out = np.empty(len(numbers))
    for i in range(len(numbers)):
        row = rows[numbers[i]]
        total = 0.0
        for j in range(len(vector)):
            total += row[j] * vector[j]
        out[i] = total
    return out


@njit(cache=True, nogil=True, fastmath=_REORDER)
def extend_gram(gram: Matrix, rows: Matrix, numbers: Numbers, vectors: Matrix) -> None:
    """Write the dot products of vectors with the numbered rows into a symmetric matrix.

    The vectors belong to the last rows: the products of each with all rows up to its own become a
    row and a column of the matrix.
    """
    n = len(numbers) - len(vectors)
    fours = len(vectors) // 4 * 4
    for i in range(len(numbers)):
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
            for last, total in ((n + k, t0), (n + k + 1, t1), (n + k + 2, t2), (n + k + 3, t3)):
                if i <= last:
                    gram[i, last] = gram[last, i] = total
        for k in range(fours, len(vectors)):
            v0, t0 = vectors[k], 0.0
            for j in range(len(row)):
                t0 += row[j] * v0[j]
            if i <= n + k:
                gram[i, n + k] = gram[n + k, i] = t0


@njit(cache=True, nogil=True, fastmath=_REORDER)
def combination(rows: Matrix, numbers: Numbers, weights: Vector) -> Vector:
    """Return the sum of the numbered rows, weighted; rows without weight are not read."""
    out = np.zeros(rows.shape[1])
    for i in range(len(weights)):
        if weights[i] != 0.0:
            row, weight = rows[numbers[i]], weights[i]
            for j in range(len(out)):
                out[j] += weight * row[j]
    return out


def gram_with_diagonal(rows: Matrix, diagonal: Vector) -> Matrix:
    """Return ``rows diag(diagonal) rows'``; columns where the diagonal is zero are not read."""
    used = np.flatnonzero(diagonal)
    scaled = (rows if len(used) == len(diagonal) else rows[:, used]) * np.sqrt(diagonal[used])
    gram = np.empty((len(rows), len(rows)))
    extend_gram(gram, scaled, np.arange(len(rows)), scaled)
    return gram
