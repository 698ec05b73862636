"""What is added to the reduced problem before it is solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutplane.core.protocols import QuadraticRegularizer
from cutplane.core.state import Candidate, State, candidate_below

# The reduced problem is solved to this share of the current gap: tighter would not show in the
# next plane, and the bound holds for any accuracy.
_SHARE_OF_GAP = 1e-3


class Stabilizer(Protocol):
    """Proposes where to look next, with a bound that no stabilisation can invalidate."""

    def propose(self, regularizer: QuadraticRegularizer, state: State) -> Candidate:
        """Solve the reduced problem."""


@dataclass(frozen=True, slots=True)
class NoStabilizer:
    """The reduced problem as it is: ``min_w r(w) + max_i a_i.w + b_i`` (BMRM, CRBM)."""

    def propose(self, regularizer: QuadraticRegularizer, state: State) -> Candidate:
        """Solve the reduced problem."""
        # Before the first bound the gap is infinite; any accuracy will do, so ask for an exact one.
        accuracy = _SHARE_OF_GAP * state.gap if state.gap < float("inf") else 0.0
        state.bundle.weigh(regularizer.lam, accuracy=max(accuracy, 0.0))
        return candidate_below(state.bundle.aggregate(), regularizer)
