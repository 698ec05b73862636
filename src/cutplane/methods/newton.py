"""Newton's method on the smoothed loss, certified by the planes of its duals.

For few features, second derivatives cost less than the planes they replace. A loss with kinks has
none, so its kinks are rounded (`Loss.smoothed`) and the rounding is taken back step by step: this
is the method of multipliers with Newton steps inside (semismooth Newton, augmented Lagrangian).

With duals ``beta`` (a slope for each example) and a width ``mu``, an inner problem is

    min_w  r(w) + sum_i p_i * envelope_mu(z_i + mu * beta_i),      z = X w (+ an intercept),

solved by a few Newton steps with a line search on the scores. The slopes of the envelope are new
duals. For any duals ``(X'(p*beta), -sum p*l*(beta))`` is a plane below the risk; at the inner
optimum its bound lacks ``mu/2 * sum p_i (beta_i' - beta_i)^2`` at most. So ``beta`` takes the new
slopes, ``mu`` is halved, and a handful of inner problems reach any gap. The matrix of second
derivatives is made of the examples inside the rounded parts only: few, once ``mu`` is small.

Where examples abound, the first inner problems are solved on a sample of them: up to its
statistical error its solution is that of all examples, at a fraction of the cost.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from math import ceil, isinf

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.positive_solve import solve_positive
from cutplane.compute.products import dot
from cutplane.core.method import Method
from cutplane.core.policies.cuts import ConvexCuts
from cutplane.core.policies.memory import KeepAll
from cutplane.core.policies.no_stabilizer import NoStabilizer
from cutplane.core.policies.queries import Found
from cutplane.core.protocols import Plane, Quadratic, QuadraticRegularizer
from cutplane.core.state import Candidate, State, Status, candidate_below
from cutplane.methods.minimize import minimize
from cutplane.regularizers import L2
from cutplane.risks import LinearRisk
from cutplane.risks.linear import LinearPoint

# An inner problem is solved when its gradient costs the bound no more than the rounding does. Then
# the width shrinks by a constant factor. Chosen from ten settings of these two and of `_ROOM`, by
# steps on a9a, ijcnn1 and CASP: 0.3 in place of 1 takes up to 4 steps more of 13 to 26, and 0.4 in
# place of a half is no better. covtype had no part in that.
_SOLVED = 1.0
_SHRINK = 0.5

# An inner problem that takes more steps than this is too sharp for its duals: it is rounded anew.
_MOST_STEPS = 15
_WIDEN = 8.0

# A step is taken as it is if it leaves at most this share of the slope along it; else its length
# is searched.
_STRAIGHT = 0.1

# The first width covers the examples as they are at the start, with room to spare. From a start
# that is no longer zero, such as the solution of a sample, less will do.
_ROOM = 2.0
_NEARER = 1.0 / 8.0

# How many examples a sample holds: enough for d coefficients, and little beside them all.
_SAMPLE_PER_FEATURE = 1000
_LEAST_PER_FEATURE = 100
_SAMPLE_SHARE = 1.0 / 8.0
_SAMPLE_TOL = 1e-2
_SAMPLE_STEPS = 30


class SmoothedNewton:
    """Newton's method on a linear risk whose kinks are rounded, ever less.

    Parameters
    ----------
    risk : LinearRisk
        With a loss that knows its curvatures and its conjugate.
    regularizer : L2
        The strongly convex part.
    point : LinearPoint
        Where to start.
    width : float
        How widely kinks are rounded at first; zero for a loss that has none.
    duals : ndarray, optional
        A slope for each example to begin with; zero by default.
    """

    def __init__(
        self,
        risk: LinearRisk,
        regularizer: L2,
        point: LinearPoint,
        width: float,
        duals: Vector | None = None,
    ) -> None:
        self._risk = risk
        self._regularizer = regularizer
        self.point = point
        self._duals: Vector = np.zeros(len(risk.y)) if duals is None else duals
        self._rounded_to(width)

    def carried_over(self, risk: LinearRisk, regularizer: L2, point: LinearPoint) -> SmoothedNewton:
        """Return the same for another regularizer, whose duals are not far from these."""
        duals = _per_weight(self._slopes, risk.weights)
        objective = regularizer.value(point.w) + point.value
        gap = objective - candidate_below(self.plane, regularizer).lower
        width = max(self.width / _SHRINK, _width_for(gap, duals, risk.weights))
        return SmoothedNewton(risk, regularizer, point, width if self.width else 0.0, duals)

    def __deepcopy__(self, memo: object) -> SmoothedNewton:
        """Share everything: vectors are replaced, never changed."""
        return copy(self)

    def step(self) -> list[Plane]:
        """Take a Newton step; return the planes that were met."""
        planes = []
        if self.width > 0.0 and self._inner_problem_is_solved():
            self._duals = _per_weight(self._slopes, self._risk.weights)
            planes.append(self._rounded_to(_SHRINK * self.width))
        elif self.width > 0.0 and self._steps >= _MOST_STEPS:
            planes.append(self._rounded_to(_WIDEN * self.width))
        self._steps += 1
        self.point = self._moved()
        self.plane = self._measure()
        return [*planes, self.plane]

    def _rounded_to(self, width: float) -> Plane:
        """Begin another inner problem; return its first plane."""
        self.width, self._steps = width, 0
        self.plane = self._measure()
        return self.plane

    def _measure(self) -> Plane:
        """Compute the slopes of the smoothed loss at the point; return their plane."""
        risk = self._risk
        self._loss = risk.loss.smoothed(self.width)
        scores = self.width * self._duals
        scores += self.point.scores
        if risk.intercept:
            scores += self.point.offset
            scores += self._loss.minimize_offset(risk.y, scores, risk.weights).offset
            self._slopes = self._loss.balanced_slopes(risk.y, scores, 0.0, risk.weights)
        else:
            self._slopes = self._loss.slopes(risk.y, scores, risk.weights)
        self._scores = scores
        conjugate = risk.loss.conjugate(risk.y, self._slopes, risk.weights)
        assert conjugate is not None
        return Plane(risk.rows.pullback(self._slopes), -conjugate)

    def _inner_problem_is_solved(self) -> bool:
        objective = self._regularizer.value(self.point.w) + self.point.value
        gap = objective - candidate_below(self.plane, self._regularizer).lower
        gradient = self._gradient()
        by_gradient = 0.5 * float(gradient @ (gradient / self._regularizer.curvature()))
        return by_gradient <= _SOLVED * (gap - by_gradient)

    def _gradient(self) -> Vector:
        return self._regularizer.gradient(self.point.w) + self.plane.slope

    def _moved(self) -> LinearPoint:
        """Return the point after a Newton step."""
        risk, point = self._risk, self.point
        risk.evaluations += 1
        direction, of_intercept = self._direction()
        speed = risk.rows.scores(direction)
        speed += of_intercept
        along = self._regularizer.along(point.w, point.w + direction)
        length = self._length(speed, along)
        speed -= of_intercept
        speed *= length
        speed += point.scores
        guess = point.offset + length * of_intercept
        return risk.with_scores(point.w + length * direction, speed, guess=guess)

    def _direction(self) -> tuple[Vector, float]:
        """Return Newton's direction for the coefficients, and for the intercept."""
        risk = self._risk
        curvatures = self._loss.curvatures(risk.y, self._scores, risk.weights)
        assert curvatures is not None
        hessian = risk.rows.weighted_gram(curvatures)
        hessian[np.diag_indices_from(hessian)] += self._regularizer.curvature()
        total = float(curvatures.sum()) if risk.intercept else 0.0
        if total == 0.0:
            return -solve_positive(hessian, self._gradient()), 0.0
        # The intercept follows the coefficients: its slope is zero, and must stay so.
        mixed = risk.rows.pullback(curvatures)
        hessian -= np.outer(mixed, mixed / total)
        direction = -solve_positive(hessian, self._gradient())
        return direction, -float(mixed @ direction) / total

    def _length(self, speed: Vector, regularizer: Quadratic) -> float:
        """Return how far to go along a direction of scores."""
        risk = self._risk
        before = dot(self._slopes, speed) + regularizer.slope
        ahead = self._loss.slopes(risk.y, self._scores + speed, risk.weights)
        after = dot(ahead, speed) + regularizer.slope + regularizer.curvature
        if abs(after) <= _STRAIGHT * abs(before):
            return 1.0
        return self._loss.minimize_along(risk.y, self._scores, speed, risk.weights, regularizer)


