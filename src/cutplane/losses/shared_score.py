"""Several losses of one score, each with an offset of its own.

    sum_k min_{c_k} sum_i weight_i * loss_k(y_ik, z_i + c_k)

Given the scores, the offsets are separate problems of one dimension, each minimized out exactly as
one intercept is. So planes hold for all offsets, and the data are read once for all losses.

Grades with thresholds are one example (paper 000, ordinal regression): loss ``k`` asks whether the
grade is above ``k``, and its offset is minus the threshold. Parallel quantiles are another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import product_over, sum_over
from cutplane.core.protocols import Quadratic
from cutplane.core.search import minimize_on_ray
from cutplane.losses.loss import Loss
from cutplane.losses.score_loss import AtBestOffset, Examples, Ray, ScoreLoss, Tangent

# A poor step costs iterations, but no certificate is wrong because of it. A search to the last
# digit takes up to 1.3 times the trials, and saves no more than 2 of 48 iterations (3,000 grades of
# 5 kinds, 10 features, gap 1e-8, three losses).
_STEP_ACCURACY = 1e-4


class SharedScore(ScoreLoss):
    """The sum of several losses of one score, each with an intercept of its own.

    Targets have a column for each loss; a single column serves all of them.

    Parameters
    ----------
    losses : sequence of Loss
        What looks at the score.
    """

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = list(losses)
        if not self.losses:
            raise ValueError("a risk needs at least one loss")
        for loss in self.losses:
            if not isinstance(loss, Loss):
                raise TypeError(f"a loss must be a Loss such as cp.Hinge(), got {loss!r}")
        self.lower_bound = sum(loss.lower_bound for loss in self.losses)
        self.convex = all(loss.convex for loss in self.losses)
        self.unproven = "; ".join(
            filter(None, dict.fromkeys(loss.unproven for loss in self.losses))
        )
        self.smooth = all(loss.smooth for loss in self.losses)
        self.in_blocks = all(loss.in_blocks for loss in self.losses)

    def targets(self, y: Any, n_samples: int, weights: Vector) -> Matrix:
        """Return the targets, one column a loss, or raise ValueError."""
        columns: Matrix = np.asfortranarray(y, dtype=np.float64)
        if columns.ndim == 1:
            # One vector seen as all columns: `broadcast_to` would make it read-only.
            columns = as_strided(columns, (len(columns), len(self.losses)), (columns.itemsize, 0))
        if columns.shape != (n_samples, len(self.losses)):
            raise ValueError(
                f"targets have shape {columns.shape}, X has {n_samples} rows and there are "
                f"{len(self.losses)} losses"
            )
        used = weights > 0.0
        for target, loss in self._terms(columns):
            loss.check_targets(target[used])
            loss.check_weights(weights[used])
        return columns

    def offset_shape(self, score_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of losses."""
        return (len(self.losses),)

    def part(self, examples: Examples) -> SharedScore:
        """Return the losses of some examples."""
        return SharedScore([loss.part(examples) for loss in self.losses])

    def value(self, y: Matrix, scores: Vector, weights: Vector) -> float:
        """Return the sum of the losses."""
        return sum(loss.value(target, scores, weights) for target, loss in self._terms(y))

    def at_best_offset(
        self, y: Matrix, scores: Vector, weights: Vector, guess: Vector | None
    ) -> AtBestOffset:
        """Minimize each loss over a constant of its own, added to all scores."""
        guesses = [None] * len(self.losses) if guess is None else guess.tolist()
        best = [
            loss.at_best_offset(target, scores, weights, own)
            for (target, loss), own in zip(self._terms(y), guesses, strict=True)
        ]
        offsets = np.array([found.offset for found in best])
        return AtBestOffset(offsets, float(sum(found.value for found in best)), best)

    def tangent(self, y: Matrix, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the sum of the tangents."""
        total, offset = np.zeros_like(scores), 0.0
        found: list[AtBestOffset] = at.witness or [
            AtBestOffset(None, loss.value(target, scores, weights))
            for target, loss in self._terms(y)
        ]
        for (target, loss), own in zip(self._terms(y), found, strict=True):
            tangent = loss.tangent(target, scores, weights, own)
            total += tangent.slopes
            offset += tangent.offset
        return Tangent(total, offset)

    def on_ray(self, y: Matrix, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        scores = ray.scores + step * ray.direction
        offsets = ray.offsets + step * ray.speeds
        value = slope = 0.0
        for k, (target, loss) in enumerate(self._terms(y)):
            own, slopes = loss(target, scores + offsets[k], weights)
            value += own
            slope += product_over(slopes, ray.direction) + ray.speeds[k] * sum_over(slopes)
        return value, slope

    def minimize_on_ray(self, y: Matrix, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return nearly the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""
        return minimize_on_ray(
            lambda step: self.on_ray(y, ray, weights, step), extra, accuracy=_STEP_ACCURACY
        )

    def _terms(self, y: Matrix) -> Iterator[tuple[Vector, Loss]]:
        """Return the targets of each loss, and the loss."""
        return zip(y.T, self.losses, strict=True)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(map(repr, self.losses)))
        return f"SharedScore({len(self.losses)} of {names})"
