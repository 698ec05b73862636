"""Cached outputs of any structured model, with their weights.

An output is kept as its features beyond those of the true output, and its loss: the model is not
asked again. The formulas are those of :mod:`cutplane.online.chain_cache_kernels` and
:mod:`cutplane.online.chain_caches`.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from cutplane.core.protocols import Plane, Vector
from cutplane.online import output_cache_kernels as kernels
from cutplane.risks.structured import StructuredPoint, StructuredRisk


class OutputCaches:
    """The worst outputs seen of each example, and weights of them: a dual point.

    Parameters
    ----------
    risk : StructuredRisk
    lam : float
        Strength of the regularizer ``lam/2 |w|^2``.
    most : int
        How many outputs are kept for each example, the true one included.
    """

    def __init__(self, risk: StructuredRisk, lam: float, most: int) -> None:
        n = risk.n_examples
        self._lam, self._weights = lam, risk.weights
        self._stiffness, self._pull = lam, np.zeros(risk.n_parameters)
        self._indices, self._values = np.empty(0, dtype=np.int64), np.empty(0)
        self._used = 0
        self._begins = np.zeros((n, most), dtype=np.int64)
        self._ends = np.zeros((n, most), dtype=np.int64)
        self._losses = np.zeros((n, most))
        self._counts = np.ones(n, dtype=np.int64)
        self._gram = np.zeros((n, most, most))
        self._idle = np.zeros((n, most), dtype=np.int64)
        self.alpha = np.zeros((n, most))
        self.alpha[:, 0] = 1.0
        self._w = np.zeros(risk.n_parameters)

    def __deepcopy__(self, memo: object) -> OutputCaches:
        """Copy what changes."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and name != "_weights":
                setattr(twin, name, value.copy())
        return twin

    @property
    def examples(self) -> NDArray[np.int64]:
        """The examples whose weights can move."""
        return np.flatnonzero(self._counts > 1)

    @property
    def w(self) -> Vector:
        """The minimiser of regularizer, plane and proximal term."""
        return self._w.copy()

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

    def learn(self, point: StructuredPoint) -> None:
        """Take in the worst output of each example at a point."""
        self._make_room(len(point.indices))
        self._used, taken_over = kernels.insert(
            self._indices, self._values, self._begins, self._ends, self._losses, self._counts,
            self.alpha, self._gram, self._idle, self._used, point.examples, point.starts,
            point.indices, point.values, point.losses, np.zeros_like(self._w),
        )  # fmt: skip
        if taken_over:
            self._rebuild()

    def ascend(self, examples: NDArray[np.int64]) -> Vector:
        """Visit examples in this order; return what each one's weights had to gain before."""
        gaps = np.zeros(len(self._counts))
        kernels.ascend(
            self._indices, self._values, self._begins, self._ends, self._losses, self._counts,
            self.alpha, self._gram, self._weights, self._stiffness, self._w, examples, gaps,
        )  # fmt: skip
        return gaps

    def plane(self) -> Plane:
        """Return the plane of the weights, computed afresh; ``w`` then belongs to it exactly."""
        self.alpha /= self.alpha.sum(axis=1, keepdims=True)
        slope = self._rebuild()
        losses = np.einsum("ip,ip->i", self.alpha, self._losses)
        return Plane(slope, float(np.sum(self._weights * losses)))

    def _make_room(self, n_entries: int) -> None:
        """Have room for more entries; those of outputs that were dropped are given up."""
        if self._used + n_entries <= len(self._indices):
            return
        room = 2 * (int(np.sum(self._ends - self._begins)) + n_entries)
        indices, values = np.empty(room, dtype=np.int64), np.empty(room)
        self._used = kernels.pack(
            self._indices, self._values, self._begins, self._ends, self._counts, indices, values
        )
        self._indices, self._values = indices, values

    def _rebuild(self) -> Vector:
        """Compute ``w`` afresh; return the slope of the weights' plane."""
        slope = kernels.slope_of(
            self._indices, self._values, self._begins, self._ends, self._counts, self.alpha,
            self._weights, len(self._w),
        )  # fmt: skip
        self._w = self._pull - slope / self._stiffness
        return np.asarray(slope)
