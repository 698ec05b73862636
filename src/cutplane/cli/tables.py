"""Tables on the command line: which columns are what, and how they become features.

Numbers: gaps are filled with the median, then they are scaled. Words: a feature for each level, one
for all rare levels together, and one for cells that are empty. scikit-learn does it, and model
files keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.cli.options import require_at_least_one, require_known
from cutplane.estimators.description import Description, Reads, Targets
from cutplane.io import InputError
from cutplane.io.sources import name_of
from cutplane.io.tables.columns import Kind, Table, numbers_or_words
from cutplane.io.tables.reader import TableLayout, looks_like_a_table, read_table

SCALES = ("standard", "robust", "none")
RARE = 5
NUMBERS, WORDS = "numbers", "words"
"""The names of the two parts of the preparation."""


@dataclass(frozen=True)
class TableOptions:
    """The options of ``fit`` that are for tables."""

    target: Sequence[str] = ()
    query: str | None = None
    drop: Sequence[str] = ()
    text: Sequence[str] = ()
    scale: str | None = None
    rare: int | None = None
    header: bool = True

    @property
    def given(self) -> list[str]:
        """The names of those that were given."""
        there = {
            "--target": self.target,
            "--query": self.query,
            "--drop": self.drop,
            "--text": self.text,
            "--scale": self.scale,
            "--rare": self.rare,
            "--no-header": not self.header,
        }
        return [option for option, value in there.items() if value]

    def check(self, train: str, description: Description, task: str) -> bool:
        """Return whether the training file is a table; refuse options that do not fit together."""
        if description.reads not in (Reads.ROWS, Reads.QUERIES):
            if self.given:
                raise InputError(
                    f"{self.given[0]} is for tables, which --task {task} does not read"
                )
            return False
        if not self.given and not looks_like_a_table(train):
            return False
        if self.scale is not None:
            require_known("--scale", self.scale, SCALES)
        require_at_least_one("--rare", self.rare)
        if description.reads is Reads.QUERIES and self.query is None:
            raise InputError("--query is missing: the column that says which query a row is of")
        if description.reads is Reads.ROWS and self.query is not None:
            raise InputError(f"--query is for --task ranking, not {task}")
        if description.targets is Targets.NOTHING:
            if self.target:
                raise InputError(f"--task {task} predicts no column: --drop leaves one out")
        elif not self.target:
            there = read_table(train, header=self.header).frame.columns if train != "-" else ()
            columns = f" (columns: {', '.join(there[:8])}{', ...' * (len(there) > 8)})"
            raise InputError(
                f"{name_of(train)} is a table: say which column to predict by --target"
                f"{columns if len(there) else ''}"
            )
        elif len(self.target) > 1 and description.targets is not Targets.LABEL_SETS:
            raise InputError(f"--target: --task {task} predicts one column, not {len(self.target)}")
        return True


class TableExamples(NamedTuple):
    """Features made of a table, what is to be predicted, queries; and how to do it again."""

    X: Any
    labels: Any
    qid: Any
    preparation: Any
    layout: TableLayout
    notes: list[str]
    cells: Any  # of the column to predict, as they stand; None if there is not one


def read_training_table(
    path: str, options: TableOptions, targets: Targets, *, gaps: str | None = None
) -> TableExamples:
    """Read a table to learn from, and find out how its columns become features.

    ``gaps`` is the label of rows without one; by default these are refused.
    """
    query = [] if options.query is None else [options.query]
    table = read_table(
        path,
        header=options.header,
        words=options.text,
        raw=[*options.target, *query],
        without=options.drop,
    )
    raw = [*table.raw]
    target, queries = raw[: len(options.target)], raw[len(options.target) :]
    notes: list[str] = []
    scale = options.scale or ("none" if targets is Targets.NOTHING else "standard")
    preparation = _preparation(table, scale, options.rare or RARE, notes)
    X = preparation.fit_transform(table.frame)
    layout = TableLayout(
        header=options.header,
        columns=table.columns,
        target=target,
        query=queries[0] if queries else None,
    )
    if gaps is not None:
        table.raw[target[0]] = table.raw[target[0]].fillna(gaps)
    labels, queries_found = labels_of(table, target, targets), queries_of(table, layout)
    cells = table.raw[target[0]] if len(target) == 1 else None
    return TableExamples(X, labels, queries_found, preparation, layout, notes, cells)


def read_prepared(
    path: str, preparation: Any, layout: TableLayout, targets: Targets, *, labels: bool
) -> tuple[Any, Any, Any]:
    """Read a table as the training one was read; return features, labels and queries."""
    query = [] if layout.query is None else [layout.query]
    table = read_table(
        path,
        header=layout.header,
        columns=layout.columns,
        kinds=kinds_of(preparation),
        raw=[*layout.target, *query] if labels else (),
        optional=() if labels else [*layout.target, *query],
    )
    X = preparation.transform(table.frame)
    if not labels:
        return X, None, None
    return X, labels_of(table, layout.target, targets), queries_of(table, layout)


def read_for_pipeline(path: str, preparation: Any) -> tuple[Any, Any, Any]:
    """Read a table for a pipeline that was saved in Python, and knows its columns by name.

    What it predicts, it does not say: such a table has no labels.
    """
    names = [str(name) for name in preparation.feature_names_in_]
    table = read_table(path, kinds=dict.fromkeys(names))
    return preparation.transform(table.frame), None, None


def kinds_of(preparation: Any) -> dict[str, Kind]:
    """Return what the columns are that a preparation of this module takes."""
    return {
        column: Kind(name)
        for name, transformer, columns in preparation[0].transformers_
        if transformer != "drop"  # columns that were empty
        for column in columns
    }


def labels_of(table: Table, target: Sequence[str], targets: Targets) -> Any:
    """Return what is to be predicted: numbers or words, or a matrix of 0 and 1; None if nothing."""
    if targets is Targets.NOTHING:
        return np.zeros(len(table.frame))
    if targets is Targets.LABEL_SETS:
        return np.column_stack([_switches(table, column) for column in target])
    (column,) = target
    return numbers_or_words(table.raw[column], column, table)


def queries_of(table: Table, layout: TableLayout) -> Any:
    """Return the query of each row, None if there are none."""
    if layout.query is None:
        return None
    return numbers_or_words(table.raw[layout.query], layout.query, table)


def _switches(table: Table, column: str) -> NDArray[np.int64]:
    """Return a column of 0 and 1."""
    values = numbers_or_words(table.raw[column], column, table)
    wrong = np.array([value not in (0.0, 1.0) for value in values.tolist()])
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{table.place(row)}: column {column!r} says whether a row has this label: 0 or 1, not "
            f"{values[row]}"
        )
    return values.astype(np.int64)


def _preparation(table: Table, scale: str, rare: int, notes: list[str]) -> Any:
    """Return what makes features of the columns of a table."""
    # Imported here: few commands need them, and they take a while.
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

    numbers, words = list[str](), list[str]()
    for column, kind in table.kinds.items():
        values = table.frame[column]
        if not values.notna().any():
            notes.append(f"column {column!r} is left out: it is empty")
        elif kind is Kind.NUMBERS:
            numbers.append(column)
        else:
            words.append(column)
            if int(values.value_counts(dropna=False).iloc[0]) < rare:
                notes.append(
                    f"column {column!r} says nothing: each of its {values.nunique():,} levels is "
                    f"in fewer than {rare} rows (--rare)"
                )
    if not numbers and not words:
        raise InputError(f"{table.name}: all columns are empty")
    fill: Any = SimpleImputer(strategy="median")
    scalers = {"standard": StandardScaler(), "robust": RobustScaler()}
    if scale in scalers:
        fill = Pipeline([("fill", fill), ("scale", scalers[scale])])
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=rare)
    parts = [(NUMBERS, fill, numbers), (WORDS, encoder, words)]
    columns = ColumnTransformer(
        [part for part in parts if part[2]], verbose_feature_names_out=False
    )
    return Pipeline([("columns", columns)])
