"""Stochastic gradient descent: what the papers compare with. It proves nothing.

    w <- w - eta_t * (lam w + a),    a a subgradient of the risk of a few examples at w

There is no lower bound, so nothing says how far a run is from the optimum, or when to stop: the
caller gives a number of passes over the examples. Where the regularizer has a center ``c`` and
weights, steps are taken in the coordinates in which it is ``lam/2 |v|^2``:

    w - c <- (1 - eta_t lam) (w - c) - eta_t * (a in the regularizer's dual metric)

Rules for the size of steps: `BottouSteps`, `PegasosSteps`, `ConstantSteps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import clock
from cutplane.core.needs import as_quadratic, offers
from cutplane.core.protocols import NonFiniteRisk, QuadraticRegularizer, Regularizer, Risk
from cutplane.core.reduced.proximal import distance
from cutplane.core.state import Problem
from cutplane.models.sequences.steps import ChainSteps, as_chains
from cutplane.solvers.sgd.step_rules import (
    BottouSteps,
    ConstantSteps,
    Indices,
    PegasosSteps,
    StepRule,
    require_count,
    require_positive,
)

__all__ = ["BottouSteps", "ConstantSteps", "Pass", "PegasosSteps", "StochasticRun", "sgd"]

# So many risks of single examples are kept, to be made only once.
_MOST_KEPT = 50_000


class Pass(NamedTuple):
    """The end of a pass over the examples.

    Attributes
    ----------
    passes, steps : int
        How many were finished.
    objective : float
        Of the last iterate.
    lowest : float
        The lowest objective seen so far.
    seconds : float
        What the steps took, without evaluations of the whole objective.
    """

    passes: int
    steps: int
    objective: float
    lowest: float
    seconds: float


@dataclass(frozen=True)
class StochasticRun:
    """What stochastic gradient descent found. Nothing of it is proven.

    Attributes
    ----------
    history : list of Pass
        Of the passes after which the objective was evaluated.
    w : ndarray
        The last iterate.
    best_w : ndarray
        The one with the lowest objective of those in the history, or the start.
    averaged_w : ndarray
        The mean of the iterates at the ends of passes, the k-th with weight k.
    rule : StepRule
        The rule that was used, calibrated.
    calibration : float
        What the calibration took, in passes over the examples.
    """

    problem: Problem
    history: list[Pass]
    w: Vector
    best_w: Vector
    averaged_w: Vector
    rule: StepRule
    calibration: float

    @property
    def objective(self) -> float:
        """The lowest objective in the history: that of ``best_w``."""
        return self.history[-1].lowest


def sgd(
    risk: Risk,
    regularizer: Regularizer,
    *,
    passes: int,
    batch_size: int | None = 1,
    rule: StepRule | None = None,
    seed: int = 0,
    start: ArrayLike | None = None,
    radius: float | None = None,
    evaluate_every: int = 1,
    until: Callable[[Pass], bool] | None = None,
) -> StochasticRun:
    """Minimize a regularized risk by stochastic (sub)gradient steps.

    Parameters
    ----------
    risk : Risk
        A sum over examples: it must offer ``n_examples`` and ``part(examples)``, the risk of some
        of them with their weights scaled to sum to one; perhaps ``weights``, which sum to one. It
        need not be convex. With ``batch_size=None`` any risk will do.
    regularizer : Regularizer
        `cutplane.L2`, perhaps with center and weights, or another quadratic one.
    passes : int
        Passes over the examples, each in a random order.
    batch_size : int or None
        Examples for a step; None for all, which is subgradient descent.
    rule : StepRule, optional
        The size of steps; `BottouSteps` by default.
    seed : int
        Of the orders and of the sample for calibration. The same seed gives the same run.
    start : array-like, optional
        Where to start; the regularizer's center by default.
    radius : float, optional
        Scale iterates back to this distance from the center, in the regularizer's metric, after
        each step, as Pegasos does with ``1/sqrt(lam)``.
    evaluate_every : int
        Evaluate the whole objective after every so many passes, and after the last.
    until : callable, optional
        Is told of each pass that was evaluated, and says whether to stop.
    """
    metric = as_quadratic(regularizer)
    if metric is None:
        raise ValueError(f"sgd needs a quadratic regularizer such as cp.L2, got {regularizer!r}")
    require_count("passes", passes)
    require_count("evaluate_every", evaluate_every)
    if radius is not None:
        require_positive("radius", radius)
    rule = BottouSteps() if rule is None else rule
    if not isinstance(rule, StepRule):
        raise TypeError(f"rule must be a StepRule such as PegasosSteps(), got {rule!r}")
    descent = _Descent(_Batches(risk, batch_size), metric, radius)
    w = descent.center
    if start is not None:
        w = np.array(start, dtype=np.float64)
        if w.shape != descent.center.shape or not np.isfinite(w).all():
            raise ValueError(f"start must be {risk.n_parameters} finite numbers, got {start!r}")
    rng = np.random.default_rng(seed)
    trials = _Trials(descent, w, rng)
    rule = rule.calibrated(trials)

    problem = Problem(risk, regularizer)
    history: list[Pass] = []
    best_w, averaged_w, lowest = w, w, math.inf
    steps, seconds = 0, 0.0
    for number in range(1, passes + 1):
        began = clock()
        batches = descent.batches.in_random_order(rng)
        numbers = np.arange(steps + 1, steps + 1 + len(batches))
        w = descent.follow(w, batches, rule.sizes(numbers, metric.lam))
        steps += len(batches)
        averaged_w = averaged_w + 2.0 / (number + 1.0) * (w - averaged_w)
        seconds += clock() - began
        if number % evaluate_every and number < passes:
            continue
        objective = problem.objective(risk.at(w))
        if objective < lowest:
            best_w, lowest = w, objective
        history.append(Pass(number, steps, objective, lowest, seconds))
        if until is not None and until(history[-1]):
            break
    return StochasticRun(problem, history, w, best_w, averaged_w, rule, trials.passes)


class _Batches:
    """The examples of a risk, a few at a time. With the size None, all of it is one batch."""

    def __init__(self, risk: Risk, size: int | None) -> None:
        self.risk, self.size = cast(Any, risk), size
        self._parts: dict[int, Risk] = {}
        if size is None:
            self._weights, self._used = np.ones(1), np.zeros(1, dtype=np.int64)
            return
        require_count("batch_size", size)
        for attribute in ("part", "n_examples"):
            if not offers(risk, attribute):
                raise TypeError(
                    f"{type(risk).__name__} has no {attribute}, which batches need; "
                    "use batch_size=None"
                )
        joint = offers(risk, "minimizes_intercept")
        if joint or not offers(risk, "loss.additive", default=True):
            what = "its intercept is minimized out" if joint else f"{self.risk.loss!r} is not one"
            raise ValueError(
                f"batches need a risk that is a sum over examples: {what}; use batch_size=None"
            )
        n = int(self.risk.n_examples)
        self._weights = (
            np.asarray(self.risk.weights) if offers(risk, "weights") else np.full(n, 1.0 / n)
        )
        self._used = np.flatnonzero(self._weights)

    @property
    def n_examples(self) -> int:
        """How many examples there are that have an influence."""
        return len(self._used)

    def in_random_order(self, rng: np.random.Generator) -> list[Indices]:
        """Return the batches of a pass."""
        return self._cut(rng.permutation(self._used))

    def sample(self, size: int, rng: np.random.Generator) -> list[Indices]:
        """Return batches of a random sample."""
        return self._cut(rng.permutation(self._used)[:size])

    def _cut(self, examples: Indices) -> list[Indices]:
        return np.split(examples, range(self.size or 1, len(examples), self.size or 1))

    def risk_of(self, examples: Indices) -> Risk:
        """Return the risk of some examples, with their weights scaled to sum to one."""
        if self.size is None:
            return cast(Risk, self.risk)
        if len(examples) > 1 or len(self._weights) > _MOST_KEPT:
            return cast(Risk, self.risk.part(examples))
        number = int(examples[0])
        if number not in self._parts:
            self._parts[number] = self.risk.part(examples)
        return self._parts[number]

    def factor(self, examples: Indices) -> float:
        """Return what their risk is multiplied by, so that its expectation is the whole risk."""
        return float(self._weights[examples].mean() * len(self._used))


class _Descent:
    """Steps on batches, in the metric of the regularizer."""

    def __init__(
        self, batches: _Batches, metric: QuadraticRegularizer, radius: float | None
    ) -> None:
        self.batches, self.metric = batches, metric
        self._radius = math.inf if radius is None else radius
        self.center = metric.conjugate(np.zeros(batches.risk.n_parameters))[1]
        # Sequences of a chain have steps of their own, which do not touch all parameters.
        chains = as_chains(batches.risk)
        alone = batches.size == 1 and offers(metric, "plain") and radius is None
        self._compiled = ChainSteps(chains) if chains is not None and alone else None

    def follow(self, w: Vector, batches: list[Indices], sizes: Vector) -> Vector:
        """Take a step on each batch."""
        if self._compiled is not None:
            lengths = sizes * np.array([self.batches.factor(examples) for examples in batches])
            shrinks = 1.0 - sizes * self.metric.lam
            return self._compiled.follow(w, np.concatenate(batches), shrinks, lengths)
        for examples, size in zip(batches, sizes.tolist(), strict=True):
            slope = self.batches.risk_of(examples).at(w).plane().slope
            length = size * self.batches.factor(examples)
            shrink = 1.0 - size * self.metric.lam
            w = self.center + shrink * (w - self.center) - length * self.metric.dual_metric(slope)
            if self._radius < math.inf:
                far = distance(self.metric, self.center, w)
                w = self.center + (w - self.center) * (self._radius / max(far, self._radius))
        return w

    def objective(self, w: Vector, examples: Indices) -> float:
        """Return the objective on some examples; infinite where it overflows."""
        try:
            value = self.batches.risk_of(examples).at(w).value
        except NonFiniteRisk:
            return math.inf
        total = self.metric.value(w) + value
        return total if math.isfinite(total) else math.inf


class _Trials:
    """Passes of constant steps over a sample, always from the start."""

    def __init__(self, descent: _Descent, start: Vector, rng: np.random.Generator) -> None:
        self._descent, self._start, self._rng = descent, start, rng
        self._batches: list[Indices] | None = None
        self.passes = 0.0

    def __call__(self, size: float, n_examples: int) -> float:
        """Return the objective on a sample after steps of a size; zero for the start itself."""
        descent, w = self._descent, self._start
        if self._batches is None:
            self._batches = descent.batches.sample(n_examples, self._rng)
        sample = np.concatenate(self._batches)
        share = len(sample) / descent.batches.n_examples
        self.passes += share
        if size > 0.0:
            self.passes += share
            try:
                w = descent.follow(w, self._batches, np.full(len(self._batches), size))
            except NonFiniteRisk:
                return math.inf
        return descent.objective(w, sample)
