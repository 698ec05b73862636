"""Passes of stochastic steps over the examples of a risk, and the planes that they leave.

Each example's slopes are taken at the iterate of their own moment. Any slopes with a finite
conjugate give a plane below the risk, so those of a pass do, all together:

    a = sum_i p_i q_i x_i,    b = -sum_i p_i l*(q_i)

There are three ways to take a pass. Compiled steps are for one score an example, on dense and
sparse rows, with losses that they know; others for the margin of chains, sequence by sequence. For
any other sum over examples, such as the risks of structured models, the risk of each batch is
evaluated by itself, and the planes of the batches are added up. A batch of all examples is the risk
itself.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.needs import offers
from cutplane.core.protocols import Plane, Point
from cutplane.core.state import Problem
from cutplane.losses.score_loss import RESIDUAL_PIECES
from cutplane.solvers.dual_ascent import balanced, shuffle
from cutplane.solvers.row_products import entries_of
from cutplane.solvers.stochastic import loops
from cutplane.solvers.stochastic.evaluated import PartSteps, WholeSteps
from cutplane.solvers.stochastic.settings import (
    Game,
    Rule,
    Sampling,
    Settings,
    Walk,
    first_walk,
    game_of,
    steepest_slope,
    until_hurried,
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
    single = settings.batch == 1 and not settings.averages
    if single and offers(risk, "inferences") and offers(risk, "loss.worst_labels"):
        from cutplane.models.sequences.passes import MarginSteps
        from cutplane.models.sequences.steps import as_chains

        if as_chains(risk) is not None:
            return MarginSteps(problem, settings)
    return PartSteps(problem, settings)


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
        self._steepest = steepest_slope((self._kind, self._shape))
        if math.isfinite(self._steepest):
            self._steepest *= float((self._importance * np.sqrt(self._norms)).max())

    def begun(self) -> Walk:
        """Return the walk before the first step; the first pass finds the constants of the game."""
        risk = self._risk
        drop = float(risk.at(np.zeros(risk.n_parameters)).value) - risk.lower_bound
        game = self._game(drop)
        slopes = np.zeros(len(risk.y))
        facts = np.column_stack([risk.y, self._importance, self._norms, slopes])
        walk = first_walk(self._settings, risk.n_parameters, facts, game.radius)
        if self._settings.rule is Rule.OPTIMISTIC:
            loops.begin_phase(
                walk.numbers, game.epsilon, game.delta, game.lam, game.steepness, walk.seed
            )
        walk.numbers[loops.DROP] = drop
        return walk

    def _game(self, drop: float) -> Game:
        return game_of(self._settings, self._lam, drop, self._steepest)

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
        game = self._game(float(numbers[loops.DROP]))
        # Free of the rounding that the last pass has left.
        loops.multiply_out(walk.v, walk.summed, numbers, float(numbers[loops.SCALE]))
        numbers[loops.SQUARE] = dot(walk.v, walk.v)
        walk.forget_mean()
        if settings.sampling is Sampling.DRAWN:
            order = np.empty_like(self._used)
            loops.draw(self._used, order, walk.seed)
        else:
            order = self._used.copy()
            shuffle(order, walk.seed)
        assert settings.batch is not None
        entries, offset_reach = entries_of(risk.rows), self._offset_reach
        for piece in until_hurried(order, risk.rows.n_entries, batch=settings.batch):
            loops.epoch(
                *entries, walk.facts, self._kind, self._shape, piece, settings.batch,
                int(settings.rule), game.lam, game.ball, game.steepness, offset_reach,
                settings.longest, game.epsilon, game.delta, walk.v, walk.summed, walk.chosen,
                numbers, walk.seed,
            )  # fmt: skip

    def plane(self, walk: Walk) -> Plane:
        """Return the plane of all slopes."""
        risk = self._risk
        slopes = risk.weights * walk.facts[:, loops.SLOPE]
        if risk.minimizes_intercept:
            slopes = balanced(slopes)
        return Plane(risk.rows.pullback(slopes), -risk.loss.conjugate(risk.y, slopes, risk.weights))
