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
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, sqrt
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import dot, sum_and_size_over
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem, State
from cutplane.data import Rows
from cutplane.lam_proof.curvature import CurvedStretch, is_curved
from cutplane.lam_proof.path import KinkPath, kinks_of
from cutplane.risks.scored import ScoredPoint, ScoredRisk

_ROUNDING = 64 * EPS
_DEGREE = 4
# From powers to Bernstein's polynomials of degree four.
_BERNSTEIN = np.array(
    [[comb(i, j) / comb(_DEGREE, j) for j in range(_DEGREE + 1)] for i in range(_DEGREE + 1)]
)
# How far an intercept is from the middle, as a multiple of the radius: what worked the last time is
# tried first, a little less if it worked, more if it did not.
_LESS, _MORE, _MOST_TRIALS = 0.97, 1.15, 200


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
        return np.sqrt(np.maximum(squares, 0.0) + _ROUNDING * (own + mean))

    def anchor(self, lam: float, state: State) -> Anchor:
        """Return what a run for some lam has found: its best point, and its best plane."""
        problem = state.problem
        state.bundle.minimize(problem, accuracy=state.accuracy)
        return self.anchor_at(lam, problem, state.best, state.bundle.aggregate())  # type: ignore[arg-type]

    def anchor_at(self, lam: float, problem: Problem, point: ScoredPoint, plane: Plane) -> Anchor:
        """Return a point and a plane; or the plane that touches the risk there, if it is better."""
        risk = self.risk
        touching = point.plane()
        slopes = None
        if risk.loss.smooth or problem.below(touching).lower > problem.below(plane).lower:
            plane, slopes = touching, point.slopes if risk.loss.smooth else None
        shift = dot(self.mean, point.w)
        pair = (point.w, plane.slope)
        return Anchor(
            lam,
            point.w,
            point.value,
            float(point.offset) + shift,
            plane.slope,
            plane.offset,
            slopes,
            np.array([point.scores - shift, self._products(risk.rows, plane.slope)]),
            np.array([self._products(self.rows, vector) for vector in pair]),
        )

    def _products(self, rows: Rows, vector: Vector) -> Vector:
        return rows.scores(vector) - dot(self.mean, vector)


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
        lower, upper = _ranges(powers, self._seen, bounds._reach_seen, radius)
        if bounds.risk.minimizes_intercept:
            least, most = self._offsets(powers, radius, begin, end)
            lower += least + bounds.risk.shift
            upper += most + bounds.risk.shift
        return lower, upper

    def _node(self, lam: float) -> _Node:
        if lam not in self._nodes:
            self._nodes[lam] = self._made(lam)
        return self._nodes[lam]

    def _made(self, lam: float) -> _Node:
        first, second = self._ends
        u, share, plane_share = 1.0 / lam, 0.0, 0.0
        if first.lam != second.lam:
            share = (u - 1.0 / first.lam) / (1.0 / second.lam - 1.0 / first.lam)
            plane_share = (lam - first.lam) / (second.lam - first.lam)
        return _Node(
            u,
            np.array([1.0 - share, share, 0.0, 0.0]),
            np.array([0.0, 0.0, 1.0 - plane_share, plane_share]),
            self._value(share) - self._height(plane_share),
        )

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
        rounding = _ROUNDING * (end.u * terms + float(np.abs(products).max()))
        return sqrt(max(float((_BERNSTEIN @ square).max()), 0.0) + rounding)

    def _offsets(
        self, powers: Matrix, radius: float, begin: _Node, end: _Node
    ) -> tuple[float, float]:
        """Return what the intercept for rows less the mean row is at least and at most."""
        bounds = self._bounds
        lower, upper = _ranges(powers, self._scores, bounds._reach, radius)
        offsets = np.array([anchor.offset for anchor in self._ends])
        guesses = [float(node.mixture[:2] @ offsets) for node in (begin, end)]
        most = self._beyond(lower, max(guesses), radius, 1.0)
        return self._beyond(upper, min(guesses), radius, -1.0), most

    def _beyond(self, scores: Vector, guess: float, radius: float, side: float) -> float:
        """Return an intercept that is above (below, for -1) all that are best for these scores."""
        bounds, risk = self._bounds, self._bounds.risk
        which = int(side > 0.0)
        unit = max(radius, _ROUNDING * (abs(guess) + 1.0))
        for trial in range(_MOST_TRIALS):
            offset = guess + side * bounds._pulls[which] * unit
            slopes = risk.pointwise.slopes(risk.y, scores + offset, risk.weights)
            total, size = sum_and_size_over(slopes)
            if side * total > _ROUNDING * size:
                if trial == 0:
                    bounds._pulls[which] *= _LESS
                return offset
            bounds._pulls[which] *= _MORE
        return side * np.inf


@njit(cache=True, nogil=True)
def score_ranges(
    powers: Matrix, products: Matrix, reach: Vector, radius: float, lower: Vector, upper: Vector
) -> None:
    """Write what each score is at least and at most on the way from one node to the other.

    ``powers`` are those of ``w - u a``, as mixtures of four vectors whose ``products`` with the
    rows are known; the center of the ball is half of it.
    """
    last = powers[0] + powers[1] + powers[2]
    for i in range(products.shape[1]):
        begin = end = bend = 0.0
        for k in range(4):
            product = 0.5 * products[k, i]
            begin += powers[0, k] * product
            end += last[k] * product
            bend += powers[2, k] * product
        # It is off the chord by at most a quarter of its highest coefficient.
        away = 0.25 * abs(bend) + radius * reach[i]
        lower[i] = min(begin, end) - away
        upper[i] = max(begin, end) + away


def _ranges(powers: Matrix, products: Matrix, reach: Vector, radius: float) -> Matrix:
    out = np.empty((2, len(reach)))
    score_ranges(powers, products, reach, radius, out[0], out[1])
    return out
