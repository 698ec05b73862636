"""Files as estimators take them: rows, rows with queries, sequences of tokens or vectors.

What cannot be read, or does not suit the task or the model, raises `InputError`. Where a file looks
like one that needs another option, the message says which.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from cutplane.estimators.description import Reads, Targets, parameters_of
from cutplane.io.files import STANDARD_INPUT, InputError, counted, name_of, read_parts, read_text
from cutplane.io.folders import open_folder
from cutplane.io.labels import class_texts, label_matrix, training_labels
from cutplane.io.models.files import load_with_layout
from cutplane.io.sequences import read_conll, read_frames
from cutplane.io.svmlight import Rules, read_svmlight
from cutplane.io.tables import (
    TableLayout,
    TableOptions,
    read_prepared,
    read_table,
    read_training_table,
)

_FEATURE = re.compile(r"\s[+-]?[0-9]+:\S")
_QUERY = re.compile(r"^\S+\s+qid:[0-9]+\s")


def option_for(path: str) -> str | None:
    """Return which option a file seems to need that is not in the svmlight format, if any."""
    lines = _first_lines(path)
    there = [line for line in lines if line.strip()]
    if len(there) < 2 or any(map(_FEATURE.search, there)):
        return None
    for separator in ",;\t|":
        counts = {line.count(separator) for line in there}
        # Tokens have columns, too, but empty lines between the sequences.
        if len(counts) == 1 and counts != {0} and len(there) >= len(lines) - 1:
            columns = [part.strip().strip('"') for part in there[0].split(separator)]
            shown = ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")
            return f"it looks like a table ({shown}): say which column to predict by --target"
    widths = {len(line.split()) for line in there}
    if len(widths) == 1 and widths != {1}:
        return "it looks like columns of tokens: give --task sequences"
    return None


def _first_lines(path: str, most: int | None = 20) -> Sequence[str]:
    """Return the first lines of a file, the last of them whole; none of standard input."""
    if path == STANDARD_INPUT or os.path.isdir(path):
        return ()
    try:
        first = next(iter(read_parts(path)), b"")
    except InputError:
        return ()
    lines = first.decode("utf-8-sig", errors="replace").splitlines()
    return lines[:-1][:most] if len(lines) > 1 else lines


def read_costs(path: str) -> dict[str, dict[str, float]]:
    """Return ``costs[true][predicted]``, with the classes as they stand in the file."""
    name = name_of(path)
    lines = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(csv.reader(read_text(path).splitlines()), 1)
        if row
    ]
    if not lines:
        raise InputError(f"{name}: no costs")
    (_, (_, *classes)), *rows = lines
    if not classes or len(set(classes)) != len(classes):
        raise InputError(f"{name}, line 1: no classes, or one of them twice")
    costs: dict[str, dict[str, float]] = {}
    for number, (true, *cells) in rows:
        where = f"{name}, line {number}"
        if true in costs:
            raise InputError(f"{where}: class {true} has two lines")
        if len(cells) != len(classes):
            raise InputError(f"{where}: {len(cells)} costs for {len(classes)} classes")
        try:
            costs[true] = dict(zip(classes, map(float, cells), strict=True))
        except ValueError as error:
            raise InputError(f"{where}: a cost is no number ({error})") from None
    return costs


# Stands for the gaps among the labels of a table, where examples may have none.
_UNLABELED = "-1"


class Examples(NamedTuple):
    """What an estimator is fitted to: inputs, targets, what else its ``fit`` takes, and counts.

    Of a table also what made the inputs of it, how it was read, and what there is to say.
    """

    X: Any
    y: Any
    options: dict[str, Any]
    counts: dict[str, int]
    preparation: Any = None
    layout: TableLayout | None = None
    notes: Sequence[str] = ()
    names: Sequence[str] = ()  # of the labels, where an example may have several
    cells: Any = None  # of the column to predict, as they stand
    signed: bool = False  # whether labels above zero have a sign

    def name_classes(self, estimator: Any) -> None:
        """Let a fitted classifier know how its classes are written."""
        texts = list(self.names) or None
        if estimator.description.targets in (Targets.CLASSES, Targets.GRADES):
            texts = class_texts(estimator.classes_, self.cells, signed=self.signed)
        if texts is not None:
            estimator.class_texts_ = texts

    def model(self, estimator: Any) -> Any:
        """Return the model to keep: the estimator, after what prepares its inputs."""
        if self.preparation is None:
            return estimator
        return Pipeline([*self.preparation.steps, ("model", estimator)])


def read_examples(
    path: str,
    estimator: type[Any],
    *,
    task: str,
    features: int | None,
    certain: bool,
    chosen: bool = True,
    named: dict[str, Any],
    table: TableOptions | None = None,
) -> Examples:
    """Read a training file; options that name labels become labels (see `training_labels`).

    ``task`` is what messages call the estimator's; ``certain`` says whether it was given,
    ``chosen`` whether it was, or the loss.
    """
    reads, targets = estimator.description.reads, estimator.description.targets
    if reads is Reads.SEQUENCES:
        data = read_conll(path, labels=True)
        if data.n_columns < 2:
            raise InputError(
                f"{name_of(path)}: one column only; the last is the label, others make features"
            )
        return Examples(*data.split_labels(), {}, {"n_tokens": data.n_tokens})
    how: dict[str, Any] = {"task": task, "certain": certain, "named": named}
    if reads is Reads.FRAMES:
        frames = read_frames(path)
        of_each, counts = targets is Targets.TAGS, {"n_frames": len(frames.X)}
        labels = frames.labels if of_each else frames.classes()
        y = training_labels(labels, targets, name_of(path), **how)
        return Examples(frames.sequences, frames.cut(y) if of_each else y, {}, counts)
    if table is not None:
        gaps = None
        if "unlabeled" in parameters_of(estimator):
            gaps = named.setdefault("unlabeled", _UNLABELED)
        X, labels, made = read_training_table(path, table, targets, gaps=gaps)
        return Examples(X, training_labels(labels, targets, name_of(path), **how), **made)
    lines = [] if chosen else [line for line in _first_lines(path) if line.strip()]
    if lines and all(map(_QUERY.match, lines)):
        raise InputError(
            f"{name_of(path)}: its lines name queries (qid:): --task ranking ranks within them; "
            "--task classification or regression ignores them"
        )
    queries, labeled = reads is Reads.QUERIES, targets is not Targets.NOTHING
    label_sets, names = targets is Targets.LABEL_SETS, list[str]()
    try:
        rows = read_rows(path, Rules(features, queries, labeled, label_sets))
    except InputError as error:
        if option := option_for(path):
            raise InputError(f"{error}; {option}") from error
        raise
    y = training_labels(rows.labels, targets, name_of(path), **how)
    if label_sets:
        y, names = label_matrix(y)
    found = {"qid": rows.qid, "sample_weight": rows.weights}
    options = {name: value for name, value in found.items() if value is not None}
    first = _first_lines(path, most=None) if targets is Targets.CLASSES else ()
    signed = any(line.lstrip().startswith("+") for line in first)
    return Examples(rows.X, y, options, {}, names=names, signed=signed)


class LabeledData(NamedTuple):
    """What a model predicts from, the labels beside it, queries of a ranking, and weights."""

    X: Any
    labels: Any
    qid: Any = None
    weights: Any = None


def read_rows(path: str, rules: Rules) -> LabeledData:
    """Read a file in the svmlight format, or open a data folder, by the same rules.

    Of sparse rows the last features need not occur. If no labels are asked for and there are none,
    zeros stand for them.
    """
    if not os.path.isdir(path):
        return LabeledData(*read_svmlight(path, **vars(rules)))
    folder = open_folder(path)
    if rules.labels and folder.y is None:
        raise InputError(f"{path}: it has no labels; convert with --target COLUMN")
    if rules.queries and folder.queries is None:
        raise InputError(f"{path}: it has no queries; convert with --query COLUMN")
    X = folder.X if rules.n_features is None else folder.widened(rules.n_features)
    y = np.zeros(len(folder)) if folder.y is None else folder.y
    return LabeledData(X, y, folder.queries if rules.queries else None, folder.weights)


class FileModel(NamedTuple):
    """A model that was read from a file, and predicts from files.

    Of a pipeline, the estimator is its last step, and the preparation all that comes before.
    """

    path: str
    estimator: Any
    preparation: Any = None
    layout: TableLayout | None = None

    def read(self, data: str, *, labels: bool) -> LabeledData:
        """Read what it predicts from, but for columns of tokens; maybe labels to compare with."""
        description = self.estimator.description
        if description.reads is Reads.FRAMES:
            n_features = self.estimator.n_features_in_
            frames = read_frames(data, n_features=n_features, labels=labels)
            return LabeledData(frames.sequences, frames.classes() if labels else None)
        if self.layout is not None:
            how = (self.preparation, self.layout, description.targets)
            return LabeledData(*read_prepared(data, *how, labels=labels))
        if self.preparation is None:
            n_features = self.estimator.n_features_in_
        elif hasattr(self.preparation, "feature_names_in_"):
            if labels:
                raise InputError(
                    f"{name_of(self.path)}: a pipeline that was saved in Python does not say which "
                    "column has the labels: evaluate it there"
                )
            names = [str(name) for name in self.preparation.feature_names_in_]
            table = read_table(data, kinds=dict.fromkeys(names))
            return LabeledData(self.preparation.transform(table.frame), None)
        else:
            n_features = self.preparation.n_features_in_
        queries = labels and description.reads is Reads.QUERIES
        label_sets = description.targets is Targets.LABEL_SETS
        rows = read_rows(data, Rules(n_features, queries, labels, label_sets))
        if self.preparation is None:
            return rows
        dense = issparse(rows.X) and not get_tags(self.preparation).input_tags.sparse
        X = self.preparation.transform(rows.X.toarray() if dense else rows.X)
        return rows._replace(X=X)


def load_for_files(path: str) -> FileModel:
    """Read a model whose inputs can be read from files."""
    model, layout = load_with_layout(path)
    preparation, estimator = None, model
    if isinstance(model, Pipeline):
        preparation, estimator = model[:-1], model[-1]
    if estimator.description.reads is Reads.STRUCTURES:
        raise InputError(
            f"{name_of(path)}: a {type(estimator).__name__} predicts in Python only, its inputs "
            "are no lines of a file"
        )
    return FileModel(path, estimator, preparation, layout)


def require_columns(model: FileModel, n_columns: int, path: str) -> None:
    """Refuse sequences that a model cannot make its features of."""
    estimator = model.estimator
    if estimator.templates is None:
        raise InputError(
            f"{name_of(model.path)}: a {type(estimator).__name__} without templates reads no "
            "columns; use Python"
        )
    needed = estimator.vectorizer_.n_columns
    if n_columns < needed:
        raise InputError(
            f"{name_of(path)}: {counted(n_columns, 'column')} beside labels, the "
            f"model's templates ask for {needed}"
        )
