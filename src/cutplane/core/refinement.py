"""The end of a run on a risk that rounds: one on a risk that does not.

A risk may keep its data with less precision than models are used with (a kernel matrix in float32).
What a run on it finds is then only a beginning: bounds are computed afresh without the rounding,
and if they do not meet, the run goes on there, with the same method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from cutplane.compute import pace
from cutplane.core.certificate import Status
from cutplane.core.loop import Callback, Keeper, descend
from cutplane.core.protocols import Exact, Plane, Point, RoundedRisk
from cutplane.core.start import begun_exactly
from cutplane.core.state import Run
from cutplane.core.stopping import StoppingRule


@dataclass(frozen=True, slots=True)
class AtOnce(StoppingRule):
    """Stop without an iteration, for a reason that is known."""

    reason: Status

    def __call__(self, state: Run) -> Status:
        """Return the reason."""
        return self.reason


class Refinement:
    """A run on a risk that rounds, from where it ended on.

    Parameters
    ----------
    risk : RoundedRisk
    state : Run
        Where the run on it ended. It is left as it is, so that it can be resumed.

    Attributes
    ----------
    state : Run
        The state of the exact run.
    """

    def __init__(self, risk: RoundedRisk, state: Run) -> None:
        self._risk, self._rounded = risk, state
        self._exact: Exact | None = None
        self._lower = -np.inf
        self.state = state

    def run(
        self,
        rule: StoppingRule,
        clock: Callable[[Run], None],
        callbacks: Iterable[Callback],
        keeper: Keeper,
        check: Callable[[], None],
    ) -> tuple[Status, Run]:
        """Go on until a rule says why to stop; return that, and the state in terms of the risk."""
        told = [self._in_terms_of_the_risk(callback) for callback in callbacks]
        while True:
            if self._exact is not None:
                self._lower = max(self._lower, self.state.lower)
            with pace.using(pace.Pace(rule.seconds_left(self.state))):
                exact = self._risk.exact_at(self._point(self.state), self._plane(), self._exact)
            self._lower = max(self._lower, self._rounded.problem.below(exact.plane).lower)
            state = begun_exactly(exact, self.state, self._lower)
            self._exact, self.state = exact, state
            clock(state)
            status, final = descend(state, rule, clock, told, keeper, check)
            point = exact.back(final.best)
            if not exact.misses(point):
                problem = self._rounded.problem
                return status, replace(final, problem=problem, best=point)

    def _point(self, state: Run) -> Point:
        """Return the best point as one of the risk that rounds."""
        return state.best if self._exact is None else self._exact.back(state.best)

    def _plane(self) -> Plane:
        """Return a plane of the risk that rounds that gives about the best bound."""
        if self._exact is not None:
            return self._exact.plane
        bundle = self._rounded.bundle.copied()
        bundle.minimize(self._rounded.problem, accuracy=self._rounded.accuracy)
        return bundle.aggregate()

    def _in_terms_of_the_risk(self, callback: Callback) -> Callback:
        def called(state: Run) -> object:
            return callback(replace(state, problem=self._rounded.problem, best=self._point(state)))

        return called
