"""Structured models: outputs whose parts depend on each other, and inference over them."""

from cutplane.structured.chain_losses import ChainCRF, ChainLoss, ChainMargin
from cutplane.structured.chunks import (
    Chunk,
    ChunkCounts,
    count_chunks,
    find_chunks,
    sequence_accuracy,
    token_accuracy,
)

__all__ = [
    "ChainCRF",
    "ChainLoss",
    "ChainMargin",
    "Chunk",
    "ChunkCounts",
    "count_chunks",
    "find_chunks",
    "sequence_accuracy",
    "token_accuracy",
]
