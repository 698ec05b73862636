"""Compiled passes of stochastic subgradient steps over rows, at the cost of their entries.

With ``L_t = lam*t + tau_1 + ... + tau_{t-1}`` (paper 002, Algorithms 1 to 3), a step on a batch is

    eta_t = 1 / (L_t + tau_t),    w <- (1 - eta_t lam) w - eta_t * mean_i importance_i q_i x_i

where ``q_i`` is a slope of the loss of example ``i`` at its score, and then back to a ball. The
iterate is kept as ``w = scale * v``: to shrink it, or to scale it back to a ball, costs one
product, and an example changes as many numbers as its row has entries. So does the sum of all
iterates, which is kept as ``summed + mass * v``.

The slopes ``q_i`` are written down. All of them together make a plane of the risk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import fetch, fetch_row, njit
from cutplane.losses.loss import EXPONENTIAL, LOGISTIC, MARGIN_PIECES, POISSON
from cutplane.solvers.row_steps import add_row, random, row_product

_CONTRACT = {"contract"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def slope_of(form: int, shape: Matrix, y: float, z: float) -> float:
    """Return the slope of an example's loss at score ``z``; at a kink, the lesser one."""
    if form == LOGISTIC:
        return float(-y / (1.0 + np.exp(min(y * z, 700.0))))
    # Beyond this exponent losses that grow exponentially have the slope that they have there. It is
    # still one of their slopes, so that planes hold.
    farthest = 30.0
    if form == EXPONENTIAL:
        return float(-y * np.exp(min(-y * z, farthest)))
    if form == POISSON:
        return float(np.exp(min(z, farthest)) - y)
    v = y * z - 1.0 if form == MARGIN_PIECES else z - y
    left, right = -v - shape[0, 0], v - shape[1, 0]
    slope = 0.0
    if left > 0.0:
        slope -= shape[0, 1] * min(left, shape[0, 4]) + shape[0, 2]
    if right > 0.0:
        slope += shape[1, 1] * min(right, shape[1, 4]) + shape[1, 2]
    return y * slope if form == MARGIN_PIECES else slope


IndexVector = NDArray[np.int64]

# How tau_t is chosen.
PEGASOS, ADAPTIVE, BALANCED, OPTIMISTIC = range(4)

# What a run knows besides vectors, by its place in an array of numbers.
(
    SCALE, SQUARE, STEPS, TAU, RADIUS, OFFSET, OFFSET_TAU, MASS, SUMMANDS, ENOUGH, CHOSEN, SURE,
    DROP,
) = range(13)  # fmt: skip

# What is known of an example, side by side in memory: rows are visited in random order.
TARGET, IMPORTANCE, LENGTH, SLOPE = range(4)

# Squares of larger numbers would overflow, or be no numbers to compute with.
LARGEST = 1e150
_NEVER = 1e15  # steps


