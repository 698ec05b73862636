"""Coordinate descent inside Newton steps, for sparse and bounded coefficients.

The regularizer is a sum over coordinates, such as ``l1 |w|_1 + l2/2 |w|^2`` within bounds. A step
minimizes the quadratic model of the risk plus the regularizer as it is (proximal Newton), by
coordinate descent, and goes as far toward that minimum as the objective falls. Coordinates that
are zero and stay there cost nothing but the pass over the data that tells so: each step works on
those that are not zero, and those along which the objective falls the most.

The slopes ``q`` of the examples at each point make a plane. Where the regularizer has no squares
its conjugate is zero on a box and infinite outside, and the plane may be too steep. Then slopes
``s q`` with ``s < 1`` are in the box, and make a plane too: ``(s X'q, -sum p l*(s q / p))``.

A loss with kinks is rounded (`Loss.smoothed`), with duals that move the rounded parts to where the
optimum is (the method of multipliers): see `cutplane.solvers.newton`, which does the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot, product_over
from cutplane.core.needs import Need
from cutplane.core.protocols import Plane
from cutplane.core.solver import Solver
from cutplane.core.solver import Step as SolverStep
from cutplane.core.state import Problem, Run
from cutplane.losses import Loss
from cutplane.losses.score_loss import AtBestOffset
from cutplane.regularizers.coordinates import Coordinates
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.coordinates.columns import (
    QuadraticModel,
    Step,
    columns_of,
    minimum_by_columns,
    minimum_by_gram,
    prefers_gram,
)
from cutplane.solvers.needs import BY_COORDINATE, CONJUGATE, CURVATURES, SECOND_DERIVATIVES

# Coordinate descent ends when no coordinate moves by more than this share of the steepest descent
# at its start; far from the optimum, where a slope is larger than this many times `l1`, by so many
# times that share. There the next model is soon a better one.
_SHARE = 0.1
_FAR, _ROUGHLY = 1.0, 2.0
# Besides the coordinates that are not zero, at most so many are chosen, and so many times as many
# as those.
_LEAST_CHOSEN = 200
_GROWTH = 2.0
# A step is taken if the objective falls by this share of what its slope promises; else half of it.
_FALL = 0.01
_MOST_HALVES = 40
# Near the optimum the objective changes by less than it is rounded, while the bound still rises.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)
# Where a model was wrong, the next one is damped: curvatures are moved toward the largest one, by
# this share at first, then by so many times as much, until models are right again. Examples that
# are far on the right side bend so little that a model would send them anywhere. A model was wrong
# if the step had to be shortened, or gained less than the first share of what the model promised;
# right if it gained the second.
_FIRST_DAMPING = 1e-3
_MORE_DAMPING, _LESS_DAMPING = 10.0, 0.1
_WRONG, _RIGHT = 0.1, 0.5
# An inner problem of a loss with kinks is solved when its gap is no larger than the rounding's part
# of the whole one: these are the constants of `methods.newton`, for the same reasons.
_SOLVED = 1.0
_SHRINK = 0.5
_MOST_STEPS = 15
_WIDEN = 8.0
_ROOM = 2.0


@dataclass(slots=True)
class DescentState:
    """Where coordinate descent is.

    Attributes
    ----------
    point : ScoredPoint
        The last iterate.
    at : AtBestOffset
        The smoothed loss there, at its best intercept.
    width : float
        How widely kinks are rounded; zero for a loss that has none.
    duals : ndarray
        A slope for each example, from the inner problem before this one; empty without kinks.
    damping : float
        How far curvatures are moved toward the largest one, from 0 to 1.
    steps : int
        How many were taken in this inner problem.
    share : float
        How accurately models are minimized: see `_SHARE`.
    """

    point: ScoredPoint
    at: AtBestOffset
    width: float = 0.0
    duals: Vector = field(default_factory=lambda: np.empty(0))
    damping: float = 0.0
    steps: int = 0
    share: float = _SHARE


class CoordinateDescent:
    """Proximal Newton steps for one problem; all that changes is in the state."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        n = self._risk.n_parameters
        self._form: Coordinates = problem.regularizer.by_coordinate(n)  # type: ignore[attr-defined]

    def begun(self, point: ScoredPoint) -> DescentState:
        """Return the state at a point."""
        risk = self._risk
        if risk.loss.smoothed(1.0) is risk.loss:
            return DescentState(point, self._at(point.scores, 0.0, np.empty(0), None))
        duals = np.zeros(len(risk.y))
        width = _width_for(point.value, per_weight(point.slopes, risk.weights), risk.weights)
        return DescentState(point, self._at(point.scores, width, duals, None), width, duals)

    def step(self, state: DescentState, enough: float) -> list[Plane]:
        """Take a step; return the planes where it began.

        If these prove a gap that is small ``enough``, there is no step.
        """
        slopes, slope, plane = self._slopes(state)
        planes = [plane]
        if self._problem.objective(state.point) - self._problem.below(plane).lower <= enough:
            return planes
        if state.width > 0.0 and (width := self._next_width(state, slopes, plane)) is not None:
            if width < state.width:
                state.duals = per_weight(slopes, self._risk.weights)
            state.width, state.steps = width, 0
            state.at = self._at(state.point.scores, state.width, state.duals, None)
            slopes, slope, plane = self._slopes(state)
            planes.append(plane)
        model = self._model(state, slopes, slope)
        self._go(state, model, self._minimum(model, state))
        return planes

    def _slopes(self, state: DescentState) -> tuple[Vector, Vector, Plane]:
        """Return the slopes of the examples at the point, that of the risk, and their plane."""
        risk, loss = self._risk, self._loss(state.width)
        moved = self._moved(state.point.scores, state.width, state.duals)
        slopes = loss.slopes_at(risk.y, moved, risk.weights, state.at)
        slope = risk.rows.pullback(slopes)
        risk.evaluations += 1
        return slopes, slope, self._plane(slopes, slope)

    def _model(self, state: DescentState, slopes: Vector, slope: Vector) -> QuadraticModel:
        risk = self._risk
        moved = self._moved(state.point.scores, state.width, state.duals)
        if state.at.offset:
            moved = moved + state.at.offset
        curvatures = self._loss(state.width).curvatures(risk.y, moved, risk.weights)
        assert curvatures is not None
        if state.damping > 0.0:
            largest = float(per_weight(curvatures, risk.weights).max())
            curvatures = curvatures + state.damping * (largest * risk.weights - curvatures)
        return QuadraticModel(
            state.point.w, slope, slopes, curvatures, risk.minimizes_intercept, self._form
        )

    def _next_width(self, state: DescentState, slopes: Vector, plane: Plane) -> float | None:
        """Return how widely to round from now on; None if this inner problem is to go on.

        Both the inner problem and the whole one have a dual value for these slopes.
        """
        point, weights = state.point, self._risk.weights
        lower = self._problem.below(plane).lower
        gap = self._problem.objective(point) - lower
        duals = per_weight(slopes, weights)
        rounding = product_over(weights, (duals - state.duals) ** 2)
        rounding -= product_over(weights, state.duals**2)
        inner = self._problem.regularizer.value(point.w) + state.at.value
        inner -= lower - 0.5 * state.width * rounding
        if inner <= _SOLVED * (gap - inner):
            return _SHRINK * state.width
        return _WIDEN * state.width if state.steps >= _MOST_STEPS else None

    def _minimum(self, model: QuadraticModel, state: DescentState) -> Step:
        rows = self._risk.rows
        descents = self._form.descents(model.w, model.slope)
        steepest = float(descents.max(initial=0.0))
        enough = state.share * steepest
        if prefers_gram(rows):
            return minimum_by_gram(rows, model, 0.1 * enough)
        chosen = model.w != 0.0
        n_more = max(_LEAST_CHOSEN, int(_GROWTH * np.count_nonzero(chosen)))
        steep = np.where(chosen, 0.0, descents)
        if np.count_nonzero(steep) > n_more:
            steep[steep < np.partition(steep, -n_more)[-n_more]] = 0.0
        numbers = np.flatnonzero(chosen | (steep > 0.0))
        # Neighbors are often alike (words, bins of one feature), and one after the other they make
        # coordinate descent slow: up to three times as many passes on 20 Newsgroups.
        numbers = np.random.default_rng(state.steps).permutation(numbers)
        if steepest > _FAR * self._form.l1:
            enough *= _ROUGHLY
        columns, places = columns_of(rows, numbers)
        return minimum_by_columns(columns, numbers, places, model, enough)

    def _go(self, state: DescentState, model: QuadraticModel, step: Step) -> float:
        """Move the state's point toward a step's end; return by how much the objective fell."""
        risk, regularizer, point = self._risk, self._problem.regularizer, state.point
        direction = step.w - point.w
        here = regularizer.value(point.w)
        promised = dot(model.slope, direction) + regularizer.value(step.w) - here
        before = here + state.at.value
        rounding = _ROUNDING * abs(before)
        state.steps += 1
        # Near the optimum a promise, too, is less than what it is rounded by.
        if not promised < rounding or not direction.any():
            state.share *= 0.1
            return 0.0
        length = 1.0
        for _ in range(_MOST_HALVES):
            w = step.w if length == 1.0 else point.w + length * direction
            scores = point.scores + length * step.speed
            guess = None if state.at.offset is None else state.at.offset + length * step.intercept
            with np.errstate(over="ignore", invalid="ignore"):
                at = self._at(scores, state.width, state.duals, guess)
            gained = before - regularizer.value(w) - at.value
            if gained >= -_FALL * length * min(promised, 0.0) - rounding:
                break
            length *= 0.5
        else:
            state.share *= 0.1
            self._damp(state, wrong=True, right=False)
            return 0.0
        change = step.speed + step.intercept
        promised += 0.5 * dot(model.curvatures * change, change)
        ratio = gained / max(-promised, rounding)
        self._damp(state, wrong=length < 0.5 or ratio < _WRONG, right=ratio > _RIGHT)
        state.at = at
        known = {"at": at} if state.width == 0.0 else {"guess": at.offset}
        state.point = risk.with_scores(w, scores, **known)
        return gained

    def _damp(self, state: DescentState, *, wrong: bool, right: bool) -> None:
        """Damp the next step more if the model of this one was wrong, less if it was right."""
        if wrong:
            state.damping = min(max(_MORE_DAMPING * state.damping, _FIRST_DAMPING), 1.0)
        elif right:
            state.damping *= _LESS_DAMPING
            if state.damping < _FIRST_DAMPING:
                state.damping = 0.0

    def _plane(self, slopes: Vector, slope: Vector) -> Plane:
        """Return the plane of slopes, scaled until the regularizer's conjugate is finite."""
        risk, scale = self._risk, self._form.scale_for(-slope)
        if scale < 1.0:
            slopes, slope = scale * slopes, scale * slope
        return Plane(slope, -risk.loss.conjugate(risk.y, slopes, risk.weights))

    def _loss(self, width: float) -> Loss:
        loss: Loss = self._risk.loss.smoothed(width) if width else self._risk.loss
        return loss

    def _moved(self, scores: Vector, width: float, duals: Vector) -> Vector:
        return scores + width * duals if width else scores

    def _at(self, scores: Vector, width: float, duals: Vector, guess: float | None) -> AtBestOffset:
        """Return the smoothed loss, at its best intercept if there is one."""
        risk, loss = self._risk, self._loss(width)
        moved = self._moved(scores, width, duals)
        if risk.minimizes_intercept:
            return loss.at_best_offset(risk.y, moved, risk.weights, guess)
        return AtBestOffset(None, loss.value(risk.y, moved, risk.weights))


