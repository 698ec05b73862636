"""Examples that come batch by batch: each is learned from once, and bounds what could be learned.

What a stream knows does not grow with it: the iterate, and two sums over all examples so far. With
the slope ``q_i`` of each at its own moment, for any weights ``p_i``,

    min_w lam/2 |w|^2 + sum_i p_i l_i(x_i.w) / sum_i p_i  >=  b - |a|^2 / (2 lam),
    a = sum_i p_i q_i x_i / sum_i p_i,    b = -sum_i p_i l*(q_i) / sum_i p_i,

so there is a lower bound for all that has been seen. What a model costs on all of it is not known
without looking at it again: for that, the last ones must be kept.

With an intercept the slopes must sum to zero. Slopes of the heavier sign are scaled down, which is
why there are sums for both signs: ``-l*(s q) >= -s l*(q)`` for ``0 <= s <= 1``, as long as the loss
is never negative.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.protocols import NonFiniteRisk, Plane
from cutplane.core.state import Problem, candidate_below
from cutplane.data import Rows
from cutplane.losses.loss import RESIDUAL_PIECES, Loss
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk
from cutplane.solvers.ascent import balanced, balancing
from cutplane.solvers.automatic import automatic
from cutplane.solvers.minimize import minimize
from cutplane.solvers.row_steps import entries_of, shuffle
from cutplane.solvers.stochastic import loops
from cutplane.solvers.stochastic.passes import (
    Iterate,
    Rule,
    Settings,
    Walk,
    first_walk,
    game_of,
    steepest_slope,
)

_OVERFLOW = "the steps overflow: scale the features, or raise lam"


@dataclass
class Stream:
    """Stochastic steps on examples that come batch by batch.

    Parameters
    ----------
    loss : Loss
        With a form that compiled steps know.
    lam : float
        Strength of the regularizer.
    settings : Settings
        The rule of the steps; ``batch=None`` takes a step on each batch that is given.
    n_parameters : int
    intercept : bool
        Whether there is an intercept, which is not regularized.
    window : int
        If positive, steps do not become shorter than after so many: the iterate follows a stream
        that changes.
    """

    loss: Loss
    lam: float
    settings: Settings
    n_parameters: int
    intercept: bool
    window: int = 0
    n_seen: int = 0
    weight: float = 0.0
    at_zero: float = 0.0
    reach: float = 0.0
    longest_row: float = 0.0
    walk: Walk = field(init=False)
    # For slopes that are zero or positive, and for negative ones: sums of slopes of planes, of
    # their offsets, and of the slopes themselves.
    slopes: Matrix = field(init=False)
    offsets: Vector = field(init=False)
    tilts: Vector = field(init=False)

    def __post_init__(self) -> None:
        radius = self.settings.radius or 1.0  # known once there are examples
        self.walk = first_walk(self.settings, self.n_parameters, np.empty((0, 4)), radius)
        self.slopes = np.zeros((2, self.n_parameters))
        self.offsets, self.tilts = np.zeros(2), np.zeros(2)

    @property
    def w(self) -> Vector:
        """The parameters: the iterate, or the mean of all iterates."""
        return self.walk.mean if self.settings.iterate is Iterate.AVERAGE else self.walk.w

    @property
    def offset(self) -> float:
        """The intercept."""
        return float(self.walk.numbers[loops.OFFSET])

    def objective(self, rows: Rows, y: Vector, weights: Vector) -> float:
        """Return what the model costs on some examples."""
        weights = np.ascontiguousarray(weights / weights.sum()) if weights.any() else weights
        scores = rows.scores(self.w) + self.offset
        return L2(self.lam).value(self.w) + self.loss.value(y, scores, weights)

    def learn(self, rows: Rows, y: Vector, weights: Vector) -> Vector:
        """Take steps on a batch, in a random order; return the slope of each example's loss."""
        form = self.loss.slope_form
        assert form is not None
        used = np.flatnonzero(weights)
        if not len(used):
            return np.zeros(len(y))
        y, weights = np.ascontiguousarray(y), np.ascontiguousarray(weights)
        zeros = np.zeros(len(y))
        hoped = self._size_of_targets if self.n_seen else 0.0
        self.weight += float(weights.sum())
        self.n_seen += len(used)
        self.at_zero += self.loss.value(y, zeros, weights)
        self.reach += float(weights @ np.abs(y))
        norms = rows.squared_norms()
        # As if weights were 1 on average, so far as is known.
        importance = weights * (self.n_seen / self.weight)
        self.longest_row = max(self.longest_row, float((importance * np.sqrt(norms)).max()))
        steepest = steepest_slope(form) * self.longest_row if self.longest_row else 0.0
        drop = self.at_zero / self.weight - self.loss.lower_bound
        game = game_of(self.settings, self.lam, drop, steepest)
        # Slopes that know no bound grow with the rows once more.
        if (steepest if steepest < math.inf else self.longest_row**2) > loops.LARGEST:
            raise NonFiniteRisk(_OVERFLOW)
        walk, numbers, rule = self.walk, self.walk.numbers, self.settings.rule
        is_first = self.n_seen == len(used)
        if rule is not Rule.OPTIMISTIC:
            _lengthen(numbers, loops.TAU, float(numbers[loops.RADIUS]), game.radius)
            numbers[loops.RADIUS] = game.radius
        elif is_first or min(1.0, game.radius) > math.sqrt(2.0) * numbers[loops.RADIUS]:
            # In a later batch: the first ones cost so little that far less was hoped for, by more
            # than a radius grows in one phase.
            numbers[loops.RADIUS] = min(1.0, game.radius)
            loops.begin_phase(numbers, game, walk.seed)
        size = 0.0
        if self.intercept:
            size = self._size_of_targets if form[0] == RESIDUAL_PIECES else 1.0
            if form[0] == RESIDUAL_PIECES:
                _lengthen(numbers, loops.OFFSET_TAU, hoped, size)
        facts = np.column_stack([y, importance, norms, zeros])
        shuffle(used, walk.seed)
        loops.epoch(
            *entries_of(rows), facts, *form, used, self.settings.batch or len(used), int(rule),
            game, size or float(self.intercept), self.settings.longest, walk.v, walk.summed,
            walk.chosen, numbers, walk.seed,
        )  # fmt: skip
        self._forget()
        slopes: Vector = facts[:, loops.SLOPE].copy()
        found = walk.w, self.w, slopes, self.offset
        if not all(np.isfinite(numbers).all() for numbers in found):
            raise NonFiniteRisk(_OVERFLOW)
        self._add(rows, y, weights, slopes)
        return slopes

    @property
    def _size_of_targets(self) -> float:
        """Their mean absolute value so far."""
        return self.reach / self.weight

    def _forget(self) -> None:
        """Let steps be as long as after a window of them."""
        numbers, batch = self.walk.numbers, self.settings.batch or 1
        most = math.ceil(self.window / batch)
        if self.window and numbers[loops.STEPS] > most:
            numbers[loops.TAU] *= math.sqrt(most / numbers[loops.STEPS])
            numbers[loops.STEPS] = float(most)

    def _add(self, rows: Rows, y: Vector, weights: Vector, slopes: Vector) -> None:
        """Add the slopes of a batch to those of all."""
        for k, chosen in enumerate((slopes >= 0.0, slopes < 0.0)):
            own = np.where(chosen, weights, 0.0)
            conjugate = self.loss.conjugate(y, own * slopes, own)
            assert conjugate is not None
            self.slopes[k] += rows.pullback(own * slopes)
            self.offsets[k] -= conjugate
            self.tilts[k] += float((own * slopes).sum())

    def lower_bound(self) -> float:
        """Return what no model's objective is below, on all that was seen."""
        if not self.weight:
            return -math.inf
        shares = np.ones(2)
        if self.intercept:
            shares = np.array(balancing(float(self.tilts[0]), -float(self.tilts[1])))
        plane = Plane(
            shares @ self.slopes / self.weight, float(shares @ self.offsets) / self.weight
        )
        # In this order: slopes that overflow give a bound that is no number.
        return max(self.loss.lower_bound, candidate_below(plane, L2(self.lam)).lower)


