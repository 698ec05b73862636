"""Losses of examples whose label is not known; the third is the hat of `bounded.py`.

    Hat           max(0, 1 - |z|)
    DoubleRamp    min(1 - plateau, max(0, 1 - |z|))
    SmoothHat     exp(-3 z^2)

All are high where the score is near zero, so that the boundary keeps away from the examples.
Targets have no meaning.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import total
from cutplane.compute.threads import map_blocks
from cutplane.losses.bounded import BEYOND_MARGIN
from cutplane.losses.loss import Loss

_STEEPNESS = 3.0  # that of O. Chapelle, A. Zien: Semi-supervised classification by low density
# separation, 2005
_BEND = 1.0 / np.sqrt(2.0 * _STEEPNESS)  # where the smooth hat is steepest, and begins to bend up


class ElementwiseLoss(Loss):
    """A loss of the score alone, that is computed element by element."""

    task = "classification"
    ignores_targets = True
    in_blocks = True

    @abstractmethod
    def elements(self, scores: Vector) -> tuple[Vector, Vector]:
        """Return the loss of each example, and its derivative by the score."""

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""
        out = np.empty_like(scores)

        def block(i: slice) -> float:
            values, slopes = self.elements(scores[i])
            np.multiply(weights[i], slopes, out=out[i])
            return float((weights[i] * values).sum())

        return float(total(map_blocks(block, len(scores)))), out


class DoubleRamp(ElementwiseLoss):
    """``min(1 - plateau, max(0, 1 - |z|))``: the hat with a flat top.

    Up to a constant it is the sum of two ramps ``min(1 + plateau, max(0, 1 - y*z))``, one with each
    label (R. Collobert et al.: Large scale transductive SVMs, 2006, where ``s = -plateau``). An
    example with a score nearer to zero than ``plateau`` does not pull at the boundary. Without a
    plateau it is the hat.
    """

    convex = False
    unproven = "the double ramp loss is not convex: there may be lower points far away"
    convex_part = BEYOND_MARGIN

    def __init__(self, plateau: float = 0.3) -> None:
        if not 0.0 <= plateau < 1.0:
            raise ValueError(f"plateau must be at least 0 and below 1, got {plateau}")
        self.plateau = float(plateau)

    def elements(self, scores: Vector) -> tuple[Vector, Vector]:
        """Return the loss of each example, and its derivative by the score."""
        distance = np.abs(scores)
        values = np.clip(1.0 - distance, 0.0, 1.0 - self.plateau)
        slanted = (distance >= self.plateau) & (distance <= 1.0)
        return values, np.where(slanted, np.where(scores >= 0.0, -1.0, 1.0), 0.0)

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of ``-max(|z|, plateau)``."""
        sides = np.where(scores >= 0.0, -1.0, 1.0)
        return np.where(np.abs(scores) >= self.plateau, sides, 0.0)

    def __repr__(self) -> str:
        return f"DoubleRamp({self.plateau:g})"


class SmoothHat(ElementwiseLoss):
    """``exp(-3 z^2)``: a hat without corners.

    From O. Chapelle, A. Zien: Semi-supervised classification by low density separation, 2005.
    """

    convex = False
    smooth = True
    unproven = "the smooth hat loss is not convex: there may be lower points far away"

    def __init__(self) -> None:
        self.convex_part = _BentUp()

    def elements(self, scores: Vector) -> tuple[Vector, Vector]:
        """Return the loss of each example, and its derivative by the score."""
        near = np.clip(scores, -100.0, 100.0)  # beyond it vanishes, and squares may overflow
        values = np.exp(-_STEEPNESS * near * near)
        return values, -2.0 * _STEEPNESS * near * values

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the slope of the loss, but from where it bends up on the one that it has there."""
        return self.elements(np.clip(scores, -_BEND, _BEND))[1]


class _BentUp(ElementwiseLoss):
    """The part of the smooth hat that bends up: flat inside, beyond it less its steepest slope."""

    smooth = True

    def elements(self, scores: Vector) -> tuple[Vector, Vector]:
        """Return the loss of each example, and its derivative by the score."""
        inner = np.clip(scores, -_BEND, _BEND)
        values, slopes = SmoothHat().elements(scores)
        steepest = SmoothHat().elements(inner)[1]
        beyond = np.abs(scores) > _BEND
        top = float(np.exp(-_STEEPNESS * _BEND**2))
        # Less its tangent, whose slope is the steepest one.
        values = np.where(beyond, values - top - steepest * (scores - inner), 0.0)
        return values, np.where(beyond, slopes - steepest, 0.0)
