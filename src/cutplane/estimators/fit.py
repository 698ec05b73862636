"""One fit for every estimator: from a plan to the fitted attributes.

    estimator -> description -> Problem -> AnySolver -> loop -> Result -> fitted attributes

An estimator validates its data and says what is to be minimized: a `Plan`. What follows is the same
for all of them, and stands here: the method, limits of time and their shares, threads, callbacks,
progress, Ctrl-C, warnings, and the attributes that every fit leaves.

After Ctrl-C a fit on its own returns the best model so far, with a warning. Where scikit-learn or
joblib calls it, as a part of a search, a cross-validation or an ensemble, that would be half a fit
that counts as a whole one, and the search would go on. There KeyboardInterrupt is raised, and the
first Ctrl-C ends it all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from threading import Event
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.checkpoints.checkpoint import part_of
from cutplane.compute.arrays import ChangedData, Matrix, Vector
from cutplane.compute.compiled import clock
from cutplane.compute.threads import default_threads, thread_limit
from cutplane.core import interrupts
from cutplane.core.certificate import Certificate, Record, Result, Status
from cutplane.core.interrupts import held, interrupted_so_far
from cutplane.core.protocols import LibraryPoint, Point, Regularizer
from cutplane.core.solver import AnySolver, Solver
from cutplane.core.state import Problem, State
from cutplane.estimators.callbacks import Attributes, FitContext, with_callbacks, with_models
from cutplane.estimators.cautions import (
    ConstantModelWarning,
    LabelOrderWarning,
    warn,
    warn_unless_successful,
)
from cutplane.estimators.description import look_up, threads_of
from cutplane.estimators.lams import CrossValidation
from cutplane.report.progress import Progress
from cutplane.risks import ScoredRisk
from cutplane.solvers.automatic import automatic
from cutplane.solvers.minimize import minimize
from cutplane.solvers.registry import METHODS

T = TypeVar("T")


@dataclass(frozen=True)
class Examples:
    """The data of a fit, validated.

    Attributes
    ----------
    X, y
        As scikit-learn's callbacks are to see them.
    weights : ndarray of shape (n_examples,)
    metadata : dict
        What was given besides, for the callbacks too.
    begin : float
        When the fit began, for its limit of time.
    """

    X: Any
    y: Any
    weights: Vector
    metadata: dict[str, Any]
    begin: float = field(default_factory=clock)


class ScaledRegularizer(Regularizer, Protocol):
    """A regularizer with a strength."""

    lam: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be fitted, settled before the first iteration.

    Attributes
    ----------
    examples : Examples
    risks : sequence of risks
        One, or one for each class or label that is fitted by itself.
    regularizer : regularizer
    model : callable
        From coefficients, a row for each problem, and intercepts to the fitted attributes. It gives
        the best model so far, too, while a fit is running.
    intercept_shape : tuple or None
        Of a problem's intercepts; None if points have none.
    starts : sequence of vectors, or None
        Where to start each problem.
    more_starts : sequence of sequences of vectors
        Further starts of each problem, of which the best result is kept; none for all if empty.
    start_certificates : sequence of Certificate
        Of the convex fits that gave the first start of each problem.
    evaluations, certificates
        Of what was fitted to arrive at this plan.
    doubt : str or None
        What was guessed of labels that are words, if it matters.
    look : callable
        From a risk and its result to what `symptom` needs to know of it: results themselves are
        not kept, their planes would fill the memory.
    symptom : callable
        From what was seen of each problem, and the last result, to the way in which the model is
        constant; None if it is not. Asked only of fits that succeeded.
    could_vary : callable
        Says whether the data ask for another model than a constant one.
    advice : str
        What to try if the model is constant.
    part : str
        The folder of this plan inside that of the checkpoint, if other fits come before.
    """

    examples: Examples
    risks: Sequence[Any]
    regularizer: ScaledRegularizer
    model: Callable[[Matrix, NDArray[np.float64]], Attributes]
    intercept_shape: tuple[int, ...] | None = None
    starts: Sequence[Vector | None] | None = None
    more_starts: Sequence[Sequence[Vector]] = ()
    start_certificates: Sequence[Certificate] = ()
    evaluations: int = 0
    certificates: Sequence[Certificate] = ()
    doubt: str | None = None
    look: Callable[[Any, Result], Any] = lambda risk, result: None
    symptom: Callable[[Sequence[Any], Result], str | None] = lambda seen, result: None
    could_vary: Callable[[], bool] = lambda: True
    advice: str = "try a smaller lam"
    part: str = ""


