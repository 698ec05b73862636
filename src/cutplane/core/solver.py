"""A solver: where a run begins, and what a step of it finds.

A solver is configuration, and remembers nothing. What it must know from one step to the next is a
value of its own: `Solver.start` makes the first one, each step takes it and hands the next one
over. Such a value consists of arrays and numbers, so that a run can be written to a file, compared
and resumed. What the steps prove is not a solver's concern: it hands points and planes to the run
(`cutplane.core.state.Run`), which keeps the best point and makes all bounds.

To write one: a frozen dataclass with its options, ``needs``, `Solver.step`, and a line of
`cutplane.solvers.registry`.

What a solver cannot do without is a `Need`: a risk or regularizer of a type that its step computes
with, and words for when there is none.

The bundle methods are one solver, `BundleSolver`, made of four choices: stabilizer, memory, query
and cuts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast

from cutplane.compute.arrays import Vector, copied
from cutplane.core.protocols import (
    BallSet,
    BoxSet,
    Confined,
    Plane,
    Point,
    QuadraticRegularizer,
    Risk,
)

if TYPE_CHECKING:
    from cutplane.core.bundle import Bundle
    from cutplane.core.state import Candidate, Problem, Run


Own = TypeVar("Own")
Kind = TypeVar("Kind", covariant=True)


@dataclass(frozen=True)
class Need(Generic[Kind]):
    """Something that a solver, or a policy, asks of a problem.

    Attributes
    ----------
    part : {"risk", "regularizer"}
        Which part of the problem is meant.
    kind : type
        What it must be,
    what : str
        in words that go on after "needs".
    when : callable, optional
        Says whether one of this type will do; all do by default.
    """

    part: Literal["risk", "regularizer"]
    kind: type[Kind] | UnionType
    what: str
    when: Callable[[Kind], bool] | None = None

    def find(self, problem: Problem) -> Kind | None:
        """Return the part of the problem, or None if it will not do."""
        part = getattr(problem, self.part)
        will_do = isinstance(part, self.kind) and (self.when is None or self.when(part))
        return part if will_do else None

    def of(self, problem: Problem) -> Kind:
        """Return the part of a problem that was found to do."""
        found = self.find(problem)
        assert found is not None, self.what
        return found


QUADRATIC = Need("regularizer", QuadraticRegularizer, "a quadratic regularizer such as cp.L2")
SET: Need[BallSet | BoxSet] = Need(
    "regularizer", BallSet | BoxSet, "a set to stay in, cp.Ball or cp.Box"
)
CURVED = Need(
    "regularizer",
    object,
    "a strongly convex regularizer such as cp.L2 (a ball or a box goes with cp.kelley())",
    lambda regularizer: not isinstance(regularizer, Confined) or regularizer.strongly_convex,
)


class Step(NamedTuple, Generic[Own]):
    """What a step hands over.

    Attributes
    ----------
    points : sequence of Point
        Points that may be the best.
    state : object
        What the solver remembers now.
    planes : sequence of Plane
        Planes below the risk that need not touch it, such as those of duals.
    cut_at : sequence of Point
        Points whose planes are wanted too.
    moved : bool
        Whether the solver has moved on even if no bound has.
    """

    points: Sequence[Point]
    state: Own
    planes: Sequence[Plane] = ()
    cut_at: Sequence[Point] = ()
    moved: bool = False


class Solver(ABC, Generic[Own]):
    """What `cutplane.minimize` runs; ``Own`` is the type of what it remembers.

    Attributes
    ----------
    needs : tuple of Need
        What it cannot do without, of risk and regularizer.
    for_convex : bool
        Whether it takes planes to lie below the risk everywhere.
    bounds : bool
        Whether its planes lie below the risk, so that the run has bounds.
    takes_first_plane : bool
        Whether a run begins with the plane of its first point. Not if what the first step finds
        says all that this one says.
    planes : int or None
        How many planes the run keeps, besides their mean; None for all.
    groups : int or None
        How many groups the risk is split into; None leaves that to the risk.
    """

    __slots__ = ()
    needs: ClassVar[tuple[Need[object], ...]] = ()
    for_convex: ClassVar[bool] = True
    bounds: ClassVar[bool] = True
    takes_first_plane: ClassVar[bool] = True
    planes: int | None = None
    groups: int | None = 1

    @property
    def name(self) -> str:
        """What results call the solver."""
        return type(self).__name__

    @property
    def cut_kind(self) -> str:
        """Of what kind the planes of a run are, where they hold near one point only."""
        return type(self).__name__

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk where the run starts."""
        return problem.risk.at(w)

    def start(self, problem: Problem) -> Own:
        """Return what is remembered before the first step: None, if not overridden."""
        return cast("Own", None)

    @abstractmethod
    def step(self, run: Run, own: Own) -> Step[Own]:
        """Take a step from where the run is."""

    def cut(self, run: Run, step: Step[Own], before: Point) -> bool:
        """Give the planes of a step to the run; return whether its bound moved.

        The best point is already the one after the step; ``before`` is the one before it.
        """
        planes = [*(point.plane() for point in step.cut_at), *step.planes]
        return run.add(planes, [before, *step.points])

    def combined(self, run: Run) -> Candidate | None:
        """Return what the planes of the run say together, if that may be more than each says.

        By default that is the solution of the reduced problem, as in every bundle method.
        """
        return run.bundle.minimize(run.problem, accuracy=run.accuracy)

    def carried_over(self, own: Own, run: Run) -> Own:
        """Return what to begin another run on the same risk with, of which ``run`` is the first.

        Duals serve any regularizer; whatever else a solver knows stays behind.
        """
        return self.start(run.problem)

    def resumed(self, earlier: Run, problem: Problem) -> Own:
        """Return what to go on with: nothing of what a solver of another kind knows."""
        if type(earlier.method) is type(self):
            return cast("Own", copied(earlier.own))
        return self.start(problem)

    def obstacle(self, problem: Problem) -> str | None:
        """Return what the solver needs and the problem does not offer, in words, or None."""
        missing = self._missing(problem)
        return None if missing is None else f"it needs {missing[1].what}"

    def takes_for_convex(self, risk: Risk) -> bool:
        """Say whether planes lie below the risk everywhere, so that a gap is a proof.

        Where nobody has said whether the risk is convex, solvers for convex risks assume it.
        Without planes of the risk nothing is bounded, whatever it is.
        """
        return self.bounds and (self.for_convex if risk.convex is None else risk.convex)

    def require_suitable(self, problem: Problem) -> None:
        """Raise ValueError if the solver cannot minimize such a problem."""
        if problem.risk.convex is False and self.for_convex:
            reason = problem.facts.unproven
            because = f" ({reason})" if reason else ""
            raise ValueError(
                f"the method {self.name} needs a convex risk, and this one is not{because}; "
                "use nrbm"
            )
        if missing := self._missing(problem):
            who, need = missing
            got = problem.risk if need.part == "risk" else problem.regularizer
            raise ValueError(f"{type(who).__name__} needs {need.what}; got {got!r}")

    def _missing(self, problem: Problem) -> tuple[object, Need[object]] | None:
        missing = (need for need in self.needs if need.find(problem) is None)
        return next(((self, need) for need in missing), None)


AnySolver = Solver[Any]


def options_of(solver: Any) -> dict[str, Any]:
    """Return the options of a solver, by name: those of the library are dataclasses."""
    if not is_dataclass(solver):
        return dict(vars(solver))
    return {part.name: getattr(solver, part.name) for part in fields(solver)}


PlanesOf = Literal["risk", "objective"]


class Policy(ABC, Generic[Own]):
    """One of the four choices of a bundle method; ``needs`` is what it asks of the problem.

    A policy remembers nothing, as a solver does not: `init` makes what it must know from one
    iteration to the next, the policy's verb takes it and returns the next. Its other class
    attributes say which policies it goes with. ``Own`` is the type of what it remembers, None if
    that is nothing.
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
