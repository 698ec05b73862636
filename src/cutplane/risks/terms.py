"""How large the terms are that a risk is made of at a point, as far as they move its value."""

from __future__ import annotations

from typing import Any

import numpy as np


def terms_of_scores(point: Any) -> float:
    """Return the size of scores and targets, times the slopes of the loss: rounding of a value.

    Targets that are no numbers beside the scores, such as classes, count as margins of one.
    """
    risk, scores = point.risk, point.scores
    sizes = np.abs(risk.y) + abs(risk.shift) if np.shape(risk.y) == scores.shape else 1.0
    # Intercepts may be several for one score, as thresholds are.
    sizes = sizes + float(np.abs(point.offset).max(initial=0.0))
    with np.errstate(over="ignore", invalid="ignore"):  # nothing vanishes beside such terms
        return float(np.sum(np.abs(point.slopes) * (np.abs(scores) + sizes)))
