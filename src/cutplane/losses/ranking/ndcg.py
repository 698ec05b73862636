"""A convex bound on the normalized discounted cumulative gain, made of pairs.

NDCG is a mean over grades: with the documents of at least a grade for relevant, all alike, and the
others for irrelevant, it is the NDCG of two grades. The grade's share is its step in gain times the
best sum of discounts that its documents can have. For each grade the loss is

    max over rankings p of  sum over pairs (i, j) in the wrong order in p of  margin_m + z_j - z_i

divided by the number of all pairs of a relevant document i and another one j, which is the m-th of
those above i in ``p``. For the ranking by score no ``z_j - z_i`` is negative. So this is a bound on
``1 - NDCG@k`` if for every ranking the margins sum to no less than that (`ranking_margins.py`), and
it is at least the mean hinge loss of pairs, since no margin is below 1.

A bound in which only documents at the top count is tighter, but its optimum is ``w = 0`` as soon as
noise lifts some of many irrelevant documents above the mean relevant one. Here all pairs weigh the
same, as in the pairwise loss, and only the margins are larger at the top.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.losses.ranking.kernels import ndcg_hinge
from cutplane.losses.ranking.loss import Answers, RankingLoss, total_of
from cutplane.losses.ranking.margins import MarginTables, margin_tables
from cutplane.losses.ranking.queries import Judged, discounts_of, gains_of


class _Graded(NamedTuple):
    """Documents, and the margins of each query and grade."""

    judged: Judged
    tables: MarginTables


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

    The gain of a document is ``2^relevance - 1``, the discount of position p is ``1/log2(1 + p)``.
    A query of n documents takes ``n log n`` steps, and n for each of its grades.

    Parameters
    ----------
    k : int
        How many positions count.
    """

    def _prepare_for(self, judged: Judged) -> _Graded:
        some = judged.grades[judged.starts[:-1]] > 1
        scales = np.where(some, judged.weights, 0.0)
        scales /= total_of(scales)
        longest = min(self.k, int(np.diff(judged.starts).max()))
        tables = margin_tables(
            judged.starts,
            judged.grades,
            gains_of(judged.relevance),
            scales,
            discounts_of(longest),
        )
        return _Graded(judged, MarginTables(*tables))

    def _run(
        self,
        prepared: _Graded,
        part: slice,
        scores: Vector,
        sorting: NDArray[np.int64],
        out: Answers,
    ) -> None:
        judged = prepared.judged
        ndcg_hinge(
            part.start,
            part.stop,
            scores,
            judged.documents,
            judged.starts,
            judged.grades,
            *prepared.tables,
            sorting,
            *out,
        )
