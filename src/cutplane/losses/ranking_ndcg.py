"""A convex bound on the normalised discounted cumulative gain.

    max over rankings p of  1 - NDCG@k(p) + sum_i a_p(i) z_i - sum_i a_ideal(i) z_i

It bounds ``1 - NDCG@k`` of the ranking by scores from above (O. Chapelle, Q. Le, A. Smola: Large
margin optimization of ranking measures, 2007). ``a`` is the weight of a position. Two choices are
ours:

- The ideal ranking gives documents of the same relevance the mean weight of their positions. So the
  loss is convex, and does not depend on the order of the documents.
- Positions count up to ``k``, but not beyond the number of relevant documents. NDCG with this
  shorter list is not larger, so the bound holds. With weight on the positions below, irrelevant
  documents would have to have equal scores: on MQ2008 the optimum was ``w = 0``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.core.protocols import Vector
from cutplane.losses.queries import Judged, discounts_of, gains_of
from cutplane.losses.ranking import Answers, RankingLoss, total_of
from cutplane.losses.ranking_kernels import ndcg_hinge


class _Rankings(NamedTuple):
    """Documents with gains and ideal weights, positions, and the lists of queries."""

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
            judged, gains, ideal, discounts, weights, lengths, scales / total_of(scales)
        )

    def _run(
        self,
        prepared: _Rankings,
        part: slice,
        scores: Vector,
        sorting: NDArray[np.int64],
        out: Answers,
    ) -> None:
        if self.decay is not None:
            _assign(prepared, part, scores, out)
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
            *out,
        )

    def __repr__(self) -> str:
        decay = "" if self.decay is None else f", decay={self.decay:g}"
        return f"NDCGHinge(k={self.k}{decay})"


def _assign(
    prepared: _Rankings,
    part: slice,
    scores: Vector,
    out: Answers,
) -> None:
    """Find the most violated ranking of each query by linear assignment."""
    from scipy.optimize import linear_sum_assignment  # takes long to import, and is rarely needed

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
        out.slopes[documents] = scale * slope
        out.offsets[q] = scale * offset
        out.values[q] = scale * max(offset + float(slope @ z), 0.0)


def _at(weights: Vector, positions: NDArray[np.int64]) -> Vector:
    """Return the weights of positions, zero beyond the last one."""
    return np.append(weights, 0.0)[np.minimum(positions, len(weights))]
