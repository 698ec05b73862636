"""All regularizers but quadratic ones: other norms, bounds, linear constraints.

Absolute values, alone for the sparsest solutions, or with squares and strongly convex.

r(w)  = lam * |w|_1
r*(u) = 0 if |u|_inf <= lam, else infinite

r(w)  = l1 * |w|_1 + l2/2 * |w - c|^2
r*(u) = u.w - r(w)   at   w = soft(c + u/l2, l1/l2),      soft(v, t) = sign(v) * max(|v| - t, 0)

The squared p-norm, between the sparse solutions of p = 1 and the smooth ones of p = 2.

r(w)  = lam/2 * |w|_p^2,                      1 < p <= 2
r*(u) = |u|_q^2 / (2*lam),                    1/p + 1/q = 1
        attained at  w_j = sign(u_j) * |u|_q^(2-q) * |u_j|^(q-1) / lam

The relative entropy, for parameters that are positive and differ by factors.

r(w)  = lam * sum_j (w_j * log(w_j / c_j) - w_j + c_j)    for w >= 0, else infinite
r*(u) = lam * sum_j c_j * (exp(u_j / lam) - 1),           attained at  w_j = c_j * exp(u_j / lam)

The squared Euclidean norm with bounds on the parameters, for example ``w >= 0``.

r(w)  = lam/2 * |w - c|^2   for lower <= w <= upper, else infinite
r*(u) = u.w - r(w)          at  w = clip(c + u/lam, lower, upper)

Absolute values and squares with bounds on the parameters: sparse, and of known signs.

r(w)  = lam * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)   for lower <= w <= upper, else infinite
r*(u) : see `cutplane.regularizers.l2`

The indicator of a box: no regularization but bounds on the parameters.

r(w)  = 0 if lower <= w <= upper, else infinite                     (papers 001 and 003)
r*(u) = sum_j max(lower_j u_j, upper_j u_j),   attained in a corner

The indicator of a ball: no regularization but a bound on the norm.

r(w)  = 0 if |w| <= radius, else infinite           (papers 001 and 003; paper 004, Algorithm 1)
r*(u) = radius * |u|,    attained at  w = radius * u / |u|

The squared Euclidean norm within a polyhedron: linear constraints on the parameters.

r(w)  = lam/2 * |w|^2     for lower <= A w <= upper, else infinite
r*(u) = min_y |u - A'y|^2 / (2 lam) + sum_i max(upper_i y_i, lower_i y_i),     w = (u - A'y) / lam

Each ``y`` gives a value that the conjugate does not exceed, so the lower bound of a plane holds
however accurately the minimum was found. It is a projection of ``u / lam`` to the polyhedron: a
problem of least squares with multipliers that are not negative (C. Lawson, R. Hanson: Solving Least
Squares Problems, chapter 23), then linear equations for those that are not zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from cutplane.compute.arrays import EPS, Matrix, Vector, dense, positive
from cutplane.compute.products import dot, gram_with_diagonal
from cutplane.core.protocols import BallSet, BoxSet, Confined, Quadratic, Regularizer
from cutplane.regularizers.l2 import Centered, Coordinates, finite, same_shape


def _size_of_rounding(w: Vector) -> float:
    """Return by how much a point on the way from one ``w`` to another may leave the bounds."""
    return 8 * EPS * float(np.abs(w).max(initial=0.0))


class Bounded(Confined):
    """What regularizers with bounds on the parameters have in common.

    Attributes
    ----------
    lower, upper : ndarray
        Bounds, for all coordinates or for each.
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower: Vector = np.array(lower, dtype=np.float64)
        self.upper: Vector = np.array(upper, dtype=np.float64)
        if not (self.lower <= self.upper).all():
            raise ValueError("each lower bound must be at most the upper one")
        if not ((self.lower < np.inf).all() and (self.upper > -np.inf).all()):
            raise ValueError("the bounds must leave room for finite parameters")

    def allows(self, w: Vector) -> bool:
        """Say whether ``w`` is within the bounds; what leaves them by rounding is."""
        for name, given in (("lower", self.lower), ("upper", self.upper)):
            if given.ndim:
                same_shape(self, name, given, w)
        slack = _size_of_rounding(w)
        return not ((w < self.lower - slack).any() or (w > self.upper + slack).any())

    def inside(self, w: Vector) -> Vector:
        """Return ``w``, or the point next to it that is within the bounds, exactly."""
        near = np.clip(w, self.lower, self.upper)
        return w if np.array_equal(near, w) else near

    def shown_bounds(self) -> str:
        """Return the bounds as arguments, for messages."""
        bounds = (("lower", self.lower), ("upper", self.upper))
        return "".join(f", {name}={_shown(bound)}" for name, bound in bounds)


