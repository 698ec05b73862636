"""Dual ascent where rows lie on the members of a team: local epochs on each shard.

Between two exchanges each shard improves its own duals (`cutplane.methods.shards.local_duals`). A
round sends a plane up and its sum down, two numbers a feature, and four with an intercept; the
bundle method sends three, in each of its iterations.

Rounds are fast at first. Later, or where shards differ from each other, they creep: then steps of
the bundle method come between them, twice as many each time. So a run never takes many more
exchanges than the bundle method, and often far fewer (docs/cluster.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import least_blocks
from cutplane.core.method import Found
from cutplane.core.policies.bmrm import OnSegment
from cutplane.core.protocols import Plane
from cutplane.core.state import Candidate, Problem, State
from cutplane.methods.ascent.dual_ascent import found_toward
from cutplane.methods.shards.local_duals import LocalAscent, LocalDuals
from cutplane.methods.shards.newton import Kept
from cutplane.risks.scored import ScoredPoint, ScoredRisk
from cutplane.risks.shards.calls import Told, told_of
from cutplane.risks.shards.member import Holding, name_of
from cutplane.risks.shards.risk import ShardedPoint, ShardedRisk
from cutplane.risks.shards.sample import Step

# Passes over a shard in a round. With two, six and more, rounds are as many: what is left to do is
# with the others. (news20_ng, 2 and 8 shards, lam = 1/m.)
PASSES = 2.0

# A round that leaves more than this share of the gap is slow, and at most so many steps of the
# bundle method come between two rounds. Iterations to gaps of 1e-1, 1e-2 and 1e-3: with that, with
# the bundle method, with rounds alone (hinge, 8 shards, at most 200). Set on these. Texts generated
# as in benchmarks/exchanges.py, lam = 10/m: 1 3 14, 10 15 22, 1 3 19; 1/m: 4 27 59, 18 35 65, 4 45
# -; sorted by label, 10/m: 15 21 29, 10 15 22, 145 193 -. reuters_lasvm, 10/m: 2 4 11, 4 7 13, 2 4
# 10; 1/m: 10 30 86, 11 28 79, 8 39 99; sorted, 1/m, with an intercept: 13 26 70, 8 21 64, 97 180 -.
_SLOW = 0.7
_MOST_STEPS = 16


class Improved(NamedTuple):
    """What the leader is told of a round: the plane of its duals, and where they lead."""

    plane: Plane
    w: Vector


def begin(holding: Holding, risk: ScoredRisk, lam: float) -> tuple[LocalDuals, None]:
    """Make duals of zero."""
    return LocalAscent(risk, lam, least_blocks()).begun(), None


def improve(
    holding: Holding, risk: ScoredRisk, duals: LocalDuals, lam: float, passes: float
) -> tuple[LocalDuals, Improved]:
    """Run a round of local epochs; the duals before it are left as they were."""
    after, found = LocalAscent(risk, lam, least_blocks()).improved(duals, passes=passes)
    return after, Improved(found.plane, after.point.w)


def point_of(holding: Holding, duals: LocalDuals) -> tuple[ScoredPoint, Told]:
    """Return the point that belongs to duals."""
    return told_of(duals.point)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Where rounds of local epochs have come to.

    Attributes
    ----------
    duals : Kept
        The duals, with the members.
    gap : float
        Before the last round; infinite if a step of the bundle method has come since.
    to_come : int
        How many steps of the bundle method come before the next round.
    next_time : int
        How many come after the next round that is slow.
    """

    duals: Kept
    gap: float = inf
    to_come: int = 0
    next_time: int = 1

    def looked_back(self, gap: float) -> Rounds:
        """Decide what comes next, given the gap after what came last."""
        if self.to_come or self.gap == inf:
            return self
        if gap <= _SLOW * self.gap:
            return replace(self, next_time=1)
        return replace(
            self,
            gap=inf,
            to_come=self.next_time,
            next_time=min(2 * self.next_time, _MOST_STEPS),
        )


class ShardedAscent:
    """Rounds of local epochs for one problem on shards; the duals stay with the members."""

    def __init__(self, problem: Problem) -> None:
        self._risk: ShardedRisk = problem.risk  # type: ignore[assignment]
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]

    def begun(self) -> Rounds:
        """Return duals of zero."""
        made = Step(name_of(begin), (self._risk.step,), (self._lam,))
        return Rounds(Kept(self._risk, [made]))

    def step(
        self, state: State, candidate: Candidate, own: Rounds, passes: float | None
    ) -> tuple[Found, Rounds]:
        """Take a round, or a step of the bundle method where rounds are slow."""
        own = own.looked_back(state.gap)
        if own.to_come:
            found, _ = OnSegment()(state, candidate, None)
            return found, replace(own, to_come=own.to_come - 1)
        duals, plane, point = self._improved(own.duals, passes)
        return found_toward(state, point, plane), replace(own, duals=duals, gap=state.gap)

    def _improved(self, duals: Kept, passes: float | None) -> tuple[Kept, Plane, ShardedPoint]:
        """Return the duals after a round, their plane, and the point that they lead to."""
        risk = self._risk
        risk.evaluations += 1
        made = Step(name_of(improve), (risk.step, duals.step), (self._lam, passes or PASSES))
        after = Kept(risk, [*duals.history, made])
        found: Improved = after.told
        arrived = Step(name_of(point_of), (made,))
        return after, found.plane, ShardedPoint(risk, found.w, arrived, after.history)
