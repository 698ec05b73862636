"""What is added to the reduced problem before it is solved.

Whatever it is, the lower bound is that of the original problem: `candidate_below` computes it from
planes and the original regularizer. Stabilizers are configuration; what they keep from one
iteration to the next is in ``state.stabilizer_memo``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from cutplane.core.protocols import Regularizer, as_flat, as_quadratic
from cutplane.core.reduced.linear_program import propose_at_level
from cutplane.core.reduced.newton import maximise_dual
from cutplane.core.reduced.proximal import accuracy_for
from cutplane.core.state import Candidate, State, candidate_below


class Stabilizer(Protocol):
    """Proposes where to look next, with a bound that no stabilization can invalidate."""

    def propose(self, regularizer: Any, state: State) -> Candidate:
        """Solve the reduced problem; each stabilizer says what it needs of the regularizer."""


@dataclass(frozen=True, slots=True)
class NoStabilizer:
    """The reduced problem as it is: ``min_w r(w) + max_i a_i.w + b_i`` (BMRM, CRBM)."""

    def propose(self, regularizer: Regularizer, state: State) -> Candidate:
        """Solve the reduced problem."""
        accuracy, bundle = accuracy_for(state), state.bundle
        if flat := as_flat(regularizer):
            return propose_at_level(flat, state, accuracy=accuracy)
        if quadratic := as_quadratic(regularizer):
            bundle.weigh(quadratic.lam, accuracy=accuracy)
        else:
            start = bundle.feasible_weights(regularizer)
            alpha = maximise_dual(regularizer, bundle.model(), start, accuracy=accuracy)
            bundle.set_weights(alpha)
        return candidate_below(bundle.aggregate(), regularizer)
