"""Newton's method for the losses of all classes, certified by the planes of its shares.

As in :mod:`cutplane.solvers.newton` the kinks of Crammer and Singer's loss are rounded, ever less,
around the shares of the classes that the last inner problem has found (the method of multipliers);
softmax has none. Any shares make a plane below the risk, so those of every step do.

    min_W  lam/2 |W|^2 + sum_i p_i max_P [P.v_i - width/2 |P - center_i|^2] - p_i v_iy

``v_ij = z_ij + c_j + margins_yj * [j != y_i]`` is what speaks for class j (softmax has no margins,
unless there are costs). Shares are

    softmax             P = exp(v) / sum exp(v)
    Crammer, Singer     P = projection of ``center + v / width`` to the simplex

of which the second is the derivative of ``max_P P.v - width/2 |P - center|^2``, the maximum of
``v`` with its kinks rounded. Intercepts are unknowns like others, but for the regularizer. For the
plane, shares are moved from classes that have too much to those that lack some.

A direction has a row for each class: its coefficients and, if there are intercepts, one number
more. That is by how much the score of the mean example changes, not the intercept itself, because
what the one and the coefficients do hardly depends on each other. The system is solved for the mean
of the examples whose loss bends along the score of the class: with Crammer and Singer's loss they
are few near the end, and need not be like all others.

The system is solved by conjugate gradients. Its matrix is never made: a product with it is two
passes over the examples whose loss bends. What makes such a system slow are features of different
sizes that depend on each other, and these are the same for all classes and at all points: one
decomposition of the matrix of their products, made once, takes that out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import total
from cutplane.compute.compiled import njit
from cutplane.compute.pace import affords
from cutplane.compute.products import conjugate_gradients, dot
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import Plane, Point, Quadratic
from cutplane.core.search import minimize_roughly
from cutplane.core.solver import Step
from cutplane.core.state import Problem, Run
from cutplane.losses.smooth import exp_minus
from cutplane.models.multiclass.ascent import ClassAscent
from cutplane.models.multiclass.losses import class_loss
from cutplane.models.multiclass.offsets import (
    Indices,
    Motion,
    Repair,
    largest,
    make_slopes,
    sums_of_pairs,
)
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.ascent import DualSolver, bundle_step
from cutplane.solvers.needs import ALL_CLASSES, PLAIN_L2, ROWS_IN_MEMORY, SECOND_DERIVATIVES
from cutplane.solvers.newton import ROUNDING, RoundedSteps, Rounding

_REORDER = {"reassoc", "contract", "nsz"}

# How much lower than the last a bound may be, as a share of the objective: by rounding, that is.
_ROUNDING = 1e-9
# Inner problems begin with shares of so many epochs, and with a width that makes room for the gap
# that these leave: see docs/decisions/2026-11-18-constants-of-solvers.md.
_FIRST_EPOCHS = 10
# What a line search may leave of the gain.
_ROUGH = 0.1
# How much of the gradient a direction may leave, in the norm of the rough inverse.
_LEFT = 0.3
# So many examples a feature tell their products well enough.
_PER_FEATURE = 16
# With more features the decomposition takes longer than it saves.
_MOST_FEATURES = 2000
_SECONDS_PER_CUBE = 3e-9
# Examples that bend less than this share of the mean are left out: together they are no more.
_NEGLIGIBLE = 0.01
# The most products with a matrix of second derivatives, for one direction.
_MOST_PRODUCTS = 250
# A constant added to all intercepts changes nothing, and of a class nothing may bend.
_RIDGE = 1e-6


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def _soften(v: Vector, own: int, share: Vector) -> float:
    """Set the shares of softmax; return the loss."""
    top = largest(v)
    for j in range(len(v)):
        share[j] = exp_minus(top - v[j])
    total = 0.0
    for j in range(len(v)):
        total += share[j]
    scale = 1.0 / total
    for j in range(len(v)):
        share[j] *= scale
    loss: float = np.log(total) + (top - v[own])
    return loss


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def _project(v: Vector, own: int, center: Vector, width: float, share: Vector) -> float:
    """Set the shares of the rounded maximum; return the loss."""
    n = len(v)
    scale, top = 1.0 / width, largest(v)
    # Relative to the highest, so that a small width leaves no large numbers to cancel.
    for j in range(n):
        share[j] = center[j] + scale * (v[j] - top)
    # The level above which shares sum to one; it rises as classes drop out. All loops go through
    # all classes, without branches: vectors make that faster than a list of the few that count.
    level = largest(share) - 1.0
    while True:
        total, count = 0.0, 0.0
        for j in range(n):
            above = share[j] - level
            total += above if above > 0.0 else 0.0
            count += 1.0 if above > 0.0 else 0.0
        higher = level + (total - 1.0) / count
        if not higher > level:
            break
        level = higher
    for j in range(n):
        above = share[j] - level
        share[j] = above if above > 0.0 else 0.0
    total = 0.0
    for j in range(n):
        total += share[j]
    scale, mean, moved = 1.0 / total, 0.0, 0.0
    for j in range(n):
        share[j] *= scale
    for j in range(n):
        mean += share[j] * (v[j] - v[own])
        moved += (share[j] - center[j]) ** 2
    return mean - 0.5 * width * moved


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def shares_on_ray(
    rule: Motion, width: float,
    scores: Matrix, direction: Matrix, y: Indices, weights: Vector, centers: Matrix, shares: Matrix,
) -> tuple[float, float]:  # fmt: skip
    """Set the shares at ``scores + step * direction``; return smoothed loss and slope by the step.

    With a width of zero the loss is softmax, and there are no centers.
    """
    offsets, speeds, step, margins = rule
    n = len(offsets)
    v = np.empty(n)
    value, slope = 0.0, 0.0
    for i in range(len(y)):
        own = y[i]
        margin = margins[own if len(margins) > 1 else 0]
        for j in range(n):
            v[j] = scores[i, j] + offsets[j] + margin[j] + step * (direction[i, j] + speeds[j])
        v[own] -= margin[own]
        if width > 0.0:
            value += weights[i] * _project(v, own, centers[i], width, shares[i])
        else:
            value += weights[i] * _soften(v, own, shares[i])
        along = 0.0
        for j in range(n):
            ahead = (direction[i, j] + speeds[j]) - (direction[i, own] + speeds[own])
            along += shares[i, j] * ahead
        slope += weights[i] * along
    return value, slope


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def fill_bends(width: float, shares: Matrix, weights: Vector, bends: Matrix) -> None:
    """Set how much the loss of each example bends along the score of each class."""
    for i in range(len(weights)):
        count = 0
        if width > 0.0:
            for j in range(shares.shape[1]):
                count += shares[i, j] > 0.0
        for j in range(shares.shape[1]):
            share = shares[i, j]
            if width == 0.0:
                bends[i, j] = weights[i] * share * (1.0 - share)
            elif share > 0.0:
                bends[i, j] = weights[i] / width * (1.0 - 1.0 / count)
            else:
                bends[i, j] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def bend(width: float, shifts: Vector, shares: Matrix, weights: Vector, speeds: Matrix) -> None:
    """Multiply speeds of scores by second derivatives, in place: how fast the slopes change.

    The ``shifts`` are speeds of intercepts, to be added to those of the scores.
    """
    n = shares.shape[1]
    for i in range(len(weights)):
        mean, count = 0.0, 0
        if width > 0.0:
            for j in range(n):
                if shares[i, j] > 0.0:
                    mean += speeds[i, j] + shifts[j]
                    count += 1
            mean /= count
            for j in range(n):
                change = weights[i] / width * (speeds[i, j] + shifts[j] - mean)
                speeds[i, j] = change if shares[i, j] > 0.0 else 0.0
        else:
            for j in range(n):
                mean += shares[i, j] * (speeds[i, j] + shifts[j])
            for j in range(n):
                speeds[i, j] = weights[i] * shares[i, j] * (speeds[i, j] + shifts[j] - mean)


@njit(cache=True, nogil=True)
def add_bends_of_pairs(shares: Matrix, weights: Vector, width: float, bends: Matrix) -> None:
    """Add the second derivatives by the intercepts of two classes, where kinks are rounded."""
    n = shares.shape[1]
    classes = np.empty(n, dtype=np.int64)
    for i in range(len(weights)):
        count = 0
        for j in range(n):
            if shares[i, j] > 0.0:
                classes[count] = j
                count += 1
        change = weights[i] / width
        for a in range(count):
            bends[classes[a], classes[a]] += change
            for b in range(count):
                bends[classes[a], classes[b]] -= change / count


@njit(cache=True, nogil=True)
def column_sums(values: Matrix) -> Vector:
    """Return the sum of each column; NumPy takes several times as long for few columns."""
    sums = np.zeros(values.shape[1])
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            sums[j] += values[i, j]
    return sums


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The products of features with each other, decomposed.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        The mean example if there are intercepts, else zeros.
    sizes : ndarray
        Mean squares along the columns of the basis.
    basis : ndarray
        Orthogonal directions; without columns if there are too many features.
    sums : ndarray of shape (n_classes, n_features)
        The weighted sums of the examples of each class if there are intercepts, else without rows.
    masses : ndarray of shape (n_classes,)
        Their weights; likewise.
    """

    mean: Annotated[Vector, "f8[d]"]
    sizes: Annotated[Vector, "f8[d]"]
    basis: Annotated[Matrix, "f8[d, *]"]
    sums: Annotated[Matrix, "f8[c, d] | f8[0, d]"]
    masses: Annotated[Vector, "f8[c] | f8[0]"]

    @classmethod
    def of(cls, risk: ScoredRisk) -> Spectrum:
        """Return the spectrum of a risk's features."""
        rows, weights = risk.rows, risk.weights
        m, d = rows.shape
        sums, masses = np.zeros((0, d)), np.zeros(0)
        if risk.minimizes_intercept:
            of_classes = np.zeros((m, *risk.map.score_shape))
            of_classes[np.arange(m), risk.y] = weights
            sums = risk.map.pullback(of_classes).reshape(-1, d)
            masses = column_sums(of_classes)
        mean = sums.sum(axis=0)
        if d > _MOST_FEATURES or not affords(_SECONDS_PER_CUBE * d**3):
            square = dot(weights, rows.squared_norms()) - dot(mean, mean)
            sizes = np.full(d, max(square, 0.0) / d)
            return cls(mean, sizes, np.empty((d, 0)), sums, masses)
        some = np.zeros(m)
        stride = max(m // (_PER_FEATURE * d), 1)
        some[::stride] = weights[::stride]
        total = float(some.sum())
        gram = rows.weighted_gram(some / total if total > 0.0 else weights)
        gram -= np.outer(mean, mean)
        sizes, basis = np.linalg.eigh(gram)
        return cls(mean, np.maximum(sizes, 0.0), basis, sums, masses)

    def fits(self, risk: ScoredRisk, solver: object) -> bool:
        """Say whether the basis is whole or absent, and sums are there for intercepts."""
        whole = self.basis.shape[1] in (0, len(self.sizes))
        return whole and (len(self.sums) > 0) == (len(self.masses) > 0) == risk.minimizes_intercept


class Curvature:
    """Second derivatives of regularizer and smoothed loss at some shares.

    Parameters
    ----------
    risk : ScoredRisk
    lam : float
        The regularizer's.
    spectrum : Spectrum
        Of the features.
    shares : ndarray of shape (n_samples, n_classes)
        Slopes of the smoothed loss, plus one for the own class.
    width : float
        How widely its kinks are rounded.

    Attributes
    ----------
    means : ndarray of shape (n_classes, n_features) or None
        For which example the last column of a direction says by how much a score changes; None
        without intercepts.
    """

    def __init__(
        self, risk: ScoredRisk, lam: float, spectrum: Spectrum, shares: Matrix, width: float
    ) -> None:
        self._spectrum, self._width = spectrum, width
        bends = np.empty_like(shares)
        map_arrays(partial(fill_bends, width), shares, risk.weights, bends)
        of_examples = bends.sum(axis=1)
        chosen = np.flatnonzero(of_examples > _NEGLIGIBLE * float(of_examples.mean()))
        self._map: Any = risk.map.part(chosen) if len(chosen) < len(shares) else risk.map
        self._shares, self._weights = shares[chosen], risk.weights[chosen]
        self._lams = np.full((1, len(spectrum.mean)), lam)
        of_classes = column_sums(bends)[:, None]
        self._inverse = 1.0 / (lam + of_classes * spectrum.sizes)
        self.means: Matrix | None = None
        if risk.minimizes_intercept:
            ridge = _RIDGE * float(of_classes.mean()) or lam
            self._lams = np.append(self._lams, [[ridge]], axis=1)
            # For each class that of the examples whose loss bends, weighted by how much.
            masses = column_sums(bends[chosen])[:, None]
            self.means = np.tile(spectrum.mean, (len(masses), 1))
            sums = self._map.pullback(bends[chosen]).reshape(len(masses), -1)
            np.divide(sums, masses, out=self.means, where=masses > 0.0)
            bends_of_pairs = np.diag(of_classes[:, 0])
            if width > 0.0:
                # Of few classes an example has shares, so that all pairs of them cost little, and
                # planes ask for shares that balance. (Crammer and Singer's loss, lam = 1/m, steps
                # to a gap of 1e-3 with the diagonal alone and with pairs: digits 29 and 24.)
                bends_of_pairs[:] = 0.0
                add_bends_of_pairs(self._shares, self._weights, width, bends_of_pairs)
            bends_of_pairs[np.diag_indices_from(bends_of_pairs)] += ridge
            self._of_intercepts: Matrix = np.linalg.inv(bends_of_pairs).astype(np.float64)

    def times(self, direction: Matrix) -> Matrix:
        """Return the product with a direction, whose last column is for the `means`."""
        changed = self._lams * direction
        if not len(self._weights):
            return changed
        d = len(self._spectrum.mean)
        coefficients = np.ascontiguousarray(direction[:, :d])
        speeds: Matrix = self._map.scores(coefficients.ravel())
        shifts = np.zeros(len(direction))
        if self.means is not None:
            shifts += direction[:, d] - np.einsum("ij,ij->i", coefficients, self.means)
        map_arrays(partial(bend, self._width, shifts), self._shares, self._weights, speeds)
        changed[:, :d] += self._map.pullback(speeds).reshape(-1, d)
        if self.means is not None:
            sums = column_sums(speeds)
            changed[:, :d] -= sums[:, None] * self.means
            changed[:, d] += sums
        return changed

    def roughly_divided(self, gradient: Matrix) -> Matrix:
        """Return what `times` would give the gradient, nearly: classes and bends as their means."""
        d, basis = len(self._spectrum.mean), self._spectrum.basis
        divided: Matrix = np.empty_like(gradient)
        if basis.size:
            divided[:, :d] = (gradient[:, :d] @ basis * self._inverse) @ basis.T
        else:
            divided[:, :d] = gradient[:, :d] * self._inverse
        if self.means is not None:
            divided[:, d] = self._of_intercepts @ gradient[:, d]
        return divided

    def direction(self, gradient: Matrix, *, left: float) -> Matrix:
        """Return Newton's direction against a gradient, by conjugate gradients.

        Of the gradient a share ``left`` may be left, in the norm of the rough inverse.
        """
        right, moves = -gradient, np.zeros((1, 0))
        if self.means is not None:  # from the mean example to those that bend, and back
            moves = self._spectrum.mean - self.means
            right[:, :-1] += right[:, -1:] * moves
        direction = conjugate_gradients(
            self.times, right, roughly_divided=self.roughly_divided, left=left, most=_MOST_PRODUCTS
        )
        if self.means is not None:
            direction[:, -1] += np.einsum("ij,ij->i", direction[:, :-1], moves)
        return direction


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
        Of smoothed loss and regularizer, as a direction.
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
        self._problem, self._risk = problem, ROWS_IN_MEMORY.of(problem)
        self._lam = problem.norm.lam
        self._loss = class_loss(self._risk)
        self._margins: Matrix = self._loss.margins(self._risk.map.score_shape[0])

    def initial(self, start: ScoredPoint) -> tuple[ClassNewtonState, ScoredPoint]:
        """Return the state near a point where nothing is known yet, and the point where that is.

        Where kinks are rounded, shares to round them around come from epochs of dual ascent.
        """
        problem, spectrum = self._problem, Spectrum.of(self._risk)
        if self._risk.loss.smooth:
            return self.initial_at(start, start.scores[:, :0], 0.0, spectrum), start
        ascent = ClassAscent(problem)
        shares = ascent.initial()
        if start.w.any():
            shares = ascent.initial_at(shares, start)
        shares = ascent.improved(shares, most=_FIRST_EPOCHS)
        offsets = shares.offsets[: len(start.scores[0])].copy()
        plane, shares = ascent.plane(shares)
        point = start if start.w.any() else ascent.point(shares, offsets)
        gap = problem.objective(point) - problem.below(plane).lower
        return self.initial_at(point, shares.shares, gap, spectrum), point

    def initial_at(
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
        slopes = self._slopes(own.shares.copy())
        slopes *= risk.weights[:, None]
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
class ClassNewtonSteps(DualSolver[ClassNewtonState | None]):
    """Newton steps on the smoothed loss of all classes."""

    needs = (*ALL_CLASSES, SECOND_DERIVATIVES, PLAIN_L2)
    name: str = "newton"

    def step(self, run: Run, own: ClassNewtonState | None) -> Step[ClassNewtonState | None]:
        """Take a step; return the point where it ends, and the planes met on the way."""
        steps = ClassNewton(run.problem)
        points: list[Point] = []
        planes: list[Plane] = []
        if own is None:
            own, start = steps.initial(cast(ScoredPoint, run.best))
            points, planes = [start], [own.plane]
        planes += steps.step(own)
        points.append(steps.point(own))
        if run.stalled_for < steps.rounding.most_steps:
            return Step(points, own, planes)
        # No bound has moved for as long as an inner problem may take. Those of the bundle method
        # do, whatever its planes come from.
        other: Step[ClassNewtonState | None] = bundle_step(run, own)
        return other._replace(points=[*points, *other.points], planes=planes)

    def carried_over(self, own: ClassNewtonState | None, run: Run) -> ClassNewtonState | None:
        """Return where to begin with another regularizer, whose shares are not far from these."""
        if own is None:
            return None
        problem, point = run.problem, cast(ScoredPoint, run.best)
        gap = problem.objective(point) - problem.below(own.plane).lower
        centers = own.shares if own.width > 0.0 else own.centers
        return ClassNewton(problem).initial_at(point, centers, gap, own.spectrum)


def class_newton() -> ClassNewtonSteps:
    """Newton's method on the smoothed losses of all classes, with the planes of its shares.

    The method for `cutplane.CrammerSinger` and `cutplane.Softmax` with few features.
    """
    return ClassNewtonSteps()
