"""Risks: what the objective says about data."""

from typing import TypeAlias

from cutplane.risks.chain import ChainRisk
from cutplane.risks.columns import ColumnsRisk
from cutplane.risks.composite import WeightedSum
from cutplane.risks.function import FunctionRisk
from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.risks.shared_scores import SharedScoresRisk
from cutplane.risks.structured import StructuredRisk

ModelRisk: TypeAlias = ColumnsRisk | LinearRisk | MulticlassRisk | SharedScoresRisk
"""A risk of a linear model, with coefficients and intercepts."""

__all__ = [
    "ChainRisk",
    "ColumnsRisk",
    "FunctionRisk",
    "LinearRisk",
    "ModelRisk",
    "MulticlassRisk",
    "SharedScoresRisk",
    "StructuredRisk",
    "WeightedSum",
]
