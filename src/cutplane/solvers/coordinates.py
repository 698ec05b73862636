"""Coordinate descent inside Newton steps, for sparse and bounded coefficients.

The regularizer is a sum over coordinates, such as ``l1 |w|_1 + l2/2 |w|^2`` within bounds. A step
minimizes the quadratic model of the risk plus the regularizer as it is (proximal Newton), by
coordinate descent, and goes as far toward that minimum as the objective falls. Coordinates that
are zero and stay there cost nothing but the pass over the data that tells so: each step works on
those that are not zero, and those along which the objective falls the most.

The slopes ``q`` of the examples at each point make a plane. Where the regularizer has no squares
its conjugate is zero on a box and infinite outside, and the plane may be too steep. Then slopes
``s q`` with ``s < 1`` are in the box, and make a plane too: ``(s X'q, -sum p l*(s q / p))``.

A loss with kinks is rounded (`Loss.smoothed`), with duals that move the rounded parts to where the
optimum is (the method of multipliers): the outer loop is that of `cutplane.solvers.newton`.

With slopes ``g`` and curvatures ``h`` of the examples, the model of a step ``t`` from ``w`` is

    g.(X t + s) + 1/2 sum_i h_i (x_i.t + s)^2 + r(w + t)

over the chosen columns of ``X``, and a change ``s`` of the intercept. ``r`` is a sum over
coordinates, so the best value of one coordinate has a closed form. The best ``s`` follows each of
them: it is ``-total / H`` with ``H = sum h`` and ``total`` the sum of slopes without it, so it is
never older than the last change. (Without an intercept ``H`` is given as infinite.)

Passes over all chosen columns alternate with passes over those that moved. Once these tell which
coordinates are not zero, and their signs, the model is a quadratic function of them, and conjugate
gradients find its minimum in a half to a quarter of the passes. A loop that adds up writes to no
array: see CONTRIBUTING.

With few features the matrix of second derivatives is made first: then a pass over the coordinates
reads none of the data. With many, the columns of those that may not be zero are read instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.compiled import REORDER, njit
from cutplane.compute.pace import seconds_left
from cutplane.compute.products import Numbers, dot, product_over, sum_over
from cutplane.core.protocols import Plane
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.data import Rows
from cutplane.data.layouts import CompressedRows, DenseRows
from cutplane.losses import Loss
from cutplane.losses.loss import AtBestOffset
from cutplane.regularizers.l2 import Coordinates
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.needs import (
    BY_COORDINATE,
    CONJUGATE,
    CURVATURES,
    ONE_SCORE,
    SECOND_DERIVATIVES,
)
from cutplane.solvers.newton import RoundedSteps, per_weight

# Columns of a matrix in CSC: values, rows, and where columns start.
Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Penalty: TypeAlias = tuple[float, Matrix]
"""l1; and a row of l2, l2 * center, lower and upper bound for each coordinate."""

# A pass on all coordinates, after which those on active ones are counted; and that was the last.
_ALL, _END = 0, -1


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _best(at: float, slope: float, curvature: float, l1: float, square: Vector) -> float:
    """Return the best value of a coordinate; ``square``: l2, l2 * center, lower and upper bound."""
    bend = curvature + square[0]
    pull = curvature * at - slope + square[1]
    value = 0.0
    if bend > 0.0:
        if pull > l1:
            value = (pull - l1) / bend
        elif pull < -l1:
            value = (pull + l1) / bend
    return float(min(max(value, square[2]), square[3]))


@njit(cache=True, nogil=True, fastmath=REORDER, inner=True)
def _sparse_product(columns: Columns, j: int, vector: Vector) -> float:
    values, rows, starts = columns
    total = 0.0
    for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
        total += values[k] * vector[np.uint64(rows[k])]
    return total


@njit(cache=True, nogil=True, fastmath=REORDER)
def sparse_moments(columns: Columns, chosen: Numbers, curvatures: Vector) -> tuple[Vector, Vector]:
    """Return ``x.(h x)`` and ``x.h`` for each chosen column ``x``."""
    values, rows, starts = columns
    second, first = np.empty(len(chosen)), np.empty(len(chosen))
    for c in range(len(chosen)):
        j = chosen[c]
        square, product = 0.0, 0.0
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            scaled = values[k] * curvatures[np.uint64(rows[k])]
            square += scaled * values[k]
            product += scaled
        second[c], first[c] = square, product
    return second, first


@njit(cache=True, nogil=True, inner=True)
def _next_pass(settled: bool, passes: int) -> int:
    """Return how many passes on active coordinates there will have been since the last on all."""
    if settled:
        return _END if passes == _ALL else _ALL
    return _ALL if passes > 8 else passes + 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def _change_of_slopes(
    columns: Columns, chosen: Numbers, free: Numbers, steps: Vector, curvatures: Vector, out: Vector
) -> None:
    """Fill how the slopes of the examples change along steps of the free ones of the columns."""
    values, rows, starts = columns
    for i in range(len(out)):
        out[i] = 0.0
    for f in range(len(free)):
        j = chosen[free[f]]
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            out[np.uint64(rows[k])] += steps[f] * values[k]
    for i in range(len(out)):
        out[i] *= curvatures[i]


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _longest(w: Vector, free: Numbers, steps: Vector, length: float, penalty: Penalty) -> Any:
    """Return how far a step leads at most, and at which one a sign would change or a bound is."""
    l1, squares = penalty
    hit = -1
    for f in range(len(free)):
        c = free[f]
        low, high = squares[c, 2], squares[c, 3]
        if l1 > 0.0 and w[c] > 0.0:
            low = max(low, 0.0)
        elif l1 > 0.0:
            high = min(high, 0.0)
        end = w[c] + length * steps[f]
        if end < low or end > high:
            length = ((low if end < low else high) - w[c]) / steps[f]
            hit = f
    return length, hit


@njit(cache=True, nogil=True, error_model="numpy")
def _conjugate_gradients(
    columns: Columns, chosen: Numbers, penalty: Penalty, w: Vector, slopes: Vector, total: float,
    curvatures: Vector, total_curvature: float, bends: Vector, first: Vector,
    enough: float, most: int,
) -> tuple[float, int]:  # fmt: skip
    """Minimize the model over the coordinates that are not zero, with their signs and bounds.

    ``w`` and ``slopes`` become those at its end, when no slope is larger than ``enough``; returns
    ``total`` there, and the number of steps. A coordinate that comes to zero, or to a bound, stays
    there. ``bends`` are the curvatures along the coordinates.
    """
    l1, squares = penalty
    free = np.empty(len(w), np.int64)
    n = 0
    for c in range(len(w)):
        free[n] = c  # overwritten by the next one if this is not free
        n += (w[c] != 0.0 or l1 == 0.0) and squares[c, 2] < w[c] < squares[c, 3] and bends[c] > 0.0
    left, steps, change = np.empty(n), np.empty(n), np.empty(n)
    along = np.empty(len(slopes))
    for f in range(n):
        c = free[f]
        slope = _sparse_product(columns, chosen[c], slopes) - total / total_curvature * first[c]
        left[f] = squares[c, 1] - slope - l1 * np.sign(w[c]) - squares[c, 0] * w[c]
    n_steps, product = 0, 0.0  # zero: the next step forgets those before it
    while n_steps < most:
        n_steps += 1
        largest, next_product = 0.0, 0.0
        for f in range(n):
            largest = max(largest, abs(left[f]))
            next_product += left[f] * left[f] / bends[free[f]]
        if largest <= enough:
            break
        share = next_product / product if product > 0.0 else 0.0
        product = next_product
        for f in range(n):
            kept = share * steps[f] if share > 0.0 else 0.0
            steps[f] = left[f] / bends[free[f]] + kept
        _change_of_slopes(columns, chosen, free[:n], steps, curvatures, along)
        total_step, bend, apart = 0.0, 0.0, 0.0
        for f in range(n):
            total_step += steps[f] * first[free[f]]
        for f in range(n):
            c = free[f]
            mixed = _sparse_product(columns, chosen[c], along)
            change[f] = mixed - total_step / total_curvature * first[c] + squares[c, 0] * steps[f]
            bend += steps[f] * change[f]
            apart += steps[f] * steps[f] * bends[c]
        # Flat beside what its coordinates would bend without each other.
        if not bend > 1e-10 * apart:
            break
        length, hit = _longest(w, free[:n], steps, product / bend, penalty)
        for f in range(n):
            w[free[f]] += length * steps[f]
            left[f] -= length * change[f]
        for i in range(len(slopes)):
            slopes[i] += length * along[i]
        total += length * total_step
        if hit >= 0:
            c = free[hit]
            at_zero = l1 > 0.0 and squares[c, 2] <= 0.0 <= squares[c, 3]
            w[c] = 0.0 if at_zero else min(max(w[c], squares[c, 2]), squares[c, 3])
            n -= 1
            free[hit], left[hit] = free[n], left[n]
            product = 0.0
    return total, n_steps


@njit(cache=True, nogil=True, error_model="numpy")
def sparse_descent(
    columns: Columns, chosen: Numbers, slopes: Vector, curvatures: Vector, total_curvature: float,
    penalty: Penalty, w: Vector, enough: float, most: int,
) -> float:  # fmt: skip
    """Minimize the model over the chosen columns; ``w`` and ``slopes`` become those at its end.

    ``slopes`` lack what the intercept adds, ``curvatures`` times its change, which is returned.
    It ends when no coordinate moves by as much as ``enough``, in units of slopes, or after so many
    passes at ``most``; a step of conjugate gradients counts as one.
    """
    values, rows, starts = columns
    l1, squares = penalty
    total = 0.0  # what the steps add to the sum of slopes
    active = np.empty(len(chosen), np.int64)
    n_active, passes = 0, _ALL
    second, first = sparse_moments(columns, chosen, curvatures)
    alone = np.maximum(second - first * first / total_curvature, 0.0)
    bends = alone + squares[:, 0]
    n_passes, n_since = 0, 0
    while n_passes < most:
        largest = 0.0
        n_next, n_unsettled = 0, 0
        n_visits = n_active if passes > _ALL else len(chosen)
        for visit in range(n_visits):
            c = active[visit] if passes > _ALL else visit
            j = chosen[c]
            slope = _sparse_product(columns, j, slopes) - total / total_curvature * first[c]
            new = _best(w[c], slope, alone[c], l1, squares[c])
            step = new - w[c]
            active[n_next] = c  # overwritten by the next one if this is not active
            n_next += new != 0.0 or step != 0.0
            if step != 0.0:
                n_unsettled += (w[c] > 0.0) != (new > 0.0) or (w[c] < 0.0) != (new < 0.0)
                w[c] = new
                total += step * first[c]
                for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                    i = np.uint64(rows[k])
                    slopes[i] += step * values[k] * curvatures[i]
                largest = max(largest, abs(step) * bends[c])
        n_active = n_next
        passes = _next_pass(largest <= enough or n_active == 0, passes)
        if passes == _END:
            break
        n_passes, n_since = n_passes + 1, n_since + 1
        # In the last pass at most this share of the coordinates came, went or changed its sign.
        if n_since >= 2 and n_unsettled <= 1e-3 * n_active:
            total, n_steps = _conjugate_gradients(
                columns, chosen, penalty, w, slopes, total, curvatures, total_curvature, bends,
                first, max(0.1 * largest, 0.5 * enough), most - n_passes,
            )  # fmt: skip
            n_passes, n_since, passes = n_passes + n_steps, 0, _ALL
    return -total / total_curvature


@njit(cache=True, nogil=True, fastmath=REORDER)
def sparse_scores(columns: Columns, chosen: Numbers, steps: Vector, out: Vector) -> None:
    """Add the products of the rows with steps of the chosen columns."""
    values, rows, starts = columns
    for c in range(len(chosen)):
        if steps[c] != 0.0:
            j = chosen[c]
            for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                out[np.uint64(rows[k])] += steps[c] * values[k]


@njit(cache=True, nogil=True, error_model="numpy")
def gram_descent(
    gram: Matrix, slope: Vector, penalty: Penalty, w: Vector, enough: float, most: int
) -> None:
    """Minimize the model whose second derivatives are ``gram``; ``w`` and ``slope`` at its end."""
    l1, squares = penalty
    d = len(w)
    everything, active = np.arange(d), np.empty(d, np.int64)
    n_active, passes = 0, _ALL
    for _ in range(most):
        largest, n_next = 0.0, 0
        for j in active[:n_active] if passes > _ALL else everything:
            curvature = max(gram[j, j], 0.0)
            new = _best(w[j], slope[j], curvature, l1, squares[j])
            step = new - w[j]
            active[n_next] = j  # overwritten by the next one if this is not active
            n_next += new != 0.0 or step != 0.0
            if step != 0.0:
                w[j] = new
                row = gram[j]
                for k in range(d):
                    slope[k] += step * row[k]
                largest = max(largest, abs(step) * (curvature + squares[j, 0]))
        n_active = n_next
        passes = _next_pass(largest <= enough or n_active == 0, passes)
        if passes == _END:
            break


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER)
def low_rank_descent(
    diagonal: Vector, factor: Matrix, signs: Vector, slope: Vector, penalty: Penalty, w: Vector,
    enough: float, most: int,
) -> None:  # fmt: skip
    """Minimize the model whose second derivatives are ``diagonal - factor signs factor'``.

    ``w`` becomes its minimum; ``factor`` has a row for each coordinate.
    """
    l1, squares = penalty
    before = w.copy()
    d, rank = factor.shape
    curvatures, along = np.empty(d), np.zeros(rank)
    for j in range(d):
        taken = 0.0
        for k in range(rank):
            taken += signs[k] * factor[j, k] * factor[j, k]
        # What is known of directions leaves some of a coordinate's own curvature.
        curvatures[j] = max(diagonal[j] - taken, 1e-6 * diagonal[j])
    active, everything = np.empty(d, np.int64), np.arange(d)
    passes, n_active = _ALL, 0
    for _ in range(most):
        largest, n_next = 0.0, 0
        for j in active[:n_active] if passes > _ALL else everything:
            taken = 0.0
            for k in range(rank):
                taken += factor[j, k] * along[k]
            here = slope[j] + diagonal[j] * (w[j] - before[j]) - taken
            new = _best(w[j], here, curvatures[j], l1, squares[j])
            step = new - w[j]
            active[n_next] = j  # overwritten by the next one if this is not active
            n_next += new != 0.0 or step != 0.0
            if step != 0.0:
                w[j] = new
                for k in range(rank):
                    along[k] += step * signs[k] * factor[j, k]
                largest = max(largest, abs(step) * (curvatures[j] + squares[j, 0]))
        n_active = n_next
        passes = _next_pass(largest <= enough or n_active == 0, passes)
        if passes == _END:
            break


@njit(cache=True, nogil=True, fastmath=REORDER)
def products_with_rows(rows: NDArray[np.float32], vector: Vector) -> Vector:
    """Return the inner product of each row with a vector, added up in double precision."""
    out = np.empty(len(rows))
    for i in range(len(rows)):
        total = 0.0
        for j in range(len(vector)):
            total += np.float64(rows[i, j]) * vector[j]
        out[i] = total
    return out


class Goal(NamedTuple):
    """Where the minimum of a model is: the coordinates, the scores' change, the intercept's."""

    w: Vector
    speed: Vector
    intercept: float


class QuadraticModel(NamedTuple):
    """What the minimum of the model depends on."""

    w: Vector
    slope: Vector
    slopes: Vector
    curvatures: Vector
    intercept: bool
    form: Coordinates

    @property
    def total_curvature(self) -> float:
        """The sum of curvatures, infinite where no intercept moves."""
        total = sum_over(self.curvatures) if self.intercept else 0.0
        return total if total > 0.0 else np.inf


def prefers_gram(rows: Rows) -> bool:
    """Say whether the matrix of second derivatives is worth its price: 30 passes over the data."""
    m, d = rows.shape
    length = rows.n_entries / max(m, 1)
    # A multiplication counts as in `cutplane.solvers.automatic`.
    price = (1.0 if rows.sparse else 0.1) * 0.5 * length * length
    return d <= 1000 and price <= 30.0 * 2.0 * length


def minimum_by_gram(rows: Rows, model: QuadraticModel, enough: float) -> Goal:
    """Minimize the model over all coordinates."""
    gram = rows.weighted_gram(model.curvatures)
    total, mixed = model.total_curvature, np.zeros(len(model.w))
    if total < np.inf:
        mixed = rows.pullback(model.curvatures)
        gram -= np.outer(mixed, mixed / total)
    w, slope, form = model.w.copy(), model.slope.copy(), model.form
    gram_descent(gram, slope, penalty_of(form), w, enough, _in_time(2000, gram.size))
    step = w - model.w
    return Goal(w, rows.scores(step), -float(mixed @ step) / total)


def minimum_by_columns(
    columns: Columns, chosen: Numbers, places: Numbers, model: QuadraticModel, enough: float
) -> Goal:
    """Minimize the model over the chosen coordinates, whose columns are at these places."""
    w = model.w[chosen]
    intercept = sparse_descent(
        columns, places, model.slopes.copy(), model.curvatures, model.total_curvature,
        penalty_of(model.form, chosen), w, enough, _in_time(100, columns[0].size),
    )  # fmt: skip
    speed = np.zeros(len(model.slopes))
    sparse_scores(columns, places, w - model.w[chosen], speed)
    moved = model.w.copy()
    moved[chosen] = w
    return Goal(moved, speed, intercept)


def _in_time(most: int, n_entries: int) -> int:
    """Return how many passes over so many entries there is time for: one, whatever is left."""
    seconds = 3e-9 * max(n_entries, 1)  # of a pass, about
    return int(max(1.0, min(most, seconds_left() / seconds)))


def columns_of(rows: Rows, chosen: Numbers) -> tuple[Columns, Numbers]:
    """Return columns of the data, and at which places among them the chosen ones are."""
    if isinstance(rows, CompressedRows):
        return rows.by_column, chosen
    assert isinstance(rows, DenseRows)
    columns = csc_array(rows.X[:, chosen])
    return (columns.data, columns.indices, columns.indptr), np.arange(len(chosen))


def coordinates_of(problem: Problem) -> Coordinates:
    """Return the numbers of a regularizer that is a sum over coordinates."""
    return BY_COORDINATE.of(problem).by_coordinate(problem.risk.n_parameters)


def penalty_of(form: Coordinates, chosen: Numbers | None = None) -> Penalty:
    """Return a regularizer's numbers, for some coordinates, as compiled loops take them."""
    squares = np.column_stack([form.l2, form.l2 * form.center, form.lower, form.upper])
    return form.l1, squares if chosen is None else squares[chosen]


