"""What all risks check: weights of examples, the middle of targets, and that scores are finite."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import joined, rows_in_all
from cutplane.compute.products import all_finite, largest_over, product_over, sum_over
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import NonFiniteRisk


def normalized(weights: Vector | None, n_samples: int) -> Vector:
    """Return weights that sum to one; equal ones if none are given."""
    if weights is None:
        return np.full(n_samples, 1.0 / rows_in_all(n_samples))
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n_samples,):
        raise ValueError(f"weights have shape {weights.shape}, X has {n_samples} rows")
    if not np.isfinite(weights).all() or (weights < 0.0).any():
        raise ValueError("weights must be finite and not negative")
    largest = largest_over(weights)
    if largest == 0.0:
        raise ValueError("at least one weight must be positive")
    # Scaled by the largest first, so that neither huge nor tiny weights overflow the sum.
    scaled = np.asarray(weights / largest)
    # Less than this has no effect, and is too close to the smallest numbers to divide by.
    scaled[scaled < 1e-200] = 0.0
    scaled /= sum_over(scaled)
    return scaled


def checked_lower_bound(value: float) -> float:
    """Return what a user says that a risk never goes below, or raise ValueError."""
    if not value < np.inf:
        raise ValueError(f"lower_bound must be a number or -inf, got {value}")
    return float(value)


def require_finite(
    scores: Iterable[NDArray[np.float64]], w: Vector, *, whose: str | None = None
) -> None:
    """Raise NonFiniteRisk if a score with the parameters ``w`` is infinite or NaN."""
    for part in scores:
        if not all_finite(part):
            raise overflow(part, w, whose=whose)


def overflow(scores: NDArray[np.float64], w: Vector, *, whose: str | None = None) -> NonFiniteRisk:
    """Return the error for scores of which one is infinite or NaN.

    If a network computed them, ``whose`` says what they are.
    """
    norm = np.linalg.norm(w)
    if whose is not None:
        what = "NaN" if np.isnan(scores).any() else "infinite"
        return NonFiniteRisk(f"{whose}: {what} at parameters of norm {norm:.3g}")
    return NonFiniteRisk(
        f"the scores overflow at coefficients of norm {norm:.3g}: scale the features, or raise lam"
    )


def middle(y: Vector, weights: Vector) -> float:
    """Return the target that is nearest to the mean, of those that have a weight.

    Not the mean itself, which is rounded: equal targets would differ from it. Differences from a
    target are exact for all others that are less than twice as large and more than half (Sterbenz).
    """
    distance = np.abs(y - product_over(weights, y))
    distance[weights == 0.0] = np.inf
    nearest = map_arrays(lambda far, y: (far[[k := far.argmin()]], y[[k]]), distance, y)
    distances, targets = joined(nearest)
    return float(targets[distances.argmin()])
