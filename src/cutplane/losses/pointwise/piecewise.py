"""Losses made of two pieces: hinge, quantile, Huber and their relatives.

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
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import (
    add_up,
    joined,
    placing,
    power_below,
    rows_in_all,
    total,
)
from cutplane.compute.room import empty_like
from cutplane.compute.threads import map_arrays, map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.losses.loss import Loss, Task
from cutplane.losses.pointwise import piecewise_kernels as kernels
from cutplane.losses.score_loss import MARGIN_PIECES, RESIDUAL_PIECES

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

    @property
    def width(self) -> float:
        """Length of the rounded part."""
        if self.curvature == _INF:
            return 0.0
        return self.slope / self.curvature

    def smoothed(self, width: float) -> Piece:
        """Return the piece with a softer curvature; see `Loss.smoothed`."""
        if self.slope == 0.0:
            return self
        return replace(self, curvature=1.0 / (1.0 / self.curvature + width))


_NONE = Piece()


class PiecewiseLoss(Loss):
    """A loss made of two pieces.

    Parameters
    ----------
    task : {"classification", "regression"}
        Whether the loss is one of ``v = y*z - 1`` or of ``v = z - y``.
    left, right : Piece
        What rises as ``v`` goes to the left, and to the right.
    """

    in_blocks = True

    def __init__(self, task: Task, *, left: Piece = _NONE, right: Piece = _NONE) -> None:
        self.task = task  # type: ignore[misc]  # pieces serve both tasks, so it differs by instance
        self.of_residual = task == "regression"
        self.left = left
        self.right = right
        # What the kernels want to know: is it a loss of margins, and of which shape?
        self.kind: kernels.Kind = (
            task == "classification",
            _shape(left),
            _shape(right),
        )
        form = MARGIN_PIECES if self.kind[0] else RESIDUAL_PIECES
        self.dual_form = (form, np.array(self.kind[1:]))
        self.straight = left.width == 0.0 == right.width
        self.smooth = not any(piece.slope > 0.0 and piece.width == 0.0 for piece in (left, right))

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""
        return self.value(y, scores, weights), self.slopes(y, scores, weights)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the weighted sum of losses."""
        return self._sum(kernels.value, y, scores, weights)

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        return self._each(kernels.slopes, y, scores, weights)

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float:
        """Return ``max_z slopes.z - loss(y, z)``."""
        return self._sum(kernels.conjugate, y, slopes, weights)

    def curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the second derivative by each score; zero at kinks and beyond rounded parts."""
        return self._each(kernels.curvatures, y, scores, weights)

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
        first, last = minimizers(
            Profile(self.kind, MovingScores(y, scores, weights, direction), extra)
        )
        return 0.5 * (first + last)

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        return best_constant(self.kind, y, scores, weights)

    # Scores are shifted block by block, so that no vector of shifted ones is needed.
    def _value_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> float:
        return self._sum(
            lambda kind, y, z, weights: kernels.value(kind, y, z + offset, weights),
            *(y, scores, weights),
        )

    def _slopes_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        return self._each(
            lambda kind, y, z, weights, out: kernels.slopes(kind, y, z + offset, weights, out),
            *(y, scores, weights),
        )

    def _sum(self, kernel: Callable[..., float], *arrays: Vector) -> float:
        return float(total(map_arrays(partial(kernel, self.kind), *arrays)))

    def _each(self, kernel: Callable[..., None], *arrays: Vector) -> Vector:
        out = empty_like(arrays[0])
        map_arrays(partial(kernel, self.kind), *arrays, out)
        return out


def _shape(piece: Piece) -> kernels.Shape:
    """Return start, curvature of the rounded part, jump at a kink, slope beyond, and width."""
    if piece.width == 0.0:
        return float(piece.start), 0.0, float(piece.slope), float(piece.slope), 0.0
    rise = 0.0 if piece.width == _INF else float(piece.slope)
    return float(piece.start), float(piece.curvature), 0.0, rise, float(piece.width)


class MovingScores(NamedTuple):
    """Targets, scores and weights of examples, and the direction in which scores move.

    That is a vector, or a number where it is the same for all. Kernels get plain tuples, which
    they take sooner than named ones.
    """

    y: Vector
    scores: Vector
    weights: Vector
    direction: Any

    def block(self, i: slice) -> kernels.Block:
        """Return a block of the examples, for kernels."""
        d = self.direction
        along = _constant(d, i.stop - i.start) if isinstance(d, float) else d[i]
        return self.y[i], self.scores[i], self.weights[i], along

    def map(self, kernel: Callable[[kernels.Block], T]) -> list[T]:
        """Return the results of a kernel, block by block."""
        return map_blocks(lambda i: kernel(self.block(i)), len(self.scores))


@lru_cache(maxsize=8)
def _constant(value: float, length: int) -> Vector:
    """Return a constant vector as long as a block; there are few lengths of blocks."""
    return np.full(length, value)


@dataclass(frozen=True, slots=True)
class Profile:
    """The loss of ``scores + k*direction`` plus ``extra(k)``."""

    kind: kernels.Kind
    moving: MovingScores
    extra: Quadratic = _NOTHING

    def derivative(self, step: float) -> tuple[float, float]:
        """Return the derivative at ``step``, and the size of the terms it is made of."""
        slope, size = add_up(self._map(kernels.derivative, step))
        return slope + self.extra.slope + self.extra.curvature * step, size

    def curvature(self, step: float) -> float:
        """Return the second derivative at ``step``."""
        (_, bend_left, *_), (_, bend_right, *_) = self.kind[1:]
        if not (bend_left or bend_right):
            return self.extra.curvature
        return self.extra.curvature + float(total(self._map(kernels.curvature, step)))

    def events_between(self, lo: float, hi: float) -> list[Vector]:
        """Return place, jump and change of curvature of the events between two steps."""
        return joined(self._map(kernels.events_between, lo, hi))

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

    def tilted(self, slope: float) -> Profile:
        """Return the same with ``slope*k`` added."""
        return replace(self, extra=Quadratic(self.extra.slope + slope, self.extra.curvature))

    def _map(self, kernel: Callable[..., T], *steps: float) -> list[T]:
        """Return the results of a kernel for these steps, block by block."""
        return self.moving.map(partial(kernel, self.kind, *steps))


def minimizers(profile: Profile) -> tuple[float, float]:
    """Return the first and the last minimizer ``k >= 0`` on a ray; mostly they are the same."""
    slope, size = profile.derivative(0.0)
    zero = _rounding(profile, size)
    if slope > zero:
        return 0.0, 0.0
    return _minimizers_beyond(profile, 0.0, slope, size, zero)


def best_constant(kind: kernels.Kind, y: Vector, scores: Vector, weights: Vector) -> float:
    """Return the constant that minimizes the loss when it is added to all scores.

    Where all constants of an interval are best, this is its middle: it depends neither on where
    the search began nor on how often an example is repeated.
    """
    up = Profile(kind, MovingScores(y, scores, weights, 1.0))
    part = up.part()
    origin = 0.0
    if part is not None:
        with placing(None):  # everybody has the same part
            origin = best_constant(kind, part.moving.y, part.moving.scores, part.moving.weights)
        # A little off the event there.
        origin += 1e-9 * (abs(origin) + float(np.abs(part.moving.scores).max()))
    slope, size = up.derivative(origin)
    zero = _rounding(up, size)
    first = last = origin
    if slope <= zero:
        first, last = _minimizers_beyond(up, origin, slope, size, zero)
    if slope >= -zero:
        down = replace(up, moving=up.moving._replace(direction=-1.0))
        nearest, farthest = _minimizers_beyond(down, -origin, -slope, size, zero)
        first = -farthest
        last = -nearest if slope > zero else last
    return 0.5 * (first + last)


def _minimizers_beyond(
    profile: Profile, start: float, slope: float, size: float, zero: float
) -> tuple[float, float]:
    """Return the first and the last minimizer from ``start`` on.

    ``slope`` is the derivative at ``start``, at most ``zero``, which counts as zero.
    """
    bracket = Bracket(profile, start, slope, zero)
    _close(bracket, slope, size)
    lo, hi = bracket.lo, bracket.hi
    place, jump, bend = profile.events_between(lo, hi)
    return kernels.minimizers_between(
        lo, hi, bracket.slope_lo, profile.curvature(lo), zero, place, jump, bend
    )


class Bracket:
    """Two steps between which all zeros of the derivative lie, and the derivative there."""

    def __init__(self, profile: Profile, start: float, slope: float, zero: float) -> None:
        self.profile, self.start, self.zero = profile, start, zero
        self.lo, self.slope_lo = start, slope
        self.hi, self.slope_hi = _INF, _INF

    def narrow(self, step: float) -> float:
        """Return the derivative at ``step``, which becomes an end of the bracket if not zero."""
        slope, _ = self.profile.derivative(step)
        if slope > self.zero:
            self.hi, self.slope_hi = step, slope
        elif slope < -self.zero:
            self.lo, self.slope_lo = step, slope
        return slope

    def secant(self) -> float:
        """Return where a straight line crosses zero, off the ends so that both of them move."""
        lo, hi = self.lo, self.hi
        secant = lo - self.slope_lo * (hi - lo) / (self.slope_hi - self.slope_lo)
        margin = 0.1 * (hi - lo)
        return min(max(secant, lo + margin), hi - margin)


def _close(bracket: Bracket, slope: float, size: float) -> None:
    """Narrow a bracket, known at its start only, until few terms change inside."""
    profile, start, zero = bracket.profile, bracket.start, bracket.zero
    part = profile.part() if slope < -zero else None
    step, reach, closing = start, 1.0, 0
    few = _few(profile)
    while closing < _CLOSING_STEPS and reach < _FAR:
        guess = None
        if part is not None:
            with placing(None):  # everybody has the same part
                guess = _guess(part, start, step, slope, few * size)
        if guess is not None and bracket.lo < guess < bracket.hi:
            # A little farther, because at the guess itself is an event, and rounding would say on
            # which side of it we are: for the derivative and for the search not always the same.
            step = min(guess + 1e-3 * (guess - step), 0.5 * (guess + bracket.hi))
        elif bracket.hi == _INF:
            step, reach = bracket.lo + reach, 4.0 * reach
        else:
            step = bracket.secant()
        slope = bracket.narrow(step)
        if abs(slope) <= zero:
            close_around(bracket, step, few * size)
            return
        if bracket.hi < _INF:
            closing += 1
            if bracket.slope_hi - bracket.slope_lo <= few * size:
                return


def _few(profile: Profile) -> float:
    """Return the share of the derivative's terms that may change inside a narrow bracket."""
    return min(_FEW, _MOST_EVENTS / rows_in_all(len(profile.moving.scores)))


