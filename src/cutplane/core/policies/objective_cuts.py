"""The parts of the non-convex bundle method: planes of the whole objective, and a proximal term.

The reduced problem around the best point ``w*`` is (paper 004, section 2.4; K. C. Kiwiel: Methods
of Descent for Nondifferentiable Optimization, 1985)

    min_w  max_j  J(w*) - e_j + g_j.(w - w*)  +  u/2 |w - w*|^2

with subgradients ``g_j`` of ``J`` and errors ``e_j = max(|J(w*) - c_j(w*)|, gamma * s_j^omega)``,
where ``c_j`` is the plane and ``s_j`` the length of the way from where it was taken to ``w*``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.method import Cuts, Found, Stabilizer
from cutplane.core.needs import QUADRATIC, quadratic
from cutplane.core.protocols import Plane, Point
from cutplane.core.reduced.proximal import distance
from cutplane.core.state import Candidate, State


@dataclass(frozen=True, slots=True)
class ProximalToBest(Stabilizer[None]):
    """The planes plus ``u/2 |w - w*|^2``, with ``u`` such that steps are as long as the last one.

    The line search chooses how far to go along the direction; the next ``u`` follows from that.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    planes_of: ClassVar[Literal["risk", "objective"]] = "objective"

    def propose(self, state: State, own: None) -> tuple[Candidate, None]:
        """Solve the reduced problem."""
        return minimize_near_best(state), None


def minimize_near_best(state: State) -> Candidate:
    """Minimize the planes of the objective plus ``u/2 |w - w*|^2``."""
    regularizer, bundle, best = quadratic(state.problem.regularizer), state.bundle, state.best
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

    def add(self, state: State, found: Found, before: Point, own: None) -> tuple[bool, None]:
        """Lower the planes if the best point is a new one, then add those of the points."""
        bundle, best, last = state.bundle, state.best, state.lower
        if best is not before:
            regularizer = quadratic(state.problem.regularizer)
            ways = bundle.localities + distance(regularizer, before.w, best.w)
            bundle.lower(self._excess(bundle.heights_at(best.w), ways, state.objective), ways)
        for point in found.cut_at:
            bundle.add(self._plane(point, state))
        state.lower = minimize_near_best(state).lower
        return state.lower > last, None

    def _plane(self, point: Point, state: State) -> Plane:
        regularizer, raw = quadratic(state.problem.regularizer), point.plane()
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
