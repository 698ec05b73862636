"""Structured outputs: what a model must offer, and models with exact inference."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