def _shown(bound: Vector) -> str:
    return f"{bound:g}" if bound.ndim == 0 else "..."


class BoundedL2(Centered, Bounded):
    """Squared Euclidean regularizer ``lam/2 * |w - center|^2`` with ``lower <= w <= upper``.

    Parameters
    ----------
    lam : float
        Strength, positive.
    lower, upper : float or array-like
        Bounds, for all coordinates or for each; they may be infinite. By default ``w >= 0``.
    center : array-like, optional
        The ``w`` that costs nothing if it is within the bounds; zero by default.
    """

    def __init__(
        self,
        lam: float,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        center: ArrayLike | None = None,
    ) -> None:
        Centered.__init__(self, lam, center)
        Bounded.__init__(self, lower, upper)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; what leaves the bounds by rounding is inside."""
        shifted = self.shifted(w)
        return 0.5 * self.lam * dot(shifted, shifted) if self.allows(w) else np.inf

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        w = np.clip(self._free(u), self.lower, self.upper)
        shifted = self.shifted(w)
        return dot(u, w) - 0.5 * self.lam * dot(shifted, shifted), w

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``: coordinates at a bound do not move."""
        free = self._free(u)
        inside = (free > self.lower) & (free < self.upper)
        return gram_with_diagonal(slopes, inside / self.lam)

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        return Coordinates.of(
            n, l2=self.lam, center=self.center, lower=self.lower, upper=self.upper
        )

    def _free(self, u: Vector) -> Vector:
        w = u / self.lam
        return np.asarray(w if self.center is None else w + self.center)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}{self.shown_bounds()})"


class BoundedElasticNet(Bounded):
    """Elastic net with ``lower <= w <= upper``.

    Without squares (``l1_ratio=1``) it has no curvature, and goes with `coordinate_descent`.

    Parameters
    ----------
    lam : float
        Strength, positive.
    l1_ratio : float
        Share of the absolute values, from 0 to 1.
    lower, upper : float or array-like
        Bounds, for all coordinates or for each; they may be infinite. By default ``w >= 0``.
    """

    def __init__(
        self,
        lam: float,
        l1_ratio: float = 0.5,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
    ) -> None:
        self.lam = positive("lam", lam)
        if not 0.0 <= l1_ratio <= 1.0:
            raise ValueError(f"l1_ratio must be from 0 to 1, got {l1_ratio}")
        self.l1_ratio = float(l1_ratio)
        super().__init__(lower, upper)

    @property
    def strongly_convex(self) -> bool:
        """Whether there are squares."""
        return self.l1_ratio < 1.0

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        l1, l2 = self.lam * self.l1_ratio, self.lam * (1.0 - self.l1_ratio)
        return Coordinates.of(n, l1=l1, l2=l2, lower=self.lower, upper=self.upper)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; what leaves the bounds by rounding is inside."""
        return self.by_coordinate(len(w)).value(w) if self.allows(w) else np.inf

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and a ``w`` that attains it, if there is one."""
        return self.by_coordinate(len(u)).conjugate(u)

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``: coordinates at zero or at a bound do not move."""
        form = self.by_coordinate(len(u))
        _, w = form.conjugate(u)
        bends = (w != 0.0) & (w > form.lower) & (w < form.upper)
        return gram_with_diagonal(slopes, np.divide(1.0, form.l2, where=bends, out=0.0 * u))

    def __repr__(self) -> str:
        shown = f"{self.lam:g}, l1_ratio={self.l1_ratio:g}{self.shown_bounds()}"
        return f"BoundedElasticNet({shown})"


class Box(Bounded, BoxSet):
    """Constraint ``lower <= w <= upper`` in place of a penalty: for `kelley`.

    Parameters
    ----------
    lower, upper : float or array-like
        Bounds, for all coordinates or for each; finite.
    """

    lam = 0.0

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        super().__init__(lower, upper)
        if not (np.isfinite(self.lower).all() and np.isfinite(self.upper).all()):
            raise ValueError("the bounds of a box must be finite; cp.BoundedL2 takes others")

    def value(self, w: Vector) -> float:
        """Return 0 inside the box, infinity outside; what leaves it by rounding is inside."""
        return 0.0 if self.allows(w) else np.inf

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the corner that attains it; where ``u`` is zero, nearest to zero."""
        corner = np.where(u > 0.0, self.upper, self.lower)
        w = np.where(u == 0.0, np.clip(0.0, self.lower, self.upper), corner)
        return dot(u, w), w

    def __repr__(self) -> str:
        return f"Box({_shown(self.lower)}, {_shown(self.upper)})"


