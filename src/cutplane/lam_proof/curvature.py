"""Narrower bounds for lams between two fits, where the loss is curved.

The balls of `cutplane.lam_proof.bounds` know only the curvature of the regularizer. But the second
derivative ``h`` of the logistic, the exponential and Poisson's loss never vanishes, and its
logarithm changes by no more than the score does: these losses have a ``steady_curvature``.

Let ``v`` be a point, intercept included, ``z`` its scores and ``g`` the gradient of the objective
there. Around it is the box of all points whose training scores are within ``box_i`` of ``z_i``. In
the box the matrix of second derivatives is at least

    M = sum_i weight_i h(z_i) exp(-box_i) x_i x_i'  +  lam I

and if ``t_i |g| <= box_i`` for all examples, with ``t_i = sqrt(x_i' M^-1 x_i)`` and the norm of
``g`` that of ``M^-1``, then the minimum is in the box. For if it were not, take the point ``v + d``
where the way to it leaves the box: there the objective does not rise, so ``g.d + d'Md <= 0``, which
is the ball ``|d + M^-1 g / 2| <= |g| / 2`` in the norm of ``M``, and that lies in the box. So the
minimum is in this ball, and the score of a row is known up to ``t |g| / 2``.

Between two fits ``v`` is interpolated. The gradient of the risk is then interpolated too, but for
slopes that are off by at most ``share (1 - share) / 2 (z_2 - z_1)^2`` times the largest curvature
on the way, whose norm is bounded in the same way. One matrix serves all lams between two fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack, solve_triangular

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import dot, product_over, sum_over
from cutplane.data import Rows
from cutplane.data.rows import Entries
from cutplane.models.gram.functions import one_blas_thread
from cutplane.risks.scored import ScoredRisk

if TYPE_CHECKING:
    from cutplane.lam_proof.bounds import Anchor

_ROUNDING = 64 * EPS
_MOST_COLUMNS = 512  # beyond that, a matrix costs more than the fits it saves
_MEAN_BOX = 0.5  # of the scores of all examples, in the mean by their curvature
_CALM = 2.0  # examples whose curvature may change by more than exp of this are bounded one by one
_MOST_INFLATED = 1.1  # by rounding, where the matrix is nearly singular
_AT_ONCE = 16


def is_curved(risk: ScoredRisk) -> bool:
    """Return whether bounds by curvature are known, and cost less than what they save."""
    return bool(
        risk.pointwise.steady_curvature
        and risk.rows.second_derivatives
        and risk.n_parameters <= _MOST_COLUMNS
    )


@dataclass(frozen=True, slots=True)
class _Metric:
    """The inverse of ``M``, and the norms that it gives to rows."""

    factor: Matrix  # lower triangular: ``M`` is its product with its transpose
    inverse: Matrix
    inflation: float  # what rounding may have taken off norms
    unit: float  # by how much of its length rounding may move a vector divided by the factor

    @classmethod
    def of(cls, risk: ScoredRisk, curvatures: Vector, lam: float) -> _Metric | None:
        """Return it for given curvatures, or None if it cannot be told from a singular one."""
        d = risk.n_parameters
        size = d + risk.minimizes_intercept
        matrix = np.zeros((size, size))
        matrix[:d, :d] = risk.rows.weighted_gram(curvatures)
        matrix[np.arange(d), np.arange(d)] += lam
        if risk.minimizes_intercept:
            matrix[d, :d] = matrix[:d, d] = risk.rows.pullback(curvatures)
            matrix[d, d] = sum_over(curvatures)
        with one_blas_thread():  # the same bits, however many threads there are
            factor, failed = lapack.dpotrf(matrix, lower=1)
            if failed:
                return None
            inverse = lapack.dpotri(factor, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        condition = float(np.trace(matrix) * np.trace(inverse))
        inflation = 1.0 + _ROUNDING * size * condition
        if not inflation <= _MOST_INFLATED:
            return None
        return cls(factor, inverse, inflation, _ROUNDING * size * sqrt(condition))

    def divided(self, vectors: Matrix) -> Matrix:
        """Return vectors whose inner products are those of ``M^-1``; each is a row."""
        with one_blas_thread():
            solved = solve_triangular(self.factor, vectors.T, lower=True, check_finite=False)
        return np.ascontiguousarray(solved.T)

    def norms(self, rows: Rows) -> Vector:
        """Return the norm of each row, with a one for the intercept if there is any."""
        d = rows.shape[1]
        extra = self.inverse[d:, :]
        constant = float(extra[0, d]) if len(extra) else 0.0
        linear = 2.0 * extra[0, :d] if len(extra) else np.zeros(d)
        squares = np.empty(rows.shape[0])
        entries = rows.entries()
        if entries is not None:
            squared_forms(entries, np.ascontiguousarray(self.inverse[:d, :d]), squares)
        else:
            squares[:] = 0.0
            with one_blas_thread():
                factor = np.linalg.cholesky(self.inverse[:d, :d]).T
            for begin in range(0, d, _AT_ONCE):
                some = rows.class_scores(np.ascontiguousarray(factor[begin : begin + _AT_ONCE]))
                squares += np.einsum("ij,ij->i", some, some)
        squares += rows.scores(linear) + constant
        size = float(np.abs(self.inverse).max())
        squares = np.maximum(squares, 0.0) + _ROUNDING * size
        return np.asarray(np.sqrt(squares) * self.inflation)


class CurvedStretch:
    """The lams from one fit to the next, bounded by the curvature of the loss.

    Parameters
    ----------
    risk : ScoredRisk
        The training part.
    rows : Rows
        The validation part.
    first, second : Anchor
        The fits at its ends, the larger lam first.
    likely : ndarray
        For each training example a number to which its box should be proportional.
    """

    def __init__(
        self,
        risk: ScoredRisk,
        rows: Rows,
        first: Anchor,
        second: Anchor,
        likely: Vector,
    ) -> None:
        self._ends = first, second
        self.likely = likely
        self._metric: _Metric | None = None
        self._scores = [anchor.scores[0] + anchor.offset for anchor in self._ends]
        before, after = self._scores
        way = np.abs(after - before)
        curvatures = np.sqrt(
            risk.pointwise.known_curvatures(risk.y, before, risk.weights)
            * risk.pointwise.known_curvatures(risk.y, after, risk.weights)
        )
        total = product_over(curvatures, likely)
        if not 0.0 < total < np.inf:
            return
        boxes = likely * (_MEAN_BOX * sum_over(curvatures) / total)
        with np.errstate(over="ignore", under="ignore"):
            metric = _Metric.of(risk, curvatures * np.exp(-0.5 * way - boxes), second.lam)
        if metric is None:
            return
        norms = metric.norms(risk.rows)
        self.likely = norms
        used = risk.weights > 0.0
        self._most = float((boxes[used] / norms[used]).min())
        self._bend = _norm_of_bend(curvatures, way, boxes, norms)
        self._metric = metric
        self._norms = metric.norms(rows)
        self._prepare(risk, rows)

    def _prepare(self, risk: ScoredRisk, rows: Rows) -> None:
        """Compute products of what gradients are made of: two vectors and two gradients."""
        assert self._metric is not None
        d = risk.n_parameters
        parts = np.zeros((4, len(self._metric.inverse)))
        for k, (anchor, scores) in enumerate(zip(self._ends, self._scores, strict=True)):
            # Not the slopes of the anchor's plane, which may have been moved to add up to zero.
            slopes = risk.pointwise.slopes(risk.y, scores, risk.weights)
            parts[k, :d] = anchor.w
            parts[2 + k, :d] = risk.rows.pullback(slopes) + anchor.lam * anchor.w
            if risk.minimizes_intercept:
                parts[2 + k, d] = sum_over(slopes)
        steps = np.einsum("ki,ij->kj", parts, self._metric.inverse)
        self._roots = self._metric.divided(parts)
        self._gram = np.array([[dot(a, b) for a in self._roots] for b in self._roots])
        self._moves = np.array([rows.scores(step[:d]) for step in steps])
        if risk.minimizes_intercept:
            self._moves += steps[:, d:]
        sizes = (np.abs(each).sum() for a in self._ends for each in (a.lam * a.w, a.slope))
        spread = float(np.sqrt(np.trace(self._metric.inverse)))
        self._rounding = _ROUNDING * sum(map(float, sizes)) * spread
        offsets = [anchor.offset + risk.shift * risk.minimizes_intercept for anchor in self._ends]
        self._seen = np.array([a.seen[0] + c for a, c in zip(self._ends, offsets, strict=True)])

    def scores(self, high: float, low: float) -> tuple[Vector, Vector] | None:
        """Return what scores are at least and at most from ``high`` to ``low``; None if unknown."""
        if self._metric is None:
            return None
        share = self._share(0.5 * (high + low))
        # For a fixed point the gradient is linear in lam, so that its norm is largest at an end.
        mixtures = [self._mixture(share, lam) for lam in (high, low)]
        length = max(map(self._length, mixtures)) + self._rounding
        bend = 0.5 * share * (1.0 - share) * self._bend
        if not length + bend <= self._most:
            return None
        away = (0.5 * length + bend) * self._norms
        center = (1.0 - share) * self._seen[0] + share * self._seen[1]
        moves = [-0.5 * np.einsum("k,ki->i", each, self._moves) for each in mixtures]
        return center + np.minimum(*moves) - away, center + np.maximum(*moves) + away

    def _length(self, mixture: Vector) -> float:
        """Return what the norm of a mixture of the four vectors is at most.

        They nearly cancel where the gradient vanishes. So they are mixed before their products are
        taken: of the sum of products nothing but rounding would be left, perhaps below zero.
        """
        assert self._metric is not None
        mixed = np.einsum("k,ki->i", mixture, self._roots)
        size = float(np.abs(mixture) @ np.sqrt(np.diagonal(self._gram)))
        return sqrt(dot(mixed, mixed)) * self._metric.inflation + self._metric.unit * size

    def _mixture(self, share: float, lam: float) -> Vector:
        """Return the gradient at the interpolated point, as a mixture of the four vectors."""
        first, second = self._ends
        return np.array(
            [(1.0 - share) * (lam - first.lam), share * (lam - second.lam), 1.0 - share, share]
        )

    def _share(self, lam: float) -> float:
        """Return where between both points the gradient is shortest."""
        begin, end = self._mixture(0.0, lam), self._mixture(1.0, lam)
        way = end - begin
        square = float(way @ self._gram @ way)
        if square <= 0.0:
            return 0.0
        return min(max(-float(begin @ self._gram @ way) / square, 0.0), 1.0)


def _norm_of_bend(curvatures: Vector, way: Vector, boxes: Vector, norms: Vector) -> float:
    """Return what the gradient of the bent part of slopes measures at most, but for its factor.

    With ``M >= X' diag(c) X`` the norm of ``X' e`` is at most ``sqrt(sum e^2 / c)``, and always at
    most the sum of ``|e_i| t_i``.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        change = 1.5 * way + boxes
        calm = change <= _CALM
        bent = curvatures * way**2
        squares = np.where(calm, bent * way**2 * np.exp(change), 0.0)
        alone = np.where(calm, 0.0, bent * np.exp(0.5 * way) * norms)
        bend = float(np.sqrt(sum_over(squares)) + sum_over(alone)) * (1.0 + 1e-9)
    return bend if np.isfinite(bend) else np.inf


@njit(cache=True, nogil=True)
def squared_forms(csr: Entries, matrix: Matrix, out: Vector) -> None:
    """Write ``x' A x`` for each row in CSR and a symmetric matrix."""
    values, indices, starts = csr
    for i in range(len(out)):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            column = matrix[indices[k]]
            part = 0.5 * values[k] * column[indices[k]]
            for j in range(starts[i], k):
                part += values[j] * column[indices[j]]
            total += 2.0 * values[k] * part
        out[i] = total
