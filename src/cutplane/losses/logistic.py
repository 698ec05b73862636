"""The logistic loss, with its compiled loops.

Compiled kernels for the logistic loss, with an exponential and a logarithm of their own.

Numba calls those of the C library, one number at a time, for 13 ns an example. Written out as
polynomials they are vectorized together with the loop around them: 2 ns. Both are right to two
units in the last place on the ranges that are needed here.

The loss is computed from ``e = exp(-|margin|)``, which cannot overflow:

    log(1 + exp(-margin)) = max(-margin, 0) + log(1 + e)

The logistic loss, compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from scipy.special import expit

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import total
from cutplane.compute.compiled import njit
from cutplane.compute.room import empty_like
from cutplane.compute.threads import map_blocks
from cutplane.losses.loss import OffsetLoss, moved
from cutplane.losses.score_loss import LOGISTIC
from cutplane.losses.smooth import SmoothLoss

_REORDER = {"reassoc", "contract", "nsz"}  # sums may be reordered, infinities must stay
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def along(
    y: Vector, scores: Vector, direction: Vector, weights: Vector, step: float
) -> tuple[float, float, float]:
    """Return the two derivatives along a ray at ``step``, and the size of the first's terms."""
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

    def _along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, step: float
    ) -> tuple[float, float, float]:
        return along(y, scores, direction, weights, step)

    def _value_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> float:
        parts = map_blocks(lambda i: value(y[i], moved(scores[i], offset), weights[i]), len(y))
        return float(total(parts))

    def _slopes_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        out = empty_like(scores)
        map_blocks(lambda i: slopes(y[i], moved(scores[i], offset), weights[i], out[i]), len(y))
        return out

    def probability(self, scores: Vector) -> Vector:
        """Return the probability of the positive class."""
        return np.asarray(expit(scores))
