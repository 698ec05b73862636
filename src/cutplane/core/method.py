"""A method: one of each of the four choices stabilizer, memory, query and cuts."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.core.policies.ball import OverBall
from cutplane.core.policies.cuts import ConvexCuts, Cuts
from cutplane.core.policies.memory import KeepAll, Memory
from cutplane.core.policies.no_stabilizer import NoStabilizer, Stabilizer
from cutplane.core.policies.objective_cuts import ObjectiveCuts, ProximalToBest
from cutplane.core.policies.queries import AtCandidate, ByTrials, Query
from cutplane.core.protocols import Regularizer, as_quadratic


@dataclass(frozen=True, slots=True)
class Method:
    """A bundle method, made of the four choices that the loop leaves open.

    With ``groups`` the risk is split into so many, and the model has planes for each of them; None
    leaves their number to the risk.
    """

    stabilizer: Stabilizer
    memory: Memory
    query: Query
    cuts: Cuts
    groups: int | None = 1

    def __post_init__(self) -> None:
        if isinstance(self.stabilizer, OverBall):
            if not isinstance(self.query, AtCandidate):
                raise ValueError("a line search would leave the ball; kelley() needs AtCandidate")
            if not isinstance(self.memory, KeepAll):
                raise ValueError(
                    "without a regularizer nothing but its planes keeps the method from going back "
                    "and forth; kelley() needs KeepAll"
                )
            if not isinstance(self.cuts, ConvexCuts):
                raise ValueError(
                    "candidates lie anywhere in the ball, where lowered planes say nothing; "
                    "kelley() needs ConvexCuts"
                )
        if isinstance(self.stabilizer, ProximalToBest) != isinstance(self.cuts, ObjectiveCuts):
            raise ValueError(
                "ProximalToBest takes planes of the objective, and all others take planes of the "
                "risk; it goes with ObjectiveCuts, and only with them"
            )
        if self.groups != 1 and not isinstance(self.cuts, ConvexCuts):
            raise ValueError(
                f"{type(self.cuts).__name__} compares planes with the whole risk; "
                "groups need ConvexCuts"
            )

    @property
    def for_convex_risks(self) -> bool:
        """Whether the method takes it that planes lie below the risk everywhere."""
        return isinstance(self.cuts, ConvexCuts)

    def require_suitable(self, regularizer: Regularizer, *, convex: bool) -> None:
        """Raise ValueError if the method cannot minimize such a risk with this regularizer."""
        over_ball = isinstance(self.stabilizer, OverBall)
        is_ball = hasattr(regularizer, "radius")
        if over_ball and not is_ball:
            raise ValueError(f"kelley() minimizes over a cp.Ball, got {regularizer!r}")
        if is_ball and not over_ball:
            raise ValueError(
                f"{regularizer!r} is not strongly convex: it needs cp.kelley(), all other methods "
                "need a regularizer such as cp.L2"
            )
        if convex and isinstance(self.cuts, ObjectiveCuts):
            raise ValueError(
                "nbm() bounds nothing, so it takes risks that are not convex only; "
                "use bmrm() for this one"
            )
        if as_quadratic(regularizer) is None:
            for choice, fits in (
                (self.stabilizer, isinstance(self.stabilizer, NoStabilizer)),
                (self.cuts, isinstance(self.cuts, ConvexCuts)),
                (self.query, not isinstance(self.query, ByTrials)),
            ):
                if not fits:
                    name = type(choice).__name__
                    raise ValueError(f"{name} needs a quadratic regularizer such as cp.L2")
