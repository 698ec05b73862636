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

With many features the matrix would take more time and memory than the data, and so would its
factors. Then conjugate gradients take its place, which ask for its products only.

Where examples abound, the first inner problems are solved on a sample of them: up to its
statistical error its solution is that of all examples, at a fraction of the cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import ceil, inf, isinf
from typing import Annotated, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import placed, placing
from cutplane.compute.pace import affords
from cutplane.compute.products import conjugate_gradients, product_over, solve_positive, sum_over
from cutplane.core.certificate import Status
from cutplane.core.protocols import Plane
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.losses import Loss
from cutplane.regularizers import L2
from cutplane.risks.composite import SampleRisk
from cutplane.risks.scored import ScoredPoint, ScoredRisk
from cutplane.solvers.minimize import minimize
from cutplane.solvers.needs import ANY_L2, CONJUGATE, CURVATURES, SECOND_DERIVATIVES


@dataclass(frozen=True, slots=True)
class Rounding:
    """The constants of the outer loop: how kinks are rounded, and the rounding is taken back.

    Chosen by steps on a9a, ijcnn1 and CASP, but for covtype, which had no part in that:
    docs/decisions/2026-11-18-constants-of-solvers.md.

    Attributes
    ----------
    solved : float
        An inner problem is solved when all that it lacks costs the bound no more than so many times
        what the rounding does.
    shrink : float
        The width is multiplied by this then,
    few_steps : float
        if it took no more steps than this. Else it was sharp enough.
    most_steps, widen : float
        One that takes more steps is too sharp for its duals: it is rounded again, so much wider.
    room : float
        The first width makes room for so many times the gap.
    nearer : float
        From a start that is no longer zero, such as the solution of a sample, less will do: this
        share of the first width.
    straight : float
        A step is taken as it is if it leaves at most this share of the slope along it; else its
        length is searched.
    """

    solved: float = 1.0
    shrink: float = 0.5
    few_steps: float = inf
    most_steps: float = 15
    widen: float = 8.0
    room: float = 2.0
    nearer: float = 1.0 / 8.0
    straight: float = 0.1

    def width_for(self, gap: float, duals: Vector, weights: Vector) -> float:
        """Return a width that makes room for a gap, if duals change as much as they are large."""
        steepness = product_over(weights, duals**2)
        return self.room * gap / steepness if steepness > 0.0 else 1.0


# Of each inner model: rows of one score, by factors or products, and by coordinates; classes; and
# kernels, where what a Newton step promises takes the place of the gradient.
ROUNDING = {
    "rows": Rounding(),
    "classes": Rounding(few_steps=5, room=0.5),
    "kernels": Rounding(solved=1e-5, most_steps=inf),
}


class RoundedState(Protocol):
    """What the outer loop must know of a state: how widely kinks are rounded, for how many steps.

    The width is zero for a loss that has no kinks.
    """

    width: float
    steps: int


Rounded = TypeVar("Rounded", bound=RoundedState)


class RoundedSteps(ABC, Generic[Rounded]):
    """The outer loop of Newton's method on losses with kinks; inner models are its subclasses.

    States change in place: two of them would be vectors as long as the sample too many.
    """

    rounding: ClassVar[Rounding] = ROUNDING["rows"]

    @abstractmethod
    def is_solved(self, state: Rounded) -> bool:
        """Say whether all else costs the bound no more than the rounding does."""

    @abstractmethod
    def center(self, state: Rounded) -> None:
        """Let kinks be rounded around the duals that the inner problem has found."""

    @abstractmethod
    def measure(self, state: Rounded) -> list[Plane]:
        """Compute the slopes of the rounded loss where the state is; return their plane, if any."""

    @abstractmethod
    def move(self, state: Rounded) -> list[Plane]:
        """Take a Newton step on the rounded loss; return the planes where it ends."""

    def step(self, state: Rounded) -> list[Plane]:
        """Take a step, of another inner problem if this one is over; return the planes met."""
        planes = self.round_again(state)
        state.steps += 1
        return [*planes, *self.move(state)]

    def round_again(self, state: Rounded) -> list[Plane]:
        """Begin another inner problem if this one is solved, or too sharp for its duals."""
        rounding = self.rounding
        if state.width == 0.0:
            return []
        if self.is_solved(state):
            self.center(state)
            if state.steps <= rounding.few_steps:
                state.width *= rounding.shrink
        elif state.steps >= rounding.most_steps:
            state.width *= rounding.widen
        else:
            return []
        state.steps = 0
        return self.measure(state)


