"""Measures of quality: of classes, numbers, labeled sequences, segments in them, rankings."""

from cutplane.metrics.classes import ClassQuality, LabelSetQuality
from cutplane.metrics.numbers import NumberQuality, QuantileQuality
from cutplane.metrics.quality import Quality, measured
from cutplane.models.ranking.quality import RANKED_AT, RankingQuality, Rankings, mean_of_defined
from cutplane.models.sequences.quality import (
    Chunk,
    ChunkCounts,
    SegmentCounts,
    SegmentQuality,
    TokenQuality,
    count_chunks,
    count_segments,
    edits,
    find_chunks,
    sequence_accuracy,
    token_accuracy,
)

__all__ = [
    "RANKED_AT",
    "Chunk",
    "ChunkCounts",
    "ClassQuality",
    "LabelSetQuality",
    "NumberQuality",
    "Quality",
    "QuantileQuality",
    "RankingQuality",
    "Rankings",
    "SegmentCounts",
    "SegmentQuality",
    "TokenQuality",
    "count_chunks",
    "count_segments",
    "edits",
    "find_chunks",
    "mean_of_defined",
    "measured",
    "sequence_accuracy",
    "token_accuracy",
]
