"""Linear classification with a certificate, and how a classifier tells classes apart.

Of two classes one is positive, which measures such as F1 count. Whatever it is, classes stay sorted
and scores above zero mean the second one, as scikit-learn has it. Where the first class is looked
for, a loss that tells the classes apart is fitted to targets of the opposite sign, and the
coefficients are turned around afterwards.

More than two classes are fitted one against the rest, or all at once, with a loss that extends the
one of two classes. Then it may cost more to take one for another than to take it for a third.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.certificate import Result
from cutplane.data import AllPairs
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.cautions import are_words
from cutplane.estimators.description import (
    STRENGTH,
    Description,
    Layout,
    NotNegative,
    Targets,
    look_up,
    weights_of,
)
from cutplane.estimators.estimator import by_parts, estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear import FLOATS, LinearModel, Penalized, can_stream, flat_symptom
from cutplane.losses import (
    CLASSIFICATION,
    MEASURES,
    NU_CLASSIFICATION,
    ROBUST_CLASSIFICATION,
    CrammerSinger,
    Hinge,
    Logistic,
    Loss,
    MulticlassLoss,
    NuHinge,
    Softmax,
)
from cutplane.losses.loss import ScoreLoss
from cutplane.models.measures.measures import CountingMeasure, Measure
from cutplane.models.multiclass.losses import checked_costs
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.registry import ROBUST_METHODS

OfAll = TypeVar("OfAll", bound=ScoreLoss)


@dataclass(frozen=True)
class Joint(Generic[OfAll]):
    """A loss of all classes or labels together, and the loss of one that it extends."""

    loss: OfAll
    extends: type[Loss]
    extended_name: str


MULTI_CLASS: dict[str, Joint[MulticlassLoss] | None] = {
    "ovr": None,
    "crammer_singer": Joint(CrammerSinger(), Hinge, "hinge"),
    "softmax": Joint(Softmax(), Logistic, "logistic"),
}
"""Ways to tell classes apart, by name; None is one against the rest."""


def joint_loss(
    model: LinearModel, parameter: str, known: Mapping[str, Joint[OfAll] | None]
) -> OfAll | None:
    """Return the loss of all classes or labels together, or None if each is fitted by itself.

    ValueError says that the parameter's value is unknown, or does not go with the loss.
    """
    value = getattr(model, parameter)
    joint = look_up(parameter, value, known)
    if joint is None:
        return None
    if not isinstance(model.loss_function(), joint.extends):
        raise ValueError(
            f"{parameter}={value!r} needs loss={joint.extended_name!r}, got {model.loss!r}"
        )
    return joint.loss


def n_rows(classes: NDArray[Any]) -> int:
    """Return how many rows of coefficients tell classes apart: of two, one."""
    return 1 if len(classes) == 2 else len(classes)


def require_two_classes(classes: NDArray[Any]) -> None:
    """Raise ValueError if there is nothing to tell apart."""
    if len(classes) < 2:
        raise too_few(classes)


def too_few(classes: NDArray[Any]) -> ValueError:
    """Return the error for classes among which there is nothing to tell apart."""
    found = f"one class only: {classes[0]}" if len(classes) else "none"
    return ValueError(f"a classifier needs two classes, got {found}")


def targets_of(y: NDArray[Any], classes: NDArray[Any]) -> list[Vector]:
    """Return the targets of each problem: one for two classes, else each against the rest."""
    positives = classes[1:] if len(classes) == 2 else classes
    return [np.where(y == positive, 1.0, -1.0) for positive in positives]


def has_probabilities(classifier: Any) -> bool:
    """Say whether the loss of a classifier implies probabilities, as `available_if` asks it."""
    if classifier.loss_function().probability(np.zeros(1)) is None:
        raise AttributeError(
            f"the loss {classifier.loss!r} implies no probabilities: fit with loss='logistic', or "
            "calibrate the scores by CalibratedClassifierCV of scikit-learn"
        )
    return True


class with_probabilities:
    """A method that is there if the loss implies probabilities, and says why where it is not.

    scikit-learn's `available_if` does the same, but hides the reason behind a message of its own.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__, self.__name__ = method.__doc__, method.__name__

    def __get__(self, classifier: Any, owner: type[Any]) -> Any:
        if classifier is None:
            return self._method
        has_probabilities(classifier)
        return MethodType(self._method, classifier)


