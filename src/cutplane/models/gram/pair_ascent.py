"""Exact steps on pairs of duals of a kernel machine, or on single ones: sequential minimization.

The dual of a loss made of straight pieces, times -1, is

    F(q) = sum_i c_i(q_i) + q'Kq / (2 lam),        lower <= q <= upper

with ``c_i(q) = up_i*q`` above zero and ``down_i*q`` below. ``g = K q / lam``, the scores with a
minus sign, is kept up to date.

For any slopes ``q`` in the domain of the conjugate, which sum to zero if there is an intercept,

    D(q) = -sum_i p_i l*(q_i / p_i) - q'Kq / (2 lam)  <=  min J

and ``f = -sum_i q_i k(x_i, .) / lam`` is the function that belongs to them. A step changes two
slopes, so that their sum stays, and is exact (Platt 1998; Fan, Chen and Lin 2005). What it changes
at all scores are two rows of the kernel matrix. Every so many steps bound and objective are
compared, by vectors as long as the sample; the bound that counts is computed afresh from the
matrix, as a plane of the bundle. Where most duals are free, as with the absolute loss of targets
without noise, pairs creep: then every other step is one of the bundle method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.pace import OutOfTime, hurried
from cutplane.compute.products import dot
from cutplane.core.protocols import Plane
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.losses.piecewise import PiecewiseLoss
from cutplane.models.gram.newton import SPANS_EXAMPLES, newton_point
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.ascent import balanced, best_toward, bundle_step
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.needs import loss_with
from cutplane.solvers.newton import ROUNDING, RoundedSteps, Rounding, per_weight

Form: TypeAlias = tuple[Matrix, Vector, float]
"""The matrix ``K``, its diagonal, and ``lam``."""

CostArrays: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""``lower``, ``upper``, and what a dual costs above (``up``) and below zero (``down``)."""

Duals: TypeAlias = tuple[Vector, Vector, Vector, Vector]
"""``q`` and ``g``, and the costs of each dual as it rises and as it falls."""

# Pairs of equal examples have no curvature at all: their step ends at a bound.
_FLAT = 1e-12


@njit(cache=True, nogil=True, inner=True)
def _set_slopes(k: int, costs: CostArrays, duals: Duals) -> None:
    """Write what a dual costs as it rises (infinite at its upper end), and saves as it falls."""
    (lower, upper, up, down), (q, _, rise, fall) = costs, duals
    rise[k] = np.inf if q[k] >= upper[k] else (up[k] if q[k] >= 0.0 else down[k])
    fall[k] = -np.inf if q[k] <= lower[k] else (up[k] if q[k] > 0.0 else down[k])


@njit(cache=True, nogil=True)
def begin(costs: CostArrays, duals: Duals) -> None:
    """Write the slopes of all duals."""
    for k in range(len(duals[0])):
        _set_slopes(k, costs, duals)


