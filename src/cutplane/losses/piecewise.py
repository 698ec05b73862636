"""Hinge, quantile, Huber and their relatives: losses made of two pieces, with their compiled loops.

The kind of a loss says whether it is one of margins, and has for its left and its right piece the
numbers

    start    where the piece begins
    bend     curvature of its rounded part, 0 if it has none
    jump     slope that it gains at once, at a kink
    rise     slope beyond the rounded part, 0 if it never ends
    width    length of the rounded part

so that value and slope of a piece need no branch, and the loops over examples are vectorized. They
are tuples: to take a row of a matrix apart would double the time that a kernel takes to compile.

Every loss here is a function of one variable ``v``, the sum of a piece that rises to the right and
one that rises to the left:

    l(v) = piece(v - start_right) + piece(-v - start_left)

    piece(u) = 0                                  for u <= 0
              curvature * u^2 / 2                for 0 < u <= width,    width = slope / curvature
              slope * (u - width / 2)            beyond

An infinite curvature gives a kink (hinge, quantile), an infinite slope a parabola (squared losses),
both finite a rounded kink (Huber). In regression ``v = z - y``, in classification ``v = y*z - 1``.
So one set of compiled kernels serves them all: value and slopes, conjugate, and the exact minimum
along a ray of scores.

The derivative along a ray is increasing and piecewise linear. Trial steps give a bracket around its
zero, and the places inside where it changes (events) are searched exactly. Each trial is a pass
over vectors as long as the sample, so trials should be few: a thirty-second part of the examples
says first where the zero must be. That saves time only. The bracket and the result are of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Vector, empty, positive
from cutplane.compute.blocks import add_up, joined, placing, power_below, rows_in_all, total
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import Quadratic
from cutplane.losses.loss import MARGIN_PIECES, RESIDUAL_PIECES, OffsetLoss, Task, not_negative

Shape: TypeAlias = tuple[float, float, float, float, float]
Kind: TypeAlias = tuple[bool, Shape, Shape]
Block: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""Targets, scores, weights, and the direction in which scores move, of a block of examples."""