class ClassScores:
    """For classifiers with a score for each class, or one for two classes."""

    @by_parts
    def decision_function(self, X: Any) -> Any:
        """Return the scores: above zero means the second class.

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) for more than two classes
        """
        scores = self._scores(X)  # type: ignore[attr-defined]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the class of each example.

        It does not depend on the other rows of ``X``. Of classes with the same score, the one that
        comes first in ``classes_``.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            # A score of zero is not the class that is looked for.
            turned = self._is_turned()  # type: ignore[attr-defined]
            second = scores >= 0.0 if turned else scores > 0.0
            return self.classes_[second.astype(np.intp)]  # type: ignore[attr-defined]
        return self.classes_[scores.argmax(axis=1)]  # type: ignore[attr-defined]


def one_against_rest(probability: Any) -> Any:
    """Return probabilities of all classes: those of two, or of each against the rest, scaled."""
    if probability.shape[1] == 1:
        return np.hstack([1.0 - probability, probability])
    total = probability.sum(axis=1, keepdims=True)
    equal = np.full_like(probability, 1.0 / probability.shape[1])
    return np.divide(probability, total, out=equal, where=total > 0.0)


@with_probabilities
def predict_log_proba(self: Any, X: Any) -> Any:
    """Return the logarithm of `predict_proba`."""
    with np.errstate(divide="ignore"):
        return np.log(self.predict_proba(X))


def split_by_class(
    coef: Matrix, intercept: NDArray[np.float64]
) -> tuple[Matrix, NDArray[np.float64]]:
    """Return one row of coefficients a class, from one long row for all of them.

    Of two classes the difference is returned, which is what scikit-learn's users expect: above zero
    means the second class.
    """
    n_classes = intercept.shape[1]
    rows, offsets = coef.reshape(n_classes, -1), intercept[0]
    if n_classes == 2:
        return rows[1:] - rows[:1], offsets[1:] - offsets[:1]
    return rows, offsets


def joined(coef: Matrix) -> Matrix:
    """Return one long row for all classes: what `split_by_class` would take apart."""
    if len(coef) == 1:
        # Of all pairs with this difference the one that the regularizer likes best.
        coef = np.vstack([-0.5 * coef, 0.5 * coef])
    return coef.reshape(1, -1)


# They do not change when the classes change places.
_SYMMETRIC: tuple[Any, ...] = (
    *CLASSIFICATION.values(),
    *NU_CLASSIFICATION.values(),
    *ROBUST_CLASSIFICATION.values(),
)


def check_pos_label(pos_label: Any, classes: NDArray[Any]) -> None:
    """Raise ValueError unless it is one of two classes, or None."""
    if pos_label is None:
        return
    labels = classes.tolist()
    if len(labels) != 2:
        raise ValueError(f"pos_label is for two classes, y has {len(labels)}")
    if pos_label not in labels:
        raise ValueError(
            f"pos_label={pos_label!r} is not one of the classes {labels[0]!r} and {labels[1]!r}"
        )


def doubt_about_positive(name: str, classes: NDArray[Any], y: NDArray[Any]) -> str | None:
    """Return a warning if words do not tell which class is meant, and the larger one was taken.

    For losses that count what is found of one class, by their ``name``.
    """
    if len(classes) != 2 or not are_words(classes):
        return None
    other, taken = classes.tolist()
    if 2 * np.count_nonzero(y == taken) <= len(y):
        return None
    return (
        f"the loss {name} is trained to find {taken!r}, the larger class; to find {other!r} say "
        f"pos_label={other!r} (on the command line --positive {other}), and if {taken!r} is meant, "
        f"pos_label={taken!r}"
    )


