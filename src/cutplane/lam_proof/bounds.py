"""Where the best model for any lam lies, from the fits for two lams around it.

``w*`` minimizes ``J(w) = lam/2 |w|^2 + R(w)``. Take any point ``w`` and any plane ``(a, b)`` below
the risk. ``J`` is strongly convex, so ``J(w) >= J(w*) + lam/2 |w - w*|^2``, and in ``J(w*)`` the
risk is at least ``a.w* + b``. Together, with ``u = 1 / lam``:

    |w* - (w - u a)/2|^2  <=  |w - u a|^2 / 4  +  u (R(w) - b)

This ball lies inside the one of radius ``sqrt(2 gap / lam)`` around ``w``. With the plane that
touches the risk at ``w`` it is the ball of monotonicity: from ``(a + lam w*).(w - w*) >= 0``, of
radius ``|w + u a| / 2``. It holds for every lam, and lam is in ``u`` alone: a fit for one lam
bounds the scores ``x.w*`` for all others (after Shibagaki et al., NIPS 2015).

Between two fits both are interpolated, ``w`` along ``1/lam`` and ``a`` along ``lam``: so they move
where the solution of a loss made of pieces does, between two changes of its active examples. The
value of the risk at an interpolated point takes its scores, the height of an interpolated plane
its slopes: no pass over the data. For lams from one such node to the next all parts are again
interpolated linearly in ``u``, and the squared radius is a polynomial of degree four, which is
never above its largest Bernstein coefficient.

An intercept that is minimized out has no place in the ball. But its derivative
``sum_i l_i'(z_i + c)`` rises with each score, so the best intercept falls: at the lowest scores
that the ball allows to the training examples, it is no smaller than at any others. An intercept at
which the derivative is positive for these scores is above the best one, whatever the scores are.

These balls know only the curvature of the regularizer, and are wide where the loss is curved. The
second derivative ``h`` of the logistic, the exponential and Poisson's loss never vanishes, and its
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
from math import comb, sqrt
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import dot, product_over, sum_and_size_over, sum_over
from cutplane.compute.threads import one_blas_thread
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem
from cutplane.data import Rows
from cutplane.data.rows import Entries
from cutplane.lam_proof.path import ROUNDING, KinkPath, kinks_of
from cutplane.risks.scored import ScoredPoint, ScoredRisk

# From powers to Bernstein's polynomials of degree four.
_BERNSTEIN = np.array([[comb(i, j) / comb(4, j) for j in range(5)] for i in range(5)])


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a fit leaves to bound others with: a point and a plane, and their products with rows.

    Scores are those of rows less the mean row, if there is an intercept; ``offset`` is the best
    intercept for these, and ``slopes`` make the plane, where its height depends on them.
    """

    lam: float
    w: Vector
    value: float
    offset: float
    slope: Vector
    height: float
    slopes: Vector | None
    scores: Matrix  # of the training rows: products with w and with the slope
    seen: Matrix  # the same of the validation rows


class _Node(NamedTuple):
    """An interpolated point and plane: mixtures of those of two anchors."""

    u: float
    mixture: Vector  # (4,): of the first and second w
    plane: Vector  # (4,): of the first and second slope
    excess: float  # risk less height of the plane


