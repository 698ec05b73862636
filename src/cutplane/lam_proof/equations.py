"""The equations of a path of kinks, with their compiled loops.

The equations of the kinks on which a solution sits, with the inverse of their matrix.

The *members* are the kinks on which the solution sits. Their equations are

    sum_j theta_j = -u total          all duals sum to zero (if there is an intercept)
    c - sum_j (x_i.x_j) theta_j = kink_i + u x_i.pull         for each member i

with ``theta = u * dual``, and ``total`` and ``pull`` the sums of the duals of all others and of
their rows. The inverse of this symmetric matrix is kept: a member more or less changes it by a
matrix of rank one. Solutions are refined once with the matrix itself, which also tells when the
inverse has to be made again.

The compiled part of `cutplane.lam_proof.path`: from one change of the active set to the next.

The equations of the *members*, the kinks on which the solution sits, are those of
`cutplane.lam_proof.equations`.

"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import REORDER, njit
from cutplane.data.rows import Entries

Numbers = NDArray[np.int64]


class Equations(NamedTuple):
    """The matrix of the members' equations, its inverse, and whether there is an intercept."""

    matrix: Matrix
    inverse: Matrix
    first: int


class Near(NamedTuple):
    """What is known of the kinks that may be reached.

    Attributes
    ----------
    rows, z, kink : ndarray
        Their rows, the scores of these, and the kinks.
    moves : ndarray
        How fast kinks move.
    truth : ndarray
        Where they truly are.
    low, high : ndarray
        The least and the largest dual.
    side : ndarray
        Of the score.
    reach : ndarray
        The length of the row.
    worst : ndarray
        The largest distance on the wrong side.
    """

    rows: Numbers
    z: Vector
    kink: Vector
    moves: Vector
    truth: Vector
    low: Vector
    high: Vector
    side: Numbers
    reach: Vector
    worst: Vector


class Line(NamedTuple):
    """The line along which the way should go, and how far from it the way may be.

    Attributes
    ----------
    along : ndarray
        How parameters change along it.
    c : float
        How the intercept does.
    mean : ndarray
        The mean row.
    most : ndarray
        How far parameters and centered intercept may be from it.
    narrow : ndarray
        The same from the line between two knots.
    """

    along: Vector
    c: float
    mean: Vector
    most: Vector
    narrow: Vector


@njit(cache=True, nogil=True)
def product(csr: Entries, row: int, vector: Vector) -> float:
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
def add(csr: Entries, row: int, factor: float, vector: Vector) -> None:
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
def solve(equations: Equations, right: Vector, size: int, out: Vector) -> float:
    """Write the solution, refined once; return how far off it was before, relative."""
    matrix, inverse, _ = equations
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
    csr: Entries, rows: Numbers, equations: Equations, row: int, dense: Vector, column: Vector,
    mixture: Vector,
) -> float:  # fmt: skip
    """Write a row's column of the matrix, and the mixture of members that is next to it.

    ``rows`` are those of the members. Return what is left, times -1: the squared distance from the
    mixture.
    """
    first, n = equations.first, len(rows)
    size = first + n
    add(csr, row, 1.0, dense)
    if first:
        column[0] = 1.0
    for p in range(n):
        column[first + p] = -product(csr, rows[p], dense)
    column[size] = -product(csr, row, dense)
    indices, starts = csr[1], csr[2]
    for e in range(starts[row], starts[row + 1]):
        dense[indices[e]] = 0.0
    solve(equations, column, size, mixture)
    return float(column[size] - row_times(mixture, column, size))


@njit(cache=True, nogil=True)
def enter(equations: Equations, size: int, column: Vector, mixture: Vector, left: float) -> None:
    """Add a row and column, and the same for the inverse."""
    matrix, inverse, _ = equations
    for a in range(size):
        matrix[a, size] = matrix[size, a] = column[a]
        share = mixture[a] / left
        for b in range(size):
            inverse[a, b] += share * mixture[b]
        inverse[a, size] = inverse[size, a] = -share
    matrix[size, size] = column[size]
    inverse[size, size] = 1.0 / left


