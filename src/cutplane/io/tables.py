"""Read tables: CSV, TSV and Parquet, with columns of numbers and of words.

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
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

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
    for column in names:
        if names.count(column) > 1:
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
