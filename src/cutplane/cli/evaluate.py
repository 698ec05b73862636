"""``cutplane evaluate``: how well a model predicts data whose labels are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from cutplane.cli.data import load_for_files, read_classes, require_columns
from cutplane.cli.labels import known_labels, plain_label, show_label, target_numbers
from cutplane.cli.options import DataArgument, JsonOption, ModelArgument, table
from cutplane.estimators.description import Measures, Targets
from cutplane.io import InputError, read_conll, read_frames, read_svmlight
from cutplane.io.sources import name_of
from cutplane.losses.ranking.queries import Queries
from cutplane.maps import ordered_scores
from cutplane.metrics.reports import (
    NDCG_AT,
    measure_classes,
    measure_numbers,
    measure_positives,
    measure_rankings,
    measure_segments,
    measure_sequences,
)


def evaluate(model: ModelArgument, data: DataArgument, as_json: JsonOption = False) -> None:
    """Compare a model's predictions with the labels in DATA.

    Classifiers: accuracy, balanced accuracy, F1 and ROC area of the positive class (two classes),
    confusion counts.
    Regressors: mean absolute error, root mean squared error, R2, and the mean of the model's loss.
    Taggers of sequences: accuracy of tokens and sequences; precision, recall and F1 of chunks. Of
    sequences of vectors: accuracy of frames; segments that are inserted, left out or mistaken.
    Rankers: NDCG, mean average precision, mean reciprocal rank, pairs in the right order.
    """
    estimator = load_for_files(model)
    measures, kind = estimator.description.measures, type(estimator).__name__
    if measures is None:
        lacks = (
            "has no labels to compare with"
            if estimator.description.targets is Targets.NOTHING
            else "is evaluated in Python only, by its score"
        )
        raise InputError(f"{name_of(model)}: a {kind} {lacks}")
    report = _REPORTS[measures](estimator, data, model)
    print(json.dumps(report, allow_nan=False) if as_json else _in_words(report))


def _classification(estimator: Any, data: str, model: str) -> dict[str, Any]:
    X, labels = read_classes(estimator, data)
    classes = estimator.classes_
    y = known_labels(labels, classes, name_of(data))
    predicted = estimator.predict(X)
    report = measure_classes(y, predicted, classes)
    if len(classes) == 2:
        positive = getattr(estimator, "positive_class_", classes[1])
        scores = estimator.decision_function(X) * (1.0 if positive == classes[1] else -1.0)
        report["positive_class"] = plain_label(positive)
        report |= measure_positives(y == positive, predicted == positive, scores)
    return report


def _regression(estimator: Any, data: str, model: str) -> dict[str, Any]:
    X, labels, _ = read_svmlight(data, n_features=estimator.n_features_in_)
    y = target_numbers(labels, name_of(data))
    # The mean of what the model was trained to keep small, such as the pinball loss.
    scores = ordered_scores(X, estimator.coef_[None, :])[:, 0] + estimator.intercept_
    mean_loss = estimator.loss_function()(y, scores, np.full(len(y), 1 / len(y)))[0]
    report = measure_numbers(y, estimator.predict(X))
    return report | {"loss": estimator.loss, "mean_loss": float(mean_loss)}


def _ranking(estimator: Any, data: str, model: str) -> dict[str, Any]:
    X, labels, qid = read_svmlight(data, n_features=estimator.n_features_in_, queries=True)
    y = target_numbers(labels, name_of(data), "ranking")
    if y.min() < 0:
        raise InputError(f"{name_of(data)}: relevance must not be negative, got {y.min():g}")
    return measure_rankings(y, estimator.predict(X), Queries(qid))


def _tagging(estimator: Any, data: str, model: str) -> dict[str, Any]:
    read = read_conll(data, labels=True)
    X, y = read.split_labels()
    require_columns(estimator, read.n_columns - 1, data, model)
    known = estimator.classes_.tolist()
    if set(known).isdisjoint(label for labels in y for label in labels):
        raise InputError(
            f"{name_of(data)}: the model knows none of the labels in the last column: it knows "
            f"{', '.join(map(str, known[:5]))}, the first one here is {y[0][0]}"
        )
    return measure_sequences(y, [labels.tolist() for labels in estimator.predict(X)])


def _segments(estimator: Any, data: str, model: str) -> dict[str, Any]:
    read = read_frames(data, n_features=estimator.n_features_in_)
    labels = known_labels(read.labels, estimator.classes_, name_of(data))
    predicted = [tags.tolist() for tags in estimator.predict(read.sequences)]
    return measure_segments([tags.tolist() for tags in read.cut(labels)], predicted)


_REPORTS: dict[Measures, Callable[[Any, str, str], dict[str, Any]]] = {
    Measures.CLASSIFICATION: _classification,
    Measures.REGRESSION: _regression,
    Measures.RANKING: _ranking,
    Measures.CHUNKS: _tagging,
    Measures.SEGMENTS: _segments,
}

_TITLES = {
    "n_samples": "samples",
    "n_tokens": "tokens",
    "n_frames": "frames",
    "n_segments": "segments",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "sequence_accuracy": "sequence accuracy",
    "segment_error_rate": "segment error rate",
    "positive_class": "positive class",
    "f1": "F1",
    "roc_area": "ROC area",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R2",
    "n_queries": "queries",
    "n_queries_without_relevant": "queries left out",
    **{f"ndcg_{k}": f"NDCG@{k}" for k in NDCG_AT},
    "map": "mean average precision",
    "mrr": "mean reciprocal rank",
    "pairwise_accuracy": "pairwise accuracy",
}


def _in_words(report: dict[str, Any]) -> str:
    lines = [
        f"{title:<24}{(show_label if key == 'positive_class' else _show)(report[key])}"
        for key, title in _TITLES.items()
        if key in report
    ]
    if "mean_loss" in report:
        lines.append(f"{'mean ' + report['loss'] + ' loss':<24}{_show(report['mean_loss'])}")
    if "chunks" in report:
        shares, numbers = ("precision", "recall", "f1"), ("there", "predicted", "right")
        cells = [
            [chunk["type"]]
            + [f"{chunk[name]:.4f}" for name in shares]
            + [f"{chunk[name]:,}" for name in numbers]
            for chunk in report["chunks"]
        ]
        lines += ["", *table([["chunks", "precision", "recall", "F1", *numbers], *cells])]
    if "confusion" in report:
        labels = [show_label(label) for label in report["classes"]]
        counts = zip(labels, report["confusion"], strict=True)
        cells = [[label, *map(str, row)] for label, row in counts]
        lines += ["", *table([["actual \\ predicted", *labels], *cells])]
    return "\n".join(lines)


def _show(value: float | None) -> str:
    if value is None:
        return "not defined here"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
