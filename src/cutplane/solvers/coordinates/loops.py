"""Coordinate descent on a quadratic model, compiled.

With slopes ``g`` and curvatures ``h`` of the examples, the model of a step ``t`` from ``w`` is

    g.(X t + s) + 1/2 sum_i h_i (x_i.t + s)^2 + r(w + t)

over the chosen columns of ``X``, and a change ``s`` of the intercept. ``r`` is a sum over
coordinates, so the best value of one coordinate has a closed form. The best ``s`` follows each of
them: it is ``-total / H`` with ``H = sum h`` and ``total`` the sum of slopes without it, so it is
never older than the last change. (Without an intercept ``H`` is given as infinite.)

Passes over all chosen columns alternate with passes over those that moved. Once these tell which
coordinates are not zero, and their signs, the model is a quadratic function of them, and conjugate
gradients find its minimum in a half to a quarter of the passes. A loop that adds up writes to no
array: see CONTRIBUTING.
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
# Conjugate gradients begin after so many passes, where in the last one at most this share of the
# coordinates came, went or changed its sign; end when slopes are this share of what they were; and
# a direction is flat where it bends by less than this share of what its coordinates would without
# each other.
_PASSES_BEFORE = 2
_UNSETTLED = 1e-3
_LEFT_SHARE = 0.1
_FLAT = 1e-10
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


@njit(cache=True, nogil=True, inner=True)
def _next_pass(settled: bool, passes: int) -> int:
    """Return how many passes on active coordinates there will have been since the last on all."""
    if settled:
        return _END if passes == _ALL else _ALL
    return _ALL if passes > _INNER_PASSES else passes + 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def _change_of_slopes(
    columns: Columns, chosen: Numbers, free: Numbers, steps: Vector, curvatures: Vector, out: Vector
) -> None:
    """Fill how the slopes of the examples change along steps of the free ones of the columns."""
    values, rows, starts = columns
    for i in range(len(out)):
        out[i] = 0.0
    for f in range(len(free)):
        j = chosen[free[f]]
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            out[np.uint64(rows[k])] += steps[f] * values[k]
    for i in range(len(out)):
        out[i] *= curvatures[i]


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _longest(w: Vector, free: Numbers, steps: Vector, length: float, penalty: Penalty) -> Any:
    """Return how far a step leads at most, and at which one a sign would change or a bound is."""
    l1, squares = penalty
    hit = -1
    for f in range(len(free)):
        c = free[f]
        low, high = squares[c, 2], squares[c, 3]
        if l1 > 0.0 and w[c] > 0.0:
            low = max(low, 0.0)
        elif l1 > 0.0:
            high = min(high, 0.0)
        end = w[c] + length * steps[f]
        if end < low or end > high:
            length = ((low if end < low else high) - w[c]) / steps[f]
            hit = f
    return length, hit


@njit(cache=True, nogil=True, error_model="numpy")
def _conjugate_gradients(
    columns: Columns, chosen: Numbers, penalty: Penalty, w: Vector, slopes: Vector, total: float,
    curvatures: Vector, total_curvature: float, bends: Vector, first: Vector,
    enough: float, most: int,
) -> tuple[float, int]:  # fmt: skip
    """Minimize the model over the coordinates that are not zero, with their signs and bounds.

    ``w`` and ``slopes`` become those at its end, when no slope is larger than ``enough``; returns
    ``total`` there, and the number of steps. A coordinate that comes to zero, or to a bound, stays
    there. ``bends`` are the curvatures along the coordinates.
    """
    l1, squares = penalty
    free = np.empty(len(w), np.int64)
    n = 0
    for c in range(len(w)):
        free[n] = c  # overwritten by the next one if this is not free
        n += (w[c] != 0.0 or l1 == 0.0) and squares[c, 2] < w[c] < squares[c, 3] and bends[c] > 0.0
    left, steps, change = np.empty(n), np.empty(n), np.empty(n)
    along = np.empty(len(slopes))
    for f in range(n):
        c = free[f]
        slope = _sparse_product(columns, chosen[c], slopes) - total / total_curvature * first[c]
        left[f] = squares[c, 1] - slope - l1 * np.sign(w[c]) - squares[c, 0] * w[c]
    n_steps, product = 0, 0.0  # zero: the next step forgets those before it
    while n_steps < most:
        n_steps += 1
        largest, next_product = 0.0, 0.0
        for f in range(n):
            largest = max(largest, abs(left[f]))
            next_product += left[f] * left[f] / bends[free[f]]
        if largest <= enough:
            break
        share = next_product / product if product > 0.0 else 0.0
        product = next_product
        for f in range(n):
            kept = share * steps[f] if share > 0.0 else 0.0
            steps[f] = left[f] / bends[free[f]] + kept
        _change_of_slopes(columns, chosen, free[:n], steps, curvatures, along)
        total_step, bend, apart = 0.0, 0.0, 0.0
        for f in range(n):
            total_step += steps[f] * first[free[f]]
        for f in range(n):
            c = free[f]
            mixed = _sparse_product(columns, chosen[c], along)
            change[f] = mixed - total_step / total_curvature * first[c] + squares[c, 0] * steps[f]
            bend += steps[f] * change[f]
            apart += steps[f] * steps[f] * bends[c]
        if not bend > _FLAT * apart:
            break
        length, hit = _longest(w, free[:n], steps, product / bend, penalty)
        for f in range(n):
            w[free[f]] += length * steps[f]
            left[f] -= length * change[f]
        for i in range(len(slopes)):
            slopes[i] += length * along[i]
        total += length * total_step
        if hit >= 0:
            c = free[hit]
            at_zero = l1 > 0.0 and squares[c, 2] <= 0.0 <= squares[c, 3]
            w[c] = 0.0 if at_zero else min(max(w[c], squares[c, 2]), squares[c, 3])
            n -= 1
            free[hit], left[hit] = free[n], left[n]
            product = 0.0
    return total, n_steps


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
    It ends when no coordinate moves by as much as ``enough``, in units of slopes, or after so many
    passes at ``most``; a step of conjugate gradients counts as one.
    """
    values, rows, starts = columns
    l1, squares = penalty
    total = 0.0  # what the steps add to the sum of slopes
    active = np.empty(len(chosen), np.int64)
    n_active, passes = 0, _ALL
    alone = np.maximum(second - first * first / total_curvature, 0.0)
    bends = alone + squares[:, 0]
    n_passes, n_since = 0, 0
    while n_passes < most:
        largest = 0.0
        n_next, n_unsettled = 0, 0
        n_visits = n_active if passes > _ALL else len(chosen)
        for visit in range(n_visits):
            c = active[visit] if passes > _ALL else visit
            j = chosen[c]
            slope = _sparse_product(columns, j, slopes) - total / total_curvature * first[c]
            new = _best(w[c], slope, alone[c], l1, squares[c])
            step = new - w[c]
            active[n_next] = c  # overwritten by the next one if this is not active
            n_next += new != 0.0 or step != 0.0
            if step != 0.0:
                n_unsettled += (w[c] > 0.0) != (new > 0.0) or (w[c] < 0.0) != (new < 0.0)
                w[c] = new
                total += step * first[c]
                for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                    i = np.uint64(rows[k])
                    slopes[i] += step * values[k] * curvatures[i]
                largest = max(largest, abs(step) * bends[c])
        n_active = n_next
        passes = _next_pass(largest <= enough or n_active == 0, passes)
        if passes == _END:
            break
        n_passes, n_since = n_passes + 1, n_since + 1
        if n_since >= _PASSES_BEFORE and n_unsettled <= _UNSETTLED * n_active:
            total, n_steps = _conjugate_gradients(
                columns, chosen, penalty, w, slopes, total, curvatures, total_curvature, bends,
                first, max(_LEFT_SHARE * largest, 0.5 * enough), most - n_passes,
            )  # fmt: skip
            n_passes, n_since, passes = n_passes + n_steps, 0, _ALL
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
