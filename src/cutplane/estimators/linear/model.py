"""What linear models share: from rows and targets to a plan, from coefficients to scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.certificate import Certificate
from cutplane.core.result import Result
from cutplane.estimators.callbacks import Attributes, with_callbacks
from cutplane.estimators.cautions import (
    LabelOrderWarning,
    rows_are_equal,
    scores_are_equal,
    warn,
    warn_of_unused,
)
from cutplane.estimators.description import Layout, loss_parameters
from cutplane.estimators.estimator import Regularized, estimator
from cutplane.estimators.fit import Plan, fit_plan
from cutplane.estimators.interruptible import interruptible
from cutplane.estimators.parameters import check_parameters, l2_of, look_up, threads_of, weights_of
from cutplane.losses import Loss
from cutplane.losses.loss import Task
from cutplane.maps import Rows, as_rows, ordered_scores
from cutplane.regularizers import L2
from cutplane.risks import ModelRisk, SharedScoresRisk

FLOATS = (np.float64, np.float32)


@dataclass(frozen=True)
class Examples:
    """Validated data: features, targets as the estimator takes them, weights, and since when."""

    X: Any
    y: Any
    weights: Vector
    begin: float = field(default_factory=time.perf_counter)


def flat_symptom(flat: Sequence[bool], result: Result, several: str = "classes") -> str | None:
    """Return in which way a model is constant, from whether the scores of each problem are."""
    if all(flat):
        return "the best coefficients are zero, and all scores the same"
    if any(flat):
        return f"the best coefficients of {sum(flat)} of {len(flat)} {several} are zero"
    return None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a linear model makes of its examples.

    Attributes
    ----------
    risks : sequence of ModelRisk
        One, or one for each class or label that is fitted by itself.
    regularizer : L2
    y : array
        The targets as callbacks are to see them.
    start : ndarray or None
        Where a problem starts.
    doubt : str or None
        What was guessed of labels that are words, if it matters.
    varied : bool
        Whether the targets ask for another model than a constant one.
    symptom : callable
        From whether the scores of each problem are all the same, and the last result, to the way
        in which the model is constant, or None.
    advice : str
        What to try if it is.
    """

    risks: Sequence[ModelRisk]
    regularizer: L2
    y: Any
    start: Vector | None = None
    doubt: str | None = None
    varied: bool = True
    symptom: Callable[[Sequence[bool], Result], str | None] = flat_symptom
    advice: str = "try a smaller lam, and see whether the features have to do with the targets"

    def could_differ(self) -> bool:
        """Say whether the data ask for another model than a constant one."""
        return self.varied and not rows_are_equal(self.risks[0].rows)


class Preparation(NamedTuple):
    """The regularizer and where each problem starts, and the work that it took to find them."""

    regularizer: L2
    starts: Sequence[Vector | None]
    evaluations: int = 0
    certificates: Sequence[Certificate] = ()


