"""What it costs to predict one class where another is true: as a matrix in the order of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.models.multiclass.losses import checked_costs


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
