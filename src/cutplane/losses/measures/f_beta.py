"""The F-measure of the whole sample, as a convex upper bound.

Delta = 1 - F_beta,    F_beta = (1 + beta^2) precision * recall / (beta^2 precision + recall)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.losses.measures.error_rate import (
    CountingMeasure,
    Flips,
    Sides,
    count_positives,
    flip_slopes,
    for_both,
)
from cutplane.losses.measures.f_beta_kernels import SortedMargins, minimize_over_offset, worst_flips
from cutplane.losses.score_loss import AtBestOffset, Tangent, positive


class _Balance(NamedTuple):
    """Two labelings that together flag as many negatives as they miss positives."""

    falling: Flips
    rising: Flips

    @property
    def share(self) -> float:
        """The weight of the rising one."""
        down = self.falling.missed - self.falling.flagged
        up = self.rising.flagged - self.rising.missed
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
        value, flips = self._worst(y, scores, weights)
        return value, self._slopes_of(y, scores, weights, [(1.0, flips)])

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        return self._worst(y, scores, weights)[0]

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        # The order of the scores does not depend on it: one sort serves all trials.
        offset, value, *counts = minimize_over_offset(_sorted(y, scores, weights), self._beta2)
        return AtBestOffset(offset, value, _Balance(Flips(*counts[:2]), Flips(*counts[2:])))

    def slopes_at(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Vector:
        """Return the slopes of the tangent alone."""
        return self.tangent(y, scores, weights, at).slopes

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at the best constant, that sum to zero."""
        best = self.minimize_offset(y, scores + offset, weights)
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
        deltas = [share * self.delta(n_positive, *flips) for share, flips in parts]
        return Tangent(slopes, float(sum(deltas)))

    def delta(self, n_positive: int, missed: int, flagged: int) -> float:
        """Return one minus the F-measure of a labeling; zero if there is nothing to find."""
        found = n_positive - missed
        size = found + flagged + self._beta2 * n_positive
        return (flagged + self._beta2 * missed) / size if size > 0.0 else 0.0

    def _worst(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Flips]:
        value, *counts = worst_flips(_sorted(y, scores, weights), self._beta2, 0.0)
        return value, Flips(*counts)

    def _slopes_of(
        self, y: Vector, scores: Vector, weights: Vector, parts: list[tuple[float, Flips]]
    ) -> Vector:
        slopes = np.zeros_like(scores)
        sides = Sides.of(y, scores, weights)
        scale = max(len(sides.positive), 1)
        for share, flips in parts:
            if share > 0.0:
                amount = share / scale
                flip_slopes(y, scores, weights, sides, flips, (amount, amount), slopes)
        return slopes


def f1() -> FBeta:
    """Return the loss for the F1 score."""
    return FBeta(1.0)


def _sorted(y: Vector, scores: Vector, weights: Vector) -> SortedMargins:
    """Return the margins of both sides, increasing, and the sums of the first of them."""
    sides = Sides.of(y, scores, weights)
    positive_sums, negative_sums = for_both(_sort_and_sum, *sides, width=len(y) // 2)
    return *sides, positive_sums, negative_sums


def _sort_and_sum(margins: Vector) -> Vector:
    margins.sort()
    sums = np.zeros(len(margins) + 1)
    np.cumsum(margins, out=sums[1:])
    return sums
