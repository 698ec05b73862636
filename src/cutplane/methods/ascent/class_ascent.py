"""Dual ascent on the shares of classes: Crammer and Singer's loss and softmax, certified.

Any shares ``P`` of the classes, one point of the simplex for each example, make slopes ``P - e_y``
and so a plane below the risk. An epoch improves the shares of one example after the other
(`ascent.class_kernels`), and so the bound that their plane gives; the weights that
belong to them are those at which the plane and the regularizer are lowest.

Everything is checked with exact scores every few epochs. The gap is a sum over examples, of what
each has to gain by other shares. Those that have little wait for the next check; in between, an
example leaves as soon as it is found to have little to gain (shrinking), and the epochs end when
what is left is a small part of what there was.

Intercepts that are not regularized ask for shares whose weighted sum over the examples is the
weight of each class. That is reached by the method of multipliers as in
`ascent.dual_ascent`: while the epochs run they are weights with a regularizer of
their own, centered where the last check left them. For the plane, shares are moved from classes
that have too much to those that lack some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector, copied
from cutplane.compute.pace import hurried
from cutplane.compute.threads import map_blocks
from cutplane.core.method import Found, Method, Query
from cutplane.core.needs import PLAIN_L2, quadratic
from cutplane.core.protocols import Plane, Point
from cutplane.core.search import minimize_roughly
from cutplane.core.state import Candidate, Problem, State
from cutplane.losses.multiclass.kernels import Indices, class_sums, make_slopes
from cutplane.losses.multiclass.offsets import repaired
from cutplane.maps.rows import Entries
from cutplane.methods.ascent import class_kernels as kernels
from cutplane.methods.ascent.coordinate_kernels import shuffle
from cutplane.methods.ascent.dual_ascent import finite_norms, first_point
from cutplane.methods.bundle import with_query
from cutplane.methods.needs import ALL_CLASSES
from cutplane.methods.row_products import entries_of
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint

_SEED = 88172645463325252
# Columns of weights come in fours, so that no loop over them has a rest.
_COLUMNS = 4
# Examples with no more than this share of the mean gain wait for the next check: for Crammer and
# Singer's loss, and for softmax, where all have some. (Crammer and Singer, lam = 1/m, processor
# seconds to proven 1e-4 with 0 and with 0.03: dna 0.5 and 1.2, satimage 0.23 and 0.33, 26 generated
# classes 0.43 and 0.67, digits 0.31 and 0.43, news20_ng 2.1 and 3.3.)
_WORTHWHILE = {False: 0.0, True: 0.03}
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
    stiffness : ndarray
        By how much the shares of each example move its own scores.
    pull : float
        The same for the intercepts; zero if there are none.
    lam : float
        The regularizer's.
    """

    shares: Matrix
    W: Matrix
    offsets: Vector
    examples: Indices
    gain: float
    seed: NDArray[np.uint64]
    stiffness: Vector
    pull: float
    lam: float


