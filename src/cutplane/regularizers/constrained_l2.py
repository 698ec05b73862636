"""The squared Euclidean norm within a polyhedron: linear constraints on the parameters.

r(w)  = lam/2 * |w|^2     for lower <= A w <= upper, else infinite
r*(u) = min_y |u - A'y|^2 / (2 lam) + sum_i max(upper_i y_i, lower_i y_i),     w = (u - A'y) / lam

Each ``y`` gives a value that the conjugate does not exceed, so the lower bound of a plane holds
however accurately the minimum was found. It is a projection of ``u / lam`` to the polyhedron: a
problem of least squares with multipliers that are not negative (C. Lawson, R. Hanson: Solving Least
Squares Problems, chapter 23), then linear equations for those that are not zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutplane.compute.arrays import Matrix, Vector, dense
from cutplane.compute.products import dot
from cutplane.regularizers.l2 import finite, positive

TOLERANCE = 1e-9
"""By how much ``A w`` may be beyond its bounds, as a share of what its rounding is a share of."""


class ConstrainedL2:
    """Squared Euclidean regularizer ``lam/2 * |w|^2`` with ``lower <= A w <= upper``.

    Parameters
    ----------
    lam : float
        Strength, positive.
    A : array-like of shape (n_constraints, n_parameters)
        The constraints, one a row.
    lower, upper : float or array-like of shape (n_constraints,)
        Between what ``A w`` must be; equal for an equation, infinite for no bound.

    Raises
    ------
    ValueError
        If no ``w`` satisfies all constraints.
    """

    def __init__(
        self, lam: float, A: ArrayLike, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf
    ) -> None:
        self.lam = positive("lam", lam)
        self.A = finite("constraints", np.atleast_2d(dense(A)))
        n = len(self.A)
        try:
            bounds = [np.array(np.broadcast_to(b, n), dtype=np.float64) for b in (lower, upper)]
        except ValueError:
            raise ValueError(f"there must be one bound, or {n}, for {n} constraints") from None
        self.lower, self.upper = bounds
        if np.isnan(self.lower).any() or np.isnan(self.upper).any():
            raise ValueError("the bounds of constraints must be numbers")
        if not self._is_feasible():
            raise ValueError("the constraints contradict each other: nothing satisfies them all")

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; what leaves the polyhedron by no more than `TOLERANCE` is inside."""
        if self.A.shape[1] != len(w):
            raise ValueError(f"ConstrainedL2: A has {self.A.shape[1]} columns, w has {len(w)}")
        return 0.5 * self.lam * dot(w, w) if self.violation(w) <= TOLERANCE else np.inf

    def violation(self, w: Vector) -> float:
        """Return by how much the worst constraint is violated, as a share of its size.

        That is the length of its row times that of ``w``, and its bound: a parameter that should be
        zero is off by the rounding of the others, however small it is itself.
        """
        heights = self.A @ w
        sizes = np.sqrt((self.A**2).sum(axis=1) * dot(w, w))
        beyond = np.maximum(heights - self.upper, self.lower - heights)
        known = np.where(heights > self.upper, self.upper, self.lower)
        sizes += np.abs(np.where(np.isfinite(known), known, 0.0))
        worst = beyond / np.maximum(sizes, np.finfo(np.float64).tiny)
        return float(worst.max(initial=0.0))

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return a value that ``r*(u)`` does not exceed, nor differ from much, and its ``w``."""
        y = self._multipliers(u)
        rest = u - self.A.T @ y
        ends = np.where(y > 0.0, self.upper, np.where(y < 0.0, self.lower, 0.0))
        return dot(rest, rest) / (2.0 * self.lam) + dot(ends, y), self._settled(rest, y, ends)

    def _settled(self, rest: Vector, y: Vector, ends: Vector) -> Vector:
        """Return ``rest / lam``, moved back to where the active constraints are equations.

        With a small ``lam`` both terms of ``rest`` are far larger than their difference.
        """
        w = rest / self.lam
        rows = self.A[y != 0.0]
        if len(rows):
            off = ends[y != 0.0] - rows @ w
            w += rows.T @ np.linalg.lstsq(rows @ rows.T, off, rcond=None)[0]
        return np.asarray(w)

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``: constraints that hold with equality stay so."""
        active = self.A[self._multipliers(u) != 0.0]
        if len(active):
            values, vectors = np.linalg.eigh(active @ active.T)
            kept = values > 1e-12 * values.max()
            basis = (vectors[:, kept] / np.sqrt(values[kept])).T @ active
            slopes = slopes - (slopes @ basis.T) @ basis
        return np.asarray(slopes @ slopes.T) / self.lam

    def _multipliers(self, u: Vector) -> Vector:
        """Return the multipliers of the projection of ``u / lam``, positive at upper bounds."""
        from scipy.optimize import nnls  # slow to import, and only needed here

        y = np.zeros(len(self.A))
        target = u / self.lam
        heights = self.A @ target
        # One row for each bound: G x <= h for the way x from the target, with the sign of y.
        signs = np.append(np.ones(len(y)), -np.ones(len(y)))
        slack = np.append(self.upper - heights, heights - self.lower)
        norms = np.tile(np.sqrt((self.A**2).sum(axis=1)), 2)
        used = np.isfinite(slack) & (norms > 0.0)
        if not (slack[used] < 0.0).any():
            return y
        G = (signs[:, None] * np.tile(self.A, (2, 1)))[used] / norms[used, None]
        h = slack[used] / norms[used]
        size = float(np.abs(h[h < 0.0]).max())  # the way is about that long
        rows = np.vstack([-G.T, -h / size])
        goal = np.zeros(len(rows))
        goal[-1] = 1.0
        try:
            found = nnls(rows, goal)[0]
        except RuntimeError:  # too many steps
            found = np.zeros(len(h))
        left = goal - rows @ found
        if left[-1] > 0.0:
            found *= size / left[-1]
        found = _polished(G, h, found)
        signed = np.zeros(len(signs))
        signed[used] = self.lam * found / norms[used]
        return signed[: len(y)] - signed[len(y) :]

    def _is_feasible(self) -> bool:
        from scipy.optimize import linprog

        if not (self.lower <= self.upper).all():
            return False
        high, low = self.upper < np.inf, self.lower > -np.inf
        solution = linprog(
            np.zeros(self.A.shape[1]),
            A_ub=np.vstack([self.A[high], -self.A[low]]),
            b_ub=np.append(self.upper[high], -self.lower[low]),
            bounds=(None, None),
        )
        return bool(solution.status != 2)

    def __repr__(self) -> str:
        n, d = self.A.shape
        return f"ConstrainedL2({self.lam:g}, {n} constraints on {d} parameters)"


def _polished(G: Matrix, h: Vector, multipliers: Vector) -> NDArray[Any]:
    """Return multipliers that make those rows equations that have one, if that is better."""
    active = multipliers > 0.0
    if not active.any():
        return multipliers
    rows = G[active]
    # The way is x = -rows' m, and rows x = h.
    exact = np.zeros(len(h))
    exact[active] = np.linalg.lstsq(rows @ rows.T, -h[active], rcond=None)[0]
    kept = np.maximum(exact, 0.0)

    def excess(m: Vector) -> float:
        return float((-G @ (G.T @ m) - h).max())

    return kept if excess(kept) <= max(excess(multipliers), 1e-12) else multipliers
