"""Estimators in scikit-learn's manner: validation and naming, nothing numerical."""

from typing import Any

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
    "ESTIMATORS",
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
    "estimators_by_task",
    "path",
]

ESTIMATORS: dict[str, type[Any]] = {
    of.__name__: of
    for of in (
        LinearClassifier,
        LinearRegressor,
        OrdinalClassifier,
        NoveltyDetector,
        LinearRanker,
        SequenceTagger,
        LinearQuantiles,
        MultilabelClassifier,
        StructuredPredictor,
        LinearClassifierCV,
        LinearRegressorCV,
    )
}
"""The registry: from a name to the class, whose ``description`` says the rest."""


def estimators_by_task() -> dict[str, type[Any]]:
    """Return the estimators that the command line can fit, by the name of their task."""
    return {of.description.task: of for of in ESTIMATORS.values() if of.description.task}
