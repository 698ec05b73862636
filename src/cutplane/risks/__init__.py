"""Risks: what the objective says about data."""

from cutplane.risks.chains.risk import ChainRisk
from cutplane.risks.composite import WeightedSum
from cutplane.risks.function import FunctionRisk
from cutplane.risks.hmm import HMMRisk
from cutplane.risks.scored import ScoredRisk
from cutplane.risks.shards.risk import ShardedRisk
from cutplane.risks.structured import StructuredRisk
from cutplane.risks.torch import TorchRisk

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
