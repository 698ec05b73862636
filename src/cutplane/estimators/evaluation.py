"""How well a fitted model predicts data whose targets are known.

The description of an estimator says which measures go with its predictions; here are the
predictions that each of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cutplane.compute.arrays import is_dask, require_in_memory
from cutplane.estimators.description import Measures
from cutplane.metrics import (
    RANKED_AT,
    ClassQuality,
    LabelSetQuality,
    NumberQuality,
    Quality,
    QuantileQuality,
    RankingQuality,
    Rankings,
    SegmentQuality,
    TokenQuality,
    measured,
)
from cutplane.models.ranking.loss import Queries
from cutplane.report.text import table as text_table
from cutplane.report.words import Html, element, join
from cutplane.report.words import table as html_table


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Measures of a model's predictions.

    Attributes
    ----------
    measures : dict
        Numbers, tables (lists of rows) and counts by name, in plain values that JSON can hold; None
        where a measure is not defined for the data. With a bootstrap, ``intervals`` has the ends of
        an interval for each measure, under the same names.
    """

    measures: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.measures[name]

    def __str__(self) -> str:
        return measures_in_words(self.measures)

    def __repr__(self) -> str:
        numbers = (
            f"{name}={value:.4g}"
            for name, value in self.measures.items()
            if isinstance(value, float)
        )
        return f"Evaluation({', '.join(numbers)})"

    def _repr_html_(self) -> str:
        return measures_to_html(self.measures)


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    at: Sequence[int] = RANKED_AT,
    bootstrap: int = 0,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Evaluation:
    """Compare a model's predictions with the truth, in all measures that go with them.

    Parameters
    ----------
    model : estimator
        A fitted estimator of cutplane, or a pipeline that ends with one.
    X, y
        Data as its ``fit`` takes them. Of Dask collections, predictions and truth are fetched, and
        rows stay where they are.
    qid : array-like, optional
        For a ranker: the query of each document.
    at : sequence of int
        For a ranker: the numbers of first documents to look at.
    bootstrap : int
        How many resamples to draw for percentile intervals: of examples, of queries for a ranker,
        of sequences for a tagger. None are drawn by default.
    level : float
        The share of resamples whose measures lie in an interval.
    seed : int
        Of the resamples. The same seed gives the same intervals.
    progress : callable
        Called with the share of the resamples that is done.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import cutplane as cp
    >>> X, y = load_iris(return_X_y=True)
    >>> model = cp.LinearClassifier("logistic", lam=0.01).fit(X, y)
    >>> found = cp.evaluate(model, X, y, bootstrap=100)
    >>> round(found["accuracy"], 1)
    0.9
    >>> low, high = found["intervals"]["accuracy"]
    >>> low <= found["accuracy"] <= high
    True
    """
    from sklearn.utils.validation import check_is_fitted

    if bootstrap < 0:
        raise ValueError(f"bootstrap must not be negative, got {bootstrap}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level:g}")
    model, X = split_pipeline(model, X)
    check_is_fitted(model)
    y, qid = fetched(y), fetched(qid)
    measures = model.description.measures
    if measures is None:
        raise TypeError(f"there are no measures for a {type(model).__name__}")
    if measures is Measures.RANKING:
        quality: Quality = ranking_quality(model, X, y, qid, at)
    elif qid is not None:
        raise ValueError(f"qid is for rankers, not for a {type(model).__name__}")
    else:
        quality = _QUALITIES[measures](model, X, y)
    found = measured(quality, resamples=bootstrap, level=level, seed=seed, progress=progress)
    if measures is Measures.REGRESSION:
        found["loss"] = str(model.loss)
    return Evaluation(found)


