"""What compiled steps do with a row: the product with a vector, and adding it to one.

A row is a range of entries. Without indices it is dense, and has all columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import REORDER, njit
from cutplane.data.layouts import CompressedRows, DenseRows
from cutplane.data.rows import Rows

_CONTRACT = {"contract"}
_NO_INDICES = np.empty(0, dtype=np.int32)
_NO_STARTS = np.zeros(1, dtype=np.int32)


def entries_of(rows: Rows) -> tuple[Any, Any, Any]:
    """Return values, columns and starts of rows as compiled steps take them."""
    if isinstance(rows, DenseRows):
        return rows.by_rows, _NO_INDICES, _NO_STARTS
    assert isinstance(rows, CompressedRows)
    if not len(rows.indices):  # for no indices mean dense rows
        return np.zeros(1, rows.values.dtype), np.zeros(1, rows.indices.dtype), rows.starts
    return rows.values, rows.indices, rows.starts


@njit(cache=True, nogil=True, fastmath=REORDER, inlined=True)
def dense_product(values: NDArray[Any], first: np.uint64, v: Vector) -> float:
    """Return the dot product of a dense row with ``v``."""
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
        return float(dense_product(values, first, v))
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
