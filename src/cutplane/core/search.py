"""The one search of one dimension: a bracket of two steps that shrinks.

Along a ray ``k >= 0`` a function falls at first. A trial says on which side of it the wanted step
lies, and becomes an end of the bracket; a rule proposes the next trial. All searches are this loop
with a rule of their own:

    minimize_on_ray      a convex function, by the tangents at both ends (cutting planes)
    minimize_roughly     the same to a share of the gain, by slopes (regula falsi)
    find_root            an increasing function, by Newton steps
    wolfe_search         any function, until a step satisfies Wolfe's weak conditions
    minimize_on_segment  a risk that knows its minimum plus a quadratic, and another function
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cutplane.compute.pace import hurried
from cutplane.core.protocols import Quadratic, Segment

_MAX_STEPS = 100
_MAX_DOUBLINGS = 1100  # from the smallest to the largest number

# A bracket narrower than this share of its place cannot be told from a point.
_NARROW = 1e-14

# These, and those of `ByTrials`, were chosen on the chained functions of paper 004
# (docs/non-convex.md). On 24 settings neighbors need 540 to 1,006 evaluations, these 628.
CURVATURE = 0.7
# A lengthened step grows by at most this factor.
_GROWTH = 4.0
# The next trial keeps this share of the bracket away from both ends.
_MARGIN = 0.1


class Trial(NamedTuple):
    """Value and slope of a function after a step along a ray."""

    step: float
    value: float
    slope: float


Rule = Callable[[Trial, Trial, Trial | None], float | None]


def search(
    evaluate: Callable[[float], Trial],
    start: Trial,
    first: float,
    *,
    side: Callable[[Trial], float],
    propose: Rule,
    most: int,
) -> Trial:
    """Try steps until one is right or the rule has no other; return the last trial.

    Parameters
    ----------
    evaluate : callable
        Returns the trial of a step; the caller keeps what it needs of it.
    start : Trial
        At step zero: the lower end of the bracket.
    first : float
        The first step to try.
    side : callable
        Negative if the wanted step is beyond a trial, positive if it is before it, zero if it is
        the trial's own.
    propose : callable
        Returns the next step from the last trial and both ends of the bracket, of which the upper
        one is None at first. None ends the search.
    most : int
        Most evaluations.
    """
    low, step = start, first
    last, high = start, None
    for _ in range(most):
        last = evaluate(step)
        where = side(last)
        if where == 0:
            break
        if where < 0:
            low = last
        else:
            high = last
        following = propose(last, low, high)
        if following is None:
            break
        step = following
    return last


class _Lowest:
    """Trials of a function plus a quadratic, of which the lowest is kept."""

    def __init__(self, function: Callable[[float], tuple[float, float]], extra: Quadratic) -> None:
        self._function, self.extra = function, extra
        value, slope = function(0.0)
        self.start = Trial(0.0, value, slope)
        self.step, self.value = 0.0, value

    def __call__(self, step: float) -> Trial:
        value, slope = self._function(step)
        total = value + self.extra.slope * step + 0.5 * self.extra.curvature * step * step
        if total < self.value:
            self.step, self.value = step, total
        return Trial(step, value, slope)

    def derivative(self, trial: Trial) -> float:
        """Return the derivative of the sum; what is not a number is far out, where it rises."""
        slope = trial.slope + self.extra.slope + self.extra.curvature * trial.step
        return math.inf if math.isnan(slope) else slope


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
    lowest = _Lowest(function, extra)
    n_steps = 0

    def propose(last: Trial, low: Trial, high: Trial | None) -> float | None:
        nonlocal n_steps
        if high is None:
            return 2.0 * last.step
        if high.step - low.step <= accuracy * high.step or n_steps == _MAX_STEPS:
            return None
        n_steps += 1
        # Every third step bisects, so that one flat tangent cannot hold the search up.
        if n_steps % 3 == 0 or not (np.isfinite(high.value) and np.isfinite(high.slope)):
            return 0.5 * (low.step + high.step)
        step = model_minimum(low, high, extra)
        # The model is lowest at an end that was evaluated: that end is the minimizer.
        return step if low.step < step < high.step else None

    if lowest.derivative(lowest.start) >= 0.0:
        return 0.0
    last = search(
        lowest,
        lowest.start,
        1.0,
        side=lowest.derivative,
        propose=propose,
        most=_MAX_DOUBLINGS + _MAX_STEPS,
    )
    return last.step if lowest.derivative(last) == 0.0 else lowest.step


def model_minimum(low: Trial, high: Trial, extra: Quadratic) -> float:
    """Minimize the larger of two tangents plus a quadratic."""
    if low.slope == high.slope:  # one tangent, and the quadratic turns the slope
        return -(low.slope + extra.slope) / extra.curvature
    crossing = (high.value - high.slope * high.step - low.value + low.slope * low.step) / (
        low.slope - high.slope
    )
    if extra.curvature <= 0.0:
        return crossing
    left = -(low.slope + extra.slope) / extra.curvature
    right = -(high.slope + extra.slope) / extra.curvature
    return float(np.clip(crossing, right, left))


def minimize_roughly(
    function: Callable[[float], tuple[float, float]], extra: Quadratic, *, share: float
) -> float:
    """Minimize ``function(k) + extra(k)`` over ``k >= 0``, to a share of what the search gains.

    For functions that are expensive and have so many kinks that they look smooth: the next
    step is where the slopes of the bracket's ends, drawn as a line, cross zero (regula falsi, in
    its Illinois variant), while the tangents there bound what is left to gain.
    """

    def total(k: float) -> tuple[float, float]:
        value, slope = function(k)
        value += extra.slope * k + 0.5 * extra.curvature * k * k
        return value, slope + extra.slope + extra.curvature * k

    lowest = _Lowest(total, Quadratic(0.0, 0.0))
    trust_low = trust_high = 1.0  # an end that stays is trusted less and less
    n_steps = 0

    def propose(last: Trial, low: Trial, high: Trial | None) -> float | None:
        nonlocal trust_low, trust_high, n_steps
        if high is None:
            return 2.0 * last.step
        if n_steps > 0 and last is low:
            trust_low, trust_high = 1.0, 0.5 * trust_high
        elif n_steps > 0:
            trust_low, trust_high = 0.5 * trust_low, 1.0
        n_steps += 1
        width = high.step - low.step
        crossing = (high.value - low.value - high.slope * width) / (low.slope - high.slope)
        left = lowest.value - (low.value + low.slope * crossing)
        enough = left <= share * (lowest.start.value - lowest.value)
        if enough or width <= _NARROW * high.step or n_steps > _MAX_STEPS:
            return None
        rise, fall = high.slope * trust_high, -low.slope * trust_low
        return low.step + width * float(np.clip(fall / (fall + rise), 0.05, 0.95))

    if lowest.start.slope >= 0.0:
        return 0.0
    search(
        lowest,
        lowest.start,
        1.0,
        side=lambda trial: -1 if trial.slope < 0.0 else 1,
        propose=propose,
        most=_MAX_DOUBLINGS + _MAX_STEPS,
    )
    return lowest.step


def find_root(derivatives: Callable[[float], tuple[float, float]]) -> float:
    """Return the ``k >= 0`` where an increasing function crosses zero, by safeguarded Newton steps.

    ``derivatives`` returns the function (a first derivative) and its slope (a second derivative);
    either may be infinite far out. Zero if the function is not negative at zero.
    """
    start = Trial(0.0, *derivatives(0.0))
    if start.value >= 0.0:
        return 0.0
    root, reach = 0.0, 1.0

    def propose(last: Trial, low: Trial, high: Trial | None) -> float | None:
        nonlocal root, reach
        at = last.step
        if high is not None and high.step - low.step <= _NARROW * high.step:
            return None
        usable = last.slope > 0.0 and np.isfinite(last.value)
        newton = at - last.value / last.slope if usable else np.nan
        # Newton's steps come from one side, so the bracket alone would not tell that this is it.
        # What it leaves is of the order of its square.
        if abs(newton - at) <= 1e-7 * at:
            root = newton
            return None
        farthest = low.step + reach if high is None else math.inf
        if low.step < newton <= farthest and (high is None or newton < high.step):
            root = newton
        elif high is not None:
            root = 0.5 * (low.step + high.step)
        else:
            root = farthest
            reach *= 2.0
        return None if root == low.step or (high and root == high.step) else root

    first = propose(start, start, None)
    if first is not None:
        search(
            lambda step: Trial(step, *derivatives(step)),
            start,
            first,
            side=lambda trial: math.inf if math.isnan(trial.value) else trial.value,
            propose=propose,
            most=_MAX_DOUBLINGS,
        )
    return root


def is_too_long(trial: Trial, start: Trial) -> bool:
    """Say whether the function did not fall enough, or is not finite."""
    bound = start.value + 1e-4 * trial.step * start.slope  # Wolfe's usual constant
    return not trial.value <= bound or not math.isfinite(trial.slope)


def is_too_short(trial: Trial, start: Trial, curvature: float = CURVATURE) -> bool:
    """Say whether the function still falls nearly as steeply as at the start."""
    return trial.slope < curvature * start.slope


def wolfe_search(
    evaluate: Callable[[float], Trial],
    start: Trial,
    first: float,
    *,
    most: int,
    margin: float = _MARGIN,
    curvature: float = CURVATURE,
) -> None:
    """Try steps until one is long enough and not too long: Wolfe's weak conditions.

        f(k) <= f(0) + decrease * k * f'(0)       and       f'(k) >= curvature * f'(0)

    Each trial that breaks the first one is an upper end of the bracket, each that breaks only the
    second one is a lower end. With kinks too the bracket shrinks onto a step that satisfies both,
    if there is one (A. Lewis, M. Overton: Nonsmooth optimization via quasi-Newton methods, 2013).

    Parameters
    ----------
    evaluate, start, first, most
        As for `search`; the slope at the start is negative.
    margin : float
        Which share of a bracket the next trial keeps away from both ends.
    curvature : float
        The constant of the second condition, below 1.
    """

    def side(trial: Trial) -> int:
        return 1 if is_too_long(trial, start) else -is_too_short(trial, start, curvature)

    def propose(last: Trial, low: Trial, high: Trial | None) -> float | None:
        step = between(low, high, margin) if high else beyond(low, start)
        return None if hurried() else step

    search(evaluate, start, first, side=side, propose=propose, most=most)


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


def minimize_on_segment(
    segment: Segment, on_ray: Callable[[float], float], *, farthest: float
) -> float:
    """Return a step from 0 to ``farthest`` that nearly minimizes the risk plus ``on_ray``.

    A segment knows the exact minimum of the risk plus a quadratic. So the function is replaced, at
    a step ``k``, by its slope there and a curvature, and the minimizer of that is the next ``k``.
    It also says on which side of ``k`` the true minimum lies, whatever the curvature. At a corner
    the slopes of both sides are tried: corners are frequent at ``k = 1``, where a sparse candidate
    has its zeros. Slopes are differences of values: nothing but ``on_ray(k)`` is asked for. It is
    convex, finite at 0 and 1, and may be infinite beyond 1. At 0 it may fall infinitely steeply, as
    an entropy does, so that the minimum is close to 0 and not there.
    """
    # Steps that differ by this share are the same, since the search need not be exact; the other is
    # the step that cannot be told from zero.
    close, shortest = 1e-5, 1e-9
    first = (on_ray(shortest) - on_ray(0.0)) / shortest
    lower, known, n_trials = 0.0, Trial(0.0, 0.0, first), 0
    proposed = 1.0

    def evaluate(step: float) -> Trial:
        nonlocal known, proposed
        here, proposed = on_ray(step), step
        if not np.isfinite(here):
            return Trial(step, here, math.inf)
        width = min(1e-6 * max(step, 1.0), 1e-3 * step)
        left = (here - on_ray(step - width)) / width
        right = (on_ray(step + width) - here) / width
        curvature = max((left - known.slope) / (step - known.step), 0.0)
        known = Trial(step, here, left)
        proposed = segment.minimize(Quadratic(left - curvature * step, curvature))
        if not proposed < step * (1.0 - close) and right > left:
            proposed = step
            if np.isfinite(right):
                proposed = segment.minimize(Quadratic(right - curvature * step, curvature))
                proposed = max(proposed, step)  # left of it is ruled out already
        if proposed <= 0.0 and segment.minimize(Quadratic(first, curvature)) == 0.0:
            return Trial(0.0, here, 0.0)
        # The slope is that of the sum, as far as its sign is known.
        return Trial(step, here, step - proposed)

    def side(trial: Trial) -> float:
        return 0.0 if abs(trial.slope) <= close * trial.step else trial.slope

    def propose(last: Trial, low: Trial, high: Trial | None) -> float | None:
        nonlocal lower, n_trials
        n_trials += 1
        lower, upper = low.step, high.step if high else farthest
        if upper - lower <= close * upper or upper <= shortest or lower >= farthest:
            return None
        # Every third step bisects, so that a wrong curvature cannot hold the search up.
        trusted = lower < proposed < upper and n_trials % 3 != 0
        # If it proposes 0, which was ruled out, the minimum is close to it.
        return proposed if trusted else lower + (0.5 if proposed > 0.0 else 0.1) * (upper - lower)

    start = Trial(0.0, 0.0, first)
    last = search(evaluate, start, 1.0, side=side, propose=propose, most=30)
    return last.step if side(last) == 0.0 else lower
