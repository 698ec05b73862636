"""The hinge loss of pairs of documents.

sum over pairs of a query, i more relevant than j, of  v_ij max(0, 1 - (z_i - z_j))
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.losses.ranking.kernels import pairwise_hinge, sum_of_pair_weights
from cutplane.losses.ranking.loss import Answers, RankingLoss, total_of
from cutplane.losses.ranking.queries import Judged, gains_of

PAIR_WEIGHTS = ("equal", "grades", "gains")
PER = ("query", "pair")


class _Pairs(NamedTuple):
    """Pairs weigh ``base + level_i - level_j`` times the scale of their query."""

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
        is what a support vector machine on differences of documents minimizes.
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
        sums = total_of(judged.weights * each)
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
        out: Answers,
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
            *out,
        )

    def __repr__(self) -> str:
        return f"PairwiseHinge(per={self.per!r}, pair_weights={self.pair_weights!r})"


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return value
