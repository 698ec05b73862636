"""The front door: minimize a regularized risk, and say what is proven about the result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from math import inf
from numbers import Real
from typing import Any, NamedTuple, cast

from cutplane.checkpoints.checkpoint import Checkpoint, NoKeeper, keeper, stored_method
from cutplane.checkpoints.store import CheckpointError
from cutplane.compute.arrays import ChangedData, Vector, require_same
from cutplane.compute.compiled import clock
from cutplane.compute.products import dot
from cutplane.core import interrupts
from cutplane.core.certificate import VANISHES, Certificate, Result, Status
from cutplane.core.loop import (
    AtOnce,
    Callback,
    Control,
    Refinement,
    Stopwatch,
    continued,
    descend,
    first_state,
    leave,
    recomputed,
    with_planes_of,
)
from cutplane.core.protocols import (
    FarRisk,
    InexactRisk,
    LibraryRisk,
    NonFiniteRisk,
    Regularizer,
    Risk,
)
from cutplane.core.solver import AnySolver, Solver
from cutplane.core.state import DISAGREEMENT, Problem, Run
from cutplane.core.stopping import FirstOf, Gap, Iterations, Seconds, StoppingRule, Trouble
from cutplane.regularizers.l2 import L2, Centered
from cutplane.report.progress import Progress
from cutplane.risks.composite import Function, FunctionRisk, as_risk
from cutplane.solvers.bundle import bmrm, nrbm

# A run aims at this share of the tolerance it promises, and settles for the whole when a limit
# comes first. Near the end the gap shrinks by a constant factor an iteration, so the last digit is
# cheap, and what the user gets is safely inside. Where the gap is no proof, nothing is promised.
_AIM = 0.25

# Endings after which more time would not help: what is left may be rounding.
_NO_MORE = (Status.STALLED, Status.ITERATION_LIMIT)

# The objective may come out differently when it is computed once more by this share of the terms
# that the risk is made of.
_ROUNDING = 1e-13


class Options(NamedTuple):
    """Where a run begins, and when it ends: see `minimize`."""

    tol: float
    max_iter: int | None
    time_limit: float | None
    stop: StoppingRule | None
    start: Vector | None
    resume: Run | None
    planes_from: Run | None


def minimize(
    risk: Risk | Function,
    regularizer: Regularizer,
    *,
    method: AnySolver | str | None = None,
    tol: float = 1e-3,
    max_iter: int | None = 1000,
    time_limit: float | None = None,
    stop: StoppingRule | None = None,
    start: Vector | None = None,
    resume: Run | None = None,
    planes_from: Run | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    verbose: int = 0,
) -> Result:
    """Minimize ``J(w) = regularizer(w) + risk(w)``, and bound how far from optimal the result is.

    Parameters
    ----------
    risk : Risk or callable
        The part of the objective that looks at data; or a function ``w -> (value, subgradient)``,
        whose number of parameters `start` or the regularizer tells. A method for convex risks
        takes it for convex, and the certificate says that this was assumed; one for risks that are
        not convex does not, and proves nothing. See `FunctionRisk` to say which it is.
    regularizer : Regularizer
        The part that is known by value and conjugate, such as ``cp.L2(1e-4)`` or ``cp.L1(1e-3)``.
    method : Solver or str, optional
        By default `bmrm` with its line search, or `nrbm` if the risk is not convex. A name such as
        "level" means what it means in the estimators: see docs/choose-a-method.md.
    tol : float
        The relative gap ``(J - lower bound) / |J|`` that is promised. The run aims at a quarter of
        it, and is ``optimal`` when the whole is reached. Of risks that are not convex nothing is
        promised, and the run ends at the whole.
    max_iter, time_limit : optional
        Stop after so many iterations, or seconds, with the best point so far and its gap.
    stop : StoppingRule, optional
        Takes the place of ``tol``, for example ``cp.Gap(absolute=1e-6)``, and is met as it is.
    start : ndarray, optional
        Where to evaluate first; zero by default.
    resume : Run, optional
        ``result.state`` of an earlier run on the same problem, to go on with. Another method is
        taken if it can use the planes; what the first one remembers besides, it does not know.
    planes_from : Run, optional
        ``result.state`` of an earlier run on the same convex risk, with any regularizer and any
        method. The run starts at its best point, with its planes: they lie below the risk, so they
        bound the new problem too. Iterations, evaluations and history start again. Planes that had
        no weight in the last 20 reduced problems stay behind. The duals of Newton's method come
        along. A risk with other data, targets, weights or loss is refused; to find that out, all
        of them are read once, unless it is the very same object.
    callbacks : iterable of callables
        Each is called with the `Run` after every iteration (its last record is
        ``state.history[-1]``, its best parameters ``state.best.w``); one that returns true ends
        the run.
    checkpoint : Checkpoint or path, optional
        A folder where the state of the run is kept, about once a minute. If there is one of the
        same problem and method, the run goes on from it, and gives the same bits as a run that was
        never stopped; `start`, `resume` and `planes_from` then say nothing. One of anything else is
        refused; of one that somebody else has written only the best point is taken, to begin at.
        With it, Ctrl-C waits for the end of an iteration.
    verbose : int, default=0
        Print the progress if positive.

    Returns
    -------
    Result
        The best point seen, with its certificate. Ctrl-C also ends here, with status
        ``interrupted``, once the first point has been evaluated. It is looked at between two steps
        of the loop; only functions of your own (a risk's, a model's, a callback) it leaves at once.

    Raises
    ------
    NonFiniteRisk
        If the risk or its subgradient is not finite where it must be.
    Exception
        Whatever the risk raises. Once the first point has been evaluated, its attribute ``result``
        is the `Result` up to there, with status ``failed``: the best point, its valid gap (from the
        value seen there, not recomputed), and a state to resume.
    KeyboardInterrupt
        At Ctrl-C before the first point has been evaluated, and at a second Ctrl-C before the run
        has ended. The latter has the attribute ``result`` too, with status ``interrupted``.
    """
    if sum(each is not None for each in (start, resume, planes_from)) > 1:
        raise ValueError("give one of start, resume and planes_from: each says where to begin")
    given: object = regularizer
    if isinstance(given, Real):
        raise TypeError(f"regularizer must be one, such as cp.L2({given}), got a number")
    if callable(callbacks) or not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a list of functions, got {callbacks!r}")
    if not isinstance(risk, LibraryRisk):
        risk = _users_risk(risk, regularizer, resume or planes_from, start)
    if method is None:
        method = nrbm() if risk.convex is False else bmrm()
    problem = Problem(risk, regularizer)
    if isinstance(method, str):
        method = method_named(method, problem)
    if not isinstance(method, Solver):
        raise TypeError(f"method must be a Solver such as cp.bmrm(), or a name, got {method!r}")
    convex = method.takes_for_convex(risk)
    method.require_suitable(problem)
    if isinstance(risk, FarRisk):
        options = Options(tol, max_iter, time_limit, stop, start, resume, planes_from)
        told_here = {"callbacks": callbacks, "checkpoint": checkpoint, "verbose": verbose}
        found: Result = risk.minimized(problem, method, options, **told_here)
        return found
    promise = stop or Gap(relative=tol)
    # Trouble comes first: a gap below zero is small enough, but no success.
    aim = stop or (Gap(relative=_AIM * tol) if convex else promise)

    limits: list[StoppingRule] = [] if max_iter is None else [Iterations(max_iter)]
    limits += [] if time_limit is None else [Seconds(time_limit)]
    rule = FirstOf([Trouble(), aim, *limits])
    for file in problem.facts.files:
        file.remember()
    progress = Progress(sys.stdout) if verbose else None
    watchers: list[Callback] = [*callbacks] if progress is None else [*callbacks, progress]
    with (
        progress or nullcontext(),
        keeper(checkpoint, problem, method) as kept,
        interrupts.running() as run,
    ):
        before = kept.state or (resume if kept.start is None else None)
        watch = Stopwatch(
            risk,
            begin=clock() - (before.seconds if before else 0.0),
            evaluations=risk.evaluations - (before.evaluations if before else 0),
        )
        if kept.state:
            state = kept.state
        elif kept.start is not None:
            try:
                state = first_state(problem, kept.start, method, convex=convex)
            except NonFiniteRisk as error:
                raise CheckpointError(f"{kept.folder}: its best point is none: {error}") from error
        elif resume:
            state = continued(resume, problem, method)
        elif planes_from:
            state = with_planes_of(planes_from, problem, method, convex=convex)
        else:
            seconds = inf if time_limit is None else time_limit
            state = first_state(problem, start, method, convex=convex, seconds=seconds)
        if kept.keeps:
            kept.after_iteration()  # the first state is whole, too
        rounded = risk if isinstance(risk, InexactRisk) and risk.rounded else None
        refinement = None
        control = Control(rule, watch, watchers, kept, run.check)
        try:
            status, final = descend(state, control)
            small = promise(final) is Status.OPTIMAL  # as far as the gap tells
            if small and status is Status.ITERATION_LIMIT and not state.convex:
                leave(state, promise.allows(state).gap, run.check)
                watch(state)
                final = recomputed(state)
            require_same(problem.facts.files)
            if kept.keeps:
                kept.write(state)
            run.check()  # in the last moment
            if rounded is not None:
                # It has come within the aim on rounded data. What was promised is enough now.
                refinement = Refinement(rounded, state)
                rule = FirstOf([Trouble(), promise, *limits])
                status, final = refinement.run(replace(control, rule=rule, keeper=NoKeeper()))
        except ChangedData as error:
            watch(state, alone=True)
            return _result(Status.INCONSISTENT, promise, state, state, changed=str(error))
        except BaseException as error:
            if kept.whole and interrupts.is_interrupt(error) and not run.insisted:
                kept.write(state)
            watch(state, alone=True)
            if not interrupts.is_interrupt(error):
                if isinstance(error, Exception):
                    # Of numbers that somebody writes at the same time anything may become.
                    if changed := change_of_data(problem):
                        return _result(Status.INCONSISTENT, promise, state, state, changed=changed)
                    attach(error, _result(Status.FAILED, promise, state, state))
                raise
            run.take()
            # Also for callers with more runs to come: the status is optimal if the gap is small.
            state.stopped = state.interrupted = True
            status = Status.INTERRUPTED
            try:
                if run.insisted:
                    raise KeyboardInterrupt
                if rounded is None:
                    final = recomputed(state)
                else:
                    refinement = refinement or Refinement(rounded, state)
                    at_once = Control(AtOnce(status), watch, (), NoKeeper(), run.check)
                    _, final = refinement.run(at_once)
            except KeyboardInterrupt as again:
                attach(again, _result(status, promise, state, state))
                raise
        if refinement is not None:
            state.stopped = state.stopped or refinement.state.stopped
        return _result(status, promise, final, state, refinement)


def resume(
    path: str | os.PathLike[str],
    problem: Problem | Risk | Function,
    regularizer: Regularizer | None = None,
    *,
    every: float | None = None,
    **options: Any,
) -> Result:
    """Go on with a run whose state is in files, as if it had never been stopped.

    Parameters
    ----------
    path : str or path
        The folder that was given to `minimize` as `checkpoint`. It is kept up to date.
    problem : Problem or Risk or callable
        The same problem: a risk and a regularizer, together or one after the other. One with other
        data, another loss or another regularizer is refused.
    regularizer : Regularizer, optional
        If the first is a risk.
    every : float, optional
        See `Checkpoint`.
    **options
        Those of `minimize`: ``tol``, ``max_iter`` and ``time_limit``, which count from the
        beginning of the first run, ``stop``, ``callbacks``. The method is that of the first run; it
        must be given, as ``method``, only if it is made of policies of your own.

    Returns
    -------
    Result
        See `minimize`.
    """
    if regularizer is None:
        if not isinstance(problem, Problem):
            raise TypeError("resume needs a problem, or a risk and a regularizer")
        regularizer, problem = problem.regularizer, problem.risk
    method = options.pop("method", None) or stored_method(path)
    checkpoint = Checkpoint(path, every)
    risk = cast(Risk | Function, problem)
    return minimize(risk, regularizer, method=method, checkpoint=checkpoint, **options)


def attach(error: BaseException, result: Result) -> None:
    """Give an error the result so far, and say so in its traceback."""
    error.result = result  # type: ignore[attr-defined]
    error.add_note(
        f"in iteration {result.iterations} of minimize; the best point so far, with objective "
        f"{result.objective:.8g}, is in the attribute result of this error"
    )


def method_named(name: str, problem: Problem) -> AnySolver:
    """Return the method that estimators know by this name."""
    if name == "auto":
        from cutplane.solvers.automatic import automatic

        return automatic(problem)
    from cutplane.solvers.registry import FOR_OTHERS, METHODS, STRUCTURED_METHODS

    known = METHODS | FOR_OTHERS | STRUCTURED_METHODS
    if name not in known:
        raise ValueError(f"unknown method {name!r}: known are {', '.join(known)}")
    return known[name](problem)


def _users_risk(
    given: Risk | Function, regularizer: Regularizer, earlier: Run | None, start: Vector | None
) -> Risk:
    """Return a risk of a user's as it is, and a function as a risk."""
    before = earlier.problem.risk if earlier else None
    if isinstance(before, FunctionRisk) and before.function == given:
        # The same function again is the same risk, whatever it counts or writes down.
        return before
    known = earlier.best.w if earlier else start
    if known is None and isinstance(regularizer, Centered):
        known = regularizer.center
    if known is None and isinstance(regularizer, L2):
        known = regularizer.weights
    return as_risk(given, known)


