"""Methods by name, the automatic choice among them, and the front door."""

from cutplane.models.multiclass.ascent import ClassEpochs, class_ascent
from cutplane.models.multiclass.newton import ClassNewtonSteps, class_newton
from cutplane.solvers.automatic import automatic
from cutplane.solvers.block_ascent import BlockAscent, block_ascent
from cutplane.solvers.cccp import ConvexSteps, NoPlanes, cccp
from cutplane.solvers.coordinates.descent import CoordinateSteps, StayAtBest, coordinate_descent
from cutplane.solvers.coordinates.quasi_newton import (
    BoundAtBest,
    SparseQuasiNewton,
    sparse_quasi_newton,
)
from cutplane.solvers.dual_ascent import DualEpochs, dual_ascent
from cutplane.solvers.minimize import minimize
from cutplane.solvers.newton import NewtonSteps, newton
from cutplane.solvers.quasi_newton import QuasiNewtonSteps, quasi_newton
from cutplane.solvers.sgd import BottouSteps, ConstantSteps, PegasosSteps, StochasticRun, sgd
from cutplane.solvers.stochastic import (
    Begin,
    Confident,
    Iterate,
    Sampling,
    StochasticPasses,
    adaptive,
    online_proximal,
    optimistic,
    pegasos,
    svrg,
)
from cutplane.solvers.subgradient import SubgradientSteps, subgradient

__all__ = [
    "Begin",
    "BlockAscent",
    "BottouSteps",
    "BoundAtBest",
    "ClassEpochs",
    "ClassNewtonSteps",
    "Confident",
    "ConstantSteps",
    "ConvexSteps",
    "CoordinateSteps",
    "DualEpochs",
    "Iterate",
    "NewtonSteps",
    "NoPlanes",
    "PegasosSteps",
    "QuasiNewtonSteps",
    "Sampling",
    "SparseQuasiNewton",
    "StayAtBest",
    "StochasticPasses",
    "StochasticRun",
    "SubgradientSteps",
    "adaptive",
    "automatic",
    "block_ascent",
    "cccp",
    "class_ascent",
    "class_newton",
    "coordinate_descent",
    "dual_ascent",
    "minimize",
    "newton",
    "online_proximal",
    "optimistic",
    "pegasos",
    "quasi_newton",
    "sgd",
    "sparse_quasi_newton",
    "subgradient",
    "svrg",
]
