"""The plain subgradient method for risks that are not convex: to compare with.

    w_{t+1} = w_t - g_t / (lam (t + t0)),    g_t a subgradient of J at w_t

The steps are those with which the method converges for strongly convex objectives. ``t0`` makes
the first one a share of the distance within which the optimum would be if the objective were
convex and nowhere below zero. The best point is kept. There is no gap: a run ends at a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cutplane.compute.products import dot
from cutplane.core.method import Method, PlanesOf, Stabilizer
from cutplane.core.needs import QUADRATIC, quadratic
from cutplane.core.policies.bmrm import AtCandidate, KeepAll
from cutplane.core.state import Candidate, Problem, State
from cutplane.solvers.cccp import LastPoint, NoPlanes, StepTaken

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(slots=True)
class StepsTaken(StepTaken):
    """How many steps were taken, and what is added to that number; None before the first."""

    taken: int = 0
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class SubgradientSteps(Stabilizer[StepsTaken]):
    """Step against the slope at the last point, by less and less.

    Parameters
    ----------
    first : float
        The length of the first step, as a share of ``sqrt(2 J / lam)``.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    planes_of: ClassVar[PlanesOf] = "none"
    first: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.first < math.inf:
            raise ValueError(f"first must be positive and finite, got {self.first}")

    def init(self, problem: Problem) -> StepsTaken:
        """Return that no step was taken yet."""
        return StepsTaken()

    def propose(self, state: State, own: StepsTaken) -> tuple[Candidate, StepsTaken]:
        """Take a step."""
        regularizer = quadratic(state.problem.regularizer)
        last: LastPoint = state.policies.cuts
        slope = last.slope + regularizer.gradient(last.w)
        image = regularizer.dual_metric(slope)
        lam, delay = regularizer.lam, own.delay
        if delay is None:
            distance = math.sqrt(2.0 * max(abs(state.objective), _TINY) / lam)
            length = math.sqrt(max(dot(slope, image), 0.0))
            delay = max(length / (lam * self.first * distance), 1.0)
        w = last.w - image / (lam * (own.taken + delay))
        return Candidate(w, -math.inf, -math.inf), StepsTaken(taken=own.taken + 1, delay=delay)


def subgradient(*, first: float = 0.1) -> Method:
    """Plain subgradient method with steps that decay as ``1/t``, for risks that are not convex.

    It has no gap and no stopping rule: it ends at ``max_iter`` or ``time_limit``, with the best
    point that it met, and never calls itself stationary. One evaluation an iteration. To compare
    with; `nrbm` finds lower points in fewer evaluations.

    Parameters
    ----------
    first : float
        The length of the first step, as a share of ``sqrt(2 J / lam)``.
    """
    return Method(SubgradientSteps(first), KeepAll(), AtCandidate(), NoPlanes(), name="subgradient")
