"""Compiled steps of dual ascent on a kernel matrix: on pairs of duals, or on single ones.

The dual of a loss made of straight pieces, times -1, is

    F(q) = sum_i c_i(q_i) + q'Kq / (2 lam),        lower <= q <= upper

with ``c_i(q) = up_i*q`` above zero and ``down_i*q`` below. ``g = K q / lam``, the scores with a
minus sign, is kept up to date.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

Form: TypeAlias = tuple[Matrix, Vector, float]
"""The matrix ``K``, its diagonal, and ``lam``."""

Costs: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""``lower``, ``upper``, and what a dual costs above (``up``) and below zero (``down``)."""

Duals: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""``q`` and ``g``, and the costs of each dual as it rises and as it falls."""

# Pairs of equal examples have no curvature at all: their step ends at a bound.
_FLAT = 1e-12


@njit(cache=True, nogil=True, inner=True)
def _set_slopes(k: int, costs: Costs, duals: Duals) -> None:
    """Write what a dual costs as it rises (infinite at its upper end), and saves as it falls."""
    (lower, upper, up, down), (q, _, rise, fall) = costs, duals
    rise[k] = np.inf if q[k] >= upper[k] else (up[k] if q[k] >= 0.0 else down[k])
    fall[k] = -np.inf if q[k] <= lower[k] else (up[k] if q[k] > 0.0 else down[k])


@njit(cache=True, nogil=True)
def begin(costs: Costs, duals: Duals) -> None:
    """Write the slopes of all duals."""
    for k in range(len(duals[0])):
        _set_slopes(k, costs, duals)


@njit(cache=True, nogil=True, error_model="numpy")
def pair_steps(form: Form, costs: Costs, duals: Duals, accuracy: float, most: int) -> int:
    """Improve pairs of duals whose sum stays the same.

    Return how many steps were taken: fewer than ``most`` if none is left to take.
    The first of a pair is the one whose slope is the lowest, the second promises the most by the
    second derivative (Fan, Chen and Lin 2005).
    """
    (matrix, diagonal, lam), (lower, upper, up, down) = form, costs
    q, g, rise, fall = duals
    m = len(q)
    i, lowest = -1, np.inf
    for k in range(m):
        if g[k] + rise[k] < lowest:
            lowest, i = g[k] + rise[k], k
    for step in range(most):
        if i < 0:
            return step
        j, most_gain, highest = -1, 0.0, -np.inf
        own = diagonal[i]
        for k in range(m):
            slope = g[k] + fall[k]
            if slope > lowest:
                if slope > highest:
                    highest = slope
                curvature = own + diagonal[k] - 2.0 * matrix[i, k]
                if curvature < _FLAT:
                    curvature = _FLAT
                difference = slope - lowest
                gain = difference * difference / curvature
                if gain > most_gain:
                    most_gain, j = gain, k
        if j < 0 or highest - lowest <= accuracy:
            return step
        curvature = max(own + diagonal[j] - 2.0 * matrix[i, j], _FLAT)
        length = (g[j] + fall[j] - lowest) * lam / curvature
        # A dual stops at zero if its cost has a kink there, else at the end of its range.
        end_i = 0.0 if q[i] < 0.0 and up[i] > down[i] else upper[i]
        end_j = 0.0 if q[j] > 0.0 and up[j] > down[j] else lower[j]
        room_i, room_j = end_i - q[i], q[j] - end_j
        length = min(length, room_i, room_j)
        q[i] = end_i if length >= room_i else q[i] + length
        q[j] = end_j if length >= room_j else q[j] - length
        _set_slopes(i, costs, duals)
        _set_slopes(j, costs, duals)
        change = length / lam
        a, b = i, j
        i, lowest = -1, np.inf
        for k in range(m):
            g[k] += change * (matrix[a, k] - matrix[b, k])
            slope = g[k] + rise[k]
            if slope < lowest:
                lowest, i = slope, k
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def single_steps(form: Form, costs: Costs, duals: Duals, accuracy: float, most: int) -> int:
    """Improve single duals, for models without an intercept: each time the one to gain most.

    Return the same as `pair_steps`.
    """
    (matrix, diagonal, lam), (lower, upper, up, down) = form, costs
    q, g, rise, fall = duals
    m = len(q)
    for step in range(most):
        i, most_gain, violation = -1, 0.0, 0.0
        for k in range(m):
            slope = -min(g[k] + rise[k], 0.0)
            slope = max(slope, g[k] + fall[k])
            if slope > 0.0:
                violation = max(violation, slope)
                gain = slope * slope / max(diagonal[k], _FLAT)
                if gain > most_gain:
                    most_gain, i = gain, k
        if i < 0 or violation <= accuracy:
            return step
        curvature = max(diagonal[i], _FLAT) / lam
        if g[i] + rise[i] < 0.0:
            end = 0.0 if q[i] < 0.0 and up[i] > down[i] else upper[i]
            aim = min(q[i] - (g[i] + rise[i]) / curvature, end)
        else:
            end = 0.0 if q[i] > 0.0 and up[i] > down[i] else lower[i]
            aim = max(q[i] - (g[i] + fall[i]) / curvature, end)
        change = (aim - q[i]) / lam
        q[i] = aim
        _set_slopes(i, costs, duals)
        for k in range(m):
            g[k] += change * matrix[i, k]
    return most
