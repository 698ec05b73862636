"""Scores that are too large for a float64 are named at once, not met as NaN in a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import NonFiniteRisk


def require_finite(scores: NDArray[Any], w: Vector) -> None:
    """Raise `NonFiniteRisk` if a score at ``w`` is not finite."""
    # The extremes tell of all: one is infinite or NaN if any score is.
    if not (np.isfinite(scores.max()) and np.isfinite(scores.min())):
        raise NonFiniteRisk(
            f"the scores overflow at coefficients of norm {np.linalg.norm(w):.3g}: "
            "scale the features, or raise lam"
        )
