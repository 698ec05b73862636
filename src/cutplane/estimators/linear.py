"""What linear classifiers and regressors share: parameters, the fit itself, warnings."""

from __future__ import annotations

import inspect
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from cutplane.core.methods import METHODS, Method, bmrm
from cutplane.core.minimize import minimize
from cutplane.core.protocols import Matrix, Vector
from cutplane.core.state import Result, State, Status
from cutplane.data import as_rows
from cutplane.estimators.sklearn_callbacks import Attributes, CallbackSupportMixin, FitTask
from cutplane.losses import Loss
from cutplane.losses.loss import Task
from cutplane.regularizers import L2
from cutplane.report.progress import Progress
from cutplane.risks import LinearRisk

_DEFAULT_LAM = 1e-4

T = TypeVar("T")


class LinearModel(CallbackSupportMixin, BaseEstimator):
    """Parameters and steps that linear classifiers and regressors have in common."""

    _task: ClassVar[Task]
    _losses: ClassVar[Mapping[str, Callable[..., Loss]]]

    def loss_function(self) -> Loss:
        """Return the loss that the parameters describe."""
        if isinstance(self.loss, Loss):
            if self.loss.task != self._task:
                raise ValueError(f"{self.loss} is a loss for {self.loss.task}, not {self._task}")
            return self.loss
        factory = look_up("loss", self.loss, self._losses)
        # A loss names its parameters as the estimator does.
        names = inspect.signature(factory).parameters
        return factory(**{name: getattr(self, name) for name in names})

    def _method(self) -> Method:
        if self.method is None:
            return bmrm()
        if isinstance(self.method, Method):
            return self.method
        return look_up("method", self.method, METHODS)()

    def _regularizer(self, total_weight: float) -> L2:
        if self.lam is not None and self.C is not None:
            raise ValueError("give lam or C, not both: lam = 1 / (C * n_samples)")
        if self.C is not None:
            if not (np.isfinite(self.C) and self.C > 0.0):
                raise ValueError(f"C must be positive and finite, got {self.C}")
            return L2(1.0 / (self.C * total_weight))
        return L2(_DEFAULT_LAM if self.lam is None else self.lam)

    def _solve(
        self, X: Any, y: Any, sample_weight: Any, *, weights: Vector, targets: Matrix
    ) -> None:
        """Fit one problem for each row of ``targets``, and set the fitted attributes.

        ``y`` and ``sample_weight`` are what the user gave, for the callbacks.
        """
        begin = time.perf_counter()
        n_problems = len(targets)
        loss, method = self.loss_function(), self._method()
        regularizer = self._regularizer(float(weights.sum()))
        rows = as_rows(X, n_threads=self._n_threads())
        coef, intercept = np.zeros((n_problems, X.shape[1])), np.zeros(n_problems)
        starts = self._previous_coef(coef.shape)
        fit = FitTask.of_fit(
            self,
            max_subtasks=self.max_iter if n_problems == 1 else n_problems,
            X=X,
            y=y,
            sample_weight=sample_weight,
        )
        if callable(self.callbacks) or self.callbacks is None:
            raise TypeError(f"callbacks must be a sequence of callables, got {self.callbacks!r}")
        results: list[Result] = []
        progress = self._progress()
        for k, target in enumerate(targets):
            risk = LinearRisk(rows, target, loss, weights=weights, intercept=self.fit_intercept)
            task = fit
            if n_problems > 1:
                task = fit.subtask("one_vs_rest", max_subtasks=self.max_iter)

            def best_so_far(state: State, k: int = k) -> Attributes:
                coef[k], intercept[k] = state.best.w, state.best.intercept  # type: ignore[attr-defined]
                return self._model(coef.copy(), intercept.copy())

            interrupted = bool(results) and results[-1].status is Status.INTERRUPTED
            result = minimize(
                risk,
                regularizer,
                method=method,
                tol=self.tol,
                # After Ctrl-C each problem that is left gets one iteration: a model and a bound.
                max_iter=1 if interrupted else self.max_iter,
                time_limit=self._time_left(begin, n_problems - k),
                start=starts[k],
                callbacks=[*self.callbacks, *progress, task.iterations(best_so_far)],
            )
            results.append(_interrupted(result) if interrupted else result)
            model = best_so_far(result.state)
            if task is not fit:
                task.end(model)
        for display in progress:
            display.finish()

        self.lam_ = regularizer.lam
        self.evaluations_ = sum(result.evaluations for result in results)
        self.fit_seconds_ = time.perf_counter() - begin
        self.certificate_ = one_or_all([result.certificate for result in results])
        self.history_ = one_or_all([result.history for result in results])
        n_iter = [result.iterations for result in results]
        self.n_iter_ = n_iter[0] if n_problems == 1 else np.array(n_iter)
        for name, value in model.items():
            setattr(self, name, value)
        fit.end(model)
        _warn_unless_successful(self, results)

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        """Return the attributes that make the estimator ready to predict."""
        raise NotImplementedError

    def _previous_coef(self, shape: tuple[int, ...]) -> Any:
        """Return where to start each problem: at the coefficients of the last fit, if wanted."""
        if self.warm_start and hasattr(self, "coef_"):
            coef = np.atleast_2d(self.coef_)
            if coef.shape == shape:
                return coef
        return [None] * shape[0]

    def _progress(self) -> list[Progress]:
        return [Progress(sys.stdout)] if self.verbose else []

    def _n_threads(self) -> int | None:
        # As in joblib: -1 means all cores, which is what None means here as well.
        if self.n_jobs is None or self.n_jobs == -1:
            return None
        if self.n_jobs < 1:
            raise ValueError(f"n_jobs must be None, -1 or at least 1, got {self.n_jobs}")
        return int(self.n_jobs)

    def _time_left(self, begin: float, n_problems: int) -> float | None:
        """Return an equal share of the time that is left for each of the problems to come."""
        if self.time_limit is None:
            return None
        if not self.time_limit > 0.0:
            raise ValueError(f"time_limit must be positive, got {self.time_limit}")
        left = self.time_limit - (time.perf_counter() - begin)
        return max(float(left) / n_problems, 1e-9)

    def _scores(self, X: Any) -> Any:
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return X @ np.atleast_2d(self.coef_).T + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


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


def _interrupted(result: Result) -> Result:
    certificate = replace(result.certificate, status=Status.INTERRUPTED)
    return replace(result, certificate=certificate)


def _warn_unless_successful(estimator: LinearModel, results: list[Result]) -> None:
    """Warn with the worst of the gaps if a run did not reach its tolerance."""
    failed = [result for result in results if not result.status.success]
    if not failed:
        return
    worst = max(failed, key=lambda result: result.certificate.relative_gap)
    advice = {
        Status.ITERATION_LIMIT: "raise max_iter, or tol",
        Status.TIME_LIMIT: "raise time_limit, or tol",
        Status.INTERRUPTED: "the best model so far was kept",
        Status.STOPPED: "a callback ended the fit; the best model so far was kept",
        Status.STALLED: "the bounds no longer move: scale the features, or raise lam or tol",
        Status.INCONSISTENT: "the lower bound is above the objective: is the loss convex, and are "
        "its slopes right?",
    }[worst.status]
    of_how_many = f" in {len(failed)} of {len(results)} binary problems" if len(results) > 1 else ""
    warnings.warn(
        f"{type(estimator).__name__} ended with status {worst.status}{of_how_many}: relative gap "
        f"{worst.certificate.relative_gap:.2e}, tolerance {estimator.tol:.2e}; {advice}",
        ConvergenceWarning,
        stacklevel=5,
    )
