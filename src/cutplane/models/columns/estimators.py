"""Linear models with several outputs: vectors, sets of labels, quantiles in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from cutplane.compute.arrays import Matrix, Vector, dense
from cutplane.core.certificate import Result
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.classifier import Joint, joint_loss, n_rows, require_two_classes
from cutplane.estimators.description import (
    STRENGTH,
    Count,
    Description,
    Layout,
    Measures,
    NotNegative,
    Targets,
    look_up,
)
from cutplane.estimators.estimator import by_parts, estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear import LinearModel, flat_symptom, split_off_shifts
from cutplane.estimators.regressor import validated
from cutplane.losses import (
    CLASSIFICATION,
    VECTORS,
    Hinge,
    LabelRanking,
    Loss,
    NonCrossing,
    Quantile,
    SharedScore,
)
from cutplane.metrics.measures import d2_of_quantiles
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint


@estimator
class VectorRegressor(RegressorMixin, LinearModel):
    """Linear regression of vectors that minimizes ``lam/2 |W|^2 + mean loss``, with a certificate.

    Targets are a matrix of shape (n_samples, n_outputs). The loss looks at the whole row of
    residuals, so that all outputs are fitted in one problem, and what is proven holds for all.

    Parameters
    ----------
    loss : str, default="euclidean"
        "euclidean", the length of the residual, which outliers do little harm to and which does
        not depend on the axes; or "squared", half of its square.
    fit_intercept : bool, default=True
        Whether to fit intercepts. They are not regularized.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
    intercept_ : ndarray of shape (n_outputs,)
    n_outputs_ : int
    vector_ : bool
        Whether ``y`` was a matrix. Predictions of a model that was fitted to a vector are one.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> Y = X @ [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]] + [5.0, 6.0]
    >>> Y[:20] += 100.0  # outliers
    >>> model = cp.VectorRegressor(lam=1e-6).fit(X, Y)
    >>> model.intercept_.round(2), model.certificate_.relative_gap <= 1e-3
    (array([5., 6.]), True)
    """

    description = Description(
        targets=Targets.VECTORS,
        losses=VECTORS,
        saved=STRENGTH | {"n_outputs_": (Count, 1), "vector_": (bool, True)},
    )

    loss: str = field(default="euclidean", kw_only=False)
    fit_intercept: bool = True

    def loss_function(self) -> Any:
        """Return the loss that the parameters describe."""
        return look_up("loss", self.loss, self.description.losses)()

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the prediction for each example, a row of outputs."""
        scores = self._scores(X)
        return scores if self.vector_ else scores[:, 0]

    def layout(self) -> Layout:  # noqa: D102
        self.loss_function()
        if not self.vector_ and self.n_outputs_ > 1:
            raise ValueError(f"{self.n_outputs_} outputs of a model of one")
        return Layout(self.n_outputs_, self.n_outputs_)

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        return super()._examples(X, y, sample_weight, multi_output=True)

    def _plan(self, examples: Examples) -> Plan:
        y, weights = np.asarray(examples.y, dtype=np.float64), examples.weights
        self.vector_ = y.ndim == 2
        columns = y.reshape(len(y), -1)
        self.n_outputs_ = columns.shape[1]
        # Targets around zero, so that large ones leave no rounding.
        self._shift = np.zeros(self.n_outputs_)
        if self.fit_intercept and weights.any():
            self._shift = np.average(columns, axis=0, weights=weights)
        risk = ScoredRisk(
            self._rows(examples.X),
            columns - self._shift,
            self.loss_function(),
            weights=weights,
            intercept=self.fit_intercept,
        )
        return self._plan_of(examples, [risk], varied=bool(np.ptp(columns, axis=0).any()))

    def _model(self, coef: Matrix, intercept: Matrix) -> Attributes:
        rows = np.ascontiguousarray(coef.reshape(self.n_outputs_, -1))
        return {"coef_": rows, "intercept_": intercept[0] + self._shift}

    def _previous(self) -> Matrix:
        return np.reshape(dense(self.coef_), (1, -1))


MULTI_LABEL = {
    "independent": None,
    "ranking": Joint(LabelRanking("all"), Hinge, "hinge"),
    "worst_pair": Joint(LabelRanking("worst"), Hinge, "hinge"),
}


