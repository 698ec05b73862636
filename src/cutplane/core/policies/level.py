"""The level method: minimize ``|w - c|`` over ``r(w) + planes <= level`` (paper 001).

The solution minimizes ``r(w) + planes + mu/2 |w - c|^2`` for some ``mu``. The center is the best
point so far, and the level follows from the gap, so there is nothing to adapt, and a search for
``mu`` need not be accurate.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.core.needs import QUADRATIC, quadratic
from cutplane.core.policies import Stabilizer
from cutplane.core.problem import Candidate, Problem
from cutplane.core.reduced.proximal import (
    NEARLY,
    LastWeight,
    ProximalProblem,
    ProximalSolution,
    stabilized,
)
from cutplane.core.state import State

# With larger mu / lam the candidate is the best point.
_MOST = 1e6


@dataclass(frozen=True, slots=True)
class Level(Stabilizer):
    """Go to the nearest point where the model is as low as a level.

    Parameters
    ----------
    share : float
        Where the level is, from the lower bound (0) to the best objective (1).
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    share: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share must be between 0 and 1, got {self.share}")

    def init(self, problem: Problem) -> LastWeight:
        """Return where the first search begins: at the weight of the regularizer."""
        return LastWeight(quadratic(problem.regularizer).lam)

    def propose(self, state: State, own: LastWeight) -> tuple[Candidate, LastWeight]:
        """Project the best point on the level set of the model."""
        bundle, accuracy = state.bundle, state.accuracy
        regularizer = quadratic(state.problem.regularizer)
        lam = regularizer.lam
        plain, bound = own.plain.solved(bundle, regularizer, accuracy)
        here = ProximalProblem(bundle, regularizer, state.best.w, accuracy)
        lower = max(plain.lower, state.lower)
        # After a line search there may be no plane that touches the risk at the best point. The
        # model is lower there than the risk, and must be taken as it is, or the best point may be
        # in the level set.
        height = self.share * (here.model_at_center + regularizer.value(state.best.w) - lower)

        def verdict(solution: ProximalSolution) -> int:
            if solution.value > lower + height:
                return -1
            return (
                1 if solution.value < lower + NEARLY * height and solution.mu < _MOST * lam else 0
            )

        solution = here.search(verdict, own.mu)
        return stabilized(solution, plain, state), LastWeight(solution.mu, bound)