def _lengthen(numbers: Vector, tau: int, before: float, now: float) -> None:
    """Let steps be as long as if the larger size had been known from the beginning."""
    if now > before:
        numbers[tau] *= before / now


@dataclass(frozen=True)
class Bounds:
    """What is proven of a model on some examples."""

    objective: float
    lower_bound: float
    small: bool  # their difference, beside the tolerance
    vanishes: bool = False  # the objective and that difference, up to rounding


def bounds_on(
    risk: ScoredRisk, lam: float, w: Vector, slopes: Vector, *, tol: float, max_iter: int
) -> Bounds:
    """Return the objective of a model, and a lower bound for all of them.

    The bound comes from older slopes, those at the model, and a run from there of at most so many
    iterations. The intercept is the best one for the examples.
    """
    problem = Problem(risk, L2(lam))
    point = risk.at(w)
    scaled = risk.weights * slopes
    if risk.minimizes_intercept:
        scaled = balanced(scaled)
    older = Plane(
        risk.rows.pullback(scaled), -risk.pointwise.known_conjugate(risk.y, scaled, risk.weights)
    )
    objective, lower = problem.objective(point), problem.below(older).lower
    if not math.isfinite(objective):
        return Bounds(objective, risk.lower_bound, False)
    # In this order: slopes that overflow give a bound that is no number.
    lower = max(risk.lower_bound, lower, problem.below(point.plane()).lower)
    if lower < objective - tol * abs(objective) and max_iter > 0:
        with suppress(NonFiniteRisk):  # then there is no run, and the bounds are those so far
            method = automatic(problem)
            run = minimize(
                risk, problem.regularizer, method=method, tol=tol, max_iter=max_iter, start=w
            )
            lower = max(lower, run.certificate.lower_bound)
    gap = max(objective - lower, 0.0)
    small = gap <= tol * abs(objective)
    vanishes = not small and max(gap, abs(objective)) <= problem.rounding_at(point)
    return Bounds(objective, min(lower, objective), small, vanishes)
