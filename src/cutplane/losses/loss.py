"""What a loss of scores is: value and slopes, and one-dimensional searches that need no data.

A loss sees targets ``y``, scores ``z`` and weights that sum to one, never the features. Its tangent
``sum_i slopes_i * z'_i + offset`` lies below it for all scores ``z'``; the risk pulls it back to a
plane in ``w``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import NonFiniteRisk, Quadratic
from cutplane.losses.line_search import minimize_on_ray, minimize_roughly

Task = Literal["classification", "regression", "ranking"]

_EPS = float(np.finfo(np.float64).eps)


class AtBestOffset(NamedTuple):
    """A loss minimized over a constant that is added to all scores.

    ``witness`` is what the loss found on the way and can use again for the tangent there.
    """

    offset: float
    value: float
    witness: Any = None


class Tangent(NamedTuple):
    """A function ``slopes.z + offset`` of the scores that is never above the loss."""

    slopes: Vector
    offset: float


class Loss(ABC):
    """A convex function of scores.

    A new loss needs only ``__call__``. It should also give `conjugate`, which makes its planes
    exact to rounding, and may replace the searches with faster ones.

    Attributes
    ----------
    task : {"classification", "regression", "ranking"}
        Classification losses see ``y`` in {-1, 1}; the others see numbers.
    lower_bound : float
        A value that the loss never goes below, or ``-inf``.
    of_residual : bool
        Whether only ``z - y`` matters, so that targets may be shifted together with the intercept.
    additive : bool
        Whether it is a sum over examples. Only then may the examples be split into groups with
        planes of their own.
    of_differences : bool
        Whether a constant added to all scores changes nothing. The intercept is then no matter of
        the loss: `threshold` says where to put it.
    ungained : float
        The share of the possible gain that `minimize_along` may leave to save evaluations.
    """

    task: ClassVar[Task]
    lower_bound: ClassVar[float] = 0.0
    of_residual: ClassVar[bool] = False
    additive: ClassVar[bool] = True
    of_differences: ClassVar[bool] = False
    ungained: ClassVar[float] = 0.0

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

    @property
    def has_curvatures(self) -> bool:
        """Whether `curvatures` is known."""
        probe = np.zeros(1)
        return self.curvatures(probe + 1.0, probe, probe + 1.0) is not None

    @property
    def has_conjugate(self) -> bool:
        """Whether `conjugate` is known."""
        probe = np.zeros(1)
        return self.conjugate(probe + 1.0, probe, probe + 1.0) is not None

    @property
    def dual_form(self) -> tuple[int, Matrix] | None:
        """What dual coordinate ascent must know: the kind, and the shape of pieces; or None."""
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

    def check_weights(self, weights: Vector) -> None:  # noqa: B027 (most losses allow all)
        """Raise ValueError if the loss is not defined for these weights, all of them positive."""

    def threshold(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the score above which to predict the positive class, for losses of differences."""
        return 0.0

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
        return value - float(slopes @ scores)

    def tangent(
        self,
        y: Vector,
        scores: Vector,
        weights: Vector,
        *,
        value: float,
        best: AtBestOffset | None = None,
    ) -> Tangent:
        """Return the tangent at ``scores``, or at the best constant added to them.

        ``value`` is the loss there. The tangent at the best constant bounds the minimum over
        constants: its slopes sum to zero.
        """
        if best is None:
            slopes = self.slopes(y, scores, weights)
        else:
            slopes = self.balanced_slopes(y, scores, best.offset, weights)
        return Tangent(slopes, self.tangent_offset(y, scores, slopes, weights, value=value))

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""

        def on_ray(step: float) -> tuple[float, float]:
            value, slopes = self(y, scores + step * direction, weights)
            return value, dot(np.ascontiguousarray(slopes), direction)

        if self.ungained > 0.0:
            return minimize_roughly(on_ray, extra, share=self.ungained)
        return minimize_on_ray(on_ray, extra)

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        offset = self._best_offset(y, scores, weights)
        return AtBestOffset(offset, self._value_at(y, scores, offset, weights))

    def balanced_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at ``scores + offset`` that sum to zero; ``offset`` must be the best one.

        Slopes that sum to zero belong to a tangent that does not change with the constant, so it
        bounds the minimum from below for all other scores too. At a kink they are a mean of
        those on both sides.
        """
        slopes = self._slopes_at(y, scores, offset, weights)
        total = float(slopes.sum())
        if not np.isfinite(total):
            raise NonFiniteRisk("the loss is not finite for any intercept")
        if abs(total) <= 4.0 * _EPS * float(np.abs(slopes).sum()):
            return slopes
        del slopes  # a vector as long as the sample
        # The minimum is at a kink or off by rounding: look a little to both sides of it.
        largest = max(float(scores.max()), -float(scores.min()))
        width = 4.0 * _EPS * (abs(offset) + largest + 1.0)
        while True:
            left = self._slopes_at(y, scores, offset - width, weights)
            right = self._slopes_at(y, scores, offset + width, weights)
            lower, upper = float(left.sum()), float(right.sum())
            if lower <= 0.0 <= upper:
                break
            width *= 4.0
            if not np.isfinite(width):
                raise NonFiniteRisk("the loss has no minimum over the intercept")
        share = lower / (lower - upper) if upper > lower else 0.0
        left *= 1.0 - share
        right *= share
        left += right
        return left

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
        if float(self.slopes(y, scores, weights).sum()) > 0.0:
            direction = -direction
        step = self.minimize_along(y, scores, direction, weights, Quadratic(0.0, 0.0))
        return step * float(direction[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
