"""Losses for ranking: documents compete within queries, and only differences of scores matter.

    pairwise   sum over pairs, i more relevant than j, of  v_ij max(0, 1 - (z_i - z_j))
    ndcg       max over rankings p of  1 - NDCG@k(p) + sum_i a_p(i) z_i - sum_i a_ideal(i) z_i

The second bounds ``1 - NDCG@k`` of the ranking by scores from above (O. Chapelle, Q. Le, A. Smola:
Large margin optimization of ranking measures, 2007). ``a`` is the weight of a position. Two choices
are ours:

- The ideal ranking gives documents of the same relevance the mean weight of their positions. So the
  loss is convex, and does not depend on the order of the documents.
- Positions count up to ``k``, but not beyond the number of relevant documents. NDCG with this
  shorter list is not larger, so the bound holds. With weight on the positions below, irrelevant
  documents would have to have equal scores: on MQ2008 the optimum was ``w = 0``.

Both are sums over queries, of which those without documents of different relevance do not count.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from cutplane.core.products import dot
from cutplane.core.protocols import Quadratic, Vector
from cutplane.core.threads import map_blocks
from cutplane.losses.line_search import minimize_roughly
from cutplane.losses.loss import AtBestOffset, Loss
from cutplane.losses.queries import Judged, Queries
from cutplane.losses.ranking_kernels import ndcg_hinge, pairwise_hinge, sum_of_pair_weights

PAIR_WEIGHTS = ("equal", "grades", "gains")
PER = ("query", "pair")

# A search along a ray ends when at most this share of its gain is left. Each step costs as much as
# an evaluation of the loss. On MQ2008 (folds 1-3, lam = 1e-2 to 1e-4, gap 1e-3) there are about 8
# evaluations in an iteration, 17 with an exact search, and as many iterations.
_LEFT = 0.2


class Tangent(NamedTuple):
    """The loss at some scores: ``value = offset + slopes.scores``, and below it everywhere else."""

    value: float
    slopes: Vector
    offset: float


class _Last(NamedTuple):
    """What was computed last, and for which scores."""

    prepared: Any
    scores: Vector
    tangent: Tangent


class RankingLoss(Loss):
    """What losses over queries share. Without `for_queries` all documents are of one query."""

    task = "ranking"
    additive = False

    def __init__(self) -> None:
        self._queries: Queries | None = None
        self._forget()

    def for_queries(self, qid: Any) -> Self:
        """Return the loss for documents of these queries: numbers or words, in any order."""
        bound = copy(self)
        bound._queries = qid if isinstance(qid, Queries) else Queries(qid)
        bound._forget()
        return bound

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if the loss is not defined for these degrees of relevance."""
        if not np.isfinite(y).all():
            raise ValueError("a relevance is not finite")

    def check_judgements(self, y: Vector, weights: Vector) -> None:
        """Raise ValueError if there is nothing to rank, or weights differ within a query."""
        self._prepare(y, weights)

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the loss and its derivative by each score."""
        value, slopes, _ = self.tangent(y, scores, weights)
        return value, slopes.copy()

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the loss."""
        return self.tangent(y, scores, weights).value

    def tangent(self, y: Vector, scores: Vector, weights: Vector) -> Tangent:
        """Return value, slopes and offset of the tangent at these scores.

        The last one is kept, because a risk asks for value, slopes and offset one after another.
        """
        prepared, last = self._prepare(y, weights), self._last
        if last is None or last.prepared is not prepared or not np.array_equal(last.scores, scores):
            found = self._evaluate(prepared, scores)
            self._last = last = _Last(prepared, scores.copy(), found)
        return last.tangent

    def tangent_offset(
        self,
        y: Vector,
        scores: Vector,
        slopes: Vector,
        weights: Vector,
        *,
        value: float | None = None,
    ) -> float:
        """Return the offset of the tangent at these scores, without cancellation."""
        return self.tangent(y, scores, weights).offset

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return nearly the ``k >= 0`` that minimises ``loss(scores + k*direction) + extra(k)``."""
        prepared = self._prepare(y, weights)

        def on_ray(step: float) -> tuple[float, float]:
            value, slopes, _ = self._evaluate(prepared, scores + step * direction)
            return value, dot(slopes, direction)

        return minimize_roughly(on_ray, extra, share=_LEFT)

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Return the loss: a constant added to all scores does not change it."""
        return AtBestOffset(0.0, self.value(y, scores, weights))

    def balanced_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return the slopes, which always sum to zero."""
        return self.slopes(y, scores, weights)

    def _prepare(self, y: Vector, weights: Vector) -> Any:
        """Return what depends on targets and weights only; kept, since they rarely change."""
        prepared = self._prepared
        if prepared is None or not prepared.judged.is_for(y, weights):
            judged = Judged(self._queries or Queries.one(len(y)), y, weights)
            self._prepared = prepared = self._prepare_for(judged)
        return prepared

    def _evaluate(self, prepared: Any, scores: Vector) -> Tangent:
        judged: Judged = prepared.judged
        n_queries = len(judged.weights)
        slopes, values, offsets = np.empty(len(scores)), np.empty(n_queries), np.empty(n_queries)
        # What was sorted last is a good start for sorting. It has no effect on the result, so that
        # it may come from any earlier call; a call in another thread makes its own.
        try:
            sorting = self._sortings.pop()
        except IndexError:
            sorting = judged.positions()
        if len(sorting) != len(scores):
            sorting = judged.positions()
        map_blocks(
            lambda part: self._run(prepared, part, scores, sorting, slopes, values, offsets),
            n_queries,
            width=max(1, len(scores) // n_queries),
        )
        self._sortings.append(sorting)
        return Tangent(float(values.sum()), slopes, float(offsets.sum()))

    @abstractmethod
    def _prepare_for(self, judged: Judged) -> Any:
        """Return what the kernel needs, with the documents as ``judged``."""

    @abstractmethod
    def _run(
        self,
        prepared: Any,
        part: slice,
        scores: Vector,
        sorting: NDArray[np.int64],
        slopes: Vector,
        values: Vector,
        offsets: Vector,
    ) -> None:
        """Do the queries of ``part``."""

    def _forget(self) -> None:
        """Drop what is kept between calls."""
        self._prepared: Any = None
        self._sortings: list[NDArray[np.int64]] = []
        self._last: _Last | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_prepared": None, "_sortings": [], "_last": None}


class _Pairs(NamedTuple):
    """Pairs of all queries: ``base + level_i - level_j`` times the query's scale is their weight."""

    judged: Judged
    levels: Vector
    base: float
    scales: Vector


