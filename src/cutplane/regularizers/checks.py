"""What the parameters of all regularizers must satisfy."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import Vector


def positive(name: str, value: Any) -> float:
    """Return the value as a float if it is positive and finite."""
    if not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def finite_vector(name: str, values: ArrayLike | None) -> Vector | None:
    """Return a copy in float64 if all values are finite."""
    if values is None:
        return None
    vector = np.array(values, dtype=np.float64)
    if not np.isfinite(vector).all():
        raise ValueError(f"the {name} must be finite")
    return vector


def same_shape(regularizer: object, name: str, given: Vector | None, w: Vector) -> None:
    """Raise ValueError if a parameter was given for another number of coordinates."""
    if given is not None and given.shape != w.shape:
        kind = type(regularizer).__name__
        raise ValueError(f"{kind}: {name} has shape {given.shape}, w has {w.shape}")
