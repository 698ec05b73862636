"""Many labels at once: an example may have several of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.state import Result
from cutplane.estimators.description import Description, Targets
from cutplane.estimators.linear import (
    STRENGTH,
    Examples,
    LinearModel,
    Problems,
    look_up,
    weights_of,
)
from cutplane.estimators.sklearn_callbacks import Attributes, with_callbacks
from cutplane.losses import CLASSIFICATION, LabelRanking
from cutplane.maps import as_rows
from cutplane.risks import ColumnsRisk, LinearRisk, ModelRisk

_RANKING = {
    "independent": None,
    "ranking": LabelRanking("all"),
    "worst_pair": LabelRanking("worst"),
}
# The exponential loss wants an infinite intercept for a label that all examples have, or none. With
# this one the loss is zero but for rounding errors, and scores stay finite.
_AS_INFINITE = 700.0


def ranking_loss(multi_label: object, loss: object) -> LabelRanking | None:
    """Return the loss of all labels together, or None if each is fitted by itself.

    Raises
    ------
    ValueError
        If the name is unknown, or does not go with the loss.
    """
    ranking = look_up("multi_label", multi_label, _RANKING)
    if ranking is not None and loss != "hinge":
        raise ValueError(f"multi_label={multi_label!r} needs loss='hinge', got {loss!r}")
    return ranking


class MultilabelClassifier(ClassifierMixin, LinearModel):
    """Linear classifier for examples that may have several labels, or none.

    By default each label is fitted by itself. ``multi_label="ranking"`` minimizes ``lam/2 |W|^2``
    plus the mean hinge loss of pairs of labels: each relevant label should score above each other
    label, and above zero, and the others below zero, all by a margin of one. ``"worst_pair"`` takes
    the worst pair of each example in place of the mean.

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
    C : float, optional
        The same in scikit-learn's terms: ``lam = 1 / (C * n_samples)``, or the sum of weights in
        place of ``n_samples``.
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations; for each label if they are independent.
    time_limit : float, optional
        Limit on seconds for the whole fit.
    method : str or Method, default="auto"
        How to minimize. "auto" takes the level method for ranking, and chooses as
        `LinearClassifier` does for independent labels; others choose by name.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit.
    verbose : int, default=0
        Print the progress if positive.
    n_jobs : int, optional
        Number of threads; all cores by default (results do not depend on it).
    smoothing : float, default=0.5
        Width of the rounded kink of "smooth_hinge".
    callbacks : sequence of callables, default=()
        Each is called with the solver's `State` after every iteration; one that returns true ends
        the fit with the best model so far.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The numbers of the columns, or the classes if ``y`` was a vector of them.
    coef_ : ndarray of shape (n_labels, n_features)
    intercept_ : ndarray of shape (n_labels,)
    multilabel_ : bool
        Whether ``y`` was a matrix.
    certificate_ : Certificate, or a list with one for each independent label
        Objective, lower bound, gap and status.
    history_ : list of Record, or a list with one for each independent label
        The bounds after every iteration.
    n_iter_ : int, or ndarray with one for each independent label
    evaluations_ : int
        Evaluations of the risk, all labels together.
    fit_seconds_ : float
    lam_ : float
        The strength that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> import cutplane as cp
    >>> X, Y = make_multilabel_classification(200, 10, n_classes=4, random_state=0)
    >>> model = cp.MultilabelClassifier(lam=1e-2).fit(X, Y)
    >>> model.predict(X).shape
    (200, 4)
    """

    _task = "classification"
    description = Description(
        targets=Targets.LABEL_SETS,
        losses=CLASSIFICATION,
        saved=STRENGTH | {"multilabel_": (bool, True)},
    )
    _several = "labels"
    _parameters: Matrix  # as the risks have them, for a warm start

    def __init__(
        self,
        multi_label: str = "independent",
        *,
        loss: Any = "hinge",
        lam: float | None = None,
        C: float | None = None,
        tol: float = 1e-3,
        max_iter: int | None = 1000,
        time_limit: float | None = None,
        method: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        smoothing: float = 0.5,
        callbacks: Any = (),
    ) -> None:
        self.multi_label = multi_label
        self.loss = loss
        self.lam = lam
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.method = method
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.smoothing = smoothing
        self.callbacks = callbacks

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Dense data in C or F order and CSR matrices, in float32 or float64, are used as they
            are.
        y : array-like or sparse matrix of shape (n_samples, n_labels)
            1 where an example has a label, 0 elsewhere. A vector of classes is taken for a matrix
            with one label in each row; predictions are then classes, too.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of k counts as k copies, a weight of 0 as none.

        Returns
        -------
        MultilabelClassifier
            The fitted estimator.
        """
        return self._solve(X, y, sample_weight)

    def decision_function(self, X: Any) -> Any:
        """Return the scores of the labels: above zero means relevant.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,) for a vector of two classes
        """
        check_is_fitted(self)
        scores = self._scores(X)
        return scores if self.multilabel_ or scores.shape[1] > 1 else scores[:, 0]

    def predict(self, X: Any) -> Any:
        """Return a matrix with 1 for each label that an example should have, or its class."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0.0).astype(np.int64)
        if scores.ndim == 1:
            return self.classes_[(scores > 0.0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), multi_output=True
        )
        return Examples(X, y, weights_of(X, sample_weight))

    def _problems(self, y: Any, weights: Vector) -> Problems:
        """Return a row of targets for each label: 1 where it is relevant, else -1."""
        check_classification_targets(y)
        relevant = self._relevant(y, weights)
        return Problems(weights, np.ascontiguousarray(np.where(relevant, 1.0, -1.0).T))

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
        if len(self.classes_) < 2:
            found = ", ".join(map(str, self.classes_))
            raise ValueError(f"a classifier needs two classes, got one class only: {found}")
        relevant: NDArray[np.bool_] = y[:, None] == self.classes_
        return relevant[:, 1:] if len(self.classes_) == 2 else relevant

    def _risks(self, X: Any, problems: Problems) -> Sequence[ModelRisk]:
        loss, rows = self.loss_function(), as_rows(X, n_threads=self._n_threads())
        weights, targets = problems
        ranking = ranking_loss(self.multi_label, self.loss)
        if ranking is not None:
            return [ColumnsRisk(rows, targets.T > 0.0, ranking, weights=weights)]
        return [LinearRisk(rows, target, loss, weights=weights) for target in targets]

    def _symptom(self, flat: Sequence[bool], result: Result) -> str | None:
        scores: Any = result.point.scores  # type: ignore[attr-defined]
        if self.multilabel_ and scores.ndim == 2 and not all(flat) and not (scores > 0.0).any():
            return "the best model predicts no label for any training example"
        return super()._symptom(flat, result)

    def _model(self, coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        rows, offsets = coef, np.nan_to_num(intercept, posinf=_AS_INFINITE, neginf=-_AS_INFINITE)
        if intercept.ndim == 2:
            n_labels = intercept.shape[1]
            rows, offsets = coef[0, :-n_labels].reshape(n_labels, -1), intercept[0]
        return {"coef_": rows, "intercept_": offsets, "_parameters": coef}

    def _previous_coef(self) -> Matrix:
        return self._parameters

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags
