"""Compiled loops over rows of scores, one column an output; each does one block of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

Relevant = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def quantiles_on_ray(
    quantiles: Vector,
    penalty: float,
    step: float,
    y: Vector,
    scores: Matrix,
    direction: Matrix,
    weights: Vector,
) -> tuple[float, float]:
    """Return the weighted sum of pinball losses and crossings, and its derivative by the step."""
    value = slope = 0.0
    for i in range(len(y)):
        own_value = own_slope = 0.0
        last = last_speed = 0.0
        for k in range(len(quantiles)):
            z, speed = scores[i, k] + step * direction[i, k], direction[i, k]
            factor = 1.0 - quantiles[k] if z > y[i] else -quantiles[k]
            own_value += factor * (z - y[i])
            own_slope += factor * speed
            if k > 0 and last > z:
                own_value += penalty * (last - z)
                own_slope += penalty * (last_speed - speed)
            last, last_speed = z, speed
        value += weights[i] * own_value
        slope += weights[i] * own_slope
    return value, slope


@njit(cache=True, nogil=True)
def quantile_slopes(
    quantiles: Vector, penalty: float, y: Vector, scores: Matrix, weights: Vector, out: Matrix
) -> float:
    """Set the derivatives by the scores, weighted, and return the offset of the tangent."""
    offset = 0.0
    for i in range(len(y)):
        for k in range(len(quantiles)):
            factor = 1.0 - quantiles[k] if scores[i, k] > y[i] else -quantiles[k]
            out[i, k] = weights[i] * factor
            offset -= weights[i] * factor * y[i]
            if k > 0 and scores[i, k - 1] > scores[i, k]:
                out[i, k - 1] += weights[i] * penalty
                out[i, k] -= weights[i] * penalty
    return offset


@njit(cache=True, nogil=True)
def _worst_pair(relevant: Any, scores: Any, direction: Any, step: float, i: int) -> Any:
    """Return what should be ranked above what but is not: the lowest relevant, the highest other.

    -1 stands for the label of score zero. The worst of three pairs is returned: both of these, and
    each of them with that label.
    """
    low, high = -1, -1
    lowest, highest = np.inf, -np.inf
    for k in range(scores.shape[1]):
        z = scores[i, k] + step * direction[i, k]
        if relevant[i, k]:
            if z < lowest:
                lowest, low = z, k
        elif z > highest:
            highest, high = z, k
    if high >= 0 and (low < 0 or (lowest >= 0.0 and -lowest <= highest)):
        low, lowest = -1, 0.0
    elif low >= 0 and (high < 0 or highest <= 0.0):
        high, highest = -1, 0.0
    return low, high, highest - lowest


@njit(cache=True, nogil=True)
def worst_pair_on_ray(
    step: float, relevant: Relevant, scores: Matrix, direction: Matrix, weights: Vector
) -> tuple[float, float]:
    """Return the weighted sum of the worst pairs' losses, and its derivative by the step."""
    value = slope = 0.0
    for i in range(len(weights)):
        low, high, excess = _worst_pair(relevant, scores, direction, step, i)
        if 1.0 + excess > 0.0:
            value += weights[i] * (1.0 + excess)
            if high >= 0:
                slope += weights[i] * direction[i, high]
            if low >= 0:
                slope -= weights[i] * direction[i, low]
    return value, slope


@njit(cache=True, nogil=True)
def worst_pair_slopes(relevant: Relevant, scores: Matrix, weights: Vector, out: Matrix) -> float:
    """Set the derivatives by the scores, weighted, and return the offset of the tangent."""
    offset = 0.0
    for i in range(len(weights)):
        for k in range(scores.shape[1]):
            out[i, k] = 0.0
        low, high, excess = _worst_pair(relevant, scores, scores, 0.0, i)
        if 1.0 + excess > 0.0:
            offset += weights[i]
            if high >= 0:
                out[i, high] = weights[i]
            if low >= 0:
                out[i, low] = -weights[i]
    return offset


@njit(cache=True, nogil=True)
def _deal(relevant: Any, i: int, above: Any, below: Any) -> Any:
    """Set the numbers of the labels that belong above and below, and return how many there are.

    A label of score zero belongs to both; its number is one more than the last.
    """
    n_above = n_below = 0
    for k in range(relevant.shape[1]):
        if relevant[i, k]:
            above[n_above] = k
            n_above += 1
        else:
            below[n_below] = k
            n_below += 1
    above[n_above] = below[n_below] = relevant.shape[1]
    return n_above + 1, n_below + 1


@njit(cache=True, nogil=True)
def all_pairs_on_ray(
    step: float, relevant: Relevant, scores: Matrix, direction: Matrix, weights: Vector
) -> tuple[float, float]:
    """Return the weighted sum of the mean losses of pairs, and its derivative by the step."""
    n_labels = scores.shape[1]
    above, below = np.empty(n_labels + 1, np.int64), np.empty(n_labels + 1, np.int64)
    z, speed = np.zeros(n_labels + 1), np.zeros(n_labels + 1)  # of the last label: zero
    value = slope = 0.0
    for i in range(len(weights)):
        for k in range(n_labels):
            z[k], speed[k] = scores[i, k] + step * direction[i, k], direction[i, k]
        n_above, n_below = _deal(relevant, i, above, below)
        weight = weights[i] / (n_above * n_below - 1)
        for a in above[:n_above]:
            for b in below[:n_below]:
                if a != b and 1.0 + z[b] - z[a] > 0.0:
                    value += weight * (1.0 + z[b] - z[a])
                    slope += weight * (speed[b] - speed[a])
    return value, slope


@njit(cache=True, nogil=True)
def all_pairs_slopes(relevant: Relevant, scores: Matrix, weights: Vector, out: Matrix) -> float:
    """Set the derivatives by the scores, weighted, and return the offset of the tangent."""
    n_labels = scores.shape[1]
    above, below = np.empty(n_labels + 1, np.int64), np.empty(n_labels + 1, np.int64)
    z, slope = np.zeros(n_labels + 1), np.zeros(n_labels + 1)
    offset = 0.0
    for i in range(len(weights)):
        for k in range(n_labels):
            z[k], slope[k] = scores[i, k], 0.0
        n_above, n_below = _deal(relevant, i, above, below)
        weight = weights[i] / (n_above * n_below - 1)
        for a in above[:n_above]:
            for b in below[:n_below]:
                if a != b and 1.0 + z[b] - z[a] > 0.0:
                    slope[b] += weight
                    slope[a] -= weight
                    offset += weight
        for k in range(n_labels):
            out[i, k] = slope[k]
    return offset
