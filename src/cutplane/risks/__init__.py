"""Risks: what the objective says about data."""

from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk

__all__ = ["LinearRisk", "MulticlassRisk"]