def _per_weight(slopes: Vector, weights: Vector) -> Vector:
    return np.divide(slopes, weights, out=np.zeros_like(slopes), where=weights > 0.0)


@dataclass(frozen=True, slots=True)
class NewtonSteps:
    """Query by Newton steps on the smoothed loss.

    Parameters
    ----------
    sample : bool
        Whether to begin with a sample if there are many examples.
    """

    sample: bool = True

    def __call__(
        self,
        risk: LinearRisk,
        regularizer: QuadraticRegularizer,
        state: State,
        candidate: Candidate,
    ) -> Found:
        """Take a step; return the point where it ends, and the planes met on the way."""
        if state.memo is None:
            if (obstacle := obstacle_to_newton(risk, regularizer)) is not None:
                raise ValueError(f"Newton's method does not work here: {obstacle}")
            assert isinstance(regularizer, L2)
            begun = self._begin(risk, regularizer, state)
            if isinstance(begun, LinearPoint):  # no time for more
                return Found([begun], [])
            state.memo = begun
        newton: SmoothedNewton = state.memo
        planes = newton.step()
        return Found([newton.point], [], planes)

    def _begin(
        self, risk: LinearRisk, regularizer: L2, state: State
    ) -> SmoothedNewton | LinearPoint:
        """Return where to begin: only a point if Ctrl-C or the time limit ends the run there."""
        start = state.best
        assert isinstance(start, LinearPoint)
        width = _first_width(risk, start)
        if start.w.any():
            width *= _NEARER
        elif self.sample and (sample := _sample(risk)) is not None:
            solved = minimize(
                sample,
                regularizer,
                method=newton(sample=False),
                tol=_SAMPLE_TOL,
                max_iter=_SAMPLE_STEPS,
                time_limit=None if isinf(state.seconds_left) else max(state.seconds_left, 1e-9),
            )
            # A pass over the sample is a share of one over all examples.
            share = len(sample.y) / len(risk.y)
            risk.evaluations += ceil(share * sample.evaluations)
            start = risk.at(solved.w)
            if solved.state.stopped or solved.status is Status.TIME_LIMIT:
                return start
            width *= _NEARER
        return SmoothedNewton(risk, regularizer, start, width)