def change_of_data(problem: Problem, *, thorough: bool = False) -> str:
    """Return in one line which file has changed since the risk was made, or nothing."""
    changes = (file.change(thorough=thorough) for file in problem.facts.files)
    return next(filter(None, changes), "")


def _result(
    status: Status,
    promise: StoppingRule,
    final: Run,
    state: Run,
    refinement: Refinement | None = None,
    changed: str = "",
) -> Result:
    risk, last = state.problem.risk, state if refinement is None else refinement.state
    # What an error, or a second Ctrl-C, leaves of a run on rounded data proves nothing.
    rounded = isinstance(risk, InexactRisk) and risk.rounded
    exact = refinement is not None or not rounded
    changed = changed or change_of_data(state.problem, thorough=True)
    consistent = not (changed or status is Status.INCONSISTENT or final.contradictory)
    difference = abs(final.objective - last.objective)
    if consistent and difference > DISAGREEMENT * abs(final.objective):
        # Where the risk all but vanishes, as where a model fits its targets exactly, all that is
        # left of its terms may be rounding. The plane there tells how large they are, unless
        # its slope vanishes too, and by the risk.
        plane, terms = final.best.plane(), last.problem.facts.term_size
        terms += abs(plane.offset) + abs(dot(plane.slope, final.best.w))
        consistent = difference <= _ROUNDING * terms
    reason = state.problem.facts.unproven
    if not consistent:
        status = Status.INCONSISTENT
    elif status is not Status.FAILED and exact and promise(final) is Status.OPTIMAL:
        if state.convex:
            status = Status.OPTIMAL
        elif state.stationarity is not None or status is Status.OPTIMAL:
            status = Status.STATIONARY
        # Else a limit, or Ctrl-C, came before the point was tested.
    elif state.convex and status in _NO_MORE and promise.met(final):
        status, reason = Status.OPTIMAL, VANISHES
    certificate = Certificate(
        objective=final.objective,
        lower_bound=min(final.lower, final.objective) if consistent else final.lower,
        status=status,
        valid=state.convex and consistent and exact,
        reason=changed
        or (
            "if the risk is convex, as was assumed"
            if risk.convex is None and state.convex and consistent
            else reason
        ),
    )
    return Result(final.best.w, final.best, certificate, last.history, state)
