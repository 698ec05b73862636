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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import total
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import Quadratic
from cutplane.losses.loss import Loss, Task
from cutplane.losses.pointwise import piecewise_kernels as kernels
from cutplane.losses.pointwise.moving_scores import MovingScores
from cutplane.losses.pointwise.piecewise_search import Profile, best_constant, minimizers
from cutplane.losses.score_loss import MARGIN_PIECES, RESIDUAL_PIECES

_INF = float("inf")


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
        out = np.empty_like(arrays[0])
        map_arrays(partial(kernel, self.kind), *arrays, out)
        return out


def _shape(piece: Piece) -> kernels.Shape:
    """Return start, curvature of the rounded part, jump at a kink, slope beyond, and width."""
    if piece.width == 0.0:
        return float(piece.start), 0.0, float(piece.slope), float(piece.slope), 0.0
    rise = 0.0 if piece.width == _INF else float(piece.slope)
    return float(piece.start), float(piece.curvature), 0.0, rise, float(piece.width)
