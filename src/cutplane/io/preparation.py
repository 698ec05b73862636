"""Tables as features: what columns become, and the same cells for files and data frames.

Numbers: gaps are filled with the median, then they are scaled. Words: a feature for each level, one
for all rare levels together, and one for cells that are empty. scikit-learn does it, and model
files keep it.

A model that was fitted to a file takes words as they stand there. `pandas.read_csv` makes numbers
and truth values of some of them; where only one of the model's levels reads as the same value, that
is the one that stood in the file.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer

from cutplane.estimators.description import Targets
from cutplane.io.files import InputError
from cutplane.io.tables import (
    IS_DECIMAL,
    Kind,
    Table,
    TableLayout,
    read_table,
    require_pandas,
    shown_number,
)

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
        named = ("target", "query", "drop", "text", "scale", "rare")
        there = {f"--{name}": getattr(self, name) for name in named}
        there["--no-header"] = not self.header
        return [option for option, value in there.items() if value]


def read_training_table(
    path: str, options: TableOptions, targets: Targets, *, gaps: str | None = None
) -> tuple[Any, Any, dict[str, Any]]:
    """Read a table to learn from, and find out how its columns become features.

    Returns features, what is to be predicted, and what else `Examples` have. ``gaps`` is the label
    of rows without one; by default these are refused.
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
    made: dict[str, Any] = {
        "options": {} if layout.query is None else {"qid": table.labels(layout.query)},
        "counts": {"n_columns": preparation.n_features_in_},
        "preparation": preparation,
        "layout": layout,
        "notes": notes,
        "names": target if targets is Targets.LABEL_SETS else (),
        "cells": table.raw[target[0]] if len(target) == 1 else None,
    }
    return X, labels_of(table, target, targets), made


def read_prepared(
    path: str, preparation: Any, layout: TableLayout, targets: Targets, *, labels: bool
) -> tuple[Any, Any, Any]:
    """Read a table as the training one was read; return features, labels and queries."""
    query = [] if layout.query is None else [layout.query]
    table = read_table(
        path,
        header=layout.header,
        columns=layout.columns,
        kinds={
            column: Kind(name)
            for name, transformer, columns in preparation[0].transformers_
            if transformer != "drop"  # columns that were empty
            for column in columns
        },
        raw=[*layout.target, *query] if labels else (),
        optional=() if labels else [*layout.target, *query],
    )
    X = preparation.transform(table.frame)
    if not labels:
        return X, None, None
    queries = None if layout.query is None else table.labels(layout.query)
    return X, labels_of(table, layout.target, targets), queries


def read_for_pipeline(path: str, preparation: Any) -> tuple[Any, Any, Any]:
    """Read a table for a pipeline that was saved in Python, and knows its columns by name.

    What it predicts, it does not say: such a table has no labels.
    """
    names = [str(name) for name in preparation.feature_names_in_]
    table = read_table(path, kinds=dict.fromkeys(names))
    return preparation.transform(table.frame), None, None


def labels_of(table: Table, target: Sequence[str], targets: Targets) -> Any:
    """Return what is to be predicted: numbers or words, or a matrix of 0 and 1; None if nothing."""
    if targets is Targets.NOTHING:
        return np.zeros(len(table.frame))
    if targets is Targets.LABEL_SETS:
        return np.column_stack([_switches(table, column) for column in target])
    (column,) = target
    return table.labels(column)


def _switches(table: Table, column: str) -> NDArray[np.int64]:
    """Return a column of 0 and 1."""
    values = table.labels(column)
    wrong = np.array([value not in (0.0, 1.0) for value in values.tolist()])
    if wrong.any():
        row = int(wrong.argmax())
        what = f" says whether a row has this label: 0 or 1, not {values[row]}"
        raise table.wrong(column, what, row)
    return values.astype(np.int64)


def _preparation(table: Table, scale: str, rare: int, notes: list[str]) -> Any:
    """Return what makes features of the columns of a table."""
    # Imported here: few commands need them, and they take a while.
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