class LamBounds:
    """Bounds on the scores of validation rows for all lams, from fits for some.

    Parameters
    ----------
    risk : ScoredRisk
        The training part: a convex loss that is a sum over examples, of one score each.
    rows : Rows
        The validation part.
    signs_only : bool
        Whether wide ranges do for scores whose sign is certain.
    """

    def __init__(self, risk: ScoredRisk, rows: Rows, *, signs_only: bool = False) -> None:
        self.risk = risk
        self.rows = rows
        self.mean: Vector = np.zeros(risk.n_parameters)
        if risk.minimizes_intercept:
            self.mean = risk.rows.pullback(risk.weights)
        self._reach = self._norms(risk.rows)
        self._reach_seen = self._norms(rows)
        self._pulls = [float(risk.weights @ self._reach)] * 2
        # What the last stretch has found of each training example serves the next one.
        self._likely = self._reach if is_curved(risk) else None
        self._is_new = True
        self.path: KinkPath | None = None
        if (kinks := kinks_of(risk)) is not None and rows.entries() is not None:
            reaches = self._reach, self._reach_seen
            self.path = KinkPath(risk, kinks, rows, self.mean, *reaches, signs_only=signs_only)

    @property
    def is_followed(self) -> bool:
        """Whether the best models for all lams are known but for rounding."""
        return self.path is not None and self.path.is_alive

    def stop_at(self, time: float | None) -> None:
        """Follow no path after that time of the clock."""
        if self.path is not None:
            self.path.deadline = time

    def forget_above(self, lam: float) -> None:
        """Drop what is as long as the sample of all larger lams."""
        if self.path is not None:
            self.path.forget_above(lam)

    def curved(self, first: Anchor, second: Anchor) -> CurvedStretch | None:
        """Return bounds by the curvature of the loss, if it has a steady one."""
        if self._likely is None:
            return None
        for _ in range(1 + self._is_new):
            found = CurvedStretch(self.risk, self.rows, first, second, self._likely)
            self._likely = found.likely
        self._is_new = False
        return found

    def _norms(self, rows: Rows) -> Vector:
        """Return the distance of each row from the mean row, rounded up."""
        own, mean = rows.squared_norms(), dot(self.mean, self.mean)
        squares = own - 2.0 * rows.scores(self.mean) + mean
        return np.sqrt(np.maximum(squares, 0.0) + ROUNDING * (own + mean))

    def anchor(self, lam: float, problem: Problem, point: ScoredPoint, plane: Plane) -> Anchor:
        """Return a point and a plane; or the plane that touches the risk there, if it is better."""
        risk = self.risk
        touching = point.plane()
        slopes = None
        if risk.loss.smooth or problem.below(touching).lower > problem.below(plane).lower:
            plane, slopes = touching, point.slopes if risk.loss.smooth else None
        shift, rise = dot(self.mean, point.w), dot(self.mean, plane.slope)
        return Anchor(
            lam,
            point.w,
            point.value,
            float(point.offset) + shift,
            plane.slope,
            plane.offset,
            slopes,
            np.array([point.scores - shift, risk.rows.scores(plane.slope) - rise]),
            np.array([self.rows.scores(point.w) - shift, self.rows.scores(plane.slope) - rise]),
        )


