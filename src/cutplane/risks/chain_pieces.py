"""The risk of a linear chain, piece by piece: nothing is kept of a sequence that was dealt with.

Scores and their slopes are two numbers for each token and label. With sparse features they take
more memory than the features, and to write them to memory and read them again takes time. A piece
is a few sequences whose scores and slopes stay in a core's cache.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import InOrder, run_blocks
from cutplane.core.protocols import NonFiniteRisk
from cutplane.maps import ObservedPairs
from cutplane.maps.observed_pairs import PairSums, Scorer
from cutplane.structured.chains.chain import ChainScores
from cutplane.structured.chains.losses import ChainLoss, LabeledChains

# Scores of a piece: half a megabyte, as much for their slopes, and the entries of the features.
_SCORES = 1 << 16


def require_finite(scores: ChainScores, w: Vector) -> None:
    """Raise NonFiniteRisk if a score with the parameters ``w`` is infinite or NaN."""
    for part in scores:
        # The extremes tell of all: one is infinite or NaN if any score is.
        if not (np.isfinite(part.max(initial=0.0)) and np.isfinite(part.min(initial=0.0))):
            raise NonFiniteRisk(
                f"the scores overflow at coefficients of norm {np.linalg.norm(w):.3g}: "
                "scale the features, or raise lam"
            )


class ChainSums:
    """Value and slopes of the risk, summed over sequences."""

    def __init__(self, pairs: PairSums, n_labels: int) -> None:
        self.pairs = pairs
        self.transitions: Matrix = np.zeros((n_labels, n_labels))
        self.first: Vector = np.zeros(n_labels)
        self.last: Vector = np.zeros(n_labels)
        self.value = self.offset = 0.0

    def add_piece(
        self, piece: LabeledChains, begin: int, scores: ChainScores, loss: ChainLoss
    ) -> None:
        """Add what a piece contributes, whose first token has the number ``begin``."""
        outcome = loss.evaluate(piece, scores)
        emissions, transitions, offsets = outcome.slopes()
        self.pairs.add(emissions, begin)
        self.transitions += transitions.sum(axis=0)
        self.first += emissions[piece.chains.firsts].sum(axis=0)
        self.last += emissions[piece.chains.lasts].sum(axis=0)
        self.value += outcome.value
        self.offset += float(offsets.sum())

    def add(self, other: ChainSums) -> None:
        """Add the sums over other sequences."""
        self.pairs.add_sums(other.pairs)
        self.transitions += other.transitions
        self.first += other.first
        self.last += other.last
        self.value += other.value
        self.offset += other.offset


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
        n_pieces = max(chains.n_tokens * chains.n_labels // _SCORES, 1)
        tokens = np.arange(1, n_pieces) * chains.n_tokens // n_pieces
        inner = np.searchsorted(chains.offsets[:-1], tokens)
        cuts = np.unique([0, *inner, chains.n_sequences])
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
        emissions: Vector,
        transitions: Matrix,
        start: Vector,
        end: Vector,
    ) -> ChainSums:
        """Return the sums over all sequences with the parameters ``w``, given whole and in parts.

        They are the same for any number of threads.
        """
        chains, score = self._data.chains, self._pairs.scorer(emissions)
        total: list[ChainSums] = []  # the first sums, to which the others are added

        def take(sums: ChainSums) -> None:
            if total:
                total[0].add(sums)
            else:
                total.append(sums)

        in_order = InOrder(take)

        def task(first: int, last: int) -> None:
            for number in range(first, last):
                sums = ChainSums(self._pairs.sums(), chains.n_labels)
                for k in range(self._sums[number], self._sums[number + 1]):
                    scores = ChainScores(self._emissions(score, k), transitions, start, end)
                    require_finite(scores, w)
                    sums.add_piece(self._pieces[k], self._begins[k], scores, loss)
                in_order.put(number, sums)

        run_blocks(task, len(self._sums) - 1, n_threads=chains.n_threads)
        return total[0]

    def _emissions(self, score: Scorer, k: int) -> Matrix:
        """Return the scores of a piece's tokens."""
        begin, end = self._begins[k], self._begins[k + 1]
        out = np.empty((end - begin, self._data.chains.n_labels))
        score(begin, end, out)
        return out