def working_set(w: Vector, descents: Vector, *, least: int, growth: float) -> Numbers:
    """Return the coordinates that are not zero, and those along which the objective falls most.

    Of these at most so many, ``least``, and ``growth`` times as many as are not zero.
    """
    nonzero = w != 0.0
    most = max(least, int(growth * np.count_nonzero(nonzero)))
    steep = np.where(nonzero, 0.0, descents)
    if np.count_nonzero(steep) > most:
        steep[steep < np.partition(steep, -most)[-most]] = 0.0
    return np.flatnonzero(nonzero | (steep > 0.0))


# Near the optimum the objective changes by less than it is rounded, while the bound still rises.
ROUNDING = 8 * EPS


@dataclass(slots=True)
class DescentState:
    """Where coordinate descent is.

    Attributes
    ----------
    point : ScoredPoint
        The last iterate.
    at : AtBestOffset
        The smoothed loss there, at its best intercept.
    width : float
        How widely kinks are rounded; zero for a loss that has none.
    duals : ndarray
        A slope for each example, from the inner problem before this one; empty without kinks.
    damping : float
        How far curvatures are moved toward the largest one, from 0 to 1.
    steps : int
        How many were taken in this inner problem.
    share : float
        Coordinate descent ends when no coordinate moves by more than this share of the steepest
        descent at its start.
    """

    point: ScoredPoint
    at: AtBestOffset
    width: float = 0.0
    duals: Annotated[Vector, "f8[n] | f8[0]"] = field(default_factory=lambda: np.empty(0))
    damping: float = 0.0
    steps: int = 0
    share: float = 0.1

    def fits(self, risk: object, solver: object) -> bool:
        """Say whether there are duals if kinks are rounded."""
        return self.width == 0.0 or len(self.duals) > 0


