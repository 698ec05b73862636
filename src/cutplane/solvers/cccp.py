"""The concave-convex procedure: convex functions above the objective, minimized one by one.

A risk that is a sum of convex and concave functions of scores lies below the convex risk that has
the tangent of the concave part at the best point ``c`` in place of it (its majorant ``R_c``):

    J(w) <= U_c(w) = r(w) + R_c(w)   for all w,   J(c) = U_c(c)

The minimizer of ``U_c`` is the next point, so ``J`` never rises (A. Yuille, A. Rangarajan: The
concave-convex procedure, 2003; R. Collobert et al.: Large scale transductive SVMs, 2006). ``U_c``
is minimized by a method of the library, and certified: ``U_c`` is nowhere below ``D``. Then ``J(c)
- D`` is what the step could gain at most by its convex function; where that is nothing, ``c`` is a
critical point. Nothing follows for ``J`` elsewhere, so a run ends as ``stationary`` at best, after
the same test as other methods for risks that are not convex.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import ClassVar

from cutplane.core.certificate import Status
from cutplane.core.protocols import Point
from cutplane.core.solver import CURVED, Need, Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.core.stopping import StoppingRule
from cutplane.risks.composite import Summable
from cutplane.solvers.automatic import automatic
from cutplane.solvers.minimize import minimize

_log = logging.getLogger("cutplane")

# A convex problem is solved until its gap is this share of what its minimum could be below the
# present objective. The next problem is another one, so more would be wasted.
_SHARE = 0.1
# If the run has no tolerance, a convex problem ends where it can gain no more than this share.
_LITTLE = 1e-6


@dataclass(frozen=True, slots=True)
class EnoughGained(StoppingRule):
    """Stop when most of what a convex step could gain is gained, or when that is nothing.

    Parameters
    ----------
    objective : float
        That of the point where the step begins.
    nothing : float
        What is not worth a step.
    """

    objective: float
    nothing: float

    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""
        possible = self.objective - state.lower
        enough = possible <= self.nothing or state.gap <= _SHARE * possible
        return Status.OPTIMAL if enough else Status.RUNNING


MAJORANTS = Need(
    "risk",
    Summable,
    "a risk whose losses have a convex part, such as cp.Ramp()",
    lambda risk: risk.has_majorants,
)


@dataclass(frozen=True, slots=True)
class ConvexSteps(Solver[float]):
    """Each step minimizes a convex function above the objective that touches it at the best.

    What the last step could gain at most is remembered; it is infinite before the first.
    """

    needs = (
        CURVED,
        MAJORANTS,
    )
    for_convex: ClassVar[bool] = False
    bounds: ClassVar[bool] = False
    name: str = "cccp"

    def start(self, problem: Problem) -> float:
        """Return that nothing is known yet."""
        return math.inf

    def step(self, run: Run, own: float) -> Step[float]:
        """Minimize the convex function, and evaluate the objective there."""
        risk = run.problem.risk
        majorant = MAJORANTS.of(run.problem).majorant_at(run.best)
        problem = Problem(majorant, run.problem.regularizer)
        nothing = 0.5 * run.enough or _LITTLE * abs(run.objective)
        solved = minimize(
            problem.risk,
            problem.regularizer,
            method=automatic(problem),
            stop=EnoughGained(run.objective, nothing),
            start=run.best.w,
            time_limit=None if math.isinf(run.seconds_left) else max(run.seconds_left, 1e-9),
        )
        risk.evaluations += solved.evaluations
        if solved.state.interrupted:  # half a step is none: a resumed run would go elsewhere
            raise KeyboardInterrupt
        run.convex_step = solved.certificate
        _log.info("convex step %d: %s", run.iteration + 1, solved.certificate)
        possible = max(run.objective - solved.certificate.lower_bound, 0.0)
        return Step([risk.at(solved.w)], possible)

    def cut(self, run: Run, step: Step[float], before: Point) -> bool:
        """Tell the gap: what the last step gained, or could have gained at most.

        It is infinite if the best point was found otherwise.
        """
        last = run.lower
        possible = step.state if step.points else math.inf
        gained = run.problem.objective(before) - run.objective
        run.lower = run.objective - max(possible, gained)
        # Where nothing is known of the gap, nothing can be said to stand still.
        return math.isinf(possible) or run.lower > last


def cccp() -> ConvexSteps:
    """Concave-convex procedure: a sequence of certified convex problems.

    For risks whose losses are sums of a convex and a concave one: `cutplane.Ramp`,
    `cutplane.ClippedAbsolute`, `cutplane.Hat` and their relatives, and sums of such risks with
    convex ones. The objective never rises. The gap is what the last convex step could gain at most,
    or did gain; with ``stop=cp.Gap(relative=0.01)`` a run ends with the first step that improves
    the objective by less than 1 %. Before it calls itself stationary the point is tested as with
    `nrbm`. ``result.convex_step`` is the certificate of the last convex problem, which is valid.

    `nrbm` needs fewer evaluations. Choose this one to compare, or to see whether another way leads
    to a lower point.
    """
    return ConvexSteps()
