"""The risk of a function in the span of the examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Plane
from cutplane.maps.kernels.span import KernelMap
from cutplane.maps.rows import ScoreMap
from cutplane.risks.exact_kernel import ExactKernel, exact_kernel
from cutplane.risks.groups import Groups
from cutplane.risks.scored import ScoredPoint, ScoredRisk

_ROUNDING = float(np.finfo(np.float64).eps)


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
    good_groups = 1
    worst_case: bool = False
    _heaviest: float
    _at_zero: tuple[float, float]

    def _usual_map(self) -> ScoreMap:
        return KernelMap(self.rows)

    def at(self, w: Vector) -> ScoredPoint:
        """Evaluate the risk at the coefficients in ``w``, whose values are computed afresh."""
        self.evaluations += 1
        beta = w[: self.n_parameters // 2]
        return self.with_coefficients(beta, self.map.scores(w))

    def groups(self, n_groups: int) -> Groups:
        """Refuse: the plane of a group is a function as well, so that each would take a pass."""
        raise ValueError(
            f"planes of groups are not possible with a kernel: use groups=1, not {n_groups}"
        )

    def with_scores(self, w: Vector, scores: Vector, **known: Any) -> ScoredPoint:
        """Return the point at ``w``, whose scores are known."""
        weight = float(np.abs(w[: len(w) // 2]) @ self._lengths)
        self._heaviest = max(self._heaviest, weight)
        return super().with_scores(w, scores, **known)

    def with_coefficients(self, beta: Vector, values: Vector, **known: Any) -> ScoredPoint:
        """Return the point of a function whose values at the examples are known."""
        return self.with_scores(np.concatenate([beta, values]), values, **known)

    def _begin(self) -> None:
        super()._begin()
        # An exact risk, a copy of one that is rounded, keeps its allowance.
        self.worst_case = self.worst_case or self.rounded
        self._heaviest = 0.0  # the sum of the lengths of a function's terms, at any point so far
        zeros = np.zeros(len(self.y))
        self._at_zero = (
            abs(float(self.loss.value(self.y, zeros, self.weights))),
            float(np.abs(self.loss.slopes(self.y, zeros, self.weights)).sum()),
        )

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of: losses, and entries of the matrix.

        Scores may be small sums of large products of entries and coefficients, as with features
        that are not scaled.
        """
        value, slope = self._at_zero
        return value + slope * float(self._lengths.max()) * self._heaviest

    def length_error(self, slope: Vector) -> float:
        """Return by how much rounding may have changed the squared length of a plane's slope.

        It is ``q'Kq``, sums of products of duals and entries, none of which is larger than the
        lengths of its examples, multiplied. Where the kernel is computed from the examples again,
        because its matrix is rounded, this is the worst case: in whatever order ``n`` terms are
        taken, their sum is off by ``n`` roundings of the sum of their sizes (Higham 2002, section
        3.1), and so is the sum of these sums.

        A matrix in float64 may be one of features that are not scaled, of which the worst case
        would leave no proof. There errors of different entries of ``K q`` are taken to be
        independent of each other, so that squares of them add up.
        """
        duals = 2.0 * slope[len(slope) // 2 :]
        lengths = np.abs(duals) * self._lengths
        total = float(lengths.sum())
        if self.worst_case:
            return _ROUNDING * (np.count_nonzero(duals) + 2.0) * total * total
        return _ROUNDING * total * float(np.sqrt(dot(lengths, lengths)))

    @property
    def _lengths(self) -> Vector:
        """The length of each example in the space of the kernel."""
        rows: Any = self.rows
        return np.asarray(np.sqrt(np.maximum(rows.diagonal, 0.0)))

    @property
    def rounded(self) -> bool:
        """Whether the kernel is kept with less than the precision of predictions."""
        rows: Any = self.rows
        return isinstance(self.map.rows, type(rows)) and rows.source is not None

    def exact_at(self, point: Any, plane: Plane, before: ExactKernel | None) -> ExactKernel:
        """Return an exact risk for a run that has come to a point of this one, and has a plane.

        ``before`` is the exact risk that the run was on last, if that was not the end.
        """
        return exact_kernel(self, point, plane, before)