def fit_plan(estimator: Any, plan: Plan) -> None:
    """Minimize each problem, set the fitted attributes, and warn of what may not be meant."""
    if plan.doubt:
        warn(plan.doubt, LabelOrderWarning)
    risks, begin = plan.risks, plan.examples.begin
    several = len(risks) > 1
    # The best of each problem so far; zero at first.
    coef = np.zeros((len(risks), risks[0].n_parameters))
    intercept = np.zeros((len(risks), *(plan.intercept_shape or ())))

    def made_of(point: Point, k: int) -> Attributes:
        coef[k] = point.w
        if plan.intercept_shape is not None:
            assert isinstance(point, LibraryPoint)
            intercept[k] = point.intercept
        return plan.model(coef.copy(), intercept.copy())

    def best_so_far(k: int) -> Callable[[State], Attributes]:
        return lambda state: made_of(state.best, k)

    context, watchers = None, list[Callable[[State], object]]()
    if getattr(estimator, "_skl_callbacks", None):
        n_tasks = len(risks) if several else estimator.max_iter
        context = FitContext.of_fit(estimator, plan.examples, max_subtasks=n_tasks)
    if estimator.callbacks:
        lam = plan.regularizer.lam
        watchers += with_models(estimator, best_so_far(0), lam, several=several)
    progress = [Progress(sys.stdout)] if estimator.verbose else []
    methods, certificates, seen = list[str](), list[Certificate](), list[Any]()
    histories, evaluations = list[list[Record]](), plan.evaluations
    reached = list[Vector]()
    with ExitStack() as stack:
        ahead = None
        if several and (n_threads := problems_at_once(estimator, risks)) > 1:
            alone = partial(_alone, estimator, plan)
            ahead = stack.enter_context(SideBySide(alone, len(risks), n_threads))
        for k, risk in enumerate(risks):
            task, interrupted = context, False
            if several:
                if context is not None:
                    task = context.subtask("one_vs_rest", max_subtasks=estimator.max_iter)
                _name_part(estimator, k, len(risks), [*estimator.callbacks, *progress])
            try:
                if ahead is not None:
                    found = [ahead.result(k)]
                else:
                    watching: list[Callable[[State], object]] = [*watchers, *progress]
                    if task is not None:
                        watching.append(task.iterations(best_so_far(k)))
                    found, interrupted = _found(estimator, plan, k, watching)
            except ChangedData as error:
                if not (several or plan.start_certificates):
                    raise  # before anything was fitted
                methods.append(methods[-1] if methods else "none")
                certificates.append(certificate_of_zero(risk, error))
                histories.append([])
                reached.append(np.array([certificates[-1].objective]))
                seen.append(None)
                model = plan.model(coef.copy(), intercept.copy())
                continue
            result = min(found, key=lambda each: each.certificate.objective)
            certificate = result.certificate
            if interrupted:
                certificate = replace(certificate, status=Status.INTERRUPTED)
            methods.append(result.state.method.name)
            certificates.append(certificate)
            histories.append(result.history)
            reached.append(np.array([each.certificate.objective for each in found]))
            evaluations += sum(each.state.evaluations for each in found)
            seen.append(plan.look(risk, result))
            model = made_of(result.point, k)
            if several and task is not None:
                task.end(model)
    for display in progress:
        display.finish()

    n_iter = [len(history) for history in histories]
    estimator.__dict__.update(
        model,
        lam_=plan.regularizer.lam,
        method_=_one_or_all(methods),
        certificate_=_one_or_all(certificates),
        history_=_one_or_all(histories),
        n_iter_=np.array(n_iter) if several else n_iter[0],
        evaluations_=evaluations,
        fit_seconds_=clock() - begin,
    )
    for name in ("start_certificate_", "start_objectives_"):  # of an earlier fit
        estimator.__dict__.pop(name, None)
    if plan.start_certificates:
        estimator.start_certificate_ = _one_or_all([*plan.start_certificates])
        estimator.start_objectives_ = _one_or_all(reached)
    if context is not None:
        context.end(model)
    name = type(estimator).__name__
    before = [*plan.certificates, *plan.start_certificates]
    warn_unless_successful(name, estimator.tol, [*before, *certificates], plan.examples.X)
    # Of a fit that did not succeed the warning says enough.
    if all(certificate.status.success for certificate in certificates):
        symptom = plan.symptom(seen, result)
        if symptom and plan.could_vary():
            warn(f"{name}: {symptom}; {plan.advice}", ConstantModelWarning)


