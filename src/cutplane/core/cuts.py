"""How what is known at a point becomes a plane of the bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cutplane.core.protocols import Point
from cutplane.core.state import State


class Cuts(Protocol):
    """Turns points into planes."""

    def add(self, state: State, point: Point) -> None:
        """Add the plane of ``point`` to the bundle."""


@dataclass(frozen=True, slots=True)
class ConvexCuts:
    """A convex risk lies above each of its tangent planes, so they are added as they are."""

    def add(self, state: State, point: Point) -> None:
        """Add the plane of ``point`` to the bundle, or one for each group."""
        state.bundle.add(*state.planes_at(point))
