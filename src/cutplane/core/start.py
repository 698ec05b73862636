"""Where a run begins: at a point, with the planes of an earlier run, or where that one ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cutplane.compute import pace
from cutplane.compute.arrays import Vector
from cutplane.core.bundle import Bundle
from cutplane.core.protocols import Exact, GroupedRisk, Plane, Point, Risk, drawn_inside
from cutplane.core.solver import AnySolver, Step
from cutplane.core.state import DISAGREEMENT, Problem, Run, sum_of


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
        bundle=Bundle(risk.n_parameters, regularizer, groups),
        best=best,
        objective=problem.objective(best),
        own=method.start(problem),
        convex=convex,
    )
    floors = _floors(risk, groups)
    bounded = min(floor.offset for floor in floors) > -np.inf
    if bounded:
        state.bundle.add(*floors)
        state.raise_lower_bound(problem.below(sum_of(floors)))
    if bounded and not method.takes_first_plane:
        state.require_finite(best, planes=())
        return state
    try:
        with pace.using(pace.Pace(seconds if bounded else np.inf)):
            state.require_finite(best)
            _cut_at_best(state)
    except pace.OutOfTime:  # the bound of the floors is all that there is
        pass
    return state


def _floors(risk: Risk, groups: int) -> list[Plane]:
    """Return the flat planes that the risk, or each of its groups, never goes below."""
    if groups == 1:
        return [Plane(np.zeros(risk.n_parameters), risk.lower_bound)]
    if not isinstance(risk, GroupedRisk):
        raise TypeError(
            f"{type(risk).__name__} has no method group_bounds(), which groups need; use groups=1"
        )
    bounds = risk.group_bounds(groups)
    return [Plane(np.zeros(risk.n_parameters), float(bound)) for bound in bounds]


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
    scale = abs(state.objective) + earlier.bundle.offset_scale
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
