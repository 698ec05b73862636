"""Batches of rows from tables with named columns, by pyarrow: CSV, Parquet, Arrow, streams.

Columns of numbers and of truth values become features. Text is refused, but for the target's, and
so is whatever is missing or not finite: the message names column and row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError
from cutplane.io.folders.writer import Batch, Columns
from cutplane.io.sources import what_is_wrong_with_label

# Numbers in a batch of rows: some megabytes.
BATCH = 2**19


class Table(NamedTuple):
    """A table that can be read once.

    Attributes
    ----------
    name : str
        What to call it in messages.
    schema : pyarrow.Schema
        The columns and their types.
    batches : function of a list of columns, to an iterator over record batches
    """

    name: str
    schema: Any
    batches: Callable[[list[str]], Iterator[Any]]


def require_pyarrow(name: str) -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise InputError(
            f"{name}: tables are read by pyarrow; install it with pip install 'cutplane[parquet]'"
        ) from None
    return pyarrow


def choose_columns(
    table: Table,
    *,
    target: str | None,
    weights: str | None,
    query: str | None,
    drop: Sequence[str],
) -> Columns:
    """Return the columns by what they are for; all that are not named are features.

    Raises
    ------
    InputError
        If one is not there, is named twice, or is not of a type that it can have.
    """
    types = require_pyarrow(table.name).types
    names = table.schema.names
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{table.name}: several columns have the name {twice[0]!r}")
    roles = {"target": target, "weights": weights, "query": query}
    used = [name for name in (*roles.values(), *drop) if name is not None]
    for name in used:
        if name not in names:
            there = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
            raise InputError(f"{table.name}: no column {name!r}; there are {there}")
    if twice := [name for name, count in Counter(used).items() if count > 1]:
        raise InputError(f"{table.name}: column {twice[0]!r} is named for two purposes")
    features = [name for name in names if name not in used]
    if not features:
        raise InputError(f"{table.name}: no column is left for the features")
    for name in features if weights is None else [*features, weights]:
        if not _is_number(types, kind := table.schema.field(name).type):
            what = "text" if _is_text(types, kind) else str(kind)
            raise InputError(
                f"{table.name}: column {name!r} holds {what}, no numbers; leave it out "
                f"(--drop {name}; drop=[{name!r}] in Python), or make numbers of it first"
            )
    if target is not None:
        kind = table.schema.field(target).type
        if not _is_number(types, kind) and not _is_text(types, kind):
            raise InputError(f"{table.name}: the target {target!r} holds {kind}, no number or word")
    if query is not None and not types.is_integer(kind := table.schema.field(query).type):
        raise InputError(f"{table.name}: the query {query!r} holds {kind}, no whole numbers")
    return Columns(features, target, weights, query)


def table_batches(table: Table, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a table."""
    features, *others = columns
    assert features is not None
    wanted = [*features, *(name for name in others if name is not None)]
    types = require_pyarrow(table.name).types
    n_rows = 0
    for part in _slices(table.batches(wanted), rows_at_once(len(wanted))):
        rows = _Rows(table.name, types, part, n_rows)
        X = np.empty((part.num_rows, len(features)))
        for j, name in enumerate(features):
            X[:, j] = rows.numbers(name)
        yield Batch(
            X,
            None if columns.target is None else rows.targets(columns.target),
            None if columns.weights is None else rows.numbers(columns.weights),
            None if columns.queries is None else rows.whole_numbers(columns.queries),
        )
        n_rows += part.num_rows


def rows_at_once(n_columns: int) -> int:
    """Return how many rows make a batch."""
    return max(1, BATCH // n_columns)


def _slices(batches: Iterable[Any], at_once: int) -> Iterator[Any]:
    """Yield record batches cut to at most so many rows."""
    for batch in batches:
        for begin in range(0, batch.num_rows, at_once):
            yield batch.slice(begin, at_once)


class _Rows(NamedTuple):
    """A record batch whose first row is the given one of its table."""

    name: str
    types: Any
    batch: Any
    first: int

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column of finite numbers."""
        stored = self._complete(column)
        if self.types.is_decimal(stored.type):
            # A cast to float64 itself is off by a bit, such as 0.5700000000000001 for 0.57.
            stored = stored.cast("string").cast("float64")
        numbers: NDArray[np.float64] = np.asarray(
            stored.to_numpy(zero_copy_only=False), dtype=np.float64
        )
        if not (finite := np.isfinite(numbers)).all():
            row = int(finite.argmin())
            raise self._wrong(column, row, f"{numbers[row]} is not finite")
        return numbers

    def whole_numbers(self, column: str) -> NDArray[np.int64]:
        """Return a column of integers."""
        stored = self._complete(column)
        try:
            whole = stored.cast("int64")
        except ValueError as error:  # beyond 64 bits with a sign
            raise InputError(f"{self.name}: column {column!r}: {error}") from None
        numbers: NDArray[np.int64] = whole.to_numpy(zero_copy_only=False)
        return numbers

    def targets(self, column: str) -> NDArray[np.float64] | list[str]:
        """Return a column of numbers, or of words."""
        if not _is_text(self.types, self.batch.column(column).type):
            return self.numbers(column)
        words: list[str] = self._complete(column).to_pylist()
        for word in set(words):
            wrong = what_is_wrong_with_label(word) if word else "is empty"
            if wrong:
                raise self._wrong(column, words.index(word), f"label {word[:40]!r} {wrong}")
        return words

    def _complete(self, column: str) -> Any:
        """Return a column of which no value is missing."""
        stored = self.batch.column(column)
        if stored.null_count:
            row = int(stored.is_null().to_numpy(zero_copy_only=False).argmax())
            raise self._wrong(column, row, "a value is missing")
        return stored

    def _wrong(self, column: str, row: int, what: str) -> InputError:
        return InputError(f"{self.name}: row {self.first + row + 1}, column {column!r}: {what}")


def _is_number(types: Any, kind: Any) -> bool:
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    )


def _is_text(types: Any, kind: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
