"""What a measure can be at most, if scores are known to lie between bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector

Numbers = NDArray[np.int64]


def accuracy_at_most(y: Numbers, lower: Matrix, upper: Matrix, weights: Vector) -> float:
    """Return the largest share of right predictions.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        The number of each example's class; -1 for a class that is never predicted.
    lower, upper : ndarray of shape (n_scores, n_samples)
        Bounds on the scores: of the second class against the first, or of each class.
    weights : ndarray of shape (n_samples,)
    """
    if len(lower) == 1:
        wrong = np.where(y == 1, upper[0] < 0.0, lower[0] > 0.0)
    else:
        columns = np.arange(len(y))
        own = upper[y, columns]
        others = lower.copy()
        others[y, columns] = -np.inf
        wrong = own < others.max(axis=0)
    return 1.0 - float(np.average(wrong | (y < 0), weights=weights))


def _least_errors(y: Vector, lower: Vector, upper: Vector) -> Vector:
    return np.maximum(np.maximum(lower - y, y - upper), 0.0)


def absolute_error_at_least(y: Vector, lower: Vector, upper: Vector, weights: Vector) -> float:
    """Return the smallest mean absolute error of predictions between bounds, times -1."""
    return -float(np.average(_least_errors(y, lower, upper), weights=weights))


def squared_error_at_least(y: Vector, lower: Vector, upper: Vector, weights: Vector) -> float:
    """Return the smallest mean squared error of predictions between bounds, times -1."""
    return -float(np.average(_least_errors(y, lower, upper) ** 2, weights=weights))


def r2_at_most(y: Vector, lower: Vector, upper: Vector, weights: Vector) -> float:
    """Return the largest coefficient of determination of predictions between bounds."""
    spread = float(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights))
    if spread == 0.0:
        return 1.0
    return 1.0 + squared_error_at_least(y, lower, upper, weights) / spread


def best_between(
    measure: Callable[[Vector, Vector, Vector], float],
    y: Vector,
    lower: Vector,
    upper: Vector,
    weights: Vector,
) -> float:
    """Return the largest value of a measure of predictions between bounds.

    The measure must be the better, the nearer a prediction is to its target from one side.
    """
    return measure(y, np.clip(y, lower, upper), weights)


BOUNDS_OF_NUMBERS: dict[str, Callable[[Vector, Vector, Vector, Vector], float]] = {
    "r2": r2_at_most,
    "neg_mean_absolute_error": absolute_error_at_least,
    "neg_mean_squared_error": squared_error_at_least,
}
"""Bounds on measures of predicted numbers, by scikit-learn's names of the scorers."""
