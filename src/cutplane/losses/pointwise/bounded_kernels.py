"""Compiled kernels of losses that are broken lines; see `cutplane.losses.pointwise.bounded`.

A loss is a vector `shape`: where its three corners are, the slopes between them (it is flat
outside), and its value at the middle one. ``of`` says what it is a function of: a margin ``y*z``, a
residual ``z - y``, or the score ``z`` itself.

Along a ray of scores the sum of losses is a broken line too. Its corners, the events, are where an
example passes a corner of its loss; there the slope jumps up or down. `tally` puts all events into
bins, whose sums say what the function is at the first and the last event of each bin; `inside`
returns the events of some bins, and `sweep` walks over them in order.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.losses.pointwise.piecewise_kernels import Block

Reach: TypeAlias = tuple[bool, float, float]
"""Whether steps of either sign count, the typical step, and the farthest that counts."""

OF_MARGIN, OF_RESIDUAL, OF_SCORE = range(3)
# Columns of a table of bins: sum of jumps, of jumps times steps, of jumps below zero; first and
# last event; how many there are.
JUMPS, MOMENTS, FALLS, FIRST, LAST, COUNT = range(6)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def value(of: int, shape: Vector, y: Vector, scores: Vector, weights: Vector) -> float:
    """Return the weighted sum of losses."""
    first, middle, last, falling, rising, height = shape
    total = 0.0
    for i in range(len(y)):
        v = y[i] * scores[i] if of == 0 else scores[i] - y[i] if of == 1 else scores[i]
        loss = (
            height
            - falling * (middle - min(max(v, first), middle))
            + rising * (min(max(v, middle), last) - middle)
        )
        total += weights[i] * loss if weights[i] > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True)
def slopes(of: int, shape: Vector, y: Vector, scores: Vector, weights: Vector, out: Vector) -> None:
    """Fill in the derivative by each score; at a corner that of the side that is not flat."""
    first, middle, last, falling, rising, _ = shape
    for i in range(len(y)):
        v = y[i] * scores[i] if of == 0 else scores[i] - y[i] if of == 1 else scores[i]
        slope = 0.0
        if first <= v < middle:
            slope = falling
        elif middle <= v <= last:
            slope = rising
        out[i] = weights[i] * (y[i] * slope if of == 0 else slope)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def begin(of: int, shape: Vector, moving: Block) -> float:
    """Return the derivative along a ray right after its beginning."""
    y, scores, weights, direction = moving
    first, middle, last, falling, rising, _ = shape
    total = 0.0
    for i in range(len(y)):
        v = y[i] * scores[i] if of == 0 else scores[i] - y[i] if of == 1 else scores[i]
        speed = y[i] * direction[i] if of == 0 else direction[i]
        # At a corner, of the side that the ray goes to; without branches, to be vectorized.
        right = speed > 0.0
        falls = ((v > first) | (right & (v == first))) & ((v < middle) | (~right & (v == middle)))
        rises = ((v > middle) | (right & (v == middle))) & ((v < last) | (~right & (v == last)))
        slope = (falling if falls else 0.0) + (rising if rises else 0.0)
        total += weights[i] * slope * speed if weights[i] > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def typical_step(of: int, shape: Vector, moving: Block) -> float:
    """Return the median step to a corner; 1 if there is none."""
    y, scores, weights, direction = moving
    steps = np.empty(3 * len(y))
    n = 0
    for i in range(len(y)):
        v = y[i] * scores[i] if of == 0 else scores[i] - y[i] if of == 1 else scores[i]
        speed = y[i] * direction[i] if of == 0 else direction[i]
        if speed == 0.0 or weights[i] <= 0.0:
            continue
        for j in range(3):
            step = abs((shape[j] - v) / speed)
            if 0.0 < step < np.inf:
                steps[n] = step
                n += 1
    return float(np.median(steps[:n])) if n else 1.0


@njit(cache=True, nogil=True)
def _bin_of(step: float, scale: float, both: bool, n_bins: int) -> int:
    # Each operation keeps the order of steps, so bins follow each other as their events do.
    share = 1.0 - scale / (scale + abs(step))
    if both:
        share = 0.5 + (0.5 * share if step > 0.0 else -0.5 * share)
    return max(0, min(int(share * n_bins), n_bins - 1))


@njit(cache=True, nogil=True, error_model="numpy")
def tally(of: int, shape: Vector, moving: Block, reach: Reach, table: Matrix) -> None:
    """Add the events from the beginning (or on both sides of it) to a table of bins.

    The last row of the table is for what is no event. Half of the corners are behind, so that a
    branch would be taken at random; without one the bins are computed by a vectorized loop.
    """
    y, scores, weights, direction = moving
    both, scale, farthest = reach
    n_bins = len(table) - 1
    bins, steps = np.empty(len(y), np.int32), np.empty(len(y))
    for j in range(3):
        corner = shape[j]
        change = shape[3] if j == 0 else shape[4] - shape[3] if j == 1 else -shape[4]
        if change == 0.0:
            continue
        for i in range(len(y)):
            v = y[i] * scores[i] if of == 0 else scores[i] - y[i] if of == 1 else scores[i]
            speed = y[i] * direction[i] if of == 0 else direction[i]
            way = corner - v
            step = way / speed  # not finite if the speed is zero
            ahead = ((way > 0.0) & (speed > 0.0)) | ((way < 0.0) & (speed < 0.0))
            is_event = (both | ahead) & (abs(step) <= farthest) & (weights[i] > 0.0)
            # As in `_bin_of`, on floats alone.
            share = 1.0 - scale / (scale + abs(step))
            part = (0.5 + (0.5 * share if step > 0.0 else -0.5 * share)) if both else share
            place = min(max(part * n_bins, 0.0), n_bins - 1.0)
            steps[i] = step if is_event else 0.0
            bins[i] = np.int32(place if is_event else float(n_bins))
        for i in range(len(y)):
            k, step, jump = bins[i], steps[i], change * weights[i] * abs(direction[i])
            table[k, JUMPS] += jump
            table[k, MOMENTS] += jump * step
            table[k, FALLS] += min(jump, 0.0)
            table[k, FIRST] = min(table[k, FIRST], step)
            table[k, LAST] = max(table[k, LAST], step)
            table[k, COUNT] += 1.0


@njit(cache=True, nogil=True)
def _least(slope: float, curvature: float, way: float) -> float:
    """Return the least of ``slope*k + curvature/2 k^2`` for ``k`` from 0 to ``way``."""
    stop = way if curvature == 0.0 else min(max(-slope / curvature, 0.0), way)
    return min(stop * (slope + 0.5 * curvature * stop), 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def survey(
    table: Matrix,
    value: float,
    slope: float,
    curvature: float,
    both: bool,
    farthest: float,
    rounding: float,
) -> tuple[Matrix, NDArray[np.bool_], float, float, float]:
    """Return what the function is at both ends of each bin, and its lowest point outside of them.

    The rows of ``table`` are the bins that have events; ``value`` and ``slope`` are those where the
    ray begins. Returned are values and slopes (value and slope at the first event, before it; at
    the last one, after it), which bins may hold a lower point, the lowest step so far with its
    value, and by how much values differ that rounding cannot tell apart.
    """
    n = len(table)
    ends, kept = np.empty((n, 4)), np.zeros(n, np.bool_)
    at, low = np.empty(3 * n + 3), np.empty(3 * n + 3)
    n_points = 0
    if not both:
        at[0], low[0], n_points = 0.0, value, 1
    jumps, moments, size = 0.0, 0.0, 0.0
    begin, begin_value, begin_slope = 0.0, value, slope
    half = 0.5 * curvature
    for k in range(n + 1):
        # Between two bins it is a parabola, before the first one and beyond the last one too, as
        # far as events were counted.
        if curvature > 0.0:
            to = table[k, FIRST] if k < n else max(farthest, table[n - 1, LAST])
            stop = -begin_slope / curvature
            if 0.0 < stop < to - begin:
                at[n_points], low[n_points] = begin + stop, begin_value + 0.5 * begin_slope * stop
                n_points += 1
        if k == n:
            break
        first, last = table[k, FIRST], table[k, LAST]
        ends[k, 0] = value + first * (slope + jumps + half * first) - moments
        ends[k, 1] = slope + jumps + curvature * first
        jumps += table[k, JUMPS]
        moments += table[k, MOMENTS]
        size = max(size, abs(table[k, MOMENTS]))
        ends[k, 2] = value + last * (slope + jumps + half * last) - moments
        ends[k, 3] = slope + jumps + curvature * last
        at[n_points], low[n_points] = first, ends[k, 0]
        at[n_points + 1], low[n_points + 1] = last, ends[k, 2]
        n_points += 2
        begin, begin_value, begin_slope = last, ends[k, 2], ends[k, 3]
    size += abs(value)
    slack = rounding * (size if np.isfinite(size) else abs(value))
    lowest = np.inf
    for i in range(n_points):
        if low[i] < lowest and np.isfinite(low[i]):
            lowest = low[i]
    step = at[0]
    for i in range(n_points):
        if low[i] <= lowest + slack:
            step, lowest = at[i], low[i]
            break
    for k in range(n):
        way, falls = table[k, LAST] - table[k, FIRST], table[k, FALLS]
        forward = ends[k, 0] + _least(ends[k, 1] + falls, curvature, way)
        # From the end backward the slope is nowhere above the last one less all jumps down.
        backward = ends[k, 2] + _least(falls - ends[k, 3], curvature, way)
        # Where rounding says nothing, look.
        kept[k] = not (forward > lowest + slack or backward > lowest + slack)
    return ends, kept, step, lowest, slack


@njit(cache=True, nogil=True)
def _passing(of: int, shape: Vector, moving: Block, lo: float, hi: float) -> NDArray[np.int64]:
    """Return the examples that may be at a corner between two steps, and a few more.

    Mostly few are, so this test is all that most examples cost.
    """
    y, scores, _, direction = moving
    first, middle, last = shape[0], shape[1], shape[2]
    pad = 1e-12 * (1.0 + max(abs(first), abs(last)))  # more than rounding
    found = np.empty(len(y) + 1, np.int64)
    n = 0
    for i in range(len(y)):
        v = y[i] * scores[i] if of == 0 else scores[i] - y[i] if of == 1 else scores[i]
        speed = y[i] * direction[i] if of == 0 else direction[i]
        a, b = v + lo * speed, v + hi * speed
        slack = pad + 1e-12 * abs(v)
        low, high = min(a, b) - slack, max(a, b) + slack
        passes = (
            ((low <= first) & (first <= high))
            | ((low <= middle) & (middle <= high))
            | ((low <= last) & (last <= high))
        )
        found[n] = i  # overwritten by the next one if this does not: cheaper than a branch
        n += passes
    return found[:n]


@njit(cache=True, nogil=True)
def inside(
    of: int,
    shape: Vector,
    moving: Block,
    reach: Reach,
    wanted: NDArray[np.bool_],
    lo: float,
    hi: float,
) -> tuple[Vector, Vector]:
    """Return step and jump of the events in the bins that are wanted, from ``lo`` to ``hi``."""
    y, scores, weights, direction = moving
    both, scale, farthest = reach
    n_bins = len(wanted)
    corners = shape[:3]
    jumps = np.array([shape[3], shape[4] - shape[3], -shape[4]])
    passing = _passing(of, shape, moving, lo, hi)
    steps, sizes = np.empty(3 * len(passing)), np.empty(3 * len(passing))
    n = 0
    for i in passing:
        if weights[i] <= 0.0:
            continue
        v = y[i] * scores[i] if of == 0 else scores[i] - y[i] if of == 1 else scores[i]
        speed = y[i] * direction[i] if of == 0 else direction[i]
        if speed == 0.0:
            continue
        for j in range(3):
            way = corners[j] - v
            ahead = way > 0.0 if speed > 0.0 else way < 0.0
            if jumps[j] == 0.0 or not (both or ahead):
                continue
            step = way / speed
            if abs(step) <= farthest and wanted[_bin_of(step, scale, both, n_bins)]:
                steps[n], sizes[n] = step, weights[i] * abs(speed) * jumps[j]
                n += 1
    return steps[:n], sizes[:n]


@njit(cache=True, nogil=True)
def sweep(
    begin: tuple[float, float, float],
    curvature: float,
    steps: Vector,
    jumps: Vector,
    best: tuple[float, float],
    slack: float,
) -> tuple[float, float]:
    """Return the lowest step among sorted events, and the value there.

    ``begin`` is the first event, with value and slope just before it, ``best`` the lowest step so
    far. Another must be lower by more than ``slack``, which is rounding; so that of equal ones the
    first is returned.
    """
    here, value, slope = begin
    step, lowest = best
    for e in range(len(steps)):
        way = steps[e] - here
        if way > 0.0:
            if curvature > 0.0:
                stop = -slope / curvature
                if 0.0 < stop < way:
                    low = value + 0.5 * slope * stop
                    if low < lowest - slack:
                        step, lowest = here + stop, low
            value += way * (slope + 0.5 * curvature * way)
            slope += curvature * way
            here = steps[e]
        if value < lowest - slack:
            step, lowest = here, value
        slope += jumps[e]
    return step, lowest