class CoordinateDescent(RoundedSteps[DescentState]):
    """Proximal Newton steps for one problem; all that changes is in the state."""

    # Far from the optimum, where a slope is larger than this many times `l1`, coordinate descent
    # ends with so many times as much left: there the next model is soon a better one.
    far, roughly = 1.0, 2.0
    # Besides the coordinates that are not zero, at most so many are chosen, and so many times as
    # many as those.
    least_chosen, growth = 200, 2.0
    # A step is taken if the objective falls by this share of what its slope promises; else half of
    # it.
    fall, most_halves = 0.01, 40
    # Where a model was wrong, the next one is damped: curvatures are moved toward the largest one,
    # by this share at first, then by so many times as much, until models are right again. Examples
    # that are far on the right side bend so little that a model would send them anywhere. A model
    # was wrong if the step had to be shortened, or gained less than the first share of what the
    # model promised; right if it gained the second.
    first_damping, more_damping, less_damping = 1e-3, 10.0, 0.1
    wrong, right = 0.1, 0.5

    def __init__(self, problem: Problem) -> None:
        self._problem, self._risk = problem, ONE_SCORE.of(problem)
        self._form = coordinates_of(problem)

    def initial(self, point: ScoredPoint) -> DescentState:
        """Return the state at a point."""
        risk, width, duals = self._risk, 0.0, np.empty(0)
        if risk.pointwise.smoothed(1.0) is not risk.loss:
            duals = np.zeros(len(risk.y))
            slopes = per_weight(point.slopes, risk.weights)
            width = self.rounding.width_for(point.value, slopes, risk.weights)
        return DescentState(point, self._at(point.scores, width, duals, None), width, duals)

    def planes(self, state: DescentState, enough: float) -> list[Plane]:
        """Take a step; return the planes where it began.

        If these prove a gap that is small ``enough``, there is no step.
        """
        self._look(state)
        planes = [self._found]
        if self._problem.objective(state.point) - self._problem.below(planes[0]).lower <= enough:
            return planes
        planes += self.round_again(state)
        self.move(state)
        return planes

    def _look(self, state: DescentState) -> None:
        """Compute the slopes of the examples at the point, that of the risk, and their plane."""
        risk, loss = self._risk, self._loss(state.width)
        moved = self._moved(state.point.scores, state.width, state.duals)
        self._slopes = loss.slopes_at(risk.y, moved, risk.weights, state.at)
        self._slope = risk.rows.pullback(self._slopes)
        risk.evaluations += 1
        # The plane is scaled until the regularizer's conjugate is finite.
        slopes, slope, scale = self._slopes, self._slope, self._form.scale_for(-self._slope)
        if scale < 1.0:
            slopes, slope = scale * slopes, scale * slope
        self._found = Plane(slope, -risk.pointwise.known_conjugate(risk.y, slopes, risk.weights))

    def center(self, state: DescentState) -> None:
        """Round kinks around the slopes of the point."""
        state.duals = per_weight(self._slopes, self._risk.weights)

    def measure(self, state: DescentState) -> list[Plane]:
        """Compute loss and slopes of the point, rounded again; return their plane."""
        state.at = self._at(state.point.scores, state.width, state.duals, None)
        self._look(state)
        return [self._found]

    def move(self, state: DescentState) -> list[Plane]:
        """Go toward the minimum of the model; the planes there are those of the next step."""
        risk = self._risk
        moved = self._moved(state.point.scores, state.width, state.duals)
        if state.at.offset:
            moved = moved + state.at.offset
        curvatures = self._loss(state.width).known_curvatures(risk.y, moved, risk.weights)
        if state.damping > 0.0:
            largest = float(per_weight(curvatures, risk.weights).max())
            curvatures = curvatures + state.damping * (largest * risk.weights - curvatures)
        w, intercept = state.point.w, risk.minimizes_intercept
        model = QuadraticModel(w, self._slope, self._slopes, curvatures, intercept, self._form)
        self._go(state, model, self._minimum(model, state))
        return []

    def is_solved(self, state: DescentState) -> bool:
        """Say whether the gap of the inner problem is no larger than the rounding's part.

        Both the inner problem and the whole one have a dual value for these slopes.
        """
        point, weights = state.point, self._risk.weights
        lower = self._problem.below(self._found).lower
        gap = self._problem.objective(point) - lower
        duals = per_weight(self._slopes, weights)
        rounding = product_over(weights, (duals - state.duals) ** 2)
        rounding -= product_over(weights, state.duals**2)
        inner = self._problem.regularizer.value(point.w) + state.at.value
        inner -= lower - 0.5 * state.width * rounding
        return bool(inner <= self.rounding.solved * (gap - inner))

    def _minimum(self, model: QuadraticModel, state: DescentState) -> Goal:
        rows = self._risk.rows
        descents = self._form.descents(model.w, model.slope)
        steepest = float(descents.max(initial=0.0))
        enough = state.share * steepest
        if prefers_gram(rows):
            return minimum_by_gram(rows, model, 0.1 * enough)
        numbers = working_set(model.w, descents, least=self.least_chosen, growth=self.growth)
        # Neighbors are often alike (words, bins of one feature), and one after the other they make
        # coordinate descent slow: up to three times as many passes on 20 Newsgroups.
        numbers = np.random.default_rng(state.steps).permutation(numbers)
        if steepest > self.far * self._form.l1:
            enough *= self.roughly
        columns, places = columns_of(rows, numbers)
        return minimum_by_columns(columns, numbers, places, model, enough)

    def _go(self, state: DescentState, model: QuadraticModel, step: Goal) -> None:
        """Move the state's point toward a step's end, as far as the objective falls."""
        risk, regularizer, point = self._risk, self._problem.regularizer, state.point
        direction = step.w - point.w
        here = regularizer.value(point.w)
        promised = dot(model.slope, direction) + regularizer.value(step.w) - here
        before = here + state.at.value
        rounding = ROUNDING * abs(before)
        state.steps += 1
        # Near the optimum a promise, too, is less than what it is rounded by.
        if not promised < rounding or not direction.any():
            state.share *= 0.1
            return
        length = 1.0
        for _ in range(self.most_halves):
            w = step.w if length == 1.0 else point.w + length * direction
            scores = point.scores + length * step.speed
            guess = None if state.at.offset is None else state.at.offset + length * step.intercept
            with np.errstate(over="ignore", invalid="ignore"):
                at = self._at(scores, state.width, state.duals, guess)
            gained = before - regularizer.value(w) - at.value
            if gained >= -self.fall * length * min(promised, 0.0) - rounding:
                break
            length *= 0.5
        else:
            state.share *= 0.1
            self._damp(state, wrong=True, right=False)
            return
        change = step.speed + step.intercept
        promised += 0.5 * dot(model.curvatures * change, change)
        ratio = gained / max(-promised, rounding)
        self._damp(state, wrong=length < 0.5 or ratio < self.wrong, right=ratio > self.right)
        state.at = at
        known = {"at": at} if state.width == 0.0 else {"guess": at.offset}
        state.point = risk.with_scores(w, scores, **known)

    def _damp(self, state: DescentState, *, wrong: bool, right: bool) -> None:
        """Damp the next step more if the model of this one was wrong, less if it was right."""
        if wrong:
            state.damping = min(max(self.more_damping * state.damping, self.first_damping), 1.0)
        elif right:
            state.damping *= self.less_damping
            if state.damping < self.first_damping:
                state.damping = 0.0

    def _loss(self, width: float) -> Loss:
        risk = self._risk
        return risk.pointwise.smoothed(width) if width else risk.pointwise

    def _moved(self, scores: Vector, width: float, duals: Vector) -> Vector:
        return scores + width * duals if width else scores

    def _at(self, scores: Vector, width: float, duals: Vector, guess: float | None) -> AtBestOffset:
        """Return the smoothed loss, at its best intercept if there is one."""
        risk, loss = self._risk, self._loss(width)
        moved = self._moved(scores, width, duals)
        if risk.minimizes_intercept:
            return loss.at_best_offset(risk.y, moved, risk.weights, guess)
        return AtBestOffset(None, loss.value(risk.y, moved, risk.weights))


