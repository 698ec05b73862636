"""What a run knows while it goes on, and what it hands back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.problem import Problem
from cutplane.core.protocols import GroupedPoint, Plane, Point, Regularizer

# Bounds are sums of a few terms that each carry rounding errors of a few units in the last place.
# The lower bound is lowered by this share of the terms' sizes, so that rounding cannot lift it
# above the optimum. (16 was too little for the Poisson loss, whose conjugate is a small difference
# of large terms.)
_ROUNDING = 64 * float(np.finfo(np.float64).eps)

# A lower bound above the objective by more than this share cannot be rounding: the risk is not
# convex, or its subgradient is wrong.
_CONTRADICTION = 1e-9

# A recomputed objective that differs by more than this share cannot be rounding: the risk is not
# the same function each time, or its segments do not fit its points.
DISAGREEMENT = 1e-6


class Status(StrEnum):
    """Why a run ended; the value is the word that users see."""

    RUNNING = "running"
    OPTIMAL = "optimal"
    STATIONARY = "stationary"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    STALLED = "stalled"
    INCONSISTENT = "inconsistent"
    FAILED = "failed"

    @property
    def success(self) -> bool:
        """Whether the run reached what it was asked for."""
        return self in (Status.OPTIMAL, Status.STATIONARY)


def relative(gap: float, objective: float) -> float:
    """Return the gap as a share of the objective; zero when both vanish."""
    if gap <= 0.0:
        return 0.0
    return gap / max(abs(objective), float(np.finfo(np.float64).tiny))


def percent(share: float) -> str:
    """Return a share in percent, rounded up to two digits: a proof must not be overstated."""
    if not math.isfinite(share):
        return "an unknown share"
    points = 100 * max(share, 1e-6)
    unit = 10.0 ** (math.floor(math.log10(points)) - 1)
    rounded = math.ceil(points / unit - 1e-9) * unit
    return f"{rounded:.2g} %" if rounded < 99 else f"{rounded:.0f} %"


class _Bounds:
    """What follows from an objective and a lower bound."""

    __slots__ = ()
    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How much lower the objective could be at most."""
        return max(self.objective - self.lower_bound, 0.0)

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective."""
        return relative(self.gap, self.objective)


@dataclass(frozen=True, slots=True)
class Certificate(_Bounds):
    """What is proven about a fit: ``lower_bound <= min J <= objective``.

    Attributes
    ----------
    objective : float
        ``J(w)`` of the returned ``w``, recomputed from the data.
    lower_bound : float
        A value below which no ``w`` can bring ``J``.
    status : Status
        Why the run ended.
    valid : bool
        Whether both bounds hold: true for convex risks, unless the run was inconsistent.
    reason : str
        Why the certificate is not valid, where the risk has more to say than that it is not convex;
        or what a valid one rests on that nobody has proven: that a function is convex.
    """

    objective: float
    lower_bound: float
    status: Status
    valid: bool
    reason: str = ""

    def __str__(self) -> str:
        if self.valid:
            proof = f"no model is better by more than {percent(self.relative_gap)}"
            proof += f", {self.reason}" if self.reason else ""
        else:
            proof = self.reason or "the gap is not a proof here"
        return (
            f"objective {self.objective:.8g}, lower bound {self.lower_bound:.8g}, "
            f"relative gap {self.relative_gap:.2e} ({self.status}: {proof})"
        )


@dataclass(frozen=True, slots=True)
class Record(_Bounds):
    """One line of a run's history: the bounds after an iteration, and what they cost."""

    iteration: int
    objective: float
    lower_bound: float
    evaluations: int
    planes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """The minimizer of the reduced problem, with a bound, and the height of the model there."""

    w: Vector
    lower: float
    model: float


def candidate_below(plane: Plane, regularizer: Regularizer) -> Candidate:
    """Minimize ``regularizer + plane``: the certificate of every method.

    A plane lies below the risk, so this minimum lies below the minimum of the objective. For the
    aggregate ``(A'alpha, b.alpha)`` of a bundle it is ``D(alpha) = b.alpha - r*(-A'alpha)``, valid
    for any ``alpha`` on the simplex however it was found.
    """
    conjugate, w = regularizer.conjugate(-plane.slope)
    rounding = _ROUNDING * (abs(plane.offset) + abs(conjugate))
    lower = plane.offset - conjugate - rounding
    return Candidate(w, lower, lower - regularizer.value(w))


