"""Risks: what the objective says about data."""

from cutplane.cluster.risk import ShardedRisk
from cutplane.models.networks.risk import TorchRisk
from cutplane.models.sequences.risk import ChainRisk
from cutplane.models.speech.risk import HMMRisk
from cutplane.models.structured.risk import StructuredRisk
from cutplane.risks.composite import WeightedSum
from cutplane.risks.function import FunctionRisk
from cutplane.risks.scored import ScoredRisk

__all__ = [
    "ChainRisk",
    "FunctionRisk",
    "HMMRisk",
    "ScoredRisk",
    "ShardedRisk",
    "StructuredRisk",
    "TorchRisk",
    "WeightedSum",
]
