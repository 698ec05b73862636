"""Dual ascent, coordinate by coordinate, certified by the planes of its duals.

Compiled epochs of dual coordinate ascent on sparse or dense rows.

With weights ``p`` and duals ``beta`` (one slope for each example), ``w = -X'(p*beta) / lam``. The
best ``beta_i`` with all others fixed satisfies

    beta_i' in dl(z_i'),     z_i' = z_i - Q_i * (beta_i' - beta_i),     Q_i = p_i |x_i|^2 / lam,

so it is the slope of the loss at the proximal point of ``r = z_i + Q_i * beta_i``. For a loss made
of pieces that is closed-form: where ``r`` lies beyond the start of a piece by ``e``, the slope is
``e / (Q + 1/curvature)``, at most that of the piece. For the logistic loss a few steps find it.

An offset is added to all scores. It follows the duals as if it were the weight of a feature that is
the same for all examples: ``pull`` is that feature's square over ``lam``, zero for a fixed offset.

Dual coordinate ascent: many cheap steps, each on one example, certified by a plane.

For any duals ``beta`` in the domain of the loss's conjugate, ``(X'(p*beta), -sum p*l*(beta))`` is a
plane below the risk. An epoch improves the duals one after the other, and so the bound that their
plane gives; ``w = -X'(p*beta) / lam`` is the point that belongs to it. On sparse text a few epochs
are all it takes, because examples share few features.

The duality gap is the sum of what each example has to gain, ``l(z) + l*(beta) - beta*z``. An epoch
adds up what it sees of that, so that it is known when a check may prove enough. A check looks at
everything with exact scores. Duals that sit at an end of their range are left out for a while, by
the epochs and after a check (shrinking). Duals of the logistic loss are never at an end. There,
every check is followed by an epoch on all examples, and then by work on those that make up most of
the gap.

An intercept that is not regularized ties the duals together: their sum, weighted, must be zero.
That is reached by the method of multipliers: while an epoch runs, the intercept is a weight with a
regularizer of its own, and after it the center of that moves by what the sum lacks. For the plane,
the duals of the heavier sign are scaled down until the sum is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import placed
from cutplane.compute.compiled import fetch, njit
from cutplane.compute.pace import hurried
from cutplane.compute.products import dot
from cutplane.core.policies.bmrm import as_searchable, best_step
from cutplane.core.protocols import NonFiniteRisk, Plane, Point, Risk
from cutplane.core.solver import Need, Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.data.rows import Rows
from cutplane.losses.loss import LOGISTIC, MARGIN_PIECES
from cutplane.risks.composite import SampleRisk
from cutplane.risks.scored import ScoredRisk
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.needs import PLAIN_L2, sampled
from cutplane.solvers.row_products import add_row, dense_product, entries_of

IndexVector = NDArray[np.int64]

# The last step on the way to a logistic dual moves the margin by no more than this.
_LAST_STEP = 0.25
_MAX_STEPS = 100
_CONTRACT = {"contract"}


@njit(cache=True, nogil=True, inlined=True)
def _scrambled(state: np.uint64) -> np.uint64:
    """Return the state that follows (xorshift64*)."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    return state ^ (state >> np.uint64(27))