@njit(cache=True, nogil=True, error_model="numpy")
def pair_steps(form: Form, costs: CostArrays, duals: Duals, accuracy: float, most: int) -> int:
    """Improve pairs of duals whose sum stays the same.

    Return how many steps were taken: fewer than ``most`` if none is left to take.
    The first of a pair is the one whose slope is the lowest, the second promises the most by the
    second derivative (Fan, Chen and Lin 2005).
    """
    (matrix, diagonal, lam), (lower, upper, up, down) = form, costs
    q, g, rise, fall = duals
    m = len(q)
    i, lowest = -1, np.inf
    for k in range(m):
        if g[k] + rise[k] < lowest:
            lowest, i = g[k] + rise[k], k
    for step in range(most):
        if i < 0:
            return step
        j, most_gain, highest = -1, 0.0, -np.inf
        own = diagonal[i]
        for k in range(m):
            slope = g[k] + fall[k]
            if slope > lowest:
                if slope > highest:
                    highest = slope
                curvature = own + diagonal[k] - 2.0 * matrix[i, k]
                if curvature < _FLAT:
                    curvature = _FLAT
                difference = slope - lowest
                gain = difference * difference / curvature
                if gain > most_gain:
                    most_gain, j = gain, k
        if j < 0 or highest - lowest <= accuracy:
            return step
        curvature = max(own + diagonal[j] - 2.0 * matrix[i, j], _FLAT)
        length = (g[j] + fall[j] - lowest) * lam / curvature
        # A dual stops at zero if its cost has a kink there, else at the end of its range.
        end_i = 0.0 if q[i] < 0.0 and up[i] > down[i] else upper[i]
        end_j = 0.0 if q[j] > 0.0 and up[j] > down[j] else lower[j]
        room_i, room_j = end_i - q[i], q[j] - end_j
        length = min(length, room_i, room_j)
        q[i] = end_i if length >= room_i else q[i] + length
        q[j] = end_j if length >= room_j else q[j] - length
        _set_slopes(i, costs, duals)
        _set_slopes(j, costs, duals)
        change = length / lam
        a, b = i, j
        i, lowest = -1, np.inf
        for k in range(m):
            g[k] += change * (matrix[a, k] - matrix[b, k])
            slope = g[k] + rise[k]
            if slope < lowest:
                lowest, i = slope, k
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def single_steps(form: Form, costs: CostArrays, duals: Duals, accuracy: float, most: int) -> int:
    """Improve single duals, for models without an intercept: each time the one to gain most.

    Return the same as `pair_steps`.
    """
    (matrix, diagonal, lam), (lower, upper, up, down) = form, costs
    q, g, rise, fall = duals
    m = len(q)
    for step in range(most):
        i, most_gain, violation = -1, 0.0, 0.0
        for k in range(m):
            slope = -min(g[k] + rise[k], 0.0)
            slope = max(slope, g[k] + fall[k])
            if slope > 0.0:
                violation = max(violation, slope)
                gain = slope * slope / max(diagonal[k], _FLAT)
                if gain > most_gain:
                    most_gain, i = gain, k
        if i < 0 or violation <= accuracy:
            return step
        curvature = max(diagonal[i], _FLAT) / lam
        if g[i] + rise[i] < 0.0:
            end = 0.0 if q[i] < 0.0 and up[i] > down[i] else upper[i]
            aim = min(q[i] - (g[i] + rise[i]) / curvature, end)
        else:
            end = 0.0 if q[i] > 0.0 and up[i] > down[i] else lower[i]
            aim = max(q[i] - (g[i] + fall[i]) / curvature, end)
        change = (aim - q[i]) / lam
        q[i] = aim
        _set_slopes(i, costs, duals)
        for k in range(m):
            g[k] += change * matrix[i, k]
    return most


# Rows are computed of examples that violate the most, and no less than this share of the worst;
# then steps go on until those that have rows violate less than the other share.
_SHARE_OF_WORST, _DEPTH = 0.5, 0.3

# The sum of slopes is kept by pairs of equal changes; beyond this violation only rounding moves.
_ACCURACY = 1e-14


class Costs(NamedTuple):
    """The range of each dual, and what it costs above and below zero."""

    lower: Vector
    upper: Vector
    up: Vector
    down: Vector

    @classmethod
    def of(cls, risk: KernelRisk) -> Costs:
        """Return those of a loss made of straight pieces."""
        loss, y, weights = risk.loss, risk.y, risk.weights
        assert isinstance(loss, PiecewiseLoss)
        left, right = loss.left, loss.right
        if loss.of_residual:  # v = z - y
            return cls(
                -left.slope * weights, right.slope * weights, y + right.start, y - left.start
            )
        positive = y > 0.0  # v = y*z - 1: the pieces change sides with the sign
        return cls(
            np.where(positive, -left.slope, -right.slope) * weights,
            np.where(positive, right.slope, left.slope) * weights,
            np.where(positive, 1.0 + right.start, left.start - 1.0),
            np.where(positive, 1.0 - left.start, -1.0 - right.start),
        )

    def allowed(self, risk: KernelRisk, duals: Vector) -> Vector:
        """Return duals next to some that are within their ranges, and sum to zero if they must."""
        q = np.clip(duals, self.lower, self.upper)
        return balanced(q) if risk.minimizes_intercept else q


