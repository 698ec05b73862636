"""The reduced problem of a bundle method: a concave quadratic over a product of simplices.

    maximize  D(alpha) = b.alpha - alpha' G alpha / (2 lam)
    over      alpha >= 0, the weights of each group of planes sum to 1

`simplex_kernels` says how it is solved; here is what is kept between two problems.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.reduced.simplex_kernels import Indices, maximize


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
    """

    base: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    support: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    factor: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    size: int = 0
    scale: float = 0.0

    def forget(self) -> None:
        """Discard the factor: the next solve refactors the support of its `start`."""
        self.size, self.scale = 0, 0.0

    def after_dropping(self, rows: Indices) -> SimplexQP:
        """Return the solver for when only these (increasing) rows are left, in this order.

        It takes the factor along if all planes with weight are among them.
        """
        solver = SimplexQP()
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
        gap, steps, self.size, self.scale = maximize(
            row_major(gram), offsets, float(lam), groups, float(accuracy), alpha,
            self.base, self.support, self.size, self.factor, self.scale,
        )  # fmt: skip
        return SimplexSolution(alpha, gap, steps)

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
        totals = start.sum()
    else:
        used = groups[: len(start)]
        totals = np.bincount(used, weights=start, minlength=int(groups.max()) + 1)
    if not np.all(np.abs(totals - 1.0) <= 1e-9):
        return None
    alpha = np.zeros(n)
    alpha[: len(start)] = start / (totals if groups is None else totals[used])
    return alpha
