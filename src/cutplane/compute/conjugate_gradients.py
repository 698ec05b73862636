"""Solve a positive definite system whose matrix is known by its products only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.pace import hurried
from cutplane.compute.products import dot

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
