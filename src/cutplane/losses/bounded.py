"""Losses that are bounded broken lines: ramp, clipped absolute, hat; with their exact search.

Compiled kernels of losses that are broken lines; see `cutplane.losses.bounded`.

A loss is a vector `shape`: where its three corners are, the slopes between them (it is flat
outside), and its value at the middle one. ``of`` says what it is a function of: a margin ``y*z``, a
residual ``z - y``, or the score ``z`` itself.

Along a ray of scores the sum of losses is a broken line too. Its corners, the events, are where an
example passes a corner of its loss; there the slope jumps up or down. `tally` puts all events into
bins, whose sums say what the function is at the first and the last event of each bin; `inside`
returns the events of some bins, and `sweep` walks over them in order.

The lowest point of a sum of broken lines along a ray: of all of it, not only nearby.

Along a ray ``scores + k * direction`` each example adds a broken line in ``k``. The slope of the
sum jumps at its corners, up or down, so that there are many local minima, and a search by trial
steps finds one of them. Here all are compared, in time that grows as the number of examples:

1. One pass puts the corners into bins. With the sums of jumps and of jumps times steps before a
   bin the function is known at the first and the last corner of it, and between two bins, where it
   is a parabola or a line.
2. Inside a bin the slope is nowhere below the one at its beginning plus all jumps down in it, and
   the same from its end backward. That bounds the function from below. A bin whose bound is above
   the lowest point known so far is left out; as a rule a few of a thousand are left.
3. A second pass picks the corners of those, which are sorted and walked over.

Steps go to infinity, so bins are equally wide in ``k / (scale + k)``, where the scale is a typical
step of a corner.

Losses that give up on examples far off, and so are not convex: broken lines with flat ends.

    Ramp               min(clip, max(0, 1 - y*z))
    ClippedAbsolute    min(clip, |z - y|)
    Hat                max(0, 1 - |z|)

A wrong label, or an outlier, costs at most ``clip``, however far it is on the wrong side, and
beyond that it has no slope: it no longer pulls at the model.

There is no proof for such a fit, but all that is one-dimensional is exact: the search along a ray
and the best intercept find the lowest of all local minima, from scores alone
(`cutplane.losses.bounded`). With the intercept minimized out,

    R(w) = min_c sum_i weight_i * loss(y_i, z_i(w) + c)

has a derivative wherever the best ``c`` is unique: the one by the scores with ``c`` held fixed
(Danskin). As a rule the best ``c`` puts a corner on the score of an example. Of the slopes between
those of both sides of the corner one makes the sum of all slopes zero, and that one is the
derivative of ``R``: as ``w`` moves, ``c`` moves so as to keep that example at its corner.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector, positive
from cutplane.compute.blocks import joined, rows_in_all, total
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.products import largest_size_over, sum_and_size_over, sum_over
from cutplane.core.protocols import Quadratic
from cutplane.losses.loss import OffsetLoss
from cutplane.losses.piecewise import Absolute, Block, Hinge, MovingScores, Piece, PiecewiseLoss

Form: TypeAlias = tuple[int, Vector]
"""What a loss is a function of, and its shape."""
Reach: TypeAlias = tuple[bool, float, float]
"""Whether steps of either sign count, the typical step, and the farthest that counts."""

OF_MARGIN, OF_RESIDUAL, OF_SCORE = range(3)
# Columns of a table of bins: sum of jumps, of jumps times steps, of jumps below zero; first and
# last event; how many there are.
JUMPS, MOMENTS, FALLS, FIRST, LAST, COUNT = range(6)


@njit(cache=True, nogil=True, fastmath=REORDER)
def value_of(of: int, shape: Vector, y: Vector, scores: Vector, weights: Vector) -> float:
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


@njit(cache=True, nogil=True, fastmath=REORDER)
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
def tally_bins(of: int, shape: Vector, moving: Block, reach: Reach, table: Matrix) -> None:
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


# A table for each block of the sample must stay in a core's cache.
_N_BINS = 1024
# How many examples tell the scale of steps.
_SAMPLE = 512
# Values that differ by this share of the terms they are sums of differ by rounding.
_ROUNDING = 1e-13
# Beyond this step sums would overflow.
_TOO_FAR = 1e300


_NOTHING = Quadratic(0.0, 0.0)


def lowest_step(
    form: Form, moving: MovingScores, extra: Quadratic = _NOTHING, *, both: bool = False
) -> float:
    """Return the step that minimizes a sum of losses plus ``extra`` over ``k >= 0``.

    With ``both``, over all ``k``: the ray begins at minus infinity, where each loss is flat; its
    direction must be 1 then. Where the sum is lowest on a whole stretch, the step is the middle of
    the first one; its finite end if it has no other.
    """

    def first_value(block: Block) -> float:
        y, scores, weights, _ = block
        return value_of(*form, y, np.full_like(scores, -math.inf) if both else scores, weights)

    value = float(total(moving.map(first_value)))
    slope = 0.0 if both else float(total(moving.map(begin, *form)))
    slope += extra.slope
    farthest = _TOO_FAR if both else min(_farthest(form[1], moving, extra, value), _TOO_FAR)
    # A typical step to a corner.
    every = max(1, rows_in_all(len(moving.scores)) // _SAMPLE)
    y, scores, weights, along = joined(
        moving.map(lambda block: tuple(array[::every] for array in block))
    )
    scale = min(max(typical_step(*form, (y, scores, weights, along)), 1e-300), 1e300)
    reach, curvature = (both, scale, farthest), extra.curvature
    table = _table(form, moving, reach)
    used = np.flatnonzero(table[:, COUNT])
    if not used.size:  # no corners
        return -slope / curvature if not both and slope < 0.0 and curvature > 0.0 else 0.0
    table = table[used]
    ends, kept, step, lowest, slack = survey(
        table, value, slope, curvature, both, farthest, _ROUNDING
    )
    if not kept.any():
        return step
    wanted = np.zeros(_N_BINS, dtype=np.bool_)
    wanted[used[kept]] = True
    from_step, to_step = float(table[kept, FIRST].min()), float(table[kept, LAST].max())
    steps, jumps = joined(
        moving.map(lambda block: inside(*form, block, reach, wanted, from_step, to_step))
    )
    order = np.argsort(steps, kind="stable")
    steps, jumps = steps[order], jumps[order]
    best = step, lowest
    for k in np.flatnonzero(kept):
        start = int(np.searchsorted(steps, table[k, FIRST], side="left"))
        part = slice(start, int(np.searchsorted(steps, table[k, LAST], side="right")))
        first = float(table[k, FIRST]), float(ends[k, 0]), float(ends[k, 1])
        best = sweep(first, curvature, steps[part], jumps[part], best, slack)
    step, _ = best
    if curvature == 0.0 and extra.slope == 0.0:
        step = _middle_of_flat(step, table, ends, steps, jumps, kept)
    return float(step)


def _table(form: Form, moving: MovingScores, reach: Reach) -> Matrix:
    """Return the sums of all bins."""

    def tally(block: Block) -> Matrix:
        table = np.zeros((_N_BINS + 1, 6))
        table[:, FIRST], table[:, LAST] = math.inf, -math.inf
        tally_bins(*form, block, reach, table)
        return table[:-1]

    tables = moving.map(tally)
    table = np.empty((_N_BINS, 6))
    summed = [JUMPS, MOMENTS, FALLS, COUNT]
    table[:, summed] = total([each[:, summed] for each in tables])
    ends = joined([(each[None, :, FIRST], each[None, :, LAST]) for each in tables])
    table[:, FIRST], table[:, LAST] = ends[0].min(axis=0), ends[1].max(axis=0)
    return table


def _farthest(shape: Vector, moving: MovingScores, extra: Quadratic, value: float) -> float:
    """Return a step beyond which the quadratic alone is above what the loss could fall."""
    first, middle, last, falling, rising, height = shape.tolist()
    ends = height - falling * (middle - first), height + rising * (last - middle)
    floor = min(height, *ends) * sum_over(moving.weights)
    fall = max(value - floor, 0.0) * (1.0 + 1e-9)
    slope, curvature = extra
    if curvature > 0.0:
        root = math.sqrt(slope * slope + 2.0 * curvature * fall)
        far = 2.0 * fall / (slope + root) if slope > 0.0 else (root - slope) / curvature
        return far * (1.0 + 1e-9)
    return fall / slope if slope > 0.0 else math.inf


def _middle_of_flat(
    step: float,
    table: Matrix,
    ends: Matrix,
    steps: Vector,
    jumps: Vector,
    kept: NDArray[np.bool_],
) -> float:
    """Return the middle of the flat stretch that begins at a corner, if there is one."""
    firsts, lasts = table[:, FIRST], table[:, LAST]
    k = int(np.searchsorted(lasts, step))
    if k == len(lasts) or firsts[k] > step:
        return step
    zero = 1e-13 * float(np.abs(jumps).sum() if jumps.size else 0.0)
    if kept[k]:
        inside = (steps >= firsts[k]) & (steps <= lasts[k])
        at, size = steps[inside], jumps[inside]
        slope = float(ends[k, 1]) + float(size[at <= step].sum())
        beyond = at[at > step]
        following = float(beyond[0]) if beyond.size else math.inf
    else:
        slope, following = float(ends[k, 3]), math.inf
    if following == math.inf:
        following = float(firsts[k + 1]) if k + 1 < len(firsts) else math.inf
    zero = max(zero, 1e-13 * float(-table[:, FALLS].sum()))
    if abs(slope) > zero or following == math.inf:
        return step
    return 0.5 * (step + following)


# How often to look a little farther to both sides of a corner, if rounding has moved it.
_LOOKS = 6
# max(0, |z| - 1) for labels -1 and 1: what is left of the hat where it gives up, up to a constant.
BEYOND_MARGIN = PiecewiseLoss(
    "classification", left=Piece(slope=1.0, start=2.0), right=Piece(slope=1.0)
)


class BrokenLine(OffsetLoss):
    """A loss of one variable with three corners, flat to the left and to the right of them.

    Parameters
    ----------
    of : int
        What the variable is: `OF_MARGIN`, `OF_RESIDUAL` or `OF_SCORE` of the kernels. Only beside
        residuals are targets numbers, and not labels.
    corners : tuple of three floats
        In increasing order; two may be the same.
    slopes : tuple of two floats
        Between the corners.
    middle : float
        The value at the second corner.
    """

    convex = False
    loops = value_of, slopes
    finds_offsets = True

    def __init__(
        self,
        of: int,
        *,
        corners: tuple[float, float, float],
        slopes: tuple[float, float],
        middle: float = 0.0,
    ) -> None:
        self.of_residual = of == OF_RESIDUAL
        # Broken lines serve both tasks.
        self.task = "regression" if self.of_residual else "classification"  # type: ignore[misc]
        self.form: Form = (of, np.array([*corners, *slopes, middle]))

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        return lowest_step(self.form, MovingScores(y, scores, weights, direction), extra)

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at ``scores + offset`` that sum to zero; ``offset`` must be the best one.

        At a corner they are a mean of those on both sides.
        """
        slopes = self._slopes_at(y, scores, offset, weights)
        width = 4.0 * EPS * (abs(offset) + largest_size_over(scores) + 1.0)
        for _ in range(_LOOKS):
            rest, size = sum_and_size_over(slopes)
            if abs(rest) <= 4.0 * EPS * size:
                break
            left = self._slopes_at(y, scores, offset - width, weights)
            right = self._slopes_at(y, scores, offset + width, weights)
            lower, upper = sum_over(left), sum_over(right)
            if lower <= 0.0 <= upper and lower < upper:
                share = float(lower / (lower - upper))
                return (1.0 - share) * left + share * right
            width *= 4.0
        return slopes

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        return lowest_step(self.form, MovingScores(y, scores, weights, 1.0), both=True)


