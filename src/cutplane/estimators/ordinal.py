"""Grades: classes that have an order, told apart by thresholds on one score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.cautions import are_words
from cutplane.estimators.description import Description, Measures, Targets
from cutplane.estimators.grades import Grades, in_order, order_of
from cutplane.estimators.linear import STRENGTH, Examples, LinearModel, Problems
from cutplane.estimators.sklearn_callbacks import Attributes, with_callbacks
from cutplane.losses import CLASSIFICATION
from cutplane.maps import as_rows
from cutplane.risks import ModelRisk, SharedScoresRisk


def _loss_has_probability(classifier: OrdinalClassifier) -> bool:
    if classifier.loss_function().probability(np.zeros(1)) is None:
        raise AttributeError(f"the loss {classifier.loss!r} implies no probabilities")
    return True


class OrdinalClassifier(ClassifierMixin, LinearModel):
    """Linear model of grades that minimizes ``lam/2 |w|^2 + mean loss`` over all thresholds.

    One score ``x.w`` is compared with a threshold between each two neighboring grades. Each
    example pays for each threshold (Chu and Keerthi's "all thresholds"), so that being wrong by two
    grades costs more than by one. Thresholds are not regularized, and come out in order.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        "hinge", "squared_hinge", "smooth_hinge", "logistic" or "exponential".
    categories : sequence, optional
        The grades from low to high. By default the order of an ordered pandas Categorical, else
        that of numbers; words without one are sorted, with a `LabelOrderWarning`.
    lam : float, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given.
    C : float, optional
        The same in scikit-learn's terms: ``lam = 1 / (C * n_samples)``, or the sum of weights in
        place of ``n_samples``.
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations.
    time_limit : float, optional
        Limit on seconds for the whole fit.
    method : str or Method, default="auto"
        How to minimize. "auto" takes a bundle method with a line search; "bmrm",
        "limited-memory" and others choose by name.
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
    classes_ : ndarray of shape (n_classes,)
        The grades that the training data have, from low to high.
    coef_ : ndarray of shape (n_features,)
    thresholds_ : ndarray of shape (n_classes - 1,)
        In ascending order. A score above the first means at least the second grade, and so on.
    certificate_ : Certificate
        Objective, lower bound, gap and status.
    history_ : list of Record
        The bounds after every iteration.
    n_iter_ : int
    evaluations_ : int
        Evaluations of the risk.
    fit_seconds_ : float
    lam_ : float
        The strength that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> x = np.arange(12.0)[:, None]
    >>> model = cp.OrdinalClassifier(lam=1e-3).fit(x, np.repeat([1, 2, 3], 4))
    >>> model.predict([[0.0], [5.0], [20.0]])
    array([1, 2, 3])
    """

    _task = "classification"
    description = Description(
        task="ordinal",
        targets=Targets.GRADES,
        losses=CLASSIFICATION,
        measures=Measures.CLASSIFICATION,
        saved=STRENGTH,
    )

    def __init__(
        self,
        loss: Any = "hinge",
        *,
        categories: Any = None,
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
        self.loss = loss
        self.categories = categories
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
        y : array-like of shape (n_samples,)
            Grades: numbers, an ordered pandas Categorical, or anything with ``categories``. Only
            their order matters, not their distances.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of k counts as k copies, a weight of 0 as none.

        Returns
        -------
        OrdinalClassifier
            The fitted estimator.
        """
        return self._solve(X, y, sample_weight)

    def score_samples(self, X: Any) -> Any:
        """Return the one score of each example that the thresholds are for."""
        check_is_fitted(self)
        return self._products(X)[:, 0]

    def decision_function(self, X: Any) -> Any:
        """Return a value for each grade, of which the largest is the prediction.

        From one grade to the next the value grows by how far the score is above the threshold
        between them. For two grades only that difference is returned, as scikit-learn does.

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) for more than two grades
        """
        above = self.score_samples(X)[:, None] - self.thresholds_
        if above.shape[1] == 1:
            return above[:, 0]
        return np.hstack([np.zeros((len(above), 1)), above.cumsum(axis=1)])

    def predict(self, X: Any) -> Any:
        """Return the grade of each example: as many steps up as thresholds are passed.

        It does not depend on the other rows of ``X``. A score that equals a threshold has not
        passed it.
        """
        above = self.score_samples(X)[:, None] > self.thresholds_
        return self.classes_[above.sum(axis=1)]

    @available_if(_loss_has_probability)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each grade, for the losses that imply one.

        The loss gives the probability of a grade above each threshold; these are the differences.
        `predict` gives the median of this distribution, which need not be its most probable grade.
        """
        scores = self.score_samples(X)[:, None]
        above: Any = self.loss_function().probability(scores - self.thresholds_)
        everyone = np.ones((len(scores), 1))
        return -np.diff(np.hstack([everyone, above, np.zeros_like(everyone)]), axis=1)

    @available_if(_loss_has_probability)
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        examples = super()._examples(X, y, sample_weight)
        order = order_of(self.categories, y)
        return examples._replace(y=Grades(examples.y, order))

    def _problems(self, y: Grades, weights: Vector) -> Problems:
        """Return a row of targets for each threshold: which grades are above it."""
        check_classification_targets(y.labels)
        self.classes_, numbers = y.numbered(weights > 0.0)
        if len(self.classes_) < 2:
            found = ", ".join(map(str, self.classes_))
            raise ValueError(f"a classifier needs two classes, got one class only: {found}")
        thresholds = np.arange(len(self.classes_) - 1)
        return Problems(weights, np.where(numbers > thresholds[:, None], 1.0, -1.0))

    def _doubt_about_labels(self, y: Grades, weights: Vector) -> str | None:
        # The order of two grades is a matter of the sign alone.
        if y.order is not None or len(self.classes_) < 3 or not are_words(self.classes_):
            return None
        return (
            f"grades are words, which were put in the order {in_order(self.classes_)}; say theirs "
            "by categories=[...], from low to high, or by an ordered pandas Categorical"
        )

    def _advice(self) -> str:
        order = in_order(self.classes_)
        return f"try a smaller lam or loss='logistic', and see whether the order is right: {order}"

    def _seen_by_callbacks(self, y: Grades, sample_weight: Any) -> dict[str, Any]:
        return super()._seen_by_callbacks(y.labels, sample_weight)

    def _risks(self, X: Any, problems: Problems) -> Sequence[ModelRisk]:
        """Return one risk for all thresholds."""
        loss, rows = self.loss_function(), as_rows(X, n_threads=self._n_threads())
        terms = [(above, loss) for above in problems.targets]
        return [SharedScoresRisk(rows, terms, weights=problems.weights)]

    def _model(self, coef: Matrix, intercept: Matrix) -> Attributes:
        # In order already, as each is a best one; this is for rounding.
        return {"coef_": coef[0], "thresholds_": np.maximum.accumulate(-intercept[0])}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks fit classes that are in no order.
        tags.classifier_tags.poor_score = True
        return tags