def class_weights(
    class_weight: Any, classes: NDArray[Any], y: NDArray[Any], weights: Vector
) -> Vector:
    """Return the weight of each example's class; zero where that is none of the classes."""
    used = np.isin(y, classes)
    index = np.searchsorted(classes, y[used])
    masses = np.zeros(len(classes))
    masses += np.bincount(index, weights=weights[used], minlength=len(classes))
    result = np.zeros(len(y))
    result[used] = class_factors(class_weight, classes, masses)[index]
    return result


def class_factors(class_weight: Any, classes: NDArray[Any], masses: Vector) -> Vector:
    """Return what the weights of each class are multiplied by, from the sum of these weights."""
    if class_weight == "balanced":
        # By weight, not by count, so that a weight of k stays the same as k copies.
        factors: Vector = masses.sum() / (len(classes) * masses)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if not (factors > 0.0).all():
        raise ValueError(f"class weights must be positive, got {class_weight}")
    return factors


def cost_matrix(costs: Any, classes: NDArray[Any]) -> Matrix:
    """Return costs with a row for each true class and a column for each that is predicted.

    Parameters
    ----------
    costs : array-like, mapping or data frame
        A matrix in the order of the classes; or ``costs[true][predicted]``, of all pairs of
        different classes; or a data frame with classes for index and columns.
    classes : ndarray
        The classes, sorted.

    Raises
    ------
    ValueError
        If they are not the costs of these classes.
    """
    if hasattr(costs, "iloc"):
        costs = costs.to_dict("index")
    if isinstance(costs, Mapping):
        return checked_costs(_from_names(costs, classes))
    matrix = checked_costs(costs)
    if len(matrix) != len(classes):
        raise ValueError(f"costs are for {len(matrix)} classes, there are {len(classes)}")
    return matrix


def _from_names(costs: Mapping[Any, Mapping[Any, Any]], classes: NDArray[Any]) -> Matrix:
    k = len(classes)
    matrix = np.full((k, k), np.nan)
    np.fill_diagonal(matrix, 0.0)
    for true, row in costs.items():
        if not isinstance(row, Mapping):
            raise ValueError(f"costs of {true!r} must say what each class costs, got {row!r}")
        for predicted, cost in row.items():
            matrix[_place(true, classes), _place(predicted, classes)] = cost
    if np.isnan(matrix).any():
        i, j = np.argwhere(np.isnan(matrix))[0]
        raise ValueError(
            f"costs do not say what it costs to predict {classes[j]!s} where {classes[i]!s} is true"
        )
    return matrix


def _place(label: Any, classes: NDArray[Any]) -> int:
    """Return the number of a class; numbers may be given as texts, as they stand in files."""
    words = classes.dtype.kind in "OUS"
    try:
        found = np.flatnonzero(
            classes.astype(str) == str(label) if words else classes == float(label)
        )
    except (TypeError, ValueError):
        found = np.zeros(0, dtype=np.int64)
    if not len(found):
        raise ValueError(f"costs are for a class {label!r} that is none of y")
    return int(found[0])


