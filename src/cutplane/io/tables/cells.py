"""Data frames as tables in files are read: the same cell, whatever type pandas has given it.

A model that was fitted to a file takes words as they stand there. `pandas.read_csv` makes numbers
and truth values of some of them; where only one of the model's levels reads as the same value, that
is the one that stood in the file.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

from cutplane.io.errors import InputError
from cutplane.io.tables.columns import IS_DECIMAL, Kind, Table, require_pandas, typed
from cutplane.io.tables.reader import TableLayout, shown_number

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
            X = as_read(X, self)
        return super().transform(X, **params)


def as_read(frame: Any, columns: Any) -> Any:
    """Return a data frame of the cells that a fitted transformer would get of a file."""
    pandas = require_pandas()
    found = {str(name).strip(): name for name in frame.columns}
    kinds: dict[str, Kind] = {}
    cells: dict[str, Any] = {}
    for kind, transformer, names in columns.transformers_:
        for place, name in enumerate(names):
            if transformer == "drop" or name not in found:
                continue  # scikit-learn says what is missing
            kinds[name] = Kind(kind)
            levels = transformer.categories_[place] if kinds[name] is Kind.WORDS else ()
            known = {level for level in levels if isinstance(level, str)}
            cells[name] = _cells(frame[found[name]], name, kinds[name], known)
    made = pandas.DataFrame(cells, columns=[*cells], index=getattr(frame, "index", None))
    table = Table(_NAME, None, {}, {}, [*cells])
    words = [name for name, kind in kinds.items() if kind is Kind.WORDS]
    return typed(table, made, [*cells], words, kinds).frame


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
    by_value = _by_value(levels)
    told: dict[Any, Any] = {}
    missing = values.isna().to_numpy()
    cells = np.full(len(values), np.nan, dtype=object)
    for row, cell in enumerate(values.astype(object)):
        if not missing[row]:
            _require_plain(cell, name)
            # With its type: True is 1 to a dictionary.
            key = type(cell), cell
            if key not in told:
                told[key] = _text(cell, levels, by_value)
            cells[row] = told[key]
    return cells


def _by_value(levels: Collection[str]) -> Mapping[float, str]:
    """Return the levels that are numbers, by their values; of several that are equal, none."""
    equal: dict[float, list[str]] = {}
    for level in levels:
        if IS_DECIMAL.fullmatch(level):
            equal.setdefault(float(level), []).append(level)
    return {value: alike[0] for value, alike in equal.items() if len(alike) == 1}


def _require_plain(cell: Any, name: str) -> None:
    if not isinstance(cell, str | bool | np.bool_ | Real | Decimal):
        kind = type(cell).__name__
        raise InputError(
            f"{_NAME}: column {name!r} has cells of type {kind}, neither numbers nor words"
        )


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
