"""Passes of stochastic steps whose subgradients come from evaluations: of batches, or of all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.pace import hurried
from cutplane.compute.products import dot
from cutplane.core.protocols import Plane, Point
from cutplane.core.state import Problem
from cutplane.solvers.dual_ascent import shuffle
from cutplane.solvers.stochastic import loops
from cutplane.solvers.stochastic.settings import (
    Game,
    Rule,
    Settings,
    Walk,
    first_walk,
    game_of,
)


class EvaluatedSteps:
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
            loops.begin_phase(walk.numbers, 0.0, 1.0, self._lam, math.nan, walk.seed)
        walk.numbers[loops.DROP] = drop
        return walk

    def _game(self, drop: float) -> Game:
        return game_of(self._settings, self._lam, drop, math.inf)

    def _step(self, walk: Walk, w: Vector, slope: Vector) -> Vector:
        """Return the next iterate, given a subgradient of the risk of a batch."""
        numbers, rule = walk.numbers, int(self._settings.rule)
        game = self._game(float(numbers[loops.DROP]))
        gradient = game.lam * w + slope
        numbers[loops.STEPS] += 1.0
        before = game.lam * (numbers[loops.STEPS] - 1.0) + numbers[loops.TAU]
        steepness = math.sqrt(dot(gradient, gradient))
        new = loops.tau_of(rule, before + game.lam, steepness, float(numbers[loops.RADIUS]))
        eta = 1.0 / (before + game.lam + new)
        shrink = (before if rule == loops.ADAPTIVE else before + new) * eta
        numbers[loops.TAU] += new
        w = shrink * w - eta * slope
        length, ball, longest = math.sqrt(dot(w, w)), game.ball, self._settings.longest
        hoped = float(numbers[loops.RADIUS])
        if rule == loops.OPTIMISTIC and max(longest, ball) < math.inf:
            ball = min(ball, hoped)
        if length > ball:
            w = (ball / length) * w
        numbers[loops.SQUARE] = dot(w, w)
        if rule == loops.OPTIMISTIC:
            settled = bool(eta * steepness <= longest * hoped)
            loops.end_step(numbers, settled, 0.0, 1.0, game.lam, math.nan, walk.seed)
        if self._settings.averages:
            walk.summed[:] += w
            numbers[loops.SUMMANDS] += 1.0
        return np.asarray(w)


class WholeSteps(EvaluatedSteps):
    """Batches of all examples: a pass is a step along a subgradient of the risk."""

    def taken(self, walk: Walk) -> tuple[Plane, Point]:
        """Take a step; return the point it was taken from, and the plane there."""
        w = walk.w
        walk.forget_mean()
        point: Point = self._risk.at(w)
        walk.move_to(self._step(walk, w, point.plane().slope))
        return point.plane(), point


class PartSteps(EvaluatedSteps):
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
            if hurried() and len(left := order[begin + self._settings.batch :]):
                # Of the others nothing is known but what they cost at least.
                rest = risk.part(np.sort(left))
                if not math.isfinite(rest.lower_bound):
                    continue
                offset += float(weights[left].sum()) * rest.lower_bound
                break
        # An evaluation of all examples, in parts.
        risk.evaluations += 1
        walk.move_to(w)
        return Plane(slope, offset), None
