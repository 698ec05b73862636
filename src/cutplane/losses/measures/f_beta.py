"""The F-measure of the whole sample, as a convex upper bound.

Delta = 1 - F_beta,    F_beta = (1 + beta^2) precision * recall / (beta^2 precision + recall)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Quadratic
from cutplane.core.search import minimize_roughly
from cutplane.losses.measures.error_rate import (
    CountingMeasure,
    Flips,
    Limit,
    Sides,
    count_positives,
    flip_slopes,
)
from cutplane.losses.measures.f_beta_search import MarginSearch
from cutplane.losses.measures.kernels import sums_below
from cutplane.losses.score_loss import AtBestOffset, Ray, Tangent, positive


class Labeling(NamedTuple):
    """How many are flipped, and which."""

    flips: Flips
    limits: tuple[Limit, Limit]


class _Balance(NamedTuple):
    """Two labelings that together flag as many negatives as they miss positives."""

    falling: Labeling
    rising: Labeling

    @property
    def share(self) -> float:
        """The weight of the rising one."""
        down = self.falling.flips.missed - self.falling.flips.flagged
        up = self.rising.flips.flagged - self.rising.flips.missed
        return down / (down + up) if down + up > 0 else 0.0


class FBeta(CountingMeasure):
    """One minus the F-measure of the sample, bounded over all labelings.

    Scores count by ``1 / n_positive``: so ``Delta`` and margins are of the same order.

    Parameters
    ----------
    beta : float
        How much more recall counts than precision. 1 gives the F1 score.
    """

    shown = ("beta",)

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = positive("beta", beta)
        self._beta2 = self.beta**2

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        value, labeling = self._worst(y, scores, weights)
        return value, self._slopes_of(y, scores, weights, [(1.0, labeling)])

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        return self._worst(y, scores, weights)[0]

    def on_ray(self, y: Vector, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        starts, changes = (Sides.of(y, z, weights) for z in (ray.scores, ray.direction))
        return self._along(starts, changes, step)

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        starts, changes = (Sides.of(y, z, weights) for z in (scores, direction))
        return minimize_roughly(
            lambda step: self._along(starts, changes, step), extra, share=self.search_slack
        )

    def _along(self, starts: Sides, changes: Sides, step: float) -> tuple[float, float]:
        """Return the loss of ``starts + step * changes``, and its derivative by the step."""
        margins = [start + step * change for start, change in zip(starts, changes, strict=True)]
        search = MarginSearch(Sides(*(side.copy() for side in margins)))  # it may sort them
        value, *flips = search.worst(self._beta2)
        slope = 0.0
        for side, change, limit in zip(margins, changes, search.limits(*flips), strict=True):
            below, tied, n_tied = sums_below(side, change, limit.margin)
            # All choices among equal margins are worst labelings, and their mean is one of planes.
            slope -= below + tied * limit.ties / max(n_tied, 1)
        return value, slope / max(len(starts.positive), 1)

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        search = MarginSearch.of(y, scores, weights)
        least = search.minimize(self._beta2)
        pair = [Labeling(Flips(*one), search.limits(*one)) for one in (least.left, least.right)]
        return AtBestOffset(least.offset, least.value, _Balance(*pair))

    def at_best_offset(
        self, y: Vector, scores: Vector, weights: Vector, guess: float | None
    ) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores; the search needs no guess."""
        return self.minimize_offset(y, scores, weights)

    def slopes_at(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Vector:
        """Return the slopes of the tangent alone."""
        return self.tangent(y, scores, weights, at).slopes

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at the best constant, that sum to zero."""
        best = self.minimize_offset(y, scores, weights)
        return self.tangent(y, scores, weights, best).slopes

    def tangent(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the mean of one or two labelings' planes; the offset is that of their Deltas."""
        if at.offset is None:
            parts = [(1.0, self._worst(y, scores, weights)[1])]
        else:
            balance: _Balance = at.witness
            share = balance.share
            parts = [(1.0 - share, balance.falling), (share, balance.rising)]
        slopes = self._slopes_of(y, scores, weights, parts)
        n_positive = count_positives(y, weights)
        deltas = [share * self.delta(n_positive, *labeling.flips) for share, labeling in parts]
        return Tangent(slopes, float(sum(deltas)))

    def delta(self, n_positive: int, missed: int, flagged: int) -> float:
        """Return one minus the F-measure of a labeling; zero if there is nothing to find."""
        found = n_positive - missed
        size = found + flagged + self._beta2 * n_positive
        return (flagged + self._beta2 * missed) / size if size > 0.0 else 0.0

    def _worst(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Labeling]:
        search = MarginSearch.of(y, scores, weights)
        value, *flips = search.worst(self._beta2)
        return value, Labeling(Flips(*flips), search.limits(*flips))

    def _slopes_of(
        self, y: Vector, scores: Vector, weights: Vector, parts: list[tuple[float, Labeling]]
    ) -> Vector:
        slopes = np.zeros_like(scores)
        scale = max(count_positives(y, weights), 1)
        for share, labeling in parts:
            if share > 0.0:
                amount = share / scale
                flip_slopes(y, scores, weights, labeling.limits, (amount, amount), slopes)
        return slopes


def f1() -> FBeta:
    """Return the loss for the F1 score."""
    return FBeta(1.0)
