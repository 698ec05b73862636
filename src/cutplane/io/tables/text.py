"""The text of a table: its separator, its lines, the names of its columns; pandas reads the cells.

pandas fills short lines up without a word, so that lines are looked at first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError
from cutplane.io.tables.columns import IS_DECIMAL, require_pandas

_SEPARATORS = "\t,;|"
_MOST_SHOWN = 8


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
                        f"{name}:{begin}: {_count(len(record), 'field')}, the first line has "
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
        f"{name}: {_count(n_fields, 'column')}, the model was fitted to {len(columns)}"
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
            raise InputError(f"{name}: no column {each!r}; there are {shown(names)}")
    return found


def parsed(
    text: str,
    separator: str,
    header: bool,
    names: Sequence[str],
    wanted: Sequence[str],
    as_text: Collection[str],
    name: str,
) -> Any:
    """Return a data frame of columns, those ``as_text`` as they stand."""
    pandas = require_pandas()
    # From 3.1 on it rounds right by itself, and warns if it is told to.
    version = tuple(int(part) for part in pandas.__version__.split(".")[:2])
    exact = {} if version >= (3, 1) else {"float_precision": "round_trip"}

    def read(columns: Sequence[str], words: Collection[str]) -> Any:
        return pandas.read_csv(
            io.StringIO(text),
            sep=separator,
            header=0 if header else None,
            names=[*names],
            usecols=[*columns],
            dtype=dict.fromkeys(words, str),
            na_values=["?"],
            skipinitialspace=True,
            **exact,
            low_memory=False,
            index_col=False,
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


def shown(names: Sequence[str]) -> str:
    """Return names for a message, not too many."""
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
