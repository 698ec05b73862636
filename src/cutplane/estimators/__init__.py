"""Estimators in scikit-learn's manner: validation and naming, nothing numerical."""

from cutplane.estimators.cautions import (
    ConstantModelWarning,
    LabelOrderWarning,
    UnusedParameterWarning,
)
from cutplane.estimators.classifier import LinearClassifier
from cutplane.estimators.cross_validation import LinearClassifierCV, LinearRegressorCV
from cutplane.estimators.multilabel import MultilabelClassifier
from cutplane.estimators.novelty import NoveltyDetector
from cutplane.estimators.ordinal import OrdinalClassifier
from cutplane.estimators.path import Path, path
from cutplane.estimators.quantiles import LinearQuantiles
from cutplane.estimators.ranker import LinearRanker
from cutplane.estimators.regressor import LinearRegressor
from cutplane.estimators.structured_predictor import StructuredPredictor
from cutplane.estimators.tagger import SequenceTagger

__all__ = [
    "ConstantModelWarning",
    "LabelOrderWarning",
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearQuantiles",
    "LinearRanker",
    "LinearRegressor",
    "LinearRegressorCV",
    "MultilabelClassifier",
    "NoveltyDetector",
    "OrdinalClassifier",
    "Path",
    "SequenceTagger",
    "StructuredPredictor",
    "UnusedParameterWarning",
    "path",
]
