"""The loop, from where a run begins to its end: steps of the solver until the gap is closed.

A run begins at a point, with the planes of an earlier run, or where that one ended. Then steps are
taken until a rule says why to stop (`descend`; paper 000, Algorithm 1).

A risk may keep its data with less precision than models are used with (a kernel matrix in float32).
What a run on it finds is then only a beginning: bounds are computed afresh without the rounding,
and if they do not meet, the run goes on there, with the same method (`Refinement`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cutplane.compute import pace
from cutplane.compute.arrays import BufferPool, Vector, require_same, reusing
from cutplane.compute.blocks import agreed, rounded_alike
from cutplane.compute.compiled import clock
from cutplane.core import interrupts
from cutplane.core.bundle import Bundle
from cutplane.core.certificate import Status
from cutplane.core.protocols import (
    Confined,
    Exact,
    GroupedRisk,
    InexactRisk,
    Plane,
    Point,
    Regularizer,
    Risk,
)
from cutplane.core.solver import AnySolver, Step
from cutplane.core.state import DISAGREEMENT, Problem, Run, iterate
from cutplane.core.stationarity import look_for_descent
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


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Adds time and evaluations of a run to those of the one that it resumes.

    Attributes
    ----------
    risk : Risk
        Counts its evaluations.
    begin : float
        When the run would have begun, had there been no break.
    evaluations : int
        How many there were that do not belong to the run.
    """

    risk: Risk
    begin: float
    evaluations: int

    def __call__(self, state: Run, *, alone: bool = False) -> None:
        """Write both into a state; of several workers, the seconds of the first."""
        seconds = clock() - self.begin
        state.seconds = seconds if alone else agreed(seconds)
        state.evaluations = self.risk.evaluations - self.evaluations


@dataclass(frozen=True, slots=True)
class Control:
    """How a run is watched and stopped between two steps.

    Attributes
    ----------
    rule : StoppingRule
        Says when to stop, and why.
    watch : Stopwatch
        Writes time and evaluations so far into the state.
    callbacks : sequence of callables
        Those of the user.
    keeper : Keeper
    check : callable
        Raises KeyboardInterrupt if Ctrl-C was pressed.
    """

    rule: StoppingRule
    watch: Stopwatch
    callbacks: Sequence[Callback]
    keeper: Keeper
    check: Callable[[], None]


def first_state(
    problem: Problem,
    start: Vector | None,
    method: AnySolver,
    *,
    convex: bool,
    known: Point | None = None,
    seconds: float = np.inf,
) -> Run:
    """Return the state of a run that begins at a point, zero by default.

    ``known`` is a point of the same risk there, if there is one. The first plane is left out if it
    takes more than so many ``seconds``, and the risk has a bound.
    """
    risk, regularizer = problem.risk, problem.regularizer
    w = np.zeros(risk.n_parameters) if start is None else np.array(start, dtype=np.float64)
    if w.shape != (risk.n_parameters,):
        raise ValueError(f"start has shape {w.shape}, the risk has {risk.n_parameters} parameters")
    if not np.isfinite(regularizer.value(w)):
        if start is not None:
            raise ValueError(f"{regularizer!r} does not allow the start: its value is infinite")
        w = regularizer.conjugate(w)[1]  # the conjugate at zero is attained at the minimum
    best = None
    if known is not None and (w := drawn_inside(regularizer, known.w)) is known.w:
        best = problem.facts.evaluate_again(known)
    best = best or method.first(problem, w)
    groups = problem.facts.good_groups if method.groups is None else method.groups
    state = Run(
        problem=problem,
        method=method,
        best=best,
        objective=problem.objective(best),
        bundle=Bundle(risk.n_parameters, regularizer, groups),
        own=method.start(problem),  # after the first evaluation, which takes memory of its own
        convex=convex,
    )
    if groups == 1:
        bounds = [risk.lower_bound]
    elif isinstance(risk, GroupedRisk):
        bounds = [float(bound) for bound in risk.group_bounds(groups)]
    else:
        raise TypeError(
            f"{type(risk).__name__} has no method group_bounds(), which groups need; use groups=1"
        )
    bounded = min(bounds) > -np.inf
    if bounded:  # flat planes, which the risk, or each of its groups, never goes below
        flat = np.zeros(risk.n_parameters)
        state.bundle.add(*(Plane(flat, bound) for bound in bounds))
        state.raise_lower_bound(problem.below(Plane(flat, sum(bounds))))
    if bounded and not method.takes_first_plane:
        state.require_finite(best, planes=())
        return state
    try:
        with pace.using(seconds if bounded else np.inf):
            state.require_finite(best)
            _cut_at_best(state)
    except pace.OutOfTime:  # the bound of the floors is all that there is
        pass
    return state


