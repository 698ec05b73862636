"""What travels of a run: its best point without scores, its planes, its bounds, its history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import LibraryPoint, Plane, Point
from cutplane.core.state import Run


@dataclass(eq=False)
class FarPoint(LibraryPoint):
    """The risk at ``w``, evaluated where the rows are.

    Attributes
    ----------
    w : ndarray
        The parameters.
    value : float
        The risk.
    offset : float or ndarray
        What is added to the scores, for targets shifted as on the workers.
    intercept : float or ndarray
        The best intercepts for these parameters; zero if the model has none.
    risk : risk, optional
        On the client, the one that it is a point of.
    touching : Plane, optional
        The plane, if it was asked for.
    """

    w: Vector
    value: float
    offset: Any = 0.0
    intercept: Any = 0.0
    risk: Any = field(default=None, repr=False)
    touching: Plane | None = field(default=None, repr=False)

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: the first time by another evaluation."""
        if self.touching is None:
            found: Plane = self.risk.at(self.w).touching
            self.touching = found
        return self.touching


def far(point: Any, risk: Any = None) -> FarPoint:
    """Return a point without what lies with the rows."""
    offset, intercept = getattr(point, "offset", 0.0), getattr(point, "intercept", 0.0)
    return FarPoint(point.w, float(point.value), offset, intercept, risk)


def without_rows(run: Run) -> Run:
    """Return a run without what lies with the rows: what it needs to go on from its best point."""
    nothing: Any = None
    point: Any = run.best
    # The intercept may take a sum over all rows: who asks for it asks everywhere.
    best = FarPoint(point.w, float(point.value), getattr(point, "offset", 0.0))
    return replace(run, problem=nothing, method=nothing, own=None, best=cast(Point, best))


def with_problem(run: Run, like: Run) -> Run:
    """Return a run that has travelled, with the problem and the method of another one."""
    best = far(run.best, like.problem.risk)
    # A part of the problem, not a copy of it.
    run.bundle.metric = like.bundle.metric
    return replace(run, problem=like.problem, method=like.method, best=cast(Point, best))
