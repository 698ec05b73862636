"""Weights of examples."""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector


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
