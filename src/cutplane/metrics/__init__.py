"""Measures of quality: of labeled sequences, of rankings."""

from cutplane.metrics.chunks import (
    Chunk,
    ChunkCounts,
    count_chunks,
    find_chunks,
    sequence_accuracy,
    token_accuracy,
)
from cutplane.metrics.ranking import Rankings, mean_of_defined

__all__ = [
    "Chunk",
    "ChunkCounts",
    "Rankings",
    "count_chunks",
    "find_chunks",
    "mean_of_defined",
    "sequence_accuracy",
    "token_accuracy",
]