class Ramp(BrokenLine):
    """``min(clip, max(0, 1 - y*z))``: a hinge that gives up on examples far on the wrong side."""

    shown = ("clip",)
    unproven = "the ramp loss is not convex: there may be lower points far away"
    convex_twin = convex_part = Hinge()

    def __init__(self, clip: float = 2.0) -> None:
        self.clip = positive("clip", clip)
        super().__init__(OF_MARGIN, corners=(1.0 - self.clip, 1.0, 1.0), slopes=(-1.0, 0.0))

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of ``-max(0, 1 - clip - y*z)``, the ramp less the hinge."""
        return np.where(y * scores < 1.0 - self.clip, y, 0.0)


class ClippedAbsolute(BrokenLine):
    """``min(clip, |z - y|)``: the absolute loss, which gives up on outliers."""

    shown = ("clip",)
    unproven = "the clipped absolute loss is not convex: there may be lower points far away"
    convex_twin = convex_part = Absolute()

    def __init__(self, clip: float = 3.0) -> None:
        self.clip = positive("clip", clip)
        corners = (-self.clip, 0.0, self.clip)
        super().__init__(OF_RESIDUAL, corners=corners, slopes=(-1.0, 1.0))

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of ``-max(0, |z - y| - clip)``."""
        u = scores - y
        return np.where(np.abs(u) > self.clip, -np.sign(u), 0.0)


class Hat(BrokenLine):
    """``max(0, 1 - |z|)``: how far inside the margin an example is whose label is not known.

    It is the hinge with the label that the score suggests. Targets are not looked at. The slope at
    ``z = 0`` is -1, not 0, so that a search does not rest on the top.
    """

    ignores_targets = True
    unproven = "the hat loss is not convex: there may be lower points far away"
    convex_part = BEYOND_MARGIN

    def __init__(self) -> None:
        super().__init__(OF_SCORE, corners=(-1.0, 0.0, 1.0), slopes=(1.0, -1.0), middle=1.0)

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of ``-|z|``."""
        return np.where(scores >= 0.0, -1.0, 1.0)