# How many examples a sample holds: enough for d coefficients, and little beside them all.
_SAMPLE_PER_FEATURE = 1000
_LEAST_PER_FEATURE = 100
_SAMPLE_SHARE = 1.0 / 8.0
_SAMPLE_TOL = 1e-2
_SAMPLE_STEPS = 30

# Costs are counts of entries that are read and multiplied twice, as in an iteration of a bundle
# method: what a multiplication in the matrix of second derivatives counts (dense rows, sparse rows)
# and one in its factors. (Measured on two cores in 2026, in nanoseconds: an entry 1, the
# multiplications 0.1, 1 and 0.3.)
_DENSE, _SPARSE, _FACTOR = 0.1, 1.0, 0.3
_SECONDS = 1e-9
# The share of examples inside the rounded parts of a kink, on average over a run.
_NEAR_A_KINK = 0.25
# Conjugate gradients take the place of a matrix that costs more than so many products with it. What
# a product costs besides its entries, and how much of the gradient the first direction of an inner
# problem may leave; each further one leaves half of that.
_MOST_PRODUCTS = 250
_EMPTY_PRODUCT = 30_000
_LEFT = 0.1


@dataclass(slots=True)
class NewtonState:
    """Where Newton's method is on the loss whose kinks are rounded.

    It changes in place: two of them would be vectors as long as the sample too many.

    Attributes
    ----------
    point : ScoredPoint
        The last iterate.
    width : float
        How widely kinks are rounded; zero for a loss that has none.
    duals : ndarray
        A slope for each example, from the inner problem before this one.
    steps : int
        How many were taken in this inner problem.
    scores, slopes : ndarray
        Those of the smoothed loss at the point.
    plane : Plane, optional
        That of these slopes.
    """

    point: ScoredPoint
    width: float
    duals: Annotated[Vector, "f8[n]"]
    steps: int = 0
    scores: Annotated[Vector, "f8[n]"] = field(default_factory=lambda: np.empty(0))
    slopes: Annotated[Vector, "f8[n]"] = field(default_factory=lambda: np.empty(0))
    plane: Plane = field(default_factory=lambda: Plane(np.empty(0), 0.0))


