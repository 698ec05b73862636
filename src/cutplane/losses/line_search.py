"""Minimize a convex function of one variable: by tangents, roughly, or by second derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutplane.core.protocols import Quadratic

_MAX_STEPS = 100
_MAX_DOUBLINGS = 1100  # from the smallest to the largest number

# A bracket narrower than this share of its place cannot be told from a point.
_NARROW = 1e-14
# What a Newton step leaves is of the order of its square.
_LAST_NEWTON = 1e-7


def minimize_on_ray(
    function: Callable[[float], tuple[float, float]], extra: Quadratic, *, accuracy: float = _NARROW
) -> float:
    """Minimize ``function(k) + extra(k)`` over ``k >= 0`` by cutting planes in one dimension.

    ``function`` returns a convex function's value and one of its slopes. Between the two ends of
    the bracket the tangents bound it from below, and the next step is the minimum of that model.
    For a piecewise linear function the search ends at the exact minimizer.

    Parameters
    ----------
    function : callable
        ``k -> (value, slope)``; the value may be infinite.
    extra : Quadratic
        Known exactly and not approximated.
    accuracy : float
        Width of the final bracket, relative to its upper end.
    """
    lo = 0.0
    value_lo, slope_lo = function(lo)
    if slope_lo + extra.slope >= 0.0:
        return lo
    best, best_value = lo, value_lo

    hi = 1.0
    for _ in range(_MAX_DOUBLINGS):
        value_hi, slope_hi = function(hi)
        total = value_hi + extra.slope * hi + 0.5 * extra.curvature * hi * hi
        if total < best_value:
            best, best_value = hi, total
        if not slope_hi + extra.slope + extra.curvature * hi < 0.0:
            break
        lo, value_lo, slope_lo = hi, value_hi, slope_hi
        hi *= 2.0
    else:
        return best  # falls for ever: the infimum is not attained

    for step in range(_MAX_STEPS):
        if hi - lo <= accuracy * hi:
            break
        middle = 0.5 * (lo + hi)
        k = middle
        # Every third step bisects, so that one flat tangent cannot hold the search up.
        if step % 3 != 2 and np.isfinite(value_hi) and np.isfinite(slope_hi):
            k = model_minimum(lo, value_lo, slope_lo, hi, value_hi, slope_hi, extra)
            if not lo < k < hi:
                # The model is lowest at an end that was evaluated: that end is the minimizer.
                break
        value, slope = function(k)
        total = value + extra.slope * k + 0.5 * extra.curvature * k * k
        if total < best_value:
            best, best_value = k, total
        derivative = slope + extra.slope + extra.curvature * k
        if derivative == 0.0:
            return k
        if derivative < 0.0:
            lo, value_lo, slope_lo = k, value, slope
        else:
            hi, value_hi, slope_hi = k, value, slope
    return best


def model_minimum(
    lo: float,
    value_lo: float,
    slope_lo: float,
    hi: float,
    value_hi: float,
    slope_hi: float,
    extra: Quadratic,
) -> float:
    """Minimize the larger of two tangents plus a quadratic."""
    if slope_lo == slope_hi:  # one tangent, and the quadratic turns the slope
        return -(slope_lo + extra.slope) / extra.curvature
    crossing = (value_hi - slope_hi * hi - value_lo + slope_lo * lo) / (slope_lo - slope_hi)
    if extra.curvature <= 0.0:
        return crossing
    left = -(slope_lo + extra.slope) / extra.curvature
    right = -(slope_hi + extra.slope) / extra.curvature
    return float(np.clip(crossing, right, left))


def minimize_roughly(
    function: Callable[[float], tuple[float, float]], extra: Quadratic, *, share: float
) -> float:
    """Minimize ``function(k) + extra(k)`` over ``k >= 0``, to a share of what the search gains.

    For functions that are dear to evaluate and have so many kinks that they look smooth: the next
    step is where the slopes of the bracket's ends, drawn as a line, cross zero (regula falsi, in
    its Illinois variant), while the tangents there bound what is left to gain.
    """

    def total(k: float) -> tuple[float, float]:
        value, slope = function(k)
        value += extra.slope * k + 0.5 * extra.curvature * k * k
        return value, slope + extra.slope + extra.curvature * k

    lo, hi = 0.0, 1.0
    value_lo, slope_lo = total(lo)
    if slope_lo >= 0.0:
        return lo
    start = best_value = value_lo
    best = lo
    for _ in range(_MAX_DOUBLINGS):
        value_hi, slope_hi = total(hi)
        if value_hi < best_value:
            best, best_value = hi, value_hi
        if not slope_hi < 0.0:
            break
        lo, value_lo, slope_lo = hi, value_hi, slope_hi
        hi *= 2.0
    else:
        return best  # falls for ever: the infimum is not attained

    trust_lo = trust_hi = 1.0  # an end that stays is trusted less and less
    for _ in range(_MAX_STEPS):
        width = hi - lo
        crossing = (value_hi - value_lo - slope_hi * width) / (slope_lo - slope_hi)
        left = best_value - (value_lo + slope_lo * crossing)
        if left <= share * (start - best_value) or width <= _NARROW * hi:
            break
        rise, fall = slope_hi * trust_hi, -slope_lo * trust_lo
        k = lo + width * float(np.clip(fall / (fall + rise), 0.05, 0.95))
        value, slope = total(k)
        if value < best_value:
            best, best_value = k, value
        if slope < 0.0:
            lo, value_lo, slope_lo = k, value, slope
            trust_lo, trust_hi = 1.0, 0.5 * trust_hi
        else:
            hi, value_hi, slope_hi = k, value, slope
            trust_hi, trust_lo = 1.0, 0.5 * trust_lo
    return best


def find_root(derivatives: Callable[[float], tuple[float, float]]) -> float:
    """Return the ``k >= 0`` where an increasing function crosses zero, by safeguarded Newton steps.

    ``derivatives`` returns the function (a first derivative) and its slope (a second derivative);
    either may be infinite far out. Zero if the function is not negative at zero.
    """
    lo, hi = 0.0, np.inf
    k, (first, second) = 0.0, derivatives(0.0)
    if first >= 0.0:
        return 0.0
    reach = 1.0
    for _ in range(_MAX_DOUBLINGS):
        newton = k - first / second if second > 0.0 and np.isfinite(first) else np.nan
        # Newton's steps come from one side, so the bracket alone would not tell that this is it.
        if abs(newton - k) <= _LAST_NEWTON * k:
            return newton
        if lo < newton < hi and (np.isfinite(hi) or newton <= lo + reach):
            k = newton
        elif np.isfinite(hi):
            k = 0.5 * (lo + hi)
        else:
            k = lo + reach
            reach *= 2.0
        if k in (lo, hi):
            break
        first, second = derivatives(k)
        if first == 0.0:
            break
        if first < 0.0:
            lo = k
        else:
            hi = k
        if np.isfinite(hi) and hi - lo <= _NARROW * hi:
            break
    return k