@njit(cache=True, nogil=True, inlined=True)
def _below(n: int, state: np.uint64) -> np.int64:
    """Return a random number from 0 to ``n - 1``."""
    draw = (state * np.uint64(2685821657736338717)) >> np.uint64(32)
    return np.int64((draw * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def shuffle(order: IndexVector, seed: NDArray[np.uint64]) -> None:
    """Put the entries into random order; the seed is used up and replaced."""
    state = seed[0]
    for i in range(len(order) - 1, 0, -1):
        state = _scrambled(state)
        j = _below(i + 1, state)
        order[i], order[j] = order[j], order[i]
    seed[0] = state


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def logistic_dual(margin: float, q: float, p: float) -> float:
    """Return the ``p'`` with ``p' = 1 / (1 + exp(margin + q*(p' - p)))``, to 3 % of the change.

    Here ``p = -y*beta`` and ``margin = y*z``. Halley's steps, inside a bracket, go on until one
    moves the margin by little: what it leaves is less than half of the cube of that. Near the
    optimum the first step is the last, and needs a single exponential. ``p = 0`` is no special
    case, as the entropy in the dual is never computed.
    """
    new, low, high = p, -1.0, 2.0  # a step may go to the very ends of [0, 1], once
    for _ in range(_MAX_STEPS):
        there = margin + q * (new - p)
        small = np.exp(-abs(there))
        likelier = 1.0 / (1.0 + small)
        rarer = small * likelier
        wrong = rarer if there > 0.0 else likelier
        off = new - wrong
        if off < 0.0:
            low = new
        else:
            high = new
        bend = q * rarer * likelier
        rise = 1.0 + bend
        step = -off * rise / (rise * rise + 0.5 * off * q * bend * (1.0 - 2.0 * wrong))
        if low < new + step < high or step == 0.0:
            new += step
            if abs(step) * q <= _LAST_STEP:
                break
        else:
            new = 0.5 * (low + high)
    return min(max(new, 0.0), 1.0)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, inlined=True)
def _score(
    values: NDArray[Any], indices: NDArray[Any], w: Vector, first: np.uint64, last: np.uint64
) -> float:
    """Return the dot product of a row with ``w``; a row without indices has all columns."""
    if len(indices) == 0:
        return float(dense_product(values, first, w))
    z = 0.0
    for k in range(first, last):
        z += values[k] * w[np.uint64(indices[k])]
    return z


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def _piece_gain(beyond: float, slope: float, piece: Vector) -> float:
    """Return ``piece(u) + piece*(slope) - slope*u`` where ``u`` is so far beyond the start."""
    _, bend, jump, rise, width = piece
    gain = -slope * beyond
    if bend > 0.0:
        gain += 0.5 * slope * slope / bend
        if beyond > width:
            gain += rise * (beyond - 0.5 * width)
        elif beyond > 0.0:
            gain += 0.5 * bend * beyond * beyond
    elif beyond > 0.0:
        gain += jump * beyond
    return max(gain, 0.0)  # it is no less, but for rounding


# Only the dot product may be reordered: with leave to reorder the steps too, an epoch takes 20 %
# longer (logistic loss).
@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT)
def epoch(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    form: int,
    shape: Matrix,
    y: Vector,
    weights: Vector,
    stiffness: Vector,
    lam: float,
    pull: float,
    w: Vector,
    offset: float,
    beta: Vector,
    order: IndexVector,
    seed: NDArray[np.uint64],
    reach: float,
) -> tuple[float, float, float, int, int]:
    """Improve each dual in turn, in random order, and leave out those that are settled.

    Rows without ``indices`` are dense. ``stiffness`` is ``Q``. ``w`` and ``beta`` are updated in
    place, ``order`` is shuffled, and the seed replaced. A dual is settled if it sits at an end of
    its range, and would stay there if its score changed by ``reach``.

    Returns
    -------
    offset, largest, gain : float
        The new offset, the largest change of a score by its dual, and about how much the duality
        gap was: the sum of what each example had to gain when its turn came.
    n_entries, n_left : int
        How many entries were read, and how many duals are not settled: they are the first ones in
        ``order`` now.
    """
    left_piece, right_piece = shape[0], shape[1]
    start_left, bend_left, _, rise_left, width_left = left_piece
    start_right, bend_right, _, rise_right, width_right = right_piece
    soft_left = 1.0 / bend_left if bend_left > 0.0 else 0.0
    soft_right = 1.0 / bend_right if bend_right > 0.0 else 0.0
    steepest_left = rise_left if width_left < np.inf else np.inf
    steepest_right = rise_right if width_right < np.inf else np.inf
    largest = gain = 0.0
    state = seed[0]
    dense, width = len(indices) == 0, np.uint64(len(w))
    n_left, n_entries, k = len(order), 0, 0
    while k < n_left:
        i = order[k]
        k += 1
        if k < n_left:
            state = _scrambled(state)
            pick = k + _below(n_left - k, state)
            order[pick], order[k] = order[k], order[pick]
            # Memory takes its time: the next row is on its way while this one is worked on, and an
            # epoch takes 0.6 to 0.95 times as long. Only its beginning is asked for, as all of it
            # is too much at once for rows of text (1.1 times as long).
            coming = order[k]
            begin = np.uint64(coming) * width if dense else np.uint64(starts[coming])
            fetch(indices, begin)
            fetch(values, begin)
            fetch(values, begin + np.uint64(8))
            fetch(y, coming)
            fetch(stiffness, coming)
            fetch(beta, coming)
        first = np.uint64(i) * width if dense else np.uint64(starts[i])
        last = first + width if dense else np.uint64(starts[i + 1])
        n_entries += np.int64(last - first)  # type: ignore[assignment]
        z = _score(values, indices, w, first, last)
        q, old, sign = stiffness[i], beta[i], 1.0
        if form == LOGISTIC:
            p = -y[i] * old
            found = logistic_dual(y[i] * (z + offset), q, p)
            new = -y[i] * found
            # To second order: duals that have an exponential of their own would cost another one.
            spread = max(found * (1.0 - found), 1e-9)
            off = (found - p) * (1.0 + q * spread)
            gain += weights[i] * 0.5 * off * off / spread
        else:
            r = z + offset + q * old
            v = r - y[i]
            if form == MARGIN_PIECES:
                sign = y[i]
                v = sign * r - 1.0
            right, left = v - start_right, -v - start_left
            slope, settled = 0.0, False
            # At equality with q = 0 (an empty row) a kink gives 0/0: the flat side is as good.
            if right > 0.0:
                slope = right / (q + soft_right)
                if slope > steepest_right:
                    slope = steepest_right
                    settled = right > steepest_right * (q + soft_right) + reach
            elif left > 0.0:
                slope = -left / (q + soft_left)
                if slope < -steepest_left:
                    slope = -steepest_left
                    settled = left > steepest_left * (q + soft_left) + reach
            else:
                settled = max(right, left) < -reach
            new = sign * slope
            if new != old:
                before = sign * old
                here = q * before
                if before > 0.0 or right - here > 0.0:
                    gain += weights[i] * _piece_gain(right - here, max(before, 0.0), right_piece)
                if before < 0.0 or left + here > 0.0:
                    gain += weights[i] * _piece_gain(left + here, max(-before, 0.0), left_piece)
            elif settled:
                k -= 1
                n_left -= 1
                order[k] = order[n_left]
                order[n_left] = i
        change = new - old
        if change != 0.0:
            beta[i] = new
            largest = max(largest, abs(change) * q)
            offset -= weights[i] * change * pull
            step = -weights[i] * change / lam
            add_row(values, indices, first, last, step, w)
    seed[0] = state
    return offset, largest, gain, n_entries, n_left


