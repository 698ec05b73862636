"""Kernel classification with a certificate: support vector machines, Gaussian processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from cutplane.compute.arrays import Vector
from cutplane.estimators.description import Description, Layout, Measures, Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.kernels.model import SAVED, KernelModel
from cutplane.estimators.linear.classes import (
    ClassScores,
    LogProbabilities,
    class_weights,
    n_rows,
    require_two_classes,
    with_probabilities,
)
from cutplane.losses import CLASSIFICATION
from cutplane.methods.registry import KERNEL_METHODS


@estimator
class KernelClassifier(ClassifierMixin, ClassScores, LogProbabilities, KernelModel):
    """Kernel classifier that minimizes ``lam/2 |f|^2 + mean loss`` over all functions.

    The functions are those of the kernel's space, of whatever dimension, and what is proven holds
    for all of them. With the hinge loss it is the support vector machine of scikit-learn's `SVC`
    with the same ``C``; with the logistic loss, and without an intercept, the most likely function
    of a Gaussian process with the covariance ``k / (lam * n_samples)``.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        "hinge", "squared_hinge", "smooth_hinge", "logistic" or "exponential".
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn.
    smoothing : float, default=0.5
        Width of the rounded kink of "smooth_hinge".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted. More than two are fitted each against the rest.
    intercept_ : ndarray of shape (1,) or (n_classes,)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> import cutplane as cp
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = cp.KernelClassifier(C=1.0).fit(scale(X), y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    _task = "classification"
    description = Description(
        task="kernel-classification",
        targets=Targets.CLASSES,
        losses=CLASSIFICATION,
        methods=KERNEL_METHODS,
        spans_examples=True,
        saved=SAVED,
        measures=Measures.CLASSIFICATION,
        least_classes=2,
    )

    loss: Any = field(default="hinge", kw_only=False)
    class_weight: Any = None
    smoothing: float = 0.5

    @with_probabilities
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, for the losses that imply one.

        Those of more than two classes, each against the rest, are scaled to sum to one.
        """
        return one_against_rest(self.loss_function().probability(self._scores(X)))

    def _plan(self, examples: Examples) -> Plan:
        y, weights = examples.y, examples.weights
        check_classification_targets(y)
        self.classes_ = np.unique(y[weights > 0.0])
        require_two_classes(self.classes_)
        if self.class_weight is not None:
            weights = weights * class_weights(self.class_weight, self.classes_, y, weights)
        plan = self._kernel_plan(examples, self._targets(y), weights)
        advice = "try a smaller lam, another gamma, or class_weight='balanced'"
        return replace(plan, advice=advice)

    def layout(self) -> Layout:  # noqa: D102
        rows = n_rows(self.classes_)
        return super().layout()._replace(rows=rows, intercepts=rows, problems=rows)

    def _targets(self, y: NDArray[Any]) -> Sequence[Vector]:
        """Return the targets of each problem: one for two classes, else each against the rest."""
        classes = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(y == positive, 1.0, -1.0) for positive in classes]


def one_against_rest(probability: Any) -> Any:
    """Return probabilities of all classes: those of two, or of each against the rest, scaled."""
    if probability.shape[1] == 1:
        return np.hstack([1.0 - probability, probability])
    total = probability.sum(axis=1, keepdims=True)
    equal = np.full_like(probability, 1.0 / probability.shape[1])
    return np.divide(probability, total, out=equal, where=total > 0.0)
