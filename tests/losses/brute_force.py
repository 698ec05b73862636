"""Losses for measures once more, by their definitions: all labelings, all pairs."""

from itertools import product

import numpy as np

from cutplane.losses import BreakEven, ErrorRate, FBeta, PrecisionAtK, RecallAtK, ROCArea


def planes(loss, y):
    """Return the slopes and offsets of all planes whose maximum is the loss, one row each.

    Not for the area under the ROC curve, whose labelings are of pairs.
    """
    y = np.asarray(y)
    labelings = np.array(list(product([-1.0, 1.0], repeat=len(y))))
    rows = [plane for labeling in labelings if (plane := _plane(loss, y, labeling)) is not None]
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


def _plane(loss, y, labeling):
    """Return the slopes and the offset of a labeling; None if it is not one to compare with."""
    m, n_positive = len(y), int((y > 0).sum())
    found = int(((y > 0) & (labeling > 0)).sum())
    missed = (y > 0) & (labeling < 0)
    flagged = (y < 0) & (labeling > 0)
    match loss:
        case ErrorRate():
            return (labeling - y) / (2 * m), (labeling != y).sum() / m
        case FBeta():
            beta2 = loss.beta**2
            size = found + flagged.sum() + beta2 * n_positive
            f = (1 + beta2) * found / size if size > 0 else 1.0
            return (labeling - y) / (2 * max(n_positive, 1)), 1 - f
        case PrecisionAtK() | RecallAtK() | BreakEven():
            k = n_positive if isinstance(loss, BreakEven) else loss.count(m)
            if (labeling > 0).sum() != k:
                return None
            n = k if isinstance(loss, PrecisionAtK) else n_positive
            if n == 0:
                return np.zeros(m), 0.0
            # The labeling against the mean of the best ones that are nearest to it.
            exchanges = min(k, n_positive) - found
            slopes = np.zeros(m)
            if exchanges:
                slopes[missed] = -exchanges / missed.sum() / n
                slopes[flagged] = exchanges / flagged.sum() / n
            return slopes, 1 - found / n


def delta(loss, y, scores):
    """Return the measure's own loss of the labels that the scores predict."""
    positive = y > 0
    match loss:
        case ROCArea():
            pairs = scores[positive][:, None] - scores[~positive][None, :]
            return np.mean((pairs < 0) + 0.5 * (pairs == 0)) if pairs.size else 0.0
        case ErrorRate() | FBeta():
            predicted = scores > 0
        case _:
            k = int(positive.sum()) if isinstance(loss, BreakEven) else loss.count(len(y))
            predicted = np.zeros(len(y), dtype=bool)
            predicted[np.argsort(-scores, kind="stable")[:k]] = True
    return _plane(loss, y, np.where(predicted, 1.0, -1.0))[1]


def value(loss, y, scores, weights):
    """Return the loss by its definition."""
    if not isinstance(loss, ROCArea):
        slopes, offsets = planes(loss, y)
        return float((slopes @ scores + offsets).max())
    positive = y > 0
    if positive.all() or not positive.any():
        return 0.0
    margins = scores[positive][:, None] - scores[~positive][None, :]
    pair_weights = np.outer(weights[positive], weights[~positive])
    return float((pair_weights * np.maximum(0, 1 - margins)).sum() / pair_weights.sum())
