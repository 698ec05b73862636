"""How a classifier tells classes apart: which of two is looked for, and what more than two take.

Of two classes one is positive, which measures such as F1 count. Whatever it is, classes stay sorted
and scores above zero mean the second one, as scikit-learn has it. Where the first class is looked
for, a loss that tells the classes apart is fitted to targets of the opposite sign, and the
coefficients are turned around afterwards.

More than two classes are fitted one against the rest, or all at once, with a loss that extends the
one of two classes. Then it may cost more to take one for another than to take it for a third.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.cautions import are_words
from cutplane.estimators.description import look_up
from cutplane.estimators.estimator import by_parts
from cutplane.estimators.linear.model import LinearModel
from cutplane.losses import (
    CLASSIFICATION,
    NU_CLASSIFICATION,
    ROBUST_CLASSIFICATION,
    CrammerSinger,
    Hinge,
    Logistic,
    Loss,
    Softmax,
)
from cutplane.models.multiclass.losses import checked_costs

_MOST_NAMED = 5  # labels in a message


@dataclass(frozen=True)
class Joint:
    """A loss of all classes or labels together, and the loss of one that it extends."""

    loss: Any
    extends: type[Loss]
    extended_name: str


MULTI_CLASS: dict[str, Joint | None] = {
    "ovr": None,
    "crammer_singer": Joint(CrammerSinger(), Hinge, "hinge"),
    "softmax": Joint(Softmax(), Logistic, "logistic"),
}
"""Ways to tell classes apart, by name; None is one against the rest."""


def joint_loss(model: LinearModel, parameter: str, known: Mapping[str, Joint | None]) -> Any:
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


def require_known_classes(y: NDArray[Any], classes: NDArray[Any]) -> None:
    """Raise ValueError if a batch of a stream has labels that are not among its classes."""
    strange = sorted(map(repr, set(y.tolist()) - set(classes.tolist())))
    if strange:
        more = len(strange) - _MOST_NAMED
        named = ", ".join(strange[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        raise ValueError(
            f"y has labels that are not among the classes: {named}; the first call of partial_fit "
            "must name all classes"
        )


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


def is_turned(pos_label: Any, classes: NDArray[Any], loss: Loss) -> bool:
    """Say whether the first of two classes is fitted against the second."""
    if pos_label is None or len(classes) != 2 or isinstance(loss, _SYMMETRIC):
        return False
    return bool(pos_label == classes.tolist()[0])


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
