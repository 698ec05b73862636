"""Structured outputs: what a model must offer, and models with exact inference."""

from cutplane.structured.chain_losses import ChainCRF, ChainLoss, ChainMargin
from cutplane.structured.classes import MulticlassModel
from cutplane.structured.labels import MultilabelModel
from cutplane.structured.model import StructuredModel
from cutplane.structured.rna import PairCounts, RNAFolding
from cutplane.structured.tree import Tree, TreeModel

__all__ = [
    "ChainCRF",
    "ChainLoss",
    "ChainMargin",
    "MulticlassModel",
    "MultilabelModel",
    "PairCounts",
    "RNAFolding",
    "StructuredModel",
    "Tree",
    "TreeModel",
]