@estimator
class LinearModel(Regularized):
    """A linear model of rows.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.
    """

    _task: ClassVar[Task]  # that its losses are for

    @with_callbacks
    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Dense data in C or F order and CSR matrices, in float32 or float64, are used as they
            are.
        y : array-like of shape (n_samples,)
            The targets, as the text of the class says.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of k counts as k copies, a weight of 0 as none.

        Returns
        -------
        estimator
            Itself, fitted.
        """
        self._check_parameters()
        examples = self._examples(X, y, sample_weight)
        return self._fit(examples, {"sample_weight": sample_weight})

    def loss_function(self) -> Loss:
        """Return the loss that the parameters describe."""
        if isinstance(self.loss, Loss):
            if self.loss.task != self._task:
                raise ValueError(f"{self.loss} is a loss for {self.loss.task}, not {self._task}")
            return self.loss
        make = look_up("loss", self.loss, self.description.losses)
        made: Loss = make(**{name: getattr(self, name) for name in loss_parameters(make)})
        return made

    def layout(self) -> Layout:
        """Return which arrays the parameters and classes ask for.

        Raises
        ------
        ValueError
            If they do not go together.
        """
        if self.description.losses:
            self.loss_function()  # predictions depend on it
        return Layout()

    def _complete(self, shifts: Vector | None) -> None:
        """Check arrays that were read from a file, and set what follows from them."""

    def _check_parameters(self) -> None:
        check_parameters(self)
        warn_of_unused(self, self._unused())

    def _unused(self) -> dict[str, str]:
        """Return the parameters that have no effect with the others, and why."""
        losses = self.description.losses
        if not losses:
            return {}
        unused = set[str]().union(*map(loss_parameters, losses.values()))
        if isinstance(self.loss, str) and self.loss in losses:
            unused -= loss_parameters(losses[self.loss])
        return dict.fromkeys(sorted(unused), f"with loss={self.loss!r}")

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        """Validate the data of a fit."""
        how.setdefault("y_numeric", self._task == "regression")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, **how)
        return Examples(X, y, weights_of(X, sample_weight))

    def _setting(self, examples: Examples) -> Setting:
        """Return what to fit to these examples."""
        raise NotImplementedError

    def _model(self, coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        """Return the attributes that make the estimator ready to predict."""
        raise NotImplementedError

    def _fit(self, examples: Examples, metadata: dict[str, Any]) -> Self:
        """Fit the model to validated examples."""
        setting = self._setting(examples)
        if setting.doubt:
            warn(setting.doubt, LabelOrderWarning)
        prepared = self._prepare(examples, setting)

        def symptom(flat: Sequence[bool], result: Result) -> str | None:
            said = setting.symptom(flat, result)
            return said if said and setting.could_differ() else None

        plan = Plan(
            risks=setting.risks,
            regularizer=prepared.regularizer,
            model=self._model,
            X=examples.X,
            y=setting.y,
            metadata=metadata,
            begin=examples.begin,
            intercept_shape=setting.risks[0].intercept_shape,
            starts=prepared.starts,
            evaluations=prepared.evaluations,
            certificates=prepared.certificates,
            look=_is_flat,
            symptom=symptom,
            advice=setting.advice,
        )
        fit_plan(self, plan)
        return self

    def _prepare(self, examples: Examples, setting: Setting) -> Preparation:
        """Return the regularizer, and where each problem starts."""
        shape = len(setting.risks), setting.risks[0].n_parameters
        if self.warm_start and hasattr(self, "coef_"):
            previous = self._previous()
            if previous.shape == shape:
                return Preparation(setting.regularizer, [*previous])
        return Preparation(setting.regularizer, [setting.start] * shape[0])

    def _previous(self) -> Matrix:
        """Return the parameters of the last fit as its risks have them, one row a problem."""
        return np.atleast_2d(vars(self).get("_parameters", self.coef_))

    def _l2(self, weights: Vector) -> L2:
        """Return the regularizer for examples with these weights."""
        return l2_of(self.lam, self.C, float(weights.sum()))

    def _rows(self, X: Any) -> Rows:
        return as_rows(X, n_threads=threads_of(self.n_jobs))

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
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return ordered_scores(X, np.atleast_2d(self.coef_), n_threads=threads_of(self.n_jobs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def has_probabilities(classifier: Any) -> bool:
    """Say whether the loss of a classifier implies probabilities, as `available_if` asks it."""
    if classifier.loss_function().probability(np.zeros(1)) is None:
        raise AttributeError(f"the loss {classifier.loss!r} implies no probabilities")
    return True


def n_rows(classes: NDArray[Any]) -> int:
    """Return how many rows of coefficients tell classes apart: of two, one."""
    return 1 if len(classes) == 2 else len(classes)


def require_two_classes(classes: NDArray[Any]) -> None:
    """Raise ValueError if there is nothing to tell apart."""
    if len(classes) < 2:
        found = ", ".join(map(str, classes))
        raise ValueError(f"a classifier needs two classes, got one class only: {found}")


def _is_flat(risk: Any, result: Result) -> bool:
    """Say whether all scores are the same, while targets differ: there was something to find."""
    point: Any = result.point
    targets = risk.terms[0].y if isinstance(risk, SharedScoresRisk) else risk.y
    differ = bool((targets != targets.flat[0]).any())
    return differ and scores_are_equal(point.scores, point.intercept)
