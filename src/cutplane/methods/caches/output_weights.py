"""Weights of the outputs that were kept for each example: a dual point of a structured risk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Plane


class OutputWeights(ABC):
    """Losses, inner products and weights of kept outputs; what they are, subclasses know.

    Output ``p`` of example ``i`` has the features ``D[i, p]`` beyond those of the true output,
    which is in place 0. With a proximal term of strength ``mu`` around a center, and the slope
    ``a = sum_i weight_i * sum_p alpha[i, p] * D[i, p]`` of the weights' plane, the minimizer is

        w = (mu * center - a) / (lam + mu).

    Parameters
    ----------
    weights : ndarray
        Of the examples.
    lam : float
        Strength of the regularizer ``lam/2 |w|^2``.
    most : int
        How many outputs are kept for each example, the true one included.
    n_parameters : int
        Length of ``w``.
    """

    def __init__(self, weights: Vector, lam: float, most: int, n_parameters: int) -> None:
        n = len(weights)
        self._lam, self._weights = lam, weights
        self._stiffness, self._pull = lam, np.zeros(n_parameters)
        self._counts = np.ones(n, dtype=np.int64)
        self._losses = np.zeros((n, most))
        self._gram = np.zeros((n, most, most))
        self._idle = np.zeros((n, most), dtype=np.int64)
        self.alpha = np.zeros((n, most))
        self.alpha[:, 0] = 1.0
        self._shared = {"_weights"}

    def __deepcopy__(self, memo: object) -> Self:
        """Copy what changes, and share the data."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and name not in self._shared:
                setattr(twin, name, value.copy())
        return twin

    @property
    def examples(self) -> NDArray[np.int64]:
        """The examples whose weights can move."""
        return np.flatnonzero((self._counts > 1) & (self._weights > 0.0))

    @property
    @abstractmethod
    def w(self) -> Vector:
        """The minimizer of regularizer, plane and proximal term."""

    @property
    def squared_norm(self) -> float:
        """The squared norm of the longest kept difference of features, on average."""
        longest = np.einsum("ipp->ip", self._gram).max(axis=1)
        return float(np.sum(self._weights * longest))

    def stay_near(self, center: Vector, strength: float) -> None:
        """Have the proximal term ``strength/2 |w - center|^2`` from now on; at first none."""
        self._stiffness = self._lam + strength
        self._pull = strength / self._stiffness * center
        self._rebuild()

    @abstractmethod
    def learn(self, point: Any) -> None:
        """Take in the worst output of each example at a point."""

    @abstractmethod
    def ascend(self, examples: NDArray[np.int64]) -> Vector:
        """Visit examples in this order; return what each of all had to gain before its visit."""

    def plane(self) -> Plane:
        """Return the plane of the weights, computed afresh; ``w`` then belongs to it exactly."""
        self.alpha /= self.alpha.sum(axis=1, keepdims=True)
        slope = self._rebuild()
        losses = np.einsum("ip,ip->i", self.alpha, self._losses)
        return Plane(slope, float(np.sum(self._weights * losses)))

    @abstractmethod
    def _rebuild(self) -> Vector:
        """Compute ``w`` afresh; return the slope of the weights' plane."""
