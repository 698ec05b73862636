"""L-BFGS whose every point gives a plane to the bundle: smooth risks, certified.

For a smooth risk the gradients of the last points tell more than their planes do, but only the
planes bound the optimum. So L-BFGS chooses where to evaluate, and the bundle proves how good the
best point is. Each trial of the line search gives a plane too.

Where the curvature of the risk is roughly known (`cutplane.models.sequences.curvature`, and for
networks `cutplane.models.networks.curvature`), L-BFGS starts from it in place of a multiple of the
identity, and it is computed afresh as the fit goes on, after 5, 10, 20, 40, ... iterations. Where
parameters are too many for that, a number for each of them has to do
(`cutplane.solvers.pair_curvature`), computed once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import Numbers, dot
from cutplane.core.method import Cuts
from cutplane.core.needs import CURVED, QUADRATIC, evaluated_once, quadratic
from cutplane.core.protocols import Point
from cutplane.core.search import Trial, wolfe_search
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.models.networks.curvature import NetworkCurvature, has_network_curvature
from cutplane.models.sequences.curvature import ChainCurvature, has_curvature
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.pair_curvature import COMPUTED_IN, PairCurvature, has_pair_curvature

Singles = NDArray[np.float32]

Curvature = ChainCurvature | NetworkCurvature | PairCurvature

_FIRST_REFRESH = 5
_NEVER = 1 << 62
_MOST_TRIALS = 6


@dataclass(slots=True)
class PastSteps:
    """What L-BFGS remembers: steps with the changes of the gradient, and a rough curvature.

    They are kept in single precision. They only tell where to look next, and take most of the
    memory where parameters are many.

    Attributes
    ----------
    steps, changes : ndarray of shape (most, n_parameters)
        Steps, and by how much the gradient changed along them.
    products : ndarray of shape (most,)
        The inner products of both.
    slots : list of int
        The rows in use, oldest first.
    curvature : ChainCurvature, NetworkCurvature or PairCurvature, optional
        What to begin with in place of a multiple of the identity.
    next_refresh : int
        In which iteration it is computed next.
    """

    steps: Singles
    changes: Singles
    products: Vector
    slots: list[int] = field(default_factory=list)
    curvature: Curvature | None = None
    next_refresh: int = 0

    @classmethod
    def none_yet(cls, most: int, n_parameters: int) -> PastSteps:
        """Return room for so many steps."""
        steps, changes = (np.zeros((most, n_parameters), dtype=np.float32) for _ in range(2))
        return cls(steps, changes, np.zeros(most))

    def direction(self, gradient: Vector) -> Vector:
        """Return minus the inverse Hessian, as far as it is known, times the gradient."""
        q = gradient.copy()
        kept = (self.steps, self.changes, self.products, np.array(self.slots, dtype=np.int64))
        shares = first_half(q, *kept)
        q = self._scaled(q)
        second_half(q, *kept, shares)
        return np.negative(q, out=q)

    def _scaled(self, q: Vector) -> Vector:
        """Return what L-BFGS begins with, times a vector: a multiple of the rough curvature."""
        if self.slots:
            change = self.changes[self.slots[-1]].astype(np.float64)
            image = change if self.curvature is None else self.curvature.solve(change)
            scale = self.products[self.slots[-1]] / dot(change, image)
        else:
            scale = 1.0 if self.curvature else 1.0 / max(np.sqrt(dot(q, q)), 1.0)
        q = q if self.curvature is None else self.curvature.solve(q)
        q *= scale
        return q

    def remember(self, step: Vector, change: Vector) -> None:
        """Keep a step, if the gradient changed along it as that of a convex function must."""
        if not dot(step, change) > 1e-14 * np.sqrt(dot(step, step) * dot(change, change)):
            return
        most = len(self.steps)
        others = self.slots[1:] if len(self.slots) == most else self.slots
        slot = next(k for k in range(most) if k not in others)
        with np.errstate(over="ignore"):
            self.steps[slot], self.changes[slot] = step, change
        product = dot(*(kept[slot].astype(np.float64) for kept in (self.steps, self.changes)))
        self.products[slot] = product
        # Single precision may underflow, or overflow.
        self.slots = [*others, slot] if 0.0 < product < np.inf else others

    def forget(self) -> None:
        """Drop all steps."""
        self.slots = []


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def first_half(
    q: Vector, steps: Singles, changes: Singles, products: Vector, slots: Numbers
) -> Vector:
    """Take from ``q``, newest step first, the part that each step explains; return these parts."""
    shares = np.empty(len(slots))
    for k in range(len(slots) - 1, -1, -1):
        step, change = steps[slots[k]], changes[slots[k]]
        along = 0.0
        for j in range(len(q)):
            along += np.float64(step[j]) * q[j]
        shares[k] = along / products[slots[k]]
        for j in range(len(q)):
            q[j] -= shares[k] * np.float64(change[j])
    return shares


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def second_half(
    q: Vector, steps: Singles, changes: Singles, products: Vector, slots: Numbers, shares: Vector
) -> None:
    """Add to ``q``, oldest step first, what is missing along each step."""
    for k in range(len(slots)):
        step, change = steps[slots[k]], changes[slots[k]]
        along = 0.0
        for j in range(len(q)):
            along += np.float64(change[j]) * q[j]
        share = shares[k] - along / products[slots[k]]
        for j in range(len(q)):
            q[j] += share * np.float64(step[j])


@dataclass(frozen=True, slots=True)
class QuasiNewtonSteps(Solver[PastSteps]):
    """L-BFGS from the best point, with a line search by trials.

    Parameters
    ----------
    steps : int
        How many past steps are remembered.
    planes : int, optional
        How many planes are combined, besides the aggregated one. All by default.
    cuts : Cuts, optional
        How points become planes of a risk that is not convex.
    """

    needs = (CURVED, QUADRATIC)
    steps: int = 20
    planes: int | None = None
    cuts: Cuts[None] | None = None
    name: str = "quasi-newton"

    @property
    def for_convex(self) -> bool:  # type: ignore[override]
        """Whether planes are taken to lie below the risk everywhere."""
        return self.cuts is None or self.cuts.for_convex

    @property
    def cut_kind(self) -> str:
        """Of what kind the planes of a run are."""
        return type(self.cuts).__name__

    def start(self, problem: Problem) -> PastSteps:
        """Return room for the steps to come."""
        return PastSteps.none_yet(self.steps, problem.risk.n_parameters)

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk. Curvature needs probabilities, which only a whole point knows."""
        risk = problem.risk
        return risk.at(w) if has_curvature(risk) else evaluated_once(risk, w)

    def step(self, run: Run, own: PastSteps) -> Step[PastSteps]:
        """Evaluate the risk along the direction of L-BFGS until a step is good enough."""
        problem, best = run.problem, run.best
        regularizer = quadratic(problem.regularizer)
        if run.iteration >= own.next_refresh:
            own.curvature, own.next_refresh = _curvature_at(best, run, regularizer.lam)
        gradient = best.plane().slope + regularizer.gradient(best.w)
        direction = own.direction(gradient)
        start = Trial(0.0, run.objective, dot(gradient, direction))
        if start.slope >= 0.0:  # rounding: nothing that was learned holds here
            own.forget()
            there = problem.risk.at(run.candidate.w)
            return Step([there], own, cut_at=[there])
        found: list[tuple[float, Point]] = []

        def evaluate(step: float) -> Trial:
            point = self.first(problem, best.w + step * direction)
            found.append((problem.objective(point), point))
            slope = dot(point.plane().slope, direction)
            slope += dot(regularizer.gradient(point.w), direction)
            return Trial(step, found[-1][0], slope)

        wolfe_search(evaluate, start, 1.0, most=_MOST_TRIALS)
        objective, lowest = min(found, key=lambda trial: trial[0])
        if objective < run.objective:
            change = lowest.plane().slope + regularizer.gradient(lowest.w)
            change -= gradient
            own.remember(lowest.w - best.w, change)
        points = [point for _, point in found]
        if objective >= run.objective:
            # A kink, or the end of what numbers can tell. The step of a bundle method goes on.
            own.forget()
            points.append(self.first(problem, run.candidate.w))
        return Step(points, own, cut_at=points)

    def cut(self, run: Run, step: Step[PastSteps], before: Point) -> bool:
        """Give the planes of the points to the run, lowered where the risk is not convex."""
        if run.convex or self.cuts is None:
            return Solver.cut(self, run, step, before)
        if self.planes:
            run.bundle.make_room(self.planes, len(step.cut_at))
        return self.cuts.add(run, step, before, None)[0]


