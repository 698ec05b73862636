"""The equations of the kinks on which a solution sits, with the inverse of their matrix.

The *members* are the kinks on which the solution sits. Their equations are

    sum_j theta_j = -u total          all duals sum to zero (if there is an intercept)
    c - sum_j (x_i.x_j) theta_j = kink_i + u x_i.pull         for each member i

with ``theta = u * dual``, and ``total`` and ``pull`` the sums of the duals of all others and of
their rows. The inverse of this symmetric matrix is kept: a member more or less changes it by a
matrix of rank one. Solutions are refined once with the matrix itself, which also tells when the
inverse has to be made anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import REORDER, njit

Numbers = NDArray[np.int64]

_SMALLEST_RATE = 1e-7


@njit(cache=True, nogil=True)
def product(csr: Any, row: int, vector: Vector) -> float:
    """Return the product of a row and a vector."""
    values, indices, starts = csr
    one = two = three = four = 0.0  # sums that do not wait for each other
    e, end = starts[row], starts[row + 1]
    while e + 3 < end:
        one += values[e] * vector[indices[e]]
        two += values[e + 1] * vector[indices[e + 1]]
        three += values[e + 2] * vector[indices[e + 2]]
        four += values[e + 3] * vector[indices[e + 3]]
        e += 4
    while e < end:
        one += values[e] * vector[indices[e]]
        e += 1
    return (one + two) + (three + four)


@njit(cache=True, nogil=True)
def add(csr: Any, row: int, factor: float, vector: Vector) -> None:
    """Add a multiple of a row to a vector."""
    values, indices, starts = csr
    for e in range(starts[row], starts[row + 1]):
        vector[indices[e]] += factor * values[e]


@njit(cache=True, nogil=True, fastmath=REORDER)
def row_times(row: Vector, vector: Vector, size: int) -> float:
    """Return the product of the first numbers of two vectors."""
    total = 0.0
    for b in range(size):
        total += row[b] * vector[b]
    return total


@njit(cache=True, nogil=True)
def solve(matrix: Matrix, inverse: Matrix, right: Vector, size: int, out: Vector) -> float:
    """Write the solution, refined once; return how far off it was before, relative."""
    rest = np.empty(size)
    worst = top = 0.0
    for a in range(size):
        out[a] = row_times(inverse[a], right, size)
        top = max(top, abs(right[a]))
    for a in range(size):
        rest[a] = right[a] - row_times(matrix[a], out, size)
        worst = max(worst, abs(rest[a]))
    for a in range(size):
        out[a] += row_times(inverse[a], rest, size)
    return worst / top if top > 0.0 else 0.0


@njit(cache=True, nogil=True)
def beside(
    csr: Any,
    rows: Numbers,
    members: Numbers,
    n: int,
    first: int,
    matrix: Matrix,
    inverse: Matrix,
    row: int,
    dense: Vector,
    column: Vector,
    mixture: Vector,
) -> float:
    """Write a row's column of the matrix, and the mixture of members that is next to it.

    Return what is left, times -1: the squared distance from the mixture.
    """
    size = first + n
    add(csr, row, 1.0, dense)
    if first:
        column[0] = 1.0
    for p in range(n):
        column[first + p] = -product(csr, rows[members[p]], dense)
    column[size] = -product(csr, row, dense)
    indices, starts = csr[1], csr[2]
    for e in range(starts[row], starts[row + 1]):
        dense[indices[e]] = 0.0
    solve(matrix, inverse, column, size, mixture)
    return float(column[size] - row_times(mixture, column, size))


@njit(cache=True, nogil=True)
def enter(
    matrix: Matrix, inverse: Matrix, size: int, column: Vector, mixture: Vector, left: float
) -> None:
    """Add a row and column, and the same for the inverse."""
    for a in range(size):
        matrix[a, size] = matrix[size, a] = column[a]
        share = mixture[a] / left
        for b in range(size):
            inverse[a, b] += share * mixture[b]
        inverse[a, size] = inverse[size, a] = -share
    matrix[size, size] = column[size]
    inverse[size, size] = 1.0 / left


@njit(cache=True, nogil=True)
def leave(matrix: Matrix, inverse: Matrix, size: int, r: int, column: Vector) -> bool:
    """Take out row and column ``r``; the last one takes its place."""
    pivot, last = inverse[r, r], size - 1
    if pivot == 0.0:
        return False
    for a in range(size):
        column[a] = inverse[a, r]
    for a in range(size):
        share = column[a] / pivot
        for b in range(size):
            inverse[a, b] -= share * column[b]
    for a in range(size):
        inverse[a, r] = inverse[a, last]
        matrix[a, r] = matrix[a, last]
    for a in range(size):
        inverse[r, a] = inverse[last, a]
        matrix[r, a] = matrix[last, a]
    return True


@njit(cache=True, nogil=True)
def settle(
    csr: Any, rows: Numbers, kinks: Vector, equations: tuple[Matrix, Matrix, int],
    others: tuple[Vector, float], u: float, theta: Vector, w: Vector,
) -> tuple[float, float]:  # fmt: skip
    """Write duals and parameters for given members; return the intercept, and how exact it is."""
    (matrix, inverse, first), (pull, total) = equations, others
    n = len(rows)
    right, out = np.empty(first + n), np.empty(first + n)
    if first:
        right[0] = -u * total
    for p in range(n):
        right[first + p] = kinks[p] + u * product(csr, rows[p], pull)
    off = solve(matrix, inverse, right, first + n, out)
    w[:] = -u * pull
    for p in range(n):
        theta[p] = out[first + p]
        add(csr, rows[p], -theta[p], w)
    return (out[0] if first else 0.0), off


@njit(cache=True, nogil=True)
def members_matrix(csr: Any, rows: Numbers, first: int, d: int, matrix: Matrix) -> None:
    """Write the matrix of the members' equations."""
    n = len(rows)
    matrix[0, 0] = 0.0
    dense = np.zeros(d)
    for p in range(n):
        dense[:] = 0.0
        add(csr, rows[p], 1.0, dense)
        for q in range(p + 1):
            entry = -product(csr, rows[q], dense)
            matrix[first + p, first + q] = matrix[first + q, first + p] = entry
        if first:
            matrix[0, 1 + p] = matrix[1 + p, 0] = 1.0