@njit(cache=True, nogil=True, error_model="numpy")
def find_movable(
    form: int,
    shape: Matrix,
    y: Vector,
    scores: Vector,
    weights: Vector,
    stiffness: Vector,
    beta: Vector,
    reach: float,
) -> IndexVector:
    """Return the examples whose dual would change if its score did by ``reach``, or less.

    For losses made of pieces. The others sit at an end of their range (no slope, or the steepest
    one) and are left out of the next epochs: that is shrinking, decided with exact scores.
    """
    start_left, bend_left, _, rise_left, width_left = shape[0]
    start_right, bend_right, _, rise_right, width_right = shape[1]
    soft_left = 1.0 / bend_left if bend_left > 0.0 else 0.0
    soft_right = 1.0 / bend_right if bend_right > 0.0 else 0.0
    has_left, has_right = width_left + rise_left > 0.0, width_right + rise_right > 0.0
    found = np.empty(len(y), np.int64)
    n = 0
    for i in range(len(y)):
        if weights[i] == 0.0:
            continue
        q = stiffness[i]
        r = scores[i] + q * beta[i]
        v = y[i] * r - 1.0 if form == MARGIN_PIECES else r - y[i]
        right, left = v - start_right, -v - start_left
        slope = y[i] * beta[i] if form == MARGIN_PIECES else beta[i]
        if slope > 0.0:
            settled = slope == rise_right and right > rise_right * (q + soft_right) + reach
        elif slope < 0.0:
            settled = slope == -rise_left and left > rise_left * (q + soft_left) + reach
        else:
            settled = (right < -reach or not has_right) and (left < -reach or not has_left)
        if not settled:
            found[n] = i
            n += 1
    return found[:n]


