"""A method: one of each of the four choices stabilizer, memory, query and cuts.

A choice, or policy, is configuration, and remembers nothing. What it must know from one iteration
to the next is a value of its own: `init` makes the first one, the policy's verb takes it and
returns the next. Such a value consists of arrays and numbers, so that a run can be written to a
file, compared and resumed. Policies without anything to remember have None.

What a policy cannot do without is in its ``needs``: see `cutplane.core.needs`. Its other class
attributes say which policies it goes with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast

from cutplane.compute.arrays import Vector
from cutplane.core.needs import CURVED, Need, unmet, why_unproven
from cutplane.core.protocols import Plane, Point, Risk

if TYPE_CHECKING:
    from cutplane.core.bundle import Bundle
    from cutplane.core.state import Candidate, Problem, State

PlanesOf = Literal["risk", "objective", "none"]
_PLANES = {
    "risk": "planes of the risk",
    "objective": "planes of the objective",
    "none": "no planes",
}


Own = TypeVar("Own")


class Policy(ABC, Generic[Own]):
    """What all policies have: ``needs`` is what one asks of risk and regularizer.

    ``Own`` is the type of what it remembers, None if that is nothing.
    """

    __slots__ = ()
    needs: ClassVar[tuple[Need, ...]] = ()

    def init(self, problem: Problem) -> Own:
        """Return what is remembered before the first iteration: None, if not overridden."""
        return cast("Own", None)


class Stabilizer(Policy[Own]):
    """Proposes where to look next, with a bound that no stabilization can invalidate.

    Attributes
    ----------
    planes_of : {"risk", "objective", "none"}
        What the planes of the bundle lie below.
    confined : bool
        Whether the risk may be evaluated at candidates only.
    proposes : bool
        Whether there is a reduced problem, whose solution is the candidate.
    """

    __slots__ = ()
    needs: ClassVar[tuple[Need, ...]] = (CURVED,)
    planes_of: ClassVar[PlanesOf] = "risk"
    confined: ClassVar[bool] = False
    proposes: ClassVar[bool] = True

    @abstractmethod
    def propose(self, state: State, own: Own) -> tuple[Candidate, Own]:
        """Solve the reduced problem."""


class Memory(Policy[Own]):
    """Keeps the bundle at the size it should have; ``drops_planes`` if some are ever given up."""

    __slots__ = ()
    drops_planes: ClassVar[bool] = True

    @abstractmethod
    def make_room(self, bundle: Bundle, incoming: int, own: Own) -> Own:
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


class Query(Policy[Own]):
    """Chooses the points of an iteration.

    Attributes
    ----------
    leaves_candidate : bool
        Whether the risk may be evaluated elsewhere than at the candidate.
    makes_planes : bool
        Whether it finds planes that touch the risk nowhere, from duals.
    knows_first_plane : bool
        Whether its planes say all that the plane of the first point says, which then is not taken.
    restless : bool
        Whether it moves on even if no bound does, so that a run never stalls.
    uses_candidate : bool
        Whether it asks the candidate where to look.
    """

    __slots__ = ()
    leaves_candidate: ClassVar[bool] = True
    makes_planes: ClassVar[bool] = False
    knows_first_plane: ClassVar[bool] = False
    restless: ClassVar[bool] = False
    uses_candidate: ClassVar[bool] = True

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk where the run starts."""
        return problem.risk.at(w)

    @abstractmethod
    def __call__(self, state: State, candidate: Candidate, own: Own) -> tuple[Found, Own]:
        """Evaluate the risk at or on the way to the candidate."""

    def carried_over(self, own: Own, state: State) -> Own:
        """Return what to begin another run on the same risk with, of which ``state`` is the first.

        Duals serve any regularizer; whatever else a query knows stays behind.
        """
        return self.init(state.problem)


class Cuts(Policy[Own]):
    """Turns points into planes.

    Attributes
    ----------
    planes_of : {"risk", "objective", "none"}
        What the planes lie below.
    for_convex : bool
        Whether planes are taken to lie below the risk everywhere.
    """

    __slots__ = ()
    planes_of: ClassVar[PlanesOf] = "risk"
    for_convex: ClassVar[bool] = False

    @abstractmethod
    def add(self, state: State, found: Found, before: Point, own: Own) -> tuple[bool, Own]:
        """Add planes of the points ``found.cut_at`` to the bundle.

        The best point is already the one after this iteration; ``before`` is the one before it.
        Return whether the lower bound moved, for cuts that change it.
        """


