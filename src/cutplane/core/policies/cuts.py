"""Cuts for risks that are not convex: planes of the risk (NRBM) and of the objective (NBM).

How what is known at a point becomes a plane of the bundle.

The parts of the non-convex bundle method: planes of the whole objective, and a proximal term.

The reduced problem around the best point ``w*`` is (paper 004, section 2.4; K. C. Kiwiel: Methods
of Descent for Nondifferentiable Optimization, 1985)

    min_w  max_j  J(w*) - e_j + g_j.(w - w*)  +  u/2 |w - w*|^2

with subgradients ``g_j`` of ``J`` and errors ``e_j = max(|J(w*) - c_j(w*)|, gamma * s_j^omega)``,
where ``c_j`` is the plane and ``s_j`` the length of the way from where it was taken to ``w*``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.policies.bmrm import ConvexCuts
from cutplane.core.policies.stabilizers import distance
from cutplane.core.protocols import Plane, Point
from cutplane.core.solver import QUADRATIC, Cuts, Stabilizer, Step
from cutplane.core.state import Candidate, Run


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

    def add(self, state: Run, step: Step[Any], before: Point, own: None) -> tuple[bool, None]:
        """Lower the planes if the best point is a new one, then add those of the points."""
        if state.convex:
            return ConvexCuts().add(state, step, before, own)
        bundle, best, last = state.bundle, state.best, state.lower
        if best is not before:  # a descent step
            # Their mean may need less lowering than they do one by one, and keeps the gap from
            # growing (Lemma 4).
            bundle.add_mean()
            localities = bundle.localities + self._locality(state, before.w)
            excess = bundle.heights_at(best.w) - (best.value - localities)
            bundle.lower(np.maximum(excess, 0.0), localities)
        for point in step.cut_at:
            bundle.add(self.repaired(point, state))
        # Lowered planes make a lower model: its minimum takes the place of the last one.
        lam = state.problem.norm.lam
        bundle.weigh(lam, accuracy=state.accuracy)
        # The planes are not above the objective at the best point. A small difference of large
        # terms may be.
        state.lower = min(bundle.lowest(lam), state.objective)
        return state.lower > last, None

    def repaired(self, point: Point, state: Run) -> Plane:
        """Return the plane of a point, changed where it is in conflict with the best point.

        Paper 004, Algorithm 6. The new plane must stay below the risk at the best point by its
        locality (15), and lift the model at ``point`` to the best objective (16), else the method
        could stay where it is. If no offset does both, a locality above the paper's is cut down to
        it. If that is not enough, a plane takes its place that does both, whose sum with the
        regularizer is lowest at the best point.
        """
        plane, best, regularizer = point.plane(), state.best, state.problem.norm
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

    def _locality(self, state: Run, w: Vector) -> float:
        """Return ``lam/2 |w - w*|^2`` in the metric of the regularizer, times the factor."""
        regularizer = state.problem.norm
        return 0.5 * self.locality * regularizer.along(state.best.w, w).curvature


@dataclass(frozen=True, slots=True)
class ProximalToBest(Stabilizer[None]):
    """The planes plus ``u/2 |w - w*|^2``, with ``u`` such that steps are as long as the last one.

    The line search chooses how far to go along the direction; the next ``u`` follows from that.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    planes_of: ClassVar[Literal["risk", "objective"]] = "objective"

    def propose(self, state: Run, own: None) -> tuple[Candidate, None]:
        """Solve the reduced problem."""
        return minimize_near_best(state), None


def minimize_near_best(state: Run) -> Candidate:
    """Minimize the planes of the objective plus ``u/2 |w - w*|^2``."""
    regularizer, bundle, best = state.problem.norm, state.bundle, state.best
    heights = bundle.heights_at(best.w)
    known = bundle.alpha.any()
    slope = bundle.aggregate().slope if known else bundle.last_slope
    length = 1.0 if state.last_step is None else state.last_step
    u = math.sqrt(max(dot(slope, regularizer.dual_metric(slope)), 0.0)) / length
    # Exactly: with a large u the minimum is so close to the best objective that a share of the
    # gap, which is that for lam in place of u, would be no accuracy at all.
    bundle.weigh(max(u, regularizer.lam), accuracy=0.0, shift=heights - bundle.centered_offsets)
    slope = bundle.aggregate().slope
    image = regularizer.dual_metric(slope)
    error = state.objective - float(bundle.alpha @ heights)
    # Were the objective convex near the best point, it could be lower by this much at most,
    # because the regularizer curves it by lam.
    lower = state.objective - error - dot(slope, image) / (2.0 * regularizer.lam)
    w = best.w - image / max(u, regularizer.lam)
    # The planes are those of the objective; queries ask for the model of the risk.
    return Candidate(w, lower, bundle.height_at(w) - regularizer.value(w))


@dataclass(frozen=True, slots=True)
class ObjectiveCuts(Cuts[None]):
    """Planes of the objective, lowered by Kiwiel's rule (paper 004, equations 9 and 10).

    Parameters
    ----------
    gamma, omega : float
        Locality: a plane is at least ``gamma * s^omega`` below the objective at the best point.
    """

    needs = (QUADRATIC,)
    planes_of: ClassVar[Literal["risk", "objective"]] = "objective"
    gamma: float = 0.5
    omega: float = 2.0

    def add(self, state: Run, step: Step[Any], before: Point, own: None) -> tuple[bool, None]:
        """Lower the planes if the best point is a new one, then add those of the points."""
        bundle, best, last = state.bundle, state.best, state.lower
        if best is not before:
            regularizer = state.problem.norm
            ways = bundle.localities + distance(regularizer, before.w, best.w)
            bundle.lower(self._excess(bundle.heights_at(best.w), ways, state.objective), ways)
        for point in step.cut_at:
            bundle.add(self._plane(point, state))
        state.lower = minimize_near_best(state).lower
        return state.lower > last, None

    def _plane(self, point: Point, state: Run) -> Plane:
        regularizer, raw = state.problem.norm, point.plane()
        slope = raw.slope + regularizer.gradient(point.w)
        offset = regularizer.value(point.w) + point.value - dot(slope, point.w)
        if point is state.best:
            return Plane(slope, offset)
        height = dot(slope, state.best.w) + offset
        way = distance(regularizer, point.w, state.best.w)
        excess = self._excess(np.array([height]), np.array([way]), state.objective)
        return Plane(slope, offset - float(excess[0]), locality=way)

    def _excess(self, heights: Vector, ways: Vector, objective: float) -> Vector:
        """Return by how much planes of these heights at the best point must be lowered."""
        errors = np.maximum(np.abs(objective - heights), self.gamma * ways**self.omega)
        return np.asarray(np.maximum(heights - objective + errors, 0.0))