def _cut_at_best(state: Run) -> None:
    """Add the planes of the best point, the only one so far.

    The bound waits for the first step: every run takes one, even from within the tolerance, so
    that a model of zeros is an answer that was looked for.
    """
    lower = state.lower
    state.method.cut(state, Step([state.best], state.own, cut_at=[state.best]), state.best)
    state.lower = lower


def begun_again(earlier: Run, problem: Problem, method: AnySolver) -> Run:
    """Return a state that goes on from the best point and the planes of a run.

    What the solver remembered besides is forgotten, and so are the scores of the best point: after
    the loss of a worker nobody has all of them.
    """
    convex = earlier.convex
    state = first_state(problem, earlier.best.w, method, convex=convex)
    if convex:
        bundle = earlier.bundle
        if bundle.n_planes and bundle.n_groups == state.bundle.n_groups:
            floor = max(bundle.floor, state.bundle.floor)
            state.bundle, metric = bundle.copied(), state.bundle.metric
            state.bundle.metric, state.bundle.floor = metric, floor
            if method.takes_first_plane:
                _cut_at_best(state)
        state.lower = max(state.lower, earlier.lower)
    state.iteration, state.seconds = earlier.iteration, earlier.seconds
    state.evaluations = earlier.evaluations + 1
    state.history = list(earlier.history)
    return state


def begun_exactly(exact: Exact, earlier: Run, lower: float) -> Run:
    """Return the first state on an exact risk, of a run that has come to where that begins.

    ``lower`` is a bound of the objective with the risk that it stands for.
    """
    problem, method = Problem(exact.risk, earlier.problem.regularizer), earlier.method
    best = exact.risk.at(exact.start)
    state = Run(
        problem=problem,
        method=method,
        bundle=Bundle(exact.risk.n_parameters, problem.regularizer),
        best=best,
        objective=problem.objective(best),
        own=method.start(problem),
        lower=lower,
        iteration=earlier.iteration,
        stopped=earlier.stopped,
        history=list(earlier.history),
    )
    floor = Plane(np.zeros(exact.risk.n_parameters), exact.risk.lower_bound)
    if floor.offset > -np.inf:
        state.bundle.add(floor)
    if exact.has_plane:
        state.bundle.add(exact.plane)
    elif method.takes_first_plane:
        _cut_at_best(state)
    return state


def with_planes_of(earlier: Run, problem: Problem, method: AnySolver, *, convex: bool) -> Run:
    """Return the first state of a run that knows the planes of an earlier one on the same risk."""
    risk, regularizer = problem.risk, problem.regularizer
    if not (convex and earlier.convex):
        raise ValueError(
            "planes of a risk that is not convex hold near one point and for one regularizer only; "
            "give start=result.w in place of planes_from"
        )
    n_parameters = earlier.bundle.n_parameters
    if n_parameters != risk.n_parameters:
        raise ValueError(
            f"planes_from has planes of {n_parameters} parameters, the risk has "
            f"{risk.n_parameters}: they are of another risk"
        )
    problem.require_risk_of(earlier.problem, "planes_from")
    start = earlier.best.w if np.isfinite(regularizer.value(earlier.best.w)) else None
    known = None if start is None else earlier.best
    state = first_state(problem, start, method, convex=convex, known=known)
    # Only rounding may have changed, which counts beside the terms that values are made of.
    scale = abs(state.objective) + earlier.offset_scale
    change = abs(state.best.value - earlier.best.value)
    if start is not None and change > DISAGREEMENT * scale:
        raise ValueError(
            f"at the best point of planes_from the risk was {earlier.best.value:.8g} and is now "
            f"{state.best.value:.8g}: its data have changed, and the old bounds do not hold"
        )
    bundle = earlier.bundle
    if type(method) is type(earlier.method):
        state.own = method.carried_over(earlier.own, state)
    state.test_model(bundle)
    if bundle.n_groups == state.bundle.n_groups:
        state.bundle = bundle.carried_over(regularizer)
        _cut_at_best(state)
        return state
    # Planes of other groups cannot be used one by one. All together they are a plane.
    together = bundle.aggregate()
    state.raise_lower_bound(problem.below(together))
    if state.bundle.n_groups == 1:
        state.bundle.add(together)
    return state


