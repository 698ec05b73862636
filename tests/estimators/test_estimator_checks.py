"""scikit-learn's own checks, without a single expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane import LinearClassifier, LinearRegressor
from cutplane.losses import CLASSIFICATION, REGRESSION


@parametrize_with_checks(
    [
        *(LinearClassifier(loss) for loss in CLASSIFICATION),
        LinearClassifier(fit_intercept=False),
        LinearClassifier("logistic", method="limited-memory"),
        *(LinearRegressor(loss) for loss in REGRESSION if loss != "poisson"),
        LinearRegressor("huber", fit_intercept=False),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)
