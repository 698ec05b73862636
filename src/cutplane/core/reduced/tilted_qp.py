"""Groups that share a free parameter, such as an intercept that is not regularized.

A risk may minimize a number ``c`` out that its groups share: ``R(w) = min_c sum_k R_k(w, c)``. Then
the planes of a group have a slope along ``c`` too, their tilt ``t``, and the model is

    min_c  sum_k max_{i in group k} a_i.w + b_i + t_i c

Weights give a plane below ``R`` if the tilts balance, ``t.alpha = 0``. So the reduced problem has
one more constraint. Its multiplier is ``c``: for each ``c`` the problem without the constraint,
with the offsets ``b + c t``, is solved as ever, and ``t.alpha`` grows with ``c``. A search finds
two values of ``c`` with solutions that tilt to either side, and the mean of the solutions that
balances is feasible. What it lacks is bounded as in `simplex_kernels`, for any ``c``:

    D* - D(alpha)  <=  sum_k max_{j in group k} (g_j + t_j c)  -  alpha.g
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import combination
from cutplane.core.reduced.simplex_kernels import EPS, Indices
from cutplane.core.reduced.simplex_qp import SimplexQP, row_major

# Enough to go 1e30 units away, or to halve a bracket to rounding; 2 to 4 are usual.
_MOST_SOLVES = 60


class BalancedSolution(NamedTuple):
    """Weights whose tilts balance, the free parameter that belongs to them, and where to go on.

    ``warm`` is one of the two solutions that the weights are a mean of. The planes of both together
    depend on each other, which makes the mean a bad place to start from.
    """

    alpha: Vector
    free: float
    warm: Vector


class _End(NamedTuple):
    """A solution without the constraint: an end of the bracket."""

    free: float
    tilt: float
    alpha: Vector


def solve_balanced(
    solver: SimplexQP, gram: Matrix, offsets: Vector, tilts: Vector, lam: float, *,
    groups: Indices | None, start: Vector, warm: Vector, free: float, accuracy: float,
) -> BalancedSolution:  # fmt: skip
    """Maximize D over the simplex of each group, such that the tilts balance.

    Parameters are those of `SimplexQP.solve`; ``start`` balances, or is zero at the very first
    call, when the last plane of each group must. The search begins at ``free`` and ``warm``, which
    need not.
    """
    if groups is None or not tilts.any():
        solution = solver.solve(gram, offsets, lam, groups=groups, start=start, accuracy=accuracy)
        return BalancedSolution(solution.alpha, free, solution.alpha)
    n_groups = int(groups.max()) + 1
    alpha, best = warm, BalancedSolution(_feasible(start, groups), free, warm)
    least = width = np.inf
    step = 1e-2 * _natural_unit(offsets, tilts)
    low: _End | None = None
    high: _End | None = None
    for _ in range(_MOST_SOLVES):
        alpha = solver.solve(
            gram, offsets + free * tilts, lam, groups=groups, start=alpha, accuracy=0.5 * accuracy
        ).alpha
        end = _End(free, float(tilts @ alpha), alpha)
        if abs(end.tilt) <= 16 * EPS * float(np.abs(tilts) @ alpha):
            low = high = end
        elif end.tilt < 0.0:
            low = end
        else:
            high = end
        if low is None or high is None:
            free += step if high is None else -step
            step *= 4.0
            continue
        mean = _mean(low, high)
        rows = np.arange(len(mean))
        gradient = offsets - combination(row_major(gram), rows, mean)[: len(offsets)] / lam
        height, multiplier = lowest_model(gradient, tilts, groups, n_groups)
        gap = height - float(mean @ gradient)
        if gap < least:
            least, best = gap, BalancedSolution(mean, multiplier, alpha)
        if gap <= accuracy or high.free - low.free <= 4 * EPS * (abs(low.free) + abs(high.free)):
            break
        halved = high.free - low.free <= 0.5 * width
        width = high.free - low.free
        if halved and low.free < multiplier < high.free:
            free = multiplier
        else:
            free = 0.5 * (low.free + high.free)
    return best


def _mean(low: _End, high: _End) -> Vector:
    """Return the mean of two solutions that balances."""
    if high is low:
        return low.alpha
    share = high.tilt / (high.tilt - low.tilt)
    return np.asarray(share * low.alpha + (1.0 - share) * high.alpha)


def _feasible(start: Vector, groups: Indices) -> Vector:
    if start.any():
        return start
    alpha = np.zeros(len(groups))
    # The last plane of each group: they were taken at one point, so they balance.
    alpha[len(groups) - 1 - np.unique(groups[::-1], return_index=True)[1]] = 1.0
    return alpha


def _natural_unit(offsets: Vector, tilts: Vector) -> float:
    return (float(np.ptp(offsets)) or 1.0) / float(np.abs(tilts).max())


@njit(cache=True, nogil=True, error_model="numpy")
def _model(
    heights: Vector, tilts: Vector, groups: Indices, top: Indices, free: float
) -> tuple[float, float]:
    """Return the sum over groups of the highest plane, and its slope, at a free parameter."""
    for k in range(top.size):
        top[k] = -1
    for j in range(groups.size):
        best = top[groups[j]]
        if best < 0 or heights[j] + free * tilts[j] > heights[best] + free * tilts[best]:
            top[groups[j]] = j
    total, slope = 0.0, 0.0
    for k in range(top.size):
        total += heights[top[k]] + free * tilts[top[k]]
        slope += tilts[top[k]]
    return total, slope


@njit(cache=True, nogil=True, error_model="numpy")
def lowest_model(
    heights: Vector, tilts: Vector, groups: Indices, n_groups: int
) -> tuple[float, float]:
    """Minimize ``sum_k max_{j in k} heights_j + c tilts_j`` over c; return minimum and minimizer.

    The function is convex and made of straight pieces. Two of them, to either side of the minimum,
    cross at the next c to try, until that is on both.
    """
    top = np.empty(n_groups, np.int64)
    steepest, spread = 0.0, 0.0
    for j in range(groups.size):
        steepest = max(steepest, abs(tilts[j]))
        spread = max(spread, abs(heights[j]))
    best, slope = _model(heights, tilts, groups, top, 0.0)
    at, c = 0.0, 0.0
    if steepest == 0.0:
        return best, at
    rounding = 8 * EPS * (spread + abs(best)) * n_groups
    level = 4 * EPS * steepest * n_groups
    low, low_value, low_slope = -np.inf, 0.0, 0.0
    high, high_value, high_slope = np.inf, 0.0, 0.0
    step = (spread if spread > 0.0 else 1.0) / steepest
    value = best
    for _ in range(200):
        if abs(slope) <= level:
            break
        if slope < 0.0:
            low, low_value, low_slope = c, value, slope
        else:
            high, high_value, high_slope = c, value, slope
        if high == np.inf:
            c = low + step
            step *= 4.0
        elif low == -np.inf:
            c = high - step
            step *= 4.0
        else:
            run = (low_value - high_value + high_slope * (high - low)) / (high_slope - low_slope)
            c = low + run
            if not low < c < high:
                break
        value, slope = _model(heights, tilts, groups, top, c)
        if value < best:
            best, at = value, c
        if (
            low > -np.inf
            and high < np.inf
            and value <= low_value + low_slope * (c - low) + rounding
        ):
            break
    return best, at
