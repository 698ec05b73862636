"""L-BFGS whose every point gives a plane to the bundle: smooth risks, certified.

For a smooth risk the gradients of the last points tell more than their planes do, but only the
planes bound the optimum. So L-BFGS chooses where to evaluate, and the bundle proves how good the
best point is. Each trial of the line search gives a plane too.

Where the curvature of the risk is roughly known (`cutplane.models.sequences.curvature`), L-BFGS
starts from it in place of a multiple of the identity, and it is computed afresh as the fit goes on,
after 5, 10, 20, 40, ... iterations. Where parameters are too many for that, a number for each of
them has to do (`PairCurvature`), computed once.

With a regularizer that makes coefficients sparse, past steps and the changes of the slope along
them tell the second derivatives of the risk as in L-BFGS: a multiple of the identity less a matrix
of low rank (R. H. Byrd, J. Nocedal, R. B. Schnabel, 1994)

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

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.pace import hurried
from cutplane.compute.products import Numbers, dot
from cutplane.core.policies.flat import best_plane
from cutplane.core.protocols import KeptPoint, Plane, Point
from cutplane.core.search import Trial, wolfe_search
from cutplane.core.solver import CURVED, QUADRATIC, Cuts, Solver, Step
from cutplane.core.state import Candidate, Problem, Run
from cutplane.models.sequences.curvature import (
    ChainCurvature,
    NetworkCurvature,
    with_curvature,
    with_network_curvature,
)
from cutplane.models.sequences.risk import ChainPoint
from cutplane.regularizers.l2 import Coordinates
from cutplane.risks.composite import InferenceRisk
from cutplane.risks.scored import ScoredPoint, ScoredRisk
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.coordinates import (
    ROUNDING,
    coordinates_of,
    low_rank_descent,
    penalty_of,
    products_with_rows,
    working_set,
)
from cutplane.solvers.needs import BY_COORDINATE, SMOOTH

Singles = NDArray[np.float32]


@dataclass
class PairCurvature:
    """Square roots of rough second derivatives of a random field, one for each parameter.

    A parameter bends the objective by ``h = lam + sum p (1 - p) x^2`` over the tokens with its
    feature, where ``p`` is the probability of its label. Features differ in how often they occur by
    factors of ten thousands, and so do these numbers. But some twenty features of a token all move
    the same score, and along their sum the objective bends twenty times as much as each of them
    tells. So steps are divided by the square root of ``h`` only, which is between what the numbers
    say and no knowledge (docs/decisions/2026-11-18-constants-of-solvers.md).

    They only tell where to look next, and are kept in single precision.
    """

    # Before that the probabilities are still those of nothing learned.
    computed_in: ClassVar[int] = 10

    inverses: Annotated[NDArray[np.float32], "f4[p]"]

    @classmethod
    def at(cls, risk: InferenceRisk, w: Vector, lam: float) -> PairCurvature:
        """Return the curvature at ``w``; ``lam`` is the second derivative of the regularizer."""
        bends = np.maximum(risk.bends_at(w), 0.0)  # rounding may leave less
        bends += lam
        return cls((1.0 / np.sqrt(bends)).astype(np.float32))

    def solve(self, slope: Vector) -> Vector:
        """Return the inverse times a vector."""
        return self.inverses * slope


def with_rough_bends(risk: object) -> InferenceRisk | None:
    """Return a risk that knows rough second derivatives by single parameters, or None."""
    return risk if isinstance(risk, InferenceRisk) and risk.rough_bends else None


Curvature = ChainCurvature | NetworkCurvature | PairCurvature

_NEVER = 1 << 62


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

    steps: Annotated[Singles, "f4[m, p]"]
    changes: Annotated[Singles, "f4[m, p]"]
    products: Annotated[Vector, "f8[m]"]
    slots: Annotated[list[int], "slots"] = field(default_factory=list)
    curvature: Curvature | None = None
    next_refresh: Annotated[int, "number"] = 0

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
        # What L-BFGS begins with is a multiple of the rough curvature.
        if self.slots:
            change = self.changes[self.slots[-1]].astype(np.float64)
            image = change if self.curvature is None else self.curvature.solve(change)
            scale = self.products[self.slots[-1]] / dot(change, image)
        else:
            scale = 1.0 if self.curvature else 1.0 / max(np.sqrt(dot(q, q)), 1.0)
        q = q if self.curvature is None else self.curvature.solve(q)
        q *= scale
        second_half(q, *kept, shares)
        return np.negative(q, out=q)

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

    def fits(self, risk: object, solver: object) -> bool:
        """Say whether directions can be divided by the products in use."""
        return bool((self.products[self.slots] > 0.0).all())


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
        return risk.at(w) if with_curvature(risk) else problem.evaluated_once(w)

    def step(self, run: Run, own: PastSteps) -> Step[PastSteps]:
        """Evaluate the risk along the direction of L-BFGS until a step is good enough."""
        problem, best = run.problem, run.best
        regularizer = problem.norm
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

        wolfe_search(evaluate, start, 1.0, most=6)
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


def _curvature_at(point: Point, run: Run, lam: float) -> tuple[Curvature | None, int]:
    """Return the curvature if it is known by now, and the iteration to compute it in next."""
    risk = run.problem.risk
    later = max(2 * run.iteration, 5)
    if (chains := with_curvature(risk)) and isinstance(point, ChainPoint):
        return ChainCurvature.at(chains, point, lam), later
    if network := with_network_curvature(risk):
        return NetworkCurvature.at(network, point.w, lam), later
    if not (rough := with_rough_bends(risk)):
        return None, _NEVER
    if run.iteration < PairCurvature.computed_in:
        return None, PairCurvature.computed_in
    return PairCurvature.at(rough, point.w, lam), _NEVER


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


@dataclass(slots=True)
class SparseSteps:
    """What is remembered from step to step.

    Of the ``past`` steps S and the changes Y of the slope along them ``squares`` has the products
    ``S'S``, ``mixed`` has ``S'Y``, in the rows in use.
    """

    past: PastSteps
    squares: Annotated[Matrix, "f8[*, *]"]
    mixed: Annotated[Matrix, "f8[*, *]"]

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

    def fits(self, risk: object, solver: object) -> bool:
        """Say whether the products are those of as many steps as there is room for."""
        most = len(self.past.steps)
        return self.squares.shape == self.mixed.shape == (most, most)


@dataclass(frozen=True, slots=True)
class SparseQuasiNewton(Solver[SparseSteps]):
    """Quasi-Newton steps from the best point; so many past ``steps`` are remembered."""

    needs = (SMOOTH, BY_COORDINATE)
    # A step is taken if the objective falls by this share of what its slope promises. Else the next
    # trial is where a parabola through what is known is lowest, within these shares of the step.
    fall: ClassVar[float] = 1e-4
    most_trials: ClassVar[int] = 20
    shortest: ClassVar[float] = 0.1
    longest: ClassVar[float] = 0.5
    # In which iterations a mean of planes is looked for.
    mean_every: ClassVar[int] = 8

    steps: int = 20
    planes: int | None = 24  # a mean is made of, of half as many points where these have two
    name: str = "sparse-quasi-newton"

    def start(self, problem: Problem) -> SparseSteps:
        """Return room for the steps to come."""
        return SparseSteps.none_yet(self.steps, problem.risk.n_parameters)

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk, and keep value and plane."""
        return problem.evaluated_once(w)

    def step(self, run: Run, own: SparseSteps) -> Step[SparseSteps]:
        """Take a step; return the points that were tried."""
        problem, best, risk = run.problem, run.best, run.problem.risk
        form = coordinates_of(problem)
        slope, here = best.plane().slope, problem.regularizer.value(best.w)
        goal = minimum_of_model(own, best.w, slope, form)
        if not np.isfinite(goal).all():
            own.past.forget()
            goal = minimum_of_model(own, best.w, slope, form)
        direction = goal - best.w
        promised = dot(slope, direction) + problem.regularizer.value(goal) - here
        rounding = ROUNDING * abs(run.objective)
        points, length = list[Point](), 1.0
        for _ in range(self.most_trials):
            w = goal if length == 1.0 else best.w + length * direction
            if isinstance(risk, ScoredRisk) and risk.minimizes_intercept:
                # Intercepts are looked for from those of a point nearby.
                risk.evaluations += 1
                guess = best.offset if isinstance(best, ScoredPoint) else None
                points.append(risk.with_scores(w, risk.map.scores(w), guess=guess))
            else:
                points.append(problem.evaluated_once(w))
            gained = run.objective - problem.objective(points[-1])
            if gained >= -self.fall * length * min(promised, 0.0) - rounding or hurried():
                break
            # Along a direction that promises nothing but by rounding there is no parabola.
            fitted = 0.0
            if promised < 0.0:
                fitted = 0.5 * promised * length / (promised * length + gained)
            length *= min(max(fitted, self.shortest), self.longest)
        else:  # the end of what numbers can tell, or nothing that was learned holds here
            own.past.forget()
        own.remember(points[-1].w - best.w, points[-1].plane().slope - slope)
        planes = list[Plane]()
        for point in points:
            if not (problem.flat and isinstance(point, KeptPoint) and point.flatter):
                return Step(points, own, cut_at=points)
            # The newest plane of all must be the one that touches the risk.
            planes += [point.flatter, point.plane()]
        return Step(points, own, planes)

    def combined(self, run: Run) -> Candidate:
        """Return what the newest plane says with the floor, or now and then all of them."""
        problem, bundle = run.problem, run.bundle
        newest = np.zeros(bundle.n_planes)
        newest[-1] = 1.0
        bundle.set_weights(newest)
        plane = bounding(bundle.aggregate(), coordinates_of(problem), bundle.floor)
        said = problem.below(plane)
        due = run.iteration % self.mean_every == 0 and bundle.n_planes > 1
        if problem.flat and (due or run.stalled_for > 0) and np.isfinite(bundle.floor):
            plane = best_plane(
                bundle.model(), bundle.floor, problem.flat.dual_radius, newest, at_once=300
            )
            said = max(said, problem.below(plane), key=lambda candidate: candidate.lower)
        return said


def minimum_of_model(own: SparseSteps, w: Vector, slope: Vector, form: Coordinates) -> Vector:
    """Return where the model plus the regularizer is lowest."""
    descents = form.descents(w, slope)
    chosen = working_set(w, descents, least=2000, growth=1.0)
    moved, goal = w[chosen], w.copy()
    # Until no coordinate moves by more than this share of the steepest descent.
    enough = 0.05 * float(descents.max(initial=0.0))
    model = own.model(slope, chosen)
    low_rank_descent(*model, slope[chosen], penalty_of(form, chosen), moved, enough, 200)
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
