"""Chains that are evaluated piece by piece, or batch by batch.

The risk of a linear chain, piece by piece: nothing is kept of a sequence that was dealt with.

Scores and their slopes are two numbers for each token and label. With sparse features they take
more memory than the features, and to write them to memory and read them again takes time. A piece
is a few sequences whose scores and slopes stay in a core's cache.

The risk of a chain whose scores a network computes: both passes, one batch after the other.

A batch is a few whole sequences. Its scores, the dynamic programs on them, and the derivatives that
go back through the network are done with before the next one begins, so that memory is that of a
few batches, and the network is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.compute.threads import InOrder, run_blocks
from cutplane.core.protocols import KeptPoint, Plane
from cutplane.data import ObservedPairs, TorchScores
from cutplane.data.observed_pairs import PairSums
from cutplane.models.sequences.chain import Chains, ChainScores
from cutplane.models.sequences.losses import ChainLoss, ChainOutcome, ChainSlopes, LabeledChains
from cutplane.risks.checks import require_finite

# Scores of a piece: half a megabyte, as much for their slopes, and the entries of the features.
_SCORES = 1 << 16


def sums_beside_emissions(chains: Chains, slopes: ChainSlopes, *, ends: bool) -> Vector:
    """Return the derivatives by transitions and, perhaps, by the labels at start and end."""
    parts = [slopes.transitions.sum(axis=0).ravel()]
    if ends:
        parts += [slopes.emissions[tokens].sum(axis=0) for tokens in (chains.firsts, chains.lasts)]
    return np.concatenate(parts)


def rough_bends(piece: LabeledChains, slopes: ChainSlopes) -> ChainSlopes:
    """Return rough second derivatives of a conditional random field in place of the first ones.

    A label of probability p bends the loss by ``p (1 - p)`` along its score, a transition by less
    than its expected number. The slope of a score is ``p``, or ``p - 1`` where the label is right,
    times the weight of the sequence: either way its size ``s`` gives ``s - s^2 / weight``.
    """
    weights = np.repeat(piece.weights, piece.chains.lengths)[:, None]
    sizes = np.abs(slopes.emissions)
    shares = np.divide(sizes, weights, out=np.zeros_like(sizes), where=weights > 0.0)
    emissions = sizes * np.maximum(1.0 - shares, 0.0)
    return slopes._replace(
        emissions=emissions, transitions=slopes.transitions + piece.observed_pairs
    )


# The share of the model's own distribution in a mean with the right labels.
FLATTER = 0.97


@dataclass
class ChainSums:
    """Value and slopes of the risk, summed over sequences; `rest` are those beside emissions.

    `mixing` is the entropy that `FLATTER` gains, of a loss that knows probabilities.
    """

    pairs: PairSums
    rest: Vector
    value: float = 0.0
    offset: float = 0.0
    mixing: float = 0.0

    def add_piece(
        self, piece: LabeledChains, begin: int, outcome: ChainOutcome, slopes: ChainSlopes,
        *, ends: bool,
    ) -> None:  # fmt: skip
        """Add what a piece contributes, whose first token has the number ``begin``."""
        self.pairs.add(slopes.emissions, begin)
        self.rest += sums_beside_emissions(piece.chains, slopes, ends=ends)
        self.value += outcome.value
        self.offset += float(slopes.offsets.sum())
        self.mixing += outcome.mixing(FLATTER)

    def add(self, other: ChainSums) -> None:
        """Add the sums over other sequences."""
        self.pairs.add_sums(other.pairs)
        self.rest += other.rest
        self.value += other.value
        self.offset += other.offset
        self.mixing += other.mixing


class ChainPieces:
    """Sequences with weights for observed pairs, cut into pieces.

    Parameters
    ----------
    data : LabeledChains
    pairs : ObservedPairs
        Of all tokens.
    """

    def __init__(self, data: LabeledChains, pairs: ObservedPairs) -> None:
        chains = data.chains
        cuts = np.unique(chains.cut(max(chains.n_tokens * chains.n_labels // _SCORES, 1)))
        self._data = data
        self._pairs = pairs
        self._pieces = [data.part(i, j) for i, j in pairwise(cuts)]
        self._begins = chains.offsets[cuts]
        n_sums = min(pairs.n_sums, len(self._pieces))
        self._sums = np.arange(n_sums + 1) * len(self._pieces) // n_sums

    def evaluate(
        self,
        loss: ChainLoss,
        w: Vector,
        coef: Vector,
        rest: Sequence[Any],
        *,
        ends: bool,
    ) -> ChainSums:
        """Return the sums over all sequences with the parameters ``w``, given whole and in parts.

        They are the same for any number of threads.
        """
        return self._sum_up(loss, w, coef, rest, self._pairs, lambda _, slopes: slopes, ends=ends)

    def bends(
        self, loss: ChainLoss, w: Vector, coef: Vector, rest: Sequence[Any], *, ends: bool
    ) -> ChainSums:
        """Return sums of `rough_bends` in place of slopes, of a loss that knows probabilities."""
        return self._sum_up(loss, w, coef, rest, self._pairs.squared(), rough_bends, ends=ends)

    def _sum_up(
        self,
        loss: ChainLoss,
        w: Vector,
        coef: Vector,
        rest: Sequence[Any],
        by: ObservedPairs,
        summed: Callable[[LabeledChains, ChainSlopes], ChainSlopes],
        *,
        ends: bool,
    ) -> ChainSums:
        """Sum up over all sequences what is ``summed`` of the slopes of their scores."""
        chains, score = self._data.chains, self._pairs.scorer(coef)
        total: list[ChainSums] = []  # the first sums, to which the others are added

        def take(sums: ChainSums) -> None:
            if total:
                total[0].add(sums)
            else:
                total.append(sums)

        in_order = InOrder(take)

        def task(first: int, last: int) -> None:
            for number in range(first, last):
                n_rest = chains.n_labels * (chains.n_labels + 2 * ends)
                sums = ChainSums(by.sums(), np.zeros(n_rest))
                for k in range(self._sums[number], self._sums[number + 1]):
                    begin, end = self._begins[k], self._begins[k + 1]
                    scores = ChainScores(np.empty((end - begin, chains.n_labels)), *rest)
                    score(begin, end, scores.emissions)
                    require_finite(scores, w)
                    piece = self._pieces[k]
                    outcome = loss.evaluate(piece, scores)
                    sums.add_piece(
                        piece, begin, outcome, summed(piece, outcome.slopes()), ends=ends
                    )
                in_order.put(number, sums)

        run_blocks(task, len(self._sums) - 1, n_threads=chains.n_threads)
        return total[0]


class ChainBatches:
    """Sequences in batches, for a map that is not linear.

    Parameters
    ----------
    data : LabeledChains
    scores : TorchScores
        Of all tokens.
    """

    def __init__(self, data: LabeledChains, scores: TorchScores) -> None:
        chains = data.chains
        cuts = np.unique(chains.cut(max(-(-chains.n_tokens // scores.batch), 1)))
        # Sequences without tokens alone make no batch.
        cuts = cuts[np.append(np.diff(chains.offsets[cuts]) > 0, True)]
        cuts[0] = 0
        self._batches = [data.part(i, j) for i, j in pairwise(cuts)]
        self._bounds: NDArray[np.int64] = chains.offsets[cuts]
        self._map = scores

    def evaluate(
        self, loss: ChainLoss, w: Vector, inner: Vector, rest: Sequence[Any], *, ends: bool
    ) -> KeptPoint:
        """Return the point at ``w``, given whole and as parameters of the network and the rest."""
        values = np.zeros(len(self._batches))
        sums: list[Any] = [None] * len(self._batches)

        def slopes_of(k: int, emissions: Matrix) -> Matrix:
            # One label's scores come as a vector.
            emissions = np.ascontiguousarray(emissions.reshape(len(emissions), -1))
            scores = ChainScores(emissions, *rest)
            require_finite(scores, w, whose=f"scores of {self._map}")
            outcome = loss.evaluate(self._batches[k], scores)
            slopes = outcome.slopes()
            values[k] = outcome.value
            sums[k] = sums_beside_emissions(self._batches[k].chains, slopes, ends=ends)
            return slopes.emissions

        pulled_back = self._map.pullback_through(inner, self._bounds, slopes_of)
        slope = np.concatenate([pulled_back, np.sum(sums, axis=0)])
        require_finite([slope], w, whose=f"derivatives of {self._map}")
        value = float(values.sum())
        return KeptPoint(w, value, Plane(slope, value - dot(slope, w)))
