"""The losses for ranking: hinge losses of pairs of documents, and convex bounds on NDCG.

**Pairs.** Over the pairs of a query, i more relevant than j, each with a weight ``v_ij``:

    sum of  v_ij max(0, 1 - (z_i - z_j))

**NDCG by pairs.** NDCG is a mean over grades: with the documents of at least a grade for relevant,
all alike, and the others for irrelevant, it is the NDCG of two grades. The grade's share is its
step in gain times the best sum of discounts that its documents can have. For each grade the loss is

    max over rankings p of  sum over pairs (i, j) in the wrong order in p of  margin_m + z_j - z_i

divided by the number of all pairs of a relevant document i and another one j, which is the m-th of
those above i in ``p``. For the ranking by score no ``z_j - z_i`` is negative. So this is a bound on
``1 - NDCG@k`` if for every ranking the margins sum to no less than that (`margins.py`), and it is
at least the mean hinge loss of pairs, since no margin is below 1.

A bound in which only documents at the top count is tighter, but its optimum is ``w = 0`` as soon as
noise lifts some of many irrelevant documents above the mean relevant one. Here all pairs weigh the
same, as in the pairwise loss, and only the margins are larger at the top.

**NDCG by whole rankings** (O. Chapelle, Q. Le, A. Smola: Large margin optimization of ranking
measures, 2007), where ``a`` is the weight of a position:

    max over rankings p of  1 - NDCG@k(p) + sum_i a_p(i) z_i - sum_i a_ideal(i) z_i

It bounds ``1 - NDCG@k`` of the ranking by scores from above. Two choices are ours:

- The ideal ranking gives documents of the same relevance the mean weight of their positions. So the
  loss is convex, and does not depend on the order of the documents.
- Positions count up to ``k``, but not beyond the number of relevant documents. NDCG with this
  shorter list is not larger, so the bound holds. With weight on the positions below, irrelevant
  documents would have to have equal scores: on MQ2008 the optimum was ``w = 0``.

At ``w = 0`` the ranking that counts has irrelevant documents only. A direction makes the loss less
if it lifts the mean relevant document above the highest of the irrelevant ones; where there are
many, noise prevents that, and ``w = 0`` is the optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.losses.ranking.competition import Competition
from cutplane.losses.ranking.kernels import (
    ndcg_hinge,
    ndcg_list_hinge,
    pairwise_hinge,
    sum_of_pair_weights,
)
from cutplane.losses.ranking.loss import RankingLoss, total_of
from cutplane.losses.ranking.margins import margin_tables
from cutplane.losses.ranking.queries import Judged, discounts_at, discounts_of, gains_of

_OPTIONS = {"per": ("query", "pair"), "pair_weights": ("equal", "grades", "gains")}


class PairwiseHinge(RankingLoss):
    """``max(0, 1 - (z_i - z_j))`` over pairs of a query, document i more relevant than j.

    Ties in relevance make no pair.

    Parameters
    ----------
    per : {"query", "pair"}
        The mean over queries of the mean over their pairs, or the mean over all pairs. The second
        is what a support vector machine on differences of documents minimizes.
    pair_weights : {"equal", "grades", "gains"}
        What a pair counts: 1, the difference of relevance, or of ``2^relevance``.
    """

    _kernel = staticmethod(pairwise_hinge)

    def __init__(self, per: str = "query", pair_weights: str = "equal") -> None:
        super().__init__()
        self.per, self.pair_weights = per, pair_weights
        for name, known in _OPTIONS.items():
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")

    def _kernel_arguments(self, competition: Competition, judged: Judged) -> tuple[Any, ...]:
        base, levels = 0.0, judged.relevance
        if self.pair_weights == "equal":
            base, levels = 1.0, np.zeros_like(levels)
        elif self.pair_weights == "gains":
            levels = gains_of(levels)
        totals = sum_of_pair_weights(judged.starts, judged.grades, levels, base)
        each = totals if self.per == "pair" else (totals > 0.0).astype(np.float64)
        scales = np.zeros_like(totals)
        weights = judged.weights * each
        total = total_of(competition, weights)
        np.divide(weights, total * totals, where=totals > 0.0, out=scales)
        return judged.grades, levels, base, scales

    def __repr__(self) -> str:
        return f"PairwiseHinge(per={self.per!r}, pair_weights={self.pair_weights!r})"


class NDCGLoss(RankingLoss):
    """What losses for the first ``k`` positions share."""

    def __init__(self, k: int = 10) -> None:
        super().__init__()
        if isinstance(k, bool) or int(k) != k or k < 1:
            raise ValueError(f"k must be a positive whole number, got {k}")
        self.k = int(k)

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if a gain would be negative or infinite."""
        super().check_targets(y)
        if (y < 0.0).any():
            raise ValueError(f"relevance must not be negative for NDCG, got {y.min():g}")
        gains_of(y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k})"


class NDCGHinge(NDCGLoss):
    """A convex bound on ``1 - NDCG@k``: the hinge loss of pairs, with larger margins at the top.

    The first ``k`` positions count. The gain of a document is ``2^relevance - 1``, the discount of
    position p is ``1/log2(1 + p)``. A query of n documents takes ``n log n`` steps, and n for each
    of its grades.
    """

    _kernel = staticmethod(ndcg_hinge)

    def _kernel_arguments(self, competition: Competition, judged: Judged) -> tuple[Any, ...]:
        starts, grades = judged.starts, judged.grades
        discounts = discounts_of(min(self.k, int(np.diff(starts).max())))
        gains = gains_of(judged.relevance)
        return grades, *margin_tables(
            starts, grades, gains, _query_scales(competition, judged), discounts
        )


class NDCGListHinge(NDCGLoss):
    """A convex bound on ``1 - NDCG@k``, by the ranking that violates its margin most.

    The first ``k`` positions count. The gain of a document is ``2^relevance - 1``, the discount of
    position p is ``1/log2(1 + p)``.

    The optimum is ``w = 0`` where queries have many irrelevant documents, unless relevant ones are
    easily told from them: `NDCGHinge` is the one to try first.
    """

    _kernel = staticmethod(ndcg_list_hinge)

    def _kernel_arguments(self, competition: Competition, judged: Judged) -> tuple[Any, ...]:
        begins, sizes = judged.starts[:-1], np.diff(judged.starts)
        gains = gains_of(judged.relevance)
        lengths = np.minimum(np.add.reduceat((gains > 0.0).astype(np.int64), begins), self.k)
        discounts = discounts_of(int(lengths.max()))
        positions = judged.positions()
        ideal = np.where(
            positions < np.repeat(lengths, sizes), discounts_at(positions, len(discounts)), 0.0
        )
        best = np.add.reduceat(gains * ideal, begins)
        scales = _query_scales(competition, judged)
        gains /= np.repeat(np.where(judged.grades[begins] > 1, best, 1.0), sizes)
        return gains, judged.means(ideal), discounts, lengths, scales


def _query_scales(competition: Competition, judged: Judged) -> Vector:
    """Return the weights of the queries with different relevances, scaled to sum to one."""
    some = judged.grades[judged.starts[:-1]] > 1
    weights = np.where(some, judged.weights, 0.0)
    return weights / total_of(competition, weights)
