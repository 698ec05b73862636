"""Compiled: a pass of certified stochastic steps over the sequences of a chain, for the margin.

A step finds the labels of a sequence that are the worst at the iterate of its moment. What their
features have more than those of the true labels, ``d``, is a subgradient of the sequence's loss; it
touches few parameters. The iterate is ``scale * v``, as in `cutplane.models.sequences.steps`, and
``v.d`` and ``|d|^2`` are known from the parameters that are touched, so that sizes of steps and the
ball cost no more. The labels are written down: all of them together make a plane of the risk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem
from cutplane.models.sequences.chain import Labels, buffers_for, padded
from cutplane.models.sequences.losses import WorstLabels
from cutplane.models.sequences.risk import ChainRisk
from cutplane.models.sequences.steps import (
    SMALLEST_SCALE,
    ChainData,
    ChainSteps,
    ChainWeights,
    clear_labels,
    find_worst,
    move_labels,
    multiply,
    scores_for,
)
from cutplane.solvers.row_steps import shuffle
from cutplane.solvers.stochastic.loops import (
    ADAPTIVE,
    DROP,
    OPTIMISTIC,
    RADIUS,
    SCALE,
    SQUARE,
    STEPS,
    TAU,
    Game,
    end_step,
    reach_of,
    tau_of,
)
from cutplane.solvers.stochastic.passes import EvaluatedSteps, Indices, Settings, Walk


@njit(cache=True, nogil=True)
def _products(
    data: ChainData, i0: int, n: int, labels: Labels, other: Labels, sign: float,
    v: ChainWeights, d: ChainWeights,
) -> tuple[float, float]:  # fmt: skip
    """Add the features of labels to ``d``; return by how much ``v.d`` and ``|d|^2`` grow."""
    product = square = 0.0
    for t in range(n):
        label = labels[t]
        if label != other[t]:
            for e in range(np.uint64(data.starts[i0 + t]), np.uint64(data.starts[i0 + t + 1])):
                feature = np.uint64(data.indices[e])
                if data.weighted[feature, label]:
                    x = sign * data.values[e]
                    product += x * v.coef[feature, label]
                    square += x * (2.0 * d.coef[feature, label] + x)
                    d.coef[feature, label] += x
        if t > 0:
            before = labels[t - 1]
            product += sign * v.transitions[before, label]
            square += sign * (2.0 * d.transitions[before, label] + sign)
            d.transitions[before, label] += sign
    if data.has_ends:
        for k, label in enumerate((labels[0], labels[n - 1])):
            product += sign * v.ends[k, label]
            square += sign * (2.0 * d.ends[k, label] + sign)
            d.ends[k, label] += sign
    return product, square


@njit(cache=True, nogil=True, error_model="numpy")
def margin_pass(
    data: ChainData, y: Labels, order: Indices, importance: Vector, rule: int, game: Game,
    longest: float, v: ChainWeights, d: ChainWeights, width: int, numbers: Vector,
    seed: NDArray[np.uint64], found: Labels,
) -> None:  # fmt: skip
    """Take a step on each sequence in ``order``; fill in the labels that were found.

    ``v``, ``numbers`` and ``seed`` are updated; the iterate is ``numbers[SCALE] * v``, before and
    after, and ``d`` is zero.
    The other arguments are those of `cutplane.solvers.stochastic.loops.epoch`.
    """
    scores = scores_for(data, v.coef.shape[1], width)
    buffers = buffers_for(len(scores.emissions), v.coef.shape[1], width)
    lam, scale, square = game.lam, numbers[SCALE], numbers[SQUARE]
    steps, tau = numbers[STEPS], numbers[TAU]
    for k in range(len(order)):
        i = order[k]
        i0, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        labels, own_y = found[i0 : i0 + n], y[i0 : i0 + n]
        product = norm = 0.0
        if n > 0:
            find_worst(data, i, y, v, scale, scores, buffers, labels)
            p1, s1 = _products(data, i0, n, labels, own_y, 1.0, v, d)
            p2, s2 = _products(data, i0, n, own_y, labels, -1.0, v, d)
            product, norm = p1 + p2, s1 + s2
            clear_labels(data, i0, labels, d)
            clear_labels(data, i0, own_y, d)
        pull = importance[i]
        steps += 1.0
        steepness = np.sqrt(
            max(lam * (lam * square + 2.0 * pull * scale * product) + pull * pull * norm, 0.0)
        )
        before = lam * (steps - 1.0) + tau
        new = tau_of(rule, before + lam, steepness, numbers[RADIUS])
        eta = 1.0 / (before + lam + new)
        shrink = (before if rule == ADAPTIVE else before + new) * eta
        tau += new
        scale *= shrink
        if abs(scale) < SMALLEST_SCALE:
            multiply(v, scale)
            scale, product = 1.0, scale * product
        step = -eta * pull
        square = shrink * shrink * square + step * (2.0 * scale * product + step * norm)
        if n > 0:
            move_labels(data, i0, labels, own_y, step / scale, v)
        reach = reach_of(rule, game.ball, longest, numbers[RADIUS])
        if square > reach * reach:
            scale *= reach / np.sqrt(square)
            square = reach * reach
        square = max(square, 0.0)
        if rule == OPTIMISTIC:
            numbers[SQUARE], numbers[STEPS], numbers[TAU] = square, steps, tau
            settled = eta * steepness <= longest * numbers[RADIUS]
            end_step(numbers, settled, game, seed)
            steps, tau = numbers[STEPS], numbers[TAU]
    numbers[SCALE], numbers[SQUARE] = scale, square
    numbers[STEPS], numbers[TAU] = steps, tau


class MarginSteps(EvaluatedSteps):
    """Steps on single sequences of a chain with the loss `ChainMargin`, compiled.

    The plane of a pass is that of the labels which were the worst when their sequence was visited.
    """

    def __init__(self, problem: Problem, settings: Settings, risk: ChainRisk) -> None:
        super().__init__(problem, settings)
        self._chains = risk

    def taken(self, walk: Walk) -> tuple[Plane, None]:
        """Take a pass; return the sum of the planes of its sequences."""
        risk, numbers, settings = self._chains, walk.numbers, self._settings
        data, steps = risk.data, ChainSteps(risk)
        order = np.flatnonzero(data.weights)
        shuffle(order, walk.seed)
        game = self._game(float(numbers[DROP]))
        walk.move_to(walk.w)
        # Sequences that a pass does not come to have their true labels, which cost nothing.
        v, d, labels = steps.add(walk.w, steps.zeros()), steps.zeros(), data.y.copy()
        for piece in self.until_hurried(order, risk.inference_steps):
            margin_pass(
                steps.data, data.y, piece, len(order) * data.weights, int(settings.rule), game,
                settings.longest, v, d, padded(risk.n_labels), numbers, walk.seed, labels,
            )  # fmt: skip
            risk.inferences += len(piece)
        multiply(v, float(numbers[SCALE]))
        walk.move_to(steps.finite_vector(v, walk.w))
        risk.evaluations += 1
        n = risk.n_examples
        owners = np.repeat(np.arange(n), data.chains.lengths)
        mistakes = np.bincount(owners, weights=labels != data.y, minlength=n).astype(np.int64)
        found = WorstLabels(data, labels, np.zeros(n), mistakes)
        return risk.pull_back(found.slopes()), None
