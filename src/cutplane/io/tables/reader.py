"""Read tables: CSV, TSV and Parquet, with columns of numbers and of words.

pandas reads; these decisions make a file mean the same wherever it is read:

- Text is UTF-8, its separator a tab, comma, semicolon or bar: the one that the first line has most
  of. Every line has as many fields as the first.
- A cell that is empty, or one of the words that pandas takes for missing (``NA``, ``null``, ...),
  or ``?``, is missing.
- A column is numbers if all its cells are decimal numbers, else words. One in which most cells are
  numbers, and some are not, is refused: a typing error would make it thousands of words. So are
  dates, and numbers with a decimal comma.
- Columns are numbered from 1 on; without a header, these are their names.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_bytes, text_of
from cutplane.io.tables.columns import Kind, Table, TablesUnavailable, require_pandas, typed
from cutplane.io.tables.text import (
    names_of,
    names_without_header,
    parsed,
    resolved,
    separator_of,
    shown,
    structure_of,
)

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
    if content.startswith(_PARQUET):
        return _of_parquet(name, content, kinds, words, raw, optional, without)
    text = text_of(content, name)
    separator = separator_of(text, name)
    lines, first, n_fields = structure_of(text, separator, name)
    if header:
        names = names_of(first, name, without)
        lines = lines[1:]
    else:
        names = names_without_header(n_fields, columns, optional, name)
    if not len(lines):
        raise InputError(f"{name}: no data in the file")
    wanted, raw_names = _wanted(names, kinds, raw, optional, without, name)
    as_text = {*raw_names, *resolved(words, names, name)}
    if kinds is not None:
        as_text |= {column for column in wanted if kinds[column] is Kind.WORDS}
    frame = parsed(text, separator, header, names, [*wanted, *raw_names], as_text, name)
    if len(frame) != len(lines):
        raise InputError(f"{name}: {len(lines)} lines, of which pandas reads {len(frame)}")
    table = Table(name, None, {}, {each: frame[each] for each in raw_names}, names, lines)
    return typed(table, frame, wanted, as_text, kinds)


def _wanted(
    names: Sequence[str],
    kinds: Mapping[str, Kind | None] | None,
    raw: Collection[str],
    optional: Collection[str],
    without: Collection[str],
    name: str,
) -> tuple[list[str], list[str]]:
    """Return which columns are features, and which are wanted as they stand."""
    raw_names = resolved(
        [each for each in raw if each in names or each not in optional], names, name
    )
    if kinds is not None:
        if missing := [column for column in kinds if column not in names]:
            raise InputError(
                f"{name}: no column {missing[0]!r}, which the model was fitted to; there are "
                f"{shown(names)}"
            )
        return [*kinds], raw_names
    left = {*raw_names, *resolved(without, names, name)}
    wanted = [column for column in names if column not in left]
    if not wanted:
        raise InputError(f"{name}: no column is left to learn from")
    return wanted, raw_names


def _of_parquet(
    name: str,
    content: bytes,
    kinds: Mapping[str, Kind | None] | None,
    words: Collection[str],
    raw: Collection[str],
    optional: Collection[str],
    without: Collection[str],
) -> Table:
    """Return the table of a Parquet file."""
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
    if not len(frame):
        raise InputError(f"{name}: no data in the file")
    names = [*frame.columns]
    wanted, raw_names = _wanted(names, kinds, raw, optional, without, name)
    as_text = {*resolved(words, names, name)}
    if kinds is not None:
        as_text |= {column for column in wanted if kinds[column] is Kind.WORDS}
    frame = pandas.DataFrame(
        {
            column: _plain(frame[column], column, name, text=column in {*as_text, *raw_names})
            for column in (*wanted, *raw_names)
        }
    )
    table = Table(name, None, {}, {each: frame[each] for each in raw_names}, names)
    return typed(table, frame, wanted, as_text, kinds)


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