@njit(cache=True, nogil=True)
def leave(equations: Equations, size: int, r: int, column: Vector) -> bool:
    """Take out row and column ``r``; the last one takes its place."""
    matrix, inverse, _ = equations
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
    csr: Entries, rows: Numbers, kinks: Vector, equations: Equations,
    others: tuple[Vector, float], u: float, theta: Vector, w: Vector,
) -> tuple[float, float]:  # fmt: skip
    """Write duals and parameters for given members; return the intercept, and how exact it is."""
    first, (pull, total) = equations.first, others
    n = len(rows)
    right, out = np.empty(first + n), np.empty(first + n)
    if first:
        right[0] = -u * total
    for p in range(n):
        right[first + p] = kinks[p] + u * product(csr, rows[p], pull)
    off = solve(equations, right, first + n, out)
    w[:] = -u * pull
    for p in range(n):
        theta[p] = out[first + p]
        add(csr, rows[p], -theta[p], w)
    return (out[0] if first else 0.0), off


@njit(cache=True, nogil=True)
def members_matrix(csr: Entries, rows: Numbers, d: int, equations: Equations) -> None:
    """Write the matrix of the members' equations."""
    matrix, _, first = equations
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
def most_off(csr: Entries, rows: Numbers, kinks: Vector, w: Vector, c: float) -> float:
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
    csr: Entries, knots: Matrix, marks: Matrix, reach: Vector, spread: Vector
) -> Matrix:
    """Return the least and the largest score of each row on the way along knots.

    ``knots`` has a row for each feature; ``marks`` are the intercepts, and how far parameters and
    centered intercept are at most away from the way that is straight from knot to knot. ``spread``
    is the same for the straight way from the first to the last: a row whose sign is certain with
    that gets such a range.
    """
    values, indices, starts = csr
    last = knots.shape[1] - 1
    scores, out = np.empty(last + 1), np.empty((2, len(reach)))
    for i in range(len(reach)):
        one, two = marks[0, 0], marks[0, last]
        for e in range(starts[i], starts[i + 1]):
            one += values[e] * knots[indices[e], 0]
            two += values[e] * knots[indices[e], last]
        away = spread[0] * reach[i] + spread[1]
        out[0, i], out[1, i] = min(one, two) - away, max(one, two) + away
        if out[0, i] > 0.0 or out[1, i] < 0.0:
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
        out[0, i], out[1, i] = least, largest
    return out


@njit(cache=True, nogil=True)
def exchanged(
    near: Near, members: Numbers, theta: Vector, mixture: Vector, u: float, i: int
) -> tuple[int, float]:
    """Move duals along a dependency of rows until one is at an end; return whose, and how far.

    Neither parameters nor intercept change. It is that of the kink ``i`` itself if the number of
    the member is -1. The ``mixture`` has a number for each member.
    """
    low, high, side = near.low, near.high, near.side
    room, out = u * (high[i] - low[i]), -1
    for p in range(len(members)):
        rate = side[i] * mixture[p]
        if abs(rate) >= 1e-7:
            end = high[members[p]] if rate > 0.0 else low[members[p]]
            here = max((u * end - theta[p]) / rate, 0.0)
            if here < room:
                room, out = here, p
    for p in range(len(members)):
        theta[p] += side[i] * mixture[p] * room
    return out, room


# Why a part of the way ended.
REACHED, STRAYED, INACCURATE, LONG, FULL, STUCK, RENEWED = range(7)


@njit(cache=True, nogil=True, fastmath=REORDER)
def _length(vector: Vector, step: float, change: Vector, line: Vector) -> float:
    total = 0.0
    for j in range(len(vector)):
        each = vector[j] + step * (change[j] - line[j])
        total += each * each
    return float(np.sqrt(total))


@njit(cache=True, nogil=True)
def _share_until(start: Vector, change: Vector, line: Vector, step: float, most: float) -> float:
    """Return a share of a step, one or less, after which a vector is no longer than ``most``."""
    after = _length(start, step, change, line)
    if not after > most:
        return 1.0
    before = _length(start, 0.0, change, line)
    return max((most - before) / (after - before), 0.0)


