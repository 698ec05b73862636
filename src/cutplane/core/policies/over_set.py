"""Kelley's cutting planes: the planes alone, minimized over a ball or a box (papers 001, 003)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cutplane.core.method import Stabilizer
from cutplane.core.needs import SET, offers
from cutplane.core.policies.ball import lowest_in_ball
from cutplane.core.policies.box import lowest_in_box
from cutplane.core.state import Candidate, State


@dataclass(frozen=True, slots=True)
class OverSet(Stabilizer[float | None]):
    """No term is added; the regularizer is a ball or a box that ``w`` must not leave.

    Remembered is the multiplier of the last problem over a ball.
    """

    needs = (SET,)
    confined: ClassVar[bool] = True

    def propose(self, state: State, own: float | None) -> tuple[Candidate, float | None]:
        """Minimize the planes over the set."""
        if offers(state.problem.regularizer, "radius"):
            return lowest_in_ball(state, own)
        return lowest_in_box(state), own