@dataclass(frozen=True, slots=True)
class PairDuals:
    """Slopes, one for each example, and ``K q / lam``; both are changed in place.

    ``gap`` is that before the last steps on pairs; infinite if a step of the bundle method has
    come since.
    """

    q: Annotated[Vector, "f8[n]"]
    images: Annotated[Vector, "f8[n]"]
    gap: float = np.inf


@dataclass(frozen=True, slots=True)
class PairSteps(Solver["PairDuals | None"]):
    """Exact steps on pairs of duals, and a line search toward where they lead.

    Parameters
    ----------
    looks : int
        How often at most the gap is looked at between two planes.
    planes : int or None
        How many planes are combined, besides the aggregated one; None for all.
    """

    needs = (
        SPANS_EXAMPLES,
        loss_with("a loss made of straight pieces, such as the hinge", lambda loss: loss.straight),
    )
    takes_first_plane: ClassVar[bool] = False
    looks: int = 40
    planes: int | None = 50
    name: str = "pair-ascent"

    def step(self, run: Run, own: PairDuals | None) -> Step[PairDuals | None]:
        """Improve the duals; return their plane, and the best point on the way to theirs."""
        risk = SPANS_EXAMPLES.of(run.problem)
        if own is not None and run.gap > 0.5 * own.gap:  # pairs creep
            if risk.matrix_rows.ready.all() and not run.hides_tolerance:
                return newton_steps(run, Costs.of(risk), own)
            return bundle_step(run, replace(own, gap=np.inf))
        lam = run.problem.norm.lam
        costs = Costs.of(risk)
        if own is None:
            q = costs.allowed(risk, -lam * run.best.w[: len(costs.lower)])
            own = PairDuals(q, risk.kernel.values(q) / lam)
        own = replace(own, gap=run.gap)
        self._improve(risk, lam, costs, own, run)
        q = balanced(own.q) if risk.minimizes_intercept else own.q
        risk.evaluations += 1
        slope = risk.map.pullback(q)
        offset = -risk.pointwise.known_conjugate(risk.y, q, risk.weights)
        np.multiply(slope[: len(q)], 2.0 / lam, out=own.images)  # free of rounding that added up
        point = risk.with_coefficients(q / -lam, -own.images)
        plane = Plane(slope, offset)
        if run.problem.objective(point) < run.objective:
            # A search might go a little lower, but would bring back examples without a dual.
            return Step([point], own, [plane])
        return Step([best_toward(run, point)], own, [plane])

    def _improve(
        self, risk: KernelRisk, lam: float, costs: Costs, own: PairDuals, run: Run
    ) -> None:
        """Take steps until the gap seems to be small enough, or some passes are over."""
        rows = risk.matrix_rows
        m = len(own.q)
        rise, fall = np.empty(m), np.empty(m)
        form, duals = (rows.stored, rows.diagonal, lam), (own.q, own.images, rise, fall)
        begin(costs, duals)
        rows.require(np.flatnonzero(own.q))
        # Duals whose rows are not there yet stay as they are.
        waiting = Waiting.of(rows, rise, fall, pairs=risk.minimizes_intercept)
        steps = pair_steps if risk.minimizes_intercept else single_steps
        # A look at the gap costs less than ten steps, a plane as much as some hundred.
        most = max(int(0.05 * m), 64)
        accuracy, looks = _ACCURACY, 0
        while looks < self.looks:
            n_ready = np.count_nonzero(rows.ready)
            if n_ready < m:
                try:
                    accuracy = waiting.admit(rows, own.images, rise, fall)
                except OutOfTime:  # the rows that are there have given a plane
                    break
            taken = steps(form, costs, duals, accuracy, most)
            over = taken < most and accuracy <= _ACCURACY
            if over or hurried() or gap_of(risk, lam, own) <= 0.9 * run.enough:
                break
            # Rows come in small batches, so few steps after some came are no whole look.
            looks += taken == most or np.count_nonzero(rows.ready) == n_ready


