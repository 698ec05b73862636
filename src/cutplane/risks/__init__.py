"""Risks: what the objective says about data."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
