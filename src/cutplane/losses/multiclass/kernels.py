"""Compiled loops over the rows of a matrix of scores, one column a class.

``v_ij = scores_ij + offsets_j + margins_yj * [j != y_i]`` is what speaks for class j. Margins have
a row for each class, or one that serves all of them; an example's own class has no margin, whatever
they say. Weights are those of examples and sum to one. Each kernel does one block of rows.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.losses.pointwise.logistic_kernels import exp_minus, log

Indices = NDArray[np.int64]
Logits: TypeAlias = tuple[Vector, Vector, Matrix, float]
"""How scores become logits: offsets and shifts of the classes, margins and temperature."""

# exp(-40) is 4e-18: beside the largest term, which is 1, such terms are not seen.
_NEGLIGIBLE = -40.0
# Examples whose shares are multiplied at a time: long enough for sums to vectorize.
_TILE = 128


@njit(cache=True, nogil=True)
def _set_logits(scores: Matrix, i: int, own: int, rule: Logits, logits: Vector) -> float:
    """Set ``v_ij / temperature + shifts_j``, up to a constant, and return the largest.

    The shifts are not a part of the offsets, because the sum would round them: at low temperatures
    they make differences that are far smaller than the offsets.
    """
    offsets, shifts, margins, temperature = rule
    base = -np.inf
    margin = margins[own if len(margins) > 1 else 0]
    for j in range(len(offsets)):
        logits[j] = scores[i, j] + offsets[j] + (margin[j] if j != own else 0.0)
        base = max(base, logits[j])
    top = -np.inf
    for j in range(len(offsets)):
        logits[j] = (logits[j] - base) / temperature + shifts[j]
        top = max(top, logits[j])
    return top


@njit(cache=True, nogil=True)
def fill_shares(scores: Matrix, y: Indices, rule: Logits, shares: Matrix) -> None:
    """Set each row of ``shares`` to the exponentials of the logits, scaled to sum to one."""
    for i in range(len(y)):
        row = shares[i]
        top = _set_logits(scores, i, y[i], rule, row)
        total = 0.0
        for j in range(len(row)):
            row[j] = math.exp(row[j] - top) if row[j] - top > _NEGLIGIBLE else 0.0
            total += row[j]
        for j in range(len(row)):
            row[j] /= total


@njit(cache=True, nogil=True)
def make_slopes(shares: Matrix, y: Indices) -> None:
    """Turn shares into slopes: subtract one from the share of each example's own class.

    As the sum of the other shares, with its sign changed, a small slope keeps all its digits.
    """
    for i in range(len(y)):
        others = 0.0
        for j in range(shares.shape[1]):
            if j != y[i]:
                others += shares[i, j]
        shares[i, y[i]] = -others


@njit(cache=True, nogil=True, error_model="numpy")
def move_shares(shares: Matrix, dropped: Vector, lacking: Vector) -> None:
    """Take from each example a part of its share of each class, and distribute it anew."""
    for i in range(shares.shape[0]):
        lost = 0.0
        for j in range(shares.shape[1]):
            lost += dropped[j] * shares[i, j]
        for j in range(shares.shape[1]):
            shares[i, j] = shares[i, j] * (1.0 - dropped[j]) + lost * lacking[j]


@njit(cache=True, nogil=True)
def class_sums(shares: Matrix, y: Indices, weights: Vector) -> tuple[Vector, Vector]:
    """Return the share that each class has of all weight, and by how much that is too much.

    The latter is a sum of slopes, not a difference of sums, which would round a small one.
    """
    loads, excess = np.zeros(shares.shape[1]), np.zeros(shares.shape[1])
    for i in range(len(y)):
        others = 0.0
        for j in range(len(loads)):
            loads[j] += weights[i] * shares[i, j]
            if j != y[i]:
                excess[j] += weights[i] * shares[i, j]
                others += shares[i, j]
        excess[y[i]] -= weights[i] * others
    return loads, excess


@njit(cache=True, nogil=True)
def sums_of_pairs(shares: Matrix, y: Indices, weights: Vector) -> Matrix:
    """Return the share that each class has of the weight of each true class, a row for each."""
    sums = np.zeros((shares.shape[1], shares.shape[1]))
    for i in range(len(y)):
        of_class, weight = sums[y[i]], weights[i]
        for j in range(shares.shape[1]):
            of_class[j] += weight * shares[i, j]
    return sums


@njit(cache=True, nogil=True)
def fill_slopes(shares: Matrix, y: Indices, weights: Vector, slopes: Matrix) -> None:
    """Set the slopes of shares, as `make_slopes` makes them, times the weights of the examples."""
    for i in range(len(y)):
        for j in range(shares.shape[1]):
            slopes[i, j] = shares[i, j]
        slopes[i, y[i]] = 0.0
        others = 0.0
        for j in range(shares.shape[1]):
            others += slopes[i, j]
        slopes[i, y[i]] = -others
        for j in range(shares.shape[1]):
            slopes[i, j] *= weights[i]


@njit(cache=True, nogil=True)
def decide(
    block: tuple[Matrix, Indices, Vector, Matrix],
    offsets: Vector,
    radius: float,
    keep: NDArray[np.bool_],
) -> tuple[float, float, Vector]:
    """Set ``keep`` where a class comes within ``radius`` of the best.

    Return, of the others, the mean of ``max_j v_ij - v_iy``, the weight of those whose best class
    is not their own, and by how much each class has too much of them.
    """
    scores, y, weights, margins = block
    value, wrong, excess = 0.0, 0.0, np.zeros(len(offsets))
    for i in range(len(y)):
        top, second, best = -np.inf, -np.inf, 0
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(len(offsets)):
            v = scores[i, j] + offsets[j] + (margin[j] if j != y[i] else 0.0)
            if v > top:
                top, second, best = v, top, j
            elif v > second:
                second = v
        keep[i] = top - second < radius and weights[i] > 0.0
        if not keep[i]:
            value += weights[i] * (top - scores[i, y[i]] - offsets[y[i]])
            if best != y[i]:
                wrong += weights[i]
                excess[best] += weights[i]
                excess[y[i]] -= weights[i]
    return value, wrong, excess


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _add_products(by_class: Matrix, weights: Vector, products: Matrix) -> None:
    """Add the weighted products of two classes' shares, summed over a tile of examples."""
    for a in range(len(products)):
        for b in range(a):
            x, z = by_class[a], by_class[b]
            total = 0.0
            for i in range(len(weights)):
                total += weights[i] * x[i] * z[i]
            products[a, b] += total


