"""Structured outputs: what a model must offer, and models with exact inference."""

from typing import Any

from cutplane.structured.chains.losses import ChainCRF, ChainLoss, ChainMargin
from cutplane.structured.classes import MulticlassModel
from cutplane.structured.graphs.graphs import Graph, GraphModel
from cutplane.structured.graphs.local_polytope import RelaxedLabels
from cutplane.structured.graphs.multilabel import MultilabelModel
from cutplane.structured.graphs.trees import Tree, TreeModel
from cutplane.structured.hmm.model import GaussianHMMs
from cutplane.structured.model import StructuredModel
from cutplane.structured.rna.model import PairCounts, RNAFolding

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
