"""Stochastic gradient descent, to compare with: it makes no planes, and proves nothing."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
