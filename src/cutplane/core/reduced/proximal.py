"""The reduced problem near a center: what proximal, trust-region and level methods solve.

All of them minimize, for some ``mu >= 0`` and some center ``c``,

    r(w) + mu/2 |w - c|^2 + max_i a_i.w + b_i,        r(w) = lam/2 |w - c0|^2,

in the metric of the regularizer ``r``. The two squares are one, with the weight ``lam + mu`` and
the center ``(lam c0 + mu c) / (lam + mu)``. So this is the reduced problem as it was, with
``lam + mu`` in place of ``lam`` and offsets that are shifted by ``mu / (lam + mu) * a_i.(c - c0)``.
The Gram matrix stays. For the weights alpha that solve it, with ``w0`` the minimizer of ``r`` plus
the aggregated plane, the minimizer is

    w = (lam w0 + mu c) / (lam + mu)

The bound of the original problem holds for any alpha, so it holds for these. Those of the reduced
problem without a center give a better one: `PlainBound` solves that one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.protocols import QuadraticRegularizer
from cutplane.core.reduced.simplex_qp import SimplexQP, lowest_model
from cutplane.core.state import Candidate, Run, candidate_below

# After so many iterations in which no bound moved, a stabilized method takes ordinary steps until
# one does. So it does not stall where BMRM would not, however badly it is stabilized.
_PATIENCE = 10

# How many reduced problems a search for ``mu`` may take. Two to four are usual; the limit is for
# targets that rounding keeps out of reach.
_MOST_SOLVES = 40


def distance(regularizer: QuadraticRegularizer, start: Vector, end: Vector) -> float:
    """Return the distance of two points in the metric of the regularizer."""
    return float(np.sqrt(regularizer.along(start, end).curvature / regularizer.lam))


def reach(regularizer: QuadraticRegularizer, gap: float) -> float:
    """Return how far from the best point the optimum is at most.

    ``J`` is strongly convex, so at a distance d from the optimum it is higher by ``lam/2 d^2``.
    """
    return float(np.sqrt(2.0 * max(gap, 0.0) / regularizer.lam))


class ProximalSolution(NamedTuple):
    """The minimizer ``w`` for one ``mu``."""

    mu: float
    w: Vector
    model: float  # the height of the planes there, the regularizer not included
    value: float  # the model of the objective there: planes and regularizer
    distance: float  # from the center, in the metric of the regularizer
    lower: float  # the bound on the original problem that its weights give


# Says 0 to accept a solution, 1 if its ``mu`` must be larger, -1 if it must be smaller.
Verdict = Callable[[ProximalSolution], int]


@dataclass(slots=True)
class ProximalProblem:
    """The reduced problems of a state near one center, for any ``mu``."""

    bundle: Bundle
    regularizer: QuadraticRegularizer
    center: Vector
    accuracy: float
    model_at_center: float = field(init=False)
    _shift: Vector = field(init=False)
    _idle: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        bundle = self.bundle
        heights = bundle.heights_at(self.center)
        self.model_at_center = lowest_model(heights, bundle.tilts, bundle.groups, bundle.n_groups)[
            0
        ]
        self._shift = heights - bundle.centered_offsets  # a_i.(c - c0)
        self._idle = bundle.idle

    def minimize(self, mu: float) -> ProximalSolution:
        """Solve the reduced problem; its weights become those of the bundle."""
        bundle, lam = self.bundle, self.regularizer.lam
        bundle.weigh(lam + mu, accuracy=self.accuracy, shift=mu / (lam + mu) * self._shift)
        # However many problems a search takes, they count as one.
        bundle.idle = np.where(bundle.alpha > 0.0, 0, self._idle + 1)
        plane = bundle.aggregate()
        plain = candidate_below(plane, self.regularizer)
        w = (lam * plain.w + mu * self.center) / (lam + mu)
        model = dot(plane.slope, w) + plane.offset
        return ProximalSolution(
            mu=mu,
            w=w,
            model=model,
            value=model + self.regularizer.value(w),
            distance=distance(self.regularizer, self.center, w),
            lower=plain.lower,
        )

    def search(self, verdict: Verdict, mu: float) -> ProximalSolution:
        """Return the minimizer that the verdict accepts, beginning at a positive ``mu``."""
        low, high = 0.0, np.inf
        solution = self.minimize(mu)
        for _ in range(_MOST_SOLVES):
            way = verdict(solution)
            if way == 0 or high - low <= 1e-12 * low:
                break
            low, high = (mu, high) if way > 0 else (low, mu)
            if high == np.inf:
                mu = 4.0 * low
            elif low == 0.0:
                mu = 0.25 * high
            else:
                mu = float(np.sqrt(low * high))
            solution = self.minimize(mu)
        return solution


@dataclass(frozen=True, slots=True)
class PlainBound:
    """The reduced problem without a center, for its bound; its weights help to solve the next one.

    The bundle's own weights are those of the problem with a center, so these are kept here, with
    the numbers of the planes that they belong to: some of them may be dropped in between.
    """

    solver: SimplexQP = field(default_factory=SimplexQP)
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    alpha: Vector = field(default_factory=lambda: np.empty(0))

    def solved(
        self, bundle: Bundle, regularizer: QuadraticRegularizer, accuracy: float
    ) -> tuple[Candidate, PlainBound]:
        """Return the solution, and what to go on with. Planes with weight count as used."""
        solver, alpha = self._matched(bundle)
        alpha = solver.solve_balanced(
            bundle.gram, bundle.centered_offsets, bundle.tilts, regularizer.lam,
            groups=bundle.groups if bundle.n_groups > 1 else None, start=alpha, accuracy=accuracy,
        )  # fmt: skip
        bundle.idle = np.where(alpha > 0.0, 0, bundle.idle)
        candidate = candidate_below(bundle.aggregate(alpha), regularizer)
        return candidate, PlainBound(solver, bundle.numbers, alpha)

    def _matched(self, bundle: Bundle) -> tuple[SimplexQP, Vector]:
        """Return solver and weights for the rows that the bundle has now."""
        rows = np.flatnonzero(np.isin(self.numbers, bundle.numbers))
        solver = self.solver
        if len(rows) < len(self.numbers):
            solver = solver.after_dropping(rows)
        alpha = np.zeros(bundle.n_planes)
        alpha[: len(rows)] = self.alpha[rows]
        if abs(alpha.sum() - bundle.n_groups) > 1e-9:  # a plane with weight is gone: start anew
            solver.warm = np.empty(0)
            return solver, np.zeros(bundle.n_planes)
        return solver, alpha


def stabilized(solution: ProximalSolution, plain: Candidate, state: Run) -> Candidate:
    """Return the minimizer near the center, or after long without progress the plain one."""
    lower = max(solution.lower, plain.lower)
    if state.stalled_for >= _PATIENCE:
        return Candidate(plain.w, lower, plain.model)
    return Candidate(solution.w, lower, solution.model)
