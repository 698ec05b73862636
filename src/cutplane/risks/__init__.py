"""Risks: what the objective says about data."""

from typing import TypeAlias

from cutplane.risks.chain import ChainRisk
from cutplane.risks.composite import WeightedSum
from cutplane.risks.function import FunctionRisk
from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.risks.structured import StructuredRisk

ModelRisk: TypeAlias = LinearRisk | MulticlassRisk
"""A risk of a linear model, with coefficients and intercepts."""

__all__ = [
    "ChainRisk",
    "FunctionRisk",
    "LinearRisk",
    "ModelRisk",
    "MulticlassRisk",
    "StructuredRisk",
    "WeightedSum",
]