class Stretch:
    """The lams from one fit to the next.

    Parameters
    ----------
    bounds : LamBounds
    first, second : Anchor
        The fits at its ends; the same one twice for its lam alone.
    """

    def __init__(self, bounds: LamBounds, first: Anchor, second: Anchor) -> None:
        self._bounds = bounds
        self._ends = first, second
        vectors = (first.w, second.w, first.slope, second.slope)
        self._gram: Matrix = np.array([[dot(a, b) for a in vectors] for b in vectors])
        self._scores = np.concatenate((first.scores, second.scores))[[0, 2, 1, 3]]
        self._seen = np.concatenate((first.seen, second.seen))[[0, 2, 1, 3]]
        self._nodes: dict[float, _Node] = {}
        self._curved = bounds.curved(first, second)
        if bounds.path is not None and first.lam > second.lam:
            bounds.path.cover(first.lam, second.lam, first.w)

    def scores(self, high: float, low: float) -> tuple[Vector, Vector]:
        """Return what the scores of the validation rows are at least and at most.

        For all lams from ``high`` to ``low``, which lie between the ends, intercept included.
        """
        for better in (self._curved, self._bounds.path):
            known = None if better is None else better.scores(high, low)
            if known is not None:
                return known
        begin, end = self._node(high), self._node(low)
        du, plane = end.u - begin.u, end.plane - begin.plane
        # w - u a, as a polynomial of the way from one node to the other.
        powers = np.array(
            [
                begin.mixture - begin.u * begin.plane,
                end.mixture - begin.mixture - begin.u * plane - du * begin.plane,
                -du * plane,
            ]
        )
        radius = self._radius(begin, end, powers)
        bounds = self._bounds
        lower, upper = score_ranges(powers, self._seen, bounds._reach_seen, radius)
        if bounds.risk.minimizes_intercept:
            least, most = self._offsets(powers, radius, begin, end)
            lower += least + bounds.risk.shift
            upper += most + bounds.risk.shift
        return lower, upper

    def _node(self, lam: float) -> _Node:
        if lam in self._nodes:
            return self._nodes[lam]
        first, second = self._ends
        u, share, plane_share = 1.0 / lam, 0.0, 0.0
        if first.lam != second.lam:
            share = (u - 1.0 / first.lam) / (1.0 / second.lam - 1.0 / first.lam)
            plane_share = (lam - first.lam) / (second.lam - first.lam)
        self._nodes[lam] = node = _Node(
            u,
            np.array([1.0 - share, share, 0.0, 0.0]),
            np.array([0.0, 0.0, 1.0 - plane_share, plane_share]),
            self._value(share) - self._height(plane_share),
        )
        return node

    def _value(self, share: float) -> float:
        """Return what the risk is at most at a mixture of both points: its intercept may be bad."""
        first, second = self._ends
        if share in (0.0, 1.0):
            return second.value if share else first.value
        risk = self._bounds.risk
        scores = (1.0 - share) * self._scores[0] + share * self._scores[1]
        scores += (1.0 - share) * first.offset + share * second.offset
        return float(risk.loss.value(risk.y, scores, risk.weights))

    def _height(self, share: float) -> float:
        """Return the height of a mixture of both planes at zero."""
        first, second = self._ends
        heights = (1.0 - share) * first.height + share * second.height
        if first.slopes is None or second.slopes is None or share in (0.0, 1.0):
            return heights
        # A conjugate is convex: with mixed slopes the plane is higher than the mixed plane.
        risk = self._bounds.risk
        slopes = (1.0 - share) * first.slopes + share * second.slopes
        conjugate = risk.pointwise.conjugate(risk.y, slopes, risk.weights)
        return heights if conjugate is None else max(heights, -float(conjugate))

    def _radius(self, begin: _Node, end: _Node, powers: Matrix) -> float:
        products = powers @ self._gram @ powers.T
        du, de = end.u - begin.u, end.excess - begin.excess
        square = np.array(
            [
                products[0, 0] / 4.0 + begin.u * begin.excess,
                products[0, 1] / 2.0 + begin.u * de + du * begin.excess,
                (products[1, 1] + 2.0 * products[0, 2]) / 4.0 + du * de,
                products[1, 2] / 2.0,
                products[2, 2] / 4.0,
            ]
        )
        terms = sum(abs(anchor.value) + abs(anchor.height) for anchor in self._ends)
        rounding = ROUNDING * (end.u * terms + float(np.abs(products).max()))
        return sqrt(max(float((_BERNSTEIN @ square).max()), 0.0) + rounding)

    def _offsets(
        self, powers: Matrix, radius: float, begin: _Node, end: _Node
    ) -> tuple[float, float]:
        """Return what the intercept for rows less the mean row is at least and at most."""
        bounds = self._bounds
        lower, upper = score_ranges(powers, self._scores, bounds._reach, radius)
        offsets = np.array([anchor.offset for anchor in self._ends])
        guesses = [float(node.mixture[:2] @ offsets) for node in (begin, end)]
        most = self._beyond(lower, max(guesses), radius, 1.0)
        return self._beyond(upper, min(guesses), radius, -1.0), most

    def _beyond(self, scores: Vector, guess: float, radius: float, side: float) -> float:
        """Return an intercept that is above (below, for -1) all that are best for these scores."""
        bounds, risk = self._bounds, self._bounds.risk
        which = int(side > 0.0)
        unit = max(radius, ROUNDING * (abs(guess) + 1.0))
        # How far it is from the middle, as a multiple of the radius: what worked the last time is
        # tried first, a little less if it worked, more if it did not.
        for trial in range(200):
            offset = guess + side * bounds._pulls[which] * unit
            slopes = risk.pointwise.slopes(risk.y, scores + offset, risk.weights)
            total, size = sum_and_size_over(slopes)
            if side * total > ROUNDING * size:
                if trial == 0:
                    bounds._pulls[which] *= 0.97
                return offset
            bounds._pulls[which] *= 1.15
        return side * np.inf


