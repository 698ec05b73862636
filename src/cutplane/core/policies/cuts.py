"""How what is known at a point becomes a plane of the bundle."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.method import Cuts, Found
from cutplane.core.needs import QUADRATIC, quadratic
from cutplane.core.policies.bmrm import ConvexCuts
from cutplane.core.protocols import Plane, Point
from cutplane.core.state import State


@dataclass(frozen=True, slots=True)
class NonConvexCuts(Cuts[None]):
    """Planes that lie below the risk near the best point (paper 004, Algorithms 5 and 6).

    A plane taken at ``w_j`` must be at least its locality below the risk at the best point ``w*``:
    ``lam/2`` times the squared lengths of the way from ``w_j`` to ``w*``, step by step. When the
    best point moves, all planes are lowered as far as that asks for. The gap between objective and
    model then measures how far from stationary the best point is; it proves nothing.

    A convex risk needs none of this. Its planes are added as they are, and the method is then the
    convex one with the same memory and the same search.

    Parameters
    ----------
    locality : float
        What the locality is multiplied by, 1 in the paper. At 0 planes need only not be above the
        risk at the best point. With more than 1, planes from far away lose their weight sooner, so
        that the gap says more about the neighborhood of the best point; but it may grow when that
        point moves, which Lemma 4 of the paper rules out up to 1.
    """

    needs = (QUADRATIC,)
    locality: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.locality < math.inf:
            raise ValueError(f"locality must be finite and not negative, got {self.locality}")

    def add(self, state: State, found: Found, before: Point, own: None) -> tuple[bool, None]:
        """Lower the planes if the best point is a new one, then add those of the points."""
        if state.convex:
            return ConvexCuts().add(state, found, before, own)
        bundle, best, last = state.bundle, state.best, state.lower
        if best is not before:  # a descent step
            # Their mean may need less lowering than they do one by one, and keeps the gap from
            # growing (Lemma 4).
            bundle.add_mean()
            localities = bundle.localities + self._locality(state, before.w)
            excess = bundle.heights_at(best.w) - (best.value - localities)
            bundle.lower(np.maximum(excess, 0.0), localities)
        for point in found.cut_at:
            bundle.add(self.repaired(point, state))
        # Lowered planes make a lower model: its minimum takes the place of the last one.
        lam = quadratic(state.problem.regularizer).lam
        bundle.weigh(lam, accuracy=state.accuracy)
        # The planes are not above the objective at the best point. A small difference of large
        # terms may be.
        state.lower = min(bundle.lowest(lam), state.objective)
        return state.lower > last, None

    def repaired(self, point: Point, state: State) -> Plane:
        """Return the plane of a point, changed where it is in conflict with the best point.

        Paper 004, Algorithm 6. The new plane must stay below the risk at the best point by its
        locality (15), and lift the model at ``point`` to the best objective (16), else the method
        could stay where it is. If no offset does both, a locality above the paper's is cut down to
        it. If that is not enough, a plane takes its place that does both, whose sum with the
        regularizer is lowest at the best point.
        """
        plane, best, regularizer = point.plane(), state.best, quadratic(state.problem.regularizer)
        if point is best:
            return plane
        locality = self._locality(state, point.w)
        touching = best.value - dot(plane.slope, best.w)  # the offset with which it meets the risk
        if plane.offset <= touching - locality:
            return replace(plane, locality=locality)
        needed = state.objective - regularizer.value(point.w)
        lowest = needed - dot(plane.slope, point.w)
        if lowest > touching - locality:
            locality /= max(self.locality, 1.0)
        if lowest <= touching - locality:
            return replace(plane, offset=lowest, locality=locality)
        slope = -regularizer.gradient(best.w)
        return Plane(slope, needed - dot(slope, point.w), locality=locality)

    def _locality(self, state: State, w: Vector) -> float:
        """Return ``lam/2 |w - w*|^2`` in the metric of the regularizer, times the factor."""
        regularizer = quadratic(state.problem.regularizer)
        return 0.5 * self.locality * regularizer.along(state.best.w, w).curvature