class PairwiseHinge(RankingLoss):
    """``max(0, 1 - (z_i - z_j))`` over pairs of a query, document i more relevant than j.

    Ties in relevance make no pair.

    Parameters
    ----------
    per : {"query", "pair"}
        The mean over queries of the mean over their pairs, or the mean over all pairs. The second
        is what a support vector machine on differences of documents minimises.
    pair_weights : {"equal", "grades", "gains"}
        What a pair counts: 1, the difference of relevance, or of ``2^relevance``.
    """

    def __init__(self, per: str = "query", pair_weights: str = "equal") -> None:
        super().__init__()
        self.per = _one_of("per", per, PER)
        self.pair_weights = _one_of("pair_weights", pair_weights, PAIR_WEIGHTS)

    def _prepare_for(self, judged: Judged) -> _Pairs:
        base, levels = 0.0, judged.relevance
        if self.pair_weights == "equal":
            base, levels = 1.0, np.zeros_like(levels)
        elif self.pair_weights == "gains":
            levels = gains_of(levels)
        totals = sum_of_pair_weights(judged.starts, judged.grades, levels, base)
        each = totals if self.per == "pair" else (totals > 0.0).astype(np.float64)
        sums = _total(judged.weights * each)
        scales = np.divide(
            judged.weights * each, sums * totals, where=totals > 0.0, out=np.zeros_like(totals)
        )
        return _Pairs(judged, levels, base, scales)

    def _run(
        self,
        prepared: _Pairs,
        part: slice,
        scores: Vector,
        sorting: NDArray[np.int64],
        slopes: Vector,
        values: Vector,
        offsets: Vector,
    ) -> None:
        judged = prepared.judged
        pairwise_hinge(
            part.start,
            part.stop,
            scores,
            judged.documents,
            judged.starts,
            judged.grades,
            prepared.levels,
            prepared.base,
            prepared.scales,
            sorting,
            slopes,
            values,
            offsets,
        )

    def __repr__(self) -> str:
        return f"PairwiseHinge(per={self.per!r}, pair_weights={self.pair_weights!r})"


class _Rankings(NamedTuple):
    """Documents and positions: normalised gains, weights in the ideal ranking, scales of queries."""

    judged: Judged
    gains: Vector
    ideal: Vector
    discounts: Vector
    position_weights: Vector
    lengths: NDArray[np.int64]
    scales: Vector


