"""Tables: CSV, TSV and Parquet with columns of numbers and of words, and the features of them.

pandas reads; these decisions make a file mean the same wherever it is read:

- Text is UTF-8, its separator a tab, comma, semicolon or bar: the one that the first line has most
  of. Every line has as many fields as the first: pandas fills short lines up without a word, so
  that lines are looked at first.
- A cell that is empty, or one of the words that pandas takes for missing (``NA``, ``null``, ...),
  or ``?``, is missing.
- A column is numbers if all its cells are decimal numbers, else words. One in which most cells are
  numbers, and some are not, is refused: a typing error would make it thousands of words. So are
  dates, and numbers with a decimal comma.
- Columns are numbered from 1 on; without a header, these are their names.

As features: gaps among numbers are filled with the median, then numbers are scaled. Words have a
feature for each level, one for all rare levels together, and one for cells that are empty.
scikit-learn does it, and model files keep it.

A model that was fitted to a file takes words as they stand there. `pandas.read_csv` makes numbers
and truth values of some of them; where only one of the model's levels reads as the same value, that
is the one that stood in the file.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer

from cutplane.estimators.description import Targets
from cutplane.io.files import (
    InputError,
    counted,
    name_of,
    read_bytes,
    text_of,
    what_is_wrong_with_label,
)
from cutplane.io.parsing import DECIMAL

IS_DECIMAL = re.compile(DECIMAL)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})*,[0-9]+|[+-]?[0-9]+,[0-9]+")
_DATE = re.compile(
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}(?:[ T].*)?"
    r"|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})(?:[ T].*)?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
)
_NEITHER = (
    (_DATE, "dates or times", "make numbers of them, such as a year or a duration"),
    (_DECIMAL_COMMA, "numbers with a decimal comma", "write a point in its place"),
)


class TablesUnavailable(ImportError):
    """Pandas, or what it needs to read a file, is not installed."""


class Kind(StrEnum):
    """What a column consists of."""

    NUMBERS = "numbers"
    WORDS = "words"


@dataclass(frozen=True)
class Table:
    """A table: cells are numbers (float64), or words (str); NaN are missing.

    Attributes
    ----------
    frame : pandas.DataFrame
    columns : list of str
        The names of all columns of the file.
    kinds : dict from str to Kind
        Of each column, once they are `typed`.
    raw : dict from str to a pandas.Series of str
        The text of columns that were asked for as they stand, such as labels.
    lines : ndarray, optional
        The line of each row, in a text file.
    """

    name: str
    frame: Any
    columns: list[str]
    kinds: dict[str, Kind] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    lines: NDArray[np.int64] | None = None

    def wrong(self, column: str, what: str, row: int | None = None) -> InputError:
        """Return an error that says what is wrong with a column, and maybe where."""
        place = self.name if row is None else f"{self.name}, row {row + 1}"
        if row is not None and self.lines is not None:
            place = f"{self.name}:{self.lines[row]}"
        return InputError(f"{place}: column {column!r}{what}")

    def labels(self, column: str) -> NDArray[Any]:
        """Return a column of labels as in other files: float64 if all are numbers, else words.

        Raises
        ------
        InputError
            If one is missing.
        """
        missing = self.raw[column].isna().to_numpy()
        if missing.any():
            raise self.wrong(column, " is empty here", int(missing.argmax()))
        texts = [str(cell) for cell in self.raw[column]]
        if all(map(IS_DECIMAL.fullmatch, dict.fromkeys(texts))):
            return self.finite(np.array(texts, dtype=object).astype(np.float64), column)
        for word in dict.fromkeys(texts):
            if wrong := what_is_wrong_with_label(word):
                raise self.wrong(column, f": label {word[:40]!r} {wrong}", texts.index(word))
        return np.array(texts)

    def finite(self, numbers: NDArray[np.float64], column: str) -> NDArray[np.float64]:
        """Return the numbers of a column, or refuse those that are not finite; gaps may be."""
        infinite = np.isinf(numbers)
        if infinite.any():
            raise self.wrong(column, " has a number that is not finite", int(infinite.argmax()))
        return numbers

    def typed(
        self,
        wanted: Sequence[str],
        as_text: Collection[str],
        kinds: Mapping[str, Kind | None] | None,
    ) -> Table:
        """Return the table of the columns that are wanted, each of them numbers or words."""
        found: dict[str, Kind] = {}
        cells: dict[str, Any] = {}
        for column in wanted:
            values = self.frame[column]
            known = None if kinds is None else kinds[column]
            is_number = values.dtype.kind in "iuf"
            if column not in as_text and not is_number and known is not Kind.WORDS:
                # Also numbers that are too large for pandas to see that they are.
                is_number = _are_numbers(values, column, self, known)
            if is_number:
                numbers = values.astype(object).to_numpy().astype(np.float64)
                found[column], cells[column] = Kind.NUMBERS, self.finite(numbers, column)
            else:
                found[column] = Kind.WORDS
                cells[column] = values.astype(object).where(values.notna(), np.nan)
        made = require_pandas().DataFrame(cells, index=self.frame.index, columns=list(cells))
        return replace(self, frame=made, kinds=found)


def require_pandas() -> Any:
    """Return pandas, or say how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise TablesUnavailable('tables need pandas: pip install "cutplane[tables]"') from error
    return pandas