def _first_width(risk: LinearRisk, point: LinearPoint) -> float:
    """Return a width at which the mean example lies inside the rounded part of its kink."""
    if risk.loss.smoothed(1.0) is risk.loss:
        return 0.0
    return _width_for(point.value, _per_weight(point.slopes, risk.weights), risk.weights)


def _width_for(gap: float, duals: Vector, weights: Vector) -> float:
    """Return a width that makes room for a gap, if duals change as much as they are large."""
    steepness = float(weights @ duals**2)
    return _ROOM * gap / steepness if steepness > 0.0 else 1.0


def _sample(risk: LinearRisk) -> LinearRisk | None:
    """Return the risk on some of the examples, or None where that would not help."""
    m, d = risk.rows.shape
    size = min(int(_SAMPLE_SHARE * m), _SAMPLE_PER_FEATURE * d)
    if size < _LEAST_PER_FEATURE * d:
        return None
    chosen = np.sort(np.random.default_rng(0).choice(m, size, replace=False))
    try:
        return LinearRisk(
            risk.rows.part(chosen),
            risk.y[chosen],
            risk.loss,
            weights=risk.weights[chosen],
            intercept=risk.intercept,
        )
    except ValueError:  # no example with a weight, or no target that the loss needs
        return None


def newton(*, sample: bool = True) -> Method:
    """Newton's method on the smoothed loss, with the planes of its duals in a bundle.

    The method for many examples with few features. It takes any loss that knows its curvatures.

    Parameters
    ----------
    sample : bool
        Whether to begin with a sample if there are many examples.
    """
    return Method(
        stabilizer=NoStabilizer(),
        memory=KeepAll(),
        query=NewtonSteps(sample=sample),
        cuts=ConvexCuts(),
    )


def obstacle_to_newton(risk: object, regularizer: object) -> str | None:
    """Return why Newton's method cannot be used, or None if it can."""
    if not isinstance(risk, LinearRisk):
        return "it needs a linear risk"
    if not risk.rows.second_derivatives:
        return f"{risk.rows.layout} has no second derivatives"
    probe = np.zeros(1)
    if risk.loss.curvatures(probe + 1.0, probe, probe + 1.0) is None:
        return f"the loss {risk.loss!r} has no curvatures"
    if risk.loss.conjugate(probe + 1.0, probe, probe + 1.0) is None:
        return f"the loss {risk.loss!r} has no conjugate"
    if not isinstance(regularizer, L2):
        return "it needs the regularizer L2"
    return None
