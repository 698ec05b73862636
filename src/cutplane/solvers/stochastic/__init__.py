"""Stochastic subgradient methods, each pass certified by the plane of its slopes (paper 002)."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
