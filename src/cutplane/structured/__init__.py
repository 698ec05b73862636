"""Structured outputs: what a model must offer, and models with exact inference."""

from cutplane.structured.chains.losses import ChainCRF, ChainLoss, ChainMargin
from cutplane.structured.classes import MulticlassModel
from cutplane.structured.graphs.model import Graph, GraphModel
from cutplane.structured.graphs.relaxed_labels import RelaxedLabels
from cutplane.structured.labels import MultilabelModel
from cutplane.structured.model import StructuredModel
from cutplane.structured.rna.model import PairCounts, RNAFolding
from cutplane.structured.tree import Tree, TreeModel

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
