"""All measures of some predictions at once, by name: what ``cutplane evaluate`` reports.

A measure that is not defined for the data is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.losses.ranking.queries import Queries
from cutplane.metrics.chunks import count_chunks, sequence_accuracy, token_accuracy
from cutplane.metrics.ranking import Rankings, mean_of_defined
from cutplane.metrics.segments import count_segments

NDCG_AT = (1, 3, 5, 10)
"""The positions that `measure_rankings` looks at."""


def measure_classes(y: NDArray[Any], predicted: NDArray[Any], classes: Any) -> dict[str, Any]:
    """Return accuracies and confusion counts; labels that no class is of count as mistakes."""
    # Imported here: scikit-learn's metrics take longer to import than everything else.
    from sklearn.metrics import confusion_matrix

    labels = np.concatenate([classes, np.setdiff1d(y, classes)])
    confusion = confusion_matrix(y, predicted, labels=labels)
    present = confusion.sum(axis=1) > 0
    recalls = confusion.diagonal()[present] / confusion.sum(axis=1)[present]
    return {
        "n_samples": len(y),
        "accuracy": float(np.mean(predicted == y)),
        "balanced_accuracy": float(recalls.mean()),
        "classes": labels.tolist(),
        "confusion": confusion.tolist(),
    }


def measure_positives(
    actual: NDArray[np.bool_], predicted: NDArray[np.bool_], scores: Vector
) -> dict[str, float | None]:
    """Return F1 and ROC area, from who is positive, who is predicted to be, and scores."""
    from sklearn.metrics import roc_auc_score

    n_positive, n_found = int(actual.sum()), int(actual.sum() + predicted.sum())
    both = 0 < n_positive < len(actual)
    return {
        "f1": 2 * int((actual & predicted).sum()) / n_found if n_found else None,
        "roc_area": float(roc_auc_score(actual, scores)) if both else None,
    }


def measure_numbers(y: Vector, predicted: Vector) -> dict[str, Any]:
    """Return mean absolute error, root mean squared error, and the share of variance explained."""
    errors = y - predicted
    spread = float(np.sum((y - y.mean()) ** 2))
    return {
        "n_samples": len(y),
        "mae": float(np.mean(abs(errors))),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "r2": 1 - float(np.sum(errors**2)) / spread if spread else None,
    }


def measure_rankings(y: Vector, scores: Vector, queries: Queries) -> dict[str, Any]:
    """Return NDCG and other measures, as means over the queries with a relevant document."""
    rankings = Rankings(y, scores, queries)
    reciprocal = rankings.reciprocal_rank()
    return {
        "n_samples": len(y),
        "n_queries": len(queries),
        "n_queries_without_relevant": int(np.isnan(reciprocal).sum()),
        **{f"ndcg_{k}": mean_of_defined(rankings.ndcg(k)) for k in NDCG_AT},
        "map": mean_of_defined(rankings.average_precision()),
        "mrr": mean_of_defined(reciprocal),
        "pairwise_accuracy": rankings.pairwise_accuracy(),
    }


def measure_sequences(
    y: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return accuracies; and measures of chunks, of all and of each type, if labels mark chunks."""
    report: dict[str, Any] = {
        "n_samples": len(y),
        "n_tokens": sum(map(len, y)),
        "accuracy": token_accuracy(y, predicted),
        "sequence_accuracy": sequence_accuracy(y, predicted),
    }
    try:
        counts = count_chunks(y, predicted)
    except ValueError:  # labels of another kind
        return report
    report["chunks"] = [
        {
            "type": kind or "all",
            "precision": found.precision,
            "recall": found.recall,
            "f1": found.f1,
            **found._asdict(),
        }
        for kind, found in sorted(counts.items())
    ]
    return report


def measure_segments(
    y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Return how many frames are right, and how far segments are from the right ones."""
    segments = count_segments(y, predicted)
    return {
        "n_samples": len(y),
        "n_frames": sum(map(len, y)),
        "n_segments": segments.there,
        "accuracy": token_accuracy(y, predicted),
        "segment_error_rate": segments.error_rate,
    }
