"""The reduced problem of a bundle method: a concave quadratic over a product of simplices.

    maximize  D(alpha) = b.alpha - alpha' G alpha / (2 lam)
    over      alpha >= 0, the weights of each group of planes sum to 1

`simplex_kernels` says how it is solved; here is what is kept between two problems, and how groups
share a free parameter, such as an intercept that is not regularized.

A risk may minimize a number ``c`` out that its groups share: ``R(w) = min_c sum_k R_k(w, c)``. Then
the planes of a group have a slope along ``c`` too, their tilt ``t``, and the model is

    min_c  sum_k max_{i in group k} a_i.w + b_i + t_i c

Weights give a plane below ``R`` if the tilts balance, ``t.alpha = 0``. So the reduced problem has
one more constraint. Its multiplier is ``c``: for each ``c`` the problem without the constraint,
with the offsets ``b + c t``, is solved as ever, and ``t.alpha`` grows with ``c``. A search finds
two values of ``c`` with solutions that tilt to either side, and the mean of the solutions that
balances is feasible. What it lacks is bounded as in `simplex_kernels`, for any ``c``:

    D* - D(alpha)  <=  sum_k max_{j in group k} (g_j + t_j c)  -  alpha.g
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import combination
from cutplane.core.reduced.simplex_kernels import EPS, N_ROWS, Indices, maximize

# Enough to go 1e30 units away, or to halve a bracket to rounding; 2 to 4 are usual.
_MOST_SOLVES = 60


@dataclass(frozen=True, slots=True)
class SimplexSolution:
    """A feasible alpha, and a bound on what it lacks.

    Attributes
    ----------
    alpha : Vector of shape (n,)
        Non-negative; the weights of each group sum to one up to rounding.
    gap : float
        At least D* - D(alpha), in units of D; recomputed at this alpha.
    steps : int
        Moves made along a search direction.
    """

    alpha: Vector
    gap: float
    steps: int


@dataclass(slots=True)
class SimplexQP:
    """Warm-started solver; keeps the support and its factor between calls.

    Between calls planes may be appended and lam may change. When planes are dropped, go on with
    `after_dropping`; after any other change to them (replaced, regrouped) call `forget` first.

    Attributes
    ----------
    base : Indices
        A plane of each group, which the others of the group exchange weight with.
    support : Indices
        The other planes with weight are its first ``size`` entries.
    factor : Matrix
        Its leading block belongs to them, scaled by ``scale``; zero if there is none.
    free : float
        The free parameter that groups share, of the last problem with tilts.
    warm : Vector
        Where the next problem with tilts begins: one of the two solutions that the last weights are
        a mean of. The planes of both together depend on each other, which makes the mean a bad
        place to start from.
    """

    base: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    support: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    factor: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    size: int = 0
    scale: float = 0.0
    free: float = 0.0
    warm: Vector = field(default_factory=lambda: np.empty(0))

    def forget(self) -> None:
        """Discard the factor: the next solve refactors the support of its `start`."""
        self.size, self.scale = 0, 0.0

    def after_dropping(self, rows: Indices) -> SimplexQP:
        """Return the solver for when only these (increasing) rows are left, in this order.

        It takes the factor along if all planes with weight are among them.
        """
        solver = SimplexQP(free=self.free, warm=self.warm[rows[rows < len(self.warm)]])
        planes = np.append(self.support[: self.size], self.base)
        positions = np.searchsorted(rows, planes)
        if self.scale and np.isin(planes, rows).all():
            solver.size, solver.scale, solver.factor = self.size, self.scale, self.factor
            solver.support = np.empty_like(self.support)
            solver.support[: self.size] = positions[: self.size]
            solver.base = positions[self.size :]
        return solver

    def solve(
        self,
        gram: Matrix,
        offsets: Vector,
        lam: float,
        *,
        groups: Indices | None = None,
        start: Vector | None = None,
        accuracy: float = 0.0,
    ) -> SimplexSolution:
        """Maximize D over the simplex of each group.

        Parameters
        ----------
        gram : Matrix of shape (n, n)
            Symmetric, positive semidefinite up to rounding, finite. The leading block of a larger
            C-ordered array is read in place; other layouts are copied.
        offsets : Vector of shape (n,)
            Finite.
        lam : float
            Positive.
        groups : Indices of shape (n,), optional
            The group of each plane, 0, 1, 2, ..., none of them empty; one group by default.
        start : Vector of at most n entries, optional
            Where to begin, padded with zeros; usually the previous solution. If absent or not on
            the simplices: the best single plane of each group.
        accuracy : float
            Stop once the gap is at most this, or as small as rounding allows.

        Returns
        -------
        SimplexSolution
            The iterate with the smallest gap, also if progress stopped short of `accuracy`.
        """
        offsets = np.array(offsets, dtype=np.float64)
        alpha = _starting_point(start, len(offsets), groups)
        groups = np.zeros(len(offsets), dtype=np.int64) if groups is None else groups
        if alpha is None:
            alpha = np.zeros(len(offsets))
            with np.errstate(over="ignore"):  # -inf is never the best
                alone = offsets - np.diagonal(gram) / (2 * lam)
            order = np.lexsort((-np.arange(len(alone)), alone, groups))
            alpha[order[np.append(np.diff(groups[order]) > 0, True)]] = 1.0
        self._adopt_support(alpha, groups)
        width = len(alpha) + len(self.base)
        gap, steps, self.size, self.scale = maximize(
            row_major(gram), offsets, float(lam), groups, float(accuracy), alpha,
            self.base, self.support, self.size, self.factor, self.scale,
            np.empty((N_ROWS, width)), np.empty((2, width), dtype=np.int64),
        )  # fmt: skip
        return SimplexSolution(alpha, gap, steps)

    def solve_balanced(
        self, gram: Matrix, offsets: Vector, tilts: Vector, lam: float, *,
        groups: Indices | None, start: Vector, accuracy: float,
    ) -> Vector:  # fmt: skip
        """Maximize D over the simplex of each group, such that the tilts balance; return alpha.

        Parameters are those of `solve`; ``start`` balances, or is zero at the very first call, when
        the last plane of each group must. The search begins at ``free`` and ``warm``, which need
        not.
        """
        if groups is None or not tilts.any():
            self.warm = self.solve(
                gram, offsets, lam, groups=groups, start=start, accuracy=accuracy
            ).alpha
            return self.warm
        n_groups, free, alpha = int(groups.max()) + 1, self.free, self.warm
        best, rows = _feasible(start, groups), np.arange(len(offsets))
        least = width = np.inf
        step = 1e-2 * ((float(np.ptp(offsets)) or 1.0) / float(np.abs(tilts).max()))
        low: _End | None = None
        high: _End | None = None
        for _ in range(_MOST_SOLVES):
            alpha = self.solve(
                gram, offsets + free * tilts, lam,
                groups=groups, start=alpha, accuracy=0.5 * accuracy,
            ).alpha  # fmt: skip
            end = _End(free, float(tilts @ alpha), alpha)
            if abs(end.tilt) <= 16 * EPS * float(np.abs(tilts) @ alpha):
                low = high = end
            elif end.tilt < 0.0:
                low = end
            else:
                high = end
            if low is None or high is None:
                free += step if high is None else -step
                step *= 4.0
                continue
            mean = _mean(low, high)
            gradient = offsets - combination(row_major(gram), rows, mean)[: len(offsets)] / lam
            height, multiplier = lowest_model(gradient, tilts, groups, n_groups)
            gap = height - float(mean @ gradient)
            if gap < least:
                least, best = gap, mean
                self.free, self.warm = multiplier, alpha
            before, width = width, high.free - low.free
            if gap <= accuracy or width <= 4 * EPS * (abs(low.free) + abs(high.free)):
                break
            if width <= 0.5 * before and low.free < multiplier < high.free:
                free = multiplier
            else:
                free = 0.5 * (low.free + high.free)
        return best

    def _adopt_support(self, alpha: Vector, groups: Indices) -> None:
        """Make the support that of alpha, keeping the factor if it already is."""
        n, size = len(alpha), self.size
        if n > len(self.support):
            support, factor = np.empty(2 * n, dtype=np.int64), np.empty((2 * n, 2 * n))
            support[:size] = self.support[:size]
            factor[:size, :size] = self.factor[:size, :size]
            self.support, self.factor = support, factor
        if (
            self.scale == 0.0
            or np.count_nonzero(alpha) != size + len(self.base)
            or not alpha[self.support[:size]].all()
            or not alpha[self.base].all()
        ):
            self.forget()
            positive = np.flatnonzero(alpha)
            # The heaviest plane of each group is its base: it is the last to lose its weight.
            order = positive[np.lexsort((-alpha[positive], groups[positive]))]
            first = np.diff(groups[order], prepend=-1) > 0
            self.base, others = order[first], np.sort(order[~first])
            self.size = len(others)
            self.support[: self.size] = others


class _End(NamedTuple):
    """A solution without the constraint: an end of the bracket."""

    free: float
    tilt: float
    alpha: Vector


def _mean(low: _End, high: _End) -> Vector:
    """Return the mean of two solutions that balances."""
    if high is low:
        return low.alpha
    share = high.tilt / (high.tilt - low.tilt)
    return np.asarray(share * low.alpha + (1.0 - share) * high.alpha)


def _feasible(start: Vector, groups: Indices) -> Vector:
    if start.any():
        return start
    alpha = np.zeros(len(groups))
    # The last plane of each group: they were taken at one point, so they balance.
    alpha[len(groups) - 1 - np.unique(groups[::-1], return_index=True)[1]] = 1.0
    return alpha


def row_major(gram: Matrix) -> Matrix:
    """Return a C-ordered array whose leading block is gram: the layout the kernels know."""
    whole = gram if gram.flags.c_contiguous else gram.base
    if (
        isinstance(whole, np.ndarray)
        and whole.dtype == np.float64
        and whole.flags.carray
        and whole.strides == gram.strides
        and whole.ctypes.data == gram.ctypes.data
    ):
        return whole
    return np.array(gram, dtype=np.float64, order="C")


def _starting_point(start: Vector | None, n: int, groups: Indices | None) -> Vector | None:
    """Return start, padded and with sums of one, or None if it is nothing like that."""
    if start is None or not 0 < len(start) <= n or not start.min() >= 0.0:
        return None
    if groups is None:
        totals = divisors = np.array([start.sum()])
    else:
        used = groups[: len(start)]
        totals = np.bincount(used, weights=start, minlength=int(groups.max()) + 1)
        divisors = totals[used]
    if not np.all(np.abs(totals - 1.0) <= 1e-9):
        return None
    alpha = np.zeros(n)
    alpha[: len(start)] = start / divisors
    return alpha


@njit(cache=True, nogil=True, error_model="numpy")
def _model(
    heights: Vector, tilts: Vector, groups: Indices, top: Indices, free: float
) -> tuple[float, float]:
    """Return the sum over groups of the highest plane, and its slope, at a free parameter."""
    for k in range(top.size):
        top[k] = -1
    for j in range(groups.size):
        best = top[groups[j]]
        if best < 0 or heights[j] + free * tilts[j] > heights[best] + free * tilts[best]:
            top[groups[j]] = j
    total, slope = 0.0, 0.0
    for k in range(top.size):
        total += heights[top[k]] + free * tilts[top[k]]
        slope += tilts[top[k]]
    return total, slope


@njit(cache=True, nogil=True, error_model="numpy")
def lowest_model(
    heights: Vector, tilts: Vector, groups: Indices, n_groups: int
) -> tuple[float, float]:
    """Minimize ``sum_k max_{j in k} heights_j + c tilts_j`` over c; return minimum and minimizer.

    The function is convex and made of straight pieces. Two of them, to either side of the minimum,
    cross at the next c to try, until that is on both.
    """
    top = np.empty(n_groups, np.int64)
    steepest, spread = 0.0, 0.0
    for j in range(groups.size):
        steepest = max(steepest, abs(tilts[j]))
        spread = max(spread, abs(heights[j]))
    best, slope = _model(heights, tilts, groups, top, 0.0)
    at, c = 0.0, 0.0
    if steepest == 0.0:
        return best, at
    rounding = 8 * EPS * (spread + abs(best)) * n_groups
    level = 4 * EPS * steepest * n_groups
    low, low_value, low_slope = -np.inf, 0.0, 0.0
    high, high_value, high_slope = np.inf, 0.0, 0.0
    step = (spread if spread > 0.0 else 1.0) / steepest
    value = best
    for _ in range(200):
        if abs(slope) <= level:
            break
        if slope < 0.0:
            low, low_value, low_slope = c, value, slope
        else:
            high, high_value, high_slope = c, value, slope
        if high == np.inf:
            c = low + step
            step *= 4.0
        elif low == -np.inf:
            c = high - step
            step *= 4.0
        else:
            run = (low_value - high_value + high_slope * (high - low)) / (high_slope - low_slope)
            c = low + run
            if not low < c < high:
                break
        value, slope = _model(heights, tilts, groups, top, c)
        if value < best:
            best, at = value, c
        if (
            low > -np.inf
            and high < np.inf
            and value <= low_value + low_slope * (c - low) + rounding
        ):
            break
    return best, at