class Waiting(NamedTuple):
    """Duals that stay as they are, because the rows of their examples are not computed yet.

    Attributes
    ----------
    rise, fall : ndarray
        What each dual costs as it rises, and saves as it falls; those that wait have infinite ones
        where steps are chosen.
    order : ndarray
        Which of equal ones comes first: any order but that of the examples, which may be sorted.
    pairs : bool
        Whether steps change two duals.
    """

    rise: Vector
    fall: Vector
    order: NDArray[np.intp]
    pairs: bool

    @classmethod
    def of(cls, rows: KernelRows, rise: Vector, fall: Vector, *, pairs: bool) -> Waiting:
        """Let all duals wait whose rows are not there."""
        made = cls(rise.copy(), fall.copy(), np.random.default_rng(0).permutation(len(rise)), pairs)
        rise[~rows.ready], fall[~rows.ready] = np.inf, -np.inf
        return made

    def _violation(self, up: Vector, down: Vector) -> float:
        """Return by how much the best step from these duals violates what holds at the optimum."""
        lowest, highest = up.min(initial=np.inf), down.max(initial=-np.inf)
        return float(highest - lowest if self.pairs else max(-lowest, highest))

    def admit(self, rows: KernelRows, g: Vector, rise: Vector, fall: Vector) -> float:
        """Compute rows of those that violate most, if they do so more than the others.

        Return the violation down to which steps on all others are worth while.
        """
        absent = ~rows.ready
        up, down = g + np.where(absent, self.rise, rise), g + np.where(absent, self.fall, fall)
        worst, own = (self._violation(up[of], down[of]) for of in (slice(None), ~absent))
        if own > _SHARE_OF_WORST * worst:
            return max(_DEPTH * worst, _ACCURACY)
        lowest, highest = (up.min(), down.max()) if self.pairs else (0.0, 0.0)
        batch = max(len(g) // 64, 64)
        chosen = list[NDArray[np.intp]]()
        for side in (highest - up, down - lowest):
            there = self.order[absent[self.order] & (side[self.order] > _SHARE_OF_WORST * worst)]
            chosen.append(there[np.argsort(-side[there], kind="stable")[: batch // 2]])
        rows.require(np.unique(np.concatenate(chosen)))
        entered = absent & rows.ready
        rise[entered], fall[entered] = self.rise[entered], self.fall[entered]
        return _ACCURACY if rows.ready.all() else max(_DEPTH * worst, _ACCURACY)


@dataclass(slots=True)
class KernelState:
    """Where Newton's method on rounded kinks is; it lives for one step of the run.

    Attributes
    ----------
    point : KernelPoint
        The last iterate.
    width : float
        How widely kinks are rounded.
    duals, slopes : ndarray
        A slope for each example, around which kinks are rounded; and those of the last plane.
    promised, gap : float
        By how much the last step promised to lower the objective, and what the gap was after it.
    ends : tuple
        Where the last step could have led, and where it did.
    """

    point: ScoredPoint
    width: float
    duals: Vector
    slopes: Vector
    promised: float = np.inf
    gap: float = np.inf
    steps: int = 0
    ends: tuple[Any, ...] = ()


class KernelSteps(RoundedSteps[KernelState]):
    """Newton steps on coefficients: the inner model of kernels.

    The coefficients of a step, times ``-lam``, are the duals of its plane: slopes at rounded scores
    would be off by far more where kernels are large.
    """

    rounding: ClassVar[Rounding] = ROUNDING["kernels"]

    def __init__(self, problem: Problem, costs: Costs) -> None:
        self._risk = SPANS_EXAMPLES.of(problem)
        self._norm = problem.norm
        self._costs = costs

    def is_solved(self, state: KernelState) -> bool:
        """Say whether the last step promised next to nothing.

        That is known to rounding, unlike the length of the gradient.
        """
        return state.promised <= self.rounding.solved * state.gap

    def center(self, state: KernelState) -> None:
        """Round kinks around the slopes of the last plane."""
        state.duals = per_weight(state.slopes, self._risk.weights)

    def measure(self, state: KernelState) -> list[Plane]:
        """Return nothing: planes are those of coefficients."""
        return []

    def move(self, state: KernelState) -> list[Plane]:
        """Take a Newton step; return the plane of its coefficients."""
        risk, weights, lam, point = self._risk, self._risk.weights, self._norm.lam, state.point
        loss = risk.pointwise.smoothed(state.width)
        scores = point.scores + point.offset + state.width * state.duals
        if risk.minimizes_intercept:
            scores += loss.minimize_offset(risk.y, scores, weights).offset
        slopes = loss.slopes(risk.y, scores, weights)
        curvatures = loss.known_curvatures(risk.y, scores, weights)
        end = newton_point(risk, lam, point, scores, slopes, curvatures, accuracy=1e-6)
        state.slopes, met = _plane_of(risk, lam, self._costs, end)
        speed = end.scores - point.scores
        if risk.minimizes_intercept and curvatures.any():
            speed = speed - dot(curvatures, speed) / curvatures.sum()
        along = self._norm.along(point.w, end.w)
        state.promised = -(dot(slopes, speed) + along.slope)
        length = min(loss.minimize_along(risk.y, scores, speed, weights, along), 1.0)
        w = point.w + length * (end.w - point.w)
        state.point = risk.with_coefficients(*np.split(w, 2))
        state.ends = (end, state.point)
        return [met]


def newton_steps(run: Run, costs: Costs, own: PairDuals) -> Step[PairDuals | None]:
    """Take Newton steps on the loss with rounded kinks, from where pairs creep; change the duals.

    Steps end when the gap is small enough, or has stopped to shrink.
    """
    problem, point = run.problem, run.best
    assert isinstance(point, ScoredPoint)
    weights = SPANS_EXAMPLES.of(problem).weights
    steps = KernelSteps(problem, costs)
    best, objective, lower, plane = point, run.objective, run.lower, None
    duals = per_weight(own.q, weights)
    width = min(
        steps.rounding.width_for(run.gap, duals, weights),
        steps.rounding.width_for(point.value, per_weight(point.slopes, weights), weights),
    )
    state = KernelState(point, width, duals, own.q)
    smallest, since = run.gap, 0
    while since < 30 and not hurried():
        (met,) = steps.step(state)
        bound = problem.below(met).lower
        if bound > lower:
            lower, plane = bound, met
        for each in state.ends:
            if (reached := problem.objective(each)) < objective:
                objective, best = reached, each
        state.gap = objective - lower
        if state.gap <= 0.9 * run.enough:
            break
        smallest, since = (state.gap, 0) if state.gap < 0.9 * smallest else (smallest, since + 1)
    if plane is not None:
        images, halves = np.split(plane.slope, 2)
        np.multiply(halves, 2.0, out=own.q)
        np.multiply(images, 2.0 / problem.norm.lam, out=own.images)
    return Step([best], own, [] if plane is None else [plane])


def _plane_of(
    risk: KernelRisk, lam: float, costs: Costs, point: ScoredPoint
) -> tuple[Vector, Plane]:
    """Return duals next to the coefficients of a function, times ``-lam``, and their plane."""
    beta, values = np.split(point.w, 2)
    q = costs.allowed(risk, -lam * beta)
    changed = q + lam * beta
    images = -lam * values
    if changed.any():
        images = images + risk.kernel.values(changed)
    offset = -risk.pointwise.known_conjugate(risk.y, q, risk.weights)
    return q, Plane(0.5 * np.concatenate([images, q]), offset)


def gap_of(risk: KernelRisk, lam: float, own: PairDuals) -> float:
    """Return objective less bound of the duals, by the scores as they were kept up to date."""
    scores = -own.images
    if risk.minimizes_intercept:
        value = risk.loss.at_best_offset(risk.y, scores, risk.weights, None).value
    else:
        value = risk.loss.value(risk.y, scores, risk.weights)
    conjugate = risk.pointwise.known_conjugate(risk.y, own.q, risk.weights)
    return float(value + conjugate + dot(own.q, own.images))


def pair_ascent(*, looks: int = 40, planes: int = 50) -> PairSteps:
    """Sequential minimization: exact steps on pairs of duals, certified by planes.

    The method for kernels with losses made of straight pieces: hinge, absolute, quantile and
    epsilon-insensitive.

    Parameters
    ----------
    looks : int
        How often at most the gap is looked at between two planes.
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    return PairSteps(looks, checked_planes(planes))
