"""L-BFGS whose every point gives a plane to the bundle: smooth risks, certified.

For a smooth risk the gradients of the last points tell more than their planes do, but only the
planes bound the optimum. So L-BFGS chooses where to evaluate, and the bundle proves how good the
best point is. Each trial of the line search gives a plane too.

Where the curvature of the risk is roughly known (`cutplane.methods.chain_curvature`), L-BFGS starts
from it in place of a multiple of the identity, and it is computed afresh as the fit goes on, after
5, 10, 20, 40, ... iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import Numbers, dot
from cutplane.core.kept_point import evaluate_once
from cutplane.core.method import Method
from cutplane.core.policies.cuts import ConvexCuts
from cutplane.core.policies.memory import KeepAll, LimitedMemory
from cutplane.core.policies.no_stabilizer import NoStabilizer
from cutplane.core.policies.queries import AtCandidate, Found
from cutplane.core.protocols import Point, QuadraticRegularizer, Risk, as_quadratic
from cutplane.core.state import Candidate, State
from cutplane.core.wolfe import Trial, search
from cutplane.methods.chain_curvature import ChainCurvature, has_curvature

Singles = NDArray[np.float32]

_FIRST_REFRESH = 5
_MOST_TRIALS = 6


class PastSteps:
    """What L-BFGS remembers: steps with the changes of the gradient, and a rough curvature.

    They are kept in single precision. They only tell where to look next, and take most of the
    memory where parameters are many.

    Parameters
    ----------
    most : int
        How many steps are kept.
    n_parameters : int
        Length of a step.
    """

    def __init__(self, most: int, n_parameters: int) -> None:
        self.curvature: ChainCurvature | None = None
        self.next_refresh = 0
        self._steps = np.empty((most, n_parameters), dtype=np.float32)
        self._changes = np.empty((most, n_parameters), dtype=np.float32)
        self._products = np.empty(most)
        self._slots: list[int] = []

    def direction(self, gradient: Vector) -> Vector:
        """Return minus the inverse Hessian, as far as it is known, times the gradient."""
        q = gradient.copy()
        kept = (self._steps, self._changes, self._products, np.array(self._slots, dtype=np.int64))
        shares = first_half(q, *kept)
        q = self._scaled(q)
        second_half(q, *kept, shares)
        return np.negative(q, out=q)

    def _scaled(self, q: Vector) -> Vector:
        """Return what L-BFGS begins with, times a vector: a multiple of the rough curvature."""
        if self._slots:
            change = self._changes[self._slots[-1]].astype(np.float64)
            image = change if self.curvature is None else self.curvature.solve(change)
            scale = self._products[self._slots[-1]] / dot(change, image)
        else:
            scale = 1.0 if self.curvature else 1.0 / max(np.sqrt(dot(q, q)), 1.0)
        q = q if self.curvature is None else self.curvature.solve(q)
        q *= scale
        return q

    def remember(self, step: Vector, change: Vector) -> None:
        """Keep a step, if the gradient changed along it as that of a convex function must."""
        if not dot(step, change) > 1e-14 * np.sqrt(dot(step, step) * dot(change, change)):
            return
        most = len(self._steps)
        others = self._slots[1:] if len(self._slots) == most else self._slots
        slot = next(k for k in range(most) if k not in others)
        self._steps[slot], self._changes[slot] = step, change
        product = dot(*(kept[slot].astype(np.float64) for kept in (self._steps, self._changes)))
        self._products[slot] = product
        # Single precision may underflow.
        self._slots = [*others, slot] if product > 0.0 else others

    def forget(self) -> None:
        """Drop all steps."""
        self._slots = []


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
class QuasiNewtonSteps:
    """Query by L-BFGS from the best point, with a line search by trials.

    Parameters
    ----------
    steps : int
        How many past steps are remembered.
    """

    steps: int = 20

    def evaluate(self, risk: Risk, w: Vector) -> Point:
        """Evaluate the risk. Curvature needs probabilities, which only a whole point knows."""
        return risk.at(w) if has_curvature(risk) else evaluate_once(risk, w)

    def __call__(
        self, risk: Risk, regularizer: QuadraticRegularizer, state: State, candidate: Candidate
    ) -> Found:
        """Evaluate the risk along the direction of L-BFGS until a step is good enough."""
        if state.memo is None:
            if as_quadratic(regularizer) is None:
                raise ValueError("quasi-Newton steps need a quadratic regularizer such as cp.L2")
            state.memo = PastSteps(self.steps, risk.n_parameters)
        past: PastSteps = state.memo
        best = state.best
        curved = has_curvature(risk)
        if curved and state.iteration >= past.next_refresh:
            past.curvature = ChainCurvature.at(risk, best, regularizer.lam)  # type: ignore[arg-type]
            past.next_refresh = max(2 * state.iteration, _FIRST_REFRESH)
        gradient = best.plane().slope + regularizer.gradient(best.w)
        direction = past.direction(gradient)
        start = Trial(0.0, state.objective, dot(gradient, direction))
        if start.slope >= 0.0:  # rounding: nothing that was learned holds here
            past.forget()
            return AtCandidate()(risk, regularizer, state, candidate)
        found: list[tuple[float, Point]] = []

        def evaluate(step: float) -> Trial:
            point = self.evaluate(risk, best.w + step * direction)
            objective = point.value + regularizer.value(point.w)
            found.append((objective, point))
            slope = dot(point.plane().slope, direction)
            return Trial(step, objective, slope + dot(regularizer.gradient(point.w), direction))

        search(evaluate, start, 1.0, most=_MOST_TRIALS)
        objective, lowest = min(found, key=lambda trial: trial[0])
        if objective < state.objective:
            change = lowest.plane().slope + regularizer.gradient(lowest.w)
            change -= gradient
            past.remember(lowest.w - best.w, change)
        points = [point for _, point in found]
        if objective >= state.objective:
            # A kink, or the end of what numbers can tell. The bundle's own step goes on.
            past.forget()
            points.append(self.evaluate(risk, candidate.w))
        return Found(points, points)


def quasi_newton(*, steps: int = 20, planes: int | None = None) -> Method:
    """L-BFGS with a certificate: the method for smooth risks such as conditional random fields.

    Every point where L-BFGS evaluates the risk gives a plane, and the planes bound the optimum as
    in `bmrm`. For a `cutplane.ChainRisk` with the loss of a conditional random field and a few
    hundred features at most, L-BFGS starts from rough second derivatives. Where the risk has kinks
    it falls back to the steps of `bmrm`, and is slow.

    Parameters
    ----------
    steps : int
        How many past steps L-BFGS remembers.
    planes : int, optional
        Keep at most so many planes, and an aggregated one. All by default.

    Returns
    -------
    Method
    """
    return Method(
        stabilizer=NoStabilizer(),
        memory=KeepAll() if planes is None else LimitedMemory(planes),
        query=QuasiNewtonSteps(steps),
        cuts=ConvexCuts(),
    )
