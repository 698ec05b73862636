"""Losses of all classes' scores together: Crammer and Singer's, and softmax.

An example has a score ``z_j`` for each class ``j``, and belongs to class ``y``:

    softmax            log sum_j exp(z_j) - z_y                  conjugate  sum_j P_j log P_j
    Crammer-Singer     max_j (z_j + [j != y]) - z_y              conjugate  P_y - 1

Slopes are ``P - e_y`` with shares ``P`` on the simplex, and *any* such slopes give a plane. For the
softmax loss the shares are the probabilities of the classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import softmax, xlog1py, xlogy

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import Quadratic
from cutplane.losses.line_search import find_root, minimize_on_ray
from cutplane.losses.multiclass.kernels import (
    Indices,
    fill_shares,
    hinge_on_ray,
    make_slopes,
    softmax_on_ray,
)
from cutplane.losses.multiclass.offsets import (
    BestOffsets,
    Scores,
    repaired,
    sharp_offsets,
    smooth_offsets,
)


class Ray:
    """Scores that move: ``scores + offsets + k * (direction + speeds)``, for ``k >= 0``.

    Parameters
    ----------
    scores, direction : ndarray of shape (n_samples, n_classes)
    offsets, speeds : ndarray of shape (n_classes,)
    """

    def __init__(self, scores: Matrix, offsets: Vector, direction: Matrix, speeds: Vector) -> None:
        self.scores, self.offsets = scores, offsets
        self.direction, self.speeds = direction, speeds

    @classmethod
    def standing_still(cls, scores: Matrix, offsets: Vector) -> Ray:
        """Return a ray to look at where it begins."""
        return cls(scores, offsets, scores, offsets)

    def block(self, i: slice) -> tuple[Matrix, Vector, Matrix, Vector]:
        """Return the part for some of the examples."""
        return self.scores[i], self.offsets, self.direction[i], self.speeds


class MulticlassLoss(ABC):
    """A convex function of the scores of all classes.

    Scores are a matrix with one column a class, ``y`` are numbers of classes from 0 on, weights sum
    to one, and offsets are added to the columns.
    """

    margin: float
    lower_bound = 0.0

    @abstractmethod
    def value(self, y: Indices, scores: Matrix, weights: Vector, offsets: Vector) -> float:
        """Return the weighted sum of losses."""

    @abstractmethod
    def best_offsets(
        self, y: Indices, scores: Matrix, weights: Vector, *, start: Vector | None, accuracy: float
    ) -> BestOffsets:
        """Minimize the loss over the offsets, up to ``accuracy`` as a share of its value."""

    @abstractmethod
    def conjugate(self, y: Indices, slopes: Matrix, weights: Vector) -> float:
        """Return the weighted sum of the conjugates at the examples' slopes."""

    @abstractmethod
    def minimize_along(self, y: Indices, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""

    @abstractmethod
    def on_ray(self, y: Indices, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""

    @abstractmethod
    def at_once(self, offsets: Vector) -> BestOffsets:
        """Return given offsets in the form of best ones, so that `slopes` can be taken there."""

    def slopes(
        self, y: Indices, scores: Matrix, weights: Vector, best: BestOffsets, *, balanced: bool
    ) -> Matrix:
        """Return the slopes of each example by its scores, not weighted.

        Those that are balanced sum to zero over the examples, weighted, for each class. So their
        plane does not change with the offsets, and bounds the minimum over all offsets from below.
        """
        shares = np.empty_like(scores)
        width = scores.shape[1]
        map_blocks(
            lambda i: fill_shares(
                scores[i],
                best.base,
                best.shifts,
                y[i],
                self.margin,
                best.temperature,
                shares[i],
            ),
            len(y),
            width=width,
        )
        if balanced:
            repaired(shares, y, weights)
        map_blocks(lambda i: make_slopes(shares[i], y[i]), len(y), width=width)
        return shares

    def probability(self, scores: Matrix) -> Matrix | None:
        """Return the probabilities of the classes, or None if the loss implies none."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Softmax(MulticlassLoss):
    """``log sum_j exp(z_j) - z_y``: multinomial logistic regression."""

    margin = 0.0

    def value(self, y: Indices, scores: Matrix, weights: Vector, offsets: Vector) -> float:
        """Return the weighted sum of losses."""
        return self._on_ray(y, Ray.standing_still(scores, offsets), weights, 0.0)[0]

    def best_offsets(
        self, y: Indices, scores: Matrix, weights: Vector, *, start: Vector | None, accuracy: float
    ) -> BestOffsets:
        """Minimize the loss over the offsets, up to ``accuracy`` as a share of its value."""
        return smooth_offsets(Scores(scores, y, weights, self.margin), start, accuracy)

    def at_once(self, offsets: Vector) -> BestOffsets:
        """Return given offsets in the form of best ones."""
        return BestOffsets(offsets, np.zeros_like(offsets), 1.0, 0)

    def conjugate(self, y: Indices, slopes: Matrix, weights: Vector) -> float:
        """Return the weighted sum of the conjugates at the examples' slopes: minus the entropy."""

        def block(i: slice) -> float:
            others = slopes[i].copy()
            everyone = np.arange(len(others))
            own = np.maximum(others[everyone, y[i]], -1.0)
            others[everyone, y[i]] = 0.0
            entropies = xlogy(others, others).sum(axis=1) + xlog1py(1.0 + own, own)
            return dot(weights[i], entropies)

        return sum(map_blocks(block, len(y), width=slopes.shape[1]))

    def minimize_along(self, y: Indices, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""

        def derivatives(step: float) -> tuple[float, float]:
            _, first, second = self._on_ray(y, ray, weights, step)
            return first + extra.slope + extra.curvature * step, second + extra.curvature

        return find_root(derivatives)

    def probability(self, scores: Matrix) -> Matrix:
        """Return the probabilities of the classes."""
        return np.asarray(softmax(scores, axis=1))

    def on_ray(self, y: Indices, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        return self._on_ray(y, ray, weights, step)[:2]

    def _on_ray(
        self, y: Indices, ray: Ray, weights: Vector, step: float
    ) -> tuple[float, float, float]:
        parts = map_blocks(
            lambda i: softmax_on_ray(*ray.block(i), step, y[i], weights[i]),
            len(y),
            width=len(ray.offsets),
        )
        value, first, second = (sum(column) for column in zip(*parts, strict=True))
        return value, first, second


class CrammerSinger(MulticlassLoss):
    """``max_j (z_j + [j != y]) - z_y``: the hinge loss for many classes at once."""

    margin = 1.0

    def value(self, y: Indices, scores: Matrix, weights: Vector, offsets: Vector) -> float:
        """Return the weighted sum of losses."""
        return self.on_ray(y, Ray.standing_still(scores, offsets), weights, 0.0)[0]

    def best_offsets(
        self, y: Indices, scores: Matrix, weights: Vector, *, start: Vector | None, accuracy: float
    ) -> BestOffsets:
        """Minimize the loss over the offsets, up to ``accuracy`` as a share of its value."""
        return sharp_offsets(Scores(scores, y, weights, self.margin), start, accuracy)

    def at_once(self, offsets: Vector) -> BestOffsets:
        """Return given offsets in the form of best ones."""
        # So cold that only exact ties are shared.
        return BestOffsets(offsets, np.zeros_like(offsets), 1e-300, 0)

    def conjugate(self, y: Indices, slopes: Matrix, weights: Vector) -> float:
        """Return the weighted sum of the conjugates at the examples' slopes."""
        return dot(weights, slopes[np.arange(len(y)), y])

    def minimize_along(self, y: Indices, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""
        return minimize_on_ray(lambda step: self.on_ray(y, ray, weights, step), extra)

    def on_ray(self, y: Indices, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        parts = map_blocks(
            lambda i: hinge_on_ray(*ray.block(i), step, y[i], weights[i]),
            len(y),
            width=len(ray.offsets),
        )
        return sum(part[0] for part in parts), sum(part[1] for part in parts)