class Ball(BallSet):
    """Constraint ``|w| <= radius`` in place of a penalty: for `kelley`.

    Parameters
    ----------
    radius : float
        Positive.
    """

    lam = 0.0

    def __init__(self, radius: float) -> None:
        self.radius = positive("the radius", radius)

    def value(self, w: Vector) -> float:
        """Return 0 inside the ball, infinity outside."""
        return 0.0 if dot(w, w) <= self.radius**2 else float("inf")

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``radius * |u|`` and the ``w`` that attains it, up to rounding."""
        size = float(np.sqrt(dot(u, u)))
        if size == 0.0:
            return 0.0, np.zeros_like(u)
        # Drawn in by a tiny share, so that rounding cannot put it outside, where the objective
        # would be infinite.
        return self.radius * size, u * ((1.0 - 1e-13) * self.radius / size)

    def at_center(self, slope: Vector) -> float:
        """Return zero: the center is the origin."""
        return 0.0

    def dual_metric(self, slope: Vector) -> Vector:
        """Return the slope itself."""
        return slope

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return zero, which holds as long as the ray stays inside."""
        return Quadratic(slope=0.0, curvature=0.0)

    def gradient(self, w: Vector) -> Vector:
        """Return zero, as inside the ball."""
        return np.zeros_like(w)

    def __repr__(self) -> str:
        return f"Ball({self.radius:g})"


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

    Attributes
    ----------
    tolerance : float
        By how much ``A w`` may be beyond its bounds, as a share of what its rounding is a share of.

    Raises
    ------
    ValueError
        If no ``w`` satisfies all constraints.
    """

    tolerance = 1e-9

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
        """Return ``r(w)``; what leaves the polyhedron by no more than `tolerance` is inside."""
        if self.A.shape[1] != len(w):
            raise ValueError(f"ConstrainedL2: A has {self.A.shape[1]} columns, w has {len(w)}")
        return 0.5 * self.lam * dot(w, w) if self.violation(w) <= self.tolerance else np.inf

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


def _polished(G: Matrix, h: Vector, multipliers: Vector) -> Vector:
    """Return multipliers that make those rows equations that have one, if that is better."""
    active = multipliers > 0.0
    if not active.any():
        return multipliers
    rows = G[active]
    # The way is x = -rows' m, and rows x = h.
    exact = np.zeros(len(h))
    exact[active] = np.linalg.lstsq(rows @ rows.T, -h[active], rcond=None)[0]
    kept = np.maximum(exact, 0.0)
    excess, before = (float((-G @ (G.T @ m) - h).max()) for m in (kept, multipliers))
    return kept if excess <= max(before, 1e-12) else multipliers


class AbsoluteAndSquare:
    """``l1 * |w|_1 + l2/2 * |w - center|^2`` with positive ``l2``.

    The square part may have a center, which makes it the proximal term of `L1`.
    """

    def __init__(self, l1: float, l2: float, center: Vector | None = None) -> None:
        self.l1 = float(l1)
        self.l2 = positive("l2", l2)
        self.center = center

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        shifted = w if self.center is None else w - self.center
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * dot(shifted, shifted)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        pull = self._pull(u)
        beyond = np.maximum(np.abs(pull) - self.l1, 0.0)
        value = dot(beyond, beyond) / (2.0 * self.l2)
        if self.center is not None:
            value -= 0.5 * self.l2 * dot(self.center, self.center)
        return value, np.copysign(beyond, pull) / self.l2

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``: only coordinates that are not zero bend."""
        return gram_with_diagonal(slopes, (np.abs(self._pull(u)) > self.l1) / self.l2)

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        return Coordinates.of(n, l1=self.l1, l2=self.l2, center=self.center)

    def _pull(self, u: Vector) -> Vector:
        return u if self.center is None else u + self.l2 * self.center


class ElasticNet(AbsoluteAndSquare):
    """Elastic net ``lam * (l1_ratio * |w|_1 + (1 - l1_ratio)/2 * |w|^2)``: sparse solutions.

    Parameters
    ----------
    lam : float
        Strength, positive.
    l1_ratio : float
        Share of the absolute values, at least 0 and less than 1. Close to 1 the reduced problem is
        hardly curved, and runs take long: use `L1`.
    """

    def __init__(self, lam: float, l1_ratio: float = 0.5) -> None:
        self.lam = positive("lam", lam)
        if not 0.0 <= l1_ratio < 1.0:
            raise ValueError(f"l1_ratio must be at least 0 and less than 1, got {l1_ratio}")
        self.l1_ratio = float(l1_ratio)
        super().__init__(self.lam * self.l1_ratio, self.lam * (1.0 - self.l1_ratio))

    def __repr__(self) -> str:
        return f"ElasticNet({self.lam:g}, l1_ratio={self.l1_ratio:g})"