# Kernels see blocks of a sample (`cutplane.compute.threads.map_arrays`), so that sums are short.


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def value(kind: Kind, y: Vector, scores: Vector, weights: Vector) -> float:
    """Return the weighted sum of losses."""
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, rise_left, width_left = left_shape
    start_right, bend_right, _, rise_right, width_right = right_shape
    total = 0.0
    for i in range(len(y)):
        v = y[i] * scores[i] - 1.0 if of_margin else scores[i] - y[i]
        left = max(-v - start_left, 0.0)
        round_left = min(left, width_left)
        right = max(v - start_right, 0.0)
        round_right = min(right, width_right)
        loss = (
            0.5 * bend_left * round_left * round_left
            + rise_left * (left - round_left)
            + 0.5 * bend_right * round_right * round_right
            + rise_right * (right - round_right)
        )
        total += weights[i] * loss if weights[i] > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def slopes(kind: Kind, y: Vector, scores: Vector, weights: Vector, out: Vector) -> None:
    """Fill in the derivative of the weighted sum by each score; at a kink, the lesser one."""
    # Not in one loop with the sum of `value`: that would then depend in its last bit on where the
    # arrays lie in memory, because near each other the compiled code takes them to overlap.
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, jump_left, _, width_left = left_shape
    start_right, bend_right, jump_right, _, width_right = right_shape
    for i in range(len(y)):
        v = y[i] * scores[i] - 1.0 if of_margin else scores[i] - y[i]
        left = max(-v - start_left, 0.0)
        right = max(v - start_right, 0.0)
        slope = (
            bend_right * min(right, width_right)
            + (jump_right if right > 0.0 else 0.0)
            - bend_left * min(left, width_left)
            - (jump_left if left > 0.0 else 0.0)
        )
        out[i] = weights[i] * (y[i] * slope if of_margin else slope)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def curvatures(kind: Kind, y: Vector, scores: Vector, weights: Vector, out: Vector) -> None:
    """Fill in the second derivative of the weighted sum by each score, inside the rounded parts."""
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, _, width_left = left_shape
    start_right, bend_right, _, _, width_right = right_shape
    for i in range(len(y)):
        v = y[i] * scores[i] - 1.0 if of_margin else scores[i] - y[i]
        left, right = -v - start_left, v - start_right
        bend = bend_left if 0.0 < left < width_left else 0.0
        bend += bend_right if 0.0 < right < width_right else 0.0
        out[i] = weights[i] * bend


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def derivative(kind: Kind, step: float, moving: Block) -> tuple[float, float]:
    """Return the derivative along a ray at ``step``, and the size of the terms it is made of."""
    y, scores, weights, direction = moving
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, jump_left, _, width_left = left_shape
    start_right, bend_right, jump_right, _, width_right = right_shape
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def conjugate(kind: Kind, y: Vector, slopes: Vector, weights: Vector) -> float:
    """Return the conjugate of the weighted sum of losses."""
    # A slope at the end of its range may lie beyond it by rounding of weight * slope / weight.
    slack = 1.0 + 4.0 * EPS
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, rise_left, width_left = left_shape
    start_right, bend_right, _, rise_right, width_right = right_shape
    steepest_left = rise_left * slack if width_left < np.inf else np.inf
    steepest_right = rise_right * slack if width_right < np.inf else np.inf
    half_left = 0.5 / bend_left if bend_left > 0.0 else 0.0
    half_right = 0.5 / bend_right if bend_right > 0.0 else 0.0
    total, outside = 0.0, 0
    for i in range(len(y)):
        slope = slopes[i] / weights[i] if weights[i] > 0.0 else 0.0
        slope = y[i] * slope if of_margin else slope
        left, right = max(-slope, 0.0), max(slope, 0.0)
        outside += (left > steepest_left) | (right > steepest_right)
        total += weights[i] * (
            (slope if of_margin else slope * y[i])
            + left * (start_left + half_left * left)
            + right * (start_right + half_right * right)
        )
    return np.inf if outside else total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def curvature(kind: Kind, step: float, moving: Block) -> float:
    """Return the second derivative along a ray, of the examples inside the rounded parts."""
    y, scores, weights, direction = moving
    of_margin, left_shape, right_shape = kind
    start_left, bend_left, _, _, width_left = left_shape
    start_right, bend_right, _, _, width_right = right_shape
    total = 0.0
    for i in range(len(y)):
        z = scores[i] + step * direction[i]
        v = y[i] * z - 1.0 if of_margin else z - y[i]
        left, right = -v - start_left, v - start_right
        bend = bend_left if 0.0 < left < width_left else 0.0
        bend += bend_right if 0.0 < right < width_right else 0.0
        total += weights[i] * bend * direction[i] * direction[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _changing(kind: Kind, lo: float, hi: float, moving: Block) -> NDArray[np.int64]:
    """Return the examples that may pass, between two steps, from one part of a piece to another.

    Mostly few do, so this test is all that most examples cost.
    """
    y, scores, _, direction = moving
    of_margin, left_shape, right_shape = kind
    start_left, _, _, _, width_left = left_shape
    start_right, _, _, _, width_right = right_shape
    hi = min(hi, 1e300)  # an infinite step times a speed of zero would be NaN
    found = np.empty(len(y) + 1, np.int64)
    n = 0
    for i in range(len(y)):
        z_lo, z_hi = scores[i] + lo * direction[i], scores[i] + hi * direction[i]
        v_lo = y[i] * z_lo - 1.0 if of_margin else z_lo - y[i]
        v_hi = y[i] * z_hi - 1.0 if of_margin else z_hi - y[i]
        a_lo, a_hi = -v_lo - start_left, -v_hi - start_left
        b_lo, b_hi = v_lo - start_right, v_hi - start_right
        changes = (
            ((a_lo > 0.0) != (a_hi > 0.0))
            | ((a_lo < width_left) != (a_hi < width_left))
            | ((b_lo > 0.0) != (b_hi > 0.0))
            | ((b_lo < width_right) != (b_hi < width_right))
        )
        found[n] = i  # overwritten by the next one if this does not change: cheaper than a branch
        n += changes
    return found[:n]


@njit(cache=True, nogil=True, error_model="numpy")
def events_between(
    kind: Kind, lo: float, hi: float, moving: Block
) -> tuple[Vector, Vector, Vector]:
    """Return place, jump and change of curvature of the events from ``lo`` to before ``hi``.

    The slope along a ray changes where an example enters or leaves a part of a piece.
    """
    y, scores, weights, direction = moving
    of_margin, shape, next_shape = kind
    changing = _changing(kind, lo, hi, moving)
    # An example can meet the start of each piece, and the end of its rounded part.
    most = 4 * len(changing)
    place, jump, bend = np.empty(most), np.empty(most), np.empty(most)
    n = 0
    sign = -1.0
    for _side in range(2):
        start, bend_here, jump_here, _, width = shape
        for k in range(len(changing) if bend_here > 0.0 or jump_here > 0.0 else 0):
            i = changing[k]
            z = scores[i] + lo * direction[i]
            v = y[i] * z - 1.0 if of_margin else z - y[i]
            speed = y[i] * direction[i] if of_margin else direction[i]
            u, du = sign * v - start, sign * speed
            change = weights[i] * bend_here * du * du
            # The start of the piece, then the end of its rounded part; what is met at `lo` itself
            # counts if the slope there does not include it yet.
            if (du > 0.0 and u <= 0.0) or (du < 0.0 and u > 0.0):
                where = lo - u / du
                if where < hi:
                    place[n], jump[n] = where, weights[i] * jump_here * abs(du)
                    bend[n] = change if du > 0.0 else -change
                    n += 1
            if bend_here > 0.0 and ((du > 0.0 and u < width) or (du < 0.0 and u >= width)):
                where = lo + (width - u) / du
                if where < hi:
                    place[n], jump[n], bend[n] = where, 0.0, -change if du > 0.0 else change
                    n += 1
        shape, sign = next_shape, 1.0
    return place[:n], jump[:n], bend[:n]


@njit(cache=True, nogil=True, error_model="numpy")
def minimizers_between(
    lo: float,
    hi: float,
    slope: float,
    curvature: float,
    zero: float,
    place: Vector,
    jump: Vector,
    bend: Vector,
) -> tuple[float, float]:
    """Return the first and the last minimizer, both known to lie between ``lo`` and ``hi``.

    ``slope`` and ``curvature`` are those at ``lo``. They change at the events. The crossing of the
    slope is found by selection, as a weighted median is: the expected cost is linear in the number
    of events, no sort is needed.
    """
    here = lo
    beyond = hi
    # For a plain 0 `_swap` would be compiled once more: Numba has types for literals.
    first: int = np.int64(0)  # type: ignore[assignment]
    last = len(place)
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


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _middle(a: float, b: float, c: float) -> float:
    return max(min(a, b), min(max(a, b), c))


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _swap(place: Vector, jump: Vector, bend: Vector, i: int, j: int) -> None:
    place[i], place[j] = place[j], place[i]
    jump[i], jump[j] = jump[j], jump[i]
    bend[i], bend[j] = bend[j], bend[i]


T = TypeVar("T")

_INF = float("inf")
_FAR = 1e300
_TOO_FAR = 1e100  # a guess so far off says that the part has no minimum
_CLOSING_STEPS = 6  # the most trial steps that narrow a bracket before it is searched exactly
_FEW = 0.05  # share of the derivative's terms that may change inside a bracket narrow enough

# Of every 256 examples 8 are looked at first: a cache line of scores, so that little is read. Of
# many examples fewer, because a sample need not grow with them.
STRIDE, CHUNK = 256, 8
LEAST = 1 << 17  # examples from which on this pays
_MOST_SAMPLED = 1 << 16
# So many events may be left inside a bracket: they are gathered in one place.
_MOST_EVENTS = 1 << 16

_NOTHING = Quadratic(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Piece:
    """One side of a loss; see the module's formula. The default is no piece at all."""

    slope: float = 0.0
    curvature: float = _INF
    start: float = 0.0

    def shape(self) -> Shape:
        """Return start, curvature of the rounded part, jump at a kink, slope beyond, and width."""
        start, slope = float(self.start), float(self.slope)
        width = 0.0 if self.curvature == _INF else self.slope / self.curvature
        if width == 0.0:
            return start, 0.0, slope, slope, 0.0
        return start, float(self.curvature), 0.0, 0.0 if width == _INF else slope, float(width)

    def smoothed(self, width: float) -> Piece:
        """Return the piece with a softer curvature; see `Loss.smoothed`."""
        if self.slope == 0.0:
            return self
        return replace(self, curvature=1.0 / (1.0 / self.curvature + width))


_NONE = Piece()


class PiecewiseLoss(OffsetLoss):
    """A loss made of two pieces.

    Parameters
    ----------
    task : {"classification", "regression"}
        Whether the loss is one of ``v = y*z - 1`` or of ``v = z - y``.
    left, right : Piece
        What rises as ``v`` goes to the left, and to the right.
    """

    loops = value, slopes

    def __init__(self, task: Task, *, left: Piece = _NONE, right: Piece = _NONE) -> None:
        self.task = task  # type: ignore[misc]  # pieces serve both tasks, so it differs by instance
        self.of_residual = task == "regression"
        self.left = left
        self.right = right
        shapes = left.shape(), right.shape()
        # What the kernels want to know: is it a loss of margins, and of which shape?
        self.kind: Kind = (task == "classification", *shapes)
        self.form = (self.kind,)
        self.dual_form = (MARGIN_PIECES if self.kind[0] else RESIDUAL_PIECES, np.array(shapes))
        self.straight = all(width == 0.0 for *_, width in shapes)
        self.smooth = not any(jump > 0.0 for _, _, jump, _, _ in shapes)

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float:
        """Return ``max_z slopes.z - loss(y, z)``."""
        return float(total(map_arrays(partial(conjugate, self.kind), y, slopes, weights)))

    def curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the second derivative by each score; zero at kinks and beyond rounded parts."""
        out = empty(*scores.shape)
        map_arrays(partial(curvatures, self.kind), y, scores, weights, out)
        return out

    def smoothed(self, width: float) -> PiecewiseLoss:
        """Return the loss with its kinks rounded."""
        if self.smooth:
            return self
        return PiecewiseLoss(
            self.task, left=self.left.smoothed(width), right=self.right.smoothed(width)
        )

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        profile = Profile(self.kind, MovingScores(y, scores, weights, direction), extra)
        slope, size, zero = profile.derivative(0.0)
        if slope > zero:
            return 0.0
        first, last = minimizers_beyond(profile, 0.0, slope, size, zero)
        return 0.5 * (first + last)

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        # Where all constants of an interval are best, this is its middle: it depends neither on
        # where the search began nor on how often an example is repeated.
        up = Profile(self.kind, MovingScores(y, scores, weights, 1.0))
        origin = 0.0
        if part := up.part():
            with placing(None):  # everybody has the same part
                origin = self._best_offset(*part.moving[:3])
            # A little off the event there.
            origin += 1e-9 * (abs(origin) + float(np.abs(part.moving.scores).max()))
        slope, size, zero = up.derivative(origin)
        first = last = origin
        if slope <= zero:
            first, last = minimizers_beyond(up, origin, slope, size, zero)
        if slope >= -zero:
            down = replace(up, moving=up.moving._replace(direction=-1.0))
            nearest, farthest = minimizers_beyond(down, -origin, -slope, size, zero)
            first = -farthest
            last = -nearest if slope > zero else last
        return 0.5 * (first + last)


class MovingScores(NamedTuple):
    """Targets, scores and weights of examples, and the direction in which scores move.

    That is a vector, or a number where it is the same for all. Kernels get plain tuples, which
    they take sooner than named ones.
    """

    y: Vector
    scores: Vector
    weights: Vector
    direction: Any

    def map(self, kernel: Callable[..., T], *given: Any) -> list[T]:
        """Return the results of a kernel, block by block, which comes after what is given."""
        d = self.direction
        if isinstance(d, float):
            return map_arrays(
                lambda y, z, p: kernel(*given, (y, z, p, _constant(d, len(y)))), *self[:3]
            )
        return map_arrays(lambda *block: kernel(*given, block), *self)


@lru_cache(maxsize=8)
def _constant(value: float, length: int) -> Vector:
    """Return a constant vector as long as a block; there are few lengths of blocks."""
    return np.full(length, value)


@dataclass(frozen=True, slots=True)
class Profile:
    """The loss of ``scores + k*direction`` plus ``extra(k)``."""

    kind: Kind
    moving: MovingScores
    extra: Quadratic = _NOTHING

    def derivative(self, step: float) -> tuple[float, float, float]:
        """Return the derivative at ``step``, the size of its terms, and what counts as zero.

        A flat stretch of minimizers must not end by rounding alone.
        """
        slope, size = add_up(self.moving.map(derivative, self.kind, step))
        zero = 1e-14 * (size + abs(self.extra.slope))
        return slope + self.extra.slope + self.extra.curvature * step, size, zero

    def curvature(self, step: float) -> float:
        """Return the second derivative at ``step``."""
        _, (_, bend_left, *_), (_, bend_right, *_) = self.kind
        if not (bend_left or bend_right):
            return self.extra.curvature
        return self.extra.curvature + float(total(self.moving.map(curvature, self.kind, step)))

    def part(self) -> Profile | None:
        """Return a part of the examples that stands for all of them; None if they are few."""
        n_rows = rows_in_all(len(self.moving.scores))
        if n_rows < LEAST:
            return None
        stride = STRIDE * power_below(n_rows * CHUNK // (STRIDE * _MOST_SAMPLED))
        direction = self.moving.direction
        vectors = slice(3 if isinstance(direction, float) else 4)
        some = self.moving.map(lambda block: tuple(_some(each, stride) for each in block[vectors]))
        y, scores, weights, *along = joined(some)
        direction = along[0] if along else direction
        return replace(self, moving=MovingScores(y, scores, weights * (stride / CHUNK), direction))


@dataclass(slots=True)
class Bracket:
    """Two steps between which all zeros of the derivative lie, and the derivative there."""

    profile: Profile
    zero: float  # no slope as small counts as one
    lo: float
    slope_lo: float
    hi: float = _INF
    slope_hi: float = _INF

    def narrow(self, step: float) -> float:
        """Return the derivative at ``step``, which becomes an end of the bracket if not zero."""
        slope, _, _ = self.profile.derivative(step)
        if slope > self.zero:
            self.hi, self.slope_hi = step, slope
        elif slope < -self.zero:
            self.lo, self.slope_lo = step, slope
        return slope

    def close_around(self, zero_at: float, change: float) -> None:
        """Narrow the bracket to the neighborhood of a zero that a trial step has hit.

        As a rule that is the only one, of a squared loss. It can also be one of a flat stretch,
        between two kinks. Then an end that is still far away would leave half of all examples in
        the bracket.
        """
        curvature = self.profile.curvature(zero_at)
        width = 0.5 * change / curvature if curvature > 0.0 else 0.5 * (zero_at - self.lo)
        for step in (zero_at - width, zero_at + width):
            if self.lo < step < self.hi:
                self.narrow(step)


def minimizers_beyond(
    profile: Profile, start: float, slope: float, size: float, zero: float
) -> tuple[float, float]:
    """Return the first and the last minimizer from ``start`` on; mostly they are the same.

    ``slope`` is the derivative at ``start``, at most ``zero``, which counts as zero. A bracket is
    narrowed until few terms change inside, and then searched exactly.
    """
    bracket = Bracket(profile, zero, start, slope)
    # What of the derivative may change inside a narrow bracket.
    change = size * min(_FEW, _MOST_EVENTS / rows_in_all(len(profile.moving.scores)))
    part = profile.part() if slope < -zero else None
    step, reach, closing = start, 1.0, 0
    while closing < _CLOSING_STEPS and reach < _FAR:
        guess = None
        if part is not None:
            with placing(None):  # everybody has the same part
                guess = _guess(part, start, step, slope, change)
        lo, hi = bracket.lo, bracket.hi
        if guess is not None and lo < guess < hi:
            # A little farther, because at the guess itself is an event, and rounding would say on
            # which side of it we are: for the derivative and for the search not always the same.
            step = min(guess + 1e-3 * (guess - step), 0.5 * (guess + hi))
        elif hi == _INF:
            step, reach = lo + reach, 4.0 * reach
        else:
            # Where a straight line crosses zero, off the ends so that both of them move.
            secant = lo - bracket.slope_lo * (hi - lo) / (bracket.slope_hi - bracket.slope_lo)
            margin = 0.1 * (hi - lo)
            step = min(max(secant, lo + margin), hi - margin)
        slope = bracket.narrow(step)
        if abs(slope) <= zero:
            bracket.close_around(step, change)
            break
        if bracket.hi < _INF:
            closing += 1
            if bracket.slope_hi - bracket.slope_lo <= change:
                break
    lo, hi = bracket.lo, bracket.hi
    events = joined(profile.moving.map(events_between, profile.kind, lo, hi))
    return minimizers_between(lo, hi, bracket.slope_lo, profile.curvature(lo), zero, *events)


def _guess(part: Profile, start: float, step: float, slope: float, change: float) -> float | None:
    """Return where the derivative should be a little on the other side of zero.

    It is ``slope`` at ``step``. From there to the guess it is taken to change as that of the part,
    and a fifth of what may ``change`` inside a bracket is little.
    """
    aim = -math.copysign(min(abs(slope), 0.2 * change), slope)
    tilt = slope - part.derivative(step)[0] - aim
    tilted = replace(part, extra=Quadratic(part.extra.slope + tilt, part.extra.curvature))
    slope, size, zero = tilted.derivative(start)
    if slope > zero:
        return None
    guess, _ = minimizers_beyond(tilted, start, slope, size, zero)
    return guess if guess - start < _TOO_FAR else None


def _some(values: Vector, stride: int) -> Vector:
    """Return a chunk of every stride of a vector."""
    whole = len(values) // stride * stride
    return np.ascontiguousarray(values[:whole].reshape(-1, stride)[:, :CHUNK]).ravel()


class Hinge(PiecewiseLoss):
    """``max(0, 1 - y*z)``, the loss of the support vector machine."""

    def __init__(self) -> None:
        super().__init__("classification", left=Piece(slope=1.0))


class SquaredHinge(PiecewiseLoss):
    """``max(0, 1 - y*z)^2``."""

    def __init__(self) -> None:
        super().__init__("classification", left=Piece(slope=_INF, curvature=2.0))


class SmoothHinge(PiecewiseLoss):
    """The hinge with its kink rounded: quadratic for margins in ``(1 - smoothing, 1)``."""

    shown = ("smoothing",)

    def __init__(self, smoothing: float = 0.5) -> None:
        self.smoothing = positive("smoothing", smoothing)
        super().__init__("classification", left=Piece(slope=1.0, curvature=1.0 / self.smoothing))


class Squared(PiecewiseLoss):
    """``(z - y)^2 / 2``: the mean."""

    steady_curvature = True

    def __init__(self) -> None:
        parabola = Piece(slope=_INF, curvature=1.0)
        super().__init__("regression", left=parabola, right=parabola)


class Absolute(PiecewiseLoss):
    """``|z - y|``: the median."""

    def __init__(self) -> None:
        super().__init__("regression", left=Piece(slope=1.0), right=Piece(slope=1.0))


class Quantile(PiecewiseLoss):
    """The pinball loss ``max(q*(y - z), (1 - q)*(z - y))``, which the ``q``-quantile minimizes."""

    shown = ("quantile",)

    def __init__(self, quantile: float = 0.5) -> None:
        if not 0.0 < quantile < 1.0:
            raise ValueError(f"a quantile lies strictly between 0 and 1, got {quantile}")
        self.quantile = float(quantile)
        super().__init__(
            "regression", left=Piece(slope=quantile), right=Piece(slope=1.0 - quantile)
        )


class EpsilonInsensitive(PiecewiseLoss):
    """``max(0, |z - y| - epsilon)``, the loss of support vector regression."""

    shown = ("epsilon",)

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = not_negative("epsilon", epsilon)
        piece = Piece(slope=1.0, start=self.epsilon)
        super().__init__("regression", left=piece, right=piece)


class SquaredEpsilonInsensitive(PiecewiseLoss):
    """``max(0, |z - y| - epsilon)^2``."""

    shown = ("epsilon",)

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = not_negative("epsilon", epsilon)
        piece = Piece(slope=_INF, curvature=2.0, start=self.epsilon)
        super().__init__("regression", left=piece, right=piece)


class Huber(PiecewiseLoss):
    """``u^2 / 2`` for ``|u| <= delta``, ``delta*|u| - delta^2/2`` beyond, with ``u = z - y``."""

    shown = ("delta",)

    def __init__(self, delta: float = 1.35) -> None:
        self.delta = positive("delta", delta)
        piece = Piece(slope=self.delta, curvature=1.0)
        super().__init__("regression", left=piece, right=piece)