@dataclass(slots=True)
class PolicyStates:
    """What each policy of a method remembers: of whatever types these policies say."""

    stabilizer: Any = None
    memory: Any = None
    query: Any = None
    cuts: Any = None


@dataclass(frozen=True, slots=True)
class Method:
    """A bundle method, made of the four choices that the loop leaves open.

    With ``groups`` the risk is split into so many, and the model has planes for each of them; None
    leaves their number to the risk. ``name`` is what results call the method.
    """

    stabilizer: Stabilizer[Any]
    memory: Memory[Any]
    query: Query[Any]
    cuts: Cuts[Any]
    groups: int | None = 1
    name: str = "custom"

    def __post_init__(self) -> None:
        stabilizer, cuts = self.stabilizer, self.cuts
        memory_name, query_name, cuts_name = map(_name, (self.memory, self.query, cuts))
        refusals = [
            (
                stabilizer.confined and self.query.leaves_candidate,
                f"{query_name} would leave the set; kelley() needs AtCandidate",
            ),
            (
                stabilizer.confined and self.memory.drops_planes,
                "without a regularizer nothing but its planes keeps the method from going back "
                f"and forth, and {memory_name} drops some; kelley() needs KeepAll",
            ),
            (
                stabilizer.confined and not cuts.for_convex,
                f"candidates lie anywhere in the set, where the planes of {cuts_name} say "
                "nothing; kelley() needs ConvexCuts",
            ),
            (
                stabilizer.planes_of != cuts.planes_of,
                f"{_name(stabilizer)} takes {_PLANES[stabilizer.planes_of]}, and "
                f"{cuts_name} makes {_PLANES[cuts.planes_of]}",
            ),
            (
                stabilizer.planes_of == "none" and self.query.leaves_candidate,
                f"{_name(stabilizer)} has no model to search by; it needs AtCandidate",
            ),
            (
                stabilizer.planes_of == "none" and self.memory.drops_planes,
                f"{_name(stabilizer)} has no planes that {memory_name} could drop; it needs "
                "KeepAll",
            ),
            (
                not stabilizer.proposes and self.query.uses_candidate,
                f"{_name(stabilizer)} proposes nothing, and {query_name} needs a candidate",
            ),
            (
                self.query.makes_planes and not cuts.for_convex,
                f"{query_name} makes planes of duals, which hold for convex risks; it needs "
                "ConvexCuts",
            ),
            (
                self.query.makes_planes and self.groups != 1,
                f"{query_name} makes planes of the whole risk; it needs groups=1",
            ),
            (
                self.groups != 1 and not cuts.for_convex,
                f"{cuts_name} compares planes with the whole risk; groups need ConvexCuts",
            ),
        ]
        for refused, why in refusals:
            if refused:
                raise ValueError(why)

    @property
    def policies(self) -> tuple[Policy[Any], ...]:
        """The four choices."""
        return self.stabilizer, self.memory, self.query, self.cuts

    def init(self, problem: Problem) -> PolicyStates:
        """Return what the policies remember before the first iteration."""
        return PolicyStates(*(policy.init(problem) for policy in self.policies))

    def obstacle(self, problem: Problem) -> str | None:
        """Return what the method needs and the problem does not offer, in words, or None."""
        missing = self._missing(problem)
        return None if missing is None else f"it needs {missing[1].what}"

    def takes_for_convex(self, risk: Risk) -> bool:
        """Say whether planes lie below the risk everywhere, so that a gap is a proof.

        Where nobody has said whether the risk is convex, methods for convex risks assume it.
        Without planes of the risk nothing is bounded, whatever it is.
        """
        if self.cuts.planes_of != "risk":
            return False
        return self.cuts.for_convex if risk.convex is None else risk.convex

    def require_suitable(self, problem: Problem) -> None:
        """Raise ValueError if the method cannot minimize such a problem."""
        if problem.risk.convex is False and self.cuts.for_convex:
            raise ValueError(
                f"the method {self.name} needs a convex risk, and this one is not"
                f"{_because(problem.risk)}; use nrbm"
            )
        if missing := self._missing(problem):
            policy, need = missing
            thing = problem.risk if need.of == "risk" else problem.regularizer
            raise ValueError(f"{_name(policy)} needs {need.what}; got {thing!r}")

    def _missing(self, problem: Problem) -> tuple[Policy[Any], Need] | None:
        for policy in self.policies:
            if need := unmet(policy.needs, problem.risk, problem.regularizer):
                return policy, need
        return None


def _because(risk: Risk) -> str:
    reason = why_unproven(risk)
    return f" ({reason})" if reason else ""


def _name(policy: Policy[Any]) -> str:
    return type(policy).__name__
