"""Stabilizers: proximal, trust region, level, and the balanced proximal one of paper 002.

A stabilizer keeps the candidate near a center (paper 001). Without one the candidate minimizes the
reduced problem as it is (BMRM, CRBM). With one it minimizes, for some ``mu >= 0`` and center ``c``,

    r(w) + mu/2 |w - c|^2 + max_i a_i.w + b_i,        r(w) = lam/2 |w - c0|^2,

in the metric of the regularizer ``r``. The ``mu`` is

- found by a search, such that ``|w - c| <= radius`` (trust region), or such that ``r(w) + planes``
  is as low as a level, at the least ``|w - c|`` (level). The center is the best point so far;
  radius and level follow from the gap, so there is nothing to adapt, and the search need not be
  accurate;
- fixed, or adapted to what steps achieve (proximal). By the model the candidate is better than the
  center by

      promised = J(c) - ( r(w) + max_i a_i.w + b_i )  >=  0

  If a tenth of that is achieved, the step is **serious**: the best point becomes the center. Else
  it is a **null** step, which only makes the model better. An adaptive weight follows Kiwiel's rule
  (Mathematical Programming 46, 1990). Suppose that J is a parabola on the way from the center to
  the candidate. Then, if the share ``s`` of what was promised is achieved at the candidate, the
  candidate is its minimum for the weight ``2 mu (1 - s)``. The weight moves to it, down after steps
  that are better than half of the promise, up after null steps.

The two squares are one, with the weight ``lam + mu`` and the center ``(lam c0 + mu c) / (lam +
mu)``. So this is the reduced problem as it was, with ``lam + mu`` in place of ``lam`` and offsets
that are shifted by ``mu / (lam + mu) * a_i.(c - c0)``. The Gram matrix stays. For the weights alpha
that solve it, with ``w0`` the minimizer of ``r`` plus the aggregated plane, the minimizer is

    w = (lam w0 + mu c) / (lam + mu)

The bound of the original problem holds for any alpha, so it holds for these. Those of the reduced
problem without a center give a better one: `PlainBound` solves that one too.

Proximal terms at all iterates, with weights that balance a bound (paper 002, Algorithm 4).

After ``t`` iterates ``w_1 .. w_t`` the method minimizes

    t * (r(w) + max_i a_i.w + b_i) + sum_i tau_i/2 |w - w_i|^2

The sum is ``tau_{1:t}/2 |w - mean|^2`` and a constant, with the mean weighted by tau. So this is a
proximal term with a running center and ``mu = tau_{1:t} / t``.

If no ``w_t``, nor the optimum, is farther than R from where the regularizer is zero, and
``|a_t| <= A_t``, the best of T iterates is within

    1/T sum_t [ 2 tau_t R^2 + (lam R + A_t)^2 / (2 (lam t + tau_{1:t})) ]        (Proposition 3)

of the optimum. Each ``tau_t`` makes its two terms equal, ``4 R^2 tau (L + tau) = (lam R + A_t)^2``
with ``L = lam t + tau_{1:t-1}``, so that

    tau_t = ( sqrt(L^2 + (lam R + A_t)^2 / R^2) - L ) / 2
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.protocols import QuadraticRegularizer
from cutplane.core.search import between_factors
from cutplane.core.simplex_qp import SimplexQP, lowest_model
from cutplane.core.solver import QUADRATIC, Stabilizer
from cutplane.core.state import Candidate, Problem, Run, candidate_below


class _Settings(NamedTuple):
    """How searches for ``mu`` and adaptive weights go about it."""

    # How many reduced problems a search for ``mu`` may take. Two to four are usual; the limit is
    # for targets that rounding keeps out of reach.
    most_solves: int = 40
    # A search accepts solutions that use so much of a radius, or of the way from the lower bound up
    # to a level.
    nearly: float = 0.8
    # Smaller mu / lam are not felt; with larger ones the candidate is the best point.
    least_felt: float = 1e-3
    most_felt: float = 1e6
    # After so many iterations in which no bound moved, a stabilized method takes ordinary steps
    # until one does. So it does not stall where BMRM would not, however badly it is stabilized.
    patience: int = 10
    # The share of what was promised that makes a step serious, that with which the weight falls,
    # and the factor by which it changes at most.
    serious: float = 0.1
    good: float = 0.5
    fastest: float = 10.0
    # Where an adaptive weight begins, and how small it gets. With less than the regularizer's own
    # weight, it is hardly felt.
    first_weight: float = 5.0
    least_weight: float = 0.1
    # Steps shorter than this share of the distance within which the optimum must be are short
    # enough. (Hinge loss, lam 1e-6, relative gap 1e-3, no line search; a9a and ijcnn1: 299 and 81
    # iterations with 0.02, 266 and 177 with 0.05, 867 and 186 with 0.1. Without this rule the
    # weight grows without limit on a9a.)
    short: float = 0.05


_SETTINGS = _Settings()


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
        for _ in range(_SETTINGS.most_solves):
            way = verdict(solution)
            if way == 0 or high - low <= 1e-12 * low:
                break
            low, high = (mu, high) if way > 0 else (low, mu)
            mu = between_factors(low, high)
            solution = self.minimize(mu)
        return solution


@dataclass(frozen=True, slots=True)
class PlainBound:
    """The reduced problem without a center, for its bound; its weights help to solve the next one.

    The bundle's own weights are those of the problem with a center, so these are kept here, with
    the numbers of the planes that they belong to: some of them may be dropped in between.
    """

    solver: SimplexQP = field(default_factory=SimplexQP)
    numbers: Annotated[NDArray[np.int64], "i8[k]>=0"] = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )
    alpha: Annotated[Vector, "f8[k]>=0"] = field(default_factory=lambda: np.empty(0))

    def solved(
        self, bundle: Bundle, regularizer: QuadraticRegularizer, accuracy: float
    ) -> tuple[Candidate, PlainBound]:
        """Return the solution, and what to go on with. Planes with weight count as used."""
        solver, alpha = self._matched(bundle)
        alpha = solver.solve_balanced(
            bundle.matrices[1], bundle.centered_offsets, bundle.tilts, regularizer.lam,
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
        if abs(alpha.sum() - bundle.n_groups) > 1e-9:  # a plane with weight is gone: start again
            solver.warm = np.empty(0)
            return solver, np.zeros(bundle.n_planes)
        return solver, alpha


def stabilized(solution: ProximalSolution, plain: Candidate, state: Run) -> Candidate:
    """Return the minimizer near the center, or after long without progress the plain one."""
    lower = max(solution.lower, plain.lower)
    if state.stalled_for >= _SETTINGS.patience:
        return Candidate(plain.w, lower, plain.model)
    return Candidate(solution.w, lower, solution.model)


@dataclass(frozen=True, slots=True)
class LastWeight:
    """The ``mu`` of the last problem, where the next search begins, and the plain problem."""

    mu: float
    plain: PlainBound = field(default_factory=PlainBound)


class _NearBest(Stabilizer[LastWeight]):
    """Minimizes near the best point, with a ``mu`` that is found by a search."""

    __slots__ = ()
    needs = (*Stabilizer.needs, QUADRATIC)

    @abstractmethod
    def _verdict(self, here: ProximalProblem, lower: float, state: Run) -> Verdict:
        """Return what says which ``mu`` is right."""

    def init(self, problem: Problem) -> LastWeight:
        """Return where the first search begins: at the weight of the regularizer."""
        return LastWeight(problem.norm.lam)

    def propose(self, state: Run, own: LastWeight) -> tuple[Candidate, LastWeight]:
        """Minimize the model near the best point."""
        regularizer = state.problem.norm
        plain, bound = own.plain.solved(state.bundle, regularizer, state.accuracy)
        here = ProximalProblem(state.bundle, regularizer, state.best.w, state.accuracy)
        verdict = self._verdict(here, max(plain.lower, state.lower), state)
        solution = here.search(verdict, own.mu)
        return stabilized(solution, plain, state), LastWeight(solution.mu, bound)


@dataclass(frozen=True, slots=True)
class TrustRegion(_NearBest):
    """Do not go far from the best point.

    Parameters
    ----------
    share : float
        The radius, as a share of the distance within which the optimum must be: ``J`` is strongly
        convex, so that is ``sqrt(2 gap / lam)``.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"the share must be above 0 and at most 1, got {self.share}")

    def _verdict(self, here: ProximalProblem, lower: float, state: Run) -> Verdict:
        radius = self.share * reach(here.regularizer, state.objective - lower)
        least = _SETTINGS.least_felt * here.regularizer.lam

        def verdict(solution: ProximalSolution) -> int:
            if solution.distance > radius:
                return 1
            return (
                -1 if solution.distance < _SETTINGS.nearly * radius and solution.mu > least else 0
            )

        return verdict


