"""The slope of one example's loss, in compiled steps."""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Matrix
from cutplane.compute.compiled import njit
from cutplane.losses.score_loss import EXPONENTIAL, LOGISTIC, MARGIN_PIECES, POISSON

_CONTRACT = {"contract"}
# Beyond this exponent losses that grow exponentially have the slope that they have there. It is
# still one of their slopes, so that planes hold.
_FARTHEST = 30.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def slope_of(form: int, shape: Matrix, y: float, z: float) -> float:
    """Return the slope of an example's loss at score ``z``; at a kink, the lesser one."""
    if form == LOGISTIC:
        return float(-y / (1.0 + np.exp(min(y * z, 700.0))))
    if form == EXPONENTIAL:
        return float(-y * np.exp(min(-y * z, _FARTHEST)))
    if form == POISSON:
        return float(np.exp(min(z, _FARTHEST)) - y)
    v = y * z - 1.0 if form == MARGIN_PIECES else z - y
    left, right = -v - shape[0, 0], v - shape[1, 0]
    slope = 0.0
    if left > 0.0:
        slope -= shape[0, 1] * min(left, shape[0, 4]) + shape[0, 2]
    if right > 0.0:
        slope += shape[1, 1] * min(right, shape[1, 4]) + shape[1, 2]
    return y * slope if form == MARGIN_PIECES else slope
