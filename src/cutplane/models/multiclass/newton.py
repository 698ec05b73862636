"""Newton's method for the losses of all classes, certified by the planes of its shares.

As in :mod:`cutplane.solvers.newton` the kinks of Crammer and Singer's loss are rounded, ever less,
around the shares of the classes that the last inner problem has found (the method of multipliers);
softmax has none. Any shares make a plane below the risk, so those of every step do.

    min_W  lam/2 |W|^2 + sum_i p_i max_P [P.v_i - width/2 |P - center_i|^2] - p_i v_iy

Directions come from conjugate gradients, `cutplane.models.multiclass.curvature`. Intercepts are
unknowns like others, but for the regularizer. For the plane, shares are moved from classes that
have too much to those that lack some.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, cast

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import total
from cutplane.compute.products import dot
from cutplane.compute.threads import map_arrays
from cutplane.core.policies.bmrm import OnSegment
from cutplane.core.protocols import Plane, Point, Quadratic
from cutplane.core.search import minimize_roughly
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.models.multiclass.ascent import ClassAscent
from cutplane.models.multiclass.curvature import Curvature, Spectrum, column_sums, shares_on_ray
from cutplane.models.multiclass.losses import class_loss
from cutplane.models.multiclass.offsets import Repair, fill_slopes, make_slopes, sums_of_pairs
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.dual_ascent import first_point
from cutplane.solvers.needs import ALL_CLASSES, PLAIN_L2, SECOND_DERIVATIVES
from cutplane.solvers.newton import ROUNDING, RoundedSteps, Rounding

# How much lower than the last a bound may be, as a share of the objective: by rounding, that is.
_ROUNDING = 1e-9
# Inner problems begin with shares of so many epochs, and with a width that makes room for the gap
# that these leave: see docs/decisions/2026-11-18-constants-of-solvers.md.
_FIRST_EPOCHS = 10
# What a line search may leave of the gain.
_ROUGH = 0.1
# How much of the gradient a direction may leave, in the norm of the rough inverse.
_LEFT = 0.3


@dataclass(slots=True)
class ClassNewtonState:
    """Where Newton's method is; it changes in place.

    Attributes
    ----------
    w : ndarray
        The coefficients, class after class.
    scores : ndarray of shape (n_samples, n_classes)
        Those of the coefficients.
    offsets : ndarray of shape (n_classes,)
        The intercepts.
    width : float
        How widely kinks are rounded; zero for softmax.
    centers : ndarray of shape (n_samples, n_classes)
        The shares of the inner problem before this one; none for softmax.
    spectrum : Spectrum
        Of the features.
    steps : int
        How many were taken in this inner problem.
    shares : ndarray of shape (n_samples, n_classes)
        Those of the smoothed loss.
    value : float
        The smoothed loss.
    gradient : ndarray
        Of smoothed loss and regularizer: see `cutplane.models.multiclass.curvature`.
    said : float
        What the shares say that the exact loss is at least, here.
    plane : Plane
        That of the shares.
    objective : float
        That of the exact loss.
    floor : float
        The bound of the plane of the centers.
    """

    w: Vector
    scores: Annotated[Matrix, "f8[n, c]"]
    offsets: Annotated[Vector, "f8[c]"]
    width: float
    centers: Annotated[Matrix, "f8[n, c] | f8[n, 0]"]
    spectrum: Spectrum
    steps: int = 0
    shares: Annotated[Matrix, "f8[n, c]"] = field(default_factory=lambda: np.empty((0, 0)))
    value: float = 0.0
    gradient: Annotated[Matrix, "f8[c, *]"] = field(default_factory=lambda: np.empty((0, 0)))
    said: float = 0.0
    plane: Plane = field(default_factory=lambda: Plane(np.empty(0), 0.0))
    objective: float = np.inf
    floor: float = -np.inf

    def fits(self, risk: ScoredRisk, solver: object) -> bool:
        """Say whether there are centers if kinks are rounded, and derivatives by intercepts."""
        n_derivatives = risk.rows.shape[1] + int(risk.minimizes_intercept)
        no_centers = self.centers.shape[1] == 0
        whole = self.gradient.shape[1] == n_derivatives
        return bool(whole and no_centers == risk.loss.smooth)


class ClassNewton(RoundedSteps[ClassNewtonState]):
    """Newton's method for one problem; all that changes is in the state."""

    rounding: ClassVar[Rounding] = ROUNDING["classes"]

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]
        self._loss = class_loss(self._risk)
        self._margins: Matrix = self._loss.margins(self._risk.map.score_shape[0])

    def begun(self, start: ScoredPoint) -> tuple[ClassNewtonState, ScoredPoint]:
        """Return the state near a point where nothing is known yet, and the point where that is.

        Where kinks are rounded, shares to round them around come from epochs of dual ascent.
        """
        problem, spectrum = self._problem, Spectrum.of(self._risk)
        if self._risk.loss.smooth:
            return self.begun_at(start, start.scores[:, :0], 0.0, spectrum), start
        ascent = ClassAscent(problem)
        shares = ascent.begun()
        if start.w.any():
            shares = ascent.begun_at(shares, start)
        shares = ascent.improved(shares, most=_FIRST_EPOCHS)
        offsets = shares.offsets[: len(start.scores[0])].copy()
        plane, shares = ascent.plane(shares)
        point = start if start.w.any() else ascent.point(shares, offsets)
        gap = problem.objective(point) - problem.below(plane).lower
        return self.begun_at(point, shares.shares, gap, spectrum), point

    def begun_at(
        self, point: ScoredPoint, centers: Matrix, gap: float, spectrum: Spectrum
    ) -> ClassNewtonState:
        """Return the state at a point, rounded around shares as widely as a gap asks for."""
        risk, width = self._risk, 0.0
        if not risk.loss.smooth:
            slopes = self._slopes(centers.copy())
            steepness = float(risk.weights @ np.einsum("ij,ij->i", slopes, slopes))
            width = self.rounding.room
            if steepness > 0.0 and gap > 0.0:
                width *= gap / steepness
        offsets = np.zeros(point.scores.shape[1]) + point.offset
        own = ClassNewtonState(point.w, point.scores, offsets, width, centers, spectrum)
        own.objective = self._problem.objective(point)
        own.floor = own.objective - gap
        self.measure(own)
        return own

    def measure(self, own: ClassNewtonState) -> list[Plane]:
        """Compute shares and gradient of the smoothed loss; return the plane of the shares."""
        own.shares = np.empty_like(own.scores)
        own.value, _ = self._on_ray(own, own.scores, own.offsets, 0.0, own.shares)
        return [self._derive(own)]

    def _derive(self, own: ClassNewtonState) -> Plane:
        """Compute the gradient that belongs to the shares; return their plane."""
        risk, spectrum, d = self._risk, own.spectrum, len(own.spectrum.mean)
        intercept, repair = risk.minimizes_intercept, None
        slopes = np.empty_like(own.shares)
        map_arrays(fill_slopes, own.shares, risk.y, risk.weights, slopes)
        own.gradient = risk.map.pullback(slopes).reshape(-1, d)
        if intercept:
            sums = column_sums(slopes)
            by_coefficient = own.gradient - np.outer(sums, spectrum.mean)
            own.gradient = np.column_stack([by_coefficient, sums])
        slope = own.gradient[:, :d].copy()
        own.gradient[:, :d] += self._lam * own.w.reshape(-1, d)
        own.said = 0.0
        if intercept:
            excess = own.gradient[:, d]
            slope += np.outer(excess, spectrum.mean)
            own.said = dot(excess, own.offsets)
            repair = Repair.of(excess + spectrum.masses, excess)
        own.said += dot(slope.ravel(), own.w)
        if repair is not None:
            slope += repair.change(slope + spectrum.sums)
        before, offset = self._offsets_of(own, repair)
        own.said = own.said + before if own.width > 0.0 else own.value
        own.plane = Plane(slope.ravel(), offset)
        return own.plane

    def _offsets_of(self, own: ClassNewtonState, repair: Repair | None) -> tuple[float, float]:
        """Return the offsets of the planes of the shares, and of the repaired shares.

        Of softmax nobody asks for the first.
        """
        risk, k = self._risk, own.shares.shape[1]
        if own.width == 0.0:
            shares = own.shares.copy()
            if repair is not None:
                repair.apply(shares)
            offset = -self._loss.conjugate(risk.y, self._slopes(shares), risk.weights)
            return offset, offset
        # The conjugate is linear in the shares: all of it is in the sums for pairs of classes.
        sums = total(map_arrays(sums_of_pairs, own.shares, risk.y, risk.weights))
        margins = self._margins * (1.0 - np.eye(k))
        offset = float(np.vdot(margins, sums))
        if repair is None:
            return offset, offset
        return offset, float(np.vdot(margins, sums + repair.change(sums.T).T))

    def _slopes(self, shares: Matrix) -> Matrix:
        """Turn shares into slopes."""
        map_arrays(make_slopes, shares, self._risk.y)
        return shares

    def _on_ray(
        self, own: ClassNewtonState, direction: Matrix, speeds: Vector, step: float, shares: Matrix
    ) -> tuple[float, float]:
        """Set the shares after a step; return the smoothed loss there, and its slope."""
        risk, rule = self._risk, (own.offsets, speeds, step, self._margins)
        parts = map_arrays(
            partial(shares_on_ray, rule, own.width),
            *(own.scores, direction, risk.y, risk.weights, own.centers, shares),
        )
        values, slopes = zip(*parts, strict=True)
        return sum(values), sum(slopes)

    def center(self, own: ClassNewtonState) -> None:
        """Round kinks around the shares, of which the bound is kept."""
        own.centers, own.floor = own.shares, self._problem.below(own.plane).lower

    def is_solved(self, own: ClassNewtonState) -> bool:
        """Say whether all else costs the bound no more than the rounding does.

        Where classes can be told apart the rounding costs far more than there is to gain. Shares
        with a lower bound than those before them would then pass, and be what kinks are rounded
        around, so that no bound ever rises. So the new bound must not be lower, unless the inner
        problem is so well solved that its value is below it. (From shares that do not balance the
        way to those that do may lead down.)
        """
        lower = self._problem.below(own.plane).lower
        regularizer = self._problem.regularizer.value(own.w)
        gap, rounding = own.objective - lower, own.objective - regularizer - own.said
        highest = lower + _ROUNDING * own.objective
        rises = highest >= own.floor or highest >= regularizer + own.value
        return rises and gap - rounding <= self.rounding.solved * rounding

    def move(self, own: ClassNewtonState) -> list[Plane]:
        """Go along Newton's direction; return the plane of the shares there."""
        risk, d = self._risk, len(own.spectrum.mean)
        risk.evaluations += 1
        curvature = Curvature(risk, self._lam, own.spectrum, own.shares, own.width)
        direction = curvature.direction(own.gradient, left=_LEFT)
        coefficients = direction[:, :d].ravel()
        speeds = np.zeros_like(own.offsets)
        if direction.shape[1] > d:
            speeds = direction[:, d] - direction[:, :d] @ own.spectrum.mean
        scores = risk.map.scores(coefficients)
        along = self._problem.norm.along(own.w, own.w + coefficients)
        length = self._length(own, scores, speeds, along, float(np.vdot(own.gradient, direction)))
        own.w = own.w + length * coefficients
        scores *= length
        scores += own.scores
        own.scores, own.offsets = scores, own.offsets + length * speeds
        return [self._derive(own)]

    def _length(
        self, own: ClassNewtonState, direction: Matrix, speeds: Vector, along: Quadratic,
        slope: float,
    ) -> float:  # fmt: skip
        """Return how far to go; shares and loss become those after the step."""
        shares = np.empty_like(own.shares)
        tried: dict[float, tuple[float, float]] = {0.0: (own.value, slope - along.slope)}
        last = 0.0

        def function(step: float) -> tuple[float, float]:
            nonlocal last
            if step not in tried:
                tried[step], last = self._on_ray(own, direction, speeds, step, shares), step
            return tried[step]

        after = function(1.0)[1] + along.slope + along.curvature
        length = 1.0
        if abs(after) > self.rounding.straight * abs(slope):
            length = minimize_roughly(function, along, share=_ROUGH)
            if length != last:
                tried[length] = self._on_ray(own, direction, speeds, length, shares)
        own.value, own.shares = tried[length][0], shares
        return length

    def point(self, own: ClassNewtonState) -> ScoredPoint:
        """Return where the method is, with the intercepts that it has found."""
        risk = self._risk
        at = None
        if risk.minimizes_intercept:
            at = risk.loss.at_offset(risk.y, own.scores, risk.weights, own.offsets)
        point = risk.with_scores(own.w, own.scores, at=at)
        own.objective = self._problem.objective(point)
        return point


