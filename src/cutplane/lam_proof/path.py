"""The path of the best models from kink to kink.

Where the losses of examples bend, if they are made of straight pieces.

The best models for all lams, followed exactly, where the loss is made of straight pieces.

A loss such as the hinge is straight but for a kink. At the best model an example is on one side of
its kink, where the slope of its loss, its dual, is known; or on it, with any dual between the two
slopes. As long as no example changes its place, the best parameters, the intercept and ``u * dual``
are linear in ``u = 1 / lam``. So the path is a broken line, and is followed from change to change
(after Hastie, Rosset, Tibshirani and Zhu, *The entire regularization path for the support vector
machine*, JMLR 2004). A change costs a step with a matrix as large as the number of examples on
their kinks, and the products with those rows that may come to theirs: all others are too far away,
as long as the path stays next to a line that was guessed. When it strays, a pass over the data
tells which rows are near now, and makes everything from the duals again.

Nothing of this is taken on trust. With duals between the slopes, which sum to zero if there is an
intercept, and ``w = -u sum_i dual_i x_i``, the objective at ``w`` exceeds the lower bound of the
duals by the sum of ``loss_i(z_i) - dual_i (z_i - kink_i)``. That is zero for examples on the right
side, and at most the distance to the kink times the jump of the slope for others. Every example's
distance on the wrong side is measured (rounding errors, and what was moved to break ties), and with
their sum, the gap ``G``, the best parameters are within ``sqrt(u G)`` of those on the path.

The best intercept is then known too: raised by that radius times the longest row near its kink, it
is above the best one, because all members have the larger slope there, and nobody else a smaller
one.

Kinks are moved by a tiny random amount, which breaks ties: then examples reach their kinks one
after the other, and equal rows never at the same time. To begin, they are moved such that the
slopes at an approximate solution are those of an exact one, and then back to where they belong.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.compiled import clock
from cutplane.compute.threads import one_blas_thread
from cutplane.data import Rows
from cutplane.lam_proof import equations as kernels
from cutplane.lam_proof.equations import Equations, Line, Near
from cutplane.losses.piecewise import PiecewiseLoss
from cutplane.risks.scored import ScoredRisk

ROUNDING = 64 * EPS
_SAME = 1.0 + 1e-12  # ratio of two lams that are one up to rounding


class Kinks(NamedTuple):
    """Where losses bend: the number of the row, the score, and the duals on both sides."""

    rows: NDArray[np.int64]
    at: Vector
    low: Vector
    high: Vector


def kinks_of(risk: ScoredRisk) -> Kinks | None:
    """Return the kinks of a loss made of straight pieces; None for all other losses."""
    loss, y = risk.loss, np.asarray(risk.y, dtype=np.float64)
    if (
        not isinstance(loss, PiecewiseLoss)
        or not loss.straight
        or risk.rows.entries() is None
        or risk.n_parameters > 1024  # steps would cost more than fits
    ):
        return None
    used = np.flatnonzero(risk.weights > 0.0)
    center, weights = y[used], risk.weights[used]
    sign = np.ones(len(used)) if loss.of_residual else center
    left, right = loss.left, loss.right
    # A side as (where it bends, the change of the slope there), along the sign.
    bends = [(right.start, right.slope), (-left.start, left.slope)]
    sides = [
        (
            center + sign * start,
            np.where(sign * direction > 0.0, slope, 0.0) * weights,
            np.where(sign * direction < 0.0, slope, 0.0) * weights,
        )
        for (start, slope), direction in zip(bends, (1.0, -1.0), strict=True)
        if slope > 0.0
    ]
    if len(sides) == 2 and right.start == -left.start:
        (at, up, down), (_, more_up, more_down) = sides
        sides = [(at, up + more_up, down + more_down)]
    return Kinks(
        np.tile(used, len(sides)),
        np.concatenate([at for at, _, _ in sides]),
        np.concatenate([-down for _, _, down in sides]),
        np.concatenate([up for _, up, _ in sides]),
    )


class _Part(NamedTuple):
    """The way from one ``1 / lam`` to another.

    Between two knots it is straight, up to what ``off`` says of parameters and intercept.
    ``spread`` says the same of all of it.
    """

    u: Vector
    knots: Matrix
    c: Vector
    off: Matrix
    spread: Vector

    def between(self, begin: float, end: float) -> _Part:
        """Return what lies between two numbers."""
        first = max(int(np.searchsorted(self.u, begin, side="right")) - 1, 0)
        last = min(int(np.searchsorted(self.u, end)), len(self.u) - 1)
        u, knots, c = (each[first : last + 1].copy() for each in self[:3])
        for k, other, at in ((0, 1, begin), (-1, -2, end)):
            if len(u) > 1 and u[k] != u[other]:
                share = min(max((at - u[k]) / (u[other] - u[k]), 0.0), 1.0)
                knots[k] += share * (knots[other] - knots[k])
                c[k] += share * (c[other] - c[k])
                u[k] += share * (u[other] - u[k])
        return _Part(u, knots, c, self.off[first : last + 1], self.spread)


class KinkPath:
    """The best models from one lam down to others.

    Parameters
    ----------
    risk : ScoredRisk
        The training part.
    kinks : Kinks
        Of its loss.
    rows : Rows
        The validation part.
    mean : ndarray
        The mean row, or zeros if there is no intercept.
    reach, reach_seen : ndarray
        The distance of each row from the mean row: of the training and the validation part.
    signs_only : bool
        Whether wide ranges do for scores whose sign is certain.

    Attributes
    ----------
    is_alive : bool
        Whether it can go on.
    deadline : float, optional
        The time of the clock at which it stops to do so.
    changes : int
        How often an example came to its kink or left it.
    """

    most_members, few_members = 504, 126  # to give up at, and to begin with
    tie_break = 1e-10  # relative to the kinks
    inaccurate = 1e-9  # relative residual at which the inverse is made again
    narrow = 1e-4  # how far the way may be off the line between knots, relative to the parameters
    most_knots = 256
    parts_until_sums = 16  # sums over all examples are updated meanwhile
    work_of_a_part = 2.0  # in passes over the data: what its beginning costs
    work_around = 4000  # in rows
    room = 1.4  # how much farther than the last time the way may stray
    least_room = 0.02  # the same, relative to how far the way was
    used_room = 0.9  # the rest is for the distance from the path to the best model
    most_failures = 5
    most_idle = 50  # parts in a row that go nowhere

    def __init__(
        self,
        risk: ScoredRisk,
        kinks: Kinks,
        rows: Rows,
        mean: Vector,
        reach: Vector,
        reach_seen: Vector,
        *,
        signs_only: bool = False,
    ) -> None:
        self.risk, self.mean, self._signs_only = risk, mean, signs_only
        self.is_alive, self.changes, self.n_parts = True, 0, 0
        self.deadline: float | None = None
        self._kinks = kinks
        own, seen = risk.rows.entries(), rows.entries()
        assert own is not None
        assert seen is not None
        self._entries, self._entries_seen = own, seen
        self._reach, self._reach_seen = reach[kinks.rows], reach_seen
        self._typical = 0.2 * float(self._reach.mean()) * risk.minimizes_intercept
        self._margin = self._reach + self._typical
        self._first = int(risk.minimizes_intercept)
        self._inner = 1e-3
        self._random = np.random.default_rng(0)
        moved = self.tie_break * self._random.uniform(-1.0, 1.0, len(kinks.at))
        self._goal = kinks.at + moved * max(float(np.abs(kinks.at).mean()), 1e-300)
        self._at = self._goal
        self._parts: list[_Part] = []
        self._u = 0.0
        self._members = np.zeros(0, dtype=np.int64)
        self._make_room(self.few_members)
        # Where the intercept is not unique, the path may get lost; it begins again at the next lam.
        self._idle, self._way, self._failures, self._is_lost = 0, 0.0, 0, False
        self._sums: tuple[Vector, float] | None = None
        self._before: tuple[Vector, float, Vector, float] | None = None

    def cover(self, high: float, low: float, w: Vector) -> None:
        """Follow the path down to ``low``.

        If it has not begun, or got lost, it begins at ``high``, where ``w`` is near.
        """
        if self._is_lost:
            self._failures += 1
            self.is_alive &= self._failures <= self.most_failures
        if self.is_alive and (self._is_lost or self._u == 0.0):
            self._is_lost = False
            self._begin(high, w)
            self._before, self._length = None, 0.01 * self._u
        still = np.zeros(len(self._at))
        while self._may_go_on and self._u * (1.0 + 1e-13) < 1.0 / low:
            self._follow(1.0, still, min(self._length, 1.0 / low - self._u))

    def scores(self, high: float, low: float) -> tuple[Vector, Vector] | None:
        """Return what scores are at least and at most from ``high`` to ``low``; None if unknown."""
        begin, end = 1.0 / high, 1.0 / low
        parts = [
            part for part in self._parts if part.u[-1] * _SAME >= begin and part.u[0] <= end * _SAME
        ]
        if not parts or parts[0].u[0] > begin * _SAME or parts[-1].u[-1] * _SAME < end:
            return None
        if any(after.u[0] > before.u[-1] * _SAME for before, after in pairwise(parts)):
            return None
        if not all(np.isfinite(part.spread).all() for part in parts):
            return None
        ranges = []
        for part in (part.between(begin, end) for part in parts):
            marks = np.ascontiguousarray(np.column_stack((part.c, part.off)).T)
            knots = np.ascontiguousarray(part.knots.T)
            spread = part.spread if self._signs_only else np.full(2, np.inf)
            ranges.append(
                kernels.ranges_of_knots(self._entries_seen, knots, marks, self._reach_seen, spread)
            )
        lower, upper = zip(*ranges, strict=True)
        return np.minimum.reduce(lower), np.maximum.reduce(upper)

    def forget_above(self, lam: float) -> None:
        """Drop what is known of all larger lams."""
        self._parts = [part for part in self._parts if part.u[-1] * lam >= 1.0]

    @property
    def _may_go_on(self) -> bool:
        going = self.is_alive and not self._is_lost
        return going and (self.deadline is None or clock() <= self.deadline)

    def _begin(self, lam: float, w: Vector) -> None:
        """Find the best model for a lam, from one that is nearly as good.

        Each dual is that of the side on which the score is; with an intercept one of them is
        between, so that they sum to zero. For these duals kinks are moved such that all are right,
        and then back.
        """
        kinks, risk = self._kinks, self.risk
        self._u, self._sums, self._before, self._idle = 1.0 / lam, None, None, 0
        self._members = self._members[:0]
        z = risk.rows.scores(w)[kinks.rows]
        self._side = np.where(z > self._goal, 1, -1)
        if self._first:
            # From the lowest intercept up: each kink that is passed adds to the sum of duals.
            order = np.argsort(self._goal - z)
            sums = kinks.low.sum() + np.cumsum((kinks.high - kinks.low)[order])
            fair = min(int(np.searchsorted(sums, 0.0)), len(order) - 1)
            self._side[order[:fair]], self._side[order[fair:]] = 1, -1
            self._side[order[fair]] = 0
            self._members = order[fair : fair + 1].astype(np.int64)
        pull, total = self._others()
        start = -self._u * pull
        if self._first:
            row = np.zeros(risk.rows.shape[0])
            row[kinks.rows[self._members]] = self._u * total
            start += risk.rows.pullback(row)
        point = risk.at(start)
        z = (point.scores + point.offset)[kinks.rows]
        wrong = np.maximum(self._side * (self._goal - z), 0.0)
        spread = self._random.uniform(0.2, 1.2, len(z))
        self._at = np.where(wrong > 0.0, z - self._side * wrong * spread, self._goal)
        self._at[self._members] = z[self._members]
        self._renew()
        self._length, self._room = 0.05, 0.02 * max(float(np.linalg.norm(start)), 1e-3)
        left = 1.0
        while left > 0.0 and self._may_go_on:
            moves = (self._goal - self._at) / left
            left -= self._follow(0.0, moves, min(self._length, left))
            left = 0.0 if left < 1e-12 else left
        self._at = self._goal
        self._is_lost |= left > 0.0

    def _others(self) -> tuple[Vector, float]:
        """Return sums over all who are not on their kinks: of duals times rows, and of duals."""
        kinks = self._kinks
        duals = np.where(self._side > 0, kinks.high, kinks.low)
        duals[self._members] = 0.0
        by_row = np.zeros(self.risk.rows.shape[0])
        np.add.at(by_row, kinks.rows, duals)
        return self.risk.rows.pullback(by_row), float(duals.sum())

    def _renew(self) -> None:
        """Make the matrix of the members and its inverse again."""
        rows = self._kinks.rows[self._members]
        d = self.risk.n_parameters
        size = self._first + len(rows)
        matrix, inverse, _ = self._equations
        kernels.members_matrix(self._entries, rows, d, self._equations)
        try:
            with one_blas_thread():
                inverse[:size, :size] = np.linalg.inv(matrix[:size, :size])
        except np.linalg.LinAlgError:
            self._is_lost = True

    def _make_room(self, capacity: int) -> None:
        """Make the matrices larger; those of few members stay in the cache."""
        self._capacity = capacity
        matrix, inverse = np.zeros((2, capacity + 1, capacity + 1))
        self._equations = Equations(matrix, inverse, self._first)
        if len(self._members):
            self._renew()
        self.is_alive &= capacity <= self.most_members

    def _follow(self, du: float, moves: Vector, length: float) -> float:
        """Follow the path for a length at most, while kinks move; return how far it went."""
        kinks, first = self._kinks, self._first
        if self._sums is None or self.n_parts % self.parts_until_sums == 0:
            self._sums = self._others()
        pull, total = self._sums
        theta, w, c = self._settled(pull, total)
        if self._is_lost:
            return 0.0
        drift = self._drift(w, c)
        z = self.risk.rows.scores(w)[kinks.rows] + c
        # Parameters, intercept and scores should move as they did before.
        line, line_c, ahead = np.zeros_like(w), 0.0, np.zeros_like(z)
        if self._before is not None and self._before[-1] != self._way:
            old, old_c, old_z, before = self._before
            gone = self._way - before
            line, line_c, ahead = (w - old) / gone, (c - old_c) / gone, (z - old_z) / gone
        near = kernels.within_reach(
            z, self._at, self._side, length * (ahead - moves), self._room * self._margin
        )
        place = np.empty(len(z), dtype=np.int64)
        place[near] = np.arange(len(near))
        n = len(self._members)
        members = np.zeros(self._capacity, dtype=np.int64)
        members[:n] = place[self._members]
        side, at, worst = self._side[near], self._at[near], np.zeros(len(near))
        low, high = kinks.low[near], kinks.high[near]
        scores = np.where(side == 0, at, z[near])
        known = Near(
            kinks.rows[near], scores, at, moves[near], kinks.at[near], low, high, side,
            self._reach[near], worst,
        )  # fmt: skip
        numbers, slack = np.array([total, c, self._u, self._inner]), np.array([np.inf, np.inf])
        knots, marks = np.empty((self.most_knots, len(w))), np.zeros((self.most_knots, 4))
        both = np.array([1.0, self._typical])
        narrow = self.narrow * float(np.linalg.norm(w))
        guess = Line(line, line_c, self.mean, self.used_room * self._room * both, narrow * both)
        status, changes, n, n_knots, done, strayed, work = kernels.follow(
            self._entries, known, members, theta, self._equations, n, pull, w, numbers, du, length,
            guess, knots, marks, slack,
        )  # fmt: skip
        if done > 0.3 * length or self._before is None:
            self._before = knots[0].copy(), c, z, self._way
        self._way += done
        self._side[near], self._members = side, near[members[:n]]
        self._at = self._at + done * moves
        self._u, self._sums = float(numbers[2]), (pull, float(numbers[0]))
        self._inner = float(numbers[3])
        self._idle = 0 if done > 0.0 else self._idle + 1
        if status == kernels.FULL:
            self._make_room(2 * self._capacity)
        self._is_lost |= status == kernels.STUCK or self._idle >= self.most_idle
        away = self.narrow * float(np.linalg.norm(w))
        if du and not self._is_lost:
            drift = max(drift, self._drift(w, float(numbers[1])))
            gap = float((high - low) @ (worst + drift * (worst > 0.0)))
            away = np.sqrt(self._u * gap) + ROUNDING * self._u * float(np.abs(pull).sum())
            # Where the intercept is above the best one for sure, or below.
            beside = away * float(self._reach[near].max(initial=0.0)) + 2.0 * worst.max(initial=0.0)
            is_sure = slack.min() > ROUNDING * float(np.abs(high).sum() + np.abs(low).sum())
            is_sure = (is_sure or not first) and away <= (1.0 - self.used_room) * self._room
            widths = np.array([away, (beside + drift) * first]) if is_sure else np.full(2, np.inf)
            way, marks = knots[:n_knots], marks[:n_knots]
            # From a knot to the next it is off the chord by twice what it is off a line at most.
            off = 2.0 * np.maximum(marks[:, 2:], np.roll(marks[:, 2:], 1, axis=0)) + widths
            spread = 2.0 * strayed * both + 2.0 * off.max(axis=0)
            c_seen = marks[:, 1] + self.risk.shift * first
            self._parts.append(_Part(marks[:, 0], way, c_seen, off, spread))
        self.changes += changes
        self.n_parts += 1
        least = self.least_room * float(np.linalg.norm(w - knots[0]))
        least += 2.0 / (1.0 - self.used_room) * away
        # Length and room of the next part: its changes should cost what it begins with.
        wanted = self.work_of_a_part * (len(self._at) + self.work_around)
        factor = (wanted / max(work, 1)) ** 0.5
        factor = min(max(factor, 0.6), 1.6)
        # The last part before a lam that was asked for may be short.
        self._length *= factor if length == self._length else 1.0
        if done < length:
            self._room *= factor
        else:
            self._room = max(self.room * strayed, 0.5 * self._room)
        self._room = max(self._room, least)
        return float(done)

    def _settled(self, pull: Vector, total: float) -> tuple[Vector, Vector, float]:
        """Return duals of members times u, parameters and intercept, from all other duals."""
        theta, w = np.zeros(self._capacity), np.empty(self.risk.n_parameters)
        rows, at = self._kinks.rows[self._members], self._at[self._members]
        for _ in range(2):
            c, off = kernels.settle(
                self._entries, rows, at, self._equations, (pull, total), self._u, theta, w
            )
            if off <= self.inaccurate:
                break
            self._renew()
        return theta, w, c

    def _drift(self, w: Vector, c: float) -> float:
        """Return how far scores of members are from their kinks at most."""
        rows, at = self._kinks.rows[self._members], self._at[self._members]
        return float(kernels.most_off(self._entries, rows, at, w, c))
