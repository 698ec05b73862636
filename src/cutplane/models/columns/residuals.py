"""Losses of a row of residuals: how far a vector is from the one that was wanted.

An example has a row of scores ``z`` and a row of targets ``y``.

    Euclidean           |z - y|             by their distance, in all directions alike
    SquaredEuclidean    |z - y|^2 / 2       the sum of the squared losses of the columns

Offsets, one for each column, are minimized out: the mean of the residuals for squares, their
geometric median for lengths. A plane is valid for the minimum if its slopes sum to zero, and slopes
of lengths may be any vectors no longer than the weight. So the slopes at a median that is nearly
right are made to sum to zero, and shortened: what it lacks costs tightness, not validity.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import product_over, sum_over
from cutplane.core.protocols import Quadratic
from cutplane.core.search import minimize_on_ray
from cutplane.losses.score_loss import AtBestOffset, Ray, ScoreLoss, Tangent

# A poor step costs iterations, but no certificate is wrong because of it.
_STEP_ACCURACY = 1e-4

# Lengths are rounded near zero, over this share of the mean length at the end; if Newton's method
# does not get there at once, over wider ones before.
_WIDTHS = (0.1, 3e-3, 1e-4, 3e-6, 1e-7, 3e-9)
_LAST_WIDTH = 1e-10
_NEAR = 1e4  # widths
# Slopes that sum to this have a minimum: the first is wanted, the last is enough.
_BALANCED, _NEARLY_BALANCED = 1e-14, 1e-10
_MOST_STEPS = 30
_PARTS = 0.25 ** np.arange(6)
_ROUNDING = 1e-14
_TINY = float(np.finfo(np.float64).tiny)


class ResidualLoss(ScoreLoss):
    """A convex function of the difference of two rows. Weights sum to one."""

    def targets(self, y: Any, n_samples: int, weights: Vector) -> Matrix:
        """Return the targets, a row an example, or raise ValueError."""
        rows: Matrix = np.ascontiguousarray(y, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise ValueError(f"targets must be a matrix, a column an output, got {rows.shape}")
        if len(rows) != n_samples:
            raise ValueError(f"y has {len(rows)} rows, X has {n_samples}")
        if not np.isfinite(rows[weights > 0.0]).all():
            raise ValueError("a target is not finite")
        return rows

    def score_shape(self, y: Matrix) -> tuple[int, ...]:
        """Return the number of outputs."""
        return y.shape[1:]

    def value(self, y: Matrix, scores: Matrix, weights: Vector) -> float:
        """Return the weighted sum of losses."""
        return product_over(weights, self._losses(scores - y))

    def on_ray(self, y: Matrix, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        speeds = ray.direction + ray.speeds
        residuals = ray.scores + ray.offsets - y + step * speeds
        slopes = self._slopes(residuals, weights)
        along = np.einsum("ij,ij->i", slopes, speeds)
        return product_over(weights, self._losses(residuals)), float(sum_over(along))

    def minimize_on_ray(self, y: Matrix, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return nearly the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""
        return minimize_on_ray(
            lambda step: self.on_ray(y, ray, weights, step), extra, accuracy=_STEP_ACCURACY
        )

    @abstractmethod
    def _losses(self, residuals: Matrix) -> Vector:
        """Return the loss of each row."""

    @abstractmethod
    def _slopes(self, residuals: Matrix, weights: Vector) -> Matrix:
        """Return the derivative by each score, weighted."""


class SquaredEuclidean(ResidualLoss):
    """``|z - y|^2 / 2``: the squared losses of all columns, added up."""

    smooth = True

    def at_best_offset(
        self, y: Matrix, scores: Matrix, weights: Vector, guess: Any
    ) -> AtBestOffset:
        """Add the mean residual of each column."""
        residuals = scores - y
        offset = -sum_over(weights[:, None] * residuals)
        residuals += offset
        return AtBestOffset(offset, product_over(weights, self._losses(residuals)))

    def tangent(self, y: Matrix, scores: Matrix, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the slopes, and the offset by the conjugate of the square."""
        residuals = scores - y
        if at.offset is not None:
            residuals += at.offset
            residuals -= sum_over(weights[:, None] * residuals)  # what rounding left
        slopes = self._slopes(residuals, weights)
        return Tangent(slopes, -_product(slopes, y) - 0.5 * _product(slopes, residuals))

    def _losses(self, residuals: Matrix) -> Vector:
        return 0.5 * _squares(residuals)

    def _slopes(self, residuals: Matrix, weights: Vector) -> Matrix:
        return weights[:, None] * residuals