def close_around(bracket: Bracket, zero_at: float, change: float) -> None:
    """Narrow a bracket to the neighborhood of a zero that a trial step has hit.

    As a rule that is the only one, of a squared loss. It can also be one of a flat stretch, between
    two kinks. Then an end that is still far away would leave half of all examples in the bracket.
    """
    curvature = bracket.profile.curvature(zero_at)
    width = 0.5 * change / curvature if curvature > 0.0 else 0.5 * (zero_at - bracket.lo)
    for step in (zero_at - width, zero_at + width):
        if bracket.lo < step < bracket.hi:
            bracket.narrow(step)


def _guess(part: Profile, start: float, step: float, slope: float, change: float) -> float | None:
    """Return where the derivative should be a little on the other side of zero.

    It is ``slope`` at ``step``. From there to the guess it is taken to change as that of the part,
    and a fifth of what may ``change`` inside a bracket is little.
    """
    aim = -math.copysign(min(abs(slope), 0.2 * change), slope)
    tilted = part.tilted(slope - part.derivative(step)[0] - aim)
    slope, size = tilted.derivative(start)
    zero = _rounding(tilted, size)
    if slope > zero:
        return None
    guess, _ = _minimizers_beyond(tilted, start, slope, size, zero)
    return guess if guess - start < _TOO_FAR else None


def _rounding(profile: Profile, size: float) -> float:
    # What counts as zero: a flat stretch of minimizers must not end by rounding alone.
    return 1e-14 * (size + abs(profile.extra.slope))


def _some(values: Vector, stride: int) -> Vector:
    """Return a chunk of every stride of a vector."""
    whole = len(values) // stride * stride
    return np.ascontiguousarray(values[:whole].reshape(-1, stride)[:, :CHUNK]).ravel()