def _curvature_at(point: Any, run: Run, lam: float) -> tuple[Curvature | None, int]:
    """Return the curvature if it is known by now, and the iteration to compute it in next."""
    risk: Any = run.problem.risk
    later = max(2 * run.iteration, _FIRST_REFRESH)
    if has_curvature(risk):
        return ChainCurvature.at(risk, point, lam), later
    if has_network_curvature(risk):
        return NetworkCurvature.at(risk, point.w, lam), later
    if not has_pair_curvature(risk):
        return None, _NEVER
    if run.iteration < COMPUTED_IN:
        return None, COMPUTED_IN
    return PairCurvature.at(risk, point.w, lam), _NEVER


def quasi_newton(
    *, steps: int = 20, planes: int | None = None, cuts: Cuts[None] | None = None
) -> QuasiNewtonSteps:
    """L-BFGS with a certificate: the method for smooth risks such as conditional random fields.

    Every point where L-BFGS evaluates the risk gives a plane, and the planes bound the optimum as
    in `bmrm`. For a `cutplane.ChainRisk` with the loss of a conditional random field, and a few
    hundred features at most or a network of linear layers, L-BFGS starts from rough second
    derivatives. Where the risk has kinks it falls back to the steps of `bmrm`, and is slow.

    Parameters
    ----------
    steps : int
        How many past steps L-BFGS remembers.
    planes : int, optional
        Keep at most so many planes, and an aggregated one. All by default.
    cuts : Cuts, optional
        For a smooth risk that is not convex, such as that of a network: ``NonConvexCuts()`` of
        `cutplane.core.policies.cuts`, with which the run is tested and ends as that of `nrbm`.
    """
    return QuasiNewtonSteps(steps, checked_planes(planes), cuts)