@njit(cache=True, nogil=True)
def most_off(csr: Any, rows: Numbers, kinks: Vector, w: Vector, c: float) -> float:
    """Return how far scores of members are from their kinks at most."""
    worst = 0.0
    for p in range(len(rows)):
        worst = max(worst, abs(product(csr, rows[p], w) + c - kinks[p]))
    return worst


@njit(cache=True, nogil=True)
def within_reach(z: Vector, kink: Vector, side: Numbers, ahead: Vector, margin: Vector) -> Numbers:
    """Return which kinks may be reached, if scores go ``ahead``, or astray by a margin."""
    near, n = np.empty(len(z), dtype=np.int64), 0
    for i in range(len(z)):
        here = side[i] * (z[i] - kink[i])
        if min(here, here + side[i] * ahead[i]) <= margin[i]:
            near[n] = i
            n += 1
    return near[:n].copy()


@njit(cache=True, nogil=True)
def ranges_of_knots(
    csr: Any,
    knots: Matrix,
    marks: Matrix,
    reach: Vector,
    spread: Vector,
    lower: Vector,
    upper: Vector,
) -> None:
    """Write the least and the largest score of each row on the way along knots.

    ``knots`` has a row for each feature; ``marks`` are the intercepts, and how far parameters and
    centered intercept are at most away from the way that is straight from knot to knot. ``spread``
    is the same for the straight way from the first to the last: a row whose sign is certain with
    that gets such a range.
    """
    values, indices, starts = csr
    last = knots.shape[1] - 1
    scores = np.empty(last + 1)
    for i in range(len(lower)):
        one, two = marks[0, 0], marks[0, last]
        for e in range(starts[i], starts[i + 1]):
            one += values[e] * knots[indices[e], 0]
            two += values[e] * knots[indices[e], last]
        away = spread[0] * reach[i] + spread[1]
        lower[i], upper[i] = min(one, two) - away, max(one, two) + away
        if lower[i] > 0.0 or upper[i] < 0.0:
            continue
        scores[:] = marks[0]
        for e in range(starts[i], starts[i + 1]):
            value, of_feature = values[e], knots[indices[e]]
            for k in range(last + 1):
                scores[k] += value * of_feature[k]
        least, largest = np.inf, -np.inf
        for k in range(last + 1):
            away = marks[1, k] * reach[i] + marks[2, k]
            least, largest = min(least, scores[k] - away), max(largest, scores[k] + away)
        lower[i], upper[i] = least, largest


@njit(cache=True, nogil=True)
def exchanged(
    near: Any, duals: tuple[Numbers, Vector], mixture: Vector, n: int, first: int, u: float, i: int
) -> tuple[int, float]:
    """Move duals along a dependency of rows until one is at an end; return whose, and how far.

    Neither parameters nor intercept change. It is that of the kink ``i`` itself if the number of
    the member is -1.
    """
    low, high, side = near[5], near[6], near[7]
    members, theta = duals
    room, out = u * (high[i] - low[i]), -1
    for p in range(n):
        rate = side[i] * mixture[first + p]
        if abs(rate) >= _SMALLEST_RATE:
            end = high[members[p]] if rate > 0.0 else low[members[p]]
            here = max((u * end - theta[p]) / rate, 0.0)
            if here < room:
                room, out = here, p
    for p in range(n):
        theta[p] += side[i] * mixture[first + p] * room
    return out, room
