"""Structured prediction with a certificate."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from cutplane.compute.arrays import Vector, require_in_memory
from cutplane.estimators.description import (
    Description,
    Reads,
    Targets,
    check_parameters,
    is_crf,
    strength_of,
    weights_of,
)
from cutplane.estimators.estimator import Estimator, Strength, estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan, fitting
from cutplane.models.structured.model import Offers, as_examples, as_list, name_of_model
from cutplane.models.structured.risk import LOSSES, Workers
from cutplane.regularizers import L2
from cutplane.risks import StructuredRisk
from cutplane.solvers.registry import STRUCTURED_METHODS


@estimator
class StructuredPredictor(Estimator):
    """Learns the weights of a structured model, with a certificate.

    It minimizes ``lam/2 |w|^2 + mean of max_y [loss + w.(psi(x_i, y) - psi(x_i, y_i))]``, or with
    the loss "crf" ``lam/2 |w|^2 - mean of log p(y_i | x_i)``.

    Parameters
    ----------
    model : StructuredModel
        Joint features, loss and inference, such as `cutplane.TreeModel` or one of your own. It is
        not changed by a fit: what it learns about the data is in ``model_``.
    lam : float, default=1e-3
        Strength of the regularizer.
    rescaling : {"margin", "slack"}, default="margin"
        Whether the loss is added to the score or multiplies what is missing to the margin.
    loss : {"margin", "crf"}, default="margin"
        The hinge loss above, or an exponential family: the probability of an output is proportional
        to ``exp(w.psi(x, y))``, and what is minimized is the negative log-likelihood. That needs a
        model that knows sums over all outputs: trees, graphs without loops, sets of labels,
        classes.
    method : str or Method, default="auto"
        How to minimize. "auto" takes `cutplane.quasi_newton` for the crf, and for the margin
        `cutplane.block_ascent`; or `cutplane.bmrm` with planes for groups of examples, if these are
        few or ``lam`` is small for their number; or `cutplane.nrbm` if the model says
        ``exact = False``. "bmrm", "level" and others choose by
        name.
    n_jobs : int, optional
        Threads, or processes if the model does not release the GIL; see `StructuredRisk`. All that
        a fit does besides uses no more threads than that, either.

    Attributes
    ----------
    coef_ : ndarray of shape (n_parameters,)
    model_ : StructuredModel
        The model, with what it looked up in the data.
    certificate_ : Certificate
        Objective, lower bound, gap and status. Not valid if inference is not exact.
    inferences_ : int
        Calls of inference for one example, the last check of the objective included.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> X, Y = np.eye(3), ["red", "green", "blue"]
    >>> cp.StructuredPredictor(cp.MulticlassModel()).fit(X, Y).score(X, Y)
    0.0
    """

    description = Description(
        reads=Reads.STRUCTURES, targets=Targets.OUTPUTS, losses=LOSSES, methods=STRUCTURED_METHODS
    )

    model: Any = field(kw_only=False)
    lam: Strength = 1e-3
    C: ClassVar[None] = None  # type: ignore[misc]
    rescaling: str = "margin"
    loss: str = "margin"

    @fitting
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
            Itself, fitted.
        """
        check_parameters(self)
        require_in_memory("StructuredPredictor", X)
        X, y = as_examples(X, y)
        weights = weights_of(sample_weight, len(X))
        examples = Examples(X, y, weights, {"sample_weight": sample_weight})
        risk = StructuredRisk(
            self.model,
            X,
            y,
            weights=weights,
            rescaling=self.rescaling,
            loss=self.loss,
            n_jobs=self.n_jobs,
        )
        start = getattr(self, "coef_", None) if self.warm_start else None
        if start is not None and len(start) != risk.n_parameters:
            start = None
        plan = Plan(
            examples=examples,
            risks=[risk],
            regularizer=L2(strength_of(self.lam)),
            model=lambda coef, intercept: {"coef_": coef[0], "model_": risk.model},
            starts=[start],
            symptom=lambda seen, result: self._symptom(examples),
        )
        fit_plan(self, plan)
        self.inferences_ = risk.inferences
        return self

    def _symptom(self, examples: Examples) -> str | None:
        """Say that predictions are those of zero weights, as far as some of the examples tell.

        Where these are right there was nothing to learn. About a hundred examples are looked at;
        the first one with another prediction ends the search.
        """
        model, zeros, is_wrong = self.model_, np.zeros_like(self.coef_), False
        used = np.flatnonzero(examples.weights)
        for i in used[:: -(-len(used) // 100)]:
            predicted = model.inference(examples.X[i], self.coef_)
            if model.loss(model.inference(examples.X[i], zeros), predicted) != 0.0:
                return None
            is_wrong = is_wrong or model.loss(examples.y[i], predicted) != 0.0
        return "the best weights predict the same outputs as weights of zero" if is_wrong else None

    def predict(self, X: Any) -> list[Any]:
        """Return the output with the highest score for each input."""
        check_is_fitted(self)
        return self._of_each("inference", as_list(X))

    @available_if(is_crf)
    def predict_marginals(self, X: Any) -> list[Any]:
        """Return for each input what the model's ``marginals`` says: the probabilities of labels.

        For trees and graphs these are arrays of shape (n_nodes, n_labels).
        """
        check_is_fitted(self)
        if not callable(getattr(self.model_, "marginals", None)):
            raise TypeError(f"{name_of_model(self.model_)} has no marginals(x, w)")
        return self._of_each("marginals", as_list(X))

    def _of_each(self, function: str, inputs: list[Any]) -> list[Any]:
        """Return what a function of the model says of each input."""
        workers: Workers[Any] = Workers(
            partial(_of_input, self.model_, function, inputs),
            releases_gil=Offers.of(self.model_).releases_gil,
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


def _of_input(model: Any, function: str, inputs: list[Any], i: int, w: Vector) -> Any:
    """Return what a function of a model says of an input, by its number."""
    try:
        return getattr(model, function)(inputs[i], w)
    except Exception as error:
        error.add_note(f"raised by {function} of example {i}")
        raise