@estimator
class LinearClassifier(ClassifierMixin, ClassScores, Penalized):
    """Linear classifier that minimizes ``lam/2 |w|^2 + mean loss`` and proves how close it came.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        "hinge", "squared_hinge", "smooth_hinge", "logistic" or "exponential"; "nu_hinge", whose
        margin follows from a share ``nu`` of the examples; or a measure of the whole sample:
        "error_rate", "f1", "f_beta", "precision_at_k", "recall_at_k", "break_even" or "roc_area";
        or one that wrong labels do little harm to, which is not convex, so that nothing is proven:
        "ramp" or "smooth_ramp".
    multi_class : {"ovr", "crammer_singer", "softmax"}, default="ovr"
        How more than two classes are told apart. "ovr" fits each against the rest, with any loss.
        The others fit all classes at once, with one certificate: "crammer_singer" extends
        ``loss="hinge"``, "softmax" (multinomial logistic regression) extends ``loss="logistic"``.
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is not regularized. Losses for the top of a ranking and for
        the ROC area do not depend on it: for them it is set after the fit, so that as many training
        examples are predicted positive as the measure asks for, or the error is smallest.
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn.
    costs : array-like of shape (n_classes, n_classes), mapping or data frame, optional
        What it costs to predict a class where another is true, for ``multi_class`` other than
        "ovr": scores shall differ by that much. A row for each true class in the order of
        ``classes_``, zeros on the diagonal; or ``costs[true][predicted]``; or a data frame with the
        classes for index and columns. By default 1 for "crammer_singer", 0 for "softmax".
    pos_label : label, optional
        Which of two classes is looked for: the one whose precision and recall the measures count.
        By default the second one of ``classes_``. Losses that treat both classes alike, such as
        "hinge", give the same model either way.
    max_iter : int or None, default=1000
        Limit on iterations; for each class if more than two are fitted one against the rest.
    smoothing : float, default=0.5
        Width of the rounded kinks of "smooth_hinge" and "smooth_ramp".
    nu : float, default=0.5
        With "nu_hinge", the largest share of examples that are inside the margin. It is at most
        twice the share of the smaller class.
    clip : float, default=2.0
        The most that an example can cost with "ramp" or "smooth_ramp".
    n_starts : int, default=1
        How many starts to try with a loss that is not convex: the solution of a convex one, then
        those of bootstrap samples. The best is kept.
    random_state : int or None, default=0
        Seed of the bootstrap samples.
    beta : float, default=1.0
        How much more recall counts than precision, for "f_beta".
    k : int or float, default=0.1
        How many examples "precision_at_k" and "recall_at_k" look at: a count, or below 1 a share of
        the sample.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted, whatever ``pos_label`` is.
    positive_class_ : label
        The one of two classes that is looked for.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        One row for two classes; scores above zero mean the second one.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    costs_ : ndarray of shape (n_classes, n_classes) or None
        The costs, in the order of ``classes_``.
    start_certificate_ : Certificate, or a list with one for each class against the rest
        Only with a loss that is not convex: what is proven of the convex fit that was the start.
    start_objectives_ : ndarray of shape (n_starts,), or a list of them
        Only with a loss that is not convex: the objective that was reached from each start.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> import cutplane as cp
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = cp.LinearClassifier(lam=1e-2).fit(scale(X), y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    description = Description(
        task="classification",
        targets=Targets.CLASSES,
        losses=CLASSIFICATION | NU_CLASSIFICATION | MEASURES | ROBUST_CLASSIFICATION,
        methods=ROBUST_METHODS,
        saved=STRENGTH | {"costs_": (list[list[NotNegative]] | None, None)},
    )

    loss: str | Loss = field(default="hinge", kw_only=False)
    multi_class: str = "ovr"
    fit_intercept: bool = True
    class_weight: Any = None
    costs: Any = None
    pos_label: Any = None
    smoothing: float = 0.5
    nu: float = 0.5
    clip: float = 2.0
    n_starts: int = 1
    random_state: int | None = 0  # type: ignore[assignment]
    beta: float = 1.0
    k: float = 0.1
    predict_log_proba = predict_log_proba

    @available_if(can_stream)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        window: int | None = None,
    ) -> Self:
        """Learn from a batch of a stream, each example once; see docs/streams.md.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All classes that the stream will have; needed in the first call, unless the model was
            fitted to them before.
        sample_weight : array-like of shape (n_samples,), optional
        window : int, optional
            How many examples, the last ones, are kept for `certify`, and how many the model is to
            follow if the stream changes. None leaves it as it is: at first none are kept, and
            older examples count as much as new ones.

        Returns
        -------
        LinearClassifier
            Itself. ``n_seen_`` is how many examples it has seen, ``seen_lower_bound_`` what no
            model's objective on all of them is below.
        """
        from cutplane.estimators.streams import batch, learn

        with batch(self, X):
            begins = self._memory is None
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, reset=begins)
            if begins and classes is not None:
                self.__dict__.pop("classes_", None)
            _check_partial_fit_first_call(self, classes)
            require_two_classes(self.classes_)
            check_pos_label(self.pos_label, self.classes_)
            strange = sorted(map(repr, set(y.tolist()) - set(self.classes_.tolist())))
            if strange:
                more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
                raise ValueError(
                    "y has labels that are not among the classes: "
                    f"{', '.join(strange[:5])}{more}; the first call of partial_fit must name all "
                    "classes"
                )
            weights = weights_of(sample_weight, X.shape[0])
        if isinstance(self.class_weight, dict):
            given = [self.class_weight.get(label, 1.0) for label in self.classes_.tolist()]
            weights = weights * np.asarray(given)[np.searchsorted(self.classes_, y)]
        order = self.classes_[::-1] if self._is_turned() else self.classes_
        return learn(self, X, targets_of(y, order), weights, window)

    @with_probabilities
    @by_parts
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, for the losses that imply one.

        Those of more than two classes, each against the rest, are scaled to sum to one; with
        ``multi_class="softmax"`` they do so by themselves.
        """
        scores, joint = self._scores(X), self._joint_loss()
        if joint is not None and scores.shape[1] > 1:
            return joint.probability(scores)
        return one_against_rest(self.loss_function().probability(scores))

    @property
    def positive_class_(self) -> Any:
        """The one of two classes that is looked for."""
        check_is_fitted(self)
        if len(self.classes_) != 2:
            raise AttributeError(
                f"there are {len(self.classes_)} classes, none is the positive one"
            )
        return self.classes_[1] if self.pos_label is None else self.pos_label

    def layout(self) -> Layout:  # noqa: D102
        rows = n_rows(self.classes_)
        problems = rows if self._joint_loss() is None else 1
        return super().layout()._replace(rows=rows, intercepts=rows, problems=problems)

    def _complete(self, shifts: Vector | None) -> None:
        check_pos_label(self.pos_label, self.classes_)
        self.costs = getattr(self, "costs_", None)  # a file has them as lists
        self.costs_ = self._costs()

    def _is_turned(self) -> bool:
        """Say whether what was fitted is the first of two classes, against the second."""
        if self.pos_label is None or isinstance(self.loss_function(), _SYMMETRIC):
            return False
        return len(self.classes_) == 2 and bool(self.pos_label == self.classes_.tolist()[0])

    def _joint_loss(self) -> MulticlassLoss | None:
        """Return the loss of all classes together, or None for one against the rest."""
        joint: MulticlassLoss | None = None
        if self.multi_class != "ovr":
            joint = joint_loss(self, "multi_class", MULTI_CLASS)
        if joint is None and self.costs is not None:
            raise ValueError(
                "costs are for all classes at once: multi_class='crammer_singer' or 'softmax'"
            )
        return joint

    def _costs(self) -> Matrix | None:
        return None if self.costs is None else cost_matrix(self.costs, self.classes_)

    def _loss_of_all(self, joint: MulticlassLoss) -> MulticlassLoss:
        """Return the loss of all classes, as exact as the fit asks for, with its costs."""
        # The intercepts need only be as good as the gap is to be: bounds hold however good they
        # are. But the objective must come out the same when it is computed afresh.
        return type(joint)(accuracy=min(0.05 * self.tol, 1e-7), costs=self.costs_)

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> None:
        from cutplane.cluster.collections import classes_of, fit_collection
        from cutplane.cluster.risk import ShardedRisk, Target

        labels, joint = classes_of(y), self._joint_loss()
        require_two_classes(labels)

        def risks(sample: Any, masses: Any) -> list[ShardedRisk]:
            # Examples of other classes have no weight.
            classes = self.classes_ = labels[masses > 0.0]
            require_two_classes(classes)
            check_pos_label(self.pos_label, classes)
            self.costs_ = self._costs()
            factors = None
            if self.class_weight is not None:
                factors = class_factors(self.class_weight, classes, masses[masses > 0.0])
            if joint is not None:
                loss: ScoreLoss = self._loss_of_all(joint)
                targets = [Target(classes, None, factors)]
            else:
                loss = self.loss_function()
                wanted = classes
                if len(classes) == 2:
                    wanted = classes[:1] if self._is_turned() else classes[1:]
                targets = [Target(classes, label, factors) for label in wanted.tolist()]
            return [
                ShardedRisk(sample, loss, intercept=self.fit_intercept, target=target)
                for target in targets
            ]

        n_classes = 1 if joint is None else len(labels)
        fit_collection(self, X, y, sample_weight, risks, n_classes=n_classes, classes=labels)

    def _plan(self, examples: Examples) -> Plan:
        y, weights = examples.y, examples.weights
        check_classification_targets(y)
        used = weights > 0.0
        self.classes_ = classes = np.unique(y[used])
        if len(classes) < 2:
            raise too_few(classes)
        if self.pos_label is not None:
            check_pos_label(self.pos_label, classes)
        self.costs_ = None if self.costs is None else self._costs()
        loss, joint, doubt = self.loss_function(), self._joint_loss(), None
        if self.pos_label is None and isinstance(loss, CountingMeasure):
            doubt = doubt_about_positive(str(self.loss), classes, y[used])
        if self.class_weight is not None:
            weights = weights * class_weights(self.class_weight, classes, y, weights)
        features: Any = self._rows(examples.X)
        told: ScoreLoss = loss
        targets: Sequence[NDArray[Any]]
        if joint is None:
            targets = targets_of(y, classes[::-1] if self._is_turned() else classes)
        else:
            features, told = AllPairs(features, len(classes)), self._loss_of_all(joint)
            # Examples of other classes have no weight: any number will do for them.
            targets = [np.searchsorted(classes, y) % len(classes)]
        risks = [
            ScoredRisk(features, target, told, weights=weights, intercept=self.fit_intercept)
            for target in targets
        ]
        advice = "try a smaller lam, class_weight='balanced', or loss='logistic'"
        if isinstance(loss, Measure):
            advice = "try a smaller lam, or loss='roc_area' or 'logistic'"
        elif isinstance(loss, NuHinge):
            advice = "try a larger nu"  # lam only scales the model
        return replace(
            self._plan_of(replace(examples, weights=weights), risks),
            doubt=doubt,
            symptom=self._symptom,
            advice=advice,
        )

    def _symptom(self, flat: Sequence[bool], result: Result) -> str | None:
        loss = self.loss_function()
        if any(flat) or len(self.classes_) > 2 or self._joint_loss() is not None:
            return flat_symptom(flat, result)
        # Probabilities and rankings are worth something even if all are on one side of zero.
        if loss.probability(np.zeros(1)) is not None or loss.of_differences:
            return None
        point = result.point
        assert isinstance(point, ScoredPoint)
        positive = point.scores + point.intercept > 0.0
        if positive.any() and not positive.all():
            return None
        label = self.classes_[int(positive[0] != self._is_turned())]
        return f"the best model predicts {label!s} for all training examples"

    def _model(self, coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        if intercept.ndim == 2:
            coef, intercept = split_by_class(coef, intercept)
        elif self._is_turned():
            coef, intercept = 0.0 - coef, 0.0 - intercept
        return {"coef_": coef, "intercept_": intercept}

    def _previous(self) -> Matrix:
        coef = super()._previous()
        if self._is_turned():
            coef = -coef
        return coef if self._joint_loss() is None else joined(coef)
