"""Data files as estimators take them: rows, rows with queries, sequences of tokens or vectors.

What cannot be read, or does not suit the task or the model, raises `InputError`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cutplane.cli.fit_options import Choice
from cutplane.cli.labels import training_labels
from cutplane.estimators.description import Reads, Targets
from cutplane.io import InputError, load_model, read_conll, read_frames, read_svmlight
from cutplane.io.sources import name_of


class Examples(NamedTuple):
    """What an estimator is fitted to: inputs, targets, what else its ``fit`` takes, and counts."""

    X: Any
    y: Any
    options: dict[str, Any]
    counts: dict[str, int]


def read_examples(
    path: str,
    choice: Choice,
    *,
    features: int | None,
    certain: bool,
    named: dict[str, Any],
) -> Examples:
    """Read a training file; options that name labels become labels (see `training_labels`)."""
    reads, targets = choice.description.reads, choice.description.targets
    if reads is Reads.SEQUENCES:
        data = read_conll(path, labels=True)
        if data.n_columns < 2:
            raise InputError(
                f"{name_of(path)}: one column only; the last is the label, others make features"
            )
        return Examples(*data.split_labels(), {}, {"n_tokens": data.n_tokens})
    how: dict[str, Any] = {"task": choice.task, "certain": certain, "named": named}
    if reads is Reads.FRAMES:
        frames = read_frames(path)
        counts = {"n_frames": len(frames.X)}
        if targets is Targets.TAGS:
            y = training_labels(frames.labels, targets, name_of(path), **how)
            return Examples(frames.sequences, frames.cut(y), {}, counts)
        y = training_labels(frames.classes(), targets, name_of(path), **how)
        return Examples(frames.sequences, y, {}, counts)
    X, labels, qid = read_svmlight(path, n_features=features, queries=reads is Reads.QUERIES)
    y = training_labels(labels, targets, name_of(path), **how)
    return Examples(X, y, {} if qid is None else {"qid": qid}, {})


def load_for_files(path: str) -> Any:
    """Read a model whose inputs can be read from files."""
    estimator: Any = load_model(path)
    if estimator.description.reads is Reads.STRUCTURES:
        raise InputError(
            f"{name_of(path)}: a {type(estimator).__name__} predicts in Python only, its inputs "
            "are no lines of a file"
        )
    return estimator


def read_inputs(estimator: Any, path: str) -> Any:
    """Read what a model predicts from, but for columns of tokens; labels are ignored."""
    if estimator.description.reads is Reads.FRAMES:
        return read_frames(path, n_features=estimator.n_features_in_, labels=False).sequences
    return read_svmlight(path, n_features=estimator.n_features_in_).X


def read_classes(estimator: Any, path: str) -> tuple[Any, Any]:
    """Read what a classifier predicts from, and the labels to compare with."""
    if estimator.description.reads is Reads.FRAMES:
        frames = read_frames(path, n_features=estimator.n_features_in_)
        return frames.sequences, frames.classes()
    X, labels, _ = read_svmlight(path, n_features=estimator.n_features_in_)
    return X, labels


def require_columns(estimator: Any, n_columns: int, path: str, model: str) -> None:
    """Refuse sequences that a model cannot make its features of."""
    if estimator.templates is None:
        raise InputError(
            f"{name_of(model)}: a {type(estimator).__name__} without templates reads no columns; "
            "use Python"
        )
    needed = estimator.vectorizer_.n_columns
    if n_columns < needed:
        raise InputError(
            f"{name_of(path)}: {n_columns} columns beside labels, the model's templates ask for "
            f"{needed}"
        )