@njit(cache=True, nogil=True)
def _share_until_number(start: float, change: float, step: float, most: float) -> float:
    after = abs(start + step * change)
    return 1.0 if not after > most else max((most - abs(start)) / (after - abs(start)), 0.0)


@njit(cache=True, nogil=True)
def _next_member(
    near: Near, members: Numbers, theta: Vector, rates: Vector, u: float, du: float
) -> tuple[float, int, int]:
    """Return the step after which a member's dual reaches an end, the member and the side."""
    low, high = near.low, near.high
    step, who, side = np.inf, -1, 0
    for p in range(len(members)):
        i = members[p]
        rising, falling = rates[p] - du * high[i], du * low[i] - rates[p]
        if rising > 0.0:
            here = max(u * high[i] - theta[p], 0.0) / rising
            if here < step:
                step, who, side = here, p, 1
        if falling > 0.0:
            here = max(theta[p] - u * low[i], 0.0) / falling
            if here < step:
                step, who, side = here, p, -1
    return step, who, side


@njit(cache=True, nogil=True)
def _next_kink(
    csr: Entries, near: Near, nearest: Numbers, wait: NDArray[np.bool_], direction: Vector,
    dc: float, noise: float, speeds: Vector,
) -> tuple[float, int]:  # fmt: skip
    """Return the step after which a score reaches a kink, and which; write how fast all move."""
    rows, z, kink, moves, _, _, _, side, reach, _ = near
    step, who = np.inf, -1
    for i in nearest:
        if side[i] == 0:
            speeds[i] = moves[i]
            continue
        speeds[i] = product(csr, rows[i], direction) + dc
        toward = side[i] * (moves[i] - speeds[i])
        away = max(side[i] * (z[i] - kink[i]), 0.0)
        if away < step * toward and toward > noise * reach[i] and not wait[i]:
            step, who = away / toward, i
    return step, who


@njit(cache=True, nogil=True)
def _nearest(
    csr: Entries, near: Near, w: Vector, c: float, room: float, mean_reach: float, numbers: Numbers
) -> Numbers:
    """Compute all scores again; return the kinks that are not too far to be reached."""
    n, z, side = 0, near.z, near.side
    for i in range(len(z)):
        if side[i] != 0:
            z[i] = product(csr, near.rows[i], w) + c
            if side[i] * (z[i] - near.kink[i]) > room * (near.reach[i] + mean_reach):
                continue
        numbers[n] = i
        n += 1
    return numbers[:n]


@njit(cache=True, nogil=True)
def _measure(
    near: Near, nearest: Numbers, members: Numbers, theta: Vector, u: float, slack: Vector
) -> None:
    """Note how far scores are on the wrong side, and how far duals of members are from ends."""
    side = near.side
    for i in nearest:
        off = near.truth[i] - near.z[i]
        near.worst[i] = max(near.worst[i], side[i] * off if side[i] != 0 else abs(off))
    above = below = 0.0
    for p in range(len(members)):
        above += near.high[members[p]] - theta[p] / u
        below += theta[p] / u - near.low[members[p]]
    slack[0] = min(slack[0], above)
    slack[1] = min(slack[1], below)


