"""Methods by name, the automatic choice among them, and the front door."""

from cutplane.methods.automatic import automatic
from cutplane.methods.block_ascent import BlockAscent, block_ascent
from cutplane.methods.dual_ascent import DualEpochs, dual_ascent
from cutplane.methods.minimize import minimize
from cutplane.methods.newton import NewtonSteps, newton
from cutplane.methods.quasi_newton import QuasiNewtonSteps, quasi_newton
from cutplane.methods.sgd import BottouSteps, ConstantSteps, PegasosSteps, StochasticRun, sgd

__all__ = [
    "BlockAscent",
    "BottouSteps",
    "ConstantSteps",
    "DualEpochs",
    "NewtonSteps",
    "PegasosSteps",
    "QuasiNewtonSteps",
    "StochasticRun",
    "automatic",
    "block_ascent",
    "dual_ascent",
    "minimize",
    "newton",
    "quasi_newton",
    "sgd",
]
