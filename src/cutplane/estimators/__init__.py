"""Estimators in scikit-learn's manner: validation and naming, nothing numerical."""

from typing import Any

from cutplane.estimators.cautions import (
    ConstantModelWarning,
    InconsistentVersionWarning,
    LabelOrderWarning,
    UnusedParameterWarning,
)
from cutplane.estimators.lams.choosing import CrossValidation
from cutplane.estimators.lams.cross_validation import LinearClassifierCV, LinearRegressorCV
from cutplane.estimators.lams.path import Path, path
from cutplane.estimators.linear.classifier import LinearClassifier
from cutplane.estimators.linear.regressor import LinearRegressor
from cutplane.lam_proof.proof import LamProof
from cutplane.models.columns.multilabel import MultilabelClassifier
from cutplane.models.columns.quantiles import LinearQuantiles
from cutplane.models.columns.vectors import VectorRegressor
from cutplane.models.few_labels.transductive import TransductiveClassifier
from cutplane.models.gram.classifier import KernelClassifier
from cutplane.models.gram.cross_validation import KernelClassifierCV, KernelRegressorCV
from cutplane.models.gram.regressor import KernelRegressor
from cutplane.models.networks.neural_features import NeuralFeatures
from cutplane.models.novelty.novelty import NoveltyDetector
from cutplane.models.ordinal.ordinal import OrdinalClassifier
from cutplane.models.ranking.ranker import LinearRanker
from cutplane.models.sequences.tagger import SequenceTagger
from cutplane.models.speech.classifier import HMMClassifier
from cutplane.models.speech.tagger import HMMTagger
from cutplane.models.structured.predictor import StructuredPredictor

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
