"""How good predicted numbers are: by the measure that goes with what the loss makes them.

The mean minimizes squares, and R2 is the share of them that a model saves. A quantile minimizes the
pinball loss: of two models of the 90 % quantile, R2 prefers the one that is nearer to the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from cutplane.compute.arrays import Vector
from cutplane.estimators.cautions import warn
from cutplane.estimators.parameters import weights_of
from cutplane.losses import Loss, Poisson, Quantile
from cutplane.metrics.numbers import d2_of_counts, d2_of_quantiles


class NumberMeasure(NamedTuple):
    """A measure of predictions, from targets, predictions and weights: 1 at best, 0 of a constant.

    It is the better, the nearer each prediction is to its target from the side where it is.
    """

    name: str
    share_saved: Callable[[Vector, Vector, Vector], float]


def measure_of(loss: Loss) -> NumberMeasure | None:
    """Return the measure that goes with a loss, in place of R2; None if that does."""
    if isinstance(loss, Quantile):
        return NumberMeasure("d2_pinball", partial(_of_quantile, np.array([loss.quantile])))
    if isinstance(loss, Poisson):
        return NumberMeasure("d2_poisson", d2_of_counts)
    return None


def _of_quantile(quantile: Vector, y: Vector, predicted: Vector, weights: Vector) -> float:
    return d2_of_quantiles(y, predicted[:, None], quantile, weights)


class NumberScores(RegressorMixin):
    """A regressor that is scored by what its loss makes it predict."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return how much better the predictions are than the best constant: 1 at best.

        With the loss "quantile", it is the share by which their pinball loss is lower
        (scikit-learn's ``d2_pinball_score``); with "poisson", the share by which their deviance is
        (``d2_tweedie_score``, as scikit-learn's `PoissonRegressor` has it); with all other losses
        it is R2, the share by which their squared error is.
        """
        measure = measure_of(self.loss_function())
        if measure is None:
            of_squares: float = super().score(X, y, sample_weight)
            return of_squares
        return validated(measure.share_saved, y, self.predict(X), sample_weight)


def validated(
    measure: Callable[[Vector, Any, Vector], float], y: Any, predicted: Any, sample_weight: Any
) -> float:
    """Return a measure of predictions; that of a single one is not defined, as in scikit-learn."""
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
    predicted = np.asarray(predicted)
    check_consistent_length(predicted, y, sample_weight)
    if len(y) < 2:
        warn("the score is not defined for less than two examples", UndefinedMetricWarning)
        return float("nan")
    return measure(y, predicted, weights_of(sample_weight, len(y)))
