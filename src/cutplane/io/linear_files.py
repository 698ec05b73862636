"""The tensors of linear estimators in a model file.

They are ``coef`` and ``intercept`` (which some estimators have another name for). Where intercepts
are regularized they are parameters too, shifts from what a model without features would say:
``shifts``, from which a fit may start again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.estimators import (
    LinearClassifier,
    LinearQuantiles,
    LinearRanker,
    LinearRegressor,
    MultilabelClassifier,
    NoveltyDetector,
    OrdinalClassifier,
)
from cutplane.estimators.linear.classes import joint_loss
from cutplane.estimators.linear.multilabel import ranking_loss
from cutplane.io.model_schema import Malformed
from cutplane.losses import NonCrossing

LinearEstimator: TypeAlias = (
    LinearClassifier
    | LinearQuantiles
    | LinearRanker
    | LinearRegressor
    | MultilabelClassifier
    | NoveltyDetector
    | OrdinalClassifier
)

# What the tensor "intercept" is called in an estimator, where it is called something else.
_INTERCEPTS: dict[type[Any], str] = {NoveltyDetector: "offset_", OrdinalClassifier: "thresholds_"}


class _Layout(NamedTuple):
    """How many rows of coefficients there are, and intercepts, and problems that gave them."""

    rows: int | None  # None for a vector
    intercepts: int
    problems: int = 1
    shifts: int = 0


def tensors_of_linear(estimator: LinearEstimator) -> dict[str, NDArray[Any]]:
    """Return all that a fitted estimator predicts from, but its parameters and classes."""
    coef = np.ascontiguousarray(estimator.coef_)
    intercept = getattr(estimator, _intercept_name(estimator))
    tensors = {"coef": coef, "intercept": np.atleast_1d(np.asarray(intercept, dtype=coef.dtype))}
    if _layout(estimator).shifts:
        shifts = estimator._parameters[0, coef.size :]
        tensors["shifts"] = np.ascontiguousarray(shifts, dtype=coef.dtype)
    return tensors


def fill_linear(estimator: LinearEstimator, tensors: dict[str, NDArray[Any]]) -> int:
    """Make an estimator with parameters and classes a fitted one; return its number of problems.

    Raises
    ------
    Malformed
        If anything does not fit together.
    """
    try:
        layout = _layout(estimator)
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"a parameter is wrong: {error}") from None
    if set(tensors) != {"coef", "intercept"} | ({"shifts"} if layout.shifts else set()):
        raise Malformed(f"arrays {', '.join(sorted(tensors))}")
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise Malformed(f"{name} has weights that are not finite, or no real numbers")
    coef, intercept = tensors["coef"], tensors["intercept"]
    if any(tensor.dtype != coef.dtype for tensor in tensors.values()):
        raise Malformed(f"weights of type {coef.dtype} and others")
    rows = () if layout.rows is None else (layout.rows,)
    if coef.ndim != len(rows) + 1 or coef.shape[:-1] != rows or coef.size == 0:
        raise Malformed(f"coefficients of shape {coef.shape} for {layout.rows or 1} rows")
    if intercept.shape != (layout.intercepts,):
        raise Malformed(f"intercepts of shape {intercept.shape}, expected {layout.intercepts}")
    if isinstance(estimator, OrdinalClassifier) and (intercept[1:] < intercept[:-1]).any():
        raise Malformed("thresholds are not in order")
    if isinstance(estimator, LinearQuantiles) and estimator.parallel and (coef != coef[0]).any():
        raise Malformed("parallel quantiles with different slopes")
    if isinstance(estimator, LinearQuantiles | MultilabelClassifier):
        estimator._parameters = coef[: layout.problems]
        if layout.shifts:
            shifts = tensors["shifts"]
            if shifts.shape != (layout.shifts,):
                raise Malformed(f"shifts of shape {shifts.shape}, expected {layout.shifts}")
            estimator._parameters = np.append(coef, shifts)[None, :]
    estimator.coef_ = coef
    estimator.n_features_in_ = coef.shape[-1]
    single = isinstance(estimator, LinearRanker | LinearRegressor | NoveltyDetector)
    setattr(estimator, _intercept_name(estimator), float(intercept[0]) if single else intercept)
    return layout.problems


def _intercept_name(estimator: LinearEstimator) -> str:
    return _INTERCEPTS.get(type(estimator), "intercept_")


def _layout(estimator: LinearEstimator) -> _Layout:
    """Return what the parameters and classes of an estimator ask for.

    Raises
    ------
    ValueError
        If the parameters do not go together.
    """
    if isinstance(estimator, LinearQuantiles):
        n_quantiles = len(NonCrossing(estimator.quantiles, estimator.crossing_penalty).quantiles)
        return _Layout(n_quantiles, n_quantiles, shifts=0 if estimator.parallel else n_quantiles)
    if isinstance(estimator, NoveltyDetector):
        return _Layout(None, 1)
    loss = estimator.loss_function()  # predictions depend on it
    if isinstance(estimator, LinearClassifier):
        rows = _rows(estimator.classes_)
        together = joint_loss(estimator.multi_class, loss) is not None
        return _Layout(rows, rows, problems=1 if together else rows)
    if isinstance(estimator, MultilabelClassifier):
        n_labels = len(estimator.classes_)
        if estimator.multilabel_ and not np.array_equal(estimator.classes_, range(n_labels)):
            raise ValueError("labels are not numbered from 0 on")
        rows = n_labels if estimator.multilabel_ else _rows(estimator.classes_)
        together = ranking_loss(estimator.multi_label, estimator.loss) is not None
        return _Layout(rows, rows, 1 if together else rows, shifts=rows if together else 0)
    if isinstance(estimator, OrdinalClassifier):
        return _Layout(None, len(estimator.classes_) - 1)
    return _Layout(None, 1)


def _rows(classes: NDArray[Any]) -> int:
    """Return how many rows tell these classes apart: for two of them, one row suffices."""
    return 1 if len(classes) == 2 else len(classes)
