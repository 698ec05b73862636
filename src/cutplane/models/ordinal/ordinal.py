"""Grades: classes that have an order, told apart by thresholds on one score."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.cautions import are_words
from cutplane.estimators.classifier import (
    predict_log_proba,
    require_two_classes,
    with_probabilities,
)
from cutplane.estimators.description import Description, Layout, Targets
from cutplane.estimators.estimator import by_parts, estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear import LinearModel
from cutplane.losses import CLASSIFICATION, Loss, SharedScore
from cutplane.risks import ScoredRisk


@estimator
class OrdinalClassifier(ClassifierMixin, LinearModel):
    """Linear model of grades that minimizes ``lam/2 |w|^2 + mean loss`` over all thresholds.

    One score ``x.w`` is compared with a threshold between each two neighboring grades. Each
    example pays for each threshold (Chu and Keerthi's "all thresholds"), so that being wrong by two
    grades costs more than by one. Thresholds are not regularized, and come out in order. Grades are
    numbers, an ordered pandas Categorical, or anything with ``categories``; only their order
    matters, not their distances.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        "hinge", "squared_hinge", "smooth_hinge", "logistic" or "exponential".
    categories : sequence, optional
        The grades from low to high. By default the order of an ordered pandas Categorical, else
        that of numbers; words without one are sorted, with a `LabelOrderWarning`.
    smoothing : float, default=0.5
        Width of the rounded kink of "smooth_hinge".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The grades that the training data have, from low to high.
    coef_ : ndarray of shape (n_features,)
    thresholds_ : ndarray of shape (n_classes - 1,)
        In ascending order. A score above the first means at least the second grade, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> x = np.arange(12.0)[:, None]
    >>> model = cp.OrdinalClassifier(lam=1e-3).fit(x, np.repeat([1, 2, 3], 4))
    >>> model.predict([[0.0], [5.0], [20.0]])
    array([1, 2, 3])
    """

    description = Description(
        task="ordinal",
        targets=Targets.GRADES,
        losses=CLASSIFICATION,
        intercept="thresholds_",
    )

    loss: str | Loss = field(default="hinge", kw_only=False)
    categories: Any = None
    smoothing: float = 0.5
    predict_log_proba = predict_log_proba

    @by_parts
    def score_samples(self, X: Any) -> Any:
        """Return the one score of each example that the thresholds are for."""
        return self._products(X)[:, 0]

    @by_parts
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

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the grade of each example: as many steps up as thresholds are passed.

        It does not depend on the other rows of ``X``. A score that equals a threshold has not
        passed it.
        """
        above = self.score_samples(X)[:, None] > self.thresholds_
        return self.classes_[above.sum(axis=1)]

    @with_probabilities
    @by_parts
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each grade, for the losses that imply one.

        The loss gives the probability of a grade above each threshold; these are the differences.
        `predict` gives the median of this distribution, which need not be its most probable grade.
        """
        scores = self.score_samples(X)[:, None]
        above: Any = self.loss_function().probability(scores - self.thresholds_)
        everyone = np.ones((len(scores), 1))
        return -np.diff(np.hstack([everyone, above, np.zeros_like(everyone)]), axis=1)

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        self._order = _order_of(self.categories, y)  # validation forgets that of a Categorical
        return super()._examples(X, y, sample_weight, **how)

    def _plan(self, examples: Examples) -> Plan:
        """Return one problem for all thresholds, each with targets that say who is above it."""
        y, weights, loss = examples.y, examples.weights, self.loss_function()
        check_classification_targets(y)
        self.classes_, numbers = _numbered(y, self._order, used=weights > 0.0)
        require_two_classes(self.classes_)
        n_thresholds = len(self.classes_) - 1
        above = np.where(numbers[:, None] > np.arange(n_thresholds), 1.0, -1.0)
        shared = SharedScore([loss] * n_thresholds)
        order, doubt = _in_order(self.classes_), None
        # The order of two grades is a matter of the sign alone.
        if self._order is None and len(self.classes_) > 2 and are_words(self.classes_):
            doubt = (
                f"grades are words, which were put in the order {order}; say theirs by "
                "categories=[...], from low to high, or by an ordered pandas Categorical"
            )
        risk = ScoredRisk(self._rows(examples.X), above, shared, weights=weights)
        return replace(
            self._plan_of(examples, [risk]),
            doubt=doubt,
            advice="try a smaller lam or loss='logistic', and see whether the order is right: "
            f"{order}",
        )

    def layout(self) -> Layout:  # noqa: D102
        return super().layout()._replace(intercepts=len(self.classes_) - 1)

    def _complete(self, shifts: Vector | None) -> None:
        if (self.thresholds_[1:] < self.thresholds_[:-1]).any():
            raise ValueError("thresholds are not in order")

    def _model(self, coef: Matrix, intercept: Matrix) -> Attributes:
        # In order already, as each is a best one; this is for rounding.
        return {"coef_": coef[0], "thresholds_": np.maximum.accumulate(-intercept[0])}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks fit classes that are in no order.
        tags.classifier_tags.poor_score = True
        return tags


def _numbered(
    labels: NDArray[Any], order: list[Any] | None, *, used: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the grades that are used, from low to high, and their number for each example.

    ValueError says that an example that is used has a grade that the order does not have.
    """
    found, numbers = np.unique(labels, return_inverse=True)
    present = set(np.unique(numbers[used]).tolist())
    known = found.tolist()
    order = known if order is None else order
    for place in sorted(present):
        if known[place] not in order:
            raise ValueError(f"y has {known[place]!r}, which is not in {_in_order(order)}")
    place_of = {label: place for place, label in enumerate(known)}
    kept = [place_of[label] for label in order if place_of.get(label) in present]
    rank = np.zeros(len(found), dtype=np.int64)  # those without weight may have any
    rank[kept] = np.arange(len(kept))
    return found[kept], rank[numbers]


def _order_of(categories: Any, y: Any) -> list[Any] | None:
    """Return the order of grades that the user gave, or that ``y`` has, or None."""
    if categories is not None:
        if isinstance(categories, str) or not np.iterable(categories):
            raise ValueError(f"categories must be a sequence of grades, got {categories!r}")
        order = np.asarray(categories).tolist() if hasattr(categories, "dtype") else [*categories]
        if len(order) < 2 or len(set(order)) < len(order):
            raise ValueError(f"categories must be different grades, at least two, got {order!r}")
        return order
    if getattr(y, "ndim", 1) == 2 and hasattr(y, "iloc"):  # a table with one column
        y = y.iloc[:, 0]
    dtype: Any = getattr(y, "dtype", None)
    return list(dtype.categories) if getattr(dtype, "ordered", False) else None


def _in_order(grades: Any) -> str:
    """Return grades in words."""
    return " < ".join(map(str, grades))