class SmoothedNewton(RoundedSteps[NewtonState]):
    """Newton's method for one problem; all that changes is in the state.

    Parameters
    ----------
    problem : Problem
    by_products : bool
        Whether directions come from conjugate gradients, in place of a matrix.
    """

    def __init__(self, problem: Problem, *, by_products: bool = False) -> None:
        self._problem, self.by_products = problem, by_products
        # Of these types, as the needs of the method say.
        self.risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        self.loss: Loss = self.risk.loss  # type: ignore[assignment]
        self._regularizer: L2 = problem.regularizer  # type: ignore[assignment]

    def initial(self, point: ScoredPoint, width: float, duals: Vector | None = None) -> NewtonState:
        """Return the state at a point; with duals of zero by default."""
        duals = np.zeros(len(point.scores)) if duals is None else duals
        state = NewtonState(point, width, duals)
        self.measure(state)
        return state

    def center(self, state: NewtonState) -> None:
        """Round kinks around the slopes of the point."""
        state.duals = per_weight(state.slopes, self.risk.weights)

    def measure(self, state: NewtonState) -> list[Plane]:
        """Compute the slopes of the smoothed loss at the point; return their plane."""
        risk = self.risk
        loss = self.loss.smoothed(state.width)
        scores = state.width * state.duals
        scores += state.point.scores
        if risk.intercept:
            scores += state.point.offset
            scores += loss.minimize_offset(risk.y, scores, risk.weights).offset
            state.slopes = loss.zero_sum_slopes(risk.y, scores, 0.0, risk.weights)
        else:
            state.slopes = loss.slopes(risk.y, scores, risk.weights)
        state.scores = scores
        offset = self.loss.tangent_offset(risk.y, scores, state.slopes, risk.weights)
        state.plane = Plane(risk.rows.pullback(state.slopes), offset)
        return [state.plane]

    def is_solved(self, state: NewtonState) -> bool:
        """Say whether the gradient costs the bound no more than the rounding does."""
        gap = self._problem.objective(state.point) - self._problem.below(state.plane).lower
        gradient = self._gradient(state)
        by_gradient = 0.5 * float(gradient @ (gradient / self._regularizer.curvature()))
        return by_gradient <= self.rounding.solved * (gap - by_gradient)

    def _gradient(self, state: NewtonState) -> Vector:
        return self._regularizer.gradient(state.point.w) + state.plane.slope

    def move(self, state: NewtonState) -> list[Plane]:
        """Take a Newton step, and search its length on the scores; return the plane there."""
        risk, point = self.risk, state.point
        risk.evaluations += 1
        loss = self.loss.smoothed(state.width)
        direction, of_intercept = self._direction(state, loss)
        speed = risk.rows.scores(direction)
        speed += of_intercept
        along = self._regularizer.along(point.w, point.w + direction)
        before = product_over(state.slopes, speed) + along.slope
        ahead = product_over(loss.slopes(risk.y, state.scores + speed, risk.weights), speed)
        after = ahead + along.slope + along.curvature
        length = 1.0
        if abs(after) > self.rounding.straight * abs(before):
            length = loss.minimize_along(risk.y, state.scores, speed, risk.weights, along)
        speed -= of_intercept
        speed *= length
        speed += point.scores
        guess = point.offset + length * of_intercept
        state.point = risk.with_scores(point.w + length * direction, speed, guess=guess)
        return self.measure(state)

    def _direction(self, state: NewtonState, loss: Loss) -> tuple[Vector, float]:
        """Return Newton's direction for the coefficients, and for the intercept."""
        risk = self.risk
        curvatures = loss.curvatures(risk.y, state.scores, risk.weights)
        assert curvatures is not None
        total = sum_over(curvatures) if risk.intercept else 0.0
        # The intercept follows the coefficients: its slope is zero, and must stay so.
        mixed = risk.rows.pullback(curvatures) if total > 0.0 else None
        if self.by_products:
            direction = self._by_conjugate_gradients(state, curvatures, mixed, total)
        else:
            hessian = risk.rows.weighted_gram(curvatures)
            hessian[np.diag_indices_from(hessian)] += self._regularizer.curvature()
            if mixed is not None:
                hessian -= np.outer(mixed, mixed / total)
            direction = -solve_positive(hessian, self._gradient(state))
        return direction, 0.0 if mixed is None else -float(mixed @ direction) / total

    def _by_conjugate_gradients(
        self, state: NewtonState, curvatures: Vector, mixed: Vector | None, total: float
    ) -> Vector:
        """Return Newton's direction without the matrix of second derivatives."""
        rows, of_regularizer = self.risk.rows, self._regularizer.curvature()

        def times(direction: Vector) -> Vector:
            speeds = rows.scores(direction)
            speeds *= curvatures
            product: Vector = rows.pullback(speeds) + of_regularizer * direction
            if mixed is not None:
                product -= mixed * (float(mixed @ direction) / total)
            return product

        return conjugate_gradients(
            times,
            -self._gradient(state),
            roughly_divided=lambda vector: vector / of_regularizer,
            left=_LEFT * 0.5 ** (state.steps - 1),
            most=_MOST_PRODUCTS,
        )


def per_weight(slopes: Vector, weights: Vector) -> Vector:
    """Return slopes of examples of weight one; zero for those that have none."""
    return np.divide(slopes, weights, out=np.zeros_like(slopes), where=weights > 0.0)