@dataclass(frozen=True, slots=True)
class CoordinateSteps(Solver[DescentState | None]):
    """Newton steps that coordinate descent finds."""

    needs = (ONE_SCORE, SECOND_DERIVATIVES, CURVATURES, CONJUGATE, BY_COORDINATE)
    planes: int | None = 2
    name: str = "coordinate-descent"

    def step(self, run: Run, own: DescentState | None) -> Step[DescentState | None]:
        """Take a step; return the point where it ends, and the plane where it began."""
        steps = CoordinateDescent(run.problem)
        if own is None:
            own = steps.initial(run.best)  # type: ignore[arg-type]
        # A gap that is small enough but for rounding must not end all steps.
        enough = run.enough if run.stalled_for == 0 else 0.0
        planes = steps.planes(own, enough)
        return Step([own.point], own, planes)

    def combined(self, run: Run) -> None:
        """Return nothing: the newest plane says as much as all of them, and has all the weight."""
        newest = np.zeros(run.bundle.n_planes)
        newest[-1] = 1.0
        run.bundle.set_weights(newest)


def coordinate_descent() -> CoordinateSteps:
    """Coordinate descent inside Newton steps, certified by the planes of its duals.

    The method for regularizers that make coefficients sparse or bound them.
    """
    return CoordinateSteps()
