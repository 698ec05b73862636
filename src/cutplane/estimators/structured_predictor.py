"""Structured prediction with a certificate."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from cutplane.compute.arrays import Vector
from cutplane.compute.threads import thread_limit
from cutplane.core.method import Method
from cutplane.core.state import State
from cutplane.estimators.cautions import warn_of_constant_model
from cutplane.estimators.description import Description, Reads, Targets
from cutplane.estimators.interruptible import interruptible
from cutplane.estimators.linear import STRENGTH, threads_of, warn_unless_successful
from cutplane.estimators.parameters import check_parameters
from cutplane.estimators.sklearn_callbacks import (
    Attributes,
    CallbackSupportMixin,
    FitTask,
    with_callbacks,
)
from cutplane.methods import automatic_for_models
from cutplane.methods.minimize import minimize
from cutplane.regularizers import L2
from cutplane.report.progress import Progress
from cutplane.risks import StructuredRisk
from cutplane.structured.model import as_examples, as_list
from cutplane.structured.workers import Workers

_LOOKED_AT = 100  # examples, to see whether anything was learned


class StructuredPredictor(CallbackSupportMixin, BaseEstimator):
    """Learns the weights of a structured model by its hinge loss, with a certificate.

    It minimizes ``lam/2 |w|^2 + mean of max_y [loss + w.(psi(x_i, y) - psi(x_i, y_i))]``.

    Parameters
    ----------
    model : StructuredModel
        Joint features, loss and inference, such as `cutplane.TreeModel` or one of your own. It is
        not changed by a fit: what it learns about the data is in ``model_``.
    lam : float, default=1e-3
        Strength of the regularizer.
    rescaling : {"margin", "slack"}, default="margin"
        Whether the loss is added to the score or multiplies what is missing to the margin.
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations.
    time_limit : float, optional
        Limit on seconds.
    method : Method, optional
        How to minimize. By default `cutplane.block_ascent`; or `cutplane.bmrm` with planes for
        groups of examples, if these are few or ``lam`` is small for their number; or
        `cutplane.nrbm` if the model says ``exact = False``.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit.
    verbose : int, default=0
        Print the progress if positive.
    n_jobs : int, optional
        Threads, or processes if the model does not release the GIL; see `StructuredRisk`. All that
        a fit does besides uses no more threads than that, either.
    callbacks : sequence of callables, default=()
        Each is called with the solver's `State` after every iteration; one that returns true ends
        the fit with the best model so far.

    Attributes
    ----------
    coef_ : ndarray of shape (n_parameters,)
    model_ : StructuredModel
        The model, with what it looked up in the data.
    certificate_ : Certificate
        Objective, lower bound, gap and status. Not valid if inference is not exact.
    history_ : list of Record
        The bounds after every iteration.
    n_iter_ : int
    evaluations_ : int
        Evaluations of the risk.
    inferences_ : int
        Calls of inference for one example, the last check of the objective included.
    fit_seconds_ : float
    lam_ : float
        The strength that was used.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> X, Y = np.eye(3), ["red", "green", "blue"]
    >>> cp.StructuredPredictor(cp.MulticlassModel()).fit(X, Y).score(X, Y)
    0.0
    """

    description = Description(reads=Reads.STRUCTURES, targets=Targets.OUTPUTS, saved=STRENGTH)

    def __init__(
        self,
        model: Any,
        *,
        lam: float = 1e-3,
        rescaling: str = "margin",
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Method | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        callbacks: Any = (),
    ) -> None:
        self.model = model
        self.lam = lam
        self.rescaling = rescaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.method = method
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.callbacks = callbacks

    @with_callbacks
    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : sequence
            Inputs, of the kind that the model takes.
        y : sequence of the same length
            Their true outputs.
        sample_weight : array-like of shape (n_examples,), optional
            Weights of the examples.

        Returns
        -------
        StructuredPredictor
            The fitted estimator.
        """
        check_parameters(self)
        begin = time.perf_counter()
        X, y = as_examples(X, y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        risk = StructuredRisk(
            self.model,
            X,
            y,
            weights=sample_weight,
            rescaling=self.rescaling,
            n_jobs=self.n_jobs,
        )
        start = getattr(self, "coef_", None) if self.warm_start else None
        if start is not None and len(start) != risk.n_parameters:
            start = None
        task = FitTask.of_fit(
            self,
            max_subtasks=self.max_iter,
            X=X,
            y=y,
            metadata={"sample_weight": sample_weight},
        )

        def best_so_far(state: State) -> Attributes:
            return {"coef_": state.best.w, "model_": risk.model}

        progress = [Progress(sys.stdout)] if self.verbose else []
        regularizer = L2(self.lam)
        with thread_limit(threads_of(self.n_jobs)):
            result = minimize(
                risk,
                regularizer,
                method=self._method(risk, regularizer),
                tol=self.tol,
                max_iter=self.max_iter,
                time_limit=self.time_limit,
                start=start,
                callbacks=[*self.callbacks, *progress, task.iterations(best_so_far)],
            )
        for display in progress:
            display.finish()
        self.__dict__.update(best_so_far(result.state))
        self.lam_ = regularizer.lam
        self.certificate_ = result.certificate
        self.history_ = result.history
        self.n_iter_ = result.iterations
        self.evaluations_ = result.evaluations
        self.inferences_ = risk.inferences
        self.fit_seconds_ = time.perf_counter() - begin
        task.end(best_so_far(result.state))
        warn_unless_successful(type(self).__name__, self.tol, [self.certificate_])
        used = range(len(X)) if sample_weight is None else np.flatnonzero(sample_weight)
        if self.certificate_.status.success and self._learned_nothing(X, y, used):
            warn_of_constant_model(
                type(self).__name__,
                "the best weights predict the same outputs as weights of zero",
                "try a smaller lam",
            )
        return self

    def _learned_nothing(self, X: Sequence[Any], y: Sequence[Any], used: Any) -> bool:
        """Say whether predictions are those of zero weights, as far as some of the examples tell.

        Where these are right there was nothing to learn. The first example with another prediction
        ends the search.
        """
        model, zeros, is_wrong = self.model_, np.zeros_like(self.coef_), False
        for i in used[:: -(-len(used) // _LOOKED_AT)]:
            said = model.inference(X[i], self.coef_)
            if model.loss(model.inference(X[i], zeros), said) != 0.0:
                return False
            is_wrong = is_wrong or model.loss(y[i], said) != 0.0
        return is_wrong

    def _method(self, risk: StructuredRisk, regularizer: L2) -> Method | None:
        """Return the method that the parameters say; None leaves a risk without proof to nrbm."""
        if self.method is not None or not risk.convex:
            return self.method
        return automatic_for_models(risk, regularizer)

    def predict(self, X: Any) -> list[Any]:
        """Return the output with the highest score for each input."""
        check_is_fitted(self)
        inputs, model = as_list(X), self.model_
        workers: Workers[Any] = Workers(
            _Inference(model, inputs),
            releases_gil=bool(getattr(model, "releases_gil", False)),
            n_jobs=self.n_jobs,
        )
        return workers(range(len(inputs)), self.coef_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean loss of the predictions, negative: more is better, 0 is the best."""
        X, y = as_examples(X, y)
        losses = [
            self.model_.loss(true, said) for true, said in zip(y, self.predict(X), strict=True)
        ]
        return 0.0 - float(np.average(losses, weights=sample_weight))  # not -0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.no_validation = True  # inputs are whatever the model takes
        tags.target_tags.required = True
        return tags


class _Inference:
    """The best output of an input, by its number."""

    def __init__(self, model: Any, inputs: list[Any]) -> None:
        self._model = model
        self._inputs = inputs

    def __call__(self, i: int, w: Vector) -> Any:
        try:
            return self._model.inference(self._inputs[i], w)
        except Exception as error:
            error.add_note(f"raised by inference of example {i}")
            raise