class ClassAscent:
    """Dual ascent for one problem; all that changes is in the `Shares`.

    Arrays are changed in place: they are as large as the scores, and as the weights.
    """

    def __init__(self, problem: Problem) -> None:
        self._risk: ScoredRisk = problem.risk  # type: ignore[assignment]
        self._lam: float = problem.regularizer.lam  # type: ignore[attr-defined]
        (self._n_classes,) = self._risk.map.score_shape
        self._soft: bool = self._risk.loss.smooth
        self._margins: Matrix = self._risk.loss.margins(self._n_classes)
        self._worthwhile = _WORTHWHILE[self._soft]

    def begun(self) -> Shares:
        """Return shares that are all those of the true classes."""
        risk, k = self._risk, self._n_classes
        n_columns = -(-k // _COLUMNS) * _COLUMNS
        offsets = np.zeros(n_columns)
        offsets[k:] = -np.inf
        shares = np.zeros((len(risk.y), k))
        shares[np.arange(len(risk.y)), risk.y] = 1.0
        return self._anew(shares, np.zeros((risk.rows.shape[1], n_columns)), offsets)

    def begun_at(self, own: Shares, point: ScoredPoint) -> Shares:
        """Return the shares that the slopes at a point are made of: where to begin near it."""
        risk, k = self._risk, self._n_classes
        slopes = point.slopes
        own.W[:, :k] = risk.map.pullback(slopes).reshape(k, -1).T
        own.W[:, :k] *= -1.0 / self._lam
        own.shares[:] += slopes / np.where(risk.weights > 0.0, risk.weights, 1.0)[:, None]
        np.maximum(own.shares, 0.0, out=own.shares)
        own.offsets[:k] = point.offset
        return own

    def carried_over(self, own: Shares) -> Shares:
        """Return the shares that were found with another ``lam``."""
        own = copied(own)
        own.W[:] *= own.lam / self._lam
        return self._anew(own.shares, own.W, own.offsets)

    def _anew(self, shares: Matrix, W: Matrix, offsets: Vector) -> Shares:
        """Return shares to begin with."""
        risk = self._risk
        norms = finite_norms(risk.rows)
        # As strong as the features together, on average; not vanishing with them.
        pull = 0.0
        if risk.minimizes_intercept:
            pull = (float(risk.weights @ norms) or 1.0) / self._lam
        return Shares(
            shares=shares,
            W=W,
            offsets=offsets,
            examples=np.flatnonzero(risk.weights),
            gain=np.inf,
            seed=np.array([_SEED], dtype=np.uint64),
            stiffness=risk.weights * (norms / self._lam + pull),
            pull=pull,
            lam=self._lam,
        )

    def improved(self, own: Shares, *, most: int) -> Shares:
        """Run epochs until most of what there was to gain is gained."""
        rows: Any = self._risk.rows
        # Epochs read rows again and again, so zeros are worth leaving out.
        nonzeros: Entries | None = None if rows.sparse else rows.nonzeros
        values, indices, starts = nonzeros or entries_of(rows)
        examples, gain, at_first = own.examples, own.gain, own.gain
        gains = np.empty(len(self._risk.y))
        for n in range(most):
            least = self._worthwhile * gain / max(len(examples), 1) if n > 0 else 0.0
            order = examples.copy()
            shuffle(order, own.seed)
            kernels.epoch(
                values, indices, starts, rows.shape[1], self._soft, self._margins, self._risk.y,
                self._risk.weights, own.stiffness, self._lam, own.pull, own.W, own.offsets,
                own.shares, order, least, gains,
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
        if own.pull:
            parts = map_blocks(
                lambda i: class_sums(slopes[i], risk.y[i], risk.weights[i]), len(risk.y), width=k
            )
            own.offsets[:k] -= own.pull * np.sum(parts, axis=0)[1]
            repaired(slopes, risk.y, risk.weights)
        map_blocks(lambda i: make_slopes(slopes[i], risk.y[i]), len(risk.y), width=k)
        offset = -risk.loss.conjugate(risk.y, slopes, risk.weights)
        slopes *= risk.weights[:, None]
        plane = Plane(risk.map.pullback(slopes), offset)
        if not own.pull:
            own.W[:, :k] = plane.slope.reshape(k, -1).T
            own.W[:, :k] *= -1.0 / self._lam
        return plane, own

    def point(self, own: Shares, offsets: Vector) -> ScoredPoint:
        """Return the point at the weights, with these offsets if there are intercepts."""
        risk, k = self._risk, self._n_classes
        w = np.ascontiguousarray(own.W[:, :k].T).ravel()
        scores = risk.map.scores(w)
        risk.evaluations += 1
        at = risk.loss.at_offset(risk.y, scores, risk.weights, offsets) if own.pull else None
        return risk.with_scores(w, scores, at=at)

    def settled(self, point: ScoredPoint) -> ScoredPoint:
        """Return the same point with intercepts that are the best ones, nearly."""
        risk = self._risk
        at = risk.loss.at_best_offset(
            risk.y, point.scores, risk.weights, point.offset, accuracy=_SETTLED
        )
        return risk.with_scores(point.w, point.scores, at=at)

    def between(self, start: Any, end: ScoredPoint, step: float) -> ScoredPoint:
        """Return a point between two, whose intercepts are between theirs."""
        risk = self._risk
        w, scores, offsets = (
            begin + step * (finish - begin)
            for begin, finish in (
                (start.w, end.w), (start.scores, end.scores), (start.offset, end.offset),
            )
        )  # fmt: skip
        at = risk.loss.at_offset(risk.y, scores, risk.weights, offsets)
        return risk.with_scores(w, scores, at=at)

    def chosen(self, own: Shares, scores: Matrix) -> Shares:
        """Choose the examples to visit, given exact scores."""
        risk = self._risk
        gains = np.empty(len(risk.y))
        map_blocks(
            lambda i: kernels.fill_gains(
                self._soft, self._margins, risk.y[i], risk.weights[i], scores[i], own.offsets,
                own.shares[i], gains[i],
            ),
            len(gains),
            width=self._n_classes,
        )  # fmt: skip
        gain = float(gains.sum())
        return replace(
            own, examples=np.flatnonzero(gains > self._worthwhile * gain / len(gains)), gain=gain
        )


@dataclass(frozen=True, slots=True)
class ClassEpochs(Query[Shares]):
    """Query by epochs of dual ascent on shares, and a line search toward where they lead.

    Parameters
    ----------
    most : int
        The most epochs between two checks.
    """

    needs = (*ALL_CLASSES, PLAIN_L2)
    makes_planes: ClassVar[bool] = True
    knows_first_plane: ClassVar[bool] = True
    most: int = 60

    def init(self, problem: Problem) -> Shares:
        """Return shares of the true classes."""
        return ClassAscent(problem).begun()

    def first(self, problem: Problem, w: Vector) -> Point:
        """Evaluate the risk where the run starts."""
        return first_point(problem.risk, w)

    def carried_over(self, own: Shares, state: State) -> Shares:
        """Return the shares, which serve any regularizer."""
        return ClassAscent(state.problem).carried_over(own)

    def __call__(self, state: State, candidate: Candidate, own: Shares) -> tuple[Found, Shares]:
        """Improve the shares; return their plane, and the best point on the way to theirs."""
        risk: Any = state.problem.risk
        epochs = ClassAscent(state.problem)
        if state.iteration == 0 and state.best.w.any() and not own.W.any():
            own = epochs.begun_at(own, cast(ScoredPoint, state.best))
        own = epochs.improved(own, most=self.most)
        offsets = own.offsets[: risk.map.score_shape[0]].copy()
        plane, own = epochs.plane(own)
        point = epochs.point(own, offsets)
        own = epochs.chosen(own, point.scores)
        segment = cast(ScoredPoint, state.best).toward(point)
        along = quadratic(state.problem.regularizer).along(state.best.w, point.w)
        step = minimize_roughly(segment.along, along, share=_ROUGH)
        if not own.pull:
            return Found([segment.at(step), point], [], [plane]), own
        lowest = epochs.between(state.best, point, step)
        lower = max(state.lower, state.problem.below(plane).lower)
        left = state.problem.objective(lowest) - lower
        # To find the best intercepts takes as long as several epochs, so it must be worth while.
        if left > max(_MUCH * (state.objective - lower), state.enough):
            return Found([], [], [plane]), own
        return Found([epochs.settled(lowest)], [], [plane]), own


def class_ascent(*, planes: int = 2) -> Method:
    """Dual ascent on the shares of all classes, whose every check gives a plane to a small bundle.

    The method for `cutplane.CrammerSinger` and `cutplane.Softmax`, on dense or sparse rows. A plane
    has a number for each class and feature, so few are kept.

    Parameters
    ----------
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    return with_query(ClassEpochs(), planes=planes, name="dual-ascent")
