"""The trust region: minimize ``r(w) + planes`` over ``|w - c| <= radius`` (paper 001).

The solution minimizes ``r(w) + planes + mu/2 |w - c|^2`` for some ``mu``. The center is the best
point so far, and the radius follows from the gap, so there is nothing to adapt, and a search for
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
    reach,
    stabilized,
)
from cutplane.core.state import State

# Smaller mu / lam are not felt.
_LEAST = 1e-3


@dataclass(frozen=True, slots=True)
class TrustRegion(Stabilizer):
    """Do not go far from the best point.

    Parameters
    ----------
    share : float
        The radius, as a share of the distance within which the optimum must be: ``J`` is strongly
        convex, so that is ``sqrt(2 gap / lam)``.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"the share must be above 0 and at most 1, got {self.share}")

    def init(self, problem: Problem) -> LastWeight:
        """Return where the first search begins: at the weight of the regularizer."""
        return LastWeight(quadratic(problem.regularizer).lam)

    def propose(self, state: State, own: LastWeight) -> tuple[Candidate, LastWeight]:
        """Minimize the model in the region."""
        bundle, accuracy = state.bundle, state.accuracy
        regularizer = quadratic(state.problem.regularizer)
        lam = regularizer.lam
        plain, bound = own.plain.solved(bundle, regularizer, accuracy)
        gap = state.objective - max(plain.lower, state.lower)
        radius = self.share * reach(regularizer, gap)

        def verdict(solution: ProximalSolution) -> int:
            if solution.distance > radius:
                return 1
            return -1 if solution.distance < NEARLY * radius and solution.mu > _LEAST * lam else 0

        solution = ProximalProblem(bundle, regularizer, state.best.w, accuracy).search(
            verdict, own.mu
        )
        return stabilized(solution, plain, state), LastWeight(solution.mu, bound)