def certificate_of_zero(risk: ScoredRisk, error: ChangedData) -> Certificate:
    """Return what is known of a problem whose data have changed before it was begun.

    Its model stays zero. What that costs is known from the targets, of which there are copies.
    """
    cost = risk.loss.value(risk.y, np.zeros(len(risk.y)), risk.weights)
    return Certificate(cost, risk.lower_bound, Status.INCONSISTENT, False, str(error))


def _found(
    estimator: Any,
    plan: Plan,
    k: int,
    callbacks: Sequence[Callable[[State], object]],
    n_threads: int | None = None,
) -> tuple[list[Result], bool]:
    """Minimize a problem from each of its starts; say also whether Ctrl-C came before the end."""
    problem = Problem(plan.risks[k], plan.regularizer)
    n_problems = len(plan.risks)
    starts = [None if plan.starts is None else plan.starts[k]]
    starts += plan.more_starts[k] if plan.more_starts else []
    folder = os.path.join(plan.part, f"problem-{k}" if n_problems > 1 else "")
    # After Ctrl-C each problem that is left gets one iteration: a model, a bound.
    interrupted = (k > 0 or bool(plan.start_certificates)) and interrupted_so_far()
    found = list[Result]()
    for s, start in enumerate(starts):
        limit = estimator.time_limit
        if limit is not None:
            n_left = (n_problems - k) * len(starts) - s
            limit = share_of_time(limit, plan.examples.begin, n_left)
        found.append(
            solve(
                estimator,
                problem,
                max_iter=1 if interrupted else estimator.max_iter,
                time_limit=limit,
                start=start,
                callbacks=callbacks,
                part=os.path.join(folder, f"start-{s}" if len(starts) > 1 else ""),
                n_threads=n_threads,
            )
        )
        last = found[-1]
        interrupted = interrupted or (s > 0 and last.state.interrupted)
        # There is a model, and no wish for a better one; or data that are no longer the same.
        if last.state.stopped or last.certificate.status is Status.INCONSISTENT:
            break
    return found, interrupted


def _alone(estimator: Any, plan: Plan, k: int, callback: Callable[[State], bool]) -> Result:
    """Minimize a convex problem in one thread, beside others."""
    (result,), _ = _found(estimator, plan, k, [callback], n_threads=1)
    return result


def _name_part(estimator: Any, k: int, n_parts: int, displays: Sequence[Any]) -> None:
    """Tell displays of the progress which class or label comes next."""
    labels = getattr(estimator, "classes_", ())
    named = f"class {labels[k]!s}" if len(labels) == n_parts else "problem"
    for display in displays:
        if isinstance(display, Progress):
            display.begin(f"{named} ({k + 1} of {n_parts})")


def solve(
    estimator: Any,
    problem: Problem,
    method: AnySolver | None = None,
    *,
    max_iter: int | None,
    time_limit: float | None,
    start: Vector | None = None,
    planes_from: State | None = None,
    callbacks: Sequence[Callable[[State], object]] = (),
    part: str = "",
    n_threads: int | None = None,
) -> Result:
    """Minimize a problem with an estimator's tolerance and threads: the only call of the solver.

    Of several problems each has a part of the checkpoint, by its name. One that was finished is
    taken from there. With `n_threads`, they count in place of the estimator's, and with a `method`
    that does.
    """
    chosen: AnySolver | str = method or estimator.method or "auto"
    methods = estimator.description.methods
    # The usual choice is left to `minimize`.
    if not isinstance(chosen, Solver) and (
        chosen != "auto" or methods["auto"] is not METHODS["auto"]
    ):
        chosen = look_up("method", chosen, methods)(problem)
    with thread_limit(n_threads or threads_of(estimator.n_jobs)):
        return minimize(
            problem.risk,
            problem.regularizer,
            method=chosen,
            tol=estimator.tol,
            max_iter=max_iter,
            time_limit=time_limit,
            start=start,
            planes_from=planes_from,
            callbacks=callbacks,
            checkpoint=part_of(estimator.checkpoint, part) if estimator.checkpoint else None,
        )