def split_pipeline(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, and what it sees of the data; others as they are."""
    from sklearn.pipeline import Pipeline

    if isinstance(model, Pipeline):
        require_in_memory("a pipeline", X)
        X = model[:-1].transform(X) if len(model.steps) > 1 else X
        model = model[-1]
    if not hasattr(model, "description"):
        raise TypeError(f"not an estimator of cutplane: {type(model).__name__}")
    return model, X


def fetched(numbers: Any) -> Any:
    """Return targets or predictions: those of a Dask collection, others as they are."""
    return numbers.compute() if is_dask(numbers) else numbers


def ranking_quality(
    model: Any, X: Any, y: Any, qid: Any, at: Sequence[int] = RANKED_AT
) -> RankingQuality:
    """Return how a ranker ranks the documents of each query."""
    if qid is None:
        raise ValueError("qid is needed: the query of each document")
    if not at or min(at) < 1:
        raise ValueError(f"at must be numbers of documents, at least 1, got {list(at)}")
    queries = Queries(qid)
    y = np.asarray(y, dtype=np.float64)
    if len(queries.numbers) != len(y):
        raise ValueError(f"{len(queries.numbers)} queries for {len(y)} documents")
    return RankingQuality(Rankings(y, fetched(model.predict(X)), queries), queries, sorted({*at}))


def _classification(model: Any, X: Any, y: Any) -> Quality:
    classes, y = model.classes_, np.asarray(y)
    positive, scores = None, None
    if len(classes) == 2:
        positive = getattr(model, "positive_class_", classes[1])
        scores = fetched(model.decision_function(X)) * (1.0 if positive == classes[1] else -1.0)
    probabilities = fetched(model.predict_proba(X)) if hasattr(model, "predict_proba") else None
    predicted = fetched(model.predict(X))
    return ClassQuality(
        y, predicted, classes, positive=positive, scores=scores, probabilities=probabilities
    )


def _regression(model: Any, X: Any, y: Any) -> Quality:
    y = np.asarray(y, dtype=np.float64)
    # The mean of what the model was trained to keep small, such as the pinball loss.
    scores = fetched(model._scores(X)[:, 0])
    loss = model.loss_function()
    return NumberQuality(
        y,
        fetched(model.predict(X)),
        mean_loss=lambda shares: loss(y, scores, shares)[0],
        quantile=model.quantile if model.loss == "quantile" else None,
    )


def _quantiles(model: Any, X: Any, y: Any) -> Quality:
    predicted = fetched(model.predict(X))
    return QuantileQuality(np.asarray(y, dtype=np.float64), predicted, model.quantiles)


def _label_sets(model: Any, X: Any, y: Any) -> Quality:
    if model.multilabel_:
        return LabelSetQuality(np.asarray(y), fetched(model.predict(X)))
    return ClassQuality(np.asarray(y), fetched(model.predict(X)), model.classes_)


def _labels(sequences: Any) -> list[list[Any]]:
    return [np.asarray(labels).tolist() for labels in sequences]


def _tags(
    quality: Callable[[list[list[Any]], list[list[Any]]], Quality], model: Any, X: Any, y: Any
) -> Quality:
    return quality(_labels(y), _labels(fetched(model.predict(X))))


_QUALITIES: dict[Measures, Callable[[Any, Any, Any], Quality]] = {
    Measures.CLASSIFICATION: _classification,
    Measures.REGRESSION: _regression,
    Measures.QUANTILES: _quantiles,
    Measures.LABEL_SETS: _label_sets,
    Measures.CHUNKS: partial(_tags, TokenQuality),
    Measures.SEGMENTS: partial(_tags, SegmentQuality),
}


TITLES = {
    "n_samples": "samples",
    "n_tokens": "tokens",
    "n_frames": "frames",
    "n_segments": "segments",
    "n_labels": "labels",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "exact_accuracy": "exact sets of labels",
    "label_accuracy": "accuracy of labels",
    "sequence_accuracy": "sequence accuracy",
    "segment_error_rate": "segment error rate",
    "chunk_precision": "precision of chunks",
    "chunk_recall": "recall of chunks",
    "chunk_f1": "F1 of chunks",
    "positive_class": "positive class",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "roc_area": "ROC area",
    "brier": "Brier score",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R2",
    "quantile": "quantile",
    "coverage": "share below predictions",
    "pinball_loss": "mean pinball loss",
    "nominal_coverage": "should be in interval",
    "interval_coverage": "share in interval",
    "mean_loss": "mean loss",
    "n_queries": "queries",
    "n_queries_without_relevant": "queries left out",
    "map": "mean average precision",
    "mrr": "mean reciprocal rank",
    "pairwise_accuracy": "pairwise accuracy",
}


def _same(*names: str) -> dict[str, str]:
    """Return the titles of columns that are called as in the rows."""
    return {name: name for name in names}


_RETRIEVED = {"precision": "precision", "recall": "recall", "f1": "F1"}
# The columns of each table, by their names in the rows, and what they are called.
_TABLES = {
    "per_class": {"label": "class", **_RETRIEVED, **_same("samples")},
    "per_label": {"label": "label", **_RETRIEVED, **_same("samples", "tokens", "frames")},
    "per_quantile": {
        "quantile": "quantile",
        "coverage": "share below",
        "pinball_loss": "pinball loss",
    },
    "at": {"k": "first k", "ndcg": "NDCG", "map": "MAP", "mrr": "MRR"},
    "calibration": {"from": "probability from", **_same("to", "predicted", "observed", "samples")},
    "chunks": {"type": "chunks", **_RETRIEVED, **_same("there", "predicted", "right")},
}

# A page shows so many rows of a table, the largest ones.
MOST_ROWS = 40


def measures_in_words(measures: dict[str, Any]) -> str:
    """Return lines: numbers, with intervals if there are any, and tables below them."""
    lines = [
        f"{title:<24}{value:<14}{' '.join(interval)}".rstrip()
        for title, value, interval in _numbers(measures)
    ]
    if "intervals" in measures:
        lines.append(f"({intervals_in_words(measures['intervals'])})")
    tables = [text_table([titles, *rows]) for _, titles, rows in _tables(measures)]
    return "\n\n".join("\n".join(block) for block in [lines, *tables])


def measures_to_html(measures: dict[str, Any]) -> Html:
    """Return the same as tables of a page."""
    numbers = [(title, value, *interval) for title, value, interval in _numbers(measures)]
    parts = [html_table([], numbers)]
    if "intervals" in measures:
        parts.append(element("p", intervals_in_words(measures["intervals"]), class_="note"))
    for name, titles, rows in _tables(measures):
        if len(rows) <= MOST_ROWS:
            parts.append(html_table(titles, rows))
        elif name != "confusion":  # those rows with the most examples, in their order
            measured = measures[name]
            sizes = ("samples", "tokens", "frames", "there")
            size = next(each for each in sizes if each in measured[0])
            order = sorted(range(len(rows)), key=lambda place: -measured[place][size])
            parts.append(html_table(titles, [rows[k] for k in sorted(order[:MOST_ROWS])]))
            parts.append(element("p", f"and {len(rows) - MOST_ROWS} others", class_="note"))
    return join(parts)


def intervals_in_words(intervals: dict[str, Any]) -> str:
    """Return how the intervals were made."""
    return (
        f"{100 * intervals['level']:g} % of {intervals['resamples']:,} resamples of the "
        f"{intervals['unit']} lie between the numbers in brackets (seed {intervals['seed']})"
    )


def show(value: Any) -> str:
    """Return a number or a label as it is printed."""
    if value is None:
        return "not defined here"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _label(value: Any) -> str:
    """Return a label as it stands in a file: whole numbers without a point."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53
    return str(int(value)) if whole else str(value)


def _numbers(measures: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the title, the value and the interval of each measure that is a number."""
    intervals = measures.get("intervals", {})
    at = [name for name in measures if name.startswith("ndcg_")]
    names = list(TITLES)
    names[names.index("map") : names.index("map")] = at
    for name in names:
        if name not in measures:
            continue
        title = TITLES.get(name) or f"NDCG@{name.removeprefix('ndcg_')}"
        if name == "mean_loss":
            title = f"mean {measures.get('loss', '')} loss"
        value = (_label if name == "positive_class" else show)(measures[name])
        found = intervals.get(name)
        yield title, value, [] if not intervals else [_interval(found)]


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"[{ends[0]:.4g}, {ends[1]:.4g}]"


def _tables(measures: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield the name, titles and rows of each table of measures."""
    intervals = measures.get("intervals", {})
    for name, columns in _TABLES.items():
        rows = measures.get(name)
        if not rows:
            continue
        there = [column for column in columns if column in rows[0]]
        ends = intervals.get(name) or [{}] * len(rows)
        cells = [
            [_cell(row, own, column) for column in there]
            for row, own in zip(rows, ends, strict=True)
            if name != "calibration" or row["samples"]  # bins may be empty
        ]
        yield name, [columns[column] for column in there], cells
    if "confusion" in measures:
        labels = [_label(label) for label in measures["classes"]]
        counts = zip(labels, measures["confusion"], strict=True)
        rows = [[label, *map(str, row)] for label, row in counts]
        yield "confusion", ["actual \\ predicted", *labels], rows


def _cell(row: dict[str, Any], ends: dict[str, Any], column: str) -> str:
    value = row[column]
    if column in ("label", "type"):
        return _label(value)
    if value is None:
        return "-"
    if not isinstance(value, float) or column in ("quantile", "from", "to"):
        return f"{value:g}" if isinstance(value, float) else f"{value:,}"
    text = f"{value:.6g}" if column == "pinball_loss" else f"{value:.4f}"
    if column == "predicted":  # of a bin, whose ends say enough
        return text
    return f"{text} {_interval(ends[column])}".rstrip() if column in ends else text
