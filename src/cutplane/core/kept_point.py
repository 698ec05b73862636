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


def evaluate_once(risk: Risk, w: Vector) -> Point:
    """Evaluate a risk where no search will begin: value and plane, in little memory."""
    if hasattr(risk, "evaluate_once"):
        kept: Point = risk.evaluate_once(w)
        return kept
    return risk.at(w)
