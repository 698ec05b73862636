"""What a run knows while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.compute.products import dot
from cutplane.core.bundle import Bundle
from cutplane.core.certificate import Record, relative
from cutplane.core.needs import planes_of_groups
from cutplane.core.problem import Candidate, Problem
from cutplane.core.protocols import NonFiniteRisk, Plane, Point

if TYPE_CHECKING:
    from cutplane.core.method import Method
    from cutplane.core.stationarity import Stationarity

# Reduced problems are solved to this share of the current gap: tighter would not show in the next
# plane, and the bound holds for any accuracy.
SHARE_OF_GAP = 1e-3

# A lower bound above the objective by more than this share cannot be rounding: the risk is not
# convex, or its subgradient is wrong.
_CONTRADICTION = 1e-9


@dataclass(slots=True)
class PolicyStates:
    """What each policy of the method remembers."""

    stabilizer: Any = None
    memory: Any = None
    query: Any = None
    cuts: Any = None


@dataclass(slots=True)
class State:
    """Everything that changes while the loop runs: a run can go on from it as if never stopped.

    All of it is data, and nothing else remembers anything. What the policies of the ``method`` know
    is in ``policies``; all bounds belong to the ``problem``. ``last_step`` is how far from the best
    point the last search went. ``seconds_left`` is for a query that may take longer than the time
    limit of the run allows.
    """

    problem: Problem
    method: Method
    bundle: Bundle
    best: Point
    objective: float
    policies: PolicyStates = field(default_factory=PolicyStates)
    lower: float = -np.inf
    convex: bool = True
    iteration: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    seconds_left: float = np.inf
    last_step: float | None = None
    stopped: bool = False
    interrupted: bool = False
    stalled_for: int = 0
    stationarity: Stationarity | None = None
    refuted: bool = False
    history: list[Record] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Objective minus lower bound; infinite before the first bound."""
        return self.objective - self.lower

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective."""
        return relative(self.gap, self.objective)

    @property
    def accuracy(self) -> float:
        """How accurately reduced problems should be solved."""
        # Before the first bound the gap is infinite; any accuracy will do, so ask for an exact one.
        return max(SHARE_OF_GAP * self.gap, 0.0) if self.gap < np.inf else 0.0

    @property
    def contradictory(self) -> bool:
        """Whether a bound or a plane is clearly above the risk: no convex one allows that."""
        scale = abs(self.objective) + abs(self.lower) + self.bundle.offset_scale
        return self.refuted or self.gap < -_CONTRADICTION * scale

    def test(self, plane: Plane, points: list[Point]) -> None:
        """Compare a plane with the risk where it is known: above it, the plane is wrong."""
        for point in (self.best, *points):
            height = dot(plane.slope, point.w)
            # Where the risk vanishes these are all rounding, and small beside the objective.
            scale = abs(height) + abs(plane.offset) + abs(point.value) + abs(self.objective)
            if height + plane.offset - point.value > _CONTRADICTION * scale:
                self.refuted = True

    def test_model(self, bundle: Bundle) -> None:
        """Compare the planes of an earlier run with the risk at the best point."""
        height = bundle.height_at(self.best.w)
        scale = abs(height) + float(np.abs(bundle.offsets).max()) + abs(self.best.value)
        if height - self.best.value > _CONTRADICTION * scale:
            self.refuted = True

    def planes_at(self, point: Point) -> Sequence[Plane]:
        """Return the plane of a point, or those of the bundle's groups."""
        return planes_of_groups(point, self.bundle.n_groups)

    def require_finite(self, point: Point) -> None:
        """Raise NonFiniteRisk unless planes can be taken at a point."""
        part = ""
        if not np.isfinite(point.value):
            part = f"the risk is {point.value}"
        else:
            for plane in self.planes_at(point):
                if not np.isfinite(dot(plane.slope, plane.slope)):
                    part = "the subgradient is not finite, or too steep to be squared"
                elif not np.isfinite(plane.offset):
                    part = f"the offset of the plane is {plane.offset}"
        if part:
            raise NonFiniteRisk(
                f"{part} in iteration {self.iteration} at a point of norm "
                f"{np.linalg.norm(point.w):.3g}"
            )

    def raise_lower_bound(self, candidate: Candidate) -> bool:
        """Keep the better bound; return whether it moved."""
        moved = candidate.lower > self.lower
        if moved:
            self.lower = candidate.lower
        return moved

    def keep_best(self, points: list[Point]) -> bool:
        """Keep the point with the lowest objective; return whether it changed."""
        before = self.best
        for point in points:
            objective = self.problem.objective(point)
            if objective < self.objective:
                self.best, self.objective = point, objective
        return self.best is not before

    def record(self) -> Record:
        """Return the current line of the history."""
        return Record(
            iteration=self.iteration,
            objective=self.objective,
            lower_bound=min(self.lower, self.objective),
            evaluations=self.evaluations,
            planes=self.bundle.n_planes,
            seconds=self.seconds,
        )

    def __repr__(self) -> str:
        return (
            f"State(iteration {self.iteration}, objective {self.objective:.8g}, lower bound "
            f"{self.lower:.8g}, {self.bundle.n_planes} planes)"
        )
