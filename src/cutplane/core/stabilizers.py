"""What is added to the reduced problem before it is solved.

Whatever it is, the lower bound is that of the original problem: `candidate_below` computes it from
planes and the original regularizer. Stabilizers are configuration; what they keep from one
iteration to the next is in ``state.stabilizer_memo``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutplane.core.near import accuracy_for
from cutplane.core.protocols import QuadraticRegularizer
from cutplane.core.state import Candidate, State, candidate_below


class Stabilizer(Protocol):
    """Proposes where to look next, with a bound that no stabilisation can invalidate."""

    def propose(self, regularizer: QuadraticRegularizer, state: State) -> Candidate:
        """Solve the reduced problem."""


@dataclass(frozen=True, slots=True)
class NoStabilizer:
    """The reduced problem as it is: ``min_w r(w) + max_i a_i.w + b_i`` (BMRM, CRBM)."""

    def propose(self, regularizer: QuadraticRegularizer, state: State) -> Candidate:
        """Solve the reduced problem."""
        state.bundle.weigh(regularizer.lam, accuracy=accuracy_for(state))
        return candidate_below(state.bundle.aggregate(), regularizer)
