"""Losses that give up on examples far off, without corners: a rounded ramp and Tukey's biweight.

Searches are local here, unlike those of the broken lines: along a ray, one from the beginning
downhill by trial steps inside a bracket, from scores alone. The intercept is that of the lowest
point of a broken line with about the same shape, found among all of them, and refined downhill. So
it does not depend on where a search came from, and the risk is a function of the parameters.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from cutplane.compute.arrays import Vector, positive
from cutplane.compute.blocks import total
from cutplane.compute.products import sum_over
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.core.search import Trial, between, search
from cutplane.losses.bounded import BrokenLine, ClippedAbsolute, Ramp
from cutplane.losses.loss import Loss, Ray
from cutplane.losses.piecewise import Huber, SmoothHinge

# A search along a ray may stop where the slope is this share of the one at its beginning. The
# intercept must be as good as rounding allows: values computed twice have to agree.
_ENOUGH = 1e-3
_EXACTLY = 1e-12
_MOST_TRIALS = 60
_NARROW = 1e-12
_ROUNDING = 1e-14


class RoundedLoss(Loss):
    """A smooth loss that is not convex."""

    smooth = True
    convex = False
    in_blocks = True
    finds_offsets = True

    @abstractmethod
    def elements(self, y: Vector, scores: Vector) -> tuple[Vector, Vector]:
        """Return the loss of each example, and its derivative by the score."""

    @abstractmethod
    def broken_twin(self) -> BrokenLine:
        """Return a broken line of about the same shape."""

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""
        out = np.empty_like(scores)

        def block(i: slice) -> float:
            values, slopes = self.elements(y[i], scores[i])
            np.multiply(weights[i], slopes, out=out[i])
            return float((weights[i] * values).sum())

        return float(total(map_blocks(block, len(y)))), out

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return a ``k >= 0`` where ``loss(scores + k*direction) + extra(k)`` is locally least."""
        ray = Ray(scores, 0.0, direction, 0.0)

        def along(step: float) -> tuple[float, float]:
            value, slope = self.on_ray(y, ray, weights, step)
            value += step * (extra.slope + 0.5 * extra.curvature * step)
            return value, slope + extra.slope + extra.curvature * step

        return downhill(along, 1.0, enough=_ENOUGH)

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return the slopes at ``scores + offset``, the best one: they sum to zero there."""
        return self._slopes_at(y, scores, offset, weights)

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        begin = self.broken_twin().minimize_offset(y, scores, weights).offset
        value, slopes = self(y, scores + begin, weights)
        slope = sum_over(slopes)
        sign = -1.0 if slope > 0.0 else 1.0

        def along(step: float) -> tuple[float, float]:
            if step == 0.0:
                return value, sign * slope
            there, slopes = self(y, scores + (begin + sign * step), weights)
            return there, sign * sum_over(slopes)

        return float(begin + sign * downhill(along, 0.1, enough=_EXACTLY))


def downhill(
    function: Callable[[float], tuple[float, float]], first: float, *, enough: float
) -> float:
    """Return a step ``k >= 0`` at which a function, falling at first, is locally lowest.

    Of the steps that were tried it is the lowest one, so never higher than at zero.

    Parameters
    ----------
    function : callable
        ``k -> (value, slope)``.
    first : float
        The first step to try.
    enough : float
        Which share of the slope at the beginning may be left.
    """
    start = Trial(0.0, *function(0.0))
    if not start.slope < 0.0:
        return 0.0
    lowest = start

    def evaluate(step: float) -> Trial:
        nonlocal lowest
        trial = Trial(step, *function(step))
        # Close to the minimum values differ by rounding only, and slopes say more.
        rounding = _ROUNDING * abs(lowest.value)
        flatter = trial.value <= start.value and abs(trial.slope) < abs(lowest.slope)
        if trial.value < lowest.value - (0.0 if flatter else rounding) or (
            flatter and trial.value <= lowest.value + rounding
        ):
            lowest = trial
        return trial

    def side(trial: Trial) -> float:
        if not trial.value <= start.value:
            return 1.0
        return 0.0 if abs(trial.slope) <= -enough * start.slope else trial.slope

    def propose(last: Trial, low: Trial, high: Trial | None) -> float | None:
        if high is None:
            return 4.0 * last.step if last.step < 1e150 else None
        if high.step - low.step <= _NARROW * high.step:
            return None
        if not math.isfinite(high.value):
            return 0.5 * (low.step + high.step)
        return between(low, high, 0.05)

    search(evaluate, start, first, side=side, propose=propose, most=_MOST_TRIALS)
    return lowest.step


class SmoothRamp(RoundedLoss):
    """The ramp with both corners rounded: a smooth hinge less the same one, ``clip`` farther out.

    It is ``h(1 - y*z) - h(1 - y*z - clip)`` with ``h(u) = u^2 / (2*smoothing)`` for ``u`` from 0 to
    ``smoothing`` and ``u - smoothing/2`` beyond. Far out it is ``clip``.
    """

    task = "classification"
    shown = ("clip", "smoothing")
    unproven = "the smooth ramp loss is not convex: there may be lower points far away"

    def __init__(self, clip: float = 2.0, smoothing: float = 0.5) -> None:
        self.clip = positive("clip", clip)
        self.smoothing = positive("smoothing", smoothing)
        self.convex_twin = self.convex_part = SmoothHinge(smoothing)

    def elements(self, y: Vector, scores: Vector) -> tuple[Vector, Vector]:
        """Return the loss of each example, and its derivative by the score."""
        u = 1.0 - y * scores
        near = np.clip(u, 0.0, self.smoothing)
        far = np.clip(u - self.clip, 0.0, self.smoothing)
        values = 0.5 / self.smoothing * (near - far) * (near + far)
        values += np.clip(u - self.smoothing, 0.0, self.clip)
        return values, (far - near) * (y / self.smoothing)

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of minus the smooth hinge that is ``clip`` farther out."""
        far = np.clip(1.0 - y * scores - self.clip, 0.0, self.smoothing)
        return np.asarray(far * (y / self.smoothing))

    def broken_twin(self) -> BrokenLine:
        """Return the ramp."""
        return Ramp(self.clip)


