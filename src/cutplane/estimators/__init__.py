"""Estimators in scikit-learn's manner: validation and naming, nothing numerical."""

from cutplane.estimators.classifier import LinearClassifier
from cutplane.estimators.regressor import LinearRegressor

__all__ = ["LinearClassifier", "LinearRegressor"]
