"""Risks: what the objective says about data."""

from cutplane.risks.linear import LinearRisk

__all__ = ["LinearRisk"]
