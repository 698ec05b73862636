"""Losses that give up on examples far off, and so are not convex: broken lines with flat ends.

    Ramp               min(clip, max(0, 1 - y*z))
    ClippedAbsolute    min(clip, |z - y|)
    Hat                max(0, 1 - |z|)

A wrong label, or an outlier, costs at most ``clip``, however far it is on the wrong side, and
beyond that it has no slope: it no longer pulls at the model.

There is no proof for such a fit, but all that is one-dimensional is exact: the search along a ray
and the best intercept find the lowest of all local minima, from scores alone
(`cutplane.losses.pointwise.bounded_search`). With the intercept minimized out,

    R(w) = min_c sum_i weight_i * loss(y_i, z_i(w) + c)

has a derivative wherever the best ``c`` is unique: the one by the scores with ``c`` held fixed
(Danskin). As a rule the best ``c`` puts a corner on the score of an example. Of the slopes between
those of both sides of the corner one makes the sum of all slopes zero, and that one is the
derivative of ``R``: as ``w`` moves, ``c`` moves so as to keep that example at its corner.
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import total
from cutplane.compute.sums import largest_size_over, sum_and_size_over, sum_over
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.losses.loss import OffsetLoss, Task, moved
from cutplane.losses.pointwise import bounded_kernels as kernels
from cutplane.losses.pointwise.bounded_search import Line, lowest_step
from cutplane.losses.pointwise.pieces import Absolute, Hinge
from cutplane.losses.pointwise.piecewise import MovingScores, Piece, PiecewiseLoss
from cutplane.losses.score_loss import AtBestOffset

_EPS = float(np.finfo(np.float64).eps)
# How often to look a little farther to both sides of a corner, if rounding has moved it.
_LOOKS = 6
# max(0, |z| - 1) for labels -1 and 1: what is left of the hat where it gives up, up to a constant.
BEYOND_MARGIN = PiecewiseLoss(
    "classification", left=Piece(slope=1.0, start=2.0), right=Piece(slope=1.0)
)


class BrokenLine(OffsetLoss):
    """A loss of one variable with three corners, flat to the left and to the right of them.

    Parameters
    ----------
    task : {"classification", "regression"}
        Whether targets are labels or numbers.
    of : int
        What the variable is: `OF_MARGIN`, `OF_RESIDUAL` or `OF_SCORE` of the kernels.
    corners : tuple of three floats
        In increasing order; two may be the same.
    slopes : tuple of two floats
        Between the corners.
    middle : float
        The value at the second corner.
    """

    convex = False
    in_blocks = True
    finds_offsets = True

    def __init__(
        self,
        task: Task,
        of: int,
        *,
        corners: tuple[float, float, float],
        slopes: tuple[float, float],
        middle: float = 0.0,
    ) -> None:
        self.task = task  # type: ignore[misc]  # broken lines serve both tasks
        self.of_residual = of == kernels.OF_RESIDUAL
        self.kind: tuple[int, Vector] = (of, np.array([*corners, *slopes, middle]))

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        return lowest_step(Line(*self.kind, MovingScores(y, scores, weights, direction), extra))

    def at_best_offset(
        self, y: Vector, scores: Vector, weights: Vector, guess: float | None
    ) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores; all are looked at, no guess."""
        return self.minimize_offset(y, scores, weights)

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at ``scores + offset`` that sum to zero; ``offset`` must be the best one.

        At a corner they are a mean of those on both sides.
        """
        slopes = self._slopes_at(y, scores, offset, weights)
        width = 4.0 * _EPS * (abs(offset) + largest_size_over(scores) + 1.0)
        for _ in range(_LOOKS):
            rest, size = sum_and_size_over(slopes)
            if abs(rest) <= 4.0 * _EPS * size:
                break
            left = self._slopes_at(y, scores, offset - width, weights)
            right = self._slopes_at(y, scores, offset + width, weights)
            lower, upper = sum_over(left), sum_over(right)
            if lower <= 0.0 <= upper and lower < upper:
                share = float(lower / (lower - upper))
                return (1.0 - share) * left + share * right
            width *= 4.0
        return slopes

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        return lowest_step(Line(*self.kind, MovingScores(y, scores, weights, 1.0), both=True))

    def _value_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> float:
        parts = map_blocks(
            lambda i: kernels.value(*self.kind, y[i], moved(scores[i], offset), weights[i]),
            len(y),
        )
        return float(total(parts))

    def _slopes_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        out = np.empty_like(scores)
        map_blocks(
            lambda i: kernels.slopes(
                *self.kind, y[i], moved(scores[i], offset), weights[i], out[i]
            ),
            len(y),
        )
        return out


def positive(name: str, value: float) -> float:
    """Return the value as a number, or raise ValueError unless it is positive and finite."""
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


class Ramp(BrokenLine):
    """``min(clip, max(0, 1 - y*z))``: a hinge that gives up on examples far on the wrong side."""

    unproven = "the ramp loss is not convex: there may be lower points far away"
    convex_twin = convex_part = Hinge()

    def __init__(self, clip: float = 2.0) -> None:
        self.clip = positive("clip", clip)
        super().__init__(
            "classification",
            kernels.OF_MARGIN,
            corners=(1.0 - self.clip, 1.0, 1.0),
            slopes=(-1.0, 0.0),
        )

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of ``-max(0, 1 - clip - y*z)``, the ramp less the hinge."""
        return np.where(y * scores < 1.0 - self.clip, y, 0.0)

    def __repr__(self) -> str:
        return f"Ramp({self.clip:g})"


class ClippedAbsolute(BrokenLine):
    """``min(clip, |z - y|)``: the absolute loss, which gives up on outliers."""

    unproven = "the clipped absolute loss is not convex: there may be lower points far away"
    convex_twin = convex_part = Absolute()

    def __init__(self, clip: float = 3.0) -> None:
        self.clip = positive("clip", clip)
        super().__init__(
            "regression",
            kernels.OF_RESIDUAL,
            corners=(-self.clip, 0.0, self.clip),
            slopes=(-1.0, 1.0),
        )

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of ``-max(0, |z - y| - clip)``."""
        u = scores - y
        return np.where(np.abs(u) > self.clip, -np.sign(u), 0.0)

    def __repr__(self) -> str:
        return f"ClippedAbsolute({self.clip:g})"


class Hat(BrokenLine):
    """``max(0, 1 - |z|)``: how far inside the margin an example is whose label is not known.

    It is the hinge with the label that the score suggests. Targets are not looked at. The slope at
    ``z = 0`` is -1, not 0, so that a search does not rest on the top.
    """

    ignores_targets = True
    unproven = "the hat loss is not convex: there may be lower points far away"
    convex_part = BEYOND_MARGIN

    def __init__(self) -> None:
        super().__init__(
            "classification",
            kernels.OF_SCORE,
            corners=(-1.0, 0.0, 1.0),
            slopes=(1.0, -1.0),
            middle=1.0,
        )

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of ``-|z|``."""
        return np.where(scores >= 0.0, -1.0, 1.0)