def _are_numbers(values: Any, column: str, table: Table, known: Kind | None) -> bool:
    """Return whether a column of text has numbers; refuse what is neither numbers nor words."""
    looked_at = values.dropna().unique()[:1000].tolist()
    option = f"--text {column} takes them as words"
    if not all(isinstance(each, str) for each in looked_at):
        raise table.wrong(column, " has cells of several kinds")
    for pattern, what, advice in _NEITHER:
        alike = [each for each in looked_at if pattern.fullmatch(each)]
        if alike and len(alike) >= 0.9 * len(looked_at) and known is None:
            out = f"or leave the column out by --drop {column}; {option}"
            raise table.wrong(column, f" has {what} ({alike[0]}): {advice}, {out}")
    n_numbers = sum(IS_DECIMAL.fullmatch(each) is not None for each in looked_at)
    if known is not Kind.NUMBERS and 2 * n_numbers <= len(looked_at):
        return False
    for row, cell in enumerate(values):
        missing = cell is None or cell != cell
        if not missing and not IS_DECIMAL.fullmatch(str(cell)):
            advice = "" if known else f"; {option}"
            what = f" has numbers, and {str(cell)[:40]!r} is none{advice}"
            raise table.wrong(column, what, row)
    return True


_SEPARATORS = "\t,;|"


def separator_of(text: str, name: str) -> str:
    """Return the separator that the first line has most of; a comma if it has none."""
    first = next((line for line in text.split("\n", 1000) if line.strip()), None)
    if first is None:
        raise InputError(f"{name}: no data in the file")
    return max(_SEPARATORS, key=first.count) if any(map(first.count, _SEPARATORS)) else ","


def structure_of(text: str, separator: str, name: str) -> tuple[NDArray[np.int64], list[str], int]:
    """Return the line of each record, the first record, and how many fields all of them have.

    pandas fills short lines up without a word.
    """
    records = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True
    )
    lines, first, begin = [], list[str](), 1
    try:
        for record in records:
            if record:
                first = first or record
                if len(record) != len(first):
                    raise InputError(
                        f"{name}:{begin}: {counted(len(record), 'field')}, the first line has "
                        f"{len(first)}"
                    )
                lines.append(begin)
            begin = records.line_num + 1
    except csv.Error as error:
        raise InputError(f"{name}:{begin}: {error}") from None
    return np.array(lines, dtype=np.int64), first, len(first)


def names_of(first: Sequence[str], name: str, without: Collection[str]) -> list[str]:
    """Return the names of the columns."""
    names = [field.strip() for field in first]
    if names and all(map(IS_DECIMAL.fullmatch, names)):
        raise InputError(
            f"{name}:1: the first line has numbers only; give --no-header if it has no names"
        )
    for number, column in enumerate(names, start=1):
        if not column and str(number) not in without:
            raise InputError(
                f"{name}:1: column {number} has no name; leave it out by --drop {number}, or give "
                "it one (pandas writes its index like that, unless told index=False)"
            )
    names = [column or str(number) for number, column in enumerate(names, start=1)]
    for column, count in Counter(names).items():
        if count > 1:
            raise InputError(f"{name}:1: two columns have the name {column!r}")
    return names