def continued(earlier: Run, problem: Problem, method: AnySolver) -> Run:
    """Return a state to go on with that shares nothing mutable with the earlier run's."""
    problem.require_risk_of(earlier.problem, "resume")
    problem.require_regularizer_of(earlier.problem)
    before, n_groups = earlier.method, earlier.bundle.n_groups
    if method.groups not in (None, n_groups):
        raise ValueError(
            f"resume is of a run with planes of {n_groups} groups, and the method asks for "
            f"{method.groups}; give planes_from= in place of it"
        )
    if not earlier.convex and method.cut_kind != before.cut_kind:
        raise ValueError(
            f"resume is of a run with planes of {before.cut_kind}, which mean nothing "
            f"to {method.cut_kind}; give start=, with its w, in place of it"
        )
    return replace(
        earlier,
        problem=problem,
        method=method,
        bundle=earlier.bundle.copied(),
        own=method.resumed(earlier, problem),
        history=list(earlier.history),
        stopped=False,
        interrupted=False,
    )


def descend(state: Run, control: Control) -> tuple[Status, Run]:
    """Iterate until a rule says why to stop; return that, and the state as it is then.

    In the state that is returned, the objective is computed afresh from the data. The loop's own
    state stays as it is, so that a run can be resumed as if it had never ended.

    Time and Ctrl-C are looked at between two iterations. Where no states are kept, steps that take
    long hear of both while they are taken, by the pace.
    """
    rule, watch, keeper, check = control.rule, control.watch, control.keeper, control.check
    files = state.problem.facts.files
    watch(state)
    with reusing(BufferPool()):
        while True:
            status, allowed = rule(state), rule.allows(state)
            status = rounded_alike(status)
            if status is Status.OPTIMAL and not state.convex:  # as far as the gap tells
                found_lower = leave(state, allowed.gap, check)
                watch(state)
                if found_lower:
                    continue
            if status is not Status.RUNNING:
                final = recomputed(state)
                # Rounding can lift the recomputed objective just above the tolerance. Then go on.
                if status is not Status.OPTIMAL or rounded_alike(rule(final)) is not Status.RUNNING:
                    return status, final
            check()
            require_same(files)
            state.seconds_left, state.enough = allowed
            keeper.whole = False
            if keeper.keeps:  # what is resumed later is a run of whole steps
                iterate(state)
            else:
                try:
                    with pace.using(state.seconds_left, interrupts.is_waiting):
                        iterate(state)
                except pace.OutOfTime:  # nothing has come of this step
                    check()
                    watch(state)
                    continue
            keeper.whole = True
            if keeper.keeps:
                keeper.after_iteration()
            watch(state)
            state.history.append(state.record())
            _log.debug("%s", state.history[-1])
            if control.callbacks:
                with interrupts.at_once():
                    # Every callback is called, whatever the first one says.
                    state.stopped = any([bool(each(state)) for each in control.callbacks])  # noqa: C419
            require_same(files)  # before bounds that hold for no data are kept
            if keeper.keeps:
                keeper.write_if_due(state)


def leave(state: Run, tolerance: float, check: Callable[[], None]) -> bool:
    """Test the best point before it is called stationary; say whether a lower one was found.

    If it does not pass, its gap was small without reason, and nothing is known of it until the
    method has taken its next step, from the lower point.
    """
    tested = state.stationarity
    if state.problem.quadratic is None or (tested and tested.tolerance <= 2.0 * tolerance):
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
    problem, point = state.problem, state.best
    w = drawn_inside(problem.regularizer, point.w)
    again = problem.facts.evaluate_again(point) if w is point.w else None
    best = again or problem.evaluated_once(w)
    return replace(state, best=best, objective=problem.objective(best))


def drawn_inside(regularizer: Regularizer, w: Vector) -> Vector:
    """Return ``w``, or the point next to it where a regularizer is finite, if it knows that."""
    return regularizer.inside(w) if isinstance(regularizer, Confined) else w


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
    risk : InexactRisk
        One that is ``rounded``.
    state : Run
        Where the run on it ended. It is left as it is, so that it can be resumed.

    Attributes
    ----------
    state : Run
        The state of the exact run.
    """

    def __init__(self, risk: InexactRisk, state: Run) -> None:
        self._risk, self._rounded = risk, state
        self._exact: Exact | None = None
        self._lower = -np.inf
        self.state = state

    def run(self, control: Control) -> tuple[Status, Run]:
        """Go on until a rule says why to stop; return that, and the state in terms of the risk."""
        watchers = [self._in_terms_of_the_risk(callback) for callback in control.callbacks]
        control = replace(control, callbacks=watchers)
        while True:
            if self._exact is not None:
                self._lower = max(self._lower, self.state.lower)
            with pace.using(control.rule.allows(self.state).seconds):
                exact = self._risk.exact_at(self._point(self.state), self._plane(), self._exact)
            self._lower = max(self._lower, self._rounded.problem.below(exact.plane).lower)
            state = begun_exactly(exact, self.state, self._lower)
            self._exact, self.state = exact, state
            status, final = descend(state, control)
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