# What pandas takes for missing in a file, and we do.
MISSING = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
     "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "?"]
)  # fmt: skip
_TRUTH = {True: ("True", "true", "TRUE"), False: ("False", "false", "FALSE")}
_NAME = "the data frame"


class TableColumns(ColumnTransformer):
    """Takes data frames as the table in a file, if it was fitted to one.

    Attributes
    ----------
    layout_ : TableLayout
        How that table is read. A clone has none, and is like any `ColumnTransformer`.
    """

    @classmethod
    def of(cls, columns: ColumnTransformer, layout: TableLayout) -> TableColumns:
        """Return what a fitted transformer of the command line is, for a table."""
        made = cls(**columns.get_params(deep=False))
        made.__dict__.update(columns.__dict__, layout_=layout)
        return made

    def transform(self, X: Any, **params: Any) -> Any:
        """Return the features."""
        if hasattr(self, "layout_") and hasattr(X, "columns") and hasattr(X, "__getitem__"):
            X = self._as_read(X)
        return super().transform(X, **params)

    def _as_read(self, frame: Any) -> Any:
        """Return a data frame of the cells that a file would have."""
        found = {str(name).strip(): name for name in frame.columns}
        kinds: dict[str, Kind] = {}
        cells: dict[str, Any] = {}
        for kind, transformer, names in self.transformers_:
            for place, name in enumerate(names):
                if transformer == "drop" or name not in found:
                    continue  # scikit-learn says what is missing
                kinds[name] = Kind(kind)
                levels = transformer.categories_[place] if kinds[name] is Kind.WORDS else ()
                known = {level for level in levels if isinstance(level, str)}
                cells[name] = _cells(frame[found[name]], name, kinds[name], known)
        index = getattr(frame, "index", None)
        made = require_pandas().DataFrame(cells, columns=[*cells], index=index)
        words = [name for name, kind in kinds.items() if kind is Kind.WORDS]
        return Table(_NAME, made, [*cells]).typed([*cells], words, kinds).frame


def _cells(values: Any, name: str, kind: Kind, levels: Collection[str]) -> Any:
    """Return a column as it would be read: numbers, or text."""
    pandas = require_pandas()
    if not isinstance(values, pandas.Series):
        values = pandas.Series(values.to_list())  # of polars
    if hasattr(values, "cat"):  # with gaps, numbers among the levels would have to be others
        gaps = values.isna().any()
        values = values.astype(object if gaps else values.cat.categories.dtype)
    if kind is Kind.NUMBERS and values.dtype.kind in "iufb":
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    equal: dict[float, list[str]] = {}
    for level in filter(IS_DECIMAL.fullmatch, levels):
        equal.setdefault(float(level), []).append(level)
    # The levels that are numbers, by their values; of several that are equal, none.
    by_value = {value: alike[0] for value, alike in equal.items() if len(alike) == 1}
    told: dict[Any, Any] = {}
    missing = values.isna().to_numpy()
    cells = np.full(len(values), np.nan, dtype=object)
    for row, cell in enumerate(values.astype(object)):
        if not missing[row]:
            if not isinstance(cell, str | bool | np.bool_ | Real | Decimal):
                raise InputError(
                    f"{_NAME}: column {name!r} has cells of type {type(cell).__name__}, neither "
                    "numbers nor words"
                )
            # With its type: True is 1 to a dictionary.
            key = type(cell), cell
            if key not in told:
                told[key] = _text(cell, levels, by_value)
            cells[row] = told[key]
    return cells


def _text(cell: Any, levels: Collection[str], by_value: Mapping[float, str]) -> Any:
    """Return what stands in the file where a frame has this cell; NaN if it is missing there."""
    if isinstance(cell, str):
        text = cell.strip()
        return np.nan if text in MISSING and text not in levels else text
    if isinstance(cell, bool | np.bool_):
        if not levels:
            return str(float(cell))
        written = _TRUTH[bool(cell)]
        return next((text for text in written if text in levels), written[0])
    if not math.isfinite(cell):
        return repr(float(cell))
    text = shown_number(cell)
    return text if text in levels else by_value.get(float(cell), text)
