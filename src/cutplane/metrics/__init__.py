"""Measures of quality: of classes, numbers, labeled sequences, segments in them, rankings."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
