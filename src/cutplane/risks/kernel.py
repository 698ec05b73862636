"""The risk of a function in the span of the examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.losses.score_loss import ScoreLoss
from cutplane.maps.kernels.matrix import KernelRows
from cutplane.maps.kernels.span import KernelMap
from cutplane.risks.scored import ScoredPoint, ScoredRisk


class KernelRisk(ScoredRisk):
    """Mean loss of a function ``sum_i beta_i k(x_i, .)``, and of an intercept, on a sample.

    Parameters
    ----------
    rows : KernelRows
        The kernel matrix of all examples.
    y, loss, weights, intercept
        As for `ScoredRisk`.
    """

    spans_examples = True
    good_groups = 1  # planes of groups would each take a pass

    def __init__(
        self,
        rows: KernelRows,
        y: Any,
        loss: ScoreLoss,
        *,
        weights: Vector | None = None,
        intercept: bool = True,
    ) -> None:
        super().__init__(KernelMap(rows), y, loss, weights=weights, intercept=intercept)

    def at(self, w: Vector) -> ScoredPoint:
        """Evaluate the risk at the coefficients in ``w``, whose values are computed afresh."""
        self.evaluations += 1
        beta = w[: self.n_parameters // 2]
        return self.with_coefficients(beta, self.map.scores(w))

    def with_coefficients(self, beta: Vector, values: Vector) -> ScoredPoint:
        """Return the point of a function whose values at the examples are known."""
        return self.with_scores(np.concatenate([beta, values]), values)
