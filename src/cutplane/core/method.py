"""A method: one of each of the four choices stabilizer, memory, query and cuts."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.core.needs import Need, unmet
from cutplane.core.policies import Cuts, Memory, Policy, Query, Stabilizer
from cutplane.core.problem import Problem
from cutplane.core.state import PolicyStates


@dataclass(frozen=True, slots=True)
class Method:
    """A bundle method, made of the four choices that the loop leaves open.

    With ``groups`` the risk is split into so many, and the model has planes for each of them; None
    leaves their number to the risk. ``name`` is what results call the method.
    """

    stabilizer: Stabilizer
    memory: Memory
    query: Query
    cuts: Cuts
    groups: int | None = 1
    name: str = "custom"

    def __post_init__(self) -> None:
        stabilizer, cuts = self.stabilizer, self.cuts
        if stabilizer.confined and self.query.leaves_candidate:
            raise ValueError(
                f"{_name(self.query)} would leave the ball; kelley() needs AtCandidate"
            )
        if stabilizer.confined and self.memory.drops_planes:
            raise ValueError(
                "without a regularizer nothing but its planes keeps the method from going back "
                f"and forth, and {_name(self.memory)} drops some; kelley() needs KeepAll"
            )
        if stabilizer.confined and not cuts.for_convex:
            raise ValueError(
                f"candidates lie anywhere in the ball, where the planes of {_name(cuts)} say "
                "nothing; kelley() needs ConvexCuts"
            )
        if stabilizer.planes_of != cuts.planes_of:
            raise ValueError(
                f"{_name(stabilizer)} takes planes of the {stabilizer.planes_of}, and "
                f"{_name(cuts)} makes planes of the {cuts.planes_of}"
            )
        if self.query.makes_planes and not cuts.for_convex:
            raise ValueError(
                f"{_name(self.query)} makes planes of duals, which hold for convex risks; it "
                "needs ConvexCuts"
            )
        if self.query.makes_planes and self.groups != 1:
            raise ValueError(
                f"{_name(self.query)} makes planes of the whole risk; it needs groups=1"
            )
        if self.groups != 1 and not cuts.for_convex:
            raise ValueError(
                f"{_name(cuts)} compares planes with the whole risk; groups need ConvexCuts"
            )

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The four choices."""
        return self.stabilizer, self.memory, self.query, self.cuts

    def init(self, problem: Problem) -> PolicyStates:
        """Return what the policies remember before the first iteration."""
        return PolicyStates(*(policy.init(problem) for policy in self.policies))

    def obstacle(self, problem: Problem) -> str | None:
        """Return what the method needs and the problem does not offer, in words, or None."""
        missing = self._missing(problem)
        return None if missing is None else f"it needs {missing[1].what}"

    def require_suitable(self, problem: Problem, *, convex: bool) -> None:
        """Raise ValueError if the method cannot minimize such a problem."""
        if missing := self._missing(problem):
            policy, need = missing
            thing = problem.risk if need.of == "risk" else problem.regularizer
            raise ValueError(f"{_name(policy)} needs {need.what}; got {thing!r}")
        if convex and self.cuts.planes_of == "objective":
            raise ValueError(
                "nbm() bounds nothing, so it takes risks that are not convex only; "
                "use bmrm() for this one"
            )

    def _missing(self, problem: Problem) -> tuple[Policy, Need] | None:
        for policy in self.policies:
            if need := unmet(policy.needs, problem.risk, problem.regularizer):
                return policy, need
        return None


def _name(policy: Policy) -> str:
    return type(policy).__name__
