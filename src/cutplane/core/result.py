"""What a run hands back."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.compute.arrays import Vector
from cutplane.core.certificate import Certificate, Record, Status
from cutplane.core.protocols import Point
from cutplane.core.state import State
from cutplane.core.stationarity import Stationarity


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
    def stationarity(self) -> Stationarity | None:
        """How a point that is called stationary was tested; None for convex risks."""
        return self.state.stationarity

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
