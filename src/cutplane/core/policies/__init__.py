"""The four choices of a bundle method: stabilizer, memory, query, cuts.

A policy is configuration, and remembers nothing. What it must know from one iteration to the next
is a value of its own: `init` makes the first one, the policy's verb takes it and returns the next.
Such a value consists of arrays and numbers, so that a run can be written to a file, compared and
resumed. Policies without anything to remember have None.

What a policy cannot do without is in its ``needs``: see `cutplane.core.needs`. Its other class
attributes say which policies it goes with (`cutplane.core.method`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from cutplane.compute.arrays import Vector
from cutplane.core.needs import CURVED, Need
from cutplane.core.protocols import Plane, Point

if TYPE_CHECKING:
    from cutplane.core.bundle import Bundle
    from cutplane.core.problem import Candidate, Problem
    from cutplane.core.state import State


class Policy(ABC):  # noqa: B024 (its kinds have abstract methods)
    """What all policies have.

    Attributes
    ----------
    needs : tuple of Need
        What it asks of risk and regularizer.
    """

    __slots__ = ()
    needs: ClassVar[tuple[Need, ...]] = ()

    def init(self, problem: Problem) -> Any:
        """Return what is remembered before the first iteration: nothing, if not overridden."""
        return None


class Stabilizer(Policy):
    """Proposes where to look next, with a bound that no stabilization can invalidate.

    Attributes
    ----------
    planes_of : {"risk", "objective"}
        What the planes of the bundle lie below.
    confined : bool
        Whether the risk may be evaluated at candidates only.
    """

    __slots__ = ()
    needs: ClassVar[tuple[Need, ...]] = (CURVED,)
    planes_of: ClassVar[Literal["risk", "objective"]] = "risk"
    confined: ClassVar[bool] = False

    @abstractmethod
    def propose(self, state: State, own: Any) -> tuple[Candidate, Any]:
        """Solve the reduced problem."""


class Memory(Policy):
    """Keeps the bundle at the size it should have.

    Attributes
    ----------
    drops_planes : bool
        Whether planes are ever given up.
    """

    __slots__ = ()
    drops_planes: ClassVar[bool] = True

    @abstractmethod
    def make_room(self, bundle: Bundle, incoming: int, own: Any) -> Any:
        """Drop planes, if need be, before ``incoming`` new ones are added."""


class Found(NamedTuple):
    """What a query brings back.

    Attributes
    ----------
    points : list of Point
        Points that may be the best.
    cut_at : list of Point
        Points to take planes at.
    planes : sequence of Plane
        Planes that touch the risk nowhere in particular, such as those of dual solvers.
    step : float, optional
        How far from the best point a search went.
    """

    points: list[Point]
    cut_at: list[Point]
    planes: Sequence[Plane] = ()
    step: float | None = None


class Query(Policy):
    """Chooses the points of an iteration.

    Attributes
    ----------
    leaves_candidate : bool
        Whether the risk may be evaluated elsewhere than at the candidate.
    makes_planes : bool
        Whether it finds planes that touch the risk nowhere, from duals.
    """

    __slots__ = ()
    leaves_candidate: ClassVar[bool] = True
    makes_planes: ClassVar[bool] = False

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk where the run starts."""
        return problem.risk.at(w)

    @abstractmethod
    def __call__(self, state: State, candidate: Candidate, own: Any) -> tuple[Found, Any]:
        """Evaluate the risk at or on the way to the candidate."""

    def carried_over(self, own: Any, state: State) -> Any:
        """Return what to begin another run on the same risk with, of which ``state`` is the first.

        Duals serve any regularizer; whatever else a query knows stays behind.
        """
        return self.init(state.problem)


class Cuts(Policy):
    """Turns points into planes.

    Attributes
    ----------
    planes_of : {"risk", "objective"}
        What the planes lie below.
    for_convex : bool
        Whether planes are taken to lie below the risk everywhere.
    """

    __slots__ = ()
    planes_of: ClassVar[Literal["risk", "objective"]] = "risk"
    for_convex: ClassVar[bool] = False

    @abstractmethod
    def add(self, state: State, found: Found, before: Point, own: Any) -> tuple[bool, Any]:
        """Add planes of the points ``found.cut_at`` to the bundle.

        The best point is already the one after this iteration; ``before`` is the one before it.
        Return whether the lower bound moved, for cuts that change it.
        """
