"""Scores for predictions: ``X W'``, each sum taken in the order of the features.

A prediction must not depend on the other rows that it is asked for with. A BLAS takes the sums of
one row in another order than those of many, and the last bits decide where two classes have the
same score. Here each sum starts at zero and takes up one product after the other, feature by
feature, rounded after each operation: no fused multiplication and addition, no leave to reorder.
So the bits are those of this definition, whatever the batch, the order in memory (C, Fortran, CSR),
the number of threads and the processor are.

Speed comes from doing many such sums side by side (docs/decisions/2026-11-18-products.md). The
loops of `cutplane.data.layouts` are faster still, and are for training, where last bits do not
matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.compute.blocks import count_blocks, even_bounds
from cutplane.compute.compiled import njit
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.data.layouts import CompressedRows, as_rows, balanced_bounds
from cutplane.data.rows import Bounds, Entries, read_only

# With fewer outputs it does not pay to turn the rows of a tile into columns.
_MANY_OUTPUTS = 6
# A tile of dense rows, copied to float64 and by columns: 32 rows by up to 256 features fit into L2.
_TILE_ROWS, _TILE_FEATURES = 32, 256
# Unused places at the end of each column of a tile: columns a power of two apart in memory would
# compete for the same few lines of the cache.
_APART = 8
# Rows and outputs at a time whose sums stay in the cache.
_COLUMN_ROWS, _OUTPUTS = 256, 32
# Numbers of X that are copied at a time if it is not contiguous.
_COPIED = 1 << 18


def ordered_scores(X: Any, W: Matrix, *, n_threads: int | None = None) -> Matrix:
    """Return ``X W'``, one row an example and one column an output.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Float32 or float64; other types are converted. All numbers must be finite.
    W : ndarray of shape (n_outputs, n_features)
    n_threads : int, optional
        All cores by default. It has no influence on the results.

    Returns
    -------
    ndarray of shape (n_samples, n_outputs)
        Row ``i`` depends on row ``i`` of X and on W alone, bit for bit.
    """
    W = read_only(np.ascontiguousarray(W, dtype=np.float64))
    if W.shape[1] != X.shape[1]:
        raise ValueError(f"W must have {X.shape[1]} columns to match X, got {W.shape[1]}.")
    out = np.empty((X.shape[0], len(W)))
    if scipy.sparse.issparse(X):
        X = X.tocsr()  # X itself if it is CSR
        _fill_sparse(X if X.has_sorted_indices else X.sorted_indices(), W, out, n_threads)
    elif not (X.flags.c_contiguous or X.flags.f_contiguous):
        # By blocks, because they have to be copied.
        n_rows = max(1, _COPIED // max(1, X.shape[1]))
        for begin in range(0, len(X), n_rows):
            part = slice(begin, begin + n_rows)
            _fill_dense(np.ascontiguousarray(X[part]), W, out[part], n_threads)
    else:
        _fill_dense(X, W, out, n_threads)
    return out


def _fill_dense(X: NDArray[Any], W: Matrix, out: Matrix, n_threads: int | None) -> None:
    if X.dtype not in (np.float64, np.float32) or not X.dtype.isnative:
        X = X.astype(np.float64)
    bounds = even_bounds(len(out), count_blocks(out.size * W.shape[1]))
    if not X.flags.c_contiguous:
        _run(n_threads, bounds, _column_sums, read_only(X.T), W, out)
    elif len(W) < _MANY_OUTPUTS:
        _run(n_threads, bounds, _row_sums, read_only(X), W, out)
    else:
        _run(n_threads, bounds, _tile_sums, read_only(X), W, out)


def _fill_sparse(X: Any, W: Matrix, out: Matrix, n_threads: int | None) -> None:
    rows = as_rows(X, n_threads=n_threads)  # no index may point elsewhere
    assert isinstance(rows, CompressedRows)
    bounds = balanced_bounds(rows.starts, count_blocks(rows.n_entries * len(W)))
    # Weights by features are faster to read, but have to be copied first.
    if len(W) < _MANY_OUTPUTS or rows.n_entries < rows.shape[1]:
        _run(n_threads, bounds, _csr_one_by_one, rows.entries(), W, out)
    else:
        by_feature = read_only(np.ascontiguousarray(W.T))
        _run(n_threads, bounds, _csr_all_at_once, rows.entries(), by_feature, out)


def _run(n_threads: int | None, bounds: Bounds, kernel: Callable[..., None], *given: Any) -> None:
    n_blocks = len(bounds) - 1
    if n_blocks == 1:  # one row, as a rule: nothing else should take time
        kernel(*given, bounds[0], bounds[1])
        return
    run_blocks(
        lambda first, last: kernel(*given, bounds[first], bounds[last]),
        n_blocks,
        n_threads=default_threads() if n_threads is None else n_threads,
    )


@njit(cache=True, nogil=True)
def _add_columns(
    columns: NDArray[Any],
    n_columns: int,
    begin: int,
    end: int,
    W: Matrix,
    feature: int,
    output: int,
    n_outputs: int,
    sums: Matrix,
) -> None:
    """Add the products of features ``feature``, ... to the sums of some outputs, one a line.

    The features are the first lines of ``columns``, and of each the part from begin to end.
    """
    n_rows = end - begin
    whole = n_columns - n_columns % 8
    # Eight features at a time: an eighth as often are the sums read and written.
    for c in range(0, whole, 8):
        x0, x1 = columns[c, begin:end], columns[c + 1, begin:end]
        x2, x3 = columns[c + 2, begin:end], columns[c + 3, begin:end]
        x4, x5 = columns[c + 4, begin:end], columns[c + 5, begin:end]
        x6, x7 = columns[c + 6, begin:end], columns[c + 7, begin:end]
        for k in range(n_outputs):
            w = W[output + k, feature + c : feature + c + 8]
            w0, w1, w2, w3, w4, w5, w6, w7 = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
            z = sums[k]
            for i in range(n_rows):
                first = (((z[i] + w0 * x0[i]) + w1 * x1[i]) + w2 * x2[i]) + w3 * x3[i]
                z[i] = (((first + w4 * x4[i]) + w5 * x5[i]) + w6 * x6[i]) + w7 * x7[i]
    for c in range(whole, n_columns):
        x = columns[c, begin:end]
        for k in range(n_outputs):
            u = W[output + k, feature + c]
            z = sums[k]
            for i in range(n_rows):
                z[i] += u * x[i]


# Plain loops, here and below: assignments to slices take a second each to compile.
@njit(cache=True, nogil=True)
def _clear(sums: Matrix, n_outputs: int, n_rows: int) -> None:
    for k in range(n_outputs):
        for i in range(n_rows):
            sums[k, i] = 0.0


@njit(cache=True, nogil=True)
def _tile_sums(X: NDArray[Any], W: Matrix, out: Matrix, begin: int, end: int) -> None:
    n_features = X.shape[1]
    tile = np.empty((min(_TILE_FEATURES, n_features), _TILE_ROWS + _APART))
    sums = np.empty((min(_OUTPUTS, len(W)), _TILE_ROWS + _APART))
    for start in range(begin, end, _TILE_ROWS):
        n_rows = min(_TILE_ROWS, end - start)
        for output in range(0, len(W), _OUTPUTS):
            n_outputs = min(_OUTPUTS, len(W) - output)
            _clear(sums, n_outputs, n_rows)
            for feature in range(0, n_features, _TILE_FEATURES):
                n = min(_TILE_FEATURES, n_features - feature)
                for i in range(n_rows):
                    x = X[start + i, feature : feature + n]
                    for j in range(n):
                        tile[j, i] = x[j]
                _add_columns(tile, n, 0, n_rows, W, feature, output, n_outputs, sums)
            for i in range(n_rows):
                for k in range(n_outputs):
                    out[start + i, output + k] = sums[k, i]


@njit(cache=True, nogil=True)
def _column_sums(columns: NDArray[Any], W: Matrix, out: Matrix, begin: int, end: int) -> None:
    sums = np.empty((min(_OUTPUTS, len(W)), _COLUMN_ROWS + _APART))
    for start in range(begin, end, _COLUMN_ROWS):
        n_rows = min(_COLUMN_ROWS, end - start)
        for output in range(0, len(W), _OUTPUTS):
            n_outputs = min(_OUTPUTS, len(W) - output)
            _clear(sums, n_outputs, n_rows)
            _add_columns(
                columns, len(columns), start, start + n_rows, W, 0, output, n_outputs, sums
            )
            for i in range(n_rows):
                for k in range(n_outputs):
                    out[start + i, output + k] = sums[k, i]


@njit(cache=True, nogil=True)
def _row_sums(X: NDArray[Any], W: Matrix, out: Matrix, begin: int, end: int) -> None:
    n_features = X.shape[1]
    whole = end - (end - begin) % 8
    # Eight rows at a time: one sum alone would wait for each addition before the next.
    for i in range(begin, whole, 8):
        for k in range(len(W)):
            z0 = z1 = z2 = z3 = z4 = z5 = z6 = z7 = 0.0
            for j in range(n_features):
                u = W[k, j]
                z0 += u * X[i, j]
                z1 += u * X[i + 1, j]
                z2 += u * X[i + 2, j]
                z3 += u * X[i + 3, j]
                z4 += u * X[i + 4, j]
                z5 += u * X[i + 5, j]
                z6 += u * X[i + 6, j]
                z7 += u * X[i + 7, j]
            out[i, k], out[i + 1, k], out[i + 2, k], out[i + 3, k] = z0, z1, z2, z3
            out[i + 4, k], out[i + 5, k], out[i + 6, k], out[i + 7, k] = z4, z5, z6, z7
    for i in range(whole, end):
        for k in range(len(W)):
            z = 0.0
            for j in range(n_features):
                z += W[k, j] * X[i, j]
            out[i, k] = z


@njit(cache=True, nogil=True)
def _csr_one_by_one(csr: Entries, W: Matrix, out: Matrix, begin: int, end: int) -> None:
    values, indices, starts = csr
    for i in range(begin, end):
        for k in range(len(W)):
            w = W[k]
            z = 0.0
            for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                z += values[e] * w[np.uint64(indices[e])]
            out[i, k] = z


@njit(cache=True, nogil=True)
def _csr_all_at_once(csr: Entries, by_feature: Matrix, out: Matrix, begin: int, end: int) -> None:
    values, indices, starts = csr
    n_outputs = out.shape[1]
    for i in range(begin, end):
        z = out[i]
        for k in range(n_outputs):
            z[k] = 0.0
        for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            x = values[e]
            w = by_feature[np.uint64(indices[e])]
            for k in range(n_outputs):
                z[k] += x * w[k]
