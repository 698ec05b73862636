"""Structured outputs: what a model must offer, and models with exact inference."""

from typing import Any

from cutplane.models.graphs.forests import Tree, TreeModel
from cutplane.models.graphs.graphs import Graph, GraphModel
from cutplane.models.graphs.local_polytope import RelaxedLabels
from cutplane.models.graphs.multilabel import MultilabelModel
from cutplane.models.rna.model import PairCounts, RNAFolding
from cutplane.models.sequences.losses import ChainCRF, ChainLoss, ChainMargin
from cutplane.models.speech.model import GaussianHMMs
from cutplane.models.structured.classes import MulticlassModel
from cutplane.models.structured.model import StructuredModel

MODELS: dict[str, type[Any]] = {
    model.__name__: model
    for model in (MulticlassModel, MultilabelModel, TreeModel, GraphModel, RNAFolding)
}
"""The models of the library by name: model files keep these."""

__all__ = [
    "MODELS",
    "ChainCRF",
    "ChainLoss",
    "ChainMargin",
    "GaussianHMMs",
    "Graph",
    "GraphModel",
    "MulticlassModel",
    "MultilabelModel",
    "PairCounts",
    "RNAFolding",
    "RelaxedLabels",
    "StructuredModel",
    "Tree",
    "TreeModel",
]
