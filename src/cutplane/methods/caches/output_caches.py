"""Cached outputs of any structured model, with their weights.

An output is kept as its features beyond those of the true output, and its loss: the model is not
asked again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.methods.caches import output_cache_kernels as kernels
from cutplane.methods.caches.output_weights import OutputWeights
from cutplane.risks.structured import StructuredPoint, StructuredRisk


class OutputCaches(OutputWeights):
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
        super().__init__(risk.weights, lam, most, risk.n_parameters)
        self._indices, self._values = np.empty(0, dtype=np.int64), np.empty(0)
        self._used = np.zeros(1, dtype=np.int64)  # an array, for the compiled code to change
        self._begins = np.zeros((risk.n_examples, most), dtype=np.int64)
        self._ends = np.zeros((risk.n_examples, most), dtype=np.int64)
        self._w = np.zeros(risk.n_parameters)

    @property
    def w(self) -> Vector:
        """The minimizer of regularizer, plane and proximal term."""
        return self._w.copy()

    def learn(self, point: StructuredPoint) -> None:
        """Take in the worst output of each example at a point."""
        self._make_room(len(point.indices))
        taken_over = kernels.insert(
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

    def _make_room(self, n_entries: int) -> None:
        """Have room for more entries; those of outputs that were dropped are given up."""
        if self._used[0] + n_entries <= len(self._indices):
            return
        room = 2 * (int(np.sum(self._ends - self._begins)) + n_entries)
        indices, values = np.empty(room, dtype=np.int64), np.empty(room)
        begins, ends = np.zeros_like(self._begins), np.zeros_like(self._ends)
        used = kernels.pack(
            self._indices, self._values, self._begins, self._ends, self._counts, indices, values,
            begins, ends,
        )  # fmt: skip
        packed = {
            "_indices": indices,
            "_values": values,
            "_begins": begins,
            "_ends": ends,
            "_used": np.array([used]),
        }
        # All at once: Ctrl-C between two of them would mix up the outputs.
        vars(self).update(packed)

    def _rebuild(self) -> Vector:
        """Compute ``w`` afresh; return the slope of the weights' plane."""
        slope = kernels.slope_of(
            self._indices, self._values, self._begins, self._ends, self._counts, self.alpha,
            self._weights, len(self._w),
        )  # fmt: skip
        self._w = self._pull - slope / self._stiffness
        return np.asarray(slope)