def names_without_header(
    n_fields: int, columns: Sequence[str] | None, optional: Sequence[str], name: str
) -> list[str]:
    """Return the names of columns in a file without a header."""
    if columns is None:
        return [str(number) for number in range(1, n_fields + 1)]
    for n_lacking in range(len(optional) + 1):
        inputs = [column for column in columns if column not in optional[:n_lacking]]
        if n_fields == len(inputs):
            return inputs
    raise InputError(
        f"{name}: {counted(n_fields, 'column')}, the model was fitted to {len(columns)}"
        + (f" ({len(inputs)} without what is predicted)" if optional else "")
    )


def resolved(given: Iterable[str], names: Sequence[str], name: str) -> list[str]:
    """Return names of columns, some of which are given by their number."""
    found = []
    for each in given:
        number = int(each) if each.isascii() and each.isdigit() else 0
        if each in names:
            found.append(each)
        elif 1 <= number <= len(names):
            found.append(names[number - 1])
        else:
            raise InputError(f"{name}: no column {each!r}; there are {listed(names)}")
    return found


def parsed(
    text: str, wanted: Sequence[str], as_text: Collection[str], name: str, **layout: Any
) -> Any:
    """Return a data frame of columns, those ``as_text`` as they stand.

    The layout is what pandas takes: separator, header, names of all columns.
    """
    pandas = require_pandas()
    # From 3.1 on it rounds right by itself, and warns if it is told to.
    version = tuple(int(part) for part in pandas.__version__.split(".")[:2])
    exact = {} if version >= (3, 1) else {"float_precision": "round_trip"}

    def read(columns: Sequence[str], words: Collection[str]) -> Any:
        return pandas.read_csv(
            io.StringIO(text),
            usecols=[*columns],
            dtype=dict.fromkeys(words, str),
            na_values=["?"],
            skipinitialspace=True,
            low_memory=False,
            index_col=False,
            **layout,
            **exact,
        )

    try:
        frame = read(wanted, as_text)
        # "true" became True, a number of thirty digits one of Python's: as text they are as before.
        others = [column for column in wanted if _is_not_as_written(frame[column])]
        if others:
            frame[others] = read(others, others)[others]
    except (ValueError, OverflowError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{name}: {error}") from None
    for column in frame:
        if frame[column].dtype.kind not in "iuf":
            frame[column] = frame[column].str.strip()
    return frame


def _is_not_as_written(values: Any) -> bool:
    """Say whether pandas has made something else than numbers or text of a column."""
    if values.dtype.kind == "O":
        return any(each == each and not isinstance(each, str) for each in values)
    return bool(values.dtype.kind == "b")


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names for a message, not too many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_PARQUET = b"PAR1"
_ENDINGS = (".csv", ".tsv", ".parquet")
_COMPRESSED = (".gz", ".bz2", ".xz")


class TableLayout(Struct, forbid_unknown_fields=True):
    """How the table that a model was fitted to is read: kept in its file."""

    header: bool
    columns: list[str]
    target: list[str]
    query: str | None = None


def looks_like_a_table(path: str | os.PathLike[str]) -> bool:
    """Say whether the name of a file is that of a table."""
    name = os.fspath(path).lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(_ENDINGS)


def read_table(
    path: str | os.PathLike[str],
    *,
    header: bool = True,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, Kind | None] | None = None,
    words: Collection[str] = (),
    raw: Collection[str] = (),
    optional: Sequence[str] = (),
    without: Collection[str] = (),
) -> Table:
    """Read a table, plain or compressed (gzip, bzip2, xz).

    Parameters
    ----------
    path : str or path
        The file; ``-`` is standard input.
    header : bool
        Whether the first line has the names of the columns. Parquet files always have names.
    columns : sequence of str, optional
        The names of all columns, for a file without a header.
    kinds : mapping from str to Kind or None, optional
        The columns that are wanted, and what they are, if that is known (None: it is found out).
        By default all that are not in ``raw`` or ``without``.
    words : collection of str
        Columns that are words even if they look like numbers.
    raw : collection of str
        Columns whose text is wanted as it stands: they are in ``raw``, not in the frame.
    optional : sequence of str
        Those of ``columns`` and ``raw`` that a file may lack, the first ones of them.
    without : collection of str
        Columns that are left out.

    Names may be numbers of columns, where no column has that name.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    TablesUnavailable
        If pandas is not installed; for Parquet, if pyarrow is not.
    """
    name, content = name_of(path), read_bytes(path)
    lines = None
    if content.startswith(_PARQUET):
        whole = _of_parquet(content, name)
        names = [*whole.columns]
    else:
        text = text_of(content, name)
        separator = separator_of(text, name)
        lines, first, n_fields = structure_of(text, separator, name)
        if header:
            names, lines = names_of(first, name, without), lines[1:]
        else:
            names = names_without_header(n_fields, columns, optional, name)
    if not len(whole if lines is None else lines):
        raise InputError(f"{name}: no data in the file")
    raw_names = resolved(
        [each for each in raw if each in names or each not in optional], names, name
    )
    if kinds is None:
        left = {*raw_names, *resolved(without, names, name)}
        wanted = [column for column in names if column not in left]
        if not wanted:
            raise InputError(f"{name}: no column is left to learn from")
    elif missing := [column for column in kinds if column not in names]:
        raise InputError(
            f"{name}: no column {missing[0]!r}, which the model was fitted to; there are "
            f"{listed(names)}"
        )
    else:
        wanted = [*kinds]
    as_text = {*raw_names, *resolved(words, names, name)}
    if kinds is not None:
        as_text |= {column for column in wanted if kinds[column] is Kind.WORDS}
    read = [*wanted, *raw_names]
    if lines is None:
        plain = {each: _plain(whole[each], each, name, text=each in as_text) for each in read}
        frame = require_pandas().DataFrame(plain)
    else:
        first_line = 0 if header else None
        frame = parsed(text, read, as_text, name, sep=separator, header=first_line, names=names)
        if len(frame) != len(lines):
            raise InputError(f"{name}: {len(lines)} lines, of which pandas reads {len(frame)}")
    taken = {each: frame[each] for each in raw_names}
    return Table(name, frame, names, raw=taken, lines=lines).typed(wanted, as_text, kinds)


