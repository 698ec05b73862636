"""Stochastic subgradient methods, each pass certified by the plane of its slopes (paper 002)."""

from cutplane.solvers.stochastic.methods import Confident as Confident
from cutplane.solvers.stochastic.methods import StochasticPasses as StochasticPasses
from cutplane.solvers.stochastic.methods import adaptive as adaptive
from cutplane.solvers.stochastic.methods import online_proximal as online_proximal
from cutplane.solvers.stochastic.methods import optimistic as optimistic
from cutplane.solvers.stochastic.methods import pegasos as pegasos
from cutplane.solvers.stochastic.settings import Begin as Begin
from cutplane.solvers.stochastic.settings import Iterate as Iterate
from cutplane.solvers.stochastic.settings import Rule as Rule
from cutplane.solvers.stochastic.settings import Sampling as Sampling
