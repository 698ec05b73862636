"""Losses made of two ramps: hinge, quantile, Huber and their relatives.

Every loss here is a function of one variable ``v``, the sum of a ramp that rises to the right and
one that rises to the left:

    l(v) = ramp(v - start_right) + ramp(-v - start_left)

    ramp(u) = 0                                  for u <= 0
              curvature * u^2 / 2                for 0 < u <= width,    width = slope / curvature
              slope * (u - width / 2)            beyond

An infinite curvature gives a kink (hinge, quantile), an infinite slope a parabola (squared losses),
both finite a rounded kink (Huber). In regression ``v = z - y``, in classification ``v = y*z - 1``.
So one set of compiled kernels serves them all: value and slopes, conjugate, and the exact minimum
along a ray of scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from cutplane.core.protocols import Matrix, Quadratic, Vector
from cutplane.losses.loss import Loss, Task

_INF = float("inf")


@dataclass(frozen=True, slots=True)
class Ramp:
    """One side of a loss; see the module's formula. The default is no ramp at all."""

    slope: float = 0.0
    curvature: float = _INF
    start: float = 0.0

    @property
    def width(self) -> float:
        """Length of the rounded part."""
        if self.curvature == _INF:
            return 0.0
        return self.slope / self.curvature


class RampLoss(Loss):
    """A loss made of two ramps.

    Parameters
    ----------
    task : {"classification", "regression"}
        Whether the loss is one of ``v = y*z - 1`` or of ``v = z - y``.
    left, right : Ramp
        What rises as ``v`` goes to the left, and to the right.
    """

    def __init__(self, task: Task, *, left: Ramp = Ramp(), right: Ramp = Ramp()) -> None:  # noqa: B008 (frozen)
        self.task = task  # type: ignore[misc]  # ramps serve both tasks, so it differs by instance
        self.left = left
        self.right = right
        self._of_margin = task == "classification"
        self._shape = np.array([_shape(left), _shape(right)])

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""
        slopes = np.empty_like(scores)
        return _evaluate(self._of_margin, self._shape, y, scores, weights, slopes), slopes

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float:
        """Return ``max_z slopes.z - loss(y, z)``."""
        return _conjugate(self._of_margin, self._shape, y, slopes, weights)  # type: ignore[no-any-return]

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimises ``loss(scores + k*direction) + extra(k)``, exactly."""
        first, last = self._minimisers(y, scores, direction, weights, extra)
        return 0.5 * (first + last)

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        # Where all offsets of an interval are best, take its middle: it depends neither on where
        # the search began nor on how often an example is repeated.
        up = np.ones_like(scores)
        nothing = Quadratic(0.0, 0.0)
        first_up, last_up = self._minimisers(y, scores, up, weights, nothing)
        if first_up > 0.0:
            return 0.5 * (first_up + last_up)
        first_down, last_down = self._minimisers(y, scores, -up, weights, nothing)
        if first_down > 0.0:
            return -0.5 * (first_down + last_down)
        return 0.5 * (last_up - last_down)

    def _minimisers(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> tuple[float, float]:
        """Return the first and the last minimiser ``k >= 0`` on a ray; mostly they are the same."""
        return _minimisers(  # type: ignore[no-any-return]
            self._of_margin, self._shape, y, scores, direction, weights, *extra
        )


def _positive(name: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def _not_negative(name: str, value: float) -> float:
    if not (np.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return float(value)


class Hinge(RampLoss):
    """``max(0, 1 - y*z)``, the loss of the support vector machine."""

    def __init__(self) -> None:
        super().__init__("classification", left=Ramp(slope=1.0))


class SquaredHinge(RampLoss):
    """``max(0, 1 - y*z)^2``."""

    def __init__(self) -> None:
        super().__init__("classification", left=Ramp(slope=_INF, curvature=2.0))


class SmoothHinge(RampLoss):
    """The hinge with its kink rounded: quadratic for margins in ``(1 - smoothing, 1)``."""

    def __init__(self, smoothing: float = 0.5) -> None:
        self.smoothing = _positive("smoothing", smoothing)
        super().__init__("classification", left=Ramp(slope=1.0, curvature=1.0 / self.smoothing))

    def __repr__(self) -> str:
        return f"SmoothHinge({self.smoothing:g})"


class Squared(RampLoss):
    """``(z - y)^2 / 2``: the mean."""

    def __init__(self) -> None:
        parabola = Ramp(slope=_INF, curvature=1.0)
        super().__init__("regression", left=parabola, right=parabola)


class Absolute(RampLoss):
    """``|z - y|``: the median."""

    def __init__(self) -> None:
        super().__init__("regression", left=Ramp(slope=1.0), right=Ramp(slope=1.0))


class Quantile(RampLoss):
    """The pinball loss ``max(q*(y - z), (1 - q)*(z - y))``, which the ``q``-quantile minimises."""

    def __init__(self, quantile: float = 0.5) -> None:
        if not 0.0 < quantile < 1.0:
            raise ValueError(f"a quantile lies strictly between 0 and 1, got {quantile}")
        self.quantile = float(quantile)
        super().__init__("regression", left=Ramp(slope=quantile), right=Ramp(slope=1.0 - quantile))

    def __repr__(self) -> str:
        return f"Quantile({self.quantile:g})"


class EpsilonInsensitive(RampLoss):
    """``max(0, |z - y| - epsilon)``, the loss of support vector regression."""

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = _not_negative("epsilon", epsilon)
        ramp = Ramp(slope=1.0, start=self.epsilon)
        super().__init__("regression", left=ramp, right=ramp)

    def __repr__(self) -> str:
        return f"EpsilonInsensitive({self.epsilon:g})"


class SquaredEpsilonInsensitive(RampLoss):
    """``max(0, |z - y| - epsilon)^2``."""

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = _not_negative("epsilon", epsilon)
        ramp = Ramp(slope=_INF, curvature=2.0, start=self.epsilon)
        super().__init__("regression", left=ramp, right=ramp)

    def __repr__(self) -> str:
        return f"SquaredEpsilonInsensitive({self.epsilon:g})"


class Huber(RampLoss):
    """``u^2 / 2`` for ``|u| <= delta``, ``delta*|u| - delta^2/2`` beyond, with ``u = z - y``."""

    def __init__(self, delta: float = 1.35) -> None:
        self.delta = _positive("delta", delta)
        ramp = Ramp(slope=self.delta, curvature=1.0)
        super().__init__("regression", left=ramp, right=ramp)

    def __repr__(self) -> str:
        return f"Huber({self.delta:g})"


# Kernels. `shape` has the rows left, right, and the columns below; the first three are so defined that
# value and slope of a ramp need no branch (see `_evaluate`), and the loops are vectorised.

_START, _BEND, _JUMP, _RISE, _WIDTH = range(5)
_BLOCK = 4096  # partial sums: the rounding error grows with the block, not with the sample
_REORDER = {"reassoc", "contract", "nsz"}  # sums may be reordered, infinities must stay


def _shape(ramp: Ramp) -> list[float]:
    """Return start, curvature of the rounded part, jump at a kink, slope beyond, and width."""
    if ramp.width == 0.0:
        return [ramp.start, 0.0, ramp.slope, ramp.slope, 0.0]
    rise = 0.0 if ramp.width == _INF else ramp.slope
    return [ramp.start, ramp.curvature, 0.0, rise, ramp.width]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _evaluate(
    of_margin: bool, shape: Matrix, y: Vector, scores: Vector, weights: Vector, slopes: Vector
) -> float:
    start_left, bend_left, jump_left, rise_left, width_left = shape[0]
    start_right, bend_right, jump_right, rise_right, width_right = shape[1]
    total = 0.0
    for first in range(0, len(y), _BLOCK):
        partial = 0.0
        for i in range(first, min(first + _BLOCK, len(y))):
            v = y[i] * scores[i] - 1.0 if of_margin else scores[i] - y[i]
            left = max(-v - start_left, 0.0)
            round_left = min(left, width_left)
            right = max(v - start_right, 0.0)
            round_right = min(right, width_right)
            slope = (
                bend_right * round_right
                + (jump_right if right > 0.0 else 0.0)
                - bend_left * round_left
                - (jump_left if left > 0.0 else 0.0)
            )
            value = (
                0.5 * bend_left * round_left * round_left
                + rise_left * (left - round_left)
                + 0.5 * bend_right * round_right * round_right
                + rise_right * (right - round_right)
            )
            slopes[i] = weights[i] * (y[i] * slope if of_margin else slope)
            partial += weights[i] * value if weights[i] > 0.0 else 0.0
        total += partial
    return total


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _derivative(
    of_margin: bool,
    shape: Matrix,
    y: Vector,
    scores: Vector,
    direction: Vector,
    weights: Vector,
    step: float,
) -> tuple[float, float]:
    """Return the derivative along a ray at ``step``, and the size of the terms it is made of."""
    start_left, bend_left, jump_left, _, width_left = shape[0]
    start_right, bend_right, jump_right, _, width_right = shape[1]
    total, size = 0.0, 0.0
    for i in range(len(y)):
        z = scores[i] + step * direction[i]
        v = y[i] * z - 1.0 if of_margin else z - y[i]
        speed = y[i] * direction[i] if of_margin else direction[i]
        left = max(-v - start_left, 0.0)
        right = max(v - start_right, 0.0)
        slope_left = bend_left * min(left, width_left) + (jump_left if left > 0.0 else 0.0)
        slope_right = bend_right * min(right, width_right) + (jump_right if right > 0.0 else 0.0)
        total += weights[i] * (slope_right - slope_left) * speed
        size += weights[i] * (slope_right + slope_left + jump_left + jump_right) * abs(speed)
    return total, size


@njit(cache=True, nogil=True)
def _conjugate(of_margin: bool, shape: Matrix, y: Vector, slopes: Vector, weights: Vector) -> float:
    # A slope at the end of its range may lie beyond it by rounding of weight * slope / weight.
    slack = 1.0 + 4.0 * np.finfo(np.float64).eps
    total = 0.0
    for first in range(0, len(y), _BLOCK):
        partial = 0.0
        for i in range(first, min(first + _BLOCK, len(y))):
            if weights[i] == 0.0:
                continue
            slope = slopes[i] / weights[i]
            if of_margin:
                slope *= y[i]
                conjugate = slope
            else:
                conjugate = slope * y[i]
            if slope != 0.0:
                side = 1 if slope > 0.0 else 0
                size = abs(slope)
                if shape[side, _WIDTH] < np.inf and size > shape[side, _RISE] * slack:
                    return np.inf
                conjugate += size * shape[side, _START]
                if shape[side, _BEND] > 0.0:
                    conjugate += 0.5 * size * size / shape[side, _BEND]
            partial += weights[i] * conjugate
        total += partial
    return total


@njit(cache=True, nogil=True)
def _minimisers(
    of_margin: bool,
    shape: Matrix,
    y: Vector,
    scores: Vector,
    direction: Vector,
    weights: Vector,
    extra_slope: float,
    extra_curvature: float,
) -> tuple[float, float]:
    """Return the first and the last minimiser on a ray: where the derivative crosses zero.

    The derivative is increasing and piecewise linear. A few trial steps give a bracket, which is
    then searched exactly.
    """
    slope, size = _derivative(of_margin, shape, y, scores, direction, weights, 0.0)
    slope += extra_slope
    # What counts as zero: a flat stretch of minimisers must not end by rounding alone.
    zero = 1e-14 * (size + abs(extra_slope))
    if slope > zero:
        return 0.0, 0.0
    lo, slope_lo = 0.0, slope
    hi, slope_hi = np.inf, np.inf
    trial = 1.0
    closing = 0
    while closing < _CLOSING_STEPS and trial < _FAR:
        slope, _ = _derivative(of_margin, shape, y, scores, direction, weights, trial)
        slope += extra_slope + extra_curvature * trial
        if slope > zero:
            hi, slope_hi = trial, slope
        elif slope < -zero:
            lo, slope_lo = trial, slope
        else:
            break
        if hi == np.inf:
            trial *= 4.0
        else:
            closing += 1
            # Secant, kept off the ends so that both of them move.
            secant = lo - slope_lo * (hi - lo) / (slope_hi - slope_lo)
            margin = 0.1 * (hi - lo)
            trial = min(max(secant, lo + margin), hi - margin)
    return _minimisers_between(
        of_margin, shape, y, scores, direction, weights, extra_slope, extra_curvature, lo, hi, zero
    )


_CLOSING_STEPS = 7
_FAR = 1e300


@njit(cache=True, nogil=True)
def _minimisers_between(
    of_margin: bool,
    shape: Matrix,
    y: Vector,
    scores: Vector,
    direction: Vector,
    weights: Vector,
    slope: float,
    curvature: float,
    lo: float,
    hi: float,
    zero: float,
) -> tuple[float, float]:
    """Return the first and the last minimiser, both known to lie between ``lo`` and ``hi``.

    The derivative changes where an example enters or leaves a part of a ramp. Each such event is a
    place, a jump, and a change of curvature. The crossing is found by selection, as a weighted
    median is: the expected cost is linear, no sort is needed.
    """
    place, jump, bend = _events_between(
        of_margin, shape, y, scores, direction, weights, lo, hi
    )
    slope += curvature * lo + jump[0]
    curvature += bend[0]
    if slope > zero:
        return lo, lo  # the derivative jumps across zero at `lo` itself
    here = lo
    beyond = hi
    first, last = 1, len(place)
    while first < last:
        pivot = _middle(place[first], place[(first + last) // 2], place[last - 1])
        # Three parts: before the pivot, at it, beyond it.
        before, at, end = first, first, last
        while at < end:
            if place[at] < pivot:
                _swap(place, jump, bend, before, at)
                before += 1
                at += 1
            elif place[at] > pivot:
                end -= 1
                _swap(place, jump, bend, at, end)
            else:
                at += 1
        slope_there = slope + curvature * (pivot - here)
        curvature_there = curvature
        for j in range(first, end):
            slope_there += jump[j] + bend[j] * (pivot - place[j])
            curvature_there += bend[j]
        if slope_there > zero:
            # The crossing is at the pivot or before it.
            beyond = pivot
            last = before
        else:
            slope, curvature, here = slope_there, max(curvature_there, 0.0), pivot
            first = end
    if slope >= -zero and curvature <= 0.0:
        return here, beyond if beyond < np.inf else here
    if curvature > 0.0:
        crossing = min(here - min(slope, 0.0) / curvature, beyond)
    else:
        crossing = beyond if beyond < np.inf else here
    return crossing, crossing


@njit(cache=True, nogil=True)
def _events_between(
    of_margin: bool,
    shape: Matrix,
    y: Vector,
    scores: Vector,
    direction: Vector,
    weights: Vector,
    lo: float,
    hi: float,
) -> tuple[Vector, Vector, Vector]:
    """Return the events between two steps; entry 0 is the slope and curvature just after ``lo``."""
    # Room for four events an example. What is not written to is never touched, and costs nothing.
    place, jump, bend = np.empty(4 * len(y) + 1), np.empty(4 * len(y) + 1), np.empty(4 * len(y) + 1)
    slope, curvature = 0.0, 0.0
    n = 1
    for i in range(len(y)):
        if weights[i] == 0.0 or direction[i] == 0.0:
            continue
        z = scores[i] + lo * direction[i]
        v = y[i] * z - 1.0 if of_margin else z - y[i]
        speed = y[i] * direction[i] if of_margin else direction[i]
        for side in range(2):
            # By scalars: a row `shape[side]` would be a new array for each example.
            bend_here, jump_here, width = shape[side, _BEND], shape[side, _JUMP], shape[side, _WIDTH]
            if bend_here == 0.0 and jump_here == 0.0:
                continue
            sign = 2.0 * side - 1.0
            u = sign * v - shape[side, _START]
            du = sign * speed
            change = weights[i] * bend_here * du * du
            # Part 0 is flat, 1 rounded, 2 straight; on a border, the part that is being entered.
            if u < 0.0 or (u == 0.0 and du < 0.0):
                part = 0
            elif u < width or (u == width and du < 0.0):
                part = 1
                slope += weights[i] * bend_here * u * du
                curvature += change
            else:
                part = 2
                slope += weights[i] * shape[side, _RISE] * du
            if (du > 0.0 and part == 0) or (du < 0.0 and part != 0):
                where = lo - u / du
                if where < hi:
                    place[n], jump[n] = where, weights[i] * jump_here * abs(du)
                    bend[n] = change if du > 0.0 else -change
                    n += 1
            if bend_here > 0.0 and ((du > 0.0 and part != 2) or (du < 0.0 and part == 2)):
                where = lo + (width - u) / du
                if where < hi:
                    place[n], jump[n], bend[n] = where, 0.0, -change if du > 0.0 else change
                    n += 1
    jump[0], bend[0] = slope, curvature
    return place[:n], jump[:n], bend[:n]


@njit(cache=True, nogil=True)
def _middle(a: float, b: float, c: float) -> float:
    return max(min(a, b), min(max(a, b), c))


@njit(cache=True, nogil=True)
def _swap(place: Vector, jump: Vector, bend: Vector, i: int, j: int) -> None:
    place[i], place[j] = place[j], place[i]
    jump[i], jump[j] = jump[j], jump[i]
    bend[i], bend[j] = bend[j], bend[i]