@dataclass(frozen=True, slots=True)
class Level(_NearBest):
    """Go to the nearest point where the model is as low as a level.

    Parameters
    ----------
    share : float
        Where the level is, from the lower bound (0) to the best objective (1).
    plain_every : int, optional
        The last of so many iterations takes the minimizer of the model, wherever it is.
    """

    share: float = 0.3
    plain_every: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share must be between 0 and 1, got {self.share}")
        if self.plain_every is not None and self.plain_every < 1:
            raise ValueError(f"plain_every must be at least 1, got {self.plain_every}")

    def propose(self, state: Run, own: LastWeight) -> tuple[Candidate, LastWeight]:
        """Minimize the model near the best point, or where it is lowest if it is time for that."""
        if self.plain_every is None or (state.iteration + 1) % self.plain_every:
            return _NearBest.propose(self, state, own)  # no super() in a class that slots rebuild
        return state.bundle.minimize(state.problem, accuracy=state.accuracy), own

    def _verdict(self, here: ProximalProblem, lower: float, state: Run) -> Verdict:
        # After a line search there may be no plane that touches the risk at the best point. The
        # model is lower there than the risk, and must be taken as it is, or the best point may be
        # in the level set.
        top = here.model_at_center + here.regularizer.value(state.best.w)
        height, most = self.share * (top - lower), _SETTINGS.most_felt * here.regularizer.lam

        def verdict(solution: ProximalSolution) -> int:
            if solution.value > lower + height:
                return -1
            return (
                1
                if solution.value < lower + _SETTINGS.nearly * height and solution.mu < most
                else 0
            )

        return verdict


