"""Quasi-Newton steps for sparse coefficients: smooth risks whose curvature is learned on the way.

As L-BFGS does, past steps and the changes of the slope along them tell the second derivatives of
the risk: a multiple of the identity less a matrix of low rank (R. H. Byrd, J. Nocedal,
R. B. Schnabel, 1994)

    B = s I - W M W',        W = [s S, Y],        M^-1 = [s S'S, L; L', -diag(S'Y)]

with the steps ``S``, the changes ``Y``, and ``L`` the part of ``S'Y`` below the diagonal. A step
minimizes that model plus the regularizer as it is, by coordinate descent on the coordinates that
are not zero or may become so. That costs no pass over the data, so that it is solved accurately
(K. Scheinberg, X. Tang, 2016), and gives exact zeros.

Each point gives a plane below the risk. Where it is too steep for the regularizer, a mean of it and
of the flat plane at the risk's lower bound is not: see `Coordinates.best_scale`. Where the
regularizer has no squares, so is a mean of the last planes, which a linear program finds. Points
of a conditional random field add a flatter plane, of the model's distribution and the right labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.pace import hurried
from cutplane.compute.products import Numbers, dot
from cutplane.core.needs import Need, evaluated_once, offers
from cutplane.core.protocols import Plane, Point
from cutplane.core.reduced.linear_program import best_plane
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Candidate, Problem, Run
from cutplane.regularizers.coordinates import Coordinates
from cutplane.solvers.coordinates.columns import penalty_of
from cutplane.solvers.coordinates.loops import low_rank_descent, products_with_rows
from cutplane.solvers.needs import BY_COORDINATE
from cutplane.solvers.quasi_newton import PastSteps

# The model is minimized until no coordinate moves by more than this share of the steepest descent.
_SHARE, _MOST_PASSES = 0.05, 200
# Besides the coordinates that are not zero, at most so many are chosen, and so many times as many.
_LEAST_CHOSEN = 2000
_GROWTH = 1.0
# A step is taken if the objective falls by this share of what its slope promises. Else the next
# trial is where a parabola through what is known is lowest, within these shares of the step.
_FALL = 1e-4
_MOST_TRIALS = 20
_SHORTEST, _LONGEST = 0.1, 0.5
# Near the optimum the objective changes by less than it is rounded, while the bound still rises.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)
# How many planes a mean is made of, of half as many points where these have two, and in which
# iterations.
_PLANES, _MEAN_EVERY, _AT_ONCE = 24, 8, 300


@dataclass(slots=True)
class SparseSteps:
    """What is remembered from step to step.

    Of the ``past`` steps S and the changes Y of the slope along them ``squares`` has the products
    ``S'S``, ``mixed`` has ``S'Y``, in the rows in use.
    """

    past: PastSteps
    squares: Matrix
    mixed: Matrix

    @classmethod
    def none_yet(cls, most: int, n: int) -> SparseSteps:
        """Return room for so many steps."""
        return cls(PastSteps.none_yet(most, n), np.zeros((most, most)), np.zeros((most, most)))

    def remember(self, step: Vector, change: Vector) -> None:
        """Keep a step, if the slope changed along it as that of a convex function must."""
        past, before = self.past, list(self.past.slots)
        past.remember(step, change)
        if not past.slots or past.slots == before:
            return
        slot = past.slots[-1]
        step, change = (kept[slot].astype(np.float64) for kept in (past.steps, past.changes))
        self.squares[slot] = self.squares[:, slot] = products_with_rows(past.steps, step)
        self.mixed[slot] = products_with_rows(past.changes, step)
        self.mixed[:, slot] = products_with_rows(past.steps, change)

    def model(self, slope: Vector, chosen: Numbers) -> tuple[Vector, Matrix, Vector]:
        """Return diagonal, factor and signs of the second derivatives, for some coordinates."""
        past = self.past
        slots = np.array(past.slots, dtype=np.int64)
        if len(slots) == 0:
            size = max(float(np.sqrt(dot(slope, slope))), 1.0)
            return np.full(len(chosen), size), np.empty((len(chosen), 0)), np.empty(0)
        # A step and its change may be scaled together: the model is the same.
        sizes = 1.0 / np.sqrt(past.products[slots])
        both = np.outer(sizes, sizes)
        last = past.changes[slots[-1]].astype(np.float64) * sizes[-1]
        scale = dot(last, last)
        mixed = both * self.mixed[np.ix_(slots, slots)]
        below = np.tril(mixed, -1)
        squares = scale * both * self.squares[np.ix_(slots, slots)]
        inner = np.block([[squares, below], [below.T, -np.diag(np.diag(mixed))]])
        if not np.isfinite(inner).all():  # steps of wild sizes tell nothing
            past.forget()
            return self.model(slope, chosen)
        values, vectors = np.linalg.eigh(inner)
        values, vectors = values[values != 0.0], vectors[:, values != 0.0]
        steps, changes = (kept[:, chosen][slots] for kept in (past.steps, past.changes))
        W = np.concatenate([scale * steps, changes]) * np.tile(sizes, 2)[:, None]
        factor = np.ascontiguousarray(W.T @ (vectors / np.sqrt(np.abs(values))))
        return np.full(len(chosen), scale), factor, np.sign(values)


@dataclass(frozen=True, slots=True)
class SparseQuasiNewton(Solver[SparseSteps]):
    """Quasi-Newton steps from the best point; so many past ``steps`` are remembered."""

    needs = (Need("risk", "loss.smooth", "a smooth loss"), BY_COORDINATE)
    steps: int = 20
    planes: int | None = _PLANES
    name: str = "sparse-quasi-newton"

    def start(self, problem: Problem) -> SparseSteps:
        """Return room for the steps to come."""
        return SparseSteps.none_yet(self.steps, problem.risk.n_parameters)

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk, and keep value and plane."""
        return evaluated_once(problem.risk, w)

    def step(self, run: Run, own: SparseSteps) -> Step[SparseSteps]:
        """Take a step; return the points that were tried."""
        problem, best = run.problem, run.best
        form = coordinates_of(problem)
        slope, here = best.plane().slope, problem.regularizer.value(best.w)
        goal = minimum_of_model(own, best.w, slope, form)
        if not np.isfinite(goal).all():
            own.past.forget()
            goal = minimum_of_model(own, best.w, slope, form)
        direction = goal - best.w
        promised = dot(slope, direction) + problem.regularizer.value(goal) - here
        rounding = _ROUNDING * abs(run.objective)
        points, length = list[Point](), 1.0
        for _ in range(_MOST_TRIALS):
            w = goal if length == 1.0 else best.w + length * direction
            points.append(_evaluated_near(problem, w, best))
            gained = run.objective - problem.objective(points[-1])
            if gained >= -_FALL * length * min(promised, 0.0) - rounding or hurried():
                break
            # Along a direction that promises nothing but by rounding there is no parabola.
            fitted = 0.0
            if promised < 0.0:
                fitted = 0.5 * promised * length / (promised * length + gained)
            length *= min(max(fitted, _SHORTEST), _LONGEST)
        else:  # the end of what numbers can tell, or nothing that was learned holds here
            own.past.forget()
        own.remember(points[-1].w - best.w, points[-1].plane().slope - slope)
        if not (problem.flat and offers(points[-1], "flatter")):
            return Step(points, own, cut_at=points)
        planes = list[Plane]()
        for point in points:
            flatter: Plane = point.flatter  # type: ignore[attr-defined]
            # The newest plane of all must be the one that touches the risk.
            planes += [flatter, point.plane()]
        return Step(points, own, planes)

    def combined(self, run: Run) -> Candidate:
        """Return what the newest plane says with the floor, or now and then all of them."""
        problem, bundle = run.problem, run.bundle
        newest = np.zeros(bundle.n_planes)
        newest[-1] = 1.0
        bundle.set_weights(newest)
        plane = bounding(bundle.aggregate(), coordinates_of(problem), bundle.floor)
        said = problem.below(plane)
        due = run.iteration % _MEAN_EVERY == 0 and bundle.n_planes > 1
        if problem.flat and (due or run.stalled_for > 0) and np.isfinite(bundle.floor):
            plane = best_plane(
                bundle.model(), bundle.floor, problem.flat.dual_radius, newest, at_once=_AT_ONCE
            )
            said = max(said, problem.below(plane), key=lambda candidate: candidate.lower)
        return said


