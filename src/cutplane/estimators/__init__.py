"""Estimators in scikit-learn's manner: validation and naming, nothing numerical."""

from typing import Any

from cutplane.estimators.cautions import (
    ConstantModelWarning,
    InconsistentVersionWarning,
    LabelOrderWarning,
    UnusedParameterWarning,
)
from cutplane.estimators.hmm.classifier import HMMClassifier
from cutplane.estimators.hmm.tagger import HMMTagger
from cutplane.estimators.kernels.classifier import KernelClassifier
from cutplane.estimators.kernels.cross_validation import KernelClassifierCV, KernelRegressorCV
from cutplane.estimators.kernels.regressor import KernelRegressor
from cutplane.estimators.lams.choosing import CrossValidation
from cutplane.estimators.lams.cross_validation import LinearClassifierCV, LinearRegressorCV
from cutplane.estimators.lams.path import Path, path
from cutplane.estimators.lams.proof import LamProof
from cutplane.estimators.linear.classifier import LinearClassifier
from cutplane.estimators.linear.multilabel import MultilabelClassifier
from cutplane.estimators.linear.novelty import NoveltyDetector
from cutplane.estimators.linear.ordinal import OrdinalClassifier
from cutplane.estimators.linear.quantiles import LinearQuantiles
from cutplane.estimators.linear.ranker import LinearRanker
from cutplane.estimators.linear.regressor import LinearRegressor
from cutplane.estimators.linear.transductive import TransductiveClassifier
from cutplane.estimators.linear.vectors import VectorRegressor
from cutplane.estimators.structured_predictor import StructuredPredictor
from cutplane.estimators.tagging.networks import NeuralFeatures
from cutplane.estimators.tagging.tagger import SequenceTagger

__all__ = [
    "ESTIMATORS",
    "ConstantModelWarning",
    "CrossValidation",
    "HMMClassifier",
    "HMMTagger",
    "InconsistentVersionWarning",
    "KernelClassifier",
    "KernelClassifierCV",
    "KernelRegressor",
    "KernelRegressorCV",
    "LabelOrderWarning",
    "LamProof",
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearQuantiles",
    "LinearRanker",
    "LinearRegressor",
    "LinearRegressorCV",
    "MultilabelClassifier",
    "NeuralFeatures",
    "NoveltyDetector",
    "OrdinalClassifier",
    "Path",
    "SequenceTagger",
    "StructuredPredictor",
    "TransductiveClassifier",
    "UnusedParameterWarning",
    "VectorRegressor",
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
        TransductiveClassifier,
        SequenceTagger,
        LinearQuantiles,
        MultilabelClassifier,
        VectorRegressor,
        StructuredPredictor,
        HMMClassifier,
        HMMTagger,
        LinearClassifierCV,
        LinearRegressorCV,
        KernelClassifier,
        KernelRegressor,
        KernelClassifierCV,
        KernelRegressorCV,
    )
}
"""The registry: from a name to the class, whose ``description`` says the rest."""


def estimators_by_task() -> dict[str, type[Any]]:
    """Return the estimators that the command line can fit, by the name of their task."""
    return {of.description.task: of for of in ESTIMATORS.values() if of.description.task}
