"""Cached labels of chains with their weights: what block ascent keeps of a `ChainRisk`.

Labels take four bytes a token, so that twenty for each sequence are less than its features. The
formulas are in :mod:`cutplane.online.chain_cache_kernels`. With a proximal term of strength ``mu``
around a centre, and the slope ``a`` of the weights' plane,

    w = (mu * centre - a) / (lam + mu).
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.core.protocols import Plane, Vector
from cutplane.data.csr import CompressedRows
from cutplane.data.dense import ColumnMajor, RowMajor, read_only
from cutplane.online import chain_cache_kernels as kernels
from cutplane.risks.chain import ChainPoint, ChainRisk
from cutplane.structured import ChainMargin
from cutplane.structured.chain_losses import WorstLabels


class ChainCaches:
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
        chains = risk.data.chains
        self._lam, self._most, self._ends = lam, most, risk.ends
        self._stiffness, self._pull = lam, np.zeros(risk.n_parameters)
        self._offsets, self._weights = chains.offsets, risk.data.weights
        self._features = _compressed(risk.rows)
        n = chains.n_sequences
        self._labels = np.zeros(most * chains.n_tokens, dtype=np.int32)
        starts = np.repeat(self._offsets[:-1], chains.lengths)
        self._labels[most * starts + np.arange(chains.n_tokens) - starts] = risk.data.y
        self._counts = np.ones(n, dtype=np.int64)
        self._losses = np.zeros((n, most))
        self._gram = np.zeros((n, most, most))
        self._idle = np.zeros((n, most), dtype=np.int64)
        self.alpha = np.zeros((n, most))
        self.alpha[:, 0] = 1.0
        self._pairs = risk.pairs
        self._weighted = risk.pairs.weighted()
        self._coef = np.zeros((risk.n_features, risk.n_labels))
        self._transitions = np.zeros((risk.n_labels, risk.n_labels))
        self._end_weights = np.zeros((2, risk.n_labels))

    def __deepcopy__(self, memo: object) -> ChainCaches:
        """Copy what changes, and share the data."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and name not in ("_offsets", "_weights", "_weighted"):
                setattr(twin, name, value.copy())
        return twin

    @property
    def examples(self) -> NDArray[np.int64]:
        """The sequences whose weights can move."""
        return np.flatnonzero((self._counts > 1) & (self._weights > 0.0))

    @property
    def w(self) -> Vector:
        """The minimiser of regularizer, plane and proximal term."""
        parts = [self._pairs.from_table(self._coef), self._transitions.ravel()]
        return np.concatenate(parts + ([self._end_weights.ravel()] if self._ends else []))

    @property
    def squared_norm(self) -> float:
        """The squared norm of the longest kept difference of features, on average."""
        longest = np.einsum("ipp->ip", self._gram).max(axis=1)
        return float(np.sum(self._weights * longest))

    def stay_near(self, centre: Vector, strength: float) -> None:
        """Have the proximal term ``strength/2 |w - centre|^2`` from now on."""
        self._stiffness = self._lam + strength
        self._pull = strength / self._stiffness * centre
        self._rebuild()

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

    def plane(self) -> Plane:
        """Return the plane of the weights, computed afresh; ``w`` then belongs to it exactly."""
        self.alpha /= self.alpha.sum(axis=1, keepdims=True)
        slope = self._rebuild()
        losses = np.einsum("ip,ip->i", self.alpha, self._losses)
        return Plane(slope, float(np.sum(self._weights * losses)))

    def _rebuild(self) -> Vector:
        """Compute ``w`` afresh; return the slope of the weights' plane."""
        kernels.rebuild(
            *self._features, self._offsets, self._weights, self._stiffness, self._most,
            self._labels, self._counts, self.alpha, self._weighted, self._coef,
            self._transitions, self._end_weights, self._ends,
        )  # fmt: skip
        slope = -self._stiffness * self.w
        n_labels, n_emissions = len(self._transitions), self._pairs.n_weights
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
        X = scipy.sparse.csr_array(rows.X if isinstance(rows, RowMajor) else rows.columns.T)
        return read_only(X.data), read_only(X.indices), read_only(X.indptr)
    return read_only(rows.values), read_only(rows.indices), read_only(rows.starts)