@dataclass(frozen=True, slots=True)
class ClassNewtonSteps(Solver[ClassNewtonState | None]):
    """Newton steps on the smoothed loss of all classes."""

    needs = (*ALL_CLASSES, SECOND_DERIVATIVES, PLAIN_L2)
    takes_first_plane: ClassVar[bool] = False
    name: str = "newton"

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk where the run starts."""
        return first_point(problem.risk, w)

    def step(self, run: Run, own: ClassNewtonState | None) -> Step[ClassNewtonState | None]:
        """Take a step; return the point where it ends, and the planes met on the way."""
        steps = ClassNewton(run.problem)
        points: list[Point] = []
        planes: list[Plane] = []
        if own is None:
            own, start = steps.begun(cast(ScoredPoint, run.best))
            points, planes = [start], [own.plane]
        planes += steps.step(own)
        points.append(steps.point(own))
        if run.stalled_for < steps.rounding.most_steps:
            return Step(points, own, planes)
        # No bound has moved for as long as an inner problem may take. Those of the bundle method
        # do, whatever its planes come from.
        other, _ = OnSegment()(run, run.candidate, None)
        return Step([*points, *other.points], own, planes, other.cut_at)

    def carried_over(self, own: ClassNewtonState | None, run: Run) -> ClassNewtonState | None:
        """Return where to begin with another regularizer, whose shares are not far from these."""
        if own is None:
            return None
        problem, point = run.problem, cast(ScoredPoint, run.best)
        gap = problem.objective(point) - problem.below(own.plane).lower
        centers = own.shares if own.width > 0.0 else own.centers
        return ClassNewton(problem).begun_at(point, centers, gap, own.spectrum)


def class_newton() -> ClassNewtonSteps:
    """Newton's method on the smoothed losses of all classes, with the planes of its shares.

    The method for `cutplane.CrammerSinger` and `cutplane.Softmax` with few features.
    """
    return ClassNewtonSteps()
