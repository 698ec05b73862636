"""Estimators in scikit-learn's manner: validation and naming, nothing numerical."""

from cutplane.estimators.classifier import LinearClassifier
from cutplane.estimators.cross_validation import LinearClassifierCV, LinearRegressorCV
from cutplane.estimators.path import Path, path
from cutplane.estimators.ranker import LinearRanker
from cutplane.estimators.regressor import LinearRegressor

__all__ = [
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearRanker",
    "LinearRegressor",
    "LinearRegressorCV",
    "Path",
    "path",
]