_SEED = 88172645463325252
# Examples with less than this share of the mean gain wait for the next epoch on all. Epochs and
# checks to a relative gap of 1e-4, with that and without: reuters_lasvm, lam 1e-6, 36 and more than
# 60; news20_ng, 1e-6, 25 and 57; ijcnn1, 1e-6, 41 and 54. With lam 1e-4 it makes no difference.
_WORTHWHILE = 0.03

# The feature that stands for the intercept, beside the others of a mean example (squared lengths),
# and at least so much over the number of examples. A small one hardly slows the epochs down, and
# the sum of many duals follows it all the same. Passes to 1e-3 and 1e-4 (lam = 1/m) without an
# intercept, and with 0.3, 0.1 and 0.03: reuters_lasvm 6.3 and 10, with 8.6 and 15, 7.6 and 14, 7.0
# and 13; news20_ng 8.9 and 14, with 12 and 18, 9.5 and 16, 9.2 and 15. With 1, and a center that
# moves at checks only, 12 and 23, 16 and 27.
_OF_INTERCEPT = 0.03
_FEW_EXAMPLES = 3.0

# A dual at an end of its range is left out if it would stay there when its score changed by this
# share of the largest change in the last epoch: what would have moved after all, a check finds.
# Passes to 1e-3 and 1e-4 with 1, 0.7 and 0.5: reuters_lasvm, lam = 1/m, 6.5 and 11, 5.5 and 9.4,
# 4.9 and 9.0; 1e-4, 7.4 and 11, 6.5 and 9.3, 6.1 and 14; 1e-6, 148 and 170, 130 and 151, 109 and
# 130; news20_ng, 1/m, 9.2 and 14, 8.5 and 15, 8.1 and 12; 3e-5, 19 and 38, 17 and 30, 15 and 31.
_CAUTION = 0.7

# At the end of an epoch the gap is less than what the epoch saw of it: by the square root of the
# ratio to what the one before it saw, but not by much more than this.
_LEFT_OVER = 0.3


@dataclass(frozen=True, slots=True)
class Duals:
    """The duals of a linear risk, and which of them still move.

    Attributes
    ----------
    beta : ndarray
        A dual for each example.
    w : ndarray
        The point that belongs to them.
    offset : float
        The intercept, or the center of its regularizer.
    movable, visited : ndarray
        The examples whose duals still move, and those of an epoch on all, in random order.
    reach : float
        How far duals and intercept moved a score at most in the last epoch.
    seed : ndarray
        Of the next random order.
    stiffness : ndarray
        How steeply the slope along each dual falls.
    pull : float
        The same for the intercept; zero if there is none.
    """

    beta: Annotated[Vector, "f8[n]"]
    w: Vector
    offset: float
    movable: Annotated[IndexVector, "i8[*]<n"]
    visited: Annotated[IndexVector, "i8[*]<n"]
    reach: float
    seed: NDArray[np.uint64]
    stiffness: Annotated[Vector, "f8[n]"]
    pull: float


