"""What all risks check: weights of examples, and that scores are finite."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import NonFiniteRisk


def normalized(weights: Vector | None, n_samples: int) -> Vector:
    """Return weights that sum to one; equal ones if none are given."""
    if weights is None:
        return np.full(n_samples, 1.0 / n_samples)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n_samples,):
        raise ValueError(f"weights have shape {weights.shape}, X has {n_samples} rows")
    if not np.isfinite(weights).all() or (weights < 0.0).any():
        raise ValueError("weights must be finite and not negative")
    largest = weights.max()
    if largest == 0.0:
        raise ValueError("at least one weight must be positive")
    # Scaled by the largest first, so that neither huge nor tiny weights overflow the sum.
    scaled = np.asarray(weights / largest)
    # Less than this has no effect, and is too close to the smallest numbers to divide by.
    scaled[scaled < 1e-200] = 0.0
    scaled /= scaled.sum()
    return scaled


def require_finite(
    scores: Iterable[NDArray[np.float64]], w: Vector, *, whose: str | None = None
) -> None:
    """Raise NonFiniteRisk if a score with the parameters ``w`` is infinite or NaN.

    If a network computed them, ``whose`` says what they are.
    """
    for part in scores:
        # The extremes tell of all: one is infinite or NaN if any score is.
        if not math.isfinite(float(part.max(initial=0.0)) - float(part.min(initial=0.0))):
            if whose is not None:
                what = "NaN" if np.isnan(part).any() else "infinite"
                norm = f"parameters of norm {np.linalg.norm(w):.3g}"
                raise NonFiniteRisk(f"{whose}: {what} at {norm}")
            raise NonFiniteRisk(
                f"the scores overflow at coefficients of norm {np.linalg.norm(w):.3g}: "
                "scale the features, or raise lam"
            )
