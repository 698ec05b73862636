"""What is added to the reduced problem before it is solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from cutplane.core.level import propose_at_level
from cutplane.core.protocols import Regularizer, as_flat, as_quadratic
from cutplane.core.reduced_problem import maximise_dual
from cutplane.core.state import Candidate, State, candidate_below

# The reduced problem is solved to this share of the current gap: tighter would not show in the
# next plane, and the bound holds for any accuracy.
_SHARE_OF_GAP = 1e-3


class Stabilizer(Protocol):
    """Proposes where to look next, with a bound that no stabilisation can invalidate."""

    def propose(self, regularizer: Any, state: State) -> Candidate:
        """Solve the reduced problem; each stabilizer says what it needs of the regularizer."""


@dataclass(frozen=True, slots=True)
class NoStabilizer:
    """The reduced problem as it is: ``min_w r(w) + max_i a_i.w + b_i`` (BMRM, CRBM)."""

    def propose(self, regularizer: Regularizer, state: State) -> Candidate:
        """Solve the reduced problem."""
        # Before the first bound the gap is infinite; any accuracy will do, so ask for an exact one.
        accuracy = _SHARE_OF_GAP * state.gap if state.gap < float("inf") else 0.0
        accuracy = max(accuracy, 0.0)
        bundle = state.bundle
        if flat := as_flat(regularizer):
            return propose_at_level(flat, state, accuracy=accuracy)
        if quadratic := as_quadratic(regularizer):
            bundle.weigh(quadratic.lam, accuracy=accuracy)
        else:
            start = bundle.feasible_weights(regularizer)
            alpha = maximise_dual(regularizer, bundle.model(), start, accuracy=accuracy)
            bundle.set_weights(alpha)
        return candidate_below(bundle.aggregate(), regularizer)
