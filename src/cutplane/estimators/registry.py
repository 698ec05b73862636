"""The estimators by name."""

from __future__ import annotations

from typing import Any

from cutplane.named import ByName

ESTIMATORS = ByName[type[Any]](
    {
        "LinearClassifier": "cutplane.estimators.linear.classifier:LinearClassifier",
        "LinearRegressor": "cutplane.estimators.linear.regressor:LinearRegressor",
        "OrdinalClassifier": "cutplane.models.ordinal.ordinal:OrdinalClassifier",
        "NoveltyDetector": "cutplane.models.novelty.novelty:NoveltyDetector",
        "LinearRanker": "cutplane.models.ranking.ranker:LinearRanker",
        "TransductiveClassifier": "cutplane.models.few_labels.transductive:TransductiveClassifier",
        "SequenceTagger": "cutplane.models.sequences.tagger:SequenceTagger",
        "LinearQuantiles": "cutplane.models.columns.quantiles:LinearQuantiles",
        "MultilabelClassifier": "cutplane.models.columns.multilabel:MultilabelClassifier",
        "VectorRegressor": "cutplane.models.columns.vectors:VectorRegressor",
        "StructuredPredictor": "cutplane.models.structured.predictor:StructuredPredictor",
        "HMMClassifier": "cutplane.models.speech.estimator:HMMClassifier",
        "HMMTagger": "cutplane.models.speech.estimator:HMMTagger",
        "LinearClassifierCV": "cutplane.estimators.lams.cross_validation:LinearClassifierCV",
        "LinearRegressorCV": "cutplane.estimators.lams.cross_validation:LinearRegressorCV",
        "KernelClassifier": "cutplane.models.gram.classifier:KernelClassifier",
        "KernelRegressor": "cutplane.models.gram.regressor:KernelRegressor",
        "KernelClassifierCV": "cutplane.models.gram.cross_validation:KernelClassifierCV",
        "KernelRegressorCV": "cutplane.models.gram.cross_validation:KernelRegressorCV",
    }
)
"""From a name to the class, whose ``description`` says the rest."""


def estimators_by_task() -> dict[str, type[Any]]:
    """Return the estimators that the command line can fit, by the name of their task."""
    return {of.description.task: of for of in ESTIMATORS.values() if of.description.task}
