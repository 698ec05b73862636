"""Smooth losses: exponential, Poisson; the logistic loss has a file of its own.

Each is a function of one score with two derivatives, written once, element by element.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache

import numpy as np
from scipy.special import expit, xlogy

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import LEAST_NUMBERS, add_up, added, total
from cutplane.compute.products import largest_over, product_over
from cutplane.compute.threads import map_arrays, map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.core.search import find_root
from cutplane.losses.loss import Loss
from cutplane.losses.score_loss import EXPONENTIAL, POISSON, AtBestOffset

_EPS = float(np.finfo(np.float64).eps)
_NOTHING = Quadratic(0.0, 0.0)


class SmoothLoss(Loss):
    """A loss with two derivatives; line searches are Newton's."""

    smooth = True
    in_blocks = True

    @abstractmethod
    def derivatives(self, y: Vector, scores: Vector) -> tuple[Vector, Vector, Vector]:
        """Return value, first and second derivative for each example."""

    @abstractmethod
    def conjugates(self, y: Vector, slopes: Vector) -> Vector:
        """Return the conjugate of each example's loss; infinite outside its domain."""

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""
        out = np.empty_like(scores)

        def block(i: slice) -> float:
            # A score far off the scale makes the loss infinite; the searches can handle that.
            with np.errstate(over="ignore", invalid="ignore"):
                values, slopes, _ = self.derivatives(y[i], scores[i])
                out[i] = _product(weights[i], slopes)
                return _weighted_sum(weights[i], values)

        return float(total(map_blocks(block, len(y)))), out

    def curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the second derivative by each score."""
        out = np.empty_like(scores)

        def block(i: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                out[i] = _product(weights[i], self.derivatives(y[i], scores[i])[2])

        map_blocks(block, len(y))
        return out

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float:
        """Return ``max_z slopes.z - loss(y, z)``."""

        def block(i: slice) -> float:
            target, slope, weight = y[i], slopes[i], weights[i]
            if not weight.all():
                used = weight > 0.0
                target, slope, weight = target[used], slope[used], weight[used]
            with np.errstate(over="ignore", invalid="ignore"):  # where slopes are not finite
                return float((weight * self.conjugates(target, slope / weight)).sum())

        return float(total(map_blocks(block, len(y))))

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""

        def derivatives(step: float) -> tuple[float, float]:
            return self._along_all(y, scores, direction, weights, step, extra)

        return find_root(derivatives)

    def at_best_offset(
        self, y: Vector, scores: Vector, weights: Vector, guess: float | None
    ) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores, beginning at a guess."""
        offset = self._best_offset(y, scores, weights, guess or 0.0)
        return AtBestOffset(offset, self._value_at(y, scores, offset, weights))

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector, guess: float = 0.0) -> float:
        first, second = self._along_all(y, scores, None, weights, guess)
        sign = -1.0 if first > 0.0 else 1.0

        def derivatives(step: float) -> tuple[float, float]:
            if step == 0.0:
                return sign * first, second
            along, bend = self._along_all(y, scores, None, weights, guess + sign * step)
            return sign * along if np.isfinite(along) else np.inf, bend

        return guess + sign * find_root(derivatives)

    def _along_all(
        self,
        y: Vector,
        scores: Vector,
        direction: Vector | None,
        weights: Vector,
        step: float,
        extra: Quadratic = _NOTHING,
    ) -> tuple[float, float]:
        """Return the two derivatives along a ray at ``step``; without a direction all move alike.

        The first is zero where nothing but rounding is left of it: a search would take that for a
        slope, and look for its zero in vain.
        """

        def block(i: slice) -> tuple[float, float, float]:
            own = _ones()[: i.stop - i.start] if direction is None else direction[i]
            return self._along(y[i], scores[i], own, weights[i], step)

        slope, second, size = add_up(map_blocks(block, len(y)))
        bend = extra.curvature * step
        first = slope + extra.slope + bend
        if np.isnan(first):  # infinite terms of both signs: far beyond the minimum
            first = np.inf
        elif abs(first) <= 4.0 * _EPS * (size + abs(extra.slope) + abs(bend)) < np.inf:
            first = 0.0
        return first, second + extra.curvature

    def _along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, step: float
    ) -> tuple[float, float, float]:
        """Return the two derivatives along a ray at ``step``, and the size of the first's terms."""
        with np.errstate(over="ignore", invalid="ignore"):
            _, slopes, curvatures = self.derivatives(y, scores + step * direction)
            terms = _product(weights, _product(slopes, direction))
            second = _weighted_sum(weights, _product(curvatures, direction * direction))
            return float(terms.sum()), second, float(np.abs(terms).sum())


