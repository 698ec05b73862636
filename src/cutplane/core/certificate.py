"""What is known when a run ends: why it ended, what is proven, what each iteration brought."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Point
from cutplane.named import load

if TYPE_CHECKING:
    from cutplane.core.state import Run


NO_BOUND = "there is no lower bound"
"""Why a certificate is not valid whose lower bound is not finite."""

VANISHES = "as far as rounding allows to tell"
"""What an optimal one rests on whose objective is no more than rounding of larger terms."""


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
    if not math.isfinite(gap):
        return math.inf
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

    Numbers that are not finite prove nothing: with one of them a certificate is never valid, nor
    its status a success, whatever it was made with.

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

    def __post_init__(self) -> None:
        if math.isfinite(self.objective) and math.isfinite(self.lower_bound):
            return
        if self.valid:
            finite = math.isfinite(self.objective)
            why = NO_BOUND if finite else f"the objective is {self.objective}"
            object.__setattr__(self, "valid", False)
            object.__setattr__(self, "reason", f"{why}, {self.reason}" if self.reason else why)
        if self.status.success:
            object.__setattr__(self, "status", Status.STOPPED)

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

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        shown: str = load("cutplane.report.charts:certificate_to_html")(self)
        return shown


@dataclass(frozen=True, slots=True)
class Record(_Bounds):
    """One line of a run's history: the bounds after an iteration, and what they cost."""

    iteration: int
    objective: Annotated[float, "float"]
    lower_bound: float
    evaluations: int
    planes: int
    seconds: Annotated[float, "float"]


@dataclass(frozen=True, slots=True)
class Stationarity:
    """How a point that is called stationary was tested.

    Attributes
    ----------
    radius : float
        That of the smallest ball in which slopes were taken, in the metric of the regularizer. The
        largest had ``sqrt(2 tolerance / lam) / 10``, each a tenth of the one before.
    slope : float
        The length of the shortest vector in the hull of the slopes taken in the smallest ball, that
        at the point included; zero in the limit at a stationary point.
    tolerance : float
        The gap that was small enough. No point that was tried lowers the objective by more than a
        tenth of it. The point that is returned, the lowest of all that were seen, is at most a
        twentieth of it below the one that passed.
    """

    radius: float
    slope: float
    tolerance: float


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
    state : Run
        What `minimize` needs to go on from here.
    """

    w: Vector
    point: Point
    certificate: Certificate
    history: list[Record]
    state: Run

    @property
    def objective(self) -> float:
        """``J(w)``, recomputed from the data."""
        return self.certificate.objective

    @property
    def status(self) -> Status:
        """Why the run ended."""
        return self.certificate.status

    @property
    def stationarity(self) -> Stationarity | None:
        """How a point that is called stationary was tested.

        None for convex risks, and with a regularizer that is not quadratic: then it was not.
        """
        return self.state.stationarity

    @property
    def convex_step(self) -> Certificate | None:
        """What is proven of the last convex problem that `cutplane.cccp` solved; else None."""
        return self.state.convex_step

    @property
    def iterations(self) -> int:
        """How many times the reduced problem was solved."""
        return len(self.history)

    @property
    def evaluations(self) -> int:
        """How many times the risk was evaluated; the final check is not counted."""
        return self.state.evaluations

    @property
    def seconds(self) -> float:
        """Wall-clock time of the run."""
        return self.state.seconds

    def _repr_html_(self) -> str:
        """Return the certificate, the work and a chart of the bounds for notebooks."""
        shown: str = load("cutplane.report.charts:result_to_html")(self)
        return shown

    def __repr__(self) -> str:
        return (
            f"Result({self.certificate}; {self.iterations} iterations, "
            f"{self.evaluations} evaluations, {self.seconds:.3g} s)"
        )
