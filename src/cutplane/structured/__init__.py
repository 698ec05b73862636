"""Structured outputs: what a model must offer, and models with exact inference."""

from cutplane.structured.chain_losses import ChainCRF, ChainLoss, ChainMargin
from cutplane.structured.chunks import (
    Chunk,
    ChunkCounts,
    count_chunks,
    find_chunks,
    sequence_accuracy,
    token_accuracy,
)
from cutplane.structured.classes import MulticlassModel
from cutplane.structured.graph import Graph, GraphModel
from cutplane.structured.labels import MultilabelModel
from cutplane.structured.model import StructuredModel
from cutplane.structured.relaxed_labels import RelaxedLabels
from cutplane.structured.rna import PairCounts, RNAFolding
from cutplane.structured.tree import Tree, TreeModel

__all__ = [
    "ChainCRF",
    "ChainLoss",
    "ChainMargin",
    "Chunk",
    "ChunkCounts",
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
    "count_chunks",
    "find_chunks",
    "sequence_accuracy",
    "token_accuracy",
]
