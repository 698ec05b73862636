"""The columns of a table: numbers or words, and what is neither.

A column is numbers if all its cells are decimal numbers, else words. One in which most cells are
numbers, and some are not, is refused: a typing error would make it thousands of words. So are
dates, and numbers with a decimal comma.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.io.decimals import DECIMAL
from cutplane.io.errors import InputError
from cutplane.io.sources import what_is_wrong_with_label

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
# How many different words of a column are looked at, and which share must look like a date.
_LOOKED_AT, _MOST = 1000, 0.9


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
    kinds : dict from str to Kind
        Of each column.
    raw : dict from str to a pandas.Series of str
        The text of columns that were asked for as they stand, such as labels.
    columns : list of str
        The names of all columns of the file.
    """

    name: str
    frame: Any
    kinds: dict[str, Kind]
    raw: dict[str, Any]
    columns: list[str]
    lines: NDArray[np.int64] | None = None

    def place(self, row: int) -> str:
        """Return where a row stands, for messages."""
        return (
            f"{self.name}, row {row + 1}"
            if self.lines is None
            else f"{self.name}:{self.lines[row]}"
        )


def typed(
    table: Table,
    frame: Any,
    wanted: Sequence[str],
    as_text: Collection[str],
    kinds: Mapping[str, Kind | None] | None,
) -> Table:
    """Return the table with columns that are numbers or words."""
    pandas = require_pandas()
    found: dict[str, Kind] = {}
    cells: dict[str, Any] = {}
    for column in wanted:
        values = frame[column]
        known = None if kinds is None else kinds[column]
        is_number = values.dtype.kind in "iuf"
        if column not in as_text and not is_number and known is not Kind.WORDS:
            # Also numbers that are too large for pandas to see that they are.
            is_number = _are_numbers(values, column, table, known)
        if is_number:
            found[column], cells[column] = Kind.NUMBERS, _finite(values, column, table)
        else:
            found[column] = Kind.WORDS
            cells[column] = values.astype(object).where(values.notna(), np.nan)
    made = pandas.DataFrame(cells, index=frame.index, columns=list(cells))
    return replace(table, frame=made, kinds=found)


def require_pandas() -> Any:
    """Return pandas, or say how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise TablesUnavailable('tables need pandas: pip install "cutplane[tables]"') from error
    return pandas


def _finite(values: Any, column: str, table: Table) -> Any:
    numbers = values.astype(object).astype(np.float64)
    infinite = np.isinf(numbers.to_numpy())
    if infinite.any():
        place = table.place(int(infinite.argmax()))
        raise InputError(f"{place}: column {column!r} has a number that is not finite")
    return numbers


def _are_numbers(values: Any, column: str, table: Table, known: Kind | None) -> bool:
    """Return whether a column of text has numbers; refuse what is neither numbers nor words."""
    looked_at = values.dropna().unique()[:_LOOKED_AT].tolist()
    option = f"--text {column} takes them as words"
    if not all(isinstance(each, str) for each in looked_at):
        raise InputError(f"{table.name}: column {column!r} has cells of several kinds")
    for pattern, what, advice in _NEITHER:
        alike = [each for each in looked_at if pattern.fullmatch(each)]
        if alike and len(alike) >= _MOST * len(looked_at) and known is None:
            raise InputError(
                f"{table.name}: column {column!r} has {what} ({alike[0]}): {advice}, or leave the "
                f"column out by --drop {column}; {option}"
            )
    n_numbers = sum(IS_DECIMAL.fullmatch(each) is not None for each in looked_at)
    if known is Kind.NUMBERS or 2 * n_numbers > len(looked_at):
        _complain_of_word(values, column, table, "" if known else f"; {option}")
        return True
    return False


def _complain_of_word(values: Any, column: str, table: Table, advice: str) -> None:
    """Say which cell of a column of numbers is none, if there is one."""
    for row, cell in enumerate(values):
        missing = cell is None or cell != cell
        if not missing and not IS_DECIMAL.fullmatch(str(cell)):
            raise InputError(
                f"{table.place(row)}: column {column!r} has numbers, and {str(cell)[:40]!r} is "
                f"none{advice}"
            )


def numbers_or_words(cells: Any, column: str, table: Table) -> NDArray[Any]:
    """Return labels as they are in other files: float64 if all are numbers, else words.

    Raises
    ------
    InputError
        If one is missing.
    """
    missing = cells.isna().to_numpy()
    if missing.any():
        raise InputError(f"{table.place(int(missing.argmax()))}: column {column!r} is empty here")
    texts = [str(cell) for cell in cells]
    if all(map(IS_DECIMAL.fullmatch, dict.fromkeys(texts))):
        numbers = np.array(texts, dtype=object).astype(np.float64)
        if not np.isfinite(numbers).all():
            place = table.place(int((~np.isfinite(numbers)).argmax()))
            raise InputError(f"{place}: column {column!r} has a number that is not finite")
        return numbers
    for word in dict.fromkeys(texts):
        if wrong := what_is_wrong_with_label(word):
            place = table.place(texts.index(word))
            raise InputError(f"{place}: column {column!r}: label {word[:40]!r} {wrong}")
    return np.array(texts)
