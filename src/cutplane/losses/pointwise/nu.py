"""Support vector regression whose width is minimized out, so that a share ``nu`` says it.

The nu-trick (paper 000, section 2) makes the width ``epsilon`` a variable with a price of ``nu``:

    min_epsilon  nu*epsilon + sum_i weight_i * max(0, |z_i - y_i| - epsilon)

The minimum is a sum over a tail: the absolute residuals of the highest ``nu`` of the weight. With
an intercept ``c`` there are two tails of ``nu / 2``, since ``c + epsilon`` and ``c - epsilon`` are
separate variables, one for residuals above and one for those below. So the intercept is minimized
out exactly too, and slopes sum to zero: two quantile losses that share their score.

The loss is homogeneous in the residuals, so a tangent has no offset but for what the targets bring.
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.sums import product_over
from cutplane.losses.loss import Loss
from cutplane.losses.score_loss import AtBestOffset


def lowest_tail(values: Vector, weights: Vector, mass: float) -> tuple[Vector, float]:
    """Return how much of each weight belongs to the lowest ``mass``, and the value where it ends.

    Parameters
    ----------
    values, weights : ndarray of shape (n,)
    mass : float
        At most the sum of the weights.
    """
    order = np.argsort(values, kind="stable")
    before = np.cumsum(weights[order])
    before -= weights[order]
    shares = np.empty_like(weights)
    shares[order] = np.clip(mass - before, 0.0, weights[order])
    last = int(np.searchsorted(before, mass, side="left")) - 1
    return shares, float(values[order[max(last, 0)]])


class NuInsensitive(Loss):
    """``min_epsilon nu*epsilon + mean(max(0, |z - y| - epsilon))``: regression with a share nu.

    At most a share ``nu`` of the examples is off by more than ``epsilon``. With an intercept it is
    the sum of two quantile losses, of ``nu / 2`` and ``1 - nu / 2``, that share their coefficients.
    """

    task = "regression"
    additive = False
    of_residual = True
    shown = ("nu",)

    def __init__(self, nu: float = 0.5) -> None:
        if not 0.0 < nu <= 1.0:
            raise ValueError(f"nu must be above 0 and at most 1, got {nu}")
        self.nu = float(nu)

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        residuals = scores - y
        slopes = np.sign(residuals) * lowest_tail(-np.abs(residuals), weights, self.nu)[0]
        return product_over(slopes, residuals), slopes

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        slopes, offset = self._two_tails(scores - y, weights)
        return AtBestOffset(offset, product_over(slopes, scores - y))

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at the best offset: those of both tails."""
        return self._two_tails(scores - y, weights)[0]

    def tangent_offset(
        self,
        y: Vector,
        scores: Vector,
        slopes: Vector,
        weights: Vector,
        *,
        value: float | None = None,
    ) -> float:
        """Return the height of the tangent at scores of zero."""
        return -product_over(slopes, y)

    def _two_tails(self, residuals: Vector, weights: Vector) -> tuple[Vector, float]:
        """Return slopes that sum to zero, and the best offset."""
        above, top = lowest_tail(-residuals, weights, 0.5 * self.nu)
        below, bottom = lowest_tail(residuals, weights, 0.5 * self.nu)
        return above - below, 0.5 * (top - bottom)
