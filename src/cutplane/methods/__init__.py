"""Methods by name, the automatic choice among them, and the front door."""

from cutplane.methods.automatic import automatic
from cutplane.methods.block_ascent import BlockAscent, block_ascent
from cutplane.methods.cccp import ConvexSteps, NoPlanes, cccp
from cutplane.methods.dual_ascent import DualEpochs, dual_ascent
from cutplane.methods.minimize import minimize
from cutplane.methods.newton import NewtonSteps, newton
from cutplane.methods.quasi_newton import QuasiNewtonSteps, quasi_newton
from cutplane.methods.sgd import BottouSteps, ConstantSteps, PegasosSteps, StochasticRun, sgd
from cutplane.methods.subgradient import SubgradientSteps, subgradient

__all__ = [
    "BlockAscent",
    "BottouSteps",
    "ConstantSteps",
    "ConvexSteps",
    "DualEpochs",
    "NewtonSteps",
    "NoPlanes",
    "PegasosSteps",
    "QuasiNewtonSteps",
    "StochasticRun",
    "SubgradientSteps",
    "automatic",
    "block_ascent",
    "cccp",
    "dual_ascent",
    "minimize",
    "newton",
    "quasi_newton",
    "sgd",
    "subgradient",
]