@njit(cache=True, nogil=True)
def follow(
    csr: Entries, near: Near, members: Numbers, theta: Vector, equations: Equations, n: int,
    pull: Vector, w: Vector, numbers: Vector, du: float, length: float, guess: Line,
    knots: Matrix, marks: Matrix, slack: Vector,
) -> tuple[int, int, int, int, float, float, int]:  # fmt: skip
    """Follow the solution for ``length``, or until it strays too far from a line.

    ``numbers`` are ``total``, ``c`` and ``u``. The way from one of the ``knots`` to the next is
    straight up to what ``marks`` say: ``u``, ``c``, and how far parameters and centered intercept
    are off it at most. Returns why it ended, the number of changes, of members and of knots, how
    far it went, and how far it strayed, as a share of what it may times its first number.
    """
    line, line_c, mean, most, narrow = guess
    mean_reach = most[1] / most[0]
    rows, z, kink, moves, _, low, high, side, reach, _ = near
    first = equations.first
    d, m, most_members = len(w), len(rows), len(members)
    right, rates = np.empty(most_members + 1), np.empty(most_members + 1)
    column, mixture = np.empty(most_members + 1), np.empty(most_members + 1)
    direction, speeds, dense = np.empty(d), np.empty(m), np.zeros(d)
    off, nothing = np.zeros(d), np.zeros(d)  # from the line
    own_line, own_off = np.zeros(d), np.zeros(d)  # the same since the last knot
    off_c = own_c = own_off_c = own_most = own_most_c = strayed = away = 0.0
    wait = np.zeros(m, dtype=np.bool_)
    done, changes, idle, status = 0.0, 0, 0, REACHED
    places, since, since_c = np.empty(m, dtype=np.int64), np.zeros(d), 0.0
    inner = numbers[3] if du != 0.0 else np.inf
    nearest = _nearest(csr, near, w, numbers[1], inner, mean_reach, places)
    work, own_work, own_changes, quiet = m - n, 0, 0, 0
    knots[0], n_knots, is_new = w, 1, True
    marks[0, 0], marks[0, 1] = numbers[2], numbers[1]
    marks[0, 2:] = 0.0
    _measure(near, nearest, members[:n], theta, numbers[2], slack)
    while True:
        total, c, u = numbers[0], numbers[1], numbers[2]
        size = first + n
        if first:
            right[0] = -du * total
        for p in range(n):
            i = members[p]
            right[first + p] = moves[i] + du * product(csr, rows[i], pull)
        if solve(equations, right, size, rates) > 1e-9 and changes > 0:
            status = INACCURATE  # so that the inverse is made again
            break
        direction[:] = -du * pull
        mover = du * _length(pull, 0.0, nothing, nothing)
        for p in range(n):
            i = members[p]
            add(csr, rows[i], -rates[first + p], direction)
            mover += abs(rates[first + p]) * reach[i]
        dc = rates[0] if first else 0.0
        step, member, ends = _next_member(near, members[:n], theta, rates[first:], u, du)
        # A score that moves so slowly, relative to what moves it, does not move.
        noise = 1e-13 * mover
        here, new = _next_kink(csr, near, nearest, wait, direction, dc, noise, speeds)
        if here < step:
            step, member = here, -1
        else:
            new = -1
        if step >= length - done:
            step, member, new = length - done, -1, -1

        # It may not stray too far from the line: the distance is convex along a step.
        centered = dc + row_times(mean, direction, d)
        lean = centered - line_c - row_times(mean, line, d)
        share = min(
            _share_until(off, direction, line, step, most[0]),
            _share_until_number(off_c, lean, step, most[1]),
        )
        if share < 1.0:
            step, member, new, status = step * share, -1, -1, STRAYED
        # Nor from where the nearest kinks were chosen.
        share = min(
            _share_until(since, direction, nothing, step, 0.9 * inner),
            _share_until_number(since_c, centered, step, 0.9 * inner * mean_reach),
        )
        if share < 1.0:
            step, member, new, status = step * share, -1, -1, RENEWED

        # A new knot begins where the last line would be left.
        if not is_new:
            own_lean = dc - own_c + row_times(mean, direction, d) - row_times(mean, own_line, d)
            after = _length(own_off, step, direction, own_line)
            after_c = abs(own_off_c + step * own_lean)
            if after > narrow[0] or after_c > narrow[1]:
                marks[n_knots - 1, 2], marks[n_knots - 1, 3] = own_most, own_most_c
                knots[n_knots] = w
                marks[n_knots, 0], marks[n_knots, 1] = u, c
                n_knots += 1
                is_new = True
            else:
                own_most, own_most_c = max(own_most, after), max(own_most_c, after_c)
                own_off_c += step * own_lean
        if is_new:
            own_line[:] = direction
            own_off[:] = 0.0
            own_c, own_off_c, own_most, own_most_c, is_new = dc, 0.0, 0.0, 0.0, False

        for j in range(d):
            off[j] += step * (direction[j] - line[j])
            own_off[j] += step * (direction[j] - own_line[j])
            since[j] += step * direction[j]
            w[j] += step * direction[j]
        off_c += step * lean
        since_c += step * centered
        away = _length(off, 0.0, nothing, nothing)
        strayed = max(strayed, away)
        if mean_reach > 0.0:
            strayed = max(strayed, abs(off_c) / mean_reach)
        for i in nearest:
            z[i] += step * speeds[i]
            kink[i] += step * moves[i]
        own_work += len(nearest) - n
        for p in range(n):
            theta[p] += step * rates[first + p]
        u += step * du
        numbers[1], numbers[2] = c + step * dc, u
        done += step
        _measure(near, nearest, members[:n], theta, u, slack)
        if status == RENEWED:
            # The steps in between should cost about what choosing does.
            quiet = quiet + 1 if changes == own_changes else 0
            grows = own_work <= 0.5 * (m - n) or quiet > 10
            grows |= len(nearest) <= n + 32  # to have fewer to look at would gain nothing
            inner *= 1.3 if grows else 0.8
            own_changes = changes
            nearest = _nearest(csr, near, w, numbers[1], inner, mean_reach, places)
            since[:], since_c = 0.0, 0.0
            work, own_work, status = work + m - n + own_work, 0, REACHED
            continue
        if member < 0 and new < 0:
            break
        changes += 1
        idle = 0 if step > 0.0 else idle + 1
        if idle > 200:  # changes in a row without a step: it is going round in circles
            status = STUCK
            break

        entering = new
        if new >= 0:
            if n == most_members:
                status = FULL
                break
            own = rows[members[:n]]
            left = beside(csr, own, equations, rows[new], dense, column, mixture)
            theta_new = u * (high[new] if side[new] > 0 else low[new])
            # A row is a combination of members' rows if so little of its squared length is left.
            if left > -1e-7 * max(-column[size], reach[new] ** 2):
                if du != 0.0:
                    # A mixture of members, whose scores stand still: it cannot have moved.
                    wait[new] = True
                    continue
                member, room = exchanged(near, members[:n], theta, mixture[first:], u, new)
                theta_new -= side[new] * room
                if member < 0:
                    change = (low[new] - high[new]) * side[new]
                    add(csr, rows[new], change, pull)
                    numbers[0] += change
                    side[new] = -side[new]
                    z[new] = kink[new]
                    entering = -1
                else:
                    ends = 1 if side[new] * mixture[first + member] > 0.0 else -1
        wait[:] = False
        if member >= 0:
            i = members[member]
            if not leave(equations, size, first + member, column):
                status = STUCK
                break
            n -= 1
            members[member], theta[member] = members[n], theta[n]
            side[i] = ends
            z[i] = kink[i]
            wait[i] = True
            dual = high[i] if ends > 0 else low[i]
            add(csr, rows[i], dual, pull)
            numbers[0] += dual
            if entering >= 0:
                own = rows[members[:n]]
                left = beside(csr, own, equations, rows[new], dense, column, mixture)
        if entering >= 0:
            if left == 0.0:
                status = STUCK
                break
            enter(equations, first + n, column, mixture, left)
            members[n], theta[n] = entering, theta_new
            n += 1
            dual = high[entering] if side[entering] > 0 else low[entering]
            side[entering] = 0
            z[entering] = kink[entering]
            add(csr, rows[entering], -dual, pull)
            numbers[0] -= dual
        if n_knots + 2 > len(knots):
            status = LONG
            break
    marks[n_knots - 1, 2], marks[n_knots - 1, 3] = own_most, own_most_c
    knots[n_knots] = w
    marks[n_knots, 0], marks[n_knots, 1] = numbers[2], numbers[1]
    marks[n_knots, 2:] = 0.0
    if du != 0.0:
        numbers[3] = inner
    return status, changes, n, n_knots + 1, done, strayed, work + own_work
