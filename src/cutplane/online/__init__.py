"""Methods that keep a dual for each example, and hand their work to the bundle as planes."""

from cutplane.online.automatic import automatic
from cutplane.online.dual_ascent import (
    DualAscent,
    DualEpochs,
    dual_ascent,
    obstacle_to_dual_ascent,
)
from cutplane.online.newton import NewtonSteps, SmoothedNewton, newton, obstacle_to_newton

__all__ = [
    "DualAscent",
    "DualEpochs",
    "NewtonSteps",
    "SmoothedNewton",
    "automatic",
    "dual_ascent",
    "newton",
    "obstacle_to_dual_ascent",
    "obstacle_to_newton",
]