def share_of_time(limit: float | None, begin: float, n_runs: int) -> float | None:
    """Return an equal share of the time that is left for each of the runs to come."""
    if limit is None:
        return None
    left = limit - (clock() - begin)
    return max(float(left) / n_runs, 1e-9)


def _one_or_all(values: list[T]) -> T | list[T]:
    return values[0] if len(values) == 1 else values


# Fitted attributes of a search, gone after a fit without one.
_LEFT_BY_A_SEARCH = ("lams_", "scores_", "path_certificates_")

# These fit one model, once, and hand it on: the best model so far is what their user wants too.
_PASS_IT_ON = ("sklearn.base", "sklearn.callback", "sklearn.pipeline", "sklearn.compose._target")


def fitting(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that fits an estimator its method ``fit``.

    Around it are scikit-learn's callbacks, Ctrl-C, and the choice of lam where it is to be chosen.
    """

    @with_callbacks
    @wraps(fit)
    def whole_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in _LEFT_BY_A_SEARCH:
            self.__dict__.pop(name, None)
        with held():
            if isinstance(self.lam, str | CrossValidation):
                from cutplane.estimators.cross_validation import (
                    fit_with_best_lam,  # few programs
                )

                fit_with_best_lam(fit, self, *args, **kwargs)
            else:
                fit(self, *args, **kwargs)
            if interrupted_so_far() and is_one_of_many():
                raise KeyboardInterrupt
            return self

    made: Callable[..., Any] = whole_fit
    return made


def is_one_of_many() -> bool:
    """Whether scikit-learn or joblib calls the fit, and not only to hand it on."""
    # Nothing else tells: neither of them leaves a mark when it works in this process.
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        frame = caller
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("joblib.parallel"):
            return True
        if module.startswith("sklearn.") and not module.startswith(_PASS_IT_ON):
            return True
    return False


def with_convex_starts(model: Any, plan: Plan) -> Plan:
    """Return the plan with a convex solution to start each problem at, and others if wanted.

    A plan of convex problems, of losses that name no convex one, or with starts from an earlier
    fit, is returned as it is.
    """
    risks = plan.risks
    known = plan.starts is not None and any(start is not None for start in plan.starts)
    if known or not _has_twins(risks):
        return plan
    random = np.random.default_rng(model.random_state)
    starts, certificates, evaluations = list[list[Vector]](), list[Certificate](), 0
    for k, risk in enumerate(risks):
        starts.append([])
        for s in range(model.n_starts):
            drawn = None if s == 0 else _bootstrap(risk.weights, random)
            # As many runs are left to come from these starts.
            n_left = 2 * len(risks) * model.n_starts - k * model.n_starts - s
            try:
                result = _convex_solution(
                    model,
                    risk,
                    plan.regularizer,
                    drawn,
                    time_limit=share_of_time(model.time_limit, plan.examples.begin, n_left),
                    part=os.path.join(plan.part, f"problem-{k}", f"convex-{s}"),
                )
            except ChangedData as error:
                if not certificates:
                    raise
                starts[k].append(np.zeros(risk.n_parameters))
                if s == 0:
                    certificates.append(certificate_of_zero(risk, error))
                continue
            starts[k].append(result.w)
            evaluations += result.evaluations
            if s == 0:
                certificates.append(result.certificate)
    return replace(
        plan,
        starts=[first for first, *_ in starts],
        more_starts=[others for _, *others in starts],
        start_certificates=certificates,
        evaluations=plan.evaluations + evaluations,
        part=os.path.join(plan.part, "robust"),
    )


def convex_start(
    model: Any, risk: ScoredRisk, regularizer: Regularizer, *, time_limit: float | None, part: str
) -> Vector | None:
    """Return where to begin with a risk that is not convex; None if nothing is known."""
    if not _has_twins([risk]):
        return None
    return _convex_solution(
        model, risk, regularizer, None, time_limit=time_limit, part=os.path.join(part, "convex")
    ).w


def _has_twins(risks: Sequence[ScoredRisk]) -> bool:
    return all(risk.convex is False and risk.loss.convex_twin is not None for risk in risks)


def _convex_solution(
    model: Any,
    risk: ScoredRisk,
    regularizer: Regularizer,
    weights: Vector | None,
    *,
    time_limit: float | None,
    part: str,
) -> Result:
    """Minimize the convex risk that is like this one, with other weights if they are given."""
    convex = ScoredRisk(
        risk.map,
        risk.y + risk.shift,
        risk.loss.convex_twin,
        weights=risk.weights if weights is None else weights,
        intercept=risk.intercept,
    )
    return loose_solution(model, convex, regularizer, time_limit=time_limit, part=part)


def loose_solution(
    model: Any, risk: ScoredRisk, regularizer: Regularizer, *, time_limit: float | None, part: str
) -> Result:
    """Minimize a convex risk as well as a start needs it."""
    problem = Problem(risk, regularizer)
    loose = copy(model)
    # On a9a and covtype with a fifth of the labels wrong and lam 1e-4 and 1e-5, starts with gaps
    # from 0.1 to 1e-3 led to test accuracies within 0.15 points of each other.
    loose.tol = max(model.tol, 1e-2)
    return solve(
        loose,
        problem,
        automatic(problem),
        max_iter=1 if interrupted_so_far() else model.max_iter,
        time_limit=time_limit,
        part=part,
    )


def _bootstrap(weights: Vector, random: np.random.Generator) -> Vector:
    """Return the weights of a bootstrap sample: how often each example was drawn."""
    drawn = weights * random.poisson(1.0, len(weights))
    return drawn if drawn.any() else weights


# Smaller problems are Python more than compiled code, and Python runs in one thread at a time.
LEAST_ENTRIES = 1 << 19

Solve = Callable[[int, Callable[[State], bool]], Result]


def problems_at_once(estimator: Any, risks: Sequence[Any]) -> int:
    """Return how many problems of a fit should be solved at a time.

    One where somebody watches, or a limit of time is shared: callbacks hear of one problem after
    the other. So it is for losses that are not convex, which have several starts.
    """
    watched = bool(estimator.callbacks or getattr(estimator, "_skl_callbacks", None))
    ordered = watched or estimator.verbose or estimator.checkpoint is not None
    if ordered or estimator.time_limit is not None or not risks[0].convex:
        return 1
    rows = risks[0].rows if isinstance(risks[0], ScoredRisk) else None
    if rows is None or not rows.one_by_one or rows.n_entries < LEAST_ENTRIES:
        return 1
    return min(threads_of(estimator.n_jobs) or default_threads(), len(risks))


class SideBySide:
    """Results of problems that threads work on, in their order.

    ``solve`` takes the number of a problem and a callback for its run, and returns the result.
    """

    def __init__(self, solve: Solve, n_problems: int, n_threads: int) -> None:
        self._solve = solve
        self._left = iter(range(n_problems))
        self._stop = Event()
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="cutplane-problem")
        self._n_threads = n_threads
        self._begun = dict[int, Future[Result]]()
        self._run = interrupts.running()  # all of them are one run to Ctrl-C

    def __enter__(self) -> Self:
        self._run.__enter__()
        for _ in range(self._n_threads + 1):
            self._begin_next()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()  # an error ends the runs that nobody waits for
        self._pool.shutdown(wait=error is None, cancel_futures=True)
        self._run.__exit__(kind, error, traceback)

    def _begin_next(self) -> None:
        if (k := next(self._left, None)) is not None:
            run = copy_context().run
            self._begun[k] = self._pool.submit(run, self._solve, k, lambda _: self._stop.is_set())

    def result(self, k: int) -> Result:
        """Return the result of problem ``k``; each is asked for once, in order.

        Ctrl-C ends the runs that are on, and leaves one iteration to those that are not.
        """
        future = self._begun.pop(k)  # results have planes: they must not pile up
        while not wait([future], timeout=0.05).done:  # looking for Ctrl-C
            if self._run.late:
                self._stop.set()
                self._run.take()
        try:
            result = future.result()
        finally:
            self._begin_next()
        if self._stop.is_set() and result.status is Status.STOPPED:
            certificate = replace(result.certificate, status=Status.INTERRUPTED)
            return replace(result, certificate=certificate)
        return result
