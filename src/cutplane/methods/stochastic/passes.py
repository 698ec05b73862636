"""Passes of stochastic steps over the examples of a risk, and the planes that they leave.

Each example's slopes are taken at the iterate of their own moment. Any slopes with a finite
conjugate give a plane below the risk, so those of a pass do, all together:

    a = sum_i p_i q_i x_i,    b = -sum_i p_i l*(q_i)

There are two ways to take a pass. Compiled steps are for one score an example, on dense and sparse
rows, with losses that they know. For any other sum over examples, such as the risks of structured
models, the risk of each batch is evaluated by itself, and the planes of the batches are added up.
A batch of all examples is the risk itself.

The minimizer is in a ball: from ``R(0) >= R(w*) + a.(0 - w*)`` and ``a = -lam w*`` it follows that
``lam |w*|^2 <= R(0) - R(w*)``. For the mean hinge loss that is the paper's ``1/sqrt(lam)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.needs import offers
from cutplane.core.problem import Problem
from cutplane.core.protocols import Plane, Point
from cutplane.losses.score_loss import LOGISTIC, MARGIN_PIECES, RESIDUAL_PIECES
from cutplane.methods.coordinate_kernels import shuffle
from cutplane.methods.dual_ascent import balanced
from cutplane.methods.stochastic import kernels
from cutplane.methods.stochastic.settings import Rule, Sampling, Settings, Walk, first_walk

_NO_INDICES = np.empty(0, dtype=np.int32)
_NO_STARTS = np.zeros(1, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Game:
    """The constants of the repeated game that a problem is.

    Attributes
    ----------
    lam : float
        Curvature of each round.
    radius : float
        Of a ball around zero that holds the minimizer, and of the ball of iterates unless they are
        not projected.
    ball : float
        The latter; infinite if they are not.
    steepness : float
        No subgradient is longer; NaN if that is not known beforehand.
    epsilon, delta : float
        Of Algorithm 3; ``delta`` for each phase.
    """

    lam: float
    radius: float
    ball: float
    steepness: float
    epsilon: float
    delta: float


def game_of(settings: Settings, lam: float, drop: float, steepest: float) -> Game:
    """Return the constants, from ``R(0)`` less a lower bound, and the steepest slope in a round."""
    radius = math.sqrt(max(drop, 0.0) / lam) if settings.radius is None else settings.radius
    steepness = lam * radius + steepest if math.isfinite(steepest) else math.nan
    if settings.epsilon > 0.0 and not math.isfinite(steepness):
        raise ValueError(
            "epsilon must be 0 here: how many steps it takes is known only for losses whose "
            "slopes are bounded, such as cp.Hinge() and cp.Logistic(), on a linear model"
        )
    # So many phases there are at most: the radius doubles in square, from 1 or less up to twice
    # that of the ball and a little more. With the hinge loss and lam <= 1 it is 3 - log2(lam).
    phases = 3.0 + max(2.0 * math.log2(radius), 0.0) if radius > 0.0 else 3.0
    return Game(
        lam=lam,
        radius=radius,
        ball=radius if settings.projected else math.inf,
        steepness=steepness,
        epsilon=settings.epsilon,
        delta=settings.delta / phases,
    )


class Passes(Protocol):
    """A way to take passes on one problem; all that changes is in the `Walk`."""

    def begun(self) -> Walk:
        """Return the walk before the first step."""

    def taken(self, walk: Walk) -> tuple[Plane, Point | None]:
        """Take a pass; return its plane, and the point it was taken at if it was a single step."""


def passes_of(problem: Problem, settings: Settings) -> Passes:
    """Return the way to take passes on a problem, or raise ValueError if there is none."""
    risk: Any = problem.risk
    if settings.batch is None or settings.batch >= risk.n_examples:
        return WholeSteps(problem, settings)
    if all(offers(risk, what) for what in ("map.plain", "loss.slope_form", "rows.one_by_one")):
        return CompiledSteps(problem, settings)
    if not offers(risk, "loss.additive", default=True):
        raise ValueError(
            f"batches need a risk that is a sum over examples, and {risk!r} is none; use batch=None"
        )
    if offers(risk, "minimizes_intercept"):
        raise ValueError(
            f"batches with an intercept need dense or sparse rows in memory and a loss that "
            f"compiled steps know, got {risk!r}; use batch=None"
        )
    if settings.sampling is Sampling.DRAWN:
        raise ValueError(
            f"for {risk!r} slopes of examples are not kept: use Sampling.SHUFFLED, whose passes "
            "visit each example once"
        )
    return PartSteps(problem, settings)


def entries_of(rows: Any) -> tuple[Any, Any, Any]:
    """Return values, columns and starts of rows as compiled steps take them."""
    if rows.sparse and not len(rows.indices):  # for no indices mean dense rows
        return np.zeros(1, rows.values.dtype), np.zeros(1, rows.indices.dtype), rows.starts
    if rows.sparse:
        return rows.values, rows.indices, rows.starts
    return rows.by_rows, _NO_INDICES, _NO_STARTS


def steepest_slope(form: tuple[int, Any]) -> float:
    """Return the largest slope that a loss has anywhere, perhaps infinite."""
    kind, shape = form
    if kind == LOGISTIC:
        return 1.0
    if kind not in (MARGIN_PIECES, RESIDUAL_PIECES):
        return math.inf
    ends = np.where(np.isfinite(shape[:, 4]), shape[:, 3], np.inf)
    return float(ends.max())


class CompiledSteps:
    """Compiled passes over rows."""

    def __init__(self, problem: Problem, settings: Settings) -> None:
        risk: Any = problem.risk
        self._risk, self._settings = risk, settings
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]
        self._kind, self._shape = risk.loss.slope_form
        self._used = np.flatnonzero(risk.weights)
        self._importance = len(self._used) * risk.weights
        self._norms: Vector = risk.rows.squared_norms()

    def begun(self) -> Walk:
        """Return the walk before the first step; the first pass finds the constants of the game."""
        risk = self._risk
        drop = float(risk.at(np.zeros(risk.n_parameters)).value) - risk.lower_bound
        game = self._game(drop)
        slopes = np.zeros(len(risk.y))
        facts = np.column_stack([risk.y, self._importance, self._norms, slopes])
        walk = first_walk(self._settings, risk.n_parameters, facts, game.radius)
        if self._settings.rule is Rule.OPTIMISTIC:
            kernels.begin_phase(
                walk.numbers, game.epsilon, game.delta, game.lam, game.steepness, walk.seed
            )
        walk.numbers[kernels.DROP] = drop
        return walk

    def _game(self, drop: float) -> Game:
        steepest = steepest_slope((self._kind, self._shape))
        if math.isfinite(steepest):
            steepest *= float((self._importance * np.sqrt(self._norms)).max())
        return game_of(self._settings, self._lam, drop, steepest)

    @property
    def _offset_reach(self) -> float:
        """About how large an intercept may be: beside margins, 1, and beside targets, as these."""
        risk = self._risk
        if not risk.minimizes_intercept:
            return 0.0
        size = float(risk.weights @ np.abs(risk.y)) if self._kind == RESIDUAL_PIECES else 1.0
        return size or 1.0

    def taken(self, walk: Walk) -> tuple[Plane, None]:
        """Take a pass; return the plane of all slopes, those of this pass and others."""
        self.steps(walk)
        return self.plane(walk), None

    def steps(self, walk: Walk) -> None:
        """Take the steps of a pass."""
        risk, settings, numbers = self._risk, self._settings, walk.numbers
        game = self._game(float(numbers[kernels.DROP]))
        # Free of the rounding that the last pass has left.
        kernels.multiply_out(walk.v, walk.summed, numbers, float(numbers[kernels.SCALE]))
        numbers[kernels.SQUARE] = dot(walk.v, walk.v)
        walk.forget_mean()
        if settings.sampling is Sampling.DRAWN:
            order = np.empty_like(self._used)
            kernels.draw(self._used, order, walk.seed)
        else:
            order = self._used.copy()
            shuffle(order, walk.seed)
        assert settings.batch is not None
        kernels.epoch(
            *entries_of(risk.rows), walk.facts, self._kind, self._shape, order, settings.batch,
            int(settings.rule), game.lam, game.ball, game.steepness, self._offset_reach,
            settings.longest, game.epsilon, game.delta, walk.v, walk.summed, walk.chosen, numbers,
            walk.seed,
        )  # fmt: skip

    def plane(self, walk: Walk) -> Plane:
        """Return the plane of all slopes."""
        risk = self._risk
        slopes = risk.weights * walk.facts[:, kernels.SLOPE]
        if risk.minimizes_intercept:
            slopes = balanced(slopes)
        return Plane(risk.rows.pullback(slopes), -risk.loss.conjugate(risk.y, slopes, risk.weights))


class _EvaluatedSteps:
    """Steps whose subgradients come from evaluations, in plain arithmetic."""

    def __init__(self, problem: Problem, settings: Settings) -> None:
        self._risk: Any = problem.risk
        self._settings = settings
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]

    def begun(self) -> Walk:
        """Return the walk before the first step."""
        risk = self._risk
        drop = float(risk.at(np.zeros(risk.n_parameters)).value) - risk.lower_bound
        walk = first_walk(
            self._settings, risk.n_parameters, np.empty((0, 4)), self._game(drop).radius
        )
        if self._settings.rule is Rule.OPTIMISTIC:
            kernels.begin_phase(walk.numbers, 0.0, 1.0, self._lam, math.nan, walk.seed)
        walk.numbers[kernels.DROP] = drop
        return walk

    def _game(self, drop: float) -> Game:
        return game_of(self._settings, self._lam, drop, math.inf)

    def _step(self, walk: Walk, w: Vector, slope: Vector) -> Vector:
        """Return the next iterate, given a subgradient of the risk of a batch."""
        numbers, rule = walk.numbers, int(self._settings.rule)
        game = self._game(float(numbers[kernels.DROP]))
        gradient = game.lam * w + slope
        numbers[kernels.STEPS] += 1.0
        before = game.lam * (numbers[kernels.STEPS] - 1.0) + numbers[kernels.TAU]
        steepness = math.sqrt(dot(gradient, gradient))
        new = kernels.tau_of(rule, before + game.lam, steepness, float(numbers[kernels.RADIUS]))
        eta = 1.0 / (before + game.lam + new)
        shrink = (before if rule == kernels.ADAPTIVE else before + new) * eta
        numbers[kernels.TAU] += new
        w = shrink * w - eta * slope
        length, ball, longest = math.sqrt(dot(w, w)), game.ball, self._settings.longest
        hoped = float(numbers[kernels.RADIUS])
        if rule == kernels.OPTIMISTIC and max(longest, ball) < math.inf:
            ball = min(ball, hoped)
        if length > ball:
            w = (ball / length) * w
        numbers[kernels.SQUARE] = dot(w, w)
        if rule == kernels.OPTIMISTIC:
            settled = bool(eta * steepness <= longest * hoped)
            kernels.end_step(numbers, settled, 0.0, 1.0, game.lam, math.nan, walk.seed)
        if self._settings.averages:
            walk.summed[:] += w
            numbers[kernels.SUMMANDS] += 1.0
        return np.asarray(w)


class WholeSteps(_EvaluatedSteps):
    """Batches of all examples: a pass is a step along a subgradient of the risk."""

    def taken(self, walk: Walk) -> tuple[Plane, Point]:
        """Take a step; return the point it was taken from, and the plane there."""
        w = walk.w
        walk.forget_mean()
        point: Point = self._risk.at(w)
        walk.move_to(self._step(walk, w, point.plane().slope))
        return point.plane(), point


class PartSteps(_EvaluatedSteps):
    """Batches whose risk is evaluated by itself."""

    def taken(self, walk: Walk) -> tuple[Plane, None]:
        """Take a pass; return the sum of the planes of its batches."""
        risk, weights = self._risk, self._risk.weights
        assert self._settings.batch is not None
        order = np.flatnonzero(weights)
        n = len(order)
        shuffle(order, walk.seed)
        walk.forget_mean()
        w, slope, offset = walk.w, np.zeros(risk.n_parameters), 0.0
        for begin in range(0, n, self._settings.batch):
            examples = np.sort(order[begin : begin + self._settings.batch])
            share = float(weights[examples].sum())
            plane = risk.part(examples).at(w).plane()
            slope += share * plane.slope
            offset += share * plane.offset
            w = self._step(walk, w, (share * n / len(examples)) * plane.slope)
        # An evaluation of all examples, in parts.
        risk.evaluations += 1
        walk.move_to(w)
        return Plane(slope, offset), None
