"""One fit for every estimator: from a plan to the fitted attributes.

    estimator -> description -> Problem -> Method -> loop -> Result -> fitted attributes

An estimator validates its data and says what is to be minimized: a `Plan`. What follows is the same
for all of them, and stands here: the method, limits of time and their shares, threads, callbacks,
progress, Ctrl-C, warnings, and the attributes that every fit leaves.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.checkpoints.checkpoint import part_of
from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import thread_limit
from cutplane.core.certificate import Certificate, Record, Status
from cutplane.core.interrupts import interrupted_so_far
from cutplane.core.method import Method
from cutplane.core.problem import Problem
from cutplane.core.result import Result
from cutplane.core.state import State
from cutplane.estimators.callbacks import Attributes, FitContext
from cutplane.estimators.cautions import (
    LabelOrderWarning,
    warn,
    warn_of_constant_model,
    warn_unless_successful,
)
from cutplane.estimators.parameters import look_up, threads_of
from cutplane.methods.minimize import minimize
from cutplane.regularizers import L2
from cutplane.report.progress import Progress

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be fitted, settled before the first iteration.

    Attributes
    ----------
    risks : sequence of risks
        One, or one for each class or label that is fitted by itself.
    regularizer : L2
    model : callable
        From coefficients, a row for each problem, and intercepts to the fitted attributes. It gives
        the best model so far, too, while a fit is running.
    X, y, metadata
        The data as scikit-learn's callbacks are to see them.
    begin : float
        When the fit began, for its limit of time.
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

    risks: Sequence[Any]
    regularizer: L2
    model: Callable[[Matrix, NDArray[np.float64]], Attributes]
    X: Any
    y: Any
    metadata: Mapping[str, Any]
    begin: float
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


@dataclass
class _Best:
    """The best coefficients and intercepts so far, a row for each problem; zero at first."""

    plan: Plan
    coef: Matrix = field(init=False)
    intercept: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        risks, shape = self.plan.risks, self.plan.intercept_shape
        self.coef = np.zeros((len(risks), risks[0].n_parameters))
        self.intercept = np.zeros((len(risks), *(shape or ())))

    def model_of(self, k: int, state: State) -> Attributes:
        """Return the fitted attributes with the best point of a problem."""
        point: Any = state.best
        self.coef[k] = point.w
        if self.plan.intercept_shape is not None:
            self.intercept[k] = point.intercept
        return self.plan.model(self.coef.copy(), self.intercept.copy())


@dataclass(frozen=True)
class _Run:
    """What is kept of the run on a problem."""

    method: str
    certificate: Certificate
    history: list[Record]
    evaluations: int
    seen: Any
    reached: list[float]


def fit_plan(estimator: Any, plan: Plan) -> None:
    """Minimize each problem, set the fitted attributes, and warn of what may not be meant."""
    if plan.doubt:
        warn(plan.doubt, LabelOrderWarning)
    n_problems = len(plan.risks)
    context = FitContext.of_fit(
        estimator,
        max_subtasks=estimator.max_iter if n_problems == 1 else n_problems,
        X=plan.X,
        y=plan.y,
        metadata=plan.metadata,
    )
    best, runs = _Best(plan), list[_Run]()
    progress = [Progress(sys.stdout)] if estimator.verbose else []
    for k, risk in enumerate(plan.risks):
        problem = Problem(risk, plan.regularizer)
        part = context
        if n_problems > 1:
            part = context.subtask("one_vs_rest", max_subtasks=estimator.max_iter)

        def best_so_far(state: State, k: int = k) -> Attributes:
            return best.model_of(k, state)

        # After Ctrl-C each problem that is left gets one iteration: a model, a bound.
        interrupted = bool(runs or plan.start_certificates) and interrupted_so_far()
        method = method_of(estimator, problem)
        starts = [None if plan.starts is None else plan.starts[k]]
        starts += plan.more_starts[k] if plan.more_starts else []
        folder = os.path.join(plan.part, f"problem-{k}" if n_problems > 1 else "")
        lowest: Result | None = None
        reached, evaluations = list[float](), 0
        for s, start in enumerate(starts):
            n_left = (n_problems - k) * len(starts) - s
            found = solve(
                estimator,
                problem,
                method,
                max_iter=1 if interrupted else estimator.max_iter,
                time_limit=share_of_time(estimator.time_limit, plan.begin, n_left),
                start=start,
                callbacks=[*estimator.callbacks, *progress, part.iterations(best_so_far)],
                part=os.path.join(folder, f"start-{s}" if len(starts) > 1 else ""),
            )
            reached.append(found.certificate.objective)
            evaluations += found.evaluations
            if lowest is None or reached[-1] < lowest.certificate.objective:
                lowest = found
            interrupted = interrupted or found.state.interrupted
            if found.state.stopped:  # there is a model, and no wish for a better one
                break
        assert lowest is not None
        result = lowest
        certificate = result.certificate
        if interrupted:
            certificate = replace(certificate, status=Status.INTERRUPTED)
        seen = plan.look(risk, result)
        runs.append(_Run(method.name, certificate, result.history, evaluations, seen, reached))
        model = best_so_far(result.state)
        if part is not context:
            part.end(model)
    for display in progress:
        display.finish()

    certificates = [run.certificate for run in runs]
    n_iter = [len(run.history) for run in runs]
    estimator.__dict__.update(
        model,
        lam_=plan.regularizer.lam,
        method_=_one_or_all([run.method for run in runs]),
        certificate_=_one_or_all(certificates),
        history_=_one_or_all([run.history for run in runs]),
        n_iter_=n_iter[0] if n_problems == 1 else np.array(n_iter),
        evaluations_=plan.evaluations + sum(run.evaluations for run in runs),
        fit_seconds_=time.perf_counter() - plan.begin,
    )
    for name in ("start_certificate_", "start_objectives_"):  # of an earlier fit
        estimator.__dict__.pop(name, None)
    if plan.start_certificates:
        estimator.start_certificate_ = _one_or_all([*plan.start_certificates])
        estimator.start_objectives_ = _one_or_all([np.array(run.reached) for run in runs])
    context.end(model)
    name = type(estimator).__name__
    before = [*plan.certificates, *plan.start_certificates]
    warn_unless_successful(name, estimator.tol, [*before, *certificates])
    # Of a fit that did not succeed the warning says enough.
    if all(certificate.status.success for certificate in certificates):
        symptom = plan.symptom([run.seen for run in runs], result)
        if symptom and plan.could_vary():
            warn_of_constant_model(name, symptom, plan.advice)


def method_of(estimator: Any, problem: Problem) -> Method:
    """Return the method that an estimator's parameters ask for."""
    if isinstance(estimator.method, Method):
        return estimator.method
    name = "auto" if estimator.method is None else estimator.method
    made: Method = look_up("method", name, estimator.description.methods)(problem)
    return made


def solve(
    estimator: Any,
    problem: Problem,
    method: Method,
    *,
    max_iter: int | None,
    time_limit: float | None,
    start: Vector | None = None,
    planes_from: State | None = None,
    callbacks: Sequence[Callable[[State], object]] = (),
    part: str = "",
) -> Result:
    """Minimize a problem with an estimator's tolerance and threads: the only call of the solver.

    Of several problems each has a part of the checkpoint, by its name. One that was finished is
    taken from there.
    """
    with thread_limit(threads_of(estimator.n_jobs)):
        return minimize(
            problem.risk,
            problem.regularizer,
            method=method,
            tol=estimator.tol,
            max_iter=max_iter,
            time_limit=time_limit,
            start=start,
            planes_from=planes_from,
            callbacks=callbacks,
            checkpoint=part_of(estimator.checkpoint, part),
        )


def share_of_time(limit: float | None, begin: float, n_runs: int) -> float | None:
    """Return an equal share of the time that is left for each of the runs to come."""
    if limit is None:
        return None
    left = limit - (time.perf_counter() - begin)
    return max(float(left) / n_runs, 1e-9)


def _one_or_all(values: list[T]) -> T | list[T]:
    return values[0] if len(values) == 1 else values
