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

_DECREASE = 1e-4
_CURVATURE = 0.9

# A lengthened step grows by at most this factor.
_GROWTH = 4.0

# The next trial keeps this share of the bracket away from both ends.
_MARGIN = 0.05


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
    enough: Callable[[Trial], bool] = lambda trial: False,
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
    enough : callable
        Says whether to end the search at a trial that is too long all the same.
    """
    low, high, step = start, None, first
    for _ in range(most):
        trial = evaluate(step)
        if is_too_long(trial, start):
            high = trial
            if enough(trial):
                return
        elif is_too_short(trial, start):
            low = trial
        else:
            return
        step = between(low, high) if high else beyond(low, start)


def beyond(low: Trial, start: Trial) -> float:
    """Return a longer step: where the slope would vanish if it went on as from the start."""
    change = low.slope - start.slope
    if change > 0.0:
        root = low.step - low.slope * (low.step - start.step) / change
        return min(max(root, 1.5 * low.step), _GROWTH * low.step)
    return _GROWTH * low.step


def between(low: Trial, high: Trial) -> float:
    """Return a step inside a bracket: the minimum of the cubic through both ends."""
    width = high.step - low.step
    share = _cubic_minimum(low, high)
    if not _MARGIN <= share <= 1.0 - _MARGIN:
        share = min(max(share, _MARGIN), 1.0 - _MARGIN) if math.isfinite(share) else 0.5
    return low.step + share * width


def _cubic_minimum(low: Trial, high: Trial) -> float:
    """Return where the cubic with the values and slopes of both ends is lowest, as a share."""
    width = high.step - low.step
    rise, s0, s1 = high.value - low.value, low.slope * width, high.slope * width
    if not (math.isfinite(rise) and math.isfinite(s1)):
        return 0.1
    # p(t) = s0*t + b*t^2 + a*t^3 with p(1) = rise and p'(1) = s1
    a, b = s0 + s1 - 2.0 * rise, 3.0 * rise - 2.0 * s0 - s1
    root = b * b - 3.0 * a * s0
    if root < 0.0:
        return math.nan
    return -s0 / (b + math.sqrt(root)) if b + math.sqrt(root) > 0.0 else math.nan
