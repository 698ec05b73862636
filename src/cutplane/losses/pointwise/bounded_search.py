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
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import joined, rows_in_all, total
from cutplane.compute.sums import sum_over
from cutplane.core.protocols import Quadratic
from cutplane.losses.pointwise import bounded_kernels as kernels
from cutplane.losses.pointwise.bounded_kernels import COUNT, FALLS, FIRST, JUMPS, LAST, MOMENTS
from cutplane.losses.pointwise.piecewise import MovingScores
from cutplane.losses.pointwise.piecewise_kernels import Block

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

    With ``both`` sides the ray begins at minus infinity, where each loss is flat; its direction
    must be 1 then.
    """

    of: int
    shape: Vector
    moving: MovingScores
    extra: Quadratic = _NOTHING
    both: bool = False

    def first_value(self) -> float:
        """Return the sum where the ray begins."""

        def value(block: Block) -> float:
            y, scores, weights, _ = block
            if self.both:
                scores = np.full_like(scores, -math.inf)
            return kernels.value(self.of, self.shape, y, scores, weights)

        return float(total(self.moving.map(value)))

    def first_slope(self) -> float:
        """Return the derivative of the sum right after the beginning."""
        if self.both:
            return 0.0
        return float(total(self.moving.map(partial(kernels.begin, self.of, self.shape))))

    def scale(self) -> float:
        """Return the step of a typical corner."""
        every = max(1, rows_in_all(len(self.moving.scores)) // _SAMPLE)
        some = self.moving.map(lambda block: tuple(array[::every] for array in block))
        y, scores, weights, along = joined(some)
        typical = kernels.typical_step(self.of, self.shape, (y, scores, weights, along))
        return min(max(typical, 1e-300), 1e300)


def lowest_step(line: Line) -> float:
    """Return the step that minimizes the sum plus ``extra`` over ``k >= 0``, or over all ``k``.

    Where it is lowest on a whole stretch, the middle of the first one; its finite end if it has no
    other.
    """
    value, slope = line.first_value(), line.first_slope() + line.extra.slope
    farthest = min(_farthest(line, value), _TOO_FAR)
    scale = line.scale()
    reach = (line.both, scale, farthest)
    table = _table(line, reach)
    used = np.flatnonzero(table[:, COUNT])
    if not used.size:
        return 0.0 if line.both else _first_piece(slope, line.extra.curvature)
    table = table[used]
    ends, kept, step, lowest, slack = kernels.survey(
        table, value, slope, line.extra.curvature, line.both, farthest, _ROUNDING
    )
    if not kept.any():
        return step
    wanted = np.zeros(_N_BINS, dtype=np.bool_)
    wanted[used[kept]] = True
    from_step, to_step = float(table[kept, FIRST].min()), float(table[kept, LAST].max())
    found = line.moving.map(
        lambda moving: kernels.inside(
            line.of, line.shape, moving, reach, wanted, from_step, to_step
        )
    )
    steps, jumps = joined(found)
    order = np.argsort(steps, kind="stable")
    steps, jumps = steps[order], jumps[order]
    curvature = line.extra.curvature
    best = step, lowest
    for k in np.flatnonzero(kept):
        start = int(np.searchsorted(steps, table[k, FIRST], side="left"))
        part = slice(start, int(np.searchsorted(steps, table[k, LAST], side="right")))
        begin = float(table[k, FIRST]), float(ends[k, 0]), float(ends[k, 1])
        best = kernels.sweep(begin, curvature, steps[part], jumps[part], best, slack)
    step, _ = best
    if curvature == 0.0 and line.extra.slope == 0.0:
        step = _middle_of_flat(step, table, ends, steps, jumps, kept)
    return float(step)


def _table(line: Line, reach: kernels.Reach) -> Matrix:
    """Return the sums of all bins."""

    def tally(moving: Block) -> Matrix:
        table = np.zeros((_N_BINS + 1, 6))
        table[:, FIRST], table[:, LAST] = math.inf, -math.inf
        kernels.tally(line.of, line.shape, moving, reach, table)
        return table[:-1]

    tables = line.moving.map(tally)
    table = np.empty((_N_BINS, 6))
    summed = [JUMPS, MOMENTS, FALLS, COUNT]
    table[:, summed] = total([each[:, summed] for each in tables])
    ends = joined([(each[None, :, FIRST], each[None, :, LAST]) for each in tables])
    table[:, FIRST], table[:, LAST] = ends[0].min(axis=0), ends[1].max(axis=0)
    return table


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
    floor = min(middle, *map(float, ends)) * sum_over(line.moving.weights)
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