class DualAscent:
    """Dual coordinate ascent for one problem; all that changes is in the `Duals`.

    Arrays of duals are changed in place: they are as long as the sample.
    """

    def __init__(self, problem: Problem) -> None:
        self._risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        self._rows: Any = self._risk.rows
        self._loss: Any = self._risk.loss
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]
        form = self._risk.loss.dual_form
        assert form is not None
        self._kind, self._shape = form

    @property
    def never_settle(self) -> bool:
        """Whether no dual is ever at an end of its range."""
        return bool(self._kind == LOGISTIC)

    def begun(self) -> Duals:
        """Return duals of zero."""
        risk = self._risk
        norms = finite_norms(self._rows)
        pull = 0.0
        if risk.intercept:
            # It must not vanish with the features: it also tells that duals have to be balanced.
            share = max(_OF_INTERCEPT, _FEW_EXAMPLES / len(norms))
            pull = share * (dot(risk.weights, norms) or 1.0) / self._lam
        movable = np.flatnonzero(risk.weights)
        return Duals(
            beta=np.zeros(len(risk.y)),
            w=np.zeros(risk.n_parameters),
            offset=0.0,
            movable=movable,
            # Only the logistic loss goes on to visit all of them.
            visited=movable.copy() if self.never_settle else np.empty(0, dtype=np.intp),
            reach=math.inf,
            seed=np.array([_SEED], dtype=np.uint64),
            stiffness=risk.weights * (norms / self._lam + pull),
            pull=pull,
        )

    def improved(
        self, duals: Duals, *, passes: float, most: int, enough: float = 0.0, objective: float = 1.0
    ) -> Duals:
        """Run epochs on the movable duals, worth about so many passes over all of the data.

        They end before that when the gap seems to be ``enough``, where the objective is so large,
        or the same share of a smaller one.
        """
        budget, seen = passes * self._rows.n_entries, 0
        last, lowest = 0.0, objective
        for k in range(most):
            examples = duals.visited if k == 0 and self.never_settle else duals.movable
            duals, gap, n_entries = self._epoch(duals, examples)
            seen += n_entries
            left = gap
            if gap < last:
                left *= max(math.sqrt(gap / last), _LEFT_OVER)
            last = gap
            if seen >= budget or hurried():
                break
            if left * objective <= enough * lowest:
                # What counts is the objective that the duals lead to. It falls from epoch to epoch.
                lowest = min(lowest, self._bound(duals) + left)
                if left * objective <= enough * lowest:
                    break
        return duals

    def _bound(self, duals: Duals) -> float:
        """Return the lower bound that the duals give, but for what an intercept asks of them."""
        slopes = self._risk.weights * duals.beta
        conjugate: float = self._loss.conjugate(self._risk.y, slopes, self._risk.weights)
        return -conjugate - 0.5 * self._lam * dot(duals.w, duals.w)

    def _epoch(self, duals: Duals, examples: IndexVector) -> tuple[Duals, float, int]:
        """Improve some duals; return them, about how large the gap was, and the entries read."""
        offset, reach, gap, n_entries, n_left = epoch(
            *entries_of(self._rows), self._kind, self._shape, self._risk.y, self._risk.weights,
            duals.stiffness, self._lam, duals.pull, duals.w, duals.offset, duals.beta, examples,
            duals.seed, duals.reach,
        )  # fmt: skip
        if duals.pull:
            lacking = dot(self._risk.weights, duals.beta)
            offset -= duals.pull * lacking
            gap += 0.5 * duals.pull * lacking * lacking
        movable = duals.movable if self.never_settle else examples[:n_left]
        return (
            replace(duals, offset=offset, reach=_CAUTION * reach, movable=movable),
            gap,
            n_entries,
        )

    def plane(self, duals: Duals) -> tuple[Plane, Duals]:
        """Return the plane of the duals, computed afresh.

        Without an intercept ``w`` becomes exactly its minimizer, free of the epochs' rounding.
        """
        risk = self._risk
        slopes = risk.weights * duals.beta
        if duals.pull:
            slopes = balanced(slopes)
        plane = Plane(
            self._rows.pullback(slopes), -self._loss.conjugate(risk.y, slopes, risk.weights)
        )
        return plane, duals if duals.pull else replace(duals, w=-plane.slope / self._lam)

    def shrunk(self, duals: Duals, scores: Vector) -> Duals:
        """Leave the duals alone that would not move, given exact scores at ``w``."""
        risk, scores = self._risk, scores + duals.offset
        if self.never_settle:
            values, _, _ = self._loss.derivatives(risk.y, scores)
            gains = values + self._loss.conjugates(risk.y, duals.beta) - duals.beta * scores
            gains *= risk.weights
            return replace(duals, movable=np.flatnonzero(gains > _WORTHWHILE * gains.mean()))
        movable = find_movable(
            self._kind, self._shape, risk.y, scores, risk.weights, duals.stiffness, duals.beta,
            duals.reach,
        )  # fmt: skip
        return replace(duals, movable=movable)


def first_point(risk: Risk, w: Vector) -> Point:
    """Evaluate a linear risk where a run starts: at zero, mostly, where scores are known."""
    if w.any() or placed() is not None or not isinstance(risk, ScoredRisk):
        return risk.at(w)
    risk.evaluations += 1
    at = risk.loss.at_scores_of_zero(risk.y, risk.weights) if risk.minimizes_intercept else None
    return risk.with_scores(w, np.zeros((len(risk.y), *risk.map.score_shape)), at=at)


def finite_norms(rows: Rows) -> Vector:
    """Return the squared lengths of rows; NonFiniteRisk if one is no number, or infinite."""
    norms = rows.squared_norms()
    if not np.isfinite(norms).all():
        raise NonFiniteRisk("the square of a feature is not finite: scale the features")
    return norms