@njit(cache=True, nogil=True)
def newton_sums(
    scores: Matrix, y: Indices, weights: Vector, rule: Logits
) -> tuple[float, float, float, Vector, Matrix]:
    """Return what a Newton step for the offsets needs, with shares as in `fill_shares`.

    These are the mean of ``max_j v_ij - v_iy``; how much lower it is if the mean weighted by the
    shares takes the place of the maximum; the mean share of classes that are not the own; by how
    much each class has too much; and the mean products of the shares of two classes, of which only
    those below the diagonal are set.
    """
    n_classes, temperature = scores.shape[1], rule[3]
    value, blur, wrong = 0.0, 0.0, 0.0
    excess = np.zeros(n_classes)
    products = np.zeros((n_classes, n_classes))
    share = np.empty(n_classes)
    by_class = np.empty((n_classes, _TILE))
    n = 0
    for i in range(len(y)):
        top = _set_logits(scores, i, y[i], rule, share)
        value += weights[i] * temperature * (top - share[y[i]])
        total, below = 0.0, 0.0
        for j in range(n_classes):
            logit = share[j] - top
            share[j] = math.exp(logit) if logit > _NEGLIGIBLE else 0.0
            total += share[j]
            below -= share[j] * logit
        blur += weights[i] * temperature * below / total
        scale, others = 1.0 / total, 0.0
        for j in range(n_classes):
            share[j] *= scale
            by_class[j, n] = share[j]
            if j != y[i]:
                excess[j] += weights[i] * share[j]
                others += share[j]
        excess[y[i]] -= weights[i] * others
        wrong += weights[i] * others
        n += 1
        if n == _TILE or i == len(y) - 1:
            _add_products(by_class, weights[i + 1 - n : i + 1], products)
            n = 0
    return value, blur, wrong, excess, products


