"""Measures in words: as lines for a terminal, as tables of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cutplane.report.html import Html, element, join
from cutplane.report.html import table as html_table
from cutplane.report.text import table as text_table

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


class _Table(NamedTuple):
    """The columns of a table of measures, by their names in the rows, and what they are called."""

    columns: dict[str, str]
    empty: str | None = None  # rows without any of these are left out


_RETRIEVED = {"precision": "precision", "recall": "recall", "f1": "F1"}
_TABLES = {
    "per_class": _Table({"label": "class", **_RETRIEVED, "samples": "samples"}),
    "per_label": _Table(
        {
            "label": "label",
            **_RETRIEVED,
            "samples": "samples",
            "tokens": "tokens",
            "frames": "frames",
        }
    ),
    "per_quantile": _Table(
        {"quantile": "quantile", "coverage": "share below", "pinball_loss": "pinball loss"}
    ),
    "at": _Table({"k": "first k", "ndcg": "NDCG", "map": "MAP", "mrr": "MRR"}),
    "calibration": _Table(
        {
            "from": "probability from",
            "to": "to",
            "predicted": "predicted",
            "observed": "observed",
            "samples": "samples",
        },
        empty="samples",
    ),
    "chunks": _Table(
        {
            "type": "chunks",
            **_RETRIEVED,
            "there": "there",
            "predicted": "predicted",
            "right": "right",
        }
    ),
}

# A page shows so many rows of a table, the largest ones.
MOST_ROWS = 40


def measures_in_words(measures: dict[str, Any]) -> str:
    """Return lines: numbers, with intervals if there are any, and tables below them."""
    blocks = [["\n".join(_lines(measures))]]
    for _, titles, rows in _tables(measures):
        blocks.append(text_table([titles, *rows]))
    if (confusion := _confusion(measures)) is not None:
        titles, counts = confusion
        blocks.append(text_table([titles, *counts]))
    return "\n\n".join("\n".join(lines) for lines in blocks)


def measures_to_html(measures: dict[str, Any]) -> Html:
    """Return the same as tables of a page."""
    numbers = [(title, value, *interval) for title, value, interval in _numbers(measures)]
    parts = [html_table([], numbers)]
    if "intervals" in measures:
        parts.append(element("p", intervals_in_words(measures["intervals"]), class_="note"))
    for name, titles, rows in _tables(measures):
        heaviest = measures[name]
        kept = _largest(rows, heaviest)
        parts.append(html_table(titles, kept))
        if len(kept) < len(rows):
            parts.append(element("p", f"and {len(rows) - len(kept)} others", class_="note"))
    confusion = _confusion(measures)
    if confusion is not None and len(confusion[1]) <= MOST_ROWS:
        parts.append(html_table(*confusion))
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


def _lines(measures: dict[str, Any]) -> Iterator[str]:
    for title, value, interval in _numbers(measures):
        yield f"{title:<24}{value:<14}{' '.join(interval)}".rstrip()
    if "intervals" in measures:
        yield f"({intervals_in_words(measures['intervals'])})"


def _tables(measures: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield the name, titles and rows of each table of measures."""
    intervals = measures.get("intervals", {})
    for name, (columns, empty) in _TABLES.items():
        rows = measures.get(name)
        if not rows:
            continue
        there = [column for column in columns if column in rows[0]]
        ends = intervals.get(name) or [{}] * len(rows)
        cells = [
            [_cell(row, own, column) for column in there]
            for row, own in zip(rows, ends, strict=True)
            if empty is None or row[empty]
        ]
        yield name, [columns[column] for column in there], cells


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


def _largest(rows: list[list[str]], measured: list[dict[str, Any]]) -> list[list[str]]:
    """Return at most `MOST_ROWS` of the rows: those with the most examples, in their order."""
    if len(rows) <= MOST_ROWS:
        return rows
    size = next(name for name in ("samples", "tokens", "frames", "there") if name in measured[0])
    order = sorted(range(len(rows)), key=lambda place: -measured[place][size])
    return [rows[place] for place in sorted(order[:MOST_ROWS])]


def _confusion(measures: dict[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    if "confusion" not in measures:
        return None
    labels = [_label(label) for label in measures["classes"]]
    counts = zip(labels, measures["confusion"], strict=True)
    return ["actual \\ predicted", *labels], [[label, *map(str, row)] for label, row in counts]
