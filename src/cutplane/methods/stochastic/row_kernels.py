"""What compiled steps do with a row: the product with the iterate, a slope, and the step itself.

A row is a range of entries. Without indices it is dense, and has all columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import REORDER, njit
from cutplane.losses.score_loss import EXPONENTIAL, LOGISTIC, MARGIN_PIECES, POISSON

_CONTRACT = {"contract"}
# Beyond this exponent losses that grow exponentially have the slope that they have there. It is
# still one of their slopes, so that planes hold.
_FARTHEST = 30.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def slope_of(form: int, shape: Matrix, y: float, z: float) -> float:
    """Return the slope of an example's loss at score ``z``; at a kink, the lesser one."""
    if form == LOGISTIC:
        return float(-y / (1.0 + np.exp(min(y * z, 700.0))))
    if form == EXPONENTIAL:
        return float(-y * np.exp(min(-y * z, _FARTHEST)))
    if form == POISSON:
        return float(np.exp(min(z, _FARTHEST)) - y)
    v = y * z - 1.0 if form == MARGIN_PIECES else z - y
    left, right = -v - shape[0, 0], v - shape[1, 0]
    slope = 0.0
    if left > 0.0:
        slope -= shape[0, 1] * min(left, shape[0, 4]) + shape[0, 2]
    if right > 0.0:
        slope += shape[1, 1] * min(right, shape[1, 4]) + shape[1, 2]
    return y * slope if form == MARGIN_PIECES else slope


@njit(cache=True, nogil=True, fastmath=REORDER, inlined=True)
def _dense_product(values: NDArray[Any], first: np.uint64, v: Vector) -> float:
    total = 0.0
    for j in range(len(v)):
        total += values[first + np.uint64(j)] * v[j]
    return total


@njit(cache=True, nogil=True, fastmath=_CONTRACT, inlined=True)
def _sparse_product(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, v: Vector
) -> float:
    # Four sums by hand: left to the compiler, entries are gathered by long vectors, and what is
    # left of short rows takes longer (a pass over a9a took 1.1 times as long).
    a = b = c = d = 0.0
    k = first
    while k + np.uint64(4) <= last:
        a += values[k] * v[np.uint64(indices[k])]
        b += values[k + np.uint64(1)] * v[np.uint64(indices[k + np.uint64(1)])]
        c += values[k + np.uint64(2)] * v[np.uint64(indices[k + np.uint64(2)])]
        d += values[k + np.uint64(3)] * v[np.uint64(indices[k + np.uint64(3)])]
        k += np.uint64(4)
    while k < last:
        a += values[k] * v[np.uint64(indices[k])]
        k += np.uint64(1)
    return (a + b) + (c + d)


@njit(cache=True, nogil=True, fastmath=_CONTRACT, inlined=True)
def row_product(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, v: Vector
) -> float:
    """Return the dot product of a row with ``v``; a row without indices has all columns."""
    if len(indices) == 0:
        return float(_dense_product(values, first, v))
    return float(_sparse_product(values, indices, first, last, v))


@njit(cache=True, nogil=True, fastmath=_CONTRACT, inlined=True)
def add_row(
    values: NDArray[Any],
    indices: NDArray[Any],
    first: np.uint64,
    last: np.uint64,
    factor: float,
    v: Vector,
) -> None:
    """Add a row to ``v``, times a factor."""
    if len(indices) == 0:
        for j in range(len(v)):
            v[j] += factor * values[first + np.uint64(j)]
    else:
        for k in range(first, last):
            v[np.uint64(indices[k])] += factor * values[k]
