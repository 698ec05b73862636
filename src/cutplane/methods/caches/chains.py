"""Kept labels of chains: what block ascent keeps of a `ChainRisk`.

Labels take four bytes a token, so that twenty for each sequence are less than its features.
"""

from __future__ import annotations

from itertools import accumulate
from typing import cast

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.methods.caches import chain_kernels as kernels
from cutplane.methods.caches.chain_kernels import ChainData, ChainWeights
from cutplane.methods.caches.kept import Cache, Indices, Kept, Outputs, Pull
from cutplane.risks.chains.points import ChainPoint
from cutplane.risks.chains.risk import ChainRisk
from cutplane.structured.chains.losses import WorstLabels


class ChainOutputs(Outputs):
    """Labels of the sequences of a `ChainRisk` with the loss `cutplane.ChainMargin`."""

    def __init__(self, risk: ChainRisk) -> None:
        self._risk = risk
        self.weights = risk.data.weights
        if risk.entries is None:
            raise ValueError("block ascent needs features as an array or in CSR")
        offsets = risk.data.chains.offsets
        self._data = ChainData(*risk.entries, offsets, self.weights, risk.weighted, risk.ends)

    def first(self, most: int) -> Cache:
        """Return the true labels alone, with room for ``most`` of each sequence."""
        chains, y = self._risk.data.chains, self._risk.data.y
        labels = np.zeros(most * chains.n_tokens, dtype=np.int32)
        starts = np.repeat(chains.offsets[:-1], chains.lengths)
        labels[most * starts + np.arange(chains.n_tokens) - starts] = y
        return Cache(Kept.truths(chains.n_sequences, most), labels)

    def learn(self, cache: Cache, point: ChainPoint) -> Cache:
        """Take in the worst labels of each sequence at a point."""
        worst = cast(WorstLabels, point.outcome)
        kernels.insert(
            self._data, cache.kept, cache.outputs, worst.labels, worst.mistakes, self._zeros()
        )
        return cache

    def minimizer(self, cache: Cache, pull: Pull) -> tuple[ChainWeights, Vector]:
        """Return the minimizer, computed afresh, and the slope of the weights' plane."""
        w = self._zeros()
        kernels.add_weighted(self._data, cache.kept, cache.outputs, pull.stiffness, w)
        slope = -pull.stiffness * self.vector(w)
        pairs = self._risk.pairs
        coef, transitions, ends = np.split(
            pull.center, [*accumulate((pairs.n_parameters, w.transitions.size))]
        )
        pairs.add_to_table(coef, w.coef)
        w.transitions[...] += transitions.reshape(w.transitions.shape)
        if self._risk.ends:
            w.ends[...] += ends.reshape(w.ends.shape)
        return w, slope

    def move(
        self, cache: Cache, w: ChainWeights, stiffness: float, examples: Indices, gaps: Vector
    ) -> None:
        """Visit sequences in this order; fill in what each had to gain before its visit."""
        kernels.ascend(self._data, cache.kept, cache.outputs, stiffness, w, examples, gaps)

    def vector(self, w: ChainWeights) -> Vector:
        """Return the minimizer as a vector of parameters."""
        parts = [self._risk.pairs.from_table(w.coef), w.transitions.ravel()]
        return np.concatenate(parts + ([w.ends.ravel()] if self._risk.ends else []))

    def _zeros(self) -> ChainWeights:
        return ChainWeights.zeros(self._risk.n_features, self._risk.n_labels)
