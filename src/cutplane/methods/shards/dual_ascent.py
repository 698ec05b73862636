"""Dual ascent where rows lie on the members of a team: local epochs on each shard.

Between two exchanges each shard improves its own duals (`cutplane.methods.shards.local_duals`). A
round sends a plane up and its sum down, two numbers a feature, and four with an intercept; the
bundle method sends three, in each of its iterations.
"""

from __future__ import annotations

from typing import NamedTuple

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import least_blocks
from cutplane.core.protocols import Plane
from cutplane.core.state import Problem
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


class ShardedAscent:
    """Rounds of local epochs for one problem on shards; the duals stay with the members."""

    def __init__(self, problem: Problem) -> None:
        self._risk: ShardedRisk = problem.risk  # type: ignore[assignment]
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]

    def begun(self) -> Kept:
        """Return duals of zero."""
        made = Step(name_of(begin), (self._risk.step,), (self._lam,))
        return Kept(self._risk, [made])

    def improved(self, duals: Kept, passes: float | None) -> tuple[Kept, Plane, ShardedPoint]:
        """Return the duals after a round, their plane, and the point that they lead to."""
        risk = self._risk
        risk.evaluations += 1
        made = Step(name_of(improve), (risk.step, duals.step), (self._lam, passes or PASSES))
        after = Kept(risk, [*duals.history, made])
        found: Improved = after.told
        arrived = Step(name_of(point_of), (made,))
        return after, found.plane, ShardedPoint(risk, found.w, arrived, after.history)
