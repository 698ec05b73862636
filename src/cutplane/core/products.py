"""Products of vectors that stay on one thread.

NumPy hands long dot products to a threaded BLAS, whose threads go on spinning for some 30 ms after
each call. That is the time of many iterations, on cores that the passes over the data need. These
loops are limited by memory in the same way, and leave the other cores alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cutplane.core.protocols import Matrix, Vector

_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REORDER)
def dot(a: Vector, b: Vector) -> float:
    """Return ``a.b``."""
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def inner_products(rows: Matrix, n: int, vector: Vector) -> Vector:
    """Return the dot products of the first ``n`` rows with a vector."""
    out = np.empty(n)
    for i in range(n):
        row = rows[i]
        total = 0.0
        for j in range(len(vector)):
            total += row[j] * vector[j]
        out[i] = total
    return out


@njit(cache=True, nogil=True, fastmath=_REORDER)
def combination(rows: Matrix, weights: Vector) -> Vector:
    """Return the sum of the rows, weighted; rows without weight are not read."""
    out = np.zeros(rows.shape[1])
    for i in range(len(weights)):
        if weights[i] != 0.0:
            row, weight = rows[i], weights[i]
            for j in range(len(out)):
                out[j] += weight * row[j]
    return out
