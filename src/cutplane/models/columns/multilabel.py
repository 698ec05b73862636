"""Many labels at once: an example may have several of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.certificate import Result
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.collections import by_parts
from cutplane.estimators.description import STRENGTH, Description, Layout, Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear.classes import Joint, joint_loss, n_rows, require_two_classes
from cutplane.estimators.linear.model import LinearModel, flat_symptom, split_off_shifts
from cutplane.losses import CLASSIFICATION, Hinge, LabelRanking
from cutplane.risks import ScoredRisk

MULTI_LABEL = {
    "independent": None,
    "ranking": Joint(LabelRanking("all"), Hinge, "hinge"),
    "worst_pair": Joint(LabelRanking("worst"), Hinge, "hinge"),
}
# The exponential loss wants an infinite intercept for a label that all examples have, or none. With
# this one the loss is zero but for rounding errors, and scores stay finite.
_AS_INFINITE = 700.0


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
    loss: Any = "hinge"
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
        scores: Any = result.point.scores  # type: ignore[attr-defined]
        if self.multilabel_ and scores.ndim == 2 and not all(flat) and not (scores > 0.0).any():
            return "the best model predicts no label for any training example"
        return flat_symptom(flat, result, "labels")

    def _model(self, coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        rows, offsets = coef, np.nan_to_num(intercept, posinf=_AS_INFINITE, neginf=-_AS_INFINITE)
        if intercept.ndim == 2:
            rows, offsets = split_off_shifts(coef, intercept.shape[1]), intercept[0]
        return {"coef_": rows, "intercept_": offsets, "_parameters": coef}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags
