"""Cached labels of chains with their weights: what block ascent keeps of a `ChainRisk`.

Labels take four bytes a token, so that twenty for each sequence are less than its features. The
formulas are in :mod:`cutplane.methods.caches.output_weights` and
:mod:`cutplane.methods.caches.chain_cache_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.maps.csr import CompressedRows
from cutplane.maps.dense import ColumnMajor, RowMajor
from cutplane.maps.stored import read_only
from cutplane.methods.caches import chain_cache_kernels as kernels
from cutplane.methods.caches.output_weights import OutputWeights
from cutplane.risks.chain import ChainPoint, ChainRisk
from cutplane.structured import ChainMargin
from cutplane.structured.chains.losses import WorstLabels


class ChainCaches(OutputWeights):
    """The worst labels seen of each sequence, and weights of them: a dual point.

    Parameters
    ----------
    risk : ChainRisk
        With the loss `cutplane.ChainMargin`.
    lam : float
        Strength of the regularizer ``lam/2 |w|^2``.
    most : int
        How many label sequences are kept for each example, the true ones included.
    """

    def __init__(self, risk: ChainRisk, lam: float, most: int) -> None:
        super().__init__(risk.data.weights, lam, most, risk.n_parameters)
        chains = risk.data.chains
        self._most, self._ends, self._offsets = most, risk.ends, chains.offsets
        self._features = _compressed(risk.rows)
        self._labels = np.zeros(most * chains.n_tokens, dtype=np.int32)
        starts = np.repeat(self._offsets[:-1], chains.lengths)
        self._labels[most * starts + np.arange(chains.n_tokens) - starts] = risk.data.y
        self._pairs = risk.pairs
        self._weighted = risk.pairs.weighted()
        self._coef = np.zeros((risk.n_features, risk.n_labels))
        self._transitions = np.zeros((risk.n_labels, risk.n_labels))
        self._end_weights = np.zeros((2, risk.n_labels))
        self._shared |= {"_offsets", "_weighted"}

    @property
    def w(self) -> Vector:
        """The minimizer of regularizer, plane and proximal term."""
        parts = [self._pairs.from_table(self._coef), self._transitions.ravel()]
        return np.concatenate(parts + ([self._end_weights.ravel()] if self._ends else []))

    def learn(self, point: ChainPoint) -> None:
        """Take in the worst labels of each sequence at a point."""
        worst = point.outcome
        assert isinstance(worst, WorstLabels)
        taken_over = kernels.insert(
            *self._features, self._offsets, self._most, self._labels, self._counts, self.alpha,
            self._losses, self._gram, self._idle, self._ends, worst.labels, worst.mistakes,
            self._weighted, np.zeros_like(self._coef),
        )  # fmt: skip
        if taken_over:
            self._rebuild()

    def ascend(self, examples: NDArray[np.int64]) -> Vector:
        """Visit sequences in this order; return what each one's weights had to gain before."""
        gaps = np.zeros(len(self._counts))
        kernels.ascend(
            *self._features, self._offsets, self._weights, self._stiffness, self._most,
            self._labels, self._counts, self.alpha, self._losses, self._gram, self._weighted,
            self._coef, self._transitions, self._end_weights, self._ends, examples, gaps,
        )  # fmt: skip
        return gaps

    def _rebuild(self) -> Vector:
        """Compute ``w`` afresh; return the slope of the weights' plane."""
        kernels.rebuild(
            *self._features, self._offsets, self._weights, self._stiffness, self._most,
            self._labels, self._counts, self.alpha, self._weighted, self._coef,
            self._transitions, self._end_weights, self._ends,
        )  # fmt: skip
        slope = -self._stiffness * self.w
        n_labels, n_emissions = len(self._transitions), self._pairs.n_parameters
        emissions, transitions, ends = np.split(
            self._pull, [n_emissions, n_emissions + n_labels**2]
        )
        self._pairs.add_to_table(emissions, self._coef)
        self._transitions += transitions.reshape(n_labels, n_labels)
        if self._ends:
            self._end_weights += ends.reshape(2, n_labels)
        return slope


def obstacle_to_chain_caches(risk: ChainRisk) -> str | None:
    """Return why block ascent cannot be used for chains, or None if it can."""
    if not isinstance(risk.loss, ChainMargin):
        return f"the loss {risk.loss!r} is not a maximum over labels, as cp.ChainMargin() is"
    if not isinstance(risk.rows, CompressedRows | RowMajor | ColumnMajor):
        return "it needs features as an array or in CSR"
    return None


def _compressed(rows: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return values, indices and starts of the features, without the zeros of dense rows."""
    if not isinstance(rows, CompressedRows):
        X = scipy.sparse.csr_array(rows.X)
        return read_only(X.data), read_only(X.indices), read_only(X.indptr)
    return read_only(rows.values), read_only(rows.indices), read_only(rows.starts)
