"""L-BFGS whose every point gives a plane to the bundle: smooth risks, certified.

For a smooth risk the gradients of the last points tell more than their planes do, but only the
planes bound the optimum. So L-BFGS chooses where to evaluate, and the bundle proves how good the
best point is. Each trial of the line search gives a plane too.

Where the curvature of the risk is roughly known (`cutplane.online.chain_curvature`), L-BFGS starts
from it in place of a multiple of the identity, and it is computed afresh as the fit goes on, after
5, 10, 20, 40, ... iterations.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from cutplane.core.cuts import ConvexCuts
from cutplane.core.memory import KeepAll, LimitedMemory
from cutplane.core.methods import Method
from cutplane.core.products import dot
from cutplane.core.protocols import Plane, Point, QuadraticRegularizer, Risk, Vector, as_quadratic
from cutplane.core.query import AtCandidate, Found
from cutplane.core.stabilizers import NoStabilizer
from cutplane.core.state import Candidate, State
from cutplane.core.wolfe import Trial, search
from cutplane.online.chain_curvature import ChainCurvature, has_curvature

_FIRST_REFRESH = 5
_MOST_TRIALS = 6


@dataclass(slots=True)
class PastSteps:
    """What L-BFGS remembers: steps with the changes of the gradient, and a rough curvature."""

    pairs: deque[tuple[Vector, Vector]]
    curvature: ChainCurvature | None = None
    next_refresh: int = 0

    def direction(self, gradient: Vector) -> Vector:
        """Return minus the inverse Hessian, as far as it is known, times the gradient."""
        q = gradient.copy()
        shares = []
        for step, change in reversed(self.pairs):
            shares.append(dot(step, q) / dot(step, change))
            q -= shares[-1] * change
        if self.pairs:
            step, change = self.pairs[-1]
            image = change if self.curvature is None else self.curvature.solve(change)
            scale = dot(step, change) / dot(change, image)
        else:
            scale = 1.0 if self.curvature else 1.0 / max(np.sqrt(dot(gradient, gradient)), 1.0)
        q = scale * (q if self.curvature is None else self.curvature.solve(q))
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            q += (share - dot(change, q) / dot(step, change)) * step
        return -q

    def remember(self, step: Vector, change: Vector) -> None:
        """Keep a step, if the gradient changed along it as that of a convex function must."""
        if dot(step, change) > 1e-14 * np.sqrt(dot(step, step) * dot(change, change)):
            self.pairs.append((step, change))


@dataclass(frozen=True, slots=True)
class KeptPoint:
    """What is needed of a point once its plane is taken.

    Scores and slopes of all tokens are not. With many of them they take more memory than planes.
    """

    w: Vector
    value: float
    touching: Plane

    def plane(self) -> Plane:
        """Return the plane that touches the risk here."""
        return self.touching


@dataclass(frozen=True, slots=True)
class QuasiNewtonSteps:
    """Query by L-BFGS from the best point, with a line search by trials.

    Parameters
    ----------
    steps : int
        How many past steps are remembered.
    """

    steps: int = 20

    def __call__(
        self, risk: Risk, regularizer: QuadraticRegularizer, state: State, candidate: Candidate
    ) -> Found:
        """Evaluate the risk along the direction of L-BFGS until a step is good enough."""
        if state.memo is None:
            if as_quadratic(regularizer) is None:
                raise ValueError("quasi-Newton steps need a quadratic regularizer such as cp.L2")
            state.memo = PastSteps(deque(maxlen=self.steps))
        past: PastSteps = state.memo
        best = state.best
        curved = has_curvature(risk)
        if curved and state.iteration >= past.next_refresh:
            past.curvature = ChainCurvature(risk, best, regularizer.lam)  # type: ignore[arg-type]
            past.next_refresh = max(2 * state.iteration, _FIRST_REFRESH)
        gradient = best.plane().slope + regularizer.gradient(best.w)
        direction = past.direction(gradient)
        start = Trial(0.0, state.objective, dot(gradient, direction))
        if start.slope >= 0.0:  # rounding: nothing that was learned holds here
            past.pairs.clear()
            return AtCandidate()(risk, regularizer, state, candidate)
        found: list[tuple[float, Point, Vector]] = []

        def evaluate(step: float) -> Trial:
            point: Point = risk.at(best.w + step * direction)
            if not curved:
                point = KeptPoint(point.w, point.value, point.plane())
            objective = point.value + regularizer.value(point.w)
            slope = point.plane().slope + regularizer.gradient(point.w)
            found.append((objective, point, slope))
            return Trial(step, objective, dot(slope, direction))

        search(evaluate, start, 1.0, most=_MOST_TRIALS)
        objective, lowest, slope = min(found, key=lambda trial: trial[0])
        if objective < state.objective:
            past.remember(lowest.w - best.w, slope - gradient)
        points = [point for _, point, _ in found]
        if objective >= state.objective:
            # A kink, or the end of what numbers can tell. The bundle's own step goes on.
            past.pairs.clear()
            points.append(risk.at(candidate.w))
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
