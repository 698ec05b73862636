"""What linear classifiers and regressors share: parameters, the fit itself, warnings."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import thread_limit
from cutplane.core.interrupts import interrupted_so_far
from cutplane.core.method import Method
from cutplane.core.state import Certificate, Record, Result, State, Status
from cutplane.estimators.cautions import (
    LabelOrderWarning,
    rows_are_equal,
    scores_are_equal,
    warn,
    warn_of_constant_model,
    warn_of_unused,
)
from cutplane.estimators.description import Description, Positive, loss_parameters
from cutplane.estimators.interruptible import interruptible
from cutplane.estimators.methods import METHODS
from cutplane.estimators.parameters import check_parameters
from cutplane.estimators.sklearn_callbacks import Attributes, CallbackSupportMixin, FitTask
from cutplane.losses import Loss
from cutplane.losses.loss import Task
from cutplane.maps import as_rows, ordered_scores
from cutplane.methods.minimize import minimize
from cutplane.regularizers import L2
from cutplane.report.progress import Progress
from cutplane.risks import LinearRisk, ModelRisk, SharedScoresRisk

_DEFAULT_LAM = 1e-4

STRENGTH: dict[str, tuple[Any, Any]] = {"lam_": (Positive | None, None)}
"""What model files keep of most estimators; the first files did without."""

T = TypeVar("T")


class Examples(NamedTuple):
    """Validated data: features, targets as the user gave them, and weights."""

    X: Any
    y: Any
    weights: Vector


class Problems(NamedTuple):
    """What is fitted: a row of ``targets`` for each problem, and the weights of the examples."""

    weights: Vector
    targets: Matrix


class Preparation(NamedTuple):
    """What is settled before the fit itself, and the work that it took."""

    regularizer: L2
    starts: Sequence[Vector | None]
    evaluations: int = 0
    certificates: tuple[Certificate, ...] = ()


class Run(NamedTuple):
    """What is kept of a run. Its planes are not: with many classes they would fill the memory."""

    certificate: Certificate
    history: list[Record]
    evaluations: int

    @classmethod
    def of(cls, result: Result, *, interrupted: bool) -> Run:
        """Return the part to keep, marked as interrupted if an earlier run was."""
        certificate = result.certificate
        if interrupted:
            certificate = replace(certificate, status=Status.INTERRUPTED)
        return cls(certificate, result.history, result.evaluations)


class LinearModel(CallbackSupportMixin, BaseEstimator):
    """Parameters and steps that linear classifiers and regressors have in common."""

    _task: ClassVar[Task]
    description: ClassVar[Description]
    _several: ClassVar[str] = "classes"  # what problems are for, if there are several

    def loss_function(self) -> Loss:
        """Return the loss that the parameters describe."""
        if isinstance(self.loss, Loss):
            if self.loss.task != self._task:
                raise ValueError(f"{self.loss} is a loss for {self.loss.task}, not {self._task}")
            return self.loss
        factory = look_up("loss", self.loss, self.description.losses)
        made: Loss = factory(**{name: getattr(self, name) for name in loss_parameters(factory)})
        return made

    def _unused(self) -> dict[str, str]:
        """Return the parameters that have no effect with the others, and why."""
        losses = self.description.losses
        unused = set[str]().union(*map(loss_parameters, losses.values()))
        if isinstance(self.loss, str) and self.loss in losses:
            unused -= loss_parameters(losses[self.loss])
        return dict.fromkeys(sorted(unused), f"with loss={self.loss!r}")

    def _method(self, risk: ModelRisk, regularizer: L2) -> Method:
        if isinstance(self.method, Method):
            return self.method
        name = "auto" if self.method is None else self.method
        return look_up("method", name, METHODS)(risk, regularizer)

    def _regularizer(self, total_weight: float) -> L2:
        return l2_of(self.lam, self.C, total_weight)

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        """Validate the data of a fit."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            y_numeric=self._task == "regression",
        )
        return Examples(X, y, weights_of(X, sample_weight))

    def _problems(self, y: Any, weights: Vector) -> Problems:
        """Return what to fit for these targets and weights of examples."""
        raise NotImplementedError

    def _risks(self, X: Any, problems: Problems) -> Sequence[ModelRisk]:
        """Return the risk of each problem."""
        loss, rows = self.loss_function(), as_rows(X, n_threads=self._n_threads())
        return [
            LinearRisk(rows, target, loss, weights=problems.weights, intercept=self.fit_intercept)
            for target in problems.targets
        ]

    def _prepare(
        self, examples: Examples, problems: Problems, risks: Sequence[ModelRisk], begin: float
    ) -> Preparation:
        """Return the regularizer, and where each problem starts."""
        regularizer = self._regularizer(float(problems.weights.sum()))
        return Preparation(regularizer, self._starts((len(risks), risks[0].n_parameters)))

    @interruptible
    def _solve(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Validate the data, fit each problem, and set the fitted attributes."""
        check_parameters(self)
        warn_of_unused(self, self._unused())
        examples = self._examples(X, y, sample_weight)
        begin = time.perf_counter()
        X, y, weights = examples
        problems = self._problems(y, weights)
        if doubt := self._doubt_about_labels(y, weights):
            warn(doubt, LabelOrderWarning)
        risks = self._risks(X, problems)
        prepared = self._prepare(examples, problems, risks, begin)
        del problems  # targets may be a copy, which the risks have shifted to one of their own
        n_problems = len(risks)
        coef, intercept = zeros_like_models(risks)
        fit = FitTask.of_fit(
            self,
            max_subtasks=self.max_iter if n_problems == 1 else n_problems,
            X=X,
            **self._seen_by_callbacks(y, sample_weight),
        )
        runs: list[Run] = []
        flat: list[bool] = []  # whether a problem's scores are all the same
        progress = self._progress()
        for k, risk in enumerate(risks):
            task = fit
            if n_problems > 1:
                task = fit.subtask("one_vs_rest", max_subtasks=self.max_iter)

            def best_so_far(state: State, k: int = k) -> Attributes:
                coef[k], intercept[k] = state.best.w, state.best.intercept  # type: ignore[attr-defined]
                return self._model(coef.copy(), intercept.copy())

            interrupted = bool(runs) and interrupted_so_far()
            with thread_limit(self._n_threads()):
                result = minimize(
                    risk,
                    prepared.regularizer,
                    method=self._method(risk, prepared.regularizer),
                    tol=self.tol,
                    # After Ctrl-C each problem that is left gets one iteration: a model, a bound.
                    max_iter=1 if interrupted else self.max_iter,
                    time_limit=share_of_time(self.time_limit, begin, n_problems - k),
                    start=prepared.starts[k],
                    callbacks=[*self.callbacks, *progress, task.iterations(best_so_far)],
                )
            runs.append(Run.of(result, interrupted=interrupted))
            point: Any = result.point
            flat.append(_asks_for_more(risk) and scores_are_equal(point.scores, point.intercept))
            model = best_so_far(result.state)
            if task is not fit:
                task.end(model)
        for display in progress:
            display.finish()

        certificates = [run.certificate for run in runs]
        self.lam_ = prepared.regularizer.lam
        self.evaluations_ = prepared.evaluations + sum(run.evaluations for run in runs)
        self.fit_seconds_ = time.perf_counter() - begin
        self.certificate_ = one_or_all(certificates)
        self.history_ = one_or_all([run.history for run in runs])
        n_iter = [len(run.history) for run in runs]
        self.n_iter_ = n_iter[0] if n_problems == 1 else np.array(n_iter)
        self.__dict__.update(model)
        fit.end(model)
        warn_unless_successful(
            type(self).__name__, self.tol, [*prepared.certificates, *certificates]
        )
        # Of a fit that did not succeed the warning says enough.
        if all(certificate.status.success for certificate in certificates):
            symptom = self._symptom(flat, result)
            if symptom and self._could_differ(y, risks):
                warn_of_constant_model(type(self).__name__, symptom, self._advice())
        return self

    def _doubt_about_labels(self, y: Any, weights: Vector) -> str | None:
        """Return what was guessed of labels that are words, if it matters."""
        return None

    def _symptom(self, flat: Sequence[bool], result: Result) -> str | None:
        """Return in which way the model is constant.

        Parameters
        ----------
        flat : sequence of bool
            Whether all examples have the same score, for each problem.
        result : Result
            Of the last problem.
        """
        if all(flat):
            return "the best coefficients are zero, and all scores the same"
        if any(flat):
            return f"the best coefficients of {sum(flat)} of {len(flat)} {self._several} are zero"
        return None

    def _advice(self) -> str:
        """Return what to try if the model is constant."""
        return "try a smaller lam, and see whether the features have to do with the targets"

    def _could_differ(self, y: Any, risks: Sequence[ModelRisk]) -> bool:
        """Say whether the data ask for another model than a constant one."""
        if y is not None and self._task == "regression" and np.ptp(y) == 0.0:
            return False
        return not rows_are_equal(risks[0].rows)

    def _seen_by_callbacks(self, y: Any, sample_weight: Any) -> dict[str, Any]:
        """Return targets and metadata of the examples for scikit-learn's callbacks."""
        return {"y": y, "metadata": {"sample_weight": sample_weight}}

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        """Return the attributes that make the estimator ready to predict."""
        raise NotImplementedError

    def _starts(self, shape: tuple[int, int]) -> Any:
        """Return where to start each problem: at the coefficients of the last fit, if wanted."""
        if self.warm_start and hasattr(self, "coef_"):
            coef = self._previous_coef()
            if coef.shape == shape:
                return coef
        return [None] * shape[0]

    def _previous_coef(self) -> Matrix:
        """Return the coefficients of the last fit, one row a problem."""
        return np.atleast_2d(self.coef_)

    def _progress(self) -> list[Progress]:
        return [Progress(sys.stdout)] if self.verbose else []

    def _n_threads(self) -> int | None:
        return threads_of(self.n_jobs)

    def _fitted_with(self, coef: Matrix, intercept: Vector) -> Self:
        """Return a copy that predicts with these coefficients."""
        model = copy(self)
        model.__dict__.update(self._model(coef, intercept))
        return model

    def _scores(self, X: Any) -> Any:
        """Return the scores, one column a problem, intercepts included."""
        scores = self._products(X)
        scores += self.intercept_
        return scores

    def _products(self, X: Any) -> Any:
        """Return the products with the coefficients alone, one column a problem.

        Those of a row do not depend on the other rows, to the last bit.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return ordered_scores(X, np.atleast_2d(self.coef_), n_threads=self._n_threads())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _asks_for_more(risk: ModelRisk) -> bool:
    """Say whether targets differ, so that a constant model is not all that there is to find."""
    targets = risk.terms[0].y if isinstance(risk, SharedScoresRisk) else risk.y
    return bool((targets != targets.flat[0]).any())


def l2_of(lam: float | None, C: float | None, total_weight: float) -> L2:
    """Return the regularizer that the parameters ``lam`` and ``C`` describe."""
    if lam is not None and C is not None:
        raise ValueError("give lam or C, not both: lam = 1 / (C * n_samples)")
    if C is not None:
        if not (np.isfinite(C) and C > 0.0):
            raise ValueError(f"C must be positive and finite, got {C}")
        return L2(1.0 / (C * total_weight))
    return L2(_DEFAULT_LAM if lam is None else lam)


def weights_of(X: Any, sample_weight: Any) -> Vector:
    """Return the weights of the examples, validated; ones if none are given."""
    if sample_weight is None:
        return np.broadcast_to(1.0, X.shape[0])  # takes no memory
    weights: Vector = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    return weights


def zeros_like_models(risks: Sequence[ModelRisk]) -> tuple[Matrix, NDArray[np.float64]]:
    """Return room for coefficients and intercepts, one row a problem."""
    n_problems = len(risks)
    return (
        np.zeros((n_problems, risks[0].n_parameters)),
        np.zeros((n_problems, *risks[0].intercept_shape)),
    )


def threads_of(n_jobs: int | None) -> int | None:
    """Return the number of threads, None for all cores."""
    # As in joblib: -1 means all cores, which is what None means here as well.
    if n_jobs is None or n_jobs == -1:
        return None
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be None, -1 or at least 1, got {n_jobs}")
    return int(n_jobs)


def look_up(what: str, name: object, registry: Mapping[str, T]) -> T:
    """Return the registry's entry, or raise ValueError with the nearest name."""
    if isinstance(name, str) and name in registry:
        return registry[name]
    near = get_close_matches(str(name), registry, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown {what} {name!r}: {hint}known are {', '.join(registry)}")


def one_or_all(values: list[T]) -> T | list[T]:
    """Return the only value, or all of them."""
    return values[0] if len(values) == 1 else values


def share_of_time(limit: float | None, begin: float, n_runs: int) -> float | None:
    """Return an equal share of the time that is left for each of the runs to come."""
    if limit is None:
        return None
    if not limit > 0.0:
        raise ValueError(f"time_limit must be positive, got {limit}")
    left = limit - (time.perf_counter() - begin)
    return max(float(left) / n_runs, 1e-9)


def warn_unless_successful(name: str, tol: float, certificates: Sequence[Certificate]) -> None:
    """Warn with the worst of the gaps if a run did not reach its tolerance."""
    failed = [certificate for certificate in certificates if not certificate.status.success]
    if not failed:
        return
    worst = max(failed, key=lambda certificate: certificate.relative_gap)
    advice = {
        Status.ITERATION_LIMIT: "raise max_iter, or tol",
        Status.TIME_LIMIT: "raise time_limit, or tol",
        Status.INTERRUPTED: "the best model so far was kept",
        Status.STOPPED: "a callback ended the fit; the best model so far was kept",
        Status.STALLED: "the bounds no longer move: scale the features, or raise lam or tol",
        Status.INCONSISTENT: "the lower bound is above the objective: is the loss convex, and are "
        "its slopes right?",
    }[worst.status]
    of_how_many = f" in {len(failed)} of {len(certificates)} runs" if len(certificates) > 1 else ""
    warn(
        f"{name} ended with status {worst.status}{of_how_many}: relative gap "
        f"{worst.relative_gap:.2e}, tolerance {tol:.2e}; {advice}",
        ConvergenceWarning,
    )
