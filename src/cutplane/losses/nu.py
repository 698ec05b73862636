"""Support vector machines whose width is minimized out, so that a share ``nu`` says it.

The nu-trick (paper 000, section 2) makes the width ``epsilon`` of a regression a variable with a
price of ``nu``:

    min_epsilon  nu*epsilon + sum_i weight_i * max(0, |z_i - y_i| - epsilon)

The minimum is a sum over a tail: the absolute residuals of the highest ``nu`` of the weight. With
an intercept ``c`` there are two tails of ``nu / 2``, since ``c + epsilon`` and ``c - epsilon`` are
separate variables, one for residuals above and one for those below. So the intercept is minimized
out exactly too, and slopes sum to zero: two quantile losses that share their score.

The loss is homogeneous in the residuals, so a tangent has no offset but for what the targets bring.

In classification the margin ``rho`` is such a variable, and gains what it is short of 1:

    max(0, min_rho  nu*(1 - rho) + sum_i weight_i * max(0, rho - y_i*z_i))

That is the hinge loss at ``rho = 1``, so never above it. The minimum is ``nu`` less the margins of
the lowest ``nu`` of the weight. But for ``nu`` it is homogeneous in the scores: they could make it
as low as they like, and ``lam`` only scales the best model. So it ends at zero, which again only
scales that model, and the objective is positive: a relative gap means something for all ``lam``,
and also where the best model is zero. With an intercept ``c``, ``rho - c`` belongs to the positive
examples alone and ``rho + c`` to the negative ones: two tails of ``nu / 2``, one in each class.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import product_over, sum_over
from cutplane.losses.loss import AtBestOffset, Loss

# Shares of classes, and of what is below a value, are sums, and rounded.
_ROUNDING = 1e-9


def lowest_tail(values: Vector, weights: Vector, mass: float) -> tuple[Vector, float]:
    """Return how much of each weight belongs to the lowest ``mass``, and the value where it ends.

    Where it ends between two values, that is the middle of them.

    Parameters
    ----------
    values, weights : ndarray of shape (n,)
    mass : float
        At most the sum of the weights.
    """
    order = np.argsort(values, kind="stable")
    ordered = weights[order]
    before = np.cumsum(ordered)
    before -= ordered
    shares = np.empty_like(weights)
    shares[order] = np.clip(mass - before, 0.0, ordered)
    last = max(int(np.searchsorted(before, mass * (1.0 - _ROUNDING), side="left")) - 1, 0)
    end = float(values[order[last]])
    if before[last] + ordered[last] <= mass * (1.0 + _ROUNDING):
        above = last + 1 + np.flatnonzero(ordered[last + 1 :])[:1]
        end += 0.5 * (float(values[order[above]].sum()) - end) * len(above)
    return shares, end


class _OfShare(Loss):
    """A loss with a share ``nu`` of the examples, above 0 and at most 1."""

    additive = False
    shown = ("nu",)

    def __init__(self, nu: float = 0.5) -> None:
        if not 0.0 < nu <= 1.0:
            raise ValueError(f"nu must be above 0 and at most 1, got {nu}")
        self.nu = float(nu)

    def tangent_offset(
        self, y: Vector, scores: Vector, slopes: Vector, weights: Vector, value: float | None = None
    ) -> float:
        """Return the height of the tangent at scores of zero."""
        return self._height(y, slopes)

    @abstractmethod
    def _height(self, y: Vector, slopes: Vector) -> float:
        """Return the height at scores of zero of the tangent with these slopes."""


class NuInsensitive(_OfShare):
    """``min_epsilon nu*epsilon + mean(max(0, |z - y| - epsilon))``: regression with a share nu.

    At most a share ``nu`` of the examples is off by more than ``epsilon``. With an intercept it is
    the sum of two quantile losses, of ``nu / 2`` and ``1 - nu / 2``, that share their coefficients.
    """

    task = "regression"
    of_residual = True

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

    def _height(self, y: Vector, slopes: Vector) -> float:
        return -product_over(slopes, y)

    def _two_tails(self, residuals: Vector, weights: Vector) -> tuple[Vector, float]:
        """Return slopes that sum to zero, and the best offset."""
        above, top = lowest_tail(-residuals, weights, 0.5 * self.nu)
        below, bottom = lowest_tail(residuals, weights, 0.5 * self.nu)
        return above - below, 0.5 * (top - bottom)


class NuHinge(_OfShare):
    """``min_rho nu*(1 - rho) + mean(max(0, rho - y*z))``, not below 0: a hinge with a share nu.

    At most a share ``nu`` of the examples is inside the margin ``rho``. ``lam`` only scales the
    best model.
    """

    task = "classification"

    def check_scores(
        self, y: Vector, weights: Vector, shape: tuple[int, ...], *, intercept: bool
    ) -> None:
        """Raise ValueError if a class has less than half of ``nu``, and there is an intercept."""
        super().check_scores(y, weights, shape, intercept=intercept)
        most = 2.0 * min(sum_over(weights[y > 0.0]), sum_over(weights[y < 0.0]))
        if intercept and self.nu > most * (1.0 + _ROUNDING):
            raise ValueError(
                f"nu={self.nu:g} is infeasible: it can be at most {most:.4g}, twice the share of "
                "the smaller class"
            )

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        return self._cut_off(-y * lowest_tail(y * scores, weights, self.nu)[0], scores)

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        slopes, (positive, negative) = self._two_tails(y, scores, weights)
        return AtBestOffset(0.5 * (negative - positive), self._cut_off(slopes, scores)[0])

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at the best offset: those of both tails."""
        return self._cut_off(self._two_tails(y, scores, weights)[0], scores)[1]

    def _height(self, y: Vector, slopes: Vector) -> float:
        return self.nu if slopes.any() else 0.0

    def margin(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the margin ``rho`` at the best constant added to all scores.

        Parameters
        ----------
        y, scores, weights : ndarray of shape (n_samples,)
            Labels -1 and 1, scores, and weights that sum to one.
        """
        return 0.5 * sum(self._two_tails(y, scores, weights)[1])

    def _cut_off(self, slopes: Vector, scores: Vector) -> tuple[float, Vector]:
        """Return the loss and its slopes, from those that it has where it is not below zero."""
        value = self.nu + product_over(slopes, scores)
        return (value, slopes) if value > 0.0 else (0.0, np.zeros_like(slopes))

    def _two_tails(
        self, y: Vector, scores: Vector, weights: Vector
    ) -> tuple[Vector, tuple[float, float]]:
        """Return slopes that sum to zero, and where the tails of both classes end."""
        sides = y > 0.0, y < 0.0
        mass = min(0.5 * self.nu, *(sum_over(weights[side]) for side in sides))
        slopes, ends = np.zeros_like(scores), list[float]()
        for sign, side in zip((1.0, -1.0), sides, strict=True):
            shares, end = lowest_tail(sign * scores[side], weights[side], mass)
            slopes[side] = -sign * shares
            ends.append(end)
        return slopes, (ends[0], ends[1])
