"""The lowest point of a sum of broken lines along a ray: of all of it, not only nearby.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.losses.pointwise import bounded_kernels as kernels
from cutplane.losses.pointwise.bounded_kernels import COUNT, FALLS, FIRST, JUMPS, LAST, MOMENTS

# A table for each block of the sample must stay in a core's cache.
_N_BINS = 1024
# How many examples tell the scale of steps.
_SAMPLE = 512
# Values that differ by this share of the terms they are sums of differ by rounding.
_ROUNDING = 1e-13
# Beyond this step sums would overflow.
_TOO_FAR = 1e300


_NOTHING = Quadratic(0.0, 0.0)


@dataclass(frozen=True)
class Line:
    """The sum of losses along a ray, or along both directions of it.

    ``direction`` is a vector, or one number for all examples. With ``both`` sides the ray begins at
    minus infinity, where each loss is flat; ``direction`` must be 1 then.
    """

    of: int
    shape: Vector
    y: Vector
    scores: Vector
    direction: Vector | float
    weights: Vector
    extra: Quadratic = _NOTHING
    both: bool = False

    def block(self, i: slice) -> tuple[int, Vector, Vector, Vector, Vector, Vector]:
        """Return what the kernels want to know of a block of examples."""
        d = self.direction
        along = _constant(d, i.stop - i.start) if isinstance(d, float) else d[i]
        return self.of, self.shape, self.y[i], self.scores[i], along, self.weights[i]

    def first_value(self) -> float:
        """Return the sum where the ray begins."""

        def block(i: slice) -> float:
            of, shape, y, scores, _, weights = self.block(i)
            if self.both:
                scores = _constant(-math.inf, len(scores))
            return kernels.value(of, shape, y, scores, weights)

        return sum(map_blocks(block, len(self.scores)))

    def first_slope(self) -> float:
        """Return the derivative of the sum right after the beginning."""
        if self.both:
            return 0.0
        return sum(map_blocks(lambda i: kernels.begin(*self.block(i)), len(self.scores)))

    def scale(self) -> float:
        """Return the step of a typical corner."""
        i = slice(None, None, max(1, len(self.scores) // _SAMPLE))
        d = self.direction if isinstance(self.direction, float) else self.direction[i]
        y, z = self.y[i], self.scores[i]
        v = (y * z, z - y, z)[self.of]
        speed = np.broadcast_to(y * d if self.of == kernels.OF_MARGIN else d, v.shape)
        used = (speed != 0.0) & (self.weights[i] > 0.0)
        with np.errstate(over="ignore"):
            steps = np.abs((self.shape[:3, None] - v[used]) / speed[used])
        steps = steps[np.isfinite(steps) & (steps > 0.0)]
        typical = float(np.median(steps)) if steps.size else 1.0
        return min(max(typical, 1e-300), 1e300)


def lowest_step(line: Line) -> float:
    """Return the step that minimizes the sum plus ``extra`` over ``k >= 0``, or over all ``k``.

    Where it is lowest on a whole stretch, the middle of the first one; its finite end if it has no
    other.
    """
    value, slope = line.first_value(), line.first_slope() + line.extra.slope
    farthest = min(_farthest(line, value), _TOO_FAR)
    scale = line.scale()
    table = _table(line, scale, farthest)
    used = np.flatnonzero(table[:, COUNT])
    if not used.size:
        return 0.0 if line.both else _first_piece(slope, line.extra.curvature)
    table = table[used]
    bins = _Bins(table, value, slope, line.extra, both=line.both, farthest=farthest)
    step, lowest = bins.lowest()
    wanted = np.zeros(_N_BINS, dtype=np.bool_)
    kept = bins.may_be_below(lowest)
    if not kept.any():
        return step
    wanted[used[kept]] = True
    from_step, to_step = float(bins.first[kept].min()), float(bins.last[kept].max())
    found = map_blocks(
        lambda i: kernels.inside(
            *line.block(i), line.both, scale, farthest, wanted, from_step, to_step
        ),
        len(line.scores),
    )
    steps, jumps = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(steps, kind="stable")
    steps, jumps = steps[order], jumps[order]
    curvature = line.extra.curvature
    for k in np.flatnonzero(kept):
        start = int(np.searchsorted(steps, bins.first[k], side="left"))
        part = slice(start, int(np.searchsorted(steps, bins.last[k], side="right")))
        step, lowest = kernels.sweep(
            float(table[k, FIRST]),
            float(bins.value_first[k]),
            float(bins.slope_first[k]),
            curvature,
            steps[part],
            jumps[part],
            step,
            lowest,
            bins.slack,
        )
    if curvature == 0.0 and line.extra.slope == 0.0:
        step = _middle_of_flat(step, bins, table, steps, jumps, kept)
    return float(step)


class _Bins:
    """The function at the first and the last corner of each bin."""

    def __init__(
        self,
        table: Matrix,
        value: float,
        slope: float,
        extra: Quadratic,
        *,
        both: bool,
        farthest: float,
    ) -> None:
        first, last = table[:, FIRST], table[:, LAST]
        after, moments = np.cumsum(table[:, JUMPS]), np.cumsum(table[:, MOMENTS])
        before = np.concatenate([[0.0], after[:-1]])
        moments_before = np.concatenate([[0.0], moments[:-1]])
        half = 0.5 * extra.curvature
        self.first, self.last, self.curvature = first, last, extra.curvature
        self.falls = table[:, FALLS]
        self.value_first = value + first * (slope + before + half * first) - moments_before
        self.slope_first = slope + before + extra.curvature * first
        self.value_last = value + last * (slope + after + half * last) - moments
        self.slope_last = slope + after + extra.curvature * last
        self.value, self.slope, self.both = value, slope, both
        self.farthest = farthest
        size = np.abs(table[:, MOMENTS]).max() + abs(value)
        self.slack = _ROUNDING * float(size if math.isfinite(size) else abs(value))

    def lowest(self) -> tuple[float, float]:
        """Return the lowest point outside the bins and at their ends, and its value."""
        steps, values = [self.first, self.last], [self.value_first, self.value_last]
        if not self.both:
            steps.append(np.zeros(1))
            values.append(np.array([self.value]))
        if self.curvature > 0.0:
            # Between two bins it is a parabola, before the first one and beyond the last one too,
            # as far as events were counted.
            begin = np.concatenate([[0.0], self.last])
            value = np.concatenate([[self.value], self.value_last])
            slope = np.concatenate([[self.slope], self.slope_last])
            way = np.append(self.first, max(self.farthest, self.last[-1])) - begin
            stop = -slope / self.curvature
            inner = (stop > 0.0) & (stop < way)
            steps.append((begin + stop)[inner])
            values.append((value + 0.5 * slope * stop)[inner])
        at, low = np.concatenate(steps), np.concatenate(values)
        low = np.where(np.isfinite(low), low, math.inf)
        order = np.argsort(at, kind="stable")
        at, low = at[order], low[order]
        k = int(np.flatnonzero(low <= low.min() + self.slack)[0])
        return float(at[k]), float(low[k])

    def may_be_below(self, lowest: float) -> NDArray[np.bool_]:
        """Return the bins that may hold a step as low as this."""
        way = self.last - self.first
        with np.errstate(over="ignore", invalid="ignore"):
            forward = self.value_first + _least(self.slope_first + self.falls, self.curvature, way)
            # From the end backward the slope is nowhere above the last one less all jumps down.
            backward = self.value_last + _least(self.falls - self.slope_last, self.curvature, way)
            bound = np.fmax(forward, backward)
        # Where rounding says nothing, look.
        kept: NDArray[np.bool_] = ~(bound > lowest + self.slack)
        return kept


def _least(slope: Vector, curvature: float, way: Vector) -> Vector:
    """Return the least of ``slope*k + curvature/2 k^2`` for ``k`` from 0 to ``way``."""
    stop = way if curvature == 0.0 else np.clip(-slope / curvature, 0.0, way)
    return np.minimum(stop * (slope + 0.5 * curvature * stop), 0.0)


def _table(line: Line, scale: float, farthest: float) -> Matrix:
    """Return the sums of all bins."""

    def block(i: slice) -> Matrix:
        table = np.zeros((_N_BINS + 1, 6))
        table[:, FIRST], table[:, LAST] = math.inf, -math.inf
        kernels.tally(*line.block(i), line.both, scale, farthest, table)
        return table[:-1]

    total, *others = map_blocks(block, len(line.scores))
    for table in others:
        np.minimum(total[:, FIRST], table[:, FIRST], out=total[:, FIRST])
        np.maximum(total[:, LAST], table[:, LAST], out=total[:, LAST])
        for column in (JUMPS, MOMENTS, FALLS, COUNT):
            total[:, column] += table[:, column]
    return total


def _farthest(line: Line, value: float) -> float:
    """Return a step beyond which the quadratic alone is above what the loss could fall."""
    if line.both:
        return math.inf
    slope, curvature = line.extra.slope, line.extra.curvature
    middle = float(line.shape[5])
    ends = (
        middle - line.shape[3] * (line.shape[1] - line.shape[0]),
        middle + line.shape[4] * (line.shape[2] - line.shape[1]),
    )
    floor = min(middle, *map(float, ends)) * float(line.weights.sum())
    fall = max(value - floor, 0.0) * (1.0 + 1e-9)
    if curvature > 0.0:
        root = math.sqrt(slope * slope + 2.0 * curvature * fall)
        far = 2.0 * fall / (slope + root) if slope > 0.0 else (root - slope) / curvature
        return far * (1.0 + 1e-9)
    return fall / slope if slope > 0.0 else math.inf


def _first_piece(slope: float, curvature: float) -> float:
    """Return the lowest point of a function without corners."""
    return -slope / curvature if slope < 0.0 and curvature > 0.0 else 0.0


def _middle_of_flat(
    step: float, bins: _Bins, table: Matrix, steps: Vector, jumps: Vector, kept: NDArray[np.bool_]
) -> float:
    """Return the middle of the flat stretch that begins at a corner, if there is one."""
    k = int(np.searchsorted(bins.last, step))
    if k == len(bins.last) or bins.first[k] > step:
        return step
    zero = 1e-13 * float(np.abs(jumps).sum() if jumps.size else 0.0)
    if kept[k]:
        inside = (steps >= bins.first[k]) & (steps <= bins.last[k])
        at, size = steps[inside], jumps[inside]
        slope = float(bins.slope_first[k]) + float(size[at <= step].sum())
        beyond = at[at > step]
        following = float(beyond[0]) if beyond.size else math.inf
    else:
        slope, following = float(bins.slope_last[k]), math.inf
    if following == math.inf:
        following = float(bins.first[k + 1]) if k + 1 < len(bins.first) else math.inf
    zero = max(zero, 1e-13 * float(-table[:, FALLS].sum()))
    if abs(slope) > zero or following == math.inf:
        return step
    return 0.5 * (step + following)


@lru_cache(maxsize=8)
def _constant(value: float, length: int) -> Vector:
    """Return a constant vector as long as a block; there are few lengths of blocks."""
    return np.full(length, value)
