"""Compiled kernels of piecewise losses; for the formula see `cutplane.losses.pointwise.piecewise`.

The kind of a loss says whether it is one of margins, and has for its left and its right piece the
numbers

    start    where the piece begins
    bend     curvature of its rounded part, 0 if it has none
    jump     slope that it gains at once, at a kink
    rise     slope beyond the rounded part, 0 if it never ends
    width    length of the rounded part

so that value and slope of a piece need no branch, and the loops over examples are vectorized. They
are tuples: to take a row of a matrix apart would double the time that a kernel takes to compile.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

Shape: TypeAlias = tuple[float, float, float, float, float]
Kind: TypeAlias = tuple[bool, Shape, Shape]
Block: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""Targets, scores, weights, and the direction in which scores move, of a block of examples."""

_EPS = float(np.finfo(np.float64).eps)
# Kernels see blocks of a sample (`cutplane.compute.threads.map_blocks`), so that sums are short.
_REORDER = {"reassoc", "contract", "nsz"}  # sums may be reordered, infinities must stay


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def value(kind: Kind, y: Vector, scores: Vector, weights: Vector) -> float:
    """Return the weighted sum of losses."""
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, rise_left, width_left = left_shape
    start_right, bend_right, _, rise_right, width_right = right_shape
    total = 0.0
    for i in range(len(y)):
        v = y[i] * scores[i] - 1.0 if of_margin else scores[i] - y[i]
        left = max(-v - start_left, 0.0)
        round_left = min(left, width_left)
        right = max(v - start_right, 0.0)
        round_right = min(right, width_right)
        loss = (
            0.5 * bend_left * round_left * round_left
            + rise_left * (left - round_left)
            + 0.5 * bend_right * round_right * round_right
            + rise_right * (right - round_right)
        )
        total += weights[i] * loss if weights[i] > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def slopes(kind: Kind, y: Vector, scores: Vector, weights: Vector, out: Vector) -> None:
    """Fill in the derivative of the weighted sum by each score; at a kink, the lesser one."""
    # Not in one loop with the sum of `value`: that would then depend in its last bit on where the
    # arrays lie in memory, because near each other the compiled code takes them to overlap.
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, jump_left, _, width_left = left_shape
    start_right, bend_right, jump_right, _, width_right = right_shape
    for i in range(len(y)):
        v = y[i] * scores[i] - 1.0 if of_margin else scores[i] - y[i]
        left = max(-v - start_left, 0.0)
        right = max(v - start_right, 0.0)
        slope = (
            bend_right * min(right, width_right)
            + (jump_right if right > 0.0 else 0.0)
            - bend_left * min(left, width_left)
            - (jump_left if left > 0.0 else 0.0)
        )
        out[i] = weights[i] * (y[i] * slope if of_margin else slope)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def curvatures(kind: Kind, y: Vector, scores: Vector, weights: Vector, out: Vector) -> None:
    """Fill in the second derivative of the weighted sum by each score, inside the rounded parts."""
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, _, width_left = left_shape
    start_right, bend_right, _, _, width_right = right_shape
    for i in range(len(y)):
        v = y[i] * scores[i] - 1.0 if of_margin else scores[i] - y[i]
        left, right = -v - start_left, v - start_right
        bend = bend_left if 0.0 < left < width_left else 0.0
        bend += bend_right if 0.0 < right < width_right else 0.0
        out[i] = weights[i] * bend


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def derivative(kind: Kind, step: float, moving: Block) -> tuple[float, float]:
    """Return the derivative along a ray at ``step``, and the size of the terms it is made of."""
    y, scores, weights, direction = moving
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, jump_left, _, width_left = left_shape
    start_right, bend_right, jump_right, _, width_right = right_shape
    total, size = 0.0, 0.0
    for i in range(len(y)):
        z = scores[i] + step * direction[i]
        v = y[i] * z - 1.0 if of_margin else z - y[i]
        speed = y[i] * direction[i] if of_margin else direction[i]
        left = max(-v - start_left, 0.0)
        right = max(v - start_right, 0.0)
        slope_left = bend_left * min(left, width_left) + (jump_left if left > 0.0 else 0.0)
        slope_right = bend_right * min(right, width_right) + (jump_right if right > 0.0 else 0.0)
        total += weights[i] * (slope_right - slope_left) * speed
        size += weights[i] * (slope_right + slope_left + jump_left + jump_right) * abs(speed)
    return total, size


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def conjugate(kind: Kind, y: Vector, slopes: Vector, weights: Vector) -> float:
    """Return the conjugate of the weighted sum of losses."""
    # A slope at the end of its range may lie beyond it by rounding of weight * slope / weight.
    slack = 1.0 + 4.0 * _EPS
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, rise_left, width_left = left_shape
    start_right, bend_right, _, rise_right, width_right = right_shape
    steepest_left = rise_left * slack if width_left < np.inf else np.inf
    steepest_right = rise_right * slack if width_right < np.inf else np.inf
    half_left = 0.5 / bend_left if bend_left > 0.0 else 0.0
    half_right = 0.5 / bend_right if bend_right > 0.0 else 0.0
    total, outside = 0.0, 0
    for i in range(len(y)):
        slope = slopes[i] / weights[i] if weights[i] > 0.0 else 0.0
        slope = y[i] * slope if of_margin else slope
        left, right = max(-slope, 0.0), max(slope, 0.0)
        outside += (left > steepest_left) | (right > steepest_right)
        total += weights[i] * (
            (slope if of_margin else slope * y[i])
            + left * (start_left + half_left * left)
            + right * (start_right + half_right * right)
        )
    return np.inf if outside else total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def curvature(kind: Kind, step: float, moving: Block) -> float:
    """Return the second derivative along a ray, of the examples inside the rounded parts."""
    y, scores, weights, direction = moving
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, _, width_left = left_shape
    start_right, bend_right, _, _, width_right = right_shape
    total = 0.0
    for i in range(len(y)):
        z = scores[i] + step * direction[i]
        v = y[i] * z - 1.0 if of_margin else z - y[i]
        left, right = -v - start_left, v - start_right
        bend = bend_left if 0.0 < left < width_left else 0.0
        bend += bend_right if 0.0 < right < width_right else 0.0
        total += weights[i] * bend * direction[i] * direction[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def list_changing(kind: Kind, lo: float, hi: float, moving: Block, found: NDArray[np.int64]) -> int:
    """List the examples that may pass, between two steps, from one part of a piece to another.

    Mostly few do, so this test is all that most examples cost. Returns how many; ``found`` must
    have room for one more than all.
    """
    y, scores, _, direction = moving
    of_margin, left_shape, right_shape = kind
    start_left, _, _, _, width_left = left_shape
    start_right, _, _, _, width_right = right_shape
    hi = min(hi, 1e300)  # an infinite step times a speed of zero would be NaN
    n = 0
    for i in range(len(y)):
        z_lo, z_hi = scores[i] + lo * direction[i], scores[i] + hi * direction[i]
        v_lo = y[i] * z_lo - 1.0 if of_margin else z_lo - y[i]
        v_hi = y[i] * z_hi - 1.0 if of_margin else z_hi - y[i]
        a_lo, a_hi = -v_lo - start_left, -v_hi - start_left
        b_lo, b_hi = v_lo - start_right, v_hi - start_right
        changes = (
            ((a_lo > 0.0) != (a_hi > 0.0))
            | ((a_lo < width_left) != (a_hi < width_left))
            | ((b_lo > 0.0) != (b_hi > 0.0))
            | ((b_lo < width_right) != (b_hi < width_right))
        )
        found[n] = i  # overwritten by the next one if this does not change: cheaper than a branch
        n += changes
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def list_events(
    kind: Kind, lo: float, hi: float, moving: Block, changing: NDArray[np.int64], events: Matrix
) -> int:
    """List place, jump and change of curvature of the events from ``lo`` to before ``hi``.

    The slope along a ray changes where one of the ``changing`` examples enters or leaves a part of
    a piece. Returns how often that is.
    """
    y, scores, weights, direction = moving
    of_margin, shape, next_shape = kind
    place, jump, bend = events[0], events[1], events[2]
    n = 0
    sign = -1.0
    for _side in range(2):
        start, bend_here, jump_here, _, width = shape
        for k in range(len(changing) if bend_here > 0.0 or jump_here > 0.0 else 0):
            i = changing[k]
            z = scores[i] + lo * direction[i]
            v = y[i] * z - 1.0 if of_margin else z - y[i]
            speed = y[i] * direction[i] if of_margin else direction[i]
            u, du = sign * v - start, sign * speed
            change = weights[i] * bend_here * du * du
            # The start of the piece, then the end of its rounded part; what is met at `lo` itself
            # counts if the slope there does not include it yet.
            if (du > 0.0 and u <= 0.0) or (du < 0.0 and u > 0.0):
                where = lo - u / du
                if where < hi:
                    place[n], jump[n] = where, weights[i] * jump_here * abs(du)
                    bend[n] = change if du > 0.0 else -change
                    n += 1
            if bend_here > 0.0 and ((du > 0.0 and u < width) or (du < 0.0 and u >= width)):
                where = lo + (width - u) / du
                if where < hi:
                    place[n], jump[n], bend[n] = where, 0.0, -change if du > 0.0 else change
                    n += 1
        shape, sign = next_shape, 1.0
    return n


def events_between(
    kind: Kind, lo: float, hi: float, moving: Block
) -> tuple[Vector, Vector, Vector]:
    """Return place, jump and change of curvature of the events from ``lo`` to before ``hi``."""
    found = np.empty(len(moving[0]) + 1, dtype=np.int64)
    changing = found[: list_changing(kind, lo, hi, moving, found)]
    most = sum(map(_most_events, kind[1:])) * len(changing)
    events = np.empty((3, most))
    n = list_events(kind, lo, hi, moving, changing, events)
    return events[0, :n], events[1, :n], events[2, :n]


def _most_events(shape: Shape) -> int:
    """Return how often an example can meet the start of a piece, and the end of its round part."""
    _, bend, jump, _, width = shape
    return int(bend > 0.0 or jump > 0.0) + int(bend > 0.0 and width < np.inf)


@njit(cache=True, nogil=True, error_model="numpy")
def minimizers_between(
    lo: float,
    hi: float,
    slope: float,
    curvature: float,
    zero: float,
    place: Vector,
    jump: Vector,
    bend: Vector,
) -> tuple[float, float]:
    """Return the first and the last minimizer, both known to lie between ``lo`` and ``hi``.

    ``slope`` and ``curvature`` are those at ``lo``. They change at the events. The crossing of the
    slope is found by selection, as a weighted median is: the expected cost is linear in the number
    of events, no sort is needed.
    """
    here = lo
    beyond = hi
    # For a plain 0 `_swap` would be compiled once more: Numba has types for literals.
    first: int = np.int64(0)  # type: ignore[assignment]
    last = len(place)
    while first < last:
        pivot = _middle(place[first], place[(first + last) // 2], place[last - 1])
        # Three parts: before the pivot, at it, beyond it.
        before, at, end = first, first, last
        while at < end:
            if place[at] < pivot:
                _swap(place, jump, bend, before, at)
                before += 1
                at += 1
            elif place[at] > pivot:
                end -= 1
                _swap(place, jump, bend, at, end)
            else:
                at += 1
        slope_there = slope + curvature * (pivot - here)
        curvature_there = curvature
        for j in range(first, end):
            slope_there += jump[j] + bend[j] * (pivot - place[j])
            curvature_there += bend[j]
        if slope_there > zero:
            # The crossing is at the pivot or before it.
            beyond = pivot
            last = before
        else:
            slope, curvature, here = slope_there, max(curvature_there, 0.0), pivot
            first = end
    if slope >= -zero and curvature <= 0.0:
        return here, beyond if beyond < np.inf else here
    if curvature > 0.0:
        crossing = min(here - min(slope, 0.0) / curvature, beyond)
    else:
        crossing = beyond if beyond < np.inf else here
    return crossing, crossing


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _middle(a: float, b: float, c: float) -> float:
    return max(min(a, b), min(max(a, b), c))


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _swap(place: Vector, jump: Vector, bend: Vector, i: int, j: int) -> None:
    place[i], place[j] = place[j], place[i]
    jump[i], jump[j] = jump[j], jump[i]
    bend[i], bend[j] = bend[j], bend[i]
