"""Structured outputs: what a model must offer, and models with exact inference."""

from cutplane.structured.chains.losses import ChainCRF, ChainLoss, ChainMargin
from cutplane.structured.classes import MulticlassModel
from cutplane.structured.graphs.graphs import Graph, GraphModel
from cutplane.structured.graphs.multilabel import MultilabelModel
from cutplane.structured.graphs.relaxed_labels import RelaxedLabels
from cutplane.structured.graphs.trees import Tree, TreeModel
from cutplane.structured.model import StructuredModel
from cutplane.structured.rna.model import PairCounts, RNAFolding

__all__ = [
    "ChainCRF",
    "ChainLoss",
    "ChainMargin",
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
