"""The bundle methods: one of each of the four choices stabilizer, memory, query and cuts.

A choice, or policy, remembers nothing, as a solver does not (`cutplane.core.solver`): `init` makes
what it must know from one iteration to the next, the policy's verb takes it and returns the next.
Policies without anything to remember have None.

What a policy cannot do without is in its ``needs``. Its other class
attributes say which policies it goes with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, cast

from cutplane.compute.arrays import copied
from cutplane.core.protocols import Point
from cutplane.core.solver import CURVED, Need, Own, Solver, Step

if TYPE_CHECKING:
    from cutplane.core.bundle import Bundle
    from cutplane.core.state import Candidate, Problem, Run

PlanesOf = Literal["risk", "objective"]


class Policy(ABC, Generic[Own]):
    """What all policies have: ``needs`` is what one asks of risk and regularizer.

    ``Own`` is the type of what it remembers, None if that is nothing.
    """

    __slots__ = ()
    needs: ClassVar[tuple[Need[object], ...]] = ()

    def init(self, problem: Problem) -> Own:
        """Return what is remembered before the first iteration: None, if not overridden."""
        return cast("Own", None)


class Stabilizer(Policy[Own]):
    """Proposes where to look next, with a bound that no stabilization can invalidate.

    Attributes
    ----------
    planes_of : {"risk", "objective"}
        What the planes of the bundle lie below.
    confined : bool
        Whether the risk may be evaluated at candidates only.
    """

    __slots__ = ()
    needs: ClassVar[tuple[Need[object], ...]] = (CURVED,)
    planes_of: ClassVar[PlanesOf] = "risk"
    confined: ClassVar[bool] = False

    @abstractmethod
    def propose(self, state: Run, own: Own) -> tuple[Candidate, Own]:
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
    step : float, optional
        How far from the best point a search went.
    """

    points: list[Point]
    cut_at: list[Point]
    step: float | None = None


class Query(Policy[Own]):
    """Chooses the points of an iteration.

    Attributes
    ----------
    leaves_candidate : bool
        Whether the risk may be evaluated elsewhere than at the candidate.
    """

    __slots__ = ()
    leaves_candidate: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, state: Run, candidate: Candidate, own: Own) -> tuple[Found, Own]:
        """Evaluate the risk at or on the way to the candidate."""


class Cuts(Policy[Own]):
    """Turns points into planes.

    Attributes
    ----------
    planes_of : {"risk", "objective"}
        What the planes lie below.
    for_convex : bool
        Whether planes are taken to lie below the risk everywhere.
    """

    __slots__ = ()
    planes_of: ClassVar[PlanesOf] = "risk"
    for_convex: ClassVar[bool] = False

    @abstractmethod
    def add(self, state: Run, step: Step[Any], before: Point, own: Own) -> tuple[bool, Own]:
        """Add planes of the points ``step.cut_at`` to the bundle.

        The best point is already the one after this iteration; ``before`` is the one before it.
        Return whether the lower bound moved, for cuts that change it.
        """


@dataclass(slots=True)
class PolicyStates:
    """What each policy of a bundle method remembers: of whatever types these policies say."""

    stabilizer: Any = None
    memory: Any = None
    query: Any = None
    cuts: Any = None


@dataclass(frozen=True, slots=True)
class BundleSolver(Solver[PolicyStates]):
    """A bundle method, made of four choices; its model is made of the planes of the run.

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
                f"{_name(stabilizer)} takes planes of the {stabilizer.planes_of}, and "
                f"{cuts_name} makes planes of the {cuts.planes_of}",
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

    @property
    def for_convex(self) -> bool:  # type: ignore[override]
        """Whether planes are taken to lie below the risk everywhere."""
        return self.cuts.for_convex

    @property
    def bounds(self) -> bool:  # type: ignore[override]
        """Whether planes lie below the risk."""
        return self.cuts.planes_of == "risk"

    @property
    def cut_kind(self) -> str:
        """Of what kind the planes of a run are."""
        return _name(self.cuts)

    def start(self, problem: Problem) -> PolicyStates:
        """Return what the policies remember before the first iteration."""
        return PolicyStates(*(policy.init(problem) for policy in self.policies))

    def step(self, run: Run, own: PolicyStates) -> Step[PolicyStates]:
        """Solve the reduced problem, then evaluate the risk at its solution or on the way to it."""
        candidate, own.stabilizer = self.stabilizer.propose(run, own.stabilizer)
        moved = run.raise_lower_bound(candidate)
        found, own.query = self.query(run, candidate, own.query)
        run.last_step = run.last_step if found.step is None else found.step
        incoming = run.bundle.n_groups * len(found.cut_at)
        own.memory = self.memory.make_room(run.bundle, incoming, own.memory)
        return Step(found.points, own, cut_at=found.cut_at, moved=moved)

    def cut(self, run: Run, step: Step[PolicyStates], before: Point) -> bool:
        """Turn points into planes of the run."""
        moved, step.state.cuts = self.cuts.add(run, step, before, step.state.cuts)
        return moved

    def resumed(self, earlier: Run, problem: Problem) -> PolicyStates:
        """Return what the policies know: those of another kind than before know nothing yet."""
        before = earlier.method
        if type(before) is not BundleSolver:
            return self.start(problem)
        own: dict[str, Any] = {}
        for choice in (part.name for part in fields(PolicyStates)):
            policy = getattr(self, choice)
            if type(policy) is type(getattr(before, choice)):
                own[choice] = copied(getattr(earlier.own, choice))
            else:
                own[choice] = policy.init(problem)
        return PolicyStates(**own)

    def _missing(self, problem: Problem) -> tuple[object, Need[object]] | None:
        for policy in self.policies:
            for need in policy.needs:
                if need.find(problem) is None:
                    return policy, need
        return None


Method = BundleSolver


def _name(policy: Policy[Any]) -> str:
    return type(policy).__name__