class NDCGHinge(RankingLoss):
    """A convex bound on ``1 - NDCG@k``, by the ranking that violates its margin most.

    The gain of a document is ``2^relevance - 1``, the discount of position p is ``1/log2(1 + p)``.

    Parameters
    ----------
    k : int
        How many positions count.
    decay : float, optional
        With it the weight of position p is ``p^-decay``, and the ranking is found by linear
        assignment: much slower. By default the weights are the discounts, and the ranking is found
        by sorting.
    """

    def __init__(self, k: int = 10, decay: float | None = None) -> None:
        super().__init__()
        if isinstance(k, bool) or int(k) != k or k < 1:
            raise ValueError(f"k must be a positive whole number, got {k}")
        if decay is not None and not (np.isfinite(decay) and decay > 0.0):
            raise ValueError(f"decay must be positive and finite, got {decay}")
        self.k = int(k)
        self.decay = decay

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if a gain would be negative or infinite."""
        super().check_targets(y)
        if (y < 0.0).any():
            raise ValueError(f"relevance must not be negative for NDCG, got {y.min():g}")
        gains_of(y)

    def _prepare_for(self, judged: Judged) -> _Rankings:
        positions = judged.positions()
        begins, sizes = judged.starts[:-1], np.diff(judged.starts)
        gains = gains_of(judged.relevance)
        lengths = np.minimum(np.add.reduceat((gains > 0.0).astype(np.int64), begins), self.k)
        longest = int(lengths.max())
        discounts = weights = discounts_of(longest)
        if self.decay is not None:
            weights = np.arange(1.0, longest + 1.0) ** -self.decay
        listed = positions < np.repeat(lengths, sizes)
        best = np.add.reduceat(np.where(listed, gains, 0.0) * _at(discounts, positions), begins)
        some = judged.grades[begins] > 1
        gains /= np.repeat(np.where(some, best, 1.0), sizes)
        ideal = judged.means(np.where(listed, _at(weights, positions), 0.0))
        scales = np.where(some, judged.weights, 0.0)
        return _Rankings(
            judged, gains, ideal, discounts, weights, lengths, scales / _total(scales)
        )

    def _run(
        self,
        prepared: _Rankings,
        part: slice,
        scores: Vector,
        sorting: NDArray[np.int64],
        slopes: Vector,
        values: Vector,
        offsets: Vector,
    ) -> None:
        if self.decay is not None:
            _assign(prepared, part, scores, slopes, values, offsets)
            return
        judged = prepared.judged
        ndcg_hinge(
            part.start,
            part.stop,
            scores,
            judged.documents,
            judged.starts,
            prepared.gains,
            prepared.ideal,
            prepared.discounts,
            prepared.lengths,
            prepared.scales,
            sorting,
            slopes,
            values,
            offsets,
        )

    def __repr__(self) -> str:
        decay = "" if self.decay is None else f", decay={self.decay:g}"
        return f"NDCGHinge(k={self.k}{decay})"


def _assign(
    prepared: _Rankings,
    part: slice,
    scores: Vector,
    slopes: Vector,
    values: Vector,
    offsets: Vector,
) -> None:
    """Find the most violated ranking of each query by linear assignment."""
    judged = prepared.judged
    for q in range(part.start, part.stop):
        i = slice(judged.starts[q], judged.starts[q + 1])
        documents, gains, scale = judged.documents[i], prepared.gains[i], prepared.scales[q]
        n = prepared.lengths[q]
        weights, discounts = prepared.position_weights[:n], prepared.discounts[:n]
        z = scores[documents] - scores[documents].min()
        violation = np.outer(z, weights) - np.outer(gains, discounts)
        chosen, position = linear_sum_assignment(violation, maximize=True)
        slope = -prepared.ideal[i]
        slope[chosen] += weights[position]
        offset = 1.0 - float(gains[chosen] @ discounts[position])
        slopes[documents] = scale * slope
        offsets[q] = scale * offset
        values[q] = scale * max(offset + float(slope @ z), 0.0)


def gains_of(relevance: Vector) -> Vector:
    """Return ``2^relevance - 1``."""
    with np.errstate(over="ignore"):
        gains: Vector = np.exp2(relevance) - 1.0
    if not np.isfinite(gains).all():
        raise ValueError(f"relevance {relevance.max():g} is too large for a gain of 2^relevance")
    return gains


def discounts_of(n: int) -> Vector:
    """Return ``1/log2(1 + p)`` for the first ``n`` positions."""
    discounts: Vector = 1.0 / np.log2(np.arange(2.0, n + 2.0))
    return discounts


def _at(weights: Vector, positions: NDArray[np.int64]) -> Vector:
    """Return the weights of positions, zero beyond the last one."""
    return np.append(weights, 0.0)[np.minimum(positions, len(weights))]


def _total(weights: Vector) -> float:
    """Return the sum of the weights of the queries that count."""
    total = float(weights.sum())
    if not total > 0.0:
        raise ValueError(
            "nothing to rank: no query has two documents of different relevance and a weight"
        )
    return total


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return value
