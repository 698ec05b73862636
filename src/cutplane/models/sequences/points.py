"""The risk of a linear chain at a point and along a ray, and a search with few dynamic programs.

A step along the ray needs no pass over the features, but a dynamic program on each sequence. So a
search is not exact: it ends where the objective is nearly flat, or after three trials.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Plane, Quadratic
from cutplane.core.search import Trial, between, beyond, model_minimum
from cutplane.models.sequences.chain import ChainScores
from cutplane.models.sequences.losses import ChainOutcome

if TYPE_CHECKING:
    from cutplane.models.sequences.risk import ChainRisk

# A trial is good enough where the slope is at most this share of that at the start. Chosen on 1,500
# words of the OCR data, relative gap 1 %: with 0.1, 0.3 and 0.5 the margin (lam = 1e-3) takes 202,
# 210 and 224 iterations and 3.8, 3.3 and 3.1 dynamic programs in each, the search's two ends
# included; the CRF (lam = 1e-4) 117, 119 and 128 with 4.0, 3.6 and 3.3.
_FLAT = 0.3
_MOST_TRIALS = 3
# Trials keep this share of a bracket away from its ends: good steps are often that short.
_MARGIN = 0.02
# What is left to be gained is rounding if it is a smaller share of the objective.
_ROUNDING = 1e-12


class ChainPoint:
    """The risk of a linear chain at ``w``, with the scores there.

    Attributes
    ----------
    w : ndarray
        Parameters.
    scores : ChainScores
        Of all labels and transitions.
    """

    def __init__(self, risk: ChainRisk, w: Vector, scores: ChainScores) -> None:
        self._risk = risk
        self.w = w
        self.scores = scores
        self._group_planes: dict[int, list[Plane]] = {}

    @cached_property
    def outcome(self) -> ChainOutcome:
        """What the dynamic programs found: computed on first use, then kept."""
        return self._risk.evaluate(self.scores)

    @property
    def value(self) -> float:
        """The risk."""
        return self.outcome.value

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        return self._risk.pull_back(self.outcome.slopes())

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group, all in one pass over the data, the first time."""
        if n_groups not in self._group_planes:
            planes = self._risk.pull_back_groups(self.outcome.slopes(), n_groups)
            self._group_planes[n_groups] = planes
        return self._group_planes[n_groups]

    def toward(self, other: ChainPoint) -> ChainSegment:
        """Return the risk on the ray from here through ``other``."""
        return ChainSegment(self, other)

    def moved(self, step: float, direction: ChainScores, way: Vector) -> ChainPoint:
        """Return the point after a step along a direction of scores, and a way of parameters."""
        return ChainPoint(self._risk, self.w + step * way, self.scores.moved(step, direction))


class ChainSegment:
    """The risk on the ray from a point through another. Points on it are kept."""

    uses_distance = True

    def __init__(self, start: ChainPoint, end: ChainPoint) -> None:
        self._start = start
        self._way = end.w - start.w
        self._direction = ChainScores(
            *(there - here for here, there in zip(start.scores, end.scores, strict=True))
        )
        self._known = {0.0: start, 1.0: end}
        self._seen: dict[float, tuple[float, float]] = {}

    def minimize(self, regularizer: Quadratic, expected: float | None = None) -> float:
        """Return a step where the risk plus the regularizer on the ray is nearly the lowest.

        The first trial after those at both ends is at the expected distance from the start, such as
        that of the last search: the next one will hardly go much farther or less far. Without it,
        the trial is where the tangents at both ends cross, as at a kink.
        """
        return nearly_best_step(self.along, regularizer, steps_to(expected, self._way))

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        if step not in self._seen:
            outcome = self.at(step).outcome
            self._seen[step] = outcome.value, outcome.slope_along(self._direction)
        return self._seen[step]

    def at(self, step: float) -> ChainPoint:
        """Return the point at ``step``, without a pass over the data."""
        if step not in self._known:
            self._known[step] = self._start.moved(step, self._direction, self._way)
        return self._known[step]


def steps_to(distance: float | None, way: Vector) -> float | None:
    """Return how many times a way leads that far; None if that is not known."""
    length = float(np.linalg.norm(way))
    return None if distance is None or length == 0.0 else distance / length


def nearly_best_step(
    along: Callable[[float], tuple[float, float]],
    regularizer: Quadratic,
    expected: float | None = None,
) -> float:
    """Return a step where a risk on a ray plus the regularizer is nearly the lowest.

    Parameters
    ----------
    along : callable
        From a step to the risk and its derivative.
    regularizer : Quadratic
        On the same ray.
    expected : float, optional
        Where to look first, once the minimum is known to lie between two steps.
    """

    def trial(step: float) -> Trial:
        """Return value and slope of risk and regularizer together."""
        value, slope = along(step)
        value += regularizer.slope * step + 0.5 * regularizer.curvature * step**2
        return Trial(step, value, slope + regularizer.slope + regularizer.curvature * step)

    start = trial(0.0)
    if start.slope >= 0.0:
        return 0.0
    low, high, trials, step = start, None, [start], 1.0
    for number in range(1 + _MOST_TRIALS):
        here = trial(step)
        trials.append(here)
        if abs(here.slope) <= _FLAT * abs(start.slope):
            break
        if here.slope > 0.0:
            high = here
        else:
            low = here
        if high is None:
            step = beyond(low, start)
            continue
        crossing, floor = _floor(along, low.step, high.step, regularizer)
        lowest = min(trial.value for trial in trials)
        if lowest - floor <= _ROUNDING * abs(lowest):
            break
        if number > 0:
            step = between(low, high, _MARGIN)
        else:
            step = crossing if expected is None else expected
        width = high.step - low.step
        step = min(max(step, low.step + _MARGIN * width), high.step - _MARGIN * width)
    return min(trials, key=lambda trial: trial.value).step


def _floor(
    along: Callable[[float], tuple[float, float]], low: float, high: float, regularizer: Quadratic
) -> tuple[float, float]:
    """Return where the model made of two tangents to the risk is lowest, and how low that is.

    Between two steps, where the objective falls at the first and rises at the second.
    """
    (value_low, slope_low), (value_high, slope_high) = along(low), along(high)
    step = model_minimum(
        Trial(low, value_low, slope_low), Trial(high, value_high, slope_high), regularizer
    )
    tangent = max(value_low + slope_low * (step - low), value_high + slope_high * (step - high))
    return step, tangent + regularizer.slope * step + 0.5 * regularizer.curvature * step**2
