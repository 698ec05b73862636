"""Risks: what the objective says about data."""

from cutplane.cluster.risk import ShardedRisk as ShardedRisk
from cutplane.models.networks.risk import TorchRisk as TorchRisk
from cutplane.models.sequences.risk import ChainRisk as ChainRisk
from cutplane.models.speech.risk import HMMRisk as HMMRisk
from cutplane.models.structured.risk import StructuredRisk as StructuredRisk
from cutplane.risks.composite import FunctionRisk as FunctionRisk
from cutplane.risks.composite import WeightedSum as WeightedSum
from cutplane.risks.scored import ScoredRisk as ScoredRisk
