"""No stabilizer: the reduced problem as it is (BMRM, CRBM)."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.core.needs import as_flat
from cutplane.core.policies import Stabilizer
from cutplane.core.problem import Candidate
from cutplane.core.reduced.linear_program import propose_at_level
from cutplane.core.state import State


@dataclass(frozen=True, slots=True)
class NoStabilizer(Stabilizer):
    """The reduced problem as it is: ``min_w r(w) + max_i a_i.w + b_i``.

    With a regularizer that has no curvature its solutions jump about. Then the candidate is a point
    on the way to them, and how strongly it is held at the best point is remembered.
    """

    def propose(self, state: State, own: float | None) -> tuple[Candidate, float | None]:
        """Solve the reduced problem."""
        if flat := as_flat(state.problem.regularizer):
            return propose_at_level(flat, state, own)
        return state.bundle.minimize(state.problem, accuracy=state.accuracy), None