@dataclass(slots=True)
class State:
    """Everything that changes while the loop runs: a run can go on from it as if never stopped.

    ``memo`` is what a query keeps from one iteration to the next. If it has a method
    ``carried_over(risk, regularizer, point)``, a run with ``planes_from`` and the same kind of
    query begins with the result. ``stabilizer_memo`` is the same for a stabilizer. Both belong to
    the ``method``, and all bounds to the ``problem``. ``seconds_left`` is for a query
    that may take longer than the time limit of the run allows.
    """

    problem: Problem
    method: Any
    bundle: Bundle
    best: Point
    objective: float
    lower: float = -np.inf
    convex: bool = True
    iteration: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    seconds_left: float = np.inf
    stopped: bool = False
    interrupted: bool = False
    stalled_for: int = 0
    refuted: bool = False
    memo: Any = None
    stabilizer_memo: Any = None
    history: list[Record] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Objective minus lower bound; infinite before the first bound."""
        return self.objective - self.lower

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective."""
        return relative(self.gap, self.objective)

    @property
    def contradictory(self) -> bool:
        """Whether a bound or a plane is clearly above the risk: no convex one allows that."""
        scale = abs(self.objective) + abs(self.lower) + self.bundle.offset_scale
        return self.refuted or self.gap < -_CONTRADICTION * scale

    def test(self, plane: Plane, points: list[Point]) -> None:
        """Compare a plane with the risk where it is known: above it, the plane is wrong."""
        for point in (self.best, *points):
            height = dot(plane.slope, point.w)
            # Where the risk vanishes these are all rounding, and small beside the objective.
            scale = abs(height) + abs(plane.offset) + abs(point.value) + abs(self.objective)
            if height + plane.offset - point.value > _CONTRADICTION * scale:
                self.refuted = True

    def test_model(self, bundle: Bundle) -> None:
        """Compare the planes of an earlier run with the risk at the best point."""
        height = bundle.height_at(self.best.w)
        scale = abs(height) + float(np.abs(bundle.offsets).max()) + abs(self.best.value)
        if height - self.best.value > _CONTRADICTION * scale:
            self.refuted = True

    def planes_at(self, point: Point) -> Sequence[Plane]:
        """Return the plane of a point, or those of the bundle's groups."""
        if self.bundle.n_groups == 1:
            return [point.plane()]
        if not hasattr(point, "planes"):
            raise TypeError(
                f"{type(point).__name__} has no method planes(), which groups need; "
                "use bmrm(groups=1)"
            )
        return cast(GroupedPoint, point).planes(self.bundle.n_groups)

    def raise_lower_bound(self, candidate: Candidate) -> bool:
        """Keep the better bound; return whether it moved."""
        moved = candidate.lower > self.lower
        if moved:
            self.lower = candidate.lower
        return moved

    def keep_best(self, points: list[Point], regularizer: Regularizer) -> bool:
        """Keep the point with the lowest objective; return whether it changed."""
        before = self.best
        for point in points:
            objective = regularizer.value(point.w) + point.value
            if objective < self.objective:
                self.best, self.objective = point, objective
        return self.best is not before

    def __repr__(self) -> str:
        return (
            f"State(iteration {self.iteration}, objective {self.objective:.8g}, lower bound "
            f"{self.lower:.8g}, {self.bundle.n_planes} planes)"
        )

    def record(self) -> Record:
        """Return the current line of the history."""
        return Record(
            iteration=self.iteration,
            objective=self.objective,
            lower_bound=min(self.lower, self.objective),
            evaluations=self.evaluations,
            planes=self.bundle.n_planes,
            seconds=self.seconds,
        )


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run.

    Attributes
    ----------
    w : ndarray
        The best parameters seen, not the last.
    point : Point
        The risk at ``w``, as its own kind of point (a linear risk's has an ``intercept``).
    certificate : Certificate
        What is proven about ``w``.
    history : list of Record
        The bounds after every iteration.
    state : State
        What `minimize` needs to go on from here.
    """

    w: Vector
    point: Point
    certificate: Certificate
    history: list[Record]
    state: State

    @property
    def objective(self) -> float:
        """``J(w)``, recomputed from the data."""
        return self.certificate.objective

    @property
    def status(self) -> Status:
        """Why the run ended."""
        return self.certificate.status

    @property
    def iterations(self) -> int:
        """How many times the reduced problem was solved."""
        return self.state.iteration

    @property
    def evaluations(self) -> int:
        """How many times the risk was evaluated; the final check is not counted."""
        return self.state.evaluations

    @property
    def seconds(self) -> float:
        """Wall-clock time of the run."""
        return self.state.seconds

    def __repr__(self) -> str:
        return (
            f"Result({self.certificate}; {self.iterations} iterations, "
            f"{self.evaluations} evaluations, {self.seconds:.3g} s)"
        )