@njit(cache=True, nogil=True)
def score_ranges(powers: Matrix, products: Matrix, reach: Vector, radius: float) -> Matrix:
    """Return what each score is at least and at most on the way from one node to the other.

    ``powers`` are those of ``w - u a``, as mixtures of four vectors whose ``products`` with the
    rows are known; the center of the ball is half of it.
    """
    last = powers[0] + powers[1] + powers[2]
    out = np.empty((2, len(reach)))
    for i in range(len(reach)):
        begin = end = bend = 0.0
        for k in range(4):
            product = 0.5 * products[k, i]
            begin += powers[0, k] * product
            end += last[k] * product
            bend += powers[2, k] * product
        # It is off the chord by at most a quarter of its highest coefficient.
        away = 0.25 * abs(bend) + radius * reach[i]
        out[0, i] = min(begin, end) - away
        out[1, i] = max(begin, end) + away
    return out


def is_curved(risk: ScoredRisk) -> bool:
    """Return whether bounds by curvature are known, and cost less than what they save."""
    return bool(
        risk.pointwise.steady_curvature
        and risk.rows.second_derivatives
        and risk.n_parameters <= 512  # beyond that, a matrix costs more than the fits it saves
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
        inflation = 1.0 + ROUNDING * size * condition
        if not inflation <= 1.1:  # the matrix is nearly singular
            return None
        return cls(factor, inverse, inflation, ROUNDING * size * sqrt(condition))

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
            for begin in range(0, d, 16):
                some = rows.class_scores(np.ascontiguousarray(factor[begin : begin + 16]))
                squares += np.einsum("ij,ij->i", some, some)
        squares += rows.scores(linear) + constant
        size = float(np.abs(self.inverse).max())
        squares = np.maximum(squares, 0.0) + ROUNDING * size
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
        self, risk: ScoredRisk, rows: Rows, first: Anchor, second: Anchor, likely: Vector
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
        # A half is the mean of the boxes of all examples, by their curvature.
        boxes = likely * (0.5 * sum_over(curvatures) / total)
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
        # Products of what gradients are made of: two vectors and two gradients.
        d = risk.n_parameters
        parts = np.zeros((4, len(metric.inverse)))
        for k, (anchor, scores) in enumerate(zip(self._ends, self._scores, strict=True)):
            # Not the slopes of the anchor's plane, which may have been moved to add up to zero.
            slopes = risk.pointwise.slopes(risk.y, scores, risk.weights)
            parts[k, :d] = anchor.w
            parts[2 + k, :d] = risk.rows.pullback(slopes) + anchor.lam * anchor.w
            if risk.minimizes_intercept:
                parts[2 + k, d] = sum_over(slopes)
        steps = np.einsum("ki,ij->kj", parts, metric.inverse)
        self._roots = metric.divided(parts)
        self._gram = np.array([[dot(a, b) for a in self._roots] for b in self._roots])
        self._moves = np.array([rows.scores(step[:d]) for step in steps])
        if risk.minimizes_intercept:
            self._moves += steps[:, d:]
        sizes = (np.abs(each).sum() for a in self._ends for each in (a.lam * a.w, a.slope))
        spread = float(np.sqrt(np.trace(metric.inverse)))
        self._rounding = ROUNDING * sum(map(float, sizes)) * spread
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
        calm = change <= 2.0  # others are bounded one by one
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
