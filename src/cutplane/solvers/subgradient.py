"""The plain subgradient method for risks that are not convex: to compare with.

    w_{t+1} = w_t - g_t / (lam (t + t0)),    g_t a subgradient of J at w_t

The steps are those with which the method converges for strongly convex objectives. ``t0`` makes
the first one a share of the distance within which the optimum would be if the objective were
convex and nowhere below zero. The best point is kept. There is no gap: a run ends at a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cutplane.compute.arrays import Vector, positive
from cutplane.compute.products import dot
from cutplane.core.protocols import Point
from cutplane.core.solver import CURVED, QUADRATIC, Solver, Step
from cutplane.core.state import Run

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """Where the last step has led, and how many were taken.

    Attributes
    ----------
    w, slope : ndarray
        The point, and the slope of the risk there.
    delay : float
        What is added to the number of steps.
    taken : int
    """

    w: Vector
    slope: Vector
    delay: float
    taken: int = 0


@dataclass(frozen=True, slots=True)
class SubgradientSteps(Solver[StepsTaken | None]):
    """Step against the slope at the last point, by less and less.

    Parameters
    ----------
    first_length : float
        The length of the first step, as a share of ``sqrt(2 J / lam)``.
    """

    needs = (CURVED, QUADRATIC)
    for_convex: ClassVar[bool] = False
    bounds: ClassVar[bool] = False
    first_length: float = 0.1
    name: str = "subgradient"

    def __post_init__(self) -> None:
        positive("first", self.first_length)

    def step(self, run: Run, own: StepsTaken | None) -> Step[StepsTaken | None]:
        """Take a step."""
        regularizer = run.problem.norm
        last = own or StepsTaken(run.best.w, run.best.plane().slope, delay=0.0)
        slope = last.slope + regularizer.gradient(last.w)
        image = regularizer.dual_metric(slope)
        if own is None:  # the delay makes the first step as long as it should be
            length = math.sqrt(max(dot(slope, image), 0.0))
            distance = math.sqrt(2.0 * max(abs(run.objective), _TINY) / regularizer.lam)
            delay = max(length / (regularizer.lam * self.first_length * distance), 1.0)
            last = replace(last, delay=delay)
        w = last.w - image / (regularizer.lam * (last.taken + last.delay))
        point = run.problem.risk.at(w)
        run.require_finite(point)
        after = StepsTaken(np.array(point.w), point.plane().slope, last.delay, last.taken + 1)
        return Step([point], after)

    def cut(self, run: Run, step: Step[StepsTaken | None], before: Point) -> bool:
        """Tell that nothing is known of the gap, so that nothing can be said to stand still."""
        run.lower = -math.inf
        return True


def subgradient(*, first: float = 0.1) -> SubgradientSteps:
    """Plain subgradient method with steps that decay as ``1/t``, for risks that are not convex.

    It has no gap and no stopping rule: it ends at ``max_iter`` or ``time_limit``, with the best
    point that it met, and never calls itself stationary. One evaluation an iteration. To compare
    with; `nrbm` finds lower points in fewer evaluations.

    Parameters
    ----------
    first : float
        The length of the first step, as a share of ``sqrt(2 J / lam)``.
    """
    return SubgradientSteps(first)
