"""Coordinate descent on a quadratic model, compiled.

With slopes ``g`` and curvatures ``h`` of the examples, the model of a step ``t`` from ``w`` is

    g.(X t + s) + 1/2 sum_i h_i (x_i.t + s)^2 + r(w + t)

over the chosen columns of ``X``, and a change ``s`` of the intercept. ``r`` is a sum over
coordinates, so the best value of one coordinate has a closed form. The best ``s`` follows each of
them: it is ``-total / H`` with ``H = sum h`` and ``total`` the sum of slopes without it, so it is
never older than the last change. (Without an intercept ``H`` is given as infinite.)

Passes over all chosen columns alternate with passes over those that moved. A loop that adds up
writes to no array: see CONTRIBUTING.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import REORDER, njit

Numbers = NDArray[np.int64]
# Columns of a matrix in CSC: values, rows, and where columns start.
Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Penalty: TypeAlias = tuple[float, Matrix]
"""l1; and a row of l2, l2 * center, lower and upper bound for each coordinate."""

# How often the columns that moved are passed over before all are looked at again.
_INNER_PASSES = 8
# A pass on all coordinates, after which those on active ones are counted; and that was the last.
_ALL, _END = 0, -1
# Of how many changes an extrapolation is made.
_MEMORY = 5
# The share of a coordinate's own curvature that what is known of directions leaves at least.
_LEAST_LEFT = 1e-6


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _best(at: float, slope: float, curvature: float, l1: float, square: Vector) -> float:
    """Return the best value of a coordinate; ``square``: l2, l2 * center, lower and upper bound."""
    bend = curvature + square[0]
    pull = curvature * at - slope + square[1]
    value = 0.0
    if bend > 0.0:
        if pull > l1:
            value = (pull - l1) / bend
        elif pull < -l1:
            value = (pull + l1) / bend
    return float(min(max(value, square[2]), square[3]))


@njit(cache=True, nogil=True, fastmath=REORDER, inner=True)
def _sparse_product(columns: Columns, j: int, vector: Vector) -> float:
    values, rows, starts = columns
    total = 0.0
    for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
        total += values[k] * vector[np.uint64(rows[k])]
    return total


@njit(cache=True, nogil=True, fastmath=REORDER)
def sparse_moments(columns: Columns, chosen: Numbers, curvatures: Vector) -> tuple[Vector, Vector]:
    """Return ``x.(h x)`` and ``x.h`` for each chosen column ``x``."""
    values, rows, starts = columns
    second, first = np.empty(len(chosen)), np.empty(len(chosen))
    for c in range(len(chosen)):
        j = chosen[c]
        square, product = 0.0, 0.0
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            scaled = values[k] * curvatures[np.uint64(rows[k])]
            square += scaled * values[k]
            product += scaled
        second[c], first[c] = square, product
    return second, first


@njit(cache=True, nogil=True, error_model="numpy")
def _extrapolation(points: Matrix) -> Vector:
    """Return weights that sum to one, of all points but the first, for the least mean change.

    Anderson's extrapolation, as Q. Bertrand and M. Massias use it (Anderson acceleration of
    coordinate descent, 2021). Zeros if the changes say nothing.
    """
    n = len(points) - 1
    gram, ones = np.empty((n, n)), np.ones(n)
    for a in range(n):
        for b in range(a + 1):
            total = 0.0
            for k in range(points.shape[1]):
                total += (points[a + 1, k] - points[a, k]) * (points[b + 1, k] - points[b, k])
            gram[a, b] = total
    trace = 0.0
    for a in range(n):
        trace += gram[a, a]
    if not trace > 0.0:
        return np.zeros(n)
    # Elimination by hand: compiled code that calls LAPACK is slow to compile.
    for a in range(n):
        gram[a, a] += 1e-10 * trace
        for b in range(a):
            gram[b, a] = gram[a, b]
    for a in range(n):
        for b in range(a + 1, n):
            share = gram[b, a] / gram[a, a]
            for c in range(a, n):
                gram[b, c] -= share * gram[a, c]
            ones[b] -= share * ones[a]
    for a in range(n - 1, -1, -1):
        for b in range(a + 1, n):
            ones[a] -= gram[a, b] * ones[b]
        ones[a] /= gram[a, a]
    total = ones.sum()
    for a in range(n):
        ones[a] /= total
    return ones


@njit(cache=True, nogil=True, error_model="numpy")
def _penalty(w: Vector, penalty: Penalty) -> float:
    """Return the regularizer at ``w``; infinite outside of the bounds."""
    l1, squares = penalty
    total = 0.0
    for c in range(len(w)):
        v = w[c]
        if v < squares[c, 2] or v > squares[c, 3]:
            return np.inf
        total += l1 * abs(v) + v * (0.5 * squares[c, 0] * v - squares[c, 1])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _model_loss(slopes: Vector, first: Vector, curvatures: Vector, total: float) -> float:
    """Return what the model's loss has changed by, from the slopes at the start and now."""
    value = 0.0
    for i in range(len(slopes)):
        if curvatures[i] > 0.0:
            value += (slopes[i] - first[i]) * (slopes[i] + first[i]) / curvatures[i]
    return 0.5 * (value - total)


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _mixed(points: Matrix, weights: Vector, out: Vector) -> None:
    """Fill the mean of all points but the first."""
    for k in range(len(out)):
        out[k] = weights[0] * points[1, k]
    for a in range(1, len(weights)):
        for k in range(len(out)):
            out[k] += weights[a] * points[a + 1, k]


