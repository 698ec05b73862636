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
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector, positive
from cutplane.compute.compiled import clock
from cutplane.core.policies.stabilizers import distance
from cutplane.core.protocols import (
    NonFiniteRisk,
    QuadraticRegularizer,
    Regularizer,
    Risk,
)
from cutplane.core.state import Problem
from cutplane.models.sequences.steps import ChainSteps, as_chains
from cutplane.regularizers.l2 import L2
from cutplane.solvers.stochastic.passes import Batches, Indices, require_count


class StepRule(ABC):
    """How long the steps are."""

    def calibrated(self, try_out: Callable[[float, int], float]) -> StepRule:
        """Return the rule ready for use.

        ``try_out`` takes constant steps of a size on a sample of so many examples, and returns the
        objective on the sample after them; with size zero, that at the start.
        """
        return self

    @abstractmethod
    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps, by their numbers from 1 on."""


@dataclass(frozen=True, slots=True)
class BottouSteps(StepRule):
    """``eta_0 / (1 + lam eta_0 (t - 1))``, as in L. Bottou's crfsgd (2008).

    Parameters
    ----------
    eta0 : float, optional
        The first step. By default it is calibrated: of the sizes ``2^k``, the one with the lowest
        objective after a pass of constant steps over a sample is found, and half of it is taken.
    sample : int
        Size of the sample; the whole if there are fewer examples.
    """

    eta0: float | None = None
    sample: int = 1000

    def __post_init__(self) -> None:
        if self.eta0 is not None:
            positive("eta0", self.eta0)
        require_count("sample", self.sample)

    def calibrated(self, try_out: Callable[[float, int], float]) -> BottouSteps:
        """Walk up the powers of two while the objective falls below that at the start, then down.

        At least ten sizes are tried that lower the objective.
        """
        if self.eta0 is not None:
            return self
        at_start = try_out(0.0, self.sample)
        first = 0.125
        size, rising, good = first, True, 0
        best, lowest = first, at_start
        for _ in range(40):
            objective = try_out(size, self.sample)
            if objective < at_start:
                good += 1
                if objective < lowest:
                    best, lowest = size, objective
            elif rising:
                rising, size = False, first
            size = 2.0 * size if rising else 0.5 * size
            if good >= 10 and not rising:
                break
        return BottouSteps(0.5 * best, self.sample)

    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps."""
        assert self.eta0 is not None
        return np.asarray(self.eta0 / (1.0 + lam * self.eta0 * (steps - 1.0)))


@dataclass(frozen=True, slots=True)
class PegasosSteps(StepRule):
    """``1 / (lam t)``: the first step forgets the start (Shalev-Shwartz et al. 2007)."""

    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps."""
        return np.asarray(1.0 / (lam * steps))


@dataclass(frozen=True, slots=True)
class ConstantSteps(StepRule):
    """Steps of one size."""

    eta: float

    def __post_init__(self) -> None:
        positive("eta", self.eta)

    def sizes(self, steps: Indices, lam: float) -> Vector:
        """Return the sizes of steps."""
        return np.full(len(steps), self.eta)


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
    if not isinstance(regularizer, QuadraticRegularizer):
        raise ValueError(f"sgd needs a quadratic regularizer such as cp.L2, got {regularizer!r}")
    require_count("passes", passes)
    require_count("evaluate_every", evaluate_every)
    if radius is not None:
        positive("radius", radius)
    rule = BottouSteps() if rule is None else rule
    if not isinstance(rule, StepRule):
        raise TypeError(f"rule must be a StepRule such as PegasosSteps(), got {rule!r}")
    descent = _Descent(Batches(risk, batch_size), regularizer, radius)
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
        batches = descent.batches.cut(rng.permutation(descent.batches.used))
        numbers = np.arange(steps + 1, steps + 1 + len(batches))
        w = descent.follow(w, batches, rule.sizes(numbers, regularizer.lam))
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


class _Descent:
    """Steps on batches, in the metric of the regularizer."""

    def __init__(
        self, batches: Batches, metric: QuadraticRegularizer, radius: float | None
    ) -> None:
        self.batches, self.metric = batches, metric
        self._radius = math.inf if radius is None else radius
        self._parts: dict[int, Risk] = {}
        self.center = metric.conjugate(np.zeros(batches.risk.n_parameters))[1]
        # Sequences of a chain have steps of their own, which do not touch all parameters.
        chains = as_chains(batches.risk)
        alone = batches.size == 1 and isinstance(metric, L2) and metric.plain and radius is None
        self._compiled = ChainSteps(chains) if chains is not None and alone else None

    def follow(self, w: Vector, batches: list[Indices], sizes: Vector) -> Vector:
        """Take a step on each batch."""
        if self._compiled is not None:
            lengths = sizes * np.array([self.batches.factor(examples) for examples in batches])
            shrinks = 1.0 - sizes * self.metric.lam
            return self._compiled.follow(w, np.concatenate(batches), shrinks, lengths)
        for examples, size in zip(batches, sizes.tolist(), strict=True):
            slope = self._risk_of(examples).at(w).plane().slope
            length = size * self.batches.factor(examples)
            shrink = 1.0 - size * self.metric.lam
            w = self.center + shrink * (w - self.center) - length * self.metric.dual_metric(slope)
            if self._radius < math.inf:
                far = distance(self.metric, self.center, w)
                w = self.center + (w - self.center) * (self._radius / max(far, self._radius))
        return w

    def _risk_of(self, examples: Indices) -> Risk:
        """Return the risk of a batch; those of single examples are kept."""
        if len(examples) > 1 or len(self.batches.used) > 50_000:  # too many to keep
            return self.batches.risk_of(examples)
        number = int(examples[0])
        if number not in self._parts:
            self._parts[number] = self.batches.risk_of(examples)
        return self._parts[number]

    def objective(self, w: Vector, examples: Indices) -> float:
        """Return the objective on some examples; infinite where it overflows."""
        try:
            value = self._risk_of(examples).at(w).value
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
            used = self._rng.permutation(descent.batches.used)
            self._batches = descent.batches.cut(used[:n_examples])
        sample = np.concatenate(self._batches)
        share = len(sample) / len(descent.batches.used)
        self.passes += share
        if size > 0.0:
            self.passes += share
            try:
                w = descent.follow(w, self._batches, np.full(len(self._batches), size))
            except NonFiniteRisk:
                return math.inf
        return descent.objective(w, sample)