def _of_parquet(content: bytes, name: str) -> Any:
    """Return the data frame of a Parquet file."""
    pandas = require_pandas()
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TablesUnavailable(
            f'{name}: Parquet files need pyarrow: pip install "cutplane[tables]"'
        ) from error
    try:
        frame = pandas.read_parquet(io.BytesIO(content))
    except (ValueError, OSError, KeyError, TypeError) as error:  # pyarrow's own are of these kinds
        raise InputError(f"{name}: damaged Parquet file: {error}") from None
    frame = frame.reset_index(drop=True)
    frame.columns = [str(column) for column in frame.columns]
    return frame


def _plain(values: Any, column: str, name: str, *, text: bool) -> Any:
    """Return a typed column as numbers or text."""
    if hasattr(values, "cat"):
        values = values.astype(values.cat.categories.dtype)
    kind = values.dtype.kind
    if kind in "mM":
        raise InputError(
            f"{name}: column {column!r} has dates or times: make numbers of them, or leave the "
            f"column out by --drop {column}"
        )
    if kind in "iuf":
        if not text:
            return values.astype(np.float64)
        return values.map(shown_number, na_action="ignore").astype(object)
    words = values.astype(object).where(values.notna(), np.nan)
    strange = [each for each in words.dropna() if not isinstance(each, str | bool)]
    if strange:
        raise InputError(
            f"{name}: column {column!r} has cells of type {type(strange[0]).__name__}, neither "
            f"numbers nor words; leave it out by --drop {column}"
        )
    return words.map(lambda each: str(each).strip(), na_action="ignore")


def shown_number(value: Any) -> str:
    """Return a number as it stands in a file, without a point if it is whole."""
    return str(int(value)) if value == math.floor(value) else repr(float(value))


SCALES = ("standard", "robust", "none")
RARE = 5


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
    parts = [(Kind.NUMBERS.value, fill, numbers), (Kind.WORDS.value, encoder, words)]
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