@njit(cache=True, nogil=True, inner=True)
def _next_pass(settled: bool, passes: int) -> int:
    """Return how many passes on active coordinates there will have been since the last on all."""
    if settled:
        return _END if passes == _ALL else _ALL
    return _ALL if passes > _INNER_PASSES else passes + 1


@njit(cache=True, nogil=True, error_model="numpy")
def sparse_descent(
    columns: Columns,
    chosen: Numbers,
    slopes: Vector,
    curvatures: Vector,
    second: Vector,
    first: Vector,
    total_curvature: float,
    penalty: Penalty,
    w: Vector,
    enough: float,
    most: int,
) -> float:
    """Minimize the model over the chosen columns; ``w`` and ``slopes`` become those at its end.

    ``slopes`` lack what the intercept adds, ``curvatures`` times its change, which is returned.
    It ends when no coordinate moves by as much as ``enough``, in units of slopes.
    """
    values, rows, starts = columns
    l1, squares = penalty
    before, at_start = w.copy(), slopes.copy()
    total = 0.0  # what the steps add to the sum of slopes
    active = np.empty(len(chosen), np.int64)
    n_active, passes = 0, _ALL
    points, theirs = np.empty((_MEMORY + 1, len(w))), np.empty((_MEMORY + 1, len(slopes)))
    ahead, theirs_ahead = np.empty(len(w)), np.empty(len(slopes))
    n_points = 0
    for _ in range(most):
        largest = 0.0
        n_next = 0
        n_visits = n_active if passes > _ALL else len(chosen)
        for visit in range(n_visits):
            c = active[visit] if passes > _ALL else visit
            j = chosen[c]
            slope = _sparse_product(columns, j, slopes) - total / total_curvature * first[c]
            curvature = max(second[c] - first[c] * first[c] / total_curvature, 0.0)
            new = _best(w[c], slope, curvature, l1, squares[c])
            step = new - w[c]
            active[n_next] = c  # overwritten by the next one if this is not active
            n_next += new != 0.0 or step != 0.0
            if step != 0.0:
                w[c] = new
                total += step * first[c]
                for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                    i = np.uint64(rows[k])
                    slopes[i] += step * values[k] * curvatures[i]
                largest = max(largest, abs(step) * (curvature + squares[c, 0]))
        n_active = n_next
        passes = _next_pass(largest <= enough or n_active == 0, passes)
        if passes == _END:
            break
        points[n_points] = w
        theirs[n_points] = slopes
        n_points += 1
        if n_points > _MEMORY:
            n_points = 0
            weights = _extrapolation(points)
            _mixed(points, weights, ahead)
            _mixed(theirs, weights, theirs_ahead)
            total_ahead = 0.0
            for c in range(len(w)):
                total_ahead += (ahead[c] - before[c]) * first[c]
            now = _model_loss(slopes, at_start, curvatures, total * total / total_curvature)
            now += _penalty(w, penalty)
            then = _model_loss(
                theirs_ahead, at_start, curvatures, total_ahead * total_ahead / total_curvature
            )
            then += _penalty(ahead, penalty)
            if weights[0] != 0.0 and then < now:
                w[:] = ahead
                slopes[:] = theirs_ahead
                total = total_ahead
    return -total / total_curvature


