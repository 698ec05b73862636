"""The compiled part of `cutplane.risks.kink_path`: from one change of the active set to the next.

The equations of the *members*, the kinks on which the solution sits, are those of
`cutplane.risks.kink_system`.

``near`` holds what is known of the kinks that may be reached: arrays of their rows, scores, kinks,
how fast these move, where they truly are, the least and the largest dual, the side of the score,
the length of the row, and the largest distance on the wrong side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import REORDER, njit
from cutplane.risks.kink_system import (
    Numbers,
    add,
    beside,
    enter,
    exchanged,
    leave,
    product,
    row_times,
    solve,
)

# Why a part of the way ended.
REACHED, STRAYED, INACCURATE, LONG, FULL, STUCK, RENEWED = range(7)

# A row is a combination of members' rows if so little of its squared length is left beside them.
_DEPENDENT = 1e-7
_OFF = 1e-9  # relative residual at which the inverse is made anew
_NOISE = 1e-13  # a score that moves so slowly, relative to what moves it, does not move
_SHARE_OF_STEPS = 0.5
_MOST_QUIET = 10
_FEW = 32  # to have fewer to look at would gain nothing
_MOST_IDLE = 200  # changes in a row without a step: it is going round in circles


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
    near: Any, members: Numbers, theta: Vector, rates: Vector, n: int, u: float, du: float
) -> tuple[float, int, int]:
    """Return the step after which a member's dual reaches an end, the member and the side."""
    low, high = near[5], near[6]
    step, who, side = np.inf, -1, 0
    for p in range(n):
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
    csr: Any, near: Any, nearest: Numbers, wait: Any, way: tuple[Vector, float], noise: float,
    speeds: Vector,
) -> tuple[float, int]:  # fmt: skip
    """Return the step after which a score reaches a kink, and which; write how fast all move."""
    rows, z, kink, moves, side, reach = near[0], near[1], near[2], near[3], near[7], near[8]
    (direction, dc), step, who = way, np.inf, -1
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
    csr: Any, near: Any, w: Vector, c: float, room: float, mean_reach: float, numbers: Numbers
) -> Numbers:
    """Compute all scores anew; return the kinks that are not too far to be reached."""
    rows, z, kink, side, reach = near[0], near[1], near[2], near[7], near[8]
    n = 0
    for i in range(len(rows)):
        if side[i] != 0:
            z[i] = product(csr, rows[i], w) + c
            if side[i] * (z[i] - kink[i]) > room * (reach[i] + mean_reach):
                continue
        numbers[n] = i
        n += 1
    return numbers[:n]


@njit(cache=True, nogil=True)
def _measure(
    near: Any, nearest: Numbers, members: Numbers, theta: Vector, n: int, u: float, slack: Vector
) -> None:
    """Note how far scores are on the wrong side, and how far duals of members are from ends."""
    z, truth, low, high, side, worst = near[1], near[4], near[5], near[6], near[7], near[9]
    for i in nearest:
        away = side[i] * (truth[i] - z[i]) if side[i] != 0 else abs(truth[i] - z[i])
        worst[i] = max(worst[i], away)
    above = below = 0.0
    for p in range(n):
        above += high[members[p]] - theta[p] / u
        below += theta[p] / u - low[members[p]]
    slack[0] = min(slack[0], above)
    slack[1] = min(slack[1], below)


@njit(cache=True, nogil=True)
def follow(
    csr: Any,
    near: Any,
    members: Numbers,
    theta: Vector,
    matrix: Matrix,
    inverse: Matrix,
    first: int,
    n: int,
    pull: Vector,
    w: Vector,
    numbers: Vector,
    du: float,
    length: float,
    line: Vector,
    line_c: float,
    mean: Vector,
    most: Vector,
    narrow: Vector,
    knots: Matrix,
    marks: Matrix,
    slack: Vector,
) -> tuple[int, int, int, int, float, float, int]:
    """Follow the solution for ``length``, or until it strays from a line by more than ``most``.

    ``numbers`` are ``total``, ``c`` and ``u``. The way from one of the ``knots`` to the next is
    straight up to what ``marks`` say: ``u``, ``c``, and how far parameters and centered intercept
    are off it at most. Returns why it ended, the number of changes, of members and of knots, how
    far it went, and how far it strayed, as a share of ``most`` times its first number.
    """
    mean_reach = most[1] / most[0]
    rows, z, kink, moves = near[0], near[1], near[2], near[3]
    low, high, side, reach = near[5], near[6], near[7], near[8]
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
    marks[0, 0], marks[0, 1], marks[0, 2], marks[0, 3] = numbers[2], numbers[1], 0.0, 0.0
    _measure(near, nearest, members, theta, n, numbers[2], slack)
    while True:
        total, c, u = numbers[0], numbers[1], numbers[2]
        size = first + n
        if first:
            right[0] = -du * total
        for p in range(n):
            i = members[p]
            right[first + p] = moves[i] + du * product(csr, rows[i], pull)
        if solve(matrix, inverse, right, size, rates) > _OFF and changes > 0:
            status = INACCURATE
            break
        direction[:] = -du * pull
        mover = du * _length(pull, 0.0, nothing, nothing)
        for p in range(n):
            i = members[p]
            add(csr, rows[i], -rates[first + p], direction)
            mover += abs(rates[first + p]) * reach[i]
        dc = rates[0] if first else 0.0
        step, member, ends = _next_member(near, members, theta, rates[first:], n, u, du)
        here, new = _next_kink(csr, near, nearest, wait, (direction, dc), _NOISE * mover, speeds)
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
        _measure(near, nearest, members, theta, n, u, slack)
        if status == RENEWED:
            # The steps in between should cost about what choosing does.
            quiet = quiet + 1 if changes == own_changes else 0
            grows = own_work <= _SHARE_OF_STEPS * (m - n) or quiet > _MOST_QUIET
            grows |= len(nearest) <= n + _FEW
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
        if idle > _MOST_IDLE:
            status = STUCK
            break

        entering = new
        if new >= 0:
            if n == most_members:
                status = FULL
                break
            left = beside(
                csr, rows, members, n, first, matrix, inverse, rows[new], dense, column, mixture
            )
            theta_new = u * (high[new] if side[new] > 0 else low[new])
            if left > -_DEPENDENT * max(-column[size], reach[new] ** 2):
                if du != 0.0:
                    # A mixture of members, whose scores stand still: it cannot have moved.
                    wait[new] = True
                    continue
                member, room = exchanged(near, (members, theta), mixture, n, first, u, new)
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
            if not leave(matrix, inverse, size, first + member, column):
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
                left = beside(
                    csr, rows, members, n, first, matrix, inverse, rows[new], dense, column, mixture
                )
        if entering >= 0:
            if left == 0.0:
                status = STUCK
                break
            enter(matrix, inverse, first + n, column, mixture, left)
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
    marks[n_knots, 0], marks[n_knots, 1], marks[n_knots, 2], marks[n_knots, 3] = (
        numbers[2],
        numbers[1],
        0.0,
        0.0,
    )
    if du != 0.0:
        numbers[3] = inner
    return status, changes, n, n_knots + 1, done, strayed, work + own_work
