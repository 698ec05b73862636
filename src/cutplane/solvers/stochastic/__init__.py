"""Stochastic subgradient methods, each pass certified by the plane of its slopes (paper 002)."""

from cutplane.solvers.stochastic.methods import (
    Confident,
    StochasticPasses,
    adaptive,
    online_proximal,
    optimistic,
    pegasos,
)
from cutplane.solvers.stochastic.settings import Begin, Iterate, Rule, Sampling
from cutplane.solvers.stochastic.svrg import svrg

__all__ = [
    "Begin",
    "Confident",
    "Iterate",
    "Rule",
    "Sampling",
    "StochasticPasses",
    "adaptive",
    "online_proximal",
    "optimistic",
    "pegasos",
    "svrg",
]
