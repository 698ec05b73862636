"""Points of which value and plane are kept, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Plane, Point, Risk


@dataclass(frozen=True, slots=True)
class KeptPoint:
    """What is needed of a point once its plane is taken.

    Scores and slopes of all examples are not. With many of them they take more memory than planes.
    """

    w: Vector
    value: float
    touching: Plane

    def plane(self) -> Plane:
        """Return the plane that touches the risk here."""
        return self.touching


def touch(risk: Risk, w: Vector) -> Point:
    """Evaluate a risk where no line search will begin, with less memory if it offers ``touch``."""
    if hasattr(risk, "touch"):
        kept: Point = risk.touch(w)
        return kept
    return risk.at(w)
