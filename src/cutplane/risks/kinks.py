"""Where the losses of examples bend, if they are made of straight pieces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.risks.scored import ScoredRisk

MOST_FEATURES = 1024


class Kinks(NamedTuple):
    """Where losses bend: the number of the row, the score, and the duals on both sides."""

    rows: NDArray[np.int64]
    at: Vector
    low: Vector
    high: Vector


def kinks_of(risk: ScoredRisk) -> Kinks | None:
    """Return the kinks of a loss made of straight pieces; None for all other losses."""
    loss, y = risk.loss, np.asarray(risk.y, dtype=np.float64)
    if not loss.straight or risk.rows.entries() is None or risk.n_parameters > MOST_FEATURES:
        return None
    used = np.flatnonzero(risk.weights > 0.0)
    center, weights = y[used], risk.weights[used]
    sign = np.ones(len(used)) if loss.of_residual else center
    left, right = loss.left, loss.right
    # A side as (where it bends, the change of the slope there), along the sign.
    bends = [(right.start, right.slope), (-left.start, left.slope)]
    sides = [
        (
            center + sign * start,
            np.where(sign * direction > 0.0, slope, 0.0) * weights,
            np.where(sign * direction < 0.0, slope, 0.0) * weights,
        )
        for (start, slope), direction in zip(bends, (1.0, -1.0), strict=True)
        if slope > 0.0
    ]
    if len(sides) == 2 and right.start == -left.start:
        (at, up, down), (_, more_up, more_down) = sides
        sides = [(at, up + more_up, down + more_down)]
    return Kinks(
        np.tile(used, len(sides)),
        np.concatenate([at for at, _, _ in sides]),
        np.concatenate([-down for _, _, down in sides]),
        np.concatenate([up for _, up, _ in sides]),
    )