@estimator
class MultilabelClassifier(ClassifierMixin, LinearModel):
    """Linear classifier for examples that may have several labels, or none.

    By default each label is fitted by itself. ``multi_label="ranking"`` minimizes ``lam/2 |W|^2``
    plus the mean hinge loss of pairs of labels: each relevant label should score above each other
    label, and above zero, and the others below zero, all by a margin of one. ``"worst_pair"`` takes
    the worst pair of each example in place of the mean.

    Targets are a matrix, dense or sparse, of shape (n_samples, n_labels): 1 where an example has a
    label, 0 elsewhere. A vector of classes is taken for a matrix with one label in each row;
    predictions are then classes, too.

    Parameters
    ----------
    multi_label : {"independent", "ranking", "worst_pair"}, default="independent"
        Whether each label is fitted by itself, with a certificate for each, or all are fitted
        together, with one certificate.
    loss : str or Loss, default="hinge"
        The loss of independent labels: "hinge", "squared_hinge", "smooth_hinge", "logistic" or
        "exponential". Ranking extends "hinge", and takes no other.
    lam : float, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given. With ranking a 900th of it holds
        the intercepts near 1 or -1, whichever most examples have, as seen from the mean of the
        features; those of independent labels are free.
    max_iter : int or None, default=1000
        Limit on iterations; for each label if they are independent.
    smoothing : float, default=0.5
        Width of the rounded kink of "smooth_hinge".

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The numbers of the columns, or the classes if ``y`` was a vector of them.
    coef_ : ndarray of shape (n_labels, n_features)
    intercept_ : ndarray of shape (n_labels,)
    multilabel_ : bool
        Whether ``y`` was a matrix.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> import cutplane as cp
    >>> X, Y = make_multilabel_classification(200, 10, n_classes=4, random_state=0)
    >>> model = cp.MultilabelClassifier(lam=1e-2).fit(X, Y)
    >>> model.predict(X).shape
    (200, 4)
    """

    description = Description(
        task="multilabel",
        targets=Targets.LABEL_SETS,
        losses=CLASSIFICATION,
        saved=STRENGTH | {"multilabel_": (bool, True)},
    )

    multi_label: str = field(default="independent", kw_only=False)
    loss: str | Loss = "hinge"
    smoothing: float = 0.5

    @by_parts
    def decision_function(self, X: Any) -> Any:
        """Return the scores of the labels: above zero means relevant.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,) for a vector of two classes
        """
        scores = self._scores(X)
        return scores if self.multilabel_ or scores.shape[1] > 1 else scores[:, 0]

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return a matrix with 1 for each label that an example should have, or its class."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0.0).astype(np.int64)
        if scores.ndim == 1:
            return self.classes_[(scores > 0.0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]

    def layout(self) -> Layout:  # noqa: D102
        n_labels = len(self.classes_)
        if not self.multilabel_:
            require_two_classes(self.classes_)
        elif not np.array_equal(self.classes_, range(n_labels)):
            raise ValueError("labels are not numbered from 0 on")
        rows = n_labels if self.multilabel_ else n_rows(self.classes_)
        if joint_loss(self, "multi_label", MULTI_LABEL) is not None:
            return Layout(rows, rows, shifts=rows)
        return super().layout()._replace(rows=rows, intercepts=rows, problems=rows)

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        return super()._examples(X, y, sample_weight, multi_output=True)

    def _plan(self, examples: Examples) -> Plan:
        check_classification_targets(examples.y)
        relevant, weights = self._relevant(examples.y, examples.weights), examples.weights
        rows, loss = self._rows(examples.X), self.loss_function()
        ranking = joint_loss(self, "multi_label", MULTI_LABEL)
        if ranking is not None:
            risks = [ScoredRisk(rows, relevant, ranking, weights=weights)]
        else:
            targets = np.ascontiguousarray(np.where(relevant, 1.0, -1.0).T)
            risks = [ScoredRisk(rows, target, loss, weights=weights) for target in targets]
        return replace(self._plan_of(examples, risks), symptom=self._symptom)

    def _relevant(self, y: Any, weights: Vector) -> NDArray[np.bool_]:
        """Return which labels each example has, and remember what the labels are."""
        kind = type_of_target(y)
        if hasattr(y, "toarray"):  # a sparse matrix
            y = y.toarray()
        self.multilabel_ = kind == "multilabel-indicator"
        if self.multilabel_:
            self.classes_ = np.arange(y.shape[1])
            return np.asarray(y != 0)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y.ravel()
        if y.ndim != 1:
            raise ValueError(f"y must be a matrix of 0 and 1, or a vector of classes, got {kind}")
        self.classes_ = np.unique(y[weights > 0.0])
        require_two_classes(self.classes_)
        relevant: NDArray[np.bool_] = y[:, None] == self.classes_
        return relevant[:, 1:] if len(self.classes_) == 2 else relevant

    def _symptom(self, flat: Sequence[bool], result: Result) -> str | None:
        assert isinstance(result.point, ScoredPoint)
        scores = result.point.scores
        if self.multilabel_ and scores.ndim == 2 and not all(flat) and not (scores > 0.0).any():
            return "the best model predicts no label for any training example"
        return flat_symptom(flat, result, "labels")

    def _model(self, coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        # The exponential loss wants an infinite intercept for a label that all examples have, or
        # none. With this one the loss is zero but for rounding errors, and scores stay finite.
        rows, offsets = coef, np.nan_to_num(intercept, posinf=700.0, neginf=-700.0)
        if intercept.ndim == 2:
            rows, offsets = split_off_shifts(coef, intercept.shape[1]), intercept[0]
        return {"coef_": rows, "intercept_": offsets, "_parameters": coef}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


@estimator
class LinearQuantiles(LinearModel):
    """Linear models of several quantiles, fitted together so that they do not cross.

    It minimizes ``lam/2 |W|^2`` plus the mean of the quantiles' pinball losses, added up, and a
    penalty on each training example at which a lower quantile is above a higher one. Predictions
    are sorted, so that no prediction ever crosses, wherever it is made.

    Parameters
    ----------
    quantiles : sequence of floats, default=(0.1, 0.5, 0.9)
        Strictly between 0 and 1, in ascending order.
    parallel : bool, default=False
        Give all quantiles the same slopes and each an intercept of its own (composite quantile
        regression). Such quantiles cannot cross, and the penalty has no part.
    crossing_penalty : float, default=1.0
        Price of a unit of crossing at an example, for each two neighboring quantiles.
    lam : float, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given. Unless they are parallel, a 900th
        of it holds the intercepts near the quantiles of the targets, as seen from the mean of the
        features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_quantiles, n_features)
    intercept_ : ndarray of shape (n_quantiles,)
    largest_crossing_ : float
        By how much a lower quantile is above the next one at a training example at most, before
        sorting; 0.0 if nowhere.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import cutplane as cp
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = cp.LinearQuantiles([0.1, 0.5, 0.9], lam=1e-5).fit(X, y)
    >>> model.predict(X).shape
    (442, 3)
    """

    description = Description(
        task="quantiles",
        only_loss="quantiles",
        targets=Targets.NUMBERS,
        measures=Measures.QUANTILES,
        saved=STRENGTH | {"largest_crossing_": (NotNegative | None, None)},
    )

    quantiles: Any = field(default=(0.1, 0.5, 0.9), kw_only=False)
    parallel: bool = False
    crossing_penalty: float = 1.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: D102
        super().fit(X, y, sample_weight)
        falls = -np.diff(self._scores(X), axis=1)
        self.largest_crossing_ = max(float(falls.max(initial=0.0)), 0.0)
        return self

    fit.__doc__ = LinearModel.fit.__doc__

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the quantiles of each example, sorted.

        Sorting never raises the pinball losses of all quantiles together (Chernozhukov et al.
        2010).

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles)
        """
        return np.sort(self._scores(X), axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return by which share the pinball losses are below those of constant quantiles."""
        quantiles = np.asarray(self.quantiles, dtype=np.float64)
        return validated(
            lambda y, predicted, weights: d2_of_quantiles(y, predicted, quantiles, weights),
            y,
            self.predict(X),
            sample_weight,
        )

    def layout(self) -> Layout:  # noqa: D102
        n_quantiles = len(NonCrossing(self.quantiles, self.crossing_penalty).quantiles)
        return Layout(n_quantiles, n_quantiles, shifts=0 if self.parallel else n_quantiles)

    def _complete(self, shifts: Vector | None) -> None:
        super()._complete(shifts)
        if self.parallel:
            if (self.coef_ != self.coef_[0]).any():
                raise ValueError("parallel quantiles with different slopes")
            self._parameters = self.coef_[:1]

    def _unused(self) -> dict[str, str]:
        return {"crossing_penalty": "with parallel=True"} if self.parallel else {}

    def _plan(self, examples: Examples) -> Plan:
        y, weights = np.asarray(examples.y, dtype=np.float64), examples.weights
        # Targets around zero, so that large ones leave no rounding.
        self._shift = float(np.average(y, weights=weights)) if weights.any() else 0.0
        centered, rows = y - self._shift, self._rows(examples.X)
        loss = NonCrossing(self.quantiles, self.crossing_penalty)
        shared = SharedScore([Quantile(quantile) for quantile in loss.quantiles.tolist()])
        risk = ScoredRisk(rows, centered, shared if self.parallel else loss, weights=weights)
        return self._plan_of(examples, [risk], varied=bool(np.ptp(y) > 0.0))

    def _model(self, coef: Matrix, intercept: Matrix) -> Attributes:
        n_quantiles = intercept.shape[1]
        if self.parallel:
            rows = np.repeat(coef, n_quantiles, axis=0)
        else:
            rows = split_off_shifts(coef, n_quantiles)
        return {"coef_": rows, "intercept_": intercept[0] + self._shift, "_parameters": coef}