@njit(cache=True, nogil=True)
def largest(v: Vector) -> float:
    """Return the maximum, by four at a time: each waits for its own last comparison only."""
    rest = len(v) - len(v) % 4
    first = second = third = fourth = v[0]
    for j in range(0, rest, 4):
        first, second = max(first, v[j]), max(second, v[j + 1])
        third, fourth = max(third, v[j + 2]), max(fourth, v[j + 3])
    for j in range(rest, len(v)):
        first = max(first, v[j])
    highest: float = max(max(first, second), max(third, fourth))
    return highest


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def softmax_on_ray(
    scores: Matrix, offsets: Vector, direction: Matrix, speeds: Vector, step: float,
    y: Indices, weights: Vector, margins: Matrix,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the softmax loss at ``scores + step * direction``, and its derivatives by the step."""
    value, first, second = 0.0, 0.0, 0.0
    n_classes = len(offsets)
    v, speed, part = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for i in range(len(y)):
        if weights[i] == 0.0:
            continue
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n_classes):
            speed[j] = direction[i, j] + speeds[j]
            v[j] = scores[i, j] + offsets[j] + step * speed[j] + margin[j]
        v[y[i]] = scores[i, y[i]] + offsets[y[i]] + step * speed[y[i]]
        highest = largest(v)
        top = 0
        while top < n_classes - 1 and v[top] != highest:
            top += 1
        for j in range(n_classes):
            part[j] = exp_minus(highest - v[j])
        # The others' sum apart from the largest term, so that a small loss keeps its digits.
        part[top] = 0.0
        others, mean, square = 0.0, 0.0, 0.0
        for j in range(n_classes):
            # Relative to the largest, so that the second moment does not cancel.
            ahead = speed[j] - speed[top]
            others += part[j]
            mean += part[j] * ahead
            square += part[j] * ahead * ahead
        mean /= 1.0 + others
        square /= 1.0 + others
        value += weights[i] * (math.log1p(others) + (highest - v[y[i]]))
        first += weights[i] * (mean + (speed[top] - speed[y[i]]))
        second += weights[i] * max(square - mean * mean, 0.0)
    return value, first, second


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def minus_entropy(slopes: Matrix, y: Indices, weights: Vector) -> float:
    """Return the weighted sum of ``sum_j P_j log P_j``, given the slopes ``P - e_y``."""
    total = 0.0
    for i in range(len(y)):
        others = 0.0
        for j in range(slopes.shape[1]):
            share = max(slopes[i, j], 0.0)  # the slope of the own class is not positive
            others += share * log(max(share, 1e-300))
        own = max(slopes[i, y[i]], -1.0)
        if own > -1.0:
            others += (1.0 + own) * math.log1p(own)
        total += weights[i] * others
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def mean_margin(slopes: Matrix, y: Indices, weights: Vector, margins: Matrix) -> float:
    """Return the weighted sum of the mean margins of shares, given the slopes ``P - e_y``."""
    total = 0.0
    for i in range(len(y)):
        margin = margins[y[i] if len(margins) > 1 else 0]
        mean = 0.0
        for j in range(slopes.shape[1]):
            mean += slopes[i, j] * margin[j]
        # The own class has no margin.
        total += weights[i] * (mean - slopes[i, y[i]] * margin[y[i]])
    return total


@njit(cache=True, nogil=True)
def hinge_on_ray(
    scores: Matrix, offsets: Vector, direction: Matrix, speeds: Vector, step: float,
    y: Indices, weights: Vector, margins: Matrix,
) -> tuple[float, float]:  # fmt: skip
    """Return the loss of Crammer and Singer at ``scores + step * direction``, and its slope."""
    value, slope = 0.0, 0.0
    n_classes = len(offsets)
    v = np.empty(n_classes)
    for i in range(len(y)):
        if weights[i] == 0.0:
            continue
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n_classes):
            v[j] = scores[i, j] + offsets[j] + step * (direction[i, j] + speeds[j]) + margin[j]
        own = scores[i, y[i]] + offsets[y[i]] + step * (direction[i, y[i]] + speeds[y[i]])
        v[y[i]] = own
        top = largest(v)
        if top > own:
            best = 0
            while v[best] != top:
                best += 1
            value += weights[i] * (top - own)
            slope += weights[i] * (
                (direction[i, best] + speeds[best]) - (direction[i, y[i]] + speeds[y[i]])
            )
    return value, slope
