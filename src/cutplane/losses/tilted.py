"""A convex loss plus a linear function of the scores: what lies above a loss that is not convex.

If a loss is ``convex + concave``, the tangent of the concave part at some scores ``z0`` is above
it, so that

    convex(z) + concave(z0) + concave'(z0).(z - z0)  >=  convex(z) + concave(z)

is a convex function above the loss, which touches it at ``z0``: a step of the concave-convex
procedure (A. Yuille, A. Rangarajan: The concave-convex procedure, 2003).
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import product_over
from cutplane.core.protocols import Quadratic
from cutplane.losses.loss import Loss, moved
from cutplane.losses.score_loss import Examples

# Of a slope less what was added to it, this share of the latter is rounding.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


class TiltedLoss(Loss):
    """``loss(y, z) + pull.z + constant``, for the examples and weights of one risk.

    Parameters
    ----------
    loss : Loss
        A convex loss.
    pull : ndarray of shape (n_samples,)
        The slope of the linear function by each score; weights are in it.
    constant : float
        Its value at scores of zero.
    lower_bound : float
        What the sum never goes below.
    """

    # The pull is that of all examples, in their order: groups of them would not find theirs.
    additive = False

    def __init__(self, loss: Loss, pull: Vector, constant: float, lower_bound: float) -> None:
        self.loss, self.pull, self.constant = loss, pull, constant
        self.task = loss.task  # type: ignore[misc]  # that of the loss
        self.lower_bound = lower_bound
        self.of_residual, self.smooth = loss.of_residual, loss.smooth
        self.has_conjugate, self.has_curvatures = loss.has_conjugate, loss.has_curvatures

    @classmethod
    def above(
        cls, loss: Loss, y: Vector, scores: Vector, offset: float, weights: Vector
    ) -> TiltedLoss:
        """Return what lies above a loss with a ``convex_part`` and touches it at these scores."""
        at = moved(scores, offset)
        pull = weights * loss.concave_slopes(y, at)  # type: ignore[attr-defined]  # has one
        convex: Loss = loss.convex_part
        rest = loss.value(y, at, weights) - convex.value(y, at, weights)
        return cls(convex, pull, rest - product_over(pull, at), loss.lower_bound)

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the sum of losses and its derivative by each score."""
        return self.value(y, scores, weights), self.slopes(y, scores, weights)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the sum of losses."""
        tilt = product_over(self.pull, scores)
        return self.loss.value(y, scores, weights) + tilt + self.constant

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        return self.loss.slopes(y, scores, weights) + self.pull

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float | None:
        """Return ``max_z slopes.z - loss(y, z)``."""
        own = slopes - self.pull
        own[np.abs(own) <= _ROUNDING * np.abs(self.pull)] = 0.0
        found = self.loss.conjugate(y, own, weights)
        return None if found is None else found - self.constant

    def curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector | None:
        """Return the second derivative by each score."""
        return self.loss.curvatures(y, scores, weights)

    def smoothed(self, width: float) -> Loss:
        """Return the loss with its kinks rounded."""
        rounded = self.loss.smoothed(width)
        if rounded is self.loss:
            return self
        return TiltedLoss(rounded, self.pull, self.constant, -np.inf)

    def part(self, examples: Examples) -> TiltedLoss:
        """Raise ValueError: the constant is that of all examples."""
        raise ValueError(f"{self!r} is a loss of all examples together")

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        tilt = product_over(self.pull, direction)
        extra = Quadratic(extra.slope + tilt, extra.curvature)
        return self.loss.minimize_along(y, scores, direction, weights, extra)

    def __repr__(self) -> str:
        return f"TiltedLoss({self.loss!r})"
