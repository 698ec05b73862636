"""Dual ascent on the shares of all classes: Crammer and Singer's loss and softmax, certified.

Any shares ``P`` of the classes, one point of the simplex for each example, make slopes ``P - e_y``
and so a plane below the risk. An epoch improves the shares of one example after the other, and so
the bound that their plane gives; the weights that belong to them are those at which the plane and
the regularizer are lowest.

Everything is checked with exact scores every few epochs. The gap is a sum over examples, of what
each has to gain by other shares. Those that have little wait for the next check; in between, an
example leaves as soon as it is found to have little to gain (shrinking), and the epochs end when
what is left is a small part of what there was.

With weights ``p`` of the examples and slopes ``S = P - e_y``, ``W = -X'(p*S) / lam``, one row a
feature and one column a class. With all others fixed the best shares of example ``i`` are those of
its loss at scores that they move themselves:

    z' = z - Q * (P' - P),     Q = p_i |x_i|^2 / lam
    Crammer and Singer:  P' = projection of P + (z + margins) / Q  to the simplex
    softmax:             P' = softmax(z' + margins)

The first is found by dropping classes until no share is negative, the second by Newton's method,
whose matrix is diagonal but for a product of two vectors. Near the optimum one step is enough. The
margins of a class are its row of costs; without costs those of softmax are zero.

Intercepts that are not regularized ask for shares whose weighted sum over the examples is the
weight of each class. That is reached by the method of multipliers as in
`cutplane.solvers.dual_ascent`: while the epochs run they are weights with a regularizer of their
own, centered where the last check left them. They follow the shares as if they were the weights of
a feature that is the same for all examples: ``coupling`` is that feature's square over ``lam``. For
the plane, shares are moved from classes that have too much to those that lack some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector, copied
from cutplane.compute.compiled import fetch, njit
from cutplane.compute.pace import hurried
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import Plane
from cutplane.core.search import minimize_roughly
from cutplane.core.solver import Step
from cutplane.core.state import Problem, Run
from cutplane.data.layouts import DenseRows
from cutplane.data.rows import Entries
from cutplane.losses.smooth import exp_minus, log
from cutplane.models.multiclass.losses import class_loss
from cutplane.models.multiclass.offsets import Indices, class_sums, make_slopes, repaired
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.ascent import (
    SEED,
    DualSolver,
    finite_norms,
    intercept_coupling,
    worth_a_visit,
)
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.needs import ALL_CLASSES, PLAIN_L2, ROWS_IN_MEMORY
from cutplane.solvers.row_steps import entries_of, shuffle

ClassExamples: TypeAlias = tuple[Matrix, Indices, Vector, Vector]
"""Margins of the classes; and of the examples classes, weights and how they move their scores."""

_REORDER = {"reassoc", "contract", "nsz"}
# A Newton step that changes no difference of scores by more than this is the last: what it leaves
# is of the size of its square.
_LAST_STEP = 0.5
_MAX_STEPS = 50
# So many columns are moved together in the time of one alone.
_VECTOR = 4


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _fill_scores(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, dense: bool,
    W: Matrix, offsets: Vector, z: Vector,
) -> None:  # fmt: skip
    """Set the scores of all classes; four entries at a time, so that few sums are stored."""
    n = len(z)
    for j in range(n):
        z[j] = offsets[j]
    e = first
    four, one = np.uint64(4), np.uint64(1)
    while e + four <= last:
        e1, e2, e3 = e + one, e + one + one, e + four - one
        x0, x1, x2, x3 = values[e], values[e1], values[e2], values[e3]
        if dense:
            f0, f1, f2, f3 = e - first, e1 - first, e2 - first, e3 - first
        else:
            f0, f1 = np.uint64(indices[e]), np.uint64(indices[e1])
            f2, f3 = np.uint64(indices[e2]), np.uint64(indices[e3])
        for j in range(n):
            z[j] += (x0 * W[f0, j] + x1 * W[f1, j]) + (x2 * W[f2, j] + x3 * W[f3, j])
        e += four
    while e < last:
        x = values[e]
        f = e - first if dense else np.uint64(indices[e])
        for j in range(n):
            z[j] += x * W[f, j]
        e += one


@njit(cache=True, nogil=True, fastmath={"contract"})
def _move(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, dense: bool,
    W: Matrix, steps: Vector, classes: Indices,
) -> None:  # fmt: skip
    """Add the products of an example's entries and steps to the weights.

    The steps are those of some classes, or of all columns if none are told.
    """
    for e in range(first, last):
        x = values[e]
        f = np.uint64(e) - first if dense else np.uint64(indices[e])
        if len(classes):
            for c in range(len(classes)):
                W[f, np.uint64(classes[c])] += x * steps[c]
        else:
            for j in range(len(steps)):
                W[f, j] += x * steps[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def project(v: Vector, share: Vector, q: float, classes: Indices, new: Vector) -> int:
    """Find the projection of ``share + v / q`` to the simplex.

    Return how many classes have a share, before or after; ``classes`` tells which these are, and
    ``new`` their new shares.
    """
    top, best = -np.inf, 0
    for j in range(len(v)):
        height = q * share[j] + v[j]
        if height > top:
            top, best = height, j
    # Only what is less than q below the largest can have a share.
    count, n_higher, total = 0, 0, 0.0
    for j in range(len(v)):
        height = (q * share[j] + v[j]) - top
        if share[j] > 0.0 or height > -q or j == best:
            classes[count] = j
            new[count] = height
            count += 1
            if height > -q:
                total += height
                n_higher += 1
    level = -q
    while n_higher > 0:
        higher = (total - q) / n_higher
        if not higher > level:
            break
        level, before = higher, n_higher
        total, n_higher = 0.0, 0
        for c in range(count):
            if new[c] > level:
                total += new[c]
                n_higher += 1
        if n_higher == before:
            break
    total = 0.0
    for c in range(count):
        new[c] = max(new[c] - level, 0.0)
        total += new[c]
    for c in range(count):
        if total > 0.0:
            new[c] /= total
        else:  # no curvature: all goes to the largest
            new[c] = 1.0 if classes[c] == best else 0.0
    return count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def soften(z: Vector, share: Vector, q: float, new: Vector, u: Vector, a: Vector) -> float:
    """Set ``new`` to the shares ``softmax(z - q * (new - share))``; ``u`` and ``a`` are room.

    Return how much there was to gain, nearly.
    """
    n = len(z)
    gain = 0.0
    for j in range(n):
        u[j] = 0.0
    for step in range(_MAX_STEPS):
        top = -np.inf
        for j in range(n):
            top = max(top, z[j] + q * u[j])
        # Sums have loops without assignments. Before others a test decides whether arrays are far
        # enough apart for vectors, so that the order of a sum would hang on addresses.
        for j in range(n):
            new[j] = exp_minus(top - (z[j] + q * u[j]))
        total = 0.0
        for j in range(n):
            total += new[j]
        scale = 1.0 / total
        for j in range(n):
            new[j] *= scale
            a[j] = 1.0 / (1.0 + q * new[j])
        numerator, denominator = 0.0, 0.0
        for j in range(n):
            numerator += a[j] * (new[j] - share[j] + u[j])
            denominator += a[j] * new[j]
        if step == 0:
            for j in range(n):
                off = new[j] - share[j]
                gain += off * off / max(new[j] + share[j], 1e-300)
        mean_step = numerator / denominator
        low, high, mean = np.inf, -np.inf, 0.0
        for j in range(n):
            a[j] *= new[j] * mean_step - (new[j] - share[j] + u[j])
        for j in range(n):
            low, high = min(low, a[j]), max(high, a[j])
            mean += new[j] * a[j]
        spread = q * (high - low)
        if spread <= _LAST_STEP:
            for j in range(n):
                new[j] *= 1.0 + q * (a[j] - mean)
            break
        damping = np.log1p(spread) / spread
        for j in range(n):
            u[j] += damping * a[j]
    return gain


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def epoch(
    rows: Entries, n_features: int, soft: bool, examples: ClassExamples, lam: float,
    coupling: float, place: tuple[Matrix, Vector, Matrix], order: Indices, least: float,
    gains: Vector,
) -> None:  # fmt: skip
    """Improve the shares of each example in turn that has more than ``least`` to gain by it.

    What each had to gain is set in ``gains``. Rows are dense if there are no indices. The
    ``place``, ``W``, ``offsets`` and ``shares``, is updated; the first two may have more columns
    than there are classes, whose offsets are minus infinity.
    """
    (values, indices, starts), (margins, y, weights, curvatures) = rows, examples
    W, offsets, shares = place
    n = W.shape[1]
    n_classes = shares.shape[1]
    dense = len(indices) == 0
    z, new, share = np.empty(n), np.empty(n), np.zeros(n)
    room, more_room = np.empty(n), np.empty(n)
    classes = np.arange(n)
    for k in range(len(order)):
        i = order[k]
        if k + 1 < len(order):
            # The next example is on its way while this one is worked on. Time of an epoch beside
            # that without: connect4 0.62 (softmax 0.79), news20_ng 0.95 (0.98), dna 0.94 (0.90).
            coming = order[k + 1]
            fetch(shares, coming * n_classes)
            fetch(y, coming)
            fetch(curvatures, coming)
            begin = np.uint64(coming * n_features) if dense else np.uint64(starts[coming])
            fetch(indices, begin)
            fetch(values, begin)
            fetch(values, begin + np.uint64(8))
        first = np.uint64(i * n_features) if dense else np.uint64(starts[i])
        last = first + np.uint64(n_features) if dense else np.uint64(starts[i + 1])
        _fill_scores(values, indices, first, last, dense, W, offsets, z)
        q, weight = curvatures[i], weights[i]
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n_classes):
            share[j] = shares[i, j]
            z[j] += margin[j]
        z[y[i]] -= margin[y[i]]
        if soft:
            gain = weight * soften(z, share, q, new, room, more_room)
        else:
            top, mean = -np.inf, 0.0
            for j in range(n_classes):
                top = max(top, z[j])
                mean += share[j] * z[j]
            gain = weight * (top - mean)
        gains[i] = gain
        if gain <= least:
            continue
        count = n_classes if soft else project(z, share, q, classes, new)
        for c in range(count):
            j = c if soft else classes[c]
            change = new[c] - share[j]
            shares[i, j] = new[c]
            offsets[j] -= weight * coupling * change
            new[c] = -weight / lam * change
        if soft or _VECTOR * count < n:
            moved = 0 if soft else count
            _move(values, indices, first, last, dense, W, new, classes[:moved])
        else:
            for j in range(n):
                room[j] = 0.0
            for c in range(count):
                room[classes[c]] = new[c]
            _move(values, indices, first, last, dense, W, room, classes[:0])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def fill_gains(
    soft: bool,
    margins: Matrix,
    offsets: Vector,
    y: Indices,
    weights: Vector,
    scores: Matrix,
    shares: Matrix,
    gains: Vector,
) -> None:
    """Set what each example adds to the gap: its loss, less what its shares say of it."""
    n = scores.shape[1]
    v = np.empty(n)
    for i in range(len(y)):
        top = -np.inf
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n):
            v[j] = scores[i, j] + offsets[j] + (margin[j] if j != y[i] else 0.0)
            top = max(top, v[j])
        mean, total, entropy = 0.0, 0.0, 0.0
        for j in range(n):
            mean += shares[i, j] * (top - v[j])
        if soft:
            for j in range(n):
                total += exp_minus(top - v[j])
                entropy += shares[i, j] * log(max(shares[i, j], 1e-300))
            mean += np.log(total) + entropy
        gains[i] = weights[i] * max(mean, 0.0)


# Columns of weights come in fours, so that no loop over them has a rest.
_COLUMNS = 4
# Epochs end when the examples that are visited have this share of the gain left that there was.
_ENOUGH = 0.2
# How far from the best the intercepts of a check may be, as a share of the risk.
_SETTLED = 1e-8
# With intercepts a point counts, and they are settled, once the gap is this share of the last.
_MUCH = 0.4
# What a line search may leave of the gain.
_ROUGH = 0.1


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of classes, and which examples are visited.

    Attributes
    ----------
    shares : ndarray of shape (n_samples, n_classes)
    W : ndarray of shape (n_features, n_columns)
        The weights that belong to them; columns beyond the classes are zero.
    offsets : ndarray of shape (n_columns,)
        The intercepts, or the centers of their regularizers; minus infinity beyond the classes.
    examples : ndarray
        Those to visit.
    gain : float
        What all examples together had to gain at the last check.
    seed : ndarray
        Of the next shuffle.
    lam : float
        The regularizer's.
    """

    shares: Annotated[Matrix, "f8[n, c]"]
    W: Annotated[Matrix, "f8[d, m]"]
    offsets: Annotated[Vector, "f8~[m]"]
    examples: Annotated[Indices, "i8[*]<n"]
    gain: float
    seed: NDArray[np.uint64]
    lam: float

    def fits(self, risk: ScoredRisk, solver: object) -> bool:
        """Say whether there is a column of weights for each class."""
        return bool(self.shares.shape[1] <= self.W.shape[1])