@dataclass(frozen=True, slots=True)
class NewtonSteps(Solver[NewtonState | None]):
    """Newton steps on the smoothed loss.

    Parameters
    ----------
    sample : bool
        Whether to begin with a sample if there are many examples.
    """

    needs = (
        SECOND_DERIVATIVES,
        CURVATURES,
        CONJUGATE,
        ANY_L2,
    )
    sample: bool = True
    name: str = "newton"

    def step(self, run: Run, own: NewtonState | None) -> Step[NewtonState | None]:
        """Take a step; return the point where it ends, and the planes met on the way."""
        steps = SmoothedNewton(run.problem)
        cost = cost_of_step(steps.risk)
        # A matrix of second derivatives may cost too much, or take too long. Where rows lie on
        # workers, steps are taken by matrices all the same.
        dear = cost > _MOST_PRODUCTS * (steps.risk.rows.n_entries + _EMPTY_PRODUCT)
        steps.by_products = placed() is None and (dear or not affords(_SECONDS * cost))
        if own is None:
            point, width, in_time = self._begin(run, steps)
            if not in_time:
                return Step([point], None)
            own = steps.initial(point, width)
        planes = steps.step(own)
        return Step([own.point], own, planes)

    def carried_over(self, own: NewtonState | None, run: Run) -> NewtonState | None:
        """Return where to begin with another regularizer, whose duals are not far from these."""
        problem, point, risk = run.problem, run.best, run.problem.risk
        if own is None or not isinstance(risk, ScoredRisk):
            return None
        duals = per_weight(own.slopes, risk.weights)
        gap = problem.objective(point) - problem.below(own.plane).lower
        steps = SmoothedNewton(problem)
        width = max(
            own.width / steps.rounding.shrink, steps.rounding.width_for(gap, duals, risk.weights)
        )
        return steps.initial(point, width if own.width else 0.0, duals)  # type: ignore[arg-type]

    def _begin(self, run: Run, steps: SmoothedNewton) -> tuple[ScoredPoint, float, bool]:
        """Return where to begin, how widely to round, and whether there is time to go on."""
        risk, start = steps.risk, run.best
        assert isinstance(start, ScoredPoint)
        width = 0.0
        if steps.loss.smoothed(1.0) is not steps.loss:
            # At this width the mean example lies inside the rounded part of its kink.
            duals = per_weight(start.slopes, risk.weights)
            width = steps.rounding.width_for(start.value, duals, risk.weights)
        if start.w.any():
            # Near the solution of classes that can be separated the risk all but vanishes, and a
            # width that follows from it would be as small. The gap is what has to be closed.
            if 0.0 < start.value < run.gap < np.inf:
                width *= run.gap / start.value
            return start, steps.rounding.nearer * width, True
        if not self.sample or (sample := _sample(risk)) is None:
            return start, width, True
        # Several workers have the same sample, and must come to the same end.
        timeless = isinf(run.seconds_left) or placed() is not None
        with placing(None):
            solved = minimize(
                sample,
                run.problem.regularizer,
                method=newton(sample=False),
                tol=_SAMPLE_TOL,
                max_iter=_SAMPLE_STEPS,
                time_limit=None if timeless else max(run.seconds_left, 1e-9),
            )
        # A pass over the sample is a share of one over all examples.
        share = sample.n_examples / risk.n_examples
        risk.evaluations += ceil(share * sample.evaluations)
        in_time = not (solved.state.stopped or solved.status is Status.TIME_LIMIT)
        return risk.at(solved.w), steps.rounding.nearer * width, in_time


def cost_of_step(risk: SampleRisk) -> float:
    """Return what a step with a matrix of second derivatives costs, in entries that are read."""
    rows, loss = risk.rows, risk.loss
    assert isinstance(loss, Loss)
    m, d = rows.shape
    length = rows.n_entries / m
    share = 1.0 if loss.smoothed(1.0) is loss else _NEAR_A_KINK
    products = 0.5 * share * m * length * length
    return float((_SPARSE if rows.sparse else _DENSE) * products + _FACTOR * d**3 / 3.0)


def _sample(risk: ScoredRisk) -> ScoredRisk | None:
    """Return the risk on some of the examples, or None where that would not help."""
    m, d = risk.n_examples, risk.rows.shape[1]  # a worker has its own rows only
    size = min(int(_SAMPLE_SHARE * m), _SAMPLE_PER_FEATURE * d)
    if size < _LEAST_PER_FEATURE * d:
        return None
    chosen = np.sort(np.random.default_rng(0).choice(m, size, replace=False))
    try:
        return risk.part(chosen)
    except ValueError:  # no example with a weight, or no target that the loss needs
        return None


def newton(*, sample: bool = True) -> NewtonSteps:
    """Newton's method on the smoothed loss, certified by the planes of its duals.

    The method for many examples with few features. It takes any loss that knows its curvatures.

    Parameters
    ----------
    sample : bool
        Whether to begin with a sample if there are many examples.
    """
    return NewtonSteps(sample=sample)
