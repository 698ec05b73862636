"""Estimators in scikit-learn's manner: validation and naming, nothing numerical."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