class L1:
    """Absolute values ``lam * |w|_1``: many coordinates of the solution are exactly zero.

    It has corners but no curvature, so the reduced problem is a linear program, whose solutions
    jump about. The method keeps them near the best point by a level. The
    risk must have a known ``lower_bound``.

    Parameters
    ----------
    lam : float
        Strength, positive.
    """

    def __init__(self, lam: float) -> None:
        self.lam = positive("lam", lam)

    @property
    def dual_radius(self) -> float:
        """Up to which largest coordinate the conjugate is zero; beyond it is infinite."""
        return self.lam

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        return self.lam * float(np.abs(w).sum())

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and a ``w`` that attains it: zero, also where there is none."""
        inside = float(np.abs(u).max(initial=0.0)) <= self.lam
        return (0.0 if inside else np.inf), np.zeros_like(u)

    def by_coordinate(self, n: int) -> Coordinates:
        """Return the numbers of the sum over ``n`` coordinates."""
        return Coordinates.of(n, l1=self.lam)

    def with_square(self, strength: float, center: Vector) -> Regularizer:
        """Return ``r(w) + strength/2 * |w - center|^2``."""
        return AbsoluteAndSquare(self.lam, strength, center)

    def __repr__(self) -> str:
        return f"L1({self.lam:g})"


class SquaredLp:
    """Squared p-norm ``lam/2 * |w|_p^2`` for ``1 < p <= 2``.

    Strongly convex in the p-norm. Close to ``p = 1`` most coordinates are tiny, none is zero.

    Parameters
    ----------
    lam : float
        Strength, positive.
    p : float
        Above 1 and at most 2, where it is `L2`.
    """

    def __init__(self, lam: float, p: float = 1.5) -> None:
        self.lam = positive("lam", lam)
        if not 1.0 < p <= 2.0:
            raise ValueError(f"p must be above 1 and at most 2, got {p}")
        self.p = float(p)
        self._q = self.p / (self.p - 1.0)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        return 0.5 * self.lam * _norm(w, self.p) ** 2

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        norm = _norm(u, self._q)
        if norm == 0.0:
            return 0.0, np.zeros_like(u)
        powers = np.copysign((np.abs(u) / norm) ** (self._q - 1.0), u)
        return norm**2 / (2.0 * self.lam), powers * (norm / self.lam)

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``, a diagonal part less one of rank one."""
        norm, q = _norm(u, self._q), self._q
        if norm == 0.0:  # no second derivative there, but this one is an upper bound
            return gram_with_diagonal(slopes, np.full(len(u), (q - 1.0) / self.lam))
        shares = np.abs(u) / norm
        gram = gram_with_diagonal(slopes, (q - 1.0) / self.lam * shares ** (q - 2.0))
        ray = slopes @ np.copysign(shares ** (q - 1.0), u)
        return np.asarray(gram - (q - 2.0) / self.lam * np.outer(ray, ray))

    def __repr__(self) -> str:
        return f"SquaredLp({self.lam:g}, p={self.p:g})"


def _norm(v: Vector, p: float) -> float:
    # Divided by the largest, because powers overflow and underflow.
    largest = float(np.abs(v).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(((np.abs(v) / largest) ** p).sum() ** (1.0 / p))


class Entropy(Centered):
    """Relative entropy ``lam * sum_j (w_j*log(w_j/center_j) - w_j + center_j)`` for ``w >= 0``.

    The solution is positive: the center, with each coordinate multiplied by an exponential.

    Parameters
    ----------
    lam : float
        Strength, positive.
    center : array-like, optional
        The positive ``w`` that costs nothing; all ones by default.
    """

    def __init__(self, lam: float, *, center: ArrayLike | None = None) -> None:
        super().__init__(lam, center)
        if self.center is not None and not (self.center > 0.0).all():
            raise ValueError("the center must be positive")

    def value(self, w: Vector) -> float:
        """Return ``r(w)``; coordinates below zero by rounding count as zero."""
        center = np.ones_like(w) if self.center is None else self.center
        same_shape(self, "center", center, w)
        if w.min(initial=0.0) < -_size_of_rounding(w):
            return np.inf
        w = np.maximum(w, 0.0)
        return self.lam * float((rel_entr(w, center) - w + center).sum())

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it; both are infinite far out."""
        with np.errstate(over="ignore"):
            grown = np.expm1(u / self.lam)
            scaled = grown if self.center is None else self.center * grown
            w = scaled + (1.0 if self.center is None else self.center)
            return self.lam * float(scaled.sum()), w

    def local_gram(self, u: Vector, slopes: Matrix) -> Matrix:
        """Return ``slopes r*''(u) slopes'``."""
        return gram_with_diagonal(slopes, self.conjugate(u)[1] / self.lam)