def balanced(slopes: Vector) -> Vector:
    """Return slopes that sum to zero, by scaling down those of the heavier sign, in place."""
    rising, falling = slopes > 0.0, slopes < 0.0
    up, down = float(slopes.sum(where=rising)), -float(slopes.sum(where=falling))
    if up == 0.0 or down == 0.0:
        slopes.fill(0.0)
        return slopes
    np.multiply(slopes, min(down / up, 1.0), out=slopes, where=rising)
    np.multiply(slopes, min(up / down, 1.0), out=slopes, where=falling)
    return slopes


def _dual_form(risk: object) -> tuple[int, Matrix] | None:
    return risk.loss.dual_form if isinstance(risk, SampleRisk) else None


DUAL_FORM = Need("risk", _dual_form, "a loss that is piecewise or logistic")


@dataclass(frozen=True, slots=True)
class DualEpochs(Solver[Duals]):
    """Epochs of dual coordinate ascent, and a line search toward where they lead.

    Parameters
    ----------
    passes : float, optional
        About how many passes over the data the epochs between two checks are worth at most. By
        default 10, and 6 for the logistic loss, which finds out in a check where to work.
    most : int
        The most epochs between two checks, however few duals still move.
    planes : int or None
        How many planes of duals are combined, besides the aggregated one; None for all.
    """

    needs = (
        sampled("a linear risk on rows in memory", lambda risk: risk.features.dual_steps),
        sampled(
            "a linear risk with one score an example",
            lambda risk: not isinstance(risk, ScoredRisk) or risk.map.plain,
        ),
        DUAL_FORM,
        PLAIN_L2,
    )
    takes_first_plane: ClassVar[bool] = False
    passes: float | None = None
    most: int = 30
    planes: int | None = 4
    name: str = "dual-ascent"

    def start(self, problem: Problem) -> Any:
        """Return duals of zero."""
        if placed() is not None:
            return _on_shards(problem).begun()
        return DualAscent(problem).begun()

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk where the run starts."""
        return first_point(problem.risk, w)

    def step(self, run: Run, own: Any) -> Step[Any]:
        """Improve the duals; return their plane, and the best point on the way to theirs."""
        risk: Any = run.problem.risk
        if placed() is not None:
            return cast("Step[Any]", _on_shards(run.problem).step(run, own, self.passes))
        epochs = DualAscent(run.problem)
        usual = 6.0 if epochs.never_settle else 10.0
        own = epochs.improved(
            own,
            passes=usual if self.passes is None else self.passes,
            most=self.most,
            enough=run.enough,
            objective=run.objective,
        )
        plane, own = epochs.plane(own)
        point = risk.at(own.w.copy())
        points = points_toward(run, point)
        return Step(points, epochs.shrunk(own, point.scores), [plane])


def points_toward(run: Run, point: Point) -> list[Point]:
    """Return the point of duals, and before it the best one on the way there."""
    best = as_searchable(run.best)
    if best is None:
        return [point]
    segment = best.toward(point)
    along = run.problem.norm.along(best.w, point.w)
    return [segment.at(best_step(segment, along)), point]


def _on_shards(problem: Problem) -> Any:
    """Return what improves the duals of the shards of a worker."""
    from cutplane.solvers.local_dual_ascent import LocalEpochs  # only if there are shards

    return LocalEpochs(problem)


def dual_ascent(*, passes: float | None = None, planes: int | None = 4) -> DualEpochs:
    """Dual coordinate ascent whose every check gives a plane to a small bundle.

    The method for data with many features, such as text, or the features of landmarks. It needs
    rows in memory and a loss made of pieces or the logistic loss (all but exponential and Poisson).
    Where CSR rows lie on several machines, each shard improves its own duals between two exchanges,
    and steps of the bundle method come between where that is slow: give it all planes then,
    ``planes=None``.

    Parameters
    ----------
    passes : float, optional
        About how many passes over the data the epochs between two checks are worth at most. By
        default 10, and 6 for the logistic loss; 2 on shards.
    planes : int or None
        Size of the bundle, besides the aggregated plane; None keeps all planes.
    """
    return DualEpochs(passes=passes, planes=checked_planes(planes))