class Exponential(SmoothLoss):
    """``exp(-y*z)``, the loss of AdaBoost. Grows fast: outliers rule the fit."""

    task = "classification"
    steady_curvature = True
    slope_form = (EXPONENTIAL, np.zeros((2, 5)))

    def derivatives(self, y: Vector, scores: Vector) -> tuple[Vector, Vector, Vector]:
        """Return value, first and second derivative for each example."""
        value = np.exp(-y * scores)
        return value, -y * value, value

    def conjugates(self, y: Vector, slopes: Vector) -> Vector:
        """Return the conjugate of each example's loss."""
        p = -y * slopes
        return np.where(p >= 0.0, xlogy(p, np.maximum(p, 0.0)) - p, np.inf)

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector, guess: float = 0.0) -> float:
        positive = y > 0.0
        return 0.5 * (
            _log_sum(-scores, np.where(positive, weights, 0.0))
            - _log_sum(scores, np.where(positive, 0.0, weights))
        )

    def probability(self, scores: Vector) -> Vector:
        """Return the probability whose log odds are twice the score, as the loss implies."""
        return np.asarray(expit(2.0 * scores))


class Poisson(SmoothLoss):
    """Half the Poisson deviance ``exp(z) - y*z + y*log(y) - y``: counts with mean ``exp(z)``."""

    task = "regression"
    steady_curvature = True
    slope_form = (POISSON, np.zeros((2, 5)))

    def derivatives(self, y: Vector, scores: Vector) -> tuple[Vector, Vector, Vector]:
        """Return value, first and second derivative for each example."""
        mean = np.exp(scores)
        value = mean - y * scores + (xlogy(y, y) - y)
        # Near the minimum at log(y), these terms cancel; y * (exp(t) - 1 - t) keeps the digits.
        slope = mean - y
        near = np.flatnonzero((y > 0.0) & (np.abs(slope) < 0.5 * y))
        t = scores[near] - np.log(y[near])
        growth = np.expm1(t)
        value[near] = y[near] * np.maximum(growth - t, 0.0)
        slope[near] = y[near] * growth
        return value, slope, mean

    def conjugates(self, y: Vector, slopes: Vector) -> Vector:
        """Return the conjugate of each example's loss."""
        mean = slopes + y
        # A mean that underflowed leaves slope = -y up to rounding.
        inside = mean >= -4.0 * np.finfo(np.float64).eps * y
        mean = np.maximum(mean, 0.0)
        value = np.where(inside, xlogy(mean, mean) - mean - (xlogy(y, y) - y), np.inf)
        # Without the terms that cancel where slopes are small.
        near = np.flatnonzero((y > 0.0) & (np.abs(slopes) < 0.5 * y))
        q, count = slopes[near], y[near]
        value[near] = q * (np.log(count) - 1.0) + (q + count) * np.log1p(q / count)
        return value

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector, guess: float = 0.0) -> float:
        return float(np.log(product_over(weights, y))) - _log_sum(scores, weights)

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError for negative counts, or none at all."""
        super().check_targets(y)
        if (y < 0.0).any():
            raise ValueError("the Poisson loss needs targets that are zero or positive")
        if not added(int((y > 0.0).any())):
            raise ValueError("the Poisson loss needs at least one target above zero")

    def predict(self, scores: Vector) -> Vector:
        """Return the mean count."""
        return np.asarray(np.exp(scores))


@cache
def _ones() -> Vector:
    """Return as many ones as a block may have examples."""
    return np.ones(2 * LEAST_NUMBERS)


def _log_sum(exponents: Vector, weights: Vector) -> float:
    """Return the logarithm of the weighted sum of exponentials."""
    top = largest_over(np.where(weights > 0.0, exponents, -np.inf))
    if top == -np.inf:  # nothing has any weight
        return top

    def block(exponents: Vector, weights: Vector) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # of examples without weight
            return _weighted_sum(weights, np.exp(exponents - top))

    return top + float(np.log(total(map_arrays(block, exponents, weights))))


def _weighted_sum(weights: Vector, values: Vector) -> float:
    # weights @ values, but an example of weight zero adds nothing even if its value is infinite.
    return float(_product(weights, values).sum())


def _product(a: Vector, b: Vector) -> Vector:
    product = a * b
    if not np.isfinite(product).all():
        product[(a == 0.0) | (b == 0.0)] = 0.0
    return product
