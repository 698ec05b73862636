"""The risk of a function in the span of the examples."""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.maps.kernels.span import KernelMap
from cutplane.maps.rows import ScoreMap
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

    def _usual_map(self) -> ScoreMap:
        return KernelMap(self.rows)

    def at(self, w: Vector) -> ScoredPoint:
        """Evaluate the risk at the coefficients in ``w``, whose values are computed afresh."""
        self.evaluations += 1
        beta = w[: self.n_parameters // 2]
        return self.with_coefficients(beta, self.map.scores(w))

    def with_coefficients(self, beta: Vector, values: Vector) -> ScoredPoint:
        """Return the point of a function whose values at the examples are known."""
        return self.with_scores(np.concatenate([beta, values]), values)