@njit(cache=True, nogil=True, fastmath=REORDER)
def sparse_scores(columns: Columns, chosen: Numbers, steps: Vector, out: Vector) -> None:
    """Add the products of the rows with steps of the chosen columns."""
    values, rows, starts = columns
    for c in range(len(chosen)):
        if steps[c] != 0.0:
            j = chosen[c]
            for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                out[np.uint64(rows[k])] += steps[c] * values[k]


@njit(cache=True, nogil=True, error_model="numpy")
def gram_descent(
    gram: Matrix, slope: Vector, penalty: Penalty, w: Vector, enough: float, most: int
) -> None:
    """Minimize the model whose second derivatives are ``gram``; ``w`` and ``slope`` at its end."""
    l1, squares = penalty
    d = len(w)
    everything, active = np.arange(d), np.empty(d, np.int64)
    n_active, passes = 0, _ALL
    for _ in range(most):
        largest, n_next = 0.0, 0
        for j in active[:n_active] if passes > _ALL else everything:
            curvature = max(gram[j, j], 0.0)
            new = _best(w[j], slope[j], curvature, l1, squares[j])
            step = new - w[j]
            active[n_next] = j  # overwritten by the next one if this is not active
            n_next += new != 0.0 or step != 0.0
            if step != 0.0:
                w[j] = new
                row = gram[j]
                for k in range(d):
                    slope[k] += step * row[k]
                largest = max(largest, abs(step) * (curvature + squares[j, 0]))
        n_active = n_next
        passes = _next_pass(largest <= enough or n_active == 0, passes)
        if passes == _END:
            break


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def low_rank_descent(
    diagonal: Vector,
    factor: Matrix,
    signs: Vector,
    slope: Vector,
    penalty: Penalty,
    w: Vector,
    enough: float,
    most: int,
) -> None:
    """Minimize the model whose second derivatives are ``diagonal - factor signs factor'``.

    ``w`` becomes its minimum; ``factor`` has a row for each coordinate.
    """
    l1, squares = penalty
    before = w.copy()
    d, rank = factor.shape
    curvatures, along = np.empty(d), np.zeros(rank)
    for j in range(d):
        taken = 0.0
        for k in range(rank):
            taken += signs[k] * factor[j, k] * factor[j, k]
        curvatures[j] = max(diagonal[j] - taken, _LEAST_LEFT * diagonal[j])
    active, everything = np.empty(d, np.int64), np.arange(d)
    passes, n_active = _ALL, 0
    for _ in range(most):
        largest, n_next = 0.0, 0
        for j in active[:n_active] if passes > _ALL else everything:
            taken = 0.0
            for k in range(rank):
                taken += factor[j, k] * along[k]
            here = slope[j] + diagonal[j] * (w[j] - before[j]) - taken
            new = _best(w[j], here, curvatures[j], l1, squares[j])
            step = new - w[j]
            active[n_next] = j  # overwritten by the next one if this is not active
            n_next += new != 0.0 or step != 0.0
            if step != 0.0:
                w[j] = new
                for k in range(rank):
                    along[k] += step * signs[k] * factor[j, k]
                largest = max(largest, abs(step) * (curvatures[j] + squares[j, 0]))
        n_active = n_next
        passes = _next_pass(largest <= enough or n_active == 0, passes)
        if passes == _END:
            break


@njit(cache=True, nogil=True, fastmath=REORDER)
def products_with_rows(rows: NDArray[np.float32], vector: Vector) -> Vector:
    """Return the inner product of each row with a vector, added up in double precision."""
    out = np.empty(len(rows))
    for i in range(len(rows)):
        total = 0.0
        for j in range(len(vector)):
            total += np.float64(rows[i, j]) * vector[j]
        out[i] = total
    return out
