"""The risk of a chain whose scores a network computes: both passes, one batch after the other.

A batch is a few whole sequences. Its scores, the dynamic programs on them, and the derivatives that
go back through the network are done with before the next one begins, so that memory is that of a
few batches, and the network is evaluated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import KeptPoint, Plane
from cutplane.maps import TorchScores
from cutplane.risks.chains.pieces import sums_beside_emissions
from cutplane.risks.checks import require_finite
from cutplane.structured.chains.chain import ChainScores
from cutplane.structured.chains.losses import ChainLoss, LabeledChains


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