class ClassAscent:
    """Dual ascent for one problem; all that changes is in the `Shares`.

    Arrays are changed in place: they are as large as the scores, and as the weights.
    """

    def __init__(self, problem: Problem) -> None:
        self._risk = ROWS_IN_MEMORY.of(problem)
        self._lam = problem.norm.lam
        (self._n_classes,) = self._risk.map.score_shape
        self._soft: bool = self._risk.loss.smooth
        self._loss = class_loss(self._risk)
        self._margins: Matrix = self._loss.margins(self._n_classes)
        # Examples with no more than this share of the mean gain wait for the next check: with
        # softmax, where all have some. (Crammer and Singer, lam = 1/m, processor seconds to proven
        # 1e-4 with 0 and with 0.03: dna 0.5 and 1.2, satimage 0.23 and 0.33, 26 generated classes
        # 0.43 and 0.67, digits 0.31 and 0.43, news20_ng 2.1 and 3.3.)
        self._worthwhile = 0.03 if self._soft else 0.0
        risk, norms = self._risk, finite_norms(self._risk.rows)
        # Of the feature that stands for intercepts; as strong as the others together, on average.
        self._coupling = 0.0
        if risk.minimizes_intercept:
            self._coupling = intercept_coupling(self._lam, float(risk.weights @ norms))
        # By how much the shares of each example move its own scores.
        self._curvatures: Vector = risk.weights * (norms / self._lam + self._coupling)

    def initial(self) -> Shares:
        """Return shares that are all those of the true classes."""
        risk, k = self._risk, self._n_classes
        n_columns = -(-k // _COLUMNS) * _COLUMNS
        offsets = np.zeros(n_columns)
        offsets[k:] = -np.inf
        shares = np.zeros((len(risk.y), k))
        shares[np.arange(len(risk.y)), risk.y] = 1.0
        return self._beginning(shares, np.zeros((risk.rows.shape[1], n_columns)), offsets)

    def initial_at(self, own: Shares, point: ScoredPoint) -> Shares:
        """Return the shares that the slopes at a point are made of: where to begin near it."""
        risk, k = self._risk, self._n_classes
        slopes = point.slopes
        own.W[:, :k] = -1.0 / self._lam * risk.map.pullback(slopes).reshape(k, -1).T
        own.shares[:] += slopes / np.where(risk.weights > 0.0, risk.weights, 1.0)[:, None]
        np.maximum(own.shares, 0.0, out=own.shares)
        own.offsets[:k] = point.offset
        return own

    def carried_over(self, own: Shares) -> Shares:
        """Return the shares that were found with another ``lam``."""
        own = copied(own)
        own.W[:] *= own.lam / self._lam
        return self._beginning(own.shares, own.W, own.offsets)

    def _beginning(self, shares: Matrix, W: Matrix, offsets: Vector) -> Shares:
        """Return shares to begin with."""
        examples, seed = np.flatnonzero(self._risk.weights), np.array([SEED], dtype=np.uint64)
        return Shares(shares, W, offsets, examples, np.inf, seed, self._lam)

    def improved(self, own: Shares, *, most: int) -> Shares:
        """Run epochs until most of what there was to gain is gained."""
        rows = self._risk.rows
        # Epochs read rows again and again, so zeros are worth leaving out.
        nonzeros = rows.nonzeros if isinstance(rows, DenseRows) else None
        entries = nonzeros or entries_of(rows)
        examples, gain, at_first = own.examples, own.gain, own.gain
        known = self._margins, self._risk.y, self._risk.weights, self._curvatures
        place = own.W, own.offsets, own.shares
        gains = np.empty(len(self._risk.y))
        for n in range(most):
            least = self._worthwhile * gain / max(len(examples), 1) if n > 0 else 0.0
            order = examples.copy()
            shuffle(order, own.seed)
            epoch(
                entries, rows.shape[1], self._soft, known, self._lam, self._coupling, place, order,
                least, gains,
            )  # fmt: skip
            gain = float(gains[examples].sum())
            examples = examples[gains[examples] > least]
            at_first = min(at_first, gain) if n == 0 else at_first
            if gain <= _ENOUGH * at_first or not len(examples) or hurried():
                break
        return own

    def plane(self, own: Shares) -> tuple[Plane, Shares]:
        """Return the plane of the shares, computed afresh.

        Without intercepts the weights become exactly its minimizer, free of the epochs' rounding.
        """
        risk, k = self._risk, self._n_classes
        slopes = own.shares.copy()
        if self._coupling:
            parts = map_arrays(class_sums, slopes, risk.y, risk.weights)
            own.offsets[:k] -= self._coupling * np.sum(parts, axis=0)[1]
            repaired(slopes, risk.y, risk.weights)
        map_arrays(make_slopes, slopes, risk.y)
        offset = -self._loss.conjugate(risk.y, slopes, risk.weights)
        slopes *= risk.weights[:, None]
        plane = Plane(risk.map.pullback(slopes), offset)
        if not self._coupling:
            own.W[:, :k] = -1.0 / self._lam * plane.slope.reshape(k, -1).T
        return plane, own

    def point(self, own: Shares, offsets: Vector) -> ScoredPoint:
        """Return the point at the weights, with these offsets if there are intercepts."""
        risk, k = self._risk, self._n_classes
        w = np.ascontiguousarray(own.W[:, :k].T).ravel()
        scores = risk.map.scores(w)
        risk.evaluations += 1
        at = risk.loss.at_offset(risk.y, scores, risk.weights, offsets) if self._coupling else None
        return risk.with_scores(w, scores, at=at)

    def between(self, start: Any, end: ScoredPoint, step: float) -> ScoredPoint:
        """Return a point between two, whose intercepts are between theirs."""
        risk = self._risk
        pairs = ((start.w, end.w), (start.scores, end.scores), (start.offset, end.offset))
        w, scores, offsets = (begin + step * (finish - begin) for begin, finish in pairs)
        at = risk.loss.at_offset(risk.y, scores, risk.weights, offsets)
        return risk.with_scores(w, scores, at=at)

    def chosen(self, own: Shares, scores: Matrix) -> Shares:
        """Choose the examples to visit, given exact scores."""
        risk = self._risk
        gains = np.empty(len(risk.y))
        map_arrays(
            partial(fill_gains, self._soft, self._margins, own.offsets),
            *(risk.y, risk.weights, scores, own.shares, gains),
        )
        examples = worth_a_visit(gains, self._worthwhile)
        return replace(own, examples=examples, gain=float(gains.sum()))


@dataclass(frozen=True, slots=True)
class ClassEpochs(DualSolver[Shares]):
    """Epochs of dual ascent on shares, and a line search toward where they lead.

    Parameters
    ----------
    most : int
        The most epochs between two checks.
    planes : int or None
        How many planes are combined, besides the aggregated one; None for all.
    """

    needs = (*ALL_CLASSES, PLAIN_L2)
    most: int = 60
    planes: int | None = 2
    name: str = "dual-ascent"

    def start(self, problem: Problem) -> Shares:
        """Return shares of the true classes."""
        return ClassAscent(problem).initial()

    def carried_over(self, own: Shares, run: Run) -> Shares:
        """Return the shares, which serve any regularizer."""
        return ClassAscent(run.problem).carried_over(own)

    def step(self, run: Run, own: Shares) -> Step[Shares]:
        """Improve the shares; return their plane, and the best point on the way to theirs."""
        risk = ROWS_IN_MEMORY.of(run.problem)
        epochs = ClassAscent(run.problem)
        if run.iteration == 0 and run.best.w.any() and not own.W.any():
            own = epochs.initial_at(own, cast(ScoredPoint, run.best))
        own = epochs.improved(own, most=self.most)
        offsets = own.offsets[: risk.map.score_shape[0]].copy()
        plane, own = epochs.plane(own)
        point = epochs.point(own, offsets)
        own = epochs.chosen(own, point.scores)
        segment = cast(ScoredPoint, run.best).toward(point)
        along = run.problem.norm.along(run.best.w, point.w)
        step = minimize_roughly(segment.along, along, share=_ROUGH)
        if not risk.minimizes_intercept:
            return Step([segment.at(step), point], own, [plane])
        lowest = epochs.between(run.best, point, step)
        lower = max(run.lower, run.problem.below(plane).lower)
        left = run.problem.objective(lowest) - lower
        # To find the best intercepts takes as long as several epochs, so it must be worth while.
        if left > max(_MUCH * (run.objective - lower), run.enough):
            return Step([], own, [plane])
        at = class_loss(risk).at_best_offset(
            risk.y, lowest.scores, risk.weights, lowest.offset, accuracy=_SETTLED
        )
        return Step([risk.with_scores(lowest.w, lowest.scores, at=at)], own, [plane])


def class_ascent(*, planes: int = 2) -> ClassEpochs:
    """Dual ascent on the shares of all classes, whose every check gives a plane to a small bundle.

    The method for `cutplane.CrammerSinger` and `cutplane.Softmax`, on dense or sparse rows. A plane
    has a number for each class and feature, so few are kept.

    Parameters
    ----------
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    return ClassEpochs(planes=checked_planes(planes))
