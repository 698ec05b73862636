"""The logistic loss, compiled."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import total
from cutplane.compute.room import empty_like
from cutplane.compute.threads import map_blocks
from cutplane.losses.loss import OffsetLoss, moved
from cutplane.losses.pointwise import logistic_kernels as kernels
from cutplane.losses.pointwise.smooth import SmoothLoss
from cutplane.losses.score_loss import LOGISTIC


class Logistic(OffsetLoss, SmoothLoss):
    """``log(1 + exp(-y*z))``: a model of the probability of the positive class."""

    task = "classification"
    steady_curvature = True
    dual_form = (LOGISTIC, np.zeros((2, 5)))

    def derivatives(self, y: Vector, scores: Vector) -> tuple[Vector, Vector, Vector]:
        """Return value, first and second derivative for each example."""
        values, first, second = np.empty((3, len(y)))
        kernels.derivatives(y, scores, values, first, second)
        return values, first, second

    def conjugates(self, y: Vector, slopes: Vector) -> Vector:
        """Return the conjugate of each example's loss; infinite outside its domain."""
        out = np.empty_like(slopes)
        kernels.conjugates(y, slopes, out)
        return out

    def _along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, step: float
    ) -> tuple[float, float, float]:
        return kernels.along(y, scores, direction, weights, step)

    def _value_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> float:
        parts = map_blocks(
            lambda i: kernels.value(y[i], moved(scores[i], offset), weights[i]), len(y)
        )
        return float(total(parts))

    def _slopes_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        out = empty_like(scores)
        map_blocks(
            lambda i: kernels.slopes(y[i], moved(scores[i], offset), weights[i], out[i]), len(y)
        )
        return out

    def probability(self, scores: Vector) -> Vector:
        """Return the probability of the positive class."""
        return np.asarray(expit(scores))
