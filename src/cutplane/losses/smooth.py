"""Smooth losses: logistic, exponential, Poisson.

Each is a function of one score with two derivatives, written once, element by element. The logistic
loss is compiled, with an exponential and a logarithm of its own: Numba calls those of the C
library, one number at a time; written out as polynomials they are vectorized together with the loop
around them. Both are right to two units in the last place on the ranges that are needed here. It is
computed from ``e = exp(-|margin|)``, which cannot overflow:

    log(1 + exp(-margin)) = max(-margin, 0) + log(1 + e)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from scipy.special import expit, xlogy

from cutplane.compute.arrays import EPS, Vector
from cutplane.compute.blocks import add_up, added, total
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.products import largest_over, product_over
from cutplane.compute.threads import map_arrays, map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.core.search import find_root
from cutplane.losses.loss import (
    EXPONENTIAL,
    LOGISTIC,
    POISSON,
    AtBestOffset,
    Loss,
    OffsetLoss,
)
from cutplane.losses.piecewise import Block, MovingScores

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
        moving = MovingScores(y, scores, weights, 1.0 if direction is None else direction)
        slope, second, size = add_up(moving.map(self._along, step))
        bend = extra.curvature * step
        first = slope + extra.slope + bend
        if np.isnan(first):  # infinite terms of both signs: far beyond the minimum
            first = np.inf
        elif abs(first) <= 4.0 * EPS * (size + abs(extra.slope) + abs(bend)) < np.inf:
            first = 0.0
        return first, second + extra.curvature

    def _along(self, step: float, moving: Block) -> tuple[float, float, float]:
        """Return the two derivatives along a ray at ``step``, and the size of the first's terms."""
        y, scores, weights, direction = moving
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


# Functions called from a loop that may be reordered inherit that leave unless they have flags of
# their own. Here a sum that is rounded on purpose must not be simplified.
_AS_WRITTEN = {"contract"}

_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
_LN_2_HIGH, _LN_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a number, it leaves the nearest integer in the lowest bits.
_ROUNDER = 6755399441055744.0  # 1.5 * 2**52
_ROUNDER_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_ONE_BITS = 0x3FF0000000000000
_FRACTION_BITS = 0x000FFFFFFFFFFFFF


