"""Measures of quality: of labeled sequences, of segments in them, of rankings."""

from cutplane.metrics.chunks import (
    Chunk,
    ChunkCounts,
    count_chunks,
    find_chunks,
    sequence_accuracy,
    token_accuracy,
)
from cutplane.metrics.ranking import Rankings, mean_of_defined
from cutplane.metrics.segments import SegmentCounts, count_segments, edits

__all__ = [
    "Chunk",
    "ChunkCounts",
    "Rankings",
    "SegmentCounts",
    "count_chunks",
    "count_segments",
    "edits",
    "find_chunks",
    "mean_of_defined",
    "sequence_accuracy",
    "token_accuracy",
]
