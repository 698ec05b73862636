"""Measures of quality: of classes, numbers, labeled sequences, segments in them, rankings."""

from cutplane.metrics.measures import ClassQuality as ClassQuality
from cutplane.metrics.measures import LabelSetQuality as LabelSetQuality
from cutplane.metrics.measures import NumberQuality as NumberQuality
from cutplane.metrics.measures import Quality as Quality
from cutplane.metrics.measures import QuantileQuality as QuantileQuality
from cutplane.metrics.measures import measured as measured
from cutplane.models.ranking.quality import RANKED_AT as RANKED_AT
from cutplane.models.ranking.quality import RankingQuality as RankingQuality
from cutplane.models.ranking.quality import Rankings as Rankings
from cutplane.models.ranking.quality import mean_of_defined as mean_of_defined
from cutplane.models.tagging.quality import Chunk as Chunk
from cutplane.models.tagging.quality import ChunkCounts as ChunkCounts
from cutplane.models.tagging.quality import SegmentCounts as SegmentCounts
from cutplane.models.tagging.quality import SegmentQuality as SegmentQuality
from cutplane.models.tagging.quality import TokenQuality as TokenQuality
from cutplane.models.tagging.quality import count_chunks as count_chunks
from cutplane.models.tagging.quality import count_segments as count_segments
from cutplane.models.tagging.quality import edits as edits
from cutplane.models.tagging.quality import find_chunks as find_chunks
from cutplane.models.tagging.quality import sequence_accuracy as sequence_accuracy
from cutplane.models.tagging.quality import token_accuracy as token_accuracy
