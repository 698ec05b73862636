"""``cutplane evaluate``: how well a model predicts data whose labels are known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane import (
    LinearClassifier,
    LinearQuantiles,
    LinearRanker,
    LinearRegressor,
    MultilabelClassifier,
    NoveltyDetector,
    OrdinalClassifier,
    SequenceTagger,
)
from cutplane.cli.labels import known_labels, plain_label, show_label, target_numbers
from cutplane.cli.models import load_for_files
from cutplane.cli.options import DataArgument, JsonOption, ModelArgument
from cutplane.cli.sequences import chunk_table, evaluate_tagger
from cutplane.io import InputError, read_svmlight
from cutplane.io.sources import name_of
from cutplane.losses.ranking.queries import Queries
from cutplane.maps import ordered_scores
from cutplane.metrics.ranking import Rankings, mean_of_defined

_NDCG_AT = (1, 3, 5, 10)


def evaluate(model: ModelArgument, data: DataArgument, as_json: JsonOption = False) -> None:
    """Compare a model's predictions with the labels in DATA.

    Classifiers: accuracy, balanced accuracy, F1 and ROC area of the positive class (two classes),
    confusion counts.
    Regressors: mean absolute error, root mean squared error, R2, and the mean of the model's loss.
    Taggers of sequences: accuracy of tokens and sequences; precision, recall and F1 of chunks.
    Rankers: NDCG, mean average precision, mean reciprocal rank, pairs in the right order.
    """
    report = _report(model, data)
    print(json.dumps(report, allow_nan=False) if as_json else _in_words(report))


def _report(model: str, data: str) -> dict[str, Any]:
    estimator = load_for_files(model)
    if isinstance(estimator, SequenceTagger):
        return evaluate_tagger(estimator, data, model)
    if isinstance(estimator, NoveltyDetector):
        raise InputError(f"{name_of(model)}: a NoveltyDetector has no labels to compare with")
    if isinstance(estimator, LinearQuantiles | MultilabelClassifier):
        kind = type(estimator).__name__
        raise InputError(f"{name_of(model)}: a {kind} is evaluated in Python only, by its score")
    is_ranker = isinstance(estimator, LinearRanker)
    X, labels, qid = read_svmlight(data, n_features=estimator.n_features_in_, queries=is_ranker)
    if isinstance(estimator, LinearClassifier | OrdinalClassifier):
        y = known_labels(labels, estimator.classes_, name_of(data))
        return _classification(estimator, X, y)
    if isinstance(estimator, LinearRanker):
        y = target_numbers(labels, name_of(data), "ranking")
        if y.min() < 0:
            raise InputError(f"{name_of(data)}: relevance must not be negative, got {y.min():g}")
        return _ranking(y, estimator.predict(X), Queries(qid))
    return _regression(estimator, X, target_numbers(labels, name_of(data)))


def _classification(
    estimator: LinearClassifier | OrdinalClassifier, X: Any, y: NDArray[Any]
) -> dict[str, Any]:
    # Imported here: scikit-learn's metrics take longer to import than everything else.
    from sklearn.metrics import confusion_matrix

    predicted = estimator.predict(X)
    # In the order of the model. Labels that it never saw count as mistakes.
    classes = np.concatenate([estimator.classes_, np.setdiff1d(y, estimator.classes_)])
    confusion = confusion_matrix(y, predicted, labels=classes)
    present = confusion.sum(axis=1) > 0
    recalls = confusion.diagonal()[present] / confusion.sum(axis=1)[present]
    report: dict[str, Any] = {
        "n_samples": len(y),
        "accuracy": float(np.mean(predicted == y)),
        "balanced_accuracy": float(recalls.mean()),
    }
    if len(estimator.classes_) == 2:
        positive = getattr(estimator, "positive_class_", estimator.classes_[1])
        scores = estimator.decision_function(X)
        if positive == estimator.classes_[0]:
            scores = -scores
        report["positive_class"] = plain_label(positive)
        report["f1"] = _f1(y == positive, predicted == positive)
        report["roc_area"] = _roc_area(y == positive, scores)
    report["classes"] = [plain_label(label) for label in classes]
    report["confusion"] = confusion.tolist()
    return report


def _f1(actual: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> float | None:
    """Return the F1 score, or None where no example is positive or predicted to be."""
    positives = int(actual.sum() + predicted.sum())
    return 2 * int((actual & predicted).sum()) / positives if positives else None


def _roc_area(actual: NDArray[np.bool_], scores: NDArray[Any]) -> float | None:
    """Return the area under the ROC curve, or None where only one class is present."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(actual, scores)) if 0 < actual.sum() < len(actual) else None


def _regression(estimator: LinearRegressor, X: Any, y: NDArray[np.float64]) -> dict[str, Any]:
    errors = y - estimator.predict(X)
    spread = float(np.sum((y - y.mean()) ** 2))
    return {
        "n_samples": len(y),
        "mae": float(np.mean(abs(errors))),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "r2": 1 - float(np.sum(errors**2)) / spread if spread else None,
        "loss": estimator.loss,
        "mean_loss": _mean_loss(estimator, X, y),
    }


def _ranking(
    y: NDArray[np.float64], scores: NDArray[np.float64], queries: Queries
) -> dict[str, Any]:
    rankings = Rankings(y, scores, queries)
    reciprocal = rankings.reciprocal_rank()
    return {
        "n_samples": len(y),
        "n_queries": len(queries),
        "n_queries_without_relevant": int(np.isnan(reciprocal).sum()),
        **{f"ndcg_{k}": mean_of_defined(rankings.ndcg(k)) for k in _NDCG_AT},
        "map": mean_of_defined(rankings.average_precision()),
        "mrr": mean_of_defined(reciprocal),
        "pairwise_accuracy": rankings.pairwise_accuracy(),
    }


def _mean_loss(estimator: LinearRegressor, X: Any, y: NDArray[np.float64]) -> float:
    """Return the mean of what the model was trained to keep small, such as the pinball loss."""
    loss = estimator.loss_function()
    scores = ordered_scores(X, estimator.coef_[None, :])[:, 0] + estimator.intercept_
    return float(loss(y, scores, np.full(len(y), 1 / len(y)))[0])


_TITLES = {
    "n_samples": "samples",
    "n_tokens": "tokens",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "sequence_accuracy": "sequence accuracy",
    "positive_class": "positive class",
    "f1": "F1",
    "roc_area": "ROC area",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R2",
    "n_queries": "queries",
    "n_queries_without_relevant": "queries left out",
    **{f"ndcg_{k}": f"NDCG@{k}" for k in _NDCG_AT},
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
        lines += ["", *chunk_table(report["chunks"])]
    if "confusion" in report:
        lines += ["", *_confusion_table(report["classes"], report["confusion"])]
    return "\n".join(lines)


def _show(value: float | None) -> str:
    if value is None:
        return "not defined here"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _confusion_table(classes: list[Any], confusion: list[list[int]]) -> list[str]:
    labels = [show_label(label) for label in classes]
    width = max(9, *map(len, labels), *(len(str(count)) for row in confusion for count in row))
    title = "actual \\ predicted"
    margin = max(len(title), *map(len, labels))
    return [
        title.ljust(margin) + "".join(f"  {label:>{width}}" for label in labels),
        *(
            label.rjust(margin) + "".join(f"  {count:>{width}}" for count in row)
            for label, row in zip(labels, confusion, strict=True)
        ),
    ]