def _evaluated_near(problem: Problem, w: Vector, near: Any) -> Point:
    """Evaluate the risk; intercepts are looked for from those of a point nearby."""
    risk: Any = problem.risk
    if not (offers(risk, "minimizes_intercept") and offers(risk, "with_scores")):
        return evaluated_once(risk, w)
    risk.evaluations += 1
    point: Point = risk.with_scores(w, risk.map.scores(w), guess=near.offset)
    return point


def coordinates_of(problem: Problem) -> Coordinates:
    """Return the numbers of a regularizer that is a sum over coordinates."""
    regularizer: Any = problem.regularizer
    form: Coordinates = regularizer.by_coordinate(problem.risk.n_parameters)
    return form


def _working_set(w: Vector, descents: Vector) -> Numbers:
    """Return the coordinates that are not zero, and those along which the objective falls most."""
    nonzero = w != 0.0
    steep = np.where(nonzero, 0.0, descents)
    most = max(_LEAST_CHOSEN, int(_GROWTH * np.count_nonzero(nonzero)))
    if np.count_nonzero(steep) > most:
        steep[steep < np.partition(steep, -most)[-most]] = 0.0
    return np.flatnonzero(nonzero | (steep > 0.0))


def minimum_of_model(own: SparseSteps, w: Vector, slope: Vector, form: Coordinates) -> Vector:
    """Return where the model plus the regularizer is lowest."""
    descents = form.descents(w, slope)
    chosen = _working_set(w, descents)
    part = Coordinates(form.l1, *(each[chosen] for each in form[1:]))
    moved, goal = w[chosen], w.copy()
    enough = _SHARE * float(descents.max(initial=0.0))
    model = own.model(slope, chosen)
    low_rank_descent(*model, slope[chosen], penalty_of(part), moved, enough, _MOST_PASSES)
    goal[chosen] = moved
    return goal


def bounding(plane: Plane, form: Coordinates, floor: float) -> Plane:
    """Return the best mean of a plane and the flat one at the risk's lower bound."""
    if not np.isfinite(floor):
        return plane
    scale = form.best_scale(-plane.slope, plane.offset - floor)
    if scale == 1.0:
        return plane
    return Plane(scale * plane.slope, scale * plane.offset + (1.0 - scale) * floor)


def sparse_quasi_newton(*, steps: int = 20) -> SparseQuasiNewton:
    """Quasi-Newton steps for sparse coefficients, certified by the planes at its points.

    The method for smooth losses that know no second derivatives of single examples, such as that of
    conditional random fields, with regularizers that make coefficients sparse or bound them.

    Parameters
    ----------
    steps : int
        How many past steps are remembered.
    """
    return SparseQuasiNewton(steps)
