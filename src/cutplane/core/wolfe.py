"""A line search that knows nothing but values and slopes: the weak Wolfe conditions.

Along a ray, ``f(k)`` with ``f'(0) < 0``, a step is long enough and not too long if

    f(k) <= f(0) + decrease * k * f'(0)       and       f'(k) >= curvature * f'(0)

Each trial that breaks the first one is an upper end of a bracket, each that breaks only the second
one is a lower end. With kinks too the bracket shrinks onto a step that satisfies both, if there is
one (A. Lewis, M. Overton: Nonsmooth optimization via quasi-Newton methods, 2013).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

# This constant is the usual one. The others, and those of `ByTrials`, were chosen on the chained
# functions of paper 004 (docs/non-convex.md). On 24 settings neighbors need 540 to 1,006
# evaluations, these 628.
_DECREASE = 1e-4
_CURVATURE = 0.7

# A lengthened step grows by at most this factor.
_GROWTH = 4.0

# The next trial keeps this share of the bracket away from both ends.
_MARGIN = 0.1


class Trial(NamedTuple):
    """Value and slope of a function after a step along a ray."""

    step: float
    value: float
    slope: float


def is_too_long(trial: Trial, start: Trial) -> bool:
    """Say whether the function did not fall enough, or is not finite."""
    bound = start.value + _DECREASE * trial.step * start.slope
    return not trial.value <= bound or not math.isfinite(trial.slope)


def is_too_short(trial: Trial, start: Trial) -> bool:
    """Say whether the function still falls nearly as steeply as at the start."""
    return trial.slope < _CURVATURE * start.slope


def search(
    evaluate: Callable[[float], Trial],
    start: Trial,
    first: float,
    *,
    most: int,
    margin: float = _MARGIN,
) -> None:
    """Try steps until one satisfies both conditions.

    Parameters
    ----------
    evaluate : callable
        Returns the trial of a step; the caller keeps what it needs of it.
    start : Trial
        At step zero, with a negative slope.
    first : float
        The first step to try.
    most : int
        Most evaluations.
    margin : float
        Which share of a bracket the next trial keeps away from both ends.
    """
    low, step = start, first
    high: Trial | None = None
    for _ in range(most):
        trial = evaluate(step)
        if is_too_long(trial, start):
            high = trial
        elif is_too_short(trial, start):
            low = trial
        else:
            return
        step = between(low, high, margin) if high else beyond(low, start)


def beyond(low: Trial, start: Trial) -> float:
    """Return a longer step: where the slope would vanish if it went on as from the start."""
    change = low.slope - start.slope
    if change > 0.0:
        root = low.step - low.slope * (low.step - start.step) / change
        return min(max(root, 1.5 * low.step), _GROWTH * low.step)
    return _GROWTH * low.step


def between(low: Trial, high: Trial, margin: float = _MARGIN) -> float:
    """Return a step inside a bracket: the minimum of the cubic through both ends."""
    share = min(max(_cubic_minimum(low, high), margin), 1.0 - margin)
    return low.step + share * (high.step - low.step)


def _cubic_minimum(low: Trial, high: Trial) -> float:
    """Return where the cubic with the values and slopes of both ends is lowest, as a share."""
    width = high.step - low.step
    rise, s0, s1 = high.value - low.value, low.slope * width, high.slope * width
    if not (math.isfinite(rise) and math.isfinite(s1)):
        return 0.0  # as far away from the end that is not finite as allowed
    # p(t) = s0*t + b*t^2 + a*t^3 with p(1) = rise and p'(1) = s1
    a, b = s0 + s1 - 2.0 * rise, 3.0 * rise - 2.0 * s0 - s1
    root = b * b - 3.0 * a * s0
    if root < 0.0 or b + math.sqrt(root) <= 0.0:  # it only falls, or only rises
        return 0.5
    return -s0 / (b + math.sqrt(root))
