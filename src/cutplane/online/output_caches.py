"""Cached outputs of any structured model, with their weights.

An output is kept as its features beyond those of the true output, and its loss
(:class:`cutplane.structured.examples.Worst`): the model is not asked again. The formulas are those
of :mod:`cutplane.online.chain_cache_kernels` and :mod:`cutplane.online.chain_caches`.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from cutplane.core.protocols import Plane, Vector
from cutplane.online.chain_cache_kernels import balance, place_for_one
from cutplane.risks.structured import StructuredPoint, StructuredRisk
from cutplane.structured.examples import Worst
from cutplane.structured.features import Features

_TRUTH = Worst(Features(np.zeros(0, dtype=np.int64), np.zeros(0)), 0.0)


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
        self._outputs: list[list[Worst]] = [[_TRUTH] for _ in range(n)]
        self._counts = np.ones(n, dtype=np.int64)
        self._gram = np.zeros((n, most, most))
        self._idle = np.zeros((n, most), dtype=np.int64)
        self.alpha = np.zeros((n, most))
        self.alpha[:, 0] = 1.0
        self._w = np.zeros(risk.n_parameters)

    def __deepcopy__(self, memo: object) -> OutputCaches:
        """Copy what changes, and share the outputs themselves."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and name != "_weights":
                setattr(twin, name, value.copy())
        twin._outputs = [outputs.copy() for outputs in self._outputs]
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
        taken_over = False
        for i, output in point.outputs():
            count, known = self._counts[i], self._outputs[i]
            self._idle[i, :count] = np.where(
                self.alpha[i, :count] > 0.0, 0, self._idle[i, :count] + 1
            )
            same = [p for p, other in enumerate(known) if _equal(other, output)]
            if same:
                self._idle[i, same] = 0
                continue
            place = place_for_one(self._counts, self.alpha, self._idle, i)
            known[place : place + 1] = [output]
            dense = output.difference.dense(len(self._w))
            products = [other.difference.dot(dense) for other in known]
            self._gram[i, place, : len(known)] = self._gram[i, : len(known), place] = products
            taken_over |= bool(self.alpha[i, place] > 0.0)
        if taken_over:
            self._rebuild()

    def ascend(self, examples: NDArray[np.int64]) -> Vector:
        """Visit examples in this order; return what each one's weights had to gain before."""
        gaps = np.zeros(len(self._outputs))
        for i in examples:
            known = self._outputs[i]
            heights = np.array([output.height_at(self._w) for output in known])
            moved = np.zeros(len(known))
            stiffness = self._weights[i] / self._stiffness
            gap = balance(self.alpha, self._gram, i, len(known), stiffness, heights, moved)
            gaps[i] = self._weights[i] * gap
            for p in np.flatnonzero(moved):
                difference = known[p].difference
                self._w[difference.indices] -= stiffness * moved[p] * difference.values
        return gaps

    def plane(self) -> Plane:
        """Return the plane of the weights, computed afresh; ``w`` then belongs to it exactly."""
        self.alpha /= self.alpha.sum(axis=1, keepdims=True)
        slope = self._rebuild()
        losses = [
            float(self.alpha[i, : len(known)] @ [output.loss for output in known])
            for i, known in enumerate(self._outputs)
        ]
        return Plane(slope, float(np.sum(self._weights * losses)))

    def _rebuild(self) -> Vector:
        """Compute ``w`` afresh; return the slope of the weights' plane."""
        slope = np.zeros_like(self._w)
        for i, known in enumerate(self._outputs):
            for p in np.flatnonzero(self.alpha[i]):
                difference = known[p].difference
                slope[difference.indices] += self._weights[i] * self.alpha[i, p] * difference.values
        self._w = self._pull - slope / self._stiffness
        return slope


def _equal(one: Worst, other: Worst) -> bool:
    return (
        one.loss == other.loss
        and np.array_equal(one.difference.indices, other.difference.indices)
        and np.array_equal(one.difference.values, other.difference.values)
    )
