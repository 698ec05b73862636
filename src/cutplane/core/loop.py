"""The loop: steps of the solver until the gap is closed (paper 000, Algorithm 1)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from cutplane.compute import pace
from cutplane.compute.arrays import BufferPool, reusing
from cutplane.compute.blocks import rounded_alike
from cutplane.compute.mapped import require_same
from cutplane.core import interrupts
from cutplane.core.certificate import Status
from cutplane.core.protocols import evaluated_again
from cutplane.core.solver import Step
from cutplane.core.state import Run, iterate
from cutplane.core.stationarity import is_tested, look_for_descent
from cutplane.core.stopping import StoppingRule

_log = logging.getLogger("cutplane")

Callback = Callable[[Run], object]


class Keeper(Protocol):
    """Keeps states in files, if it ``keeps`` any; between iterations it is ``whole``."""

    keeps: bool
    whole: bool

    def after_iteration(self) -> None:
        """Hear that an iteration has ended."""

    def write_if_due(self, state: Run) -> None:
        """Write the state if it is time."""


def descend(
    state: Run,
    rule: StoppingRule,
    clock: Callable[[Run], None],
    callbacks: Iterable[Callback],
    keeper: Keeper,
    check: Callable[[], None],
) -> tuple[Status, Run]:
    """Iterate until a rule says why to stop; return that, and the state as it is then.

    In the state that is returned, the objective is computed afresh from the data. The loop's own
    state stays as it is, so that a run can be resumed as if it had never ended.

    ``clock`` writes time and evaluations so far into the state. ``check`` raises KeyboardInterrupt
    if Ctrl-C was pressed. It is called between two iterations. Where no states are kept,
    steps that take long hear of both while they are taken, by the pace.
    """
    files = state.problem.facts.files
    with reusing(BufferPool()):
        while True:
            status = rounded_alike(rule(state))
            if status is Status.OPTIMAL and not state.convex:  # as far as the gap tells
                found_lower = leave(state, rule.tolerance(state), check)
                clock(state)
                if found_lower:
                    continue
            if status is not Status.RUNNING:
                final = recomputed(state)
                # Rounding can lift the recomputed objective just above the tolerance. Then go on.
                if status is not Status.OPTIMAL or rounded_alike(rule(final)) is not Status.RUNNING:
                    return status, final
            check()
            require_same(files)
            state.seconds_left, state.enough = rule.seconds_left(state), rule.tolerance(state)
            keeper.whole = False
            if keeper.keeps:  # what is resumed later is a run of whole steps
                iterate(state)
            else:
                try:
                    with pace.using(pace.Pace(state.seconds_left, interrupts.is_waiting)):
                        iterate(state)
                except pace.OutOfTime:  # nothing has come of this step
                    check()
                    clock(state)
                    continue
            keeper.whole = True
            if keeper.keeps:
                keeper.after_iteration()
            clock(state)
            state.history.append(state.record())
            _log.debug("%s", state.history[-1])
            with interrupts.at_once():
                # Every callback is called, whatever the first one says.
                state.stopped = any([bool(callback(state)) for callback in callbacks])  # noqa: C419
            require_same(files)  # before bounds that hold for no data are kept
            if keeper.keeps:
                keeper.write_if_due(state)


def leave(state: Run, tolerance: float, check: Callable[[], None]) -> bool:
    """Test the best point before it is called stationary; say whether a lower one was found.

    If it does not pass, its gap was small without reason, and nothing is known of it until the
    method has taken its next step, from the lower point.
    """
    if state.problem.quadratic is None or is_tested(state, tolerance):
        return False
    state.stationarity, lowest = look_for_descent(state, tolerance, check)
    before = state.best
    if state.keep_best([lowest]):
        state.method.cut(state, Step([], state.own, cut_at=[lowest]), before)
    if state.stationarity is None:
        state.lower = -math.inf
    return state.best is not before


def recomputed(state: Run) -> Run:
    """Return the state as it looks when the objective is computed afresh from the data.

    A point on a ray between two that satisfy bounds may leave these by rounding: then that is the
    objective of the point next to it that does not.
    """
    problem = state.problem
    best = evaluated_again(problem.risk, state.best, problem.regularizer)
    return replace(state, best=best, objective=problem.objective(best))
