"""Compiled products for many classes at once; see :mod:`cutplane.maps.stored`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.compute.compiled import njit

_REORDER = {"reassoc", "contract", "nsz"}
# Rows of a column-major matrix handled at a time: a column's part stays in L1 for all classes.
_TILE = 512


# Plain loops, here and below: assignments to slices take a second each to compile.
@njit(cache=True, nogil=True)
def _any(values: NDArray[np.float64]) -> bool:
    for value in values:  # noqa: SIM110
        if value != 0.0:
            return True
    return False


@njit(cache=True, nogil=True, fastmath=_REORDER)
def row_scores(
    X: NDArray[Any],
    W: Matrix,
    out: Matrix,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    """Fill the scores ``X W'`` of all classes, rows stored one after the other."""
    n_features, n_classes = X.shape[1], len(W)
    four = np.zeros((4, n_features))  # in float64
    x0, x1, x2, x3 = four[0], four[1], four[2], four[3]
    # By blocks, so that the same rows go together for any number of threads.
    for block in range(first_block, last_block):
        for i in range(bounds[block], bounds[block + 1], 4):
            n = min(4, bounds[block + 1] - i)
            for r in range(n):
                for j in range(n_features):
                    four[r, j] = X[i + r, j]
            for k in range(0, n_classes, 2):
                l = min(k + 1, n_classes - 1)
                w, v = W[k], W[l]
                w0 = w1 = w2 = w3 = v0 = v1 = v2 = v3 = 0.0
                for j in range(n_features):
                    w0 += x0[j] * w[j]
                    w1 += x1[j] * w[j]
                    w2 += x2[j] * w[j]
                    w3 += x3[j] * w[j]
                    v0 += x0[j] * v[j]
                    v1 += x1[j] * v[j]
                    v2 += x2[j] * v[j]
                    v3 += x3[j] * v[j]
                out[i, k], out[i, l] = w0, v0
                if n > 1:
                    out[i + 1, k], out[i + 1, l] = w1, v1
                if n > 2:
                    out[i + 2, k], out[i + 2, l] = w2, v2
                if n > 3:
                    out[i + 3, k], out[i + 3, l] = w3, v3


@njit(cache=True, nogil=True, fastmath=_REORDER)
def row_pullback(
    X: NDArray[Any],
    slopes: Matrix,
    sums: NDArray[np.float64],
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    """Fill the sums ``slopes' X`` of each block."""
    n_features, n_classes = X.shape[1], slopes.shape[1]
    four = np.zeros((4, n_features))
    x0, x1, x2, x3 = four[0], four[1], four[2], four[3]
    s = np.zeros((4, n_classes))
    for block in range(first_block, last_block):
        total = sums[block]
        for k in range(n_classes):
            for j in range(n_features):
                total[k, j] = 0.0
        n = 0
        # Examples with slopes are collected until there are four.
        for i in range(bounds[block], bounds[block + 1] + 1):
            last = i == bounds[block + 1]
            if not last and _any(slopes[i]):
                for k in range(n_classes):
                    s[n, k] = slopes[i, k]
                for j in range(n_features):
                    four[n, j] = X[i, j]
                n += 1
            if n == 4 or (last and n > 0):
                for r in range(n, 4):
                    for k in range(n_classes):
                        s[r, k] = 0.0
                    for j in range(n_features):
                        four[r, j] = 0.0  # whatever it held, it must not spoil the sum
                for k in range(n_classes):
                    s0, s1, s2, s3 = s[0, k], s[1, k], s[2, k], s[3, k]
                    if s0 != 0.0 or s1 != 0.0 or s2 != 0.0 or s3 != 0.0:
                        t = total[k]
                        for j in range(n_features):
                            t[j] += (s0 * x0[j] + s1 * x1[j]) + (s2 * x2[j] + s3 * x3[j])
                n = 0


@njit(cache=True, nogil=True, fastmath=_REORDER)
def column_scores(
    columns: NDArray[Any],
    W: Matrix,
    out: Matrix,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    """Fill the scores of all classes, columns stored one after the other."""
    n_features, n_classes = len(columns), len(W)
    by_class = np.empty((n_classes, _TILE))
    for block in range(first_block, last_block):
        end = bounds[block + 1]
        for start in range(bounds[block], end, _TILE):
            n = min(_TILE, end - start)
            for k in range(n_classes):
                for i in range(n):
                    by_class[k, i] = 0.0
            for j in range(0, n_features, 2):
                # A last odd column is added once: its twin has no weight.
                l = min(j + 1, n_features - 1)
                x, y = columns[j, start : start + n], columns[l, start : start + n]
                for k in range(n_classes):
                    u, v = W[k, j], W[k, l] if l > j else 0.0
                    z = by_class[k]
                    for i in range(n):
                        z[i] += u * x[i] + v * y[i]
            for i in range(n):
                for k in range(n_classes):
                    out[start + i, k] = by_class[k, i]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def column_pullback(
    columns: NDArray[Any],
    slopes: Matrix,
    sums: NDArray[np.float64],
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    """Fill the sums of each block."""
    n_features, n_classes = len(columns), slopes.shape[1]
    by_class = np.empty((n_classes, _TILE))
    for block in range(first_block, last_block):
        for k in range(n_classes):
            for j in range(n_features):
                sums[block, k, j] = 0.0
        end = bounds[block + 1]
        for start in range(bounds[block], end, _TILE):
            n = min(_TILE, end - start)
            for i in range(n):
                for k in range(n_classes):
                    by_class[k, i] = slopes[start + i, k]
            for j in range(n_features):
                x = columns[j, start : start + n]
                for k in range(n_classes):
                    s = by_class[k]
                    total = 0.0
                    for i in range(n):
                        total += s[i] * x[i]
                    sums[block, k, j] += total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def csr_scores(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    by_feature: Matrix,
    out: Matrix,
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    """Fill the scores of all classes; weights are given feature by feature."""
    n_classes = out.shape[1]
    for i in range(bounds[first_block], bounds[last_block]):
        z = out[i]
        for k in range(n_classes):
            z[k] = 0.0
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            x = values[e]
            w = by_feature[np.uint64(indices[e])]
            for k in range(n_classes):
                z[k] += x * w[k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def csr_pullback(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    slopes: Matrix,
    sums: NDArray[np.float64],
    bounds: NDArray[np.int64],
    first_block: int,
    last_block: int,
) -> None:
    """Fill the sums of each block, feature by feature."""
    n_classes = slopes.shape[1]
    for block in range(first_block, last_block):
        total = sums[block]
        for j in range(len(total)):
            for k in range(n_classes):
                total[j, k] = 0.0
        for i in range(bounds[block], bounds[block + 1]):
            s = slopes[i]
            if _any(s):
                for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                    x = values[e]
                    t = total[np.uint64(indices[e])]
                    for k in range(n_classes):
                        t[k] += x * s[k]
