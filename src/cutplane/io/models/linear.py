"""The tensors of linear estimators in a model file.

They are ``coef`` and ``intercept`` (which some estimators have another name for). Where intercepts
are regularized they are parameters too, shifts from what a model without features would say:
``shifts``, from which a fit may start again. How many of each there are, the estimator says.
Bounds and constraints of the coefficients are arrays too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import dense
from cutplane.io.models.schema import Malformed


def tensors_of(estimator: Any) -> dict[str, NDArray[Any]]:
    """Return all that a fitted estimator predicts from, but its parameters and classes."""
    coef = np.ascontiguousarray(dense(estimator.coef_))
    intercept = getattr(estimator, estimator.description.intercept)
    tensors = {"coef": coef, "intercept": np.atleast_1d(np.asarray(intercept, dtype=coef.dtype))}
    if estimator.layout().shifts:
        shifts = estimator._parameters[0, coef.size :]
        tensors["shifts"] = np.ascontiguousarray(shifts, dtype=coef.dtype)
    tensors.update(estimator.parameter_arrays())
    return tensors


def restore(estimator: Any, tensors: dict[str, NDArray[Any]], document: object) -> int:
    """Make an estimator with parameters and classes a fitted one; return its number of problems."""
    try:
        layout = estimator.layout()
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"a parameter is wrong: {error}") from None
    given = _parameter_arrays(estimator, tensors)
    tensors = {name: tensor for name, tensor in tensors.items() if name not in given}
    if set(tensors) != {"coef", "intercept"} | ({"shifts"} if layout.shifts else set()):
        raise Malformed(f"arrays {', '.join(sorted(tensors))}")
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise Malformed(f"{name} has weights that are not finite, or no real numbers")
    coef, intercept, shifts = tensors["coef"], tensors["intercept"], tensors.get("shifts")
    if any(tensor.dtype != coef.dtype for tensor in tensors.values()):
        raise Malformed(f"weights of type {coef.dtype} and others")
    rows = () if layout.rows is None else (layout.rows,)
    if coef.ndim != len(rows) + 1 or coef.shape[:-1] != rows or coef.size == 0:
        raise Malformed(f"coefficients of shape {coef.shape} for {layout.rows or 1} rows")
    n_intercepts = 1 if layout.intercepts is None else layout.intercepts
    if intercept.shape != (n_intercepts,):
        raise Malformed(f"intercepts of shape {intercept.shape}, expected {n_intercepts}")
    if shifts is not None and shifts.shape != (layout.shifts,):
        raise Malformed(f"shifts of shape {shifts.shape}, expected {layout.shifts}")
    estimator.coef_ = coef
    estimator.n_features_in_ = coef.shape[-1]
    one = layout.intercepts is None
    setattr(estimator, estimator.description.intercept, float(intercept[0]) if one else intercept)
    try:
        estimator._complete(shifts)
        estimator.set_parameter_arrays(given)
    except ValueError as error:
        raise Malformed(str(error)) from None
    return int(layout.problems)


def _parameter_arrays(
    estimator: Any, tensors: dict[str, NDArray[Any]]
) -> dict[str, NDArray[np.float64]]:
    """Return the arrays that parameters give, infinite where there is no bound."""
    found: dict[str, NDArray[np.float64]] = {}
    for names in estimator.array_names:
        there = {name: tensors[name] for name in names if name in tensors}
        if there and len(there) < len(names):
            raise Malformed(f"arrays {', '.join(there)} without {', '.join({*names} - {*there})}")
        for name, array in there.items():
            if array.dtype != np.float64 or np.isnan(array).any() or array.size == 0:
                raise Malformed(f"{name} has no numbers, or other things than real numbers")
        found |= there
    return found
