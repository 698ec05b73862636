"""Compiled loops of Newton's method on the smoothed losses of all classes.

``v_ij = z_ij + c_j + margins_yj * [j != y_i]`` is what speaks for class j (softmax has no margins,
unless there are costs; see `losses.multiclass.kernels`). Shares are

    softmax             P = exp(v) / sum exp(v)
    Crammer, Singer     P = projection of ``center + v / width`` to the simplex

of which the second is the derivative of ``max_P P.v - width/2 |P - center|^2``, the maximum of
``v`` with its kinks rounded. Each kernel does one block of rows.
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.losses.multiclass.kernels import Indices, largest
from cutplane.losses.pointwise.logistic_kernels import exp_minus

_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def _soften(v: Vector, own: int, share: Vector) -> float:
    """Set the shares of softmax; return the loss."""
    top = largest(v)
    for j in range(len(v)):
        share[j] = exp_minus(top - v[j])
    total = 0.0
    for j in range(len(v)):
        total += share[j]
    scale = 1.0 / total
    for j in range(len(v)):
        share[j] *= scale
    loss: float = np.log(total) + (top - v[own])
    return loss


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def _project(v: Vector, own: int, center: Vector, width: float, share: Vector) -> float:
    """Set the shares of the rounded maximum; return the loss."""
    n = len(v)
    scale, top = 1.0 / width, largest(v)
    # Relative to the highest, so that a small width leaves no large numbers to cancel.
    for j in range(n):
        share[j] = center[j] + scale * (v[j] - top)
    # The level above which shares sum to one; it rises as classes drop out. All loops go through
    # all classes, without branches: vectors make that faster than a list of the few that count.
    level = largest(share) - 1.0
    while True:
        total, count = 0.0, 0.0
        for j in range(n):
            above = share[j] - level
            total += above if above > 0.0 else 0.0
            count += 1.0 if above > 0.0 else 0.0
        higher = level + (total - 1.0) / count
        if not higher > level:
            break
        level = higher
    for j in range(n):
        above = share[j] - level
        share[j] = above if above > 0.0 else 0.0
    total = 0.0
    for j in range(n):
        total += share[j]
    scale, mean, moved = 1.0 / total, 0.0, 0.0
    for j in range(n):
        share[j] *= scale
    for j in range(n):
        mean += share[j] * (v[j] - v[own])
        moved += (share[j] - center[j]) ** 2
    return mean - 0.5 * width * moved


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def shares_on_ray(
    scores: Matrix, offsets: Vector, direction: Matrix, speeds: Vector, step: float,
    y: Indices, weights: Vector, margins: Matrix, centers: Matrix, width: float, shares: Matrix,
) -> tuple[float, float]:  # fmt: skip
    """Set the shares at ``scores + step * direction``; return smoothed loss and slope by the step.

    With a width of zero the loss is softmax, and there are no centers.
    """
    n = len(offsets)
    v = np.empty(n)
    value, slope = 0.0, 0.0
    for i in range(len(y)):
        own = y[i]
        margin = margins[own if len(margins) > 1 else 0]
        for j in range(n):
            v[j] = scores[i, j] + offsets[j] + margin[j] + step * (direction[i, j] + speeds[j])
        v[own] -= margin[own]
        if width > 0.0:
            value += weights[i] * _project(v, own, centers[i], width, shares[i])
        else:
            value += weights[i] * _soften(v, own, shares[i])
        along = 0.0
        for j in range(n):
            ahead = (direction[i, j] + speeds[j]) - (direction[i, own] + speeds[own])
            along += shares[i, j] * ahead
        slope += weights[i] * along
    return value, slope


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def fill_bends(shares: Matrix, weights: Vector, width: float, bends: Matrix) -> None:
    """Set how much the loss of each example bends along the score of each class."""
    for i in range(len(weights)):
        count = 0
        if width > 0.0:
            for j in range(shares.shape[1]):
                count += shares[i, j] > 0.0
        for j in range(shares.shape[1]):
            share = shares[i, j]
            if width == 0.0:
                bends[i, j] = weights[i] * share * (1.0 - share)
            elif share > 0.0:
                bends[i, j] = weights[i] / width * (1.0 - 1.0 / count)
            else:
                bends[i, j] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def bend(shares: Matrix, weights: Vector, width: float, shifts: Vector, speeds: Matrix) -> None:
    """Multiply speeds of scores by second derivatives, in place: how fast the slopes change.

    The ``shifts`` are speeds of intercepts, to be added to those of the scores.
    """
    n = shares.shape[1]
    for i in range(len(weights)):
        mean, count = 0.0, 0
        if width > 0.0:
            for j in range(n):
                if shares[i, j] > 0.0:
                    mean += speeds[i, j] + shifts[j]
                    count += 1
            mean /= count
            for j in range(n):
                change = weights[i] / width * (speeds[i, j] + shifts[j] - mean)
                speeds[i, j] = change if shares[i, j] > 0.0 else 0.0
        else:
            for j in range(n):
                mean += shares[i, j] * (speeds[i, j] + shifts[j])
            for j in range(n):
                speeds[i, j] = weights[i] * shares[i, j] * (speeds[i, j] + shifts[j] - mean)


@njit(cache=True, nogil=True)
def add_bends_of_pairs(shares: Matrix, weights: Vector, width: float, bends: Matrix) -> None:
    """Add the second derivatives by the intercepts of two classes, where kinks are rounded."""
    n = shares.shape[1]
    classes = np.empty(n, dtype=np.int64)
    for i in range(len(weights)):
        count = 0
        for j in range(n):
            if shares[i, j] > 0.0:
                classes[count] = j
                count += 1
        change = weights[i] / width
        for a in range(count):
            bends[classes[a], classes[a]] += change
            for b in range(count):
                bends[classes[a], classes[b]] -= change / count


@njit(cache=True, nogil=True)
def add_rows(values: Matrix, sums: Vector) -> None:
    """Add all rows to the sums."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            sums[j] += values[i, j]
