"""Stochastic subgradient methods, each pass certified by the plane of its slopes (paper 002)."""

from cutplane.methods.stochastic.methods import (
    Confident,
    StochasticPasses,
    adaptive,
    online_proximal,
    optimistic,
    pegasos,
)
from cutplane.methods.stochastic.settings import Iterate, Rule, Sampling

__all__ = [
    "Confident",
    "Iterate",
    "Rule",
    "Sampling",
    "StochasticPasses",
    "adaptive",
    "online_proximal",
    "optimistic",
    "pegasos",
]