class Tukey(RoundedLoss):
    """Tukey's biweight ``width^2/6 * (1 - (1 - (u/width)^2)^3)``, flat for ``|u| > width``.

    ``u = z - y``. Near zero it is ``u^2 / 2``, as the squared loss.
    """

    task = "regression"
    of_residual = True
    shown = ("width",)
    unproven = "Tukey's loss is not convex: there may be lower points far away"

    def __init__(self, width: float = 4.685) -> None:
        self.width = positive("width", width)
        # Where its slope is steepest, at width / sqrt(5), Huber's becomes linear. From there on
        # Tukey's bends down, and before it bends up less: so the difference is concave.
        self.convex_twin = self.convex_part = Huber(self.width / math.sqrt(5.0))

    def elements(self, y: Vector, scores: Vector) -> tuple[Vector, Vector]:
        """Return the loss of each example, and its derivative by the score."""
        u = np.clip(scores - y, -self.width, self.width)
        share = (u / self.width) ** 2
        rest = 1.0 - share
        # 1 - (1 - s)^3 without cancellation.
        values = self.width**2 / 6.0 * share * (3.0 - share * (3.0 - share))
        return values, u * rest * rest

    def concave_slopes(self, y: Vector, scores: Vector) -> Vector:
        """Return the derivative of Tukey's loss less Huber's."""
        delta = self.convex_part.delta
        return np.asarray(self.elements(y, scores)[1] - np.clip(scores - y, -delta, delta))

    def broken_twin(self) -> BrokenLine:
        """Return the clipped absolute loss that reaches its height at half the width."""
        return ClippedAbsolute(0.5 * self.width)
