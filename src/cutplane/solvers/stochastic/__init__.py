"""Stochastic steps on examples and batches: certified passes, streams, and plain descent."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
