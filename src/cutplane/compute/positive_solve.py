"""Solve a small positive definite system.

LAPACK could do it, but its threads go on spinning after each call, and starve those that read the
data: with other work on the machine a system of 123 unknowns then took 100 ms in place of one.
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

# A pivot below this share of its diagonal entry is rounding.
_LEAST_PIVOT = 64.0 * float(np.finfo(np.float64).eps)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
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
