"""Measures of quality: of classes, numbers, labeled sequences, segments in them, rankings."""

from cutplane.metrics.classes import ClassQuality as ClassQuality
from cutplane.metrics.classes import LabelSetQuality as LabelSetQuality
from cutplane.metrics.numbers import NumberQuality as NumberQuality
from cutplane.metrics.numbers import QuantileQuality as QuantileQuality
from cutplane.metrics.quality import Quality as Quality
from cutplane.metrics.quality import measured as measured
from cutplane.models.ranking.quality import RANKED_AT as RANKED_AT
from cutplane.models.ranking.quality import RankingQuality as RankingQuality
from cutplane.models.ranking.quality import Rankings as Rankings
from cutplane.models.ranking.quality import mean_of_defined as mean_of_defined
from cutplane.models.sequences.quality import Chunk as Chunk
from cutplane.models.sequences.quality import ChunkCounts as ChunkCounts
from cutplane.models.sequences.quality import SegmentCounts as SegmentCounts
from cutplane.models.sequences.quality import SegmentQuality as SegmentQuality
from cutplane.models.sequences.quality import TokenQuality as TokenQuality
from cutplane.models.sequences.quality import count_chunks as count_chunks
from cutplane.models.sequences.quality import count_segments as count_segments
from cutplane.models.sequences.quality import edits as edits
from cutplane.models.sequences.quality import find_chunks as find_chunks
from cutplane.models.sequences.quality import sequence_accuracy as sequence_accuracy
from cutplane.models.sequences.quality import token_accuracy as token_accuracy