def per_weight(slopes: Vector, weights: Vector) -> Vector:
    """Return slopes of examples of weight one; zero for those that have none."""
    return np.divide(slopes, weights, out=np.zeros_like(slopes), where=weights > 0.0)


def _width_for(gap: float, duals: Vector, weights: Vector) -> float:
    steepness = product_over(weights, duals**2)
    return _ROOM * gap / steepness if steepness > 0.0 else 1.0


@dataclass(frozen=True, slots=True)
class CoordinateSteps(Solver[DescentState | None]):
    """Newton steps that coordinate descent finds."""

    needs = (
        Need("risk", "map.plain", "a linear risk with one score an example"),
        SECOND_DERIVATIVES,
        CURVATURES,
        CONJUGATE,
        BY_COORDINATE,
    )
    planes: int | None = 2
    name: str = "coordinate-descent"

    def step(self, run: Run, own: DescentState | None) -> SolverStep[DescentState | None]:
        """Take a step; return the point where it ends, and the plane where it began."""
        steps = CoordinateDescent(run.problem)
        if own is None:
            own = steps.begun(run.best)  # type: ignore[arg-type]
        # A gap that is small enough but for rounding must not end all steps.
        enough = run.enough if run.stalled_for == 0 else 0.0
        planes = steps.step(own, enough)
        return SolverStep([own.point], own, planes)

    def combined(self, run: Run) -> None:
        """Return nothing: the newest plane says as much as all of them, and has all the weight."""
        newest = np.zeros(run.bundle.n_planes)
        newest[-1] = 1.0
        run.bundle.set_weights(newest)


def coordinate_descent() -> CoordinateSteps:
    """Coordinate descent inside Newton steps, certified by the planes of its duals.

    The method for regularizers that make coefficients sparse or bound them.
    """
    return CoordinateSteps()