class Euclidean(ResidualLoss):
    """``|z - y|``: the distance of an example from its target, whatever the direction."""

    def at_best_offset(
        self, y: Matrix, scores: Matrix, weights: Vector, guess: Any
    ) -> AtBestOffset:
        """Subtract the geometric median of the residuals."""
        residuals = scores - y
        start = -sum_over(weights[:, None] * residuals) if guess is None else np.asarray(guess)
        offset, width = _median(residuals, weights, start)
        lengths = self._losses(residuals + offset)
        return AtBestOffset(offset, product_over(weights, lengths), width)

    def tangent(self, y: Matrix, scores: Matrix, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return slopes no longer than the weights, which sum to zero at the best offsets."""
        residuals = scores - y
        if at.offset is None:
            slopes = self._slopes(residuals, weights)
        else:
            slopes = _balanced(residuals + at.offset, weights, at.witness)
        return Tangent(slopes, -_product(slopes, y))

    def _losses(self, residuals: Matrix) -> Vector:
        return np.sqrt(_squares(residuals))

    def _slopes(self, residuals: Matrix, weights: Vector) -> Matrix:
        return _rounded_slopes(residuals, weights, 0.0)


def _squares(residuals: Matrix) -> Vector:
    squares: Vector = np.einsum("ij,ij->i", residuals, residuals)
    return squares


def _product(a: Matrix, b: Matrix) -> float:
    return float(sum_over(np.einsum("ij,ij->i", a, b)))


def _rounded_slopes(residuals: Matrix, weights: Vector, width: float) -> Matrix:
    """Return the slopes of ``sqrt(|u|^2 + width^2)``; zero where that is zero."""
    lengths = np.sqrt(_squares(residuals) + width * width)
    factors = np.divide(weights, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    return factors[:, None] * residuals


def _balanced(residuals: Matrix, weights: Vector, width: float) -> Matrix:
    """Return slopes that sum to zero, none longer than its weight."""
    slopes = _rounded_slopes(residuals, weights, width)
    # Examples next to the median take up what they can: there, any slope does.
    near = np.flatnonzero(_squares(residuals) <= (_NEAR * width) ** 2)
    room = np.maximum(weights[near] - np.sqrt(_squares(slopes[near])), 0.0)
    rest, total = sum_over(slopes), float(room.sum())
    if total > 0.0:
        share = min(1.0, total / max(float(np.sqrt(rest @ rest)), _TINY)) / total
        slopes[near] -= share * room[:, None] * rest
        rest = sum_over(slopes)
    slopes -= weights[:, None] * rest
    slopes /= 1.0 + float(np.sqrt(rest @ rest))
    return slopes


def _median(residuals: Matrix, weights: Vector, start: Vector) -> tuple[Vector, float]:
    """Return nearly the best offset, and over which width lengths were rounded to find it."""
    scale = product_over(weights, np.sqrt(_squares(residuals + start)))
    if not scale > 0.0:
        return start, 0.0
    width = _LAST_WIDTH * scale
    offset, found = _newton(residuals, weights, start, width)
    if found:
        return offset, width
    offset = start
    for share in _WIDTHS:
        offset, found = _newton(residuals, weights, offset, share * scale)
        nearest = int(np.argmin(np.where(weights > 0.0, _squares(residuals + offset), np.inf)))
        if _is_median(residuals, weights, -residuals[nearest]):
            return -residuals[nearest], 0.0
    return _newton(residuals, weights, offset, width)[0], width


def _is_median(residuals: Matrix, weights: Vector, offset: Vector) -> bool:
    """Say whether an example is the median: what is there weighs more than the others pull."""
    moved = residuals + offset
    pull = sum_over(_rounded_slopes(moved, weights, 0.0))
    there = float(weights[_squares(moved) == 0.0].sum())
    return float(np.sqrt(pull @ pull)) <= there


class _Place(NamedTuple):
    """The sum of rounded lengths, and its slope by the offset."""

    moved: Matrix
    lengths: Vector
    value: float
    slope: Vector

    @classmethod
    def at(cls, offset: Vector, residuals: Matrix, weights: Vector, width: float) -> _Place:
        moved = residuals + offset
        lengths = np.sqrt(_squares(moved) + width * width)
        slope = sum_over((weights / lengths)[:, None] * moved)
        return cls(moved, lengths, product_over(weights, lengths), slope)

    @property
    def steepness(self) -> float:
        return float(np.sqrt(self.slope @ self.slope))

    def is_better_than(self, other: _Place) -> bool:
        """Say whether it is lower, or less steep where values are the same but for rounding."""
        if self.value < other.value:
            return True
        level = self.value <= other.value * (1.0 + _ROUNDING)
        return level and self.steepness <= 0.5 * other.steepness


def _newton(
    residuals: Matrix, weights: Vector, offset: Vector, width: float
) -> tuple[Vector, bool]:
    """Minimize the rounded lengths over the offset; say also whether the slopes sum to zero."""
    identity = np.eye(residuals.shape[1])
    place = _Place.at(offset, residuals, weights, width)
    for _ in range(_MOST_STEPS):
        if place.steepness <= _BALANCED:
            return offset, True
        factors = weights / place.lengths
        mass = float(sum_over(factors))
        directions = place.moved / place.lengths[:, None]
        hessian = (1.0 + _ROUNDING) * mass * identity
        hessian -= np.einsum("i,ij,ik->jk", factors, directions, directions)
        # Newton's step or a part of it; else the one of Weiszfeld, which always leads down.
        newton = np.linalg.solve(hessian, place.slope)
        for step in (*(part * newton for part in _PARTS), place.slope / mass):
            tried = _Place.at(offset - step, residuals, weights, width)
            if tried.is_better_than(place):
                break
        else:
            break
        offset, place = offset - step, tried
    return offset, place.steepness <= _NEARLY_BALANCED