@dataclass(frozen=True, slots=True)
class Course:
    """What is kept from one iteration to the next."""

    center: Vector
    objective: float  # at the center
    weight: float  # mu / lam
    candidate: Candidate | None = None  # the last one
    plain: PlainBound = field(default_factory=PlainBound)


@dataclass(frozen=True, slots=True)
class Proximal(Stabilizer[Course | None]):
    """Add ``mu/2 |w - c|^2`` to the reduced problem, in the metric of the regularizer.

    Parameters
    ----------
    weight : float or None
        ``mu / lam``; None for one that adapts itself.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    weight: float | None = 10.0

    def __post_init__(self) -> None:
        if self.weight is not None and not (np.isfinite(self.weight) and self.weight > 0.0):
            raise ValueError(f"the weight must be positive and finite, got {self.weight}")

    def propose(self, state: Run, own: Course | None) -> tuple[Candidate, Course]:
        """Solve the reduced problem near the center."""
        regularizer = state.problem.norm
        course = self._course(state, own)
        here = ProximalProblem(state.bundle, regularizer, course.center, state.accuracy)
        solution = here.minimize(course.weight * regularizer.lam)
        plain, bound = course.plain.solved(state.bundle, regularizer, state.accuracy)
        candidate = stabilized(solution, plain, state)
        return candidate, replace(course, candidate=candidate, plain=bound)

    def _course(self, state: Run, course: Course | None) -> Course:
        """Return center and weight after what the last step achieved."""
        if course is None or course.candidate is None:
            weight = _SETTINGS.first_weight if self.weight is None else self.weight
            return Course(state.best.w, state.objective, weight)
        regularizer, last = state.problem.regularizer, course.candidate
        promised = course.objective - (regularizer.value(last.w) + last.model)
        serious = course.objective - state.objective >= _SETTINGS.serious * promised
        weight = course.weight
        if self.weight is None and promised > 0.0:
            weight = _adapted(course, promised, serious, state)
        if not serious:
            return replace(course, weight=weight)
        return replace(course, weight=weight, center=state.best.w, objective=state.objective)


def _adapted(course: Course, promised: float, serious: bool, state: Run) -> float:
    """Return the weight that fits the last step better."""
    regularizer = state.problem.norm
    assert course.candidate is not None
    w, bundle, weight = course.candidate.w, state.bundle, course.weight
    # The objective at the candidate if its plane was taken there, as without a line search, and
    # else a value below it.
    there = regularizer.value(w) + float(bundle.heights_at(w)[-bundle.n_groups :].sum())
    achieved = (course.objective - there) / promised
    fitting = 2.0 * weight * (1.0 - achieved)
    if serious and achieved >= _SETTINGS.good:
        return max(fitting, weight / _SETTINGS.fastest, _SETTINGS.least_weight)
    too_far = distance(regularizer, course.center, w) > _SETTINGS.short * reach(
        regularizer, state.gap
    )
    if not serious and too_far:
        return min(max(fitting, weight), _SETTINGS.fastest * weight)
    return weight


@dataclass(frozen=True, slots=True)
class Balance:
    """What the terms of a phase add up to."""

    radius: float  # R
    t: int  # number of terms
    total: float  # tau_{1:t}
    center: Vector  # the mean of the iterates, weighted by tau
    iterate: Vector  # where the next term belongs
    plain: PlainBound = field(default_factory=PlainBound)

    def with_term(self, lam: float, steepness: float) -> Balance:
        """Return the balance with a term at the iterate, where the slope is so steep."""
        t = self.t + 1
        before = lam * t + self.total
        steep = (lam * self.radius + steepness) / self.radius
        # (root - before) / 2, without its cancellation
        tau = 0.5 * steep**2 / (float(np.hypot(before, steep)) + before)
        total = self.total + tau
        share = tau / total if total > 0.0 else 1.0
        center = self.center + share * (self.iterate - self.center)
        return replace(self, t=t, total=total, center=center)

    def grown(self) -> Balance:
        """Return the first balance of a new phase, with a larger radius."""
        # Algorithm 3 of paper 002 multiplies the optimistic radius by this.
        growth = math.sqrt(2.0)
        return Balance(growth * self.radius, 0, 0.0, self.iterate, self.iterate, self.plain)


@dataclass(frozen=True, slots=True)
class BalancedProximal(Stabilizer[Balance | None]):
    """Proximal terms at all iterates, without a parameter to tune.

    Parameters
    ----------
    radius : float, optional
        How far from the regularizer's center the optimum is at most, in its metric. By default
        the optimistic strategy of the paper's section 3.4: start at ``min(1, 1/sqrt(lam))``, and
        whenever an iterate is as far as the radius, multiply it by the root of 2 and begin a new
        phase. The planes stay.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    radius: float | None = None

    def __post_init__(self) -> None:
        if self.radius is not None and not (np.isfinite(self.radius) and self.radius > 0.0):
            raise ValueError(f"the radius must be positive and finite, got {self.radius}")

    def propose(self, state: Run, own: Balance | None) -> tuple[Candidate, Balance]:
        """Solve the reduced problem with the terms of all iterates."""
        regularizer = state.problem.norm
        bundle, lam, accuracy = state.bundle, regularizer.lam, state.accuracy
        balance = self._so_far(state, own)
        newest = bundle.gram[-bundle.n_groups :, -bundle.n_groups :]
        balance = balance.with_term(lam, float(np.sqrt(max(newest.sum(), 0.0))))
        here = ProximalProblem(bundle, regularizer, balance.center, accuracy)
        solution = here.minimize(balance.total / balance.t)
        plain, bound = balance.plain.solved(bundle, regularizer, accuracy)
        candidate = stabilized(solution, plain, state)
        return candidate, replace(balance, iterate=candidate.w, plain=bound)

    def _so_far(self, state: Run, own: Balance | None) -> Balance:
        if own is None:
            lam = state.problem.norm.lam
            radius = min(1.0, 1.0 / math.sqrt(lam)) if self.radius is None else self.radius
            return Balance(radius, 0, 0.0, state.best.w, state.best.w)
        regularizer = state.problem.norm
        norm = reach(regularizer, regularizer.value(own.iterate))
        return own.grown() if self.radius is None and norm >= own.radius else own
