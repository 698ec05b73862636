"""Joint features in one form: places and values of what is not zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector


class Features(NamedTuple):
    """A vector of joint features: its entries that are not zero, each place once, in order."""

    indices: NDArray[np.int64]
    values: Vector

    def dot(self, w: Vector) -> float:
        """Return the score of the features."""
        return float(w[self.indices] @ self.values)

    def minus(self, other: Features) -> Features:
        """Return the difference of two vectors."""
        return _summed(
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.values, -other.values]),
        )

    def scaled(self, factor: float) -> Features:
        """Return the vector times a factor."""
        return Features(self.indices, factor * self.values)


def as_features(given: Any, n_parameters: int, *, name: str = "joint_feature") -> Features:
    """Return what a model's ``joint_feature`` gave in one form, or raise ValueError.

    That is a vector of all features, or a pair of arrays ``(indices, values)``, where values at the
    same place add up.
    """
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"{name} gave a tuple of {len(given)}, not (indices, values)")
        indices, values = np.asarray(given[0]), np.asarray(given[1], dtype=np.float64)
        if indices.ndim != 1 or indices.shape != values.shape:
            raise ValueError(
                f"{name} gave indices of shape {indices.shape} with values of shape {values.shape}"
            )
        if len(indices) and indices.dtype.kind not in "iu":
            raise ValueError(f"{name} gave indices of type {indices.dtype}")
        if len(indices) and not (indices.min() >= 0 and indices.max() < n_parameters):
            worst = indices.max() if indices.max() >= n_parameters else indices.min()
            raise ValueError(f"{name} gave index {worst} of {n_parameters} parameters")
        features = _summed(indices.astype(np.int64), values)
    else:
        vector = np.asarray(given, dtype=np.float64)
        if vector.shape != (n_parameters,):
            raise ValueError(
                f"{name} gave shape {vector.shape}, the model has {n_parameters} parameters"
            )
        places = np.flatnonzero(vector)
        features = Features(places, vector[places])
    if not np.isfinite(features.values).all():
        place = features.indices[~np.isfinite(features.values)][0]
        raise ValueError(f"{name} is not finite at index {place}")
    return features


def _summed(indices: NDArray[np.int64], values: Vector) -> Features:
    """Return features with the values at each place added up, in the order they came."""
    places, where = np.unique(indices, return_inverse=True)
    sums = np.zeros(len(places))
    np.add.at(sums, where, values)
    kept = sums != 0.0  # NaN is kept, to be found
    return Features(places[kept], sums[kept])
