"""A convex bound on the normalized discounted cumulative gain, by whole rankings.

    max over rankings p of  1 - NDCG@k(p) + sum_i a_p(i) z_i - sum_i a_ideal(i) z_i

It bounds ``1 - NDCG@k`` of the ranking by scores from above (O. Chapelle, Q. Le, A. Smola: Large
margin optimization of ranking measures, 2007). ``a`` is the weight of a position. Two choices are
ours:

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.losses.ranking.kernels import ndcg_list_hinge
from cutplane.losses.ranking.loss import Answers, total_of
from cutplane.losses.ranking.ndcg import NDCGLoss
from cutplane.losses.ranking.queries import Judged, discounts_of, gains_of


class _Rankings(NamedTuple):
    """Documents with gains and ideal weights, positions, and the lists of queries."""

    judged: Judged
    gains: Vector
    ideal: Vector
    discounts: Vector
    lengths: NDArray[np.int64]
    scales: Vector


class NDCGListHinge(NDCGLoss):
    """A convex bound on ``1 - NDCG@k``, by the ranking that violates its margin most.

    The gain of a document is ``2^relevance - 1``, the discount of position p is ``1/log2(1 + p)``.

    The optimum is ``w = 0`` where queries have many irrelevant documents, unless relevant ones are
    easily told from them: `NDCGHinge` is the one to try first.

    Parameters
    ----------
    k : int
        How many positions count.
    """

    def _prepare_for(self, judged: Judged) -> _Rankings:
        positions = judged.positions()
        begins, sizes = judged.starts[:-1], np.diff(judged.starts)
        gains = gains_of(judged.relevance)
        lengths = np.minimum(np.add.reduceat((gains > 0.0).astype(np.int64), begins), self.k)
        longest = int(lengths.max())
        discounts = discounts_of(longest)
        listed = positions < np.repeat(lengths, sizes)
        best = np.add.reduceat(np.where(listed, gains, 0.0) * _at(discounts, positions), begins)
        some = judged.grades[begins] > 1
        gains /= np.repeat(np.where(some, best, 1.0), sizes)
        ideal = judged.means(np.where(listed, _at(discounts, positions), 0.0))
        scales = np.where(some, judged.weights, 0.0)
        return _Rankings(judged, gains, ideal, discounts, lengths, scales / total_of(scales))

    def _run(
        self,
        prepared: _Rankings,
        part: slice,
        scores: Vector,
        sorting: NDArray[np.int64],
        out: Answers,
    ) -> None:
        judged = prepared.judged
        ndcg_list_hinge(
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


def _at(weights: Vector, positions: NDArray[np.int64]) -> Vector:
    """Return the weights of positions, zero beyond the last one."""
    return np.append(weights, 0.0)[np.minimum(positions, len(weights))]