class Game(NamedTuple):
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
        No subgradient is longer; NaN if that is not known beforehand: then each has its own.
    epsilon, delta : float
        Of Algorithm 3; ``delta`` for each phase.
    """

    lam: float
    radius: float
    ball: float
    steepness: float
    epsilon: float
    delta: float


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def _balance(rule: int, steepness: float, radius: float) -> float:
    """Return what ``tau_t`` balances: a bound on subgradients, by one on the optimum, squared."""
    if rule == PEGASOS:
        return 0.0
    square = min(steepness / radius, LARGEST) ** 2
    return square * 8.0 / 3.0 if rule == ADAPTIVE else square


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def _tau(grown: float, square: float) -> float:
    """Return ``(sqrt(L^2 + s) - L) / 2``, without cancellation."""
    if square == 0.0:
        return 0.0
    return float(0.5 * square / (np.sqrt(grown * grown + square) + grown))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT)
def tau_of(rule: int, grown: float, steepness: float, radius: float) -> float:
    """Return ``tau_t`` from ``L_t``, a bound on the subgradient, and one on the optimum."""
    return _tau(grown, _balance(rule, steepness, radius))


@njit(cache=True, nogil=True, error_model="numpy")
def steps_needed(
    epsilon: float, delta: float, lam: float, steepness: float, radius: float
) -> float:
    """Return how many steps a phase of Algorithm 3 takes, with its own ``delta``.

    That is the least ``T`` with ``min(G^2 (1 + ln T)/(delta lam T), 4 R G/(delta sqrt T)) <= eps``.
    """
    if epsilon <= 0.0:
        return _NEVER
    by_root = np.ceil((4.0 * radius * steepness / (delta * epsilon)) ** 2)
    factor = steepness * steepness / (delta * lam)
    low, high = 0.0, 1.0
    while factor * (1.0 + np.log(high)) > epsilon * high and high < _NEVER:
        low, high = high, 2.0 * high
    while high - low > 1.0:
        middle = np.floor(0.5 * (low + high))
        if factor * (1.0 + np.log(middle)) > epsilon * middle:
            low = middle
        else:
            high = middle
    return float(max(min(by_root, high), 1.0))


@njit(cache=True, nogil=True, error_model="numpy")
def begin_phase(numbers: Vector, game: Game, seed: NDArray[np.uint64]) -> None:
    """Forget all steps, but not where they led; choose which of those to come is returned."""
    numbers[STEPS] = numbers[TAU] = 0.0
    numbers[ENOUGH] = steps_needed(
        game.epsilon, game.delta, game.lam, game.steepness, numbers[RADIUS]
    )
    numbers[CHOSEN] = _NEVER
    if numbers[ENOUGH] < _NEVER:
        numbers[CHOSEN] = 1.0 + np.floor(random(seed) * numbers[ENOUGH])


@njit(cache=True, nogil=True, error_model="numpy")
def _rim(radius: float, game: Game) -> float:
    """Return from which squared length on an iterate has come near a radius, up to rounding."""
    near = (1.0 - 1e-12) * radius - np.sqrt(2.0 * game.epsilon / game.lam)
    return float(max(near, 0.0) ** 2)


@njit(cache=True, nogil=True)
def reach_of(rule: int, ball: float, longest: float, radius: float) -> float:
    """Return the radius that iterates are scaled back to."""
    if rule == OPTIMISTIC and longest < np.inf and ball < np.inf:
        return min(ball, radius)
    return ball


@njit(cache=True, nogil=True, error_model="numpy")
def end_step(numbers: Vector, settled: bool, game: Game, seed: NDArray[np.uint64]) -> None:
    """Look whether the iterate has come near the radius that was hoped for (Algorithm 3).

    That counts once steps have ``settled``, and for the iterate that is to be returned.
    """
    looked_at = settled or numbers[STEPS] + 1.0 == numbers[CHOSEN]
    if looked_at and numbers[SQUARE] >= _rim(numbers[RADIUS], game):
        numbers[RADIUS] *= np.sqrt(2.0)
        begin_phase(numbers, game, seed)
    elif numbers[STEPS] >= numbers[ENOUGH]:
        numbers[SURE] = 1.0


@njit(cache=True, nogil=True)
def multiply_out(v: Vector, summed: Vector, numbers: Vector, factor: float) -> None:
    """Replace ``v`` by ``factor * v``; the scale becomes 1, and ``summed`` the whole sum."""
    if len(summed):
        for j in range(len(v)):
            summed[j] += numbers[MASS] * v[j]
    numbers[MASS] = 0.0
    for j in range(len(v)):
        v[j] *= factor
    numbers[SCALE] = 1.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT)
def epoch(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], facts: Matrix, form: int,
    shape: Matrix, order: IndexVector, batch: int, rule: int, game: Game, offset_reach: float,
    longest: float, v: Vector, summed: Vector, chosen: Vector, numbers: Vector,
    seed: NDArray[np.uint64],
) -> None:  # fmt: skip
    """Take a step on each batch of the examples in ``order``.

    Rows without ``indices`` are dense. ``facts`` has a line for each example: target, importance,
    squared length of the row, and the last slope, which is written down. ``offset_reach`` is the
    size of intercepts, zero if there is none. ``longest`` is the share of the hoped-for radius that
    a step may at most have for Algorithm 3 to look at where it led; if it is finite, iterates are
    also scaled back to that radius. ``v``, ``facts``, ``numbers`` and ``seed`` are updated in
    place, so is ``summed`` if it has a length, and ``chosen`` becomes the iterate that Algorithm 3
    returns.
    """
    # Rows are visited in random order, so that each would be waited for. What belongs to the row
    # this many steps ahead is asked for already: a pass over a9a takes a third of the time, over
    # text two thirds.
    ahead = 4
    lam, ball, steepness = game.lam, game.ball, game.steepness
    width = np.uint64(len(v))
    dense = len(indices) == 0
    bounded = steepness == steepness
    averaging = len(summed) > 0
    # Numbers of ``v`` grow as the scale falls, and are then multiplied out. A sum of iterates loses
    # so many digits by that.
    least = 1e-4 if averaging else 1e-9
    scale, square = numbers[SCALE], numbers[SQUARE]
    steps, tau = numbers[STEPS], numbers[TAU]
    offset, offset_tau = numbers[OFFSET], numbers[OFFSET_TAU]
    balance = _balance(rule, steepness, numbers[RADIUS]) if bounded else 0.0
    i, first, last = order[0], np.uint64(0), np.uint64(0)
    product = pull = 0.0
    reach = reach_of(rule, ball, longest, numbers[RADIUS])
    rim = _rim(numbers[RADIUS], game)
    for begin in range(0, len(order), batch):
        end = min(begin + batch, len(order))
        share = 1.0 / (end - begin) if batch > 1 else 1.0
        if rule == OPTIMISTIC and steps + 1.0 == numbers[CHOSEN] and numbers[SURE] == 0.0:
            for j in range(len(v)):
                chosen[j] = scale * v[j]
        total, length = 0.0, 0.0
        for k in range(begin, end):
            if k + 2 * ahead < len(order) and not dense:
                fetch(starts, order[k + 2 * ahead])
                j = order[k + ahead]
                fetch(facts, j * facts.shape[1])
                fetch_row(values, indices, np.uint64(starts[j]), np.uint64(starts[j + 1]))
            i = order[k]
            first = np.uint64(i) * width if dense else np.uint64(starts[i])
            last = first + width if dense else np.uint64(starts[i + 1])
            product = row_product(values, indices, first, last, v)
            slope = slope_of(form, shape, facts[i, TARGET], scale * product + offset)
            if facts[i, SLOPE] != slope:  # most slopes stay, and need no room in the cache
                facts[i, SLOPE] = slope
            pull = share * facts[i, IMPORTANCE] * slope
            total += pull
            if not bounded:
                length += abs(pull) * np.sqrt(facts[i, LENGTH])
        steps += 1.0
        steep = steepness
        if not bounded:
            steep = lam * np.sqrt(square) + length
            balance = _balance(rule, steep, numbers[RADIUS])
        before = lam * (steps - 1.0) + tau
        new = _tau(before + lam, balance)
        eta = 1.0 / (before + lam + new)
        # What w is multiplied by: all but lam*eta is left, and (4) pulls toward zero by tau too.
        shrink = (before if rule == ADAPTIVE else before + new) * eta
        tau += new
        if abs(scale * shrink) < least:
            multiply_out(v, summed, numbers, scale * shrink)
            scale, product = 1.0, scale * shrink * product
        else:
            scale *= shrink
        square *= shrink * shrink
        for k in range(begin, end):
            if batch > 1:  # else it is the example that was just looked at
                i = order[k]
                pull = share * facts[i, IMPORTANCE] * facts[i, SLOPE]
                first = np.uint64(i) * width if dense else np.uint64(starts[i])
                last = first + width if dense else np.uint64(starts[i + 1])
                product = row_product(values, indices, first, last, v)
            if pull == 0.0:
                continue
            step, norm = -eta * pull, facts[i, LENGTH]
            # A step that is so many times as long as the iterate before it costs digits as well.
            if averaging and numbers[MASS] > 0.0 and step * step * norm > 1e8 * square:
                multiply_out(v, summed, numbers, scale)
                scale, product = 1.0, scale * product
            square += step * (2.0 * scale * product + step * norm)
            add_row(values, indices, first, last, step / scale, v)
            if averaging:
                add_row(values, indices, first, last, -numbers[MASS] * step / scale, summed)
        if square > reach * reach:
            scale *= reach / np.sqrt(square)
            square = reach * reach
        square = max(square, 0.0)
        if offset_reach > 0.0 and total != 0.0:
            # The same rule for a game without curvature, of which the size is known.
            offset_tau += tau_of(BALANCED, offset_tau, abs(total), offset_reach)
            offset -= total / offset_tau
        if averaging:
            numbers[MASS] += scale
            numbers[SUMMANDS] += 1.0
        if rule == OPTIMISTIC and (square >= rim or steps >= numbers[ENOUGH]):
            numbers[SQUARE], numbers[STEPS], numbers[TAU] = square, steps, tau
            settled = eta * steep <= longest * numbers[RADIUS]
            end_step(numbers, settled, game, seed)
            steps, tau = numbers[STEPS], numbers[TAU]
            reach = reach_of(rule, ball, longest, numbers[RADIUS])
            rim = _rim(numbers[RADIUS], game)
            balance = _balance(rule, steepness, numbers[RADIUS]) if bounded else 0.0
    numbers[SCALE], numbers[SQUARE] = scale, square
    numbers[STEPS], numbers[TAU] = steps, tau
    numbers[OFFSET], numbers[OFFSET_TAU] = offset, offset_tau
