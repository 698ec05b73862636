"""Methods by name, the automatic choice among them, and the front door."""

from cutplane.methods.ascent.block_ascent import BlockAscent, block_ascent
from cutplane.methods.ascent.class_ascent import ClassEpochs, class_ascent
from cutplane.methods.ascent.dual_ascent import DualEpochs, dual_ascent
from cutplane.methods.automatic import automatic
from cutplane.methods.cccp import ConvexSteps, NoPlanes, cccp
from cutplane.methods.class_newton import ClassNewtonSteps, class_newton
from cutplane.methods.coordinates.descent import (
    CoordinateSteps,
    StayAtBest,
    coordinate_descent,
)
from cutplane.methods.coordinates.quasi_newton import (
    BoundAtBest,
    SparseQuasiNewton,
    sparse_quasi_newton,
)
from cutplane.methods.minimize import minimize
from cutplane.methods.newton import NewtonSteps, newton
from cutplane.methods.quasi_newton import QuasiNewtonSteps, quasi_newton
from cutplane.methods.sgd import BottouSteps, ConstantSteps, PegasosSteps, StochasticRun, sgd
from cutplane.methods.stochastic import (
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
from cutplane.methods.subgradient import SubgradientSteps, subgradient

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
