"""Methods that keep a dual for each example, and hand their work to the bundle as planes."""

from cutplane.methods.automatic import automatic, automatic_for_chains, automatic_for_models
from cutplane.methods.block_ascent import (
    BlockAscent,
    block_ascent,
    obstacle_to_block_ascent,
)
from cutplane.methods.dual_ascent import (
    DualAscent,
    DualEpochs,
    dual_ascent,
    obstacle_to_dual_ascent,
)
from cutplane.methods.newton import NewtonSteps, SmoothedNewton, newton, obstacle_to_newton
from cutplane.methods.quasi_newton import QuasiNewtonSteps, quasi_newton

__all__ = [
    "BlockAscent",
    "DualAscent",
    "DualEpochs",
    "NewtonSteps",
    "QuasiNewtonSteps",
    "SmoothedNewton",
    "automatic",
    "automatic_for_chains",
    "automatic_for_models",
    "block_ascent",
    "dual_ascent",
    "newton",
    "obstacle_to_block_ascent",
    "obstacle_to_dual_ascent",
    "obstacle_to_newton",
    "quasi_newton",
]