def _reinterpret(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate the code that takes the bits of a number as one of another type."""
    return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))


def _to_bits(typing_context: Any, x: Any) -> Any:
    return types.int64(types.float64), _reinterpret


def _from_bits(typing_context: Any, bits: Any) -> Any:
    return types.float64(types.int64), _reinterpret


# Not as decorators: what kernels call has one argument, the functions above have two.
_bits_of: Any = intrinsic(_to_bits)
_double_of: Any = intrinsic(_from_bits)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_AS_WRITTEN)
def exp_minus(x: float) -> float:
    """Return ``exp(-x)`` for ``x >= 0``; zero where it is below the smallest normal number."""
    t = max(-x, -708.0)
    rounded = t * _LOG2_E + _ROUNDER
    power = rounded - _ROUNDER
    r = (t - power * _LN_2_HIGH) - power * _LN_2_LOW
    # Taylor's series: |r| <= ln(2)/2, so the next term is below 1e-17.
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    scale: float = _double_of((_bits_of(rounded) + 1023) << 52)
    return p * scale if x < 708.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_AS_WRITTEN)
def _log_near_one(f: float) -> float:
    """Return ``log(1 + f)`` for ``sqrt(1/2) <= 1 + f <= sqrt(2)``, by the polynomial of fdlibm."""
    s = f / (2.0 + f)
    z = s * s
    p = 1.479819860511658591e-01
    p = p * z + 1.531383769920937332e-01
    p = p * z + 1.818357216161805012e-01
    p = p * z + 2.222219843214978396e-01
    p = p * z + 2.857142874366239149e-01
    p = p * z + 3.999999999940941908e-01
    p = p * z + 6.666666666666735130e-01
    half = 0.5 * f * f
    return f - (half - s * (half + z * p))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_AS_WRITTEN)
def log_one_plus(e: float) -> float:
    """Return ``log(1 + e)`` for ``0 <= e <= 1``."""
    far = e > 0.41421356237309503
    return _log_near_one(0.5 * (e - 1.0) if far else e) + (_LN_2 if far else 0.0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_AS_WRITTEN)
def log(x: float) -> float:
    """Return the logarithm of a positive normal number."""
    bits = _bits_of(x) + (_ONE_BITS - _SQRT_HALF_BITS)
    fraction: float = _double_of((bits & _FRACTION_BITS) + _SQRT_HALF_BITS)
    power: float = _double_of(((bits >> 52) - 1023) + _ROUNDER_BITS) - _ROUNDER
    return _log_near_one(fraction - 1.0) + power * _LN_2


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def value(y: Vector, scores: Vector, weights: Vector) -> float:
    """Return the weighted sum of losses."""
    total = 0.0
    for i in range(len(y)):
        margin = y[i] * scores[i]
        loss = max(-margin, 0.0) + log_one_plus(exp_minus(abs(margin)))
        total += weights[i] * loss if weights[i] > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_AS_WRITTEN)
def slopes(y: Vector, scores: Vector, weights: Vector, out: Vector) -> None:
    """Fill in the derivative of the weighted sum by each score."""
    for i in range(len(y)):
        margin = y[i] * scores[i]
        e = exp_minus(abs(margin))
        out[i] = -y[i] * weights[i] * ((e if margin > 0.0 else 1.0) / (1.0 + e))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def along(step: float, moving: Block) -> tuple[float, float, float]:
    """Return the two derivatives along a ray at ``step``, and the size of the first's terms."""
    y, scores, weights, direction = moving
    first, second, size = 0.0, 0.0, 0.0
    for i in range(len(y)):
        margin = y[i] * (scores[i] + step * direction[i])
        e = exp_minus(abs(margin))
        likelier = 1.0 / (1.0 + e)
        rarer = e * likelier
        speed = weights[i] * direction[i]
        pull = speed * (rarer if margin > 0.0 else likelier)
        first -= y[i] * pull
        second += speed * direction[i] * rarer * likelier
        size += abs(pull)
    return first, second, size


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_AS_WRITTEN)
def derivatives(y: Vector, scores: Vector, values: Vector, firsts: Vector, seconds: Vector) -> None:
    """Fill in value, first and second derivative for each example."""
    for i in range(len(y)):
        margin = y[i] * scores[i]
        e = exp_minus(abs(margin))
        likelier = 1.0 / (1.0 + e)
        rarer = e * likelier
        values[i] = max(-margin, 0.0) + log_one_plus(e)
        firsts[i] = -y[i] * (rarer if margin > 0.0 else likelier)
        seconds[i] = rarer * likelier


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_AS_WRITTEN)
def conjugates(y: Vector, slopes: Vector, out: Vector) -> None:
    """Fill in ``p log(p) + (1-p) log(1-p)`` with ``p = -y*slope``; infinite outside of [0, 1]."""
    # A slope at the end of its range may lie beyond it by rounding of weight * slope / weight.
    slack = 4.0 * np.finfo(np.float64).eps
    for i in range(len(y)):
        p = -y[i] * slopes[i]
        q = 1.0 - p
        # Of a number that small only zero is left; its logarithm must be finite.
        large = max(q, 1e-300)
        # What 1 - p lost by rounding matters where p is small, and with it the whole entropy.
        entropy = p * log(max(p, 1e-300)) + q * (log(large) + ((1.0 - q) - p) / large)
        out[i] = entropy if (p >= -slack) & (q >= -slack) else np.inf


class Logistic(OffsetLoss, SmoothLoss):
    """``log(1 + exp(-y*z))``: a model of the probability of the positive class."""

    task = "classification"
    steady_curvature = True
    dual_form = (LOGISTIC, np.zeros((2, 5)))
    loops = value, slopes

    def derivatives(self, y: Vector, scores: Vector) -> tuple[Vector, Vector, Vector]:
        """Return value, first and second derivative for each example."""
        values, first, second = np.empty((3, len(y)))
        derivatives(y, scores, values, first, second)
        return values, first, second

    def conjugates(self, y: Vector, slopes: Vector) -> Vector:
        """Return the conjugate of each example's loss; infinite outside its domain."""
        out = np.empty_like(slopes)
        conjugates(y, slopes, out)
        return out

    def _along(self, step: float, moving: Block) -> tuple[float, float, float]:
        return along(step, moving)

    def probability(self, scores: Vector) -> Vector:
        """Return the probability of the positive class."""
        return np.asarray(expit(scores))
