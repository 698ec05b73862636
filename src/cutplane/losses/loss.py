"""Losses of one score an example: value and slopes, and one-dimensional searches on them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import (
    between,
    largest_size_over,
    product_over,
    sum_and_size_over,
    sum_over,
)
from cutplane.compute.room import empty_like
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import NonFiniteRisk, Quadratic
from cutplane.core.search import minimize_on_ray, minimize_roughly
from cutplane.losses.score_loss import AtBestOffset, Ray, ScoreLoss, Tangent

Task = Literal["classification", "regression", "ranking"]

_EPS = float(np.finfo(np.float64).eps)


class Loss(ScoreLoss):
    """A function of one score an example, convex unless it says otherwise.

    A new loss needs only ``__call__``. It should also give `conjugate`, which makes its planes
    exact to rounding, and may replace the searches with faster ones. Whether there are conjugates
    and curvatures is seen from whether these methods are written.

    Attributes
    ----------
    task : {"classification", "regression", "ranking"}
        Classification losses see ``y`` in {-1, 1}; the others see numbers.
    search_slack : float
        The share of the possible gain that `minimize_along` may leave to save evaluations.
    ignores_targets : bool
        Whether targets have no meaning, as for examples without a label.
    steady_curvature : bool
        Whether the logarithm of the second derivative changes by at most as much as the score.
    """

    task: ClassVar[Task]
    additive = True
    search_slack: ClassVar[float] = 0.0
    ignores_targets: ClassVar[bool] = False
    steady_curvature: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "has_conjugate" not in vars(cls):
            cls.has_conjugate = cls.conjugate is not Loss.conjugate
        if "has_curvatures" not in vars(cls):
            cls.has_curvatures = cls.curvatures is not Loss.curvatures

    @abstractmethod
    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the weighted sum of losses alone; a loss may know a faster way."""
        return self(y, scores, weights)[0]

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score alone; a loss may know a faster way."""
        return self(y, scores, weights)[1]

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float | None:
        """Return ``max_z slopes.z - loss(y, z)``: infinite outside its domain, None if unknown."""
        return None

    def curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector | None:
        """Return the second derivative by each score, None if unknown."""
        return None

    def smoothed(self, width: float) -> Loss:
        """Return the loss with its kinks rounded: ``min_u loss(u) + (z - u)^2 / (2*width)``.

        Its slopes are slopes of the loss itself at ``u``. A loss without kinks returns itself.
        """
        return self

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if the loss is not defined for these targets."""
        if not np.isfinite(y).all():
            raise ValueError("a target is not finite")
        if self.task == "classification" and not (np.abs(y) == 1.0).all():
            raise ValueError("the targets of a classification loss are -1 and 1")

    def check_weights(self, weights: Vector) -> None:
        """Raise ValueError if the loss is not defined for these weights, all of them positive."""

    def predict(self, scores: Vector) -> Vector:
        """Return what a regression model with this loss predicts: the score itself by default."""
        return scores

    def probability(self, scores: Vector) -> Vector | None:
        """Return the probability of the positive class, or None if the loss implies none."""
        return None

    def tangent_offset(
        self,
        y: Vector,
        scores: Vector,
        slopes: Vector,
        weights: Vector,
        *,
        value: float | None = None,
    ) -> float:
        """Return the offset of the tangent with these slopes at these scores.

        Through the conjugate it has no cancellation, and is right even where the slopes are not
        exactly those at ``scores``. Else it needs the ``value`` of the loss there. If the slopes
        sum to zero, that may be the value at scores shifted by a constant.
        """
        conjugate = self.conjugate(y, slopes, weights)
        if conjugate is not None:
            return -conjugate
        if value is None:
            value = self.value(y, scores, weights)
        return value - product_over(slopes, scores)

    def targets(self, y: Any, n_samples: int, weights: Vector) -> Vector:
        """Return the targets, one number an example, or raise ValueError."""
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        if numbers.shape != (n_samples,):
            raise ValueError(f"y has shape {numbers.shape}, X has {n_samples} rows")
        if self.ignores_targets:
            return np.ones(n_samples)
        used = weights > 0.0
        self.check_targets(numbers[used])
        self.check_weights(weights[used])
        return numbers

    def at_best_offset(
        self, y: Vector, scores: Vector, weights: Vector, guess: float | None
    ) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores, beginning at a guess."""
        if not guess:
            return self.minimize_offset(y, scores, weights)
        best = self.minimize_offset(y, scores + guess, weights)
        return best._replace(offset=best.offset + guess)

    def tangent(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the tangent at ``scores``, or at the best constant added to them."""
        slopes = self.slopes_at(y, scores, weights, at)
        return Tangent(slopes, self.tangent_offset(y, scores, slopes, weights, value=at.value))

    def slopes_at(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Vector:
        """Return the slopes of the tangent alone."""
        if at.offset is None:
            return self.slopes(y, scores, weights)
        return self.zero_sum_slopes(y, scores, at.offset, weights)

    def ray(self, start: Vector, offsets: float, end: Vector, end_offsets: float) -> Ray:
        """Return the ray from some scores through others, with the constants added to them."""
        direction = empty_like(start)
        begin = empty_like(start) if offsets or end_offsets else start

        def block(i: slice) -> None:
            np.subtract(end[i], start[i], out=direction[i])
            if begin is not start:
                np.add(start[i], offsets, out=begin[i])
                direction[i] += end_offsets - offsets

        map_blocks(block, len(start))
        return Ray(begin, 0.0, direction, 0.0)

    def on_ray(self, y: Vector, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        value, slopes = self(y, ray.scores + step * ray.direction, weights)
        return value, product_over(slopes, ray.direction)

    def minimize_on_ray(self, y: Vector, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""
        return self.minimize_along(y, ray.scores, ray.direction, weights, extra)

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        ray = Ray(scores, 0.0, direction, 0.0)

        def along(step: float) -> tuple[float, float]:
            return self.on_ray(y, ray, weights, step)

        if self.search_slack > 0.0:
            return minimize_roughly(along, extra, share=self.search_slack)
        return minimize_on_ray(along, extra)

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        offset = self._best_offset(y, scores, weights)
        return AtBestOffset(offset, self._value_at(y, scores, offset, weights))

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at ``scores + offset`` that sum to zero; ``offset`` must be the best one.

        Slopes that sum to zero belong to a tangent that does not change with the constant, so it
        bounds the minimum from below for all other scores too. At a kink they are a mean of
        those on both sides.
        """
        slopes = self._slopes_at(y, scores, offset, weights)
        total, size = sum_and_size_over(slopes)
        if not np.isfinite(total):
            raise NonFiniteRisk("the loss is not finite for any intercept")
        if abs(total) <= 4.0 * _EPS * size:
            return slopes
        # The minimum is at a kink or off by rounding: look a little to the other side of it.
        width = 4.0 * _EPS * (abs(offset) + largest_size_over(scores) + 1.0)
        while True:
            beyond = self._slopes_at(y, scores, offset - np.copysign(width, total), weights)
            rest = sum_over(beyond)
            if rest * total <= 0.0:
                return between(slopes, beyond, total / (total - rest), out=beyond)
            width *= 4.0
            if not np.isfinite(width):
                raise NonFiniteRisk("the loss has no minimum over the intercept")

    def _value_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> float:
        """Return the loss of ``scores + offset``."""
        return self.value(y, scores + offset, weights)

    def _slopes_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return the slopes at ``scores + offset``, in a vector of their own."""
        return self.slopes(y, scores + offset, weights)

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        if self.of_differences:
            return 0.0
        direction = np.ones_like(scores)
        if sum_over(self.slopes(y, scores, weights)) > 0.0:
            direction = -direction
        step = self.minimize_along(y, scores, direction, weights, Quadratic(0.0, 0.0))
        return step * float(direction[0])


class OffsetLoss(Loss):
    """A loss written for scores with an offset, which is added block by block.

    So no vector of moved scores is needed. It has `_value_at` and `_slopes_at`.
    """

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""
        return self.value(y, scores, weights), self.slopes(y, scores, weights)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the weighted sum of losses."""
        return self._value_at(y, scores, 0.0, weights)

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        return self._slopes_at(y, scores, 0.0, weights)


def moved(scores: Vector, offset: float) -> Vector:
    """Return scores with an offset added, the same array if there is none."""
    return scores + offset if offset else scores
