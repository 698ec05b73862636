"""Tables with named columns in batches of rows, by pyarrow: CSV, Parquet, Arrow, and streams.

Columns of numbers and of truth values become features. Text is refused, but for the target's, and
so is whatever is missing or not finite: the message names column and row.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.io.files import InputError, name_of, read_parts, reason, what_is_wrong_with_label
from cutplane.io.folders.writing import Batch, Columns

# Numbers in a batch of rows: some megabytes.
BATCH = 2**19


class ArrowTable(NamedTuple):
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
    table: ArrowTable,
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


def table_batches(table: ArrowTable, columns: Columns) -> Iterator[Batch]:
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


# Bytes of a CSV file that its columns' types are read off, and that are parsed at a time: pyarrow
# reads 32 blocks ahead.
_HEAD, _BLOCK = 2**20, 2**18
# Bytes that the names and the first line may have; the rest must not be read in search of an end.
_LONGEST = 2**26
# Bytes of Parquet files that are read at a time, of all columns together, and of one at least.
_BUFFER, _LEAST_BUFFER = 2**24, 2**12

_PLACE = re.compile(r"(?:In CSV column #(?P<column>\d+): )?(?:CSV parse error: )?(?:Row #(\d+): )?")
_INVALID = re.compile(r"CSV conversion error to \w+: invalid value '(.*)'", re.DOTALL)

OnPart = Callable[[bytes], object]


def csv_table(
    path: str | os.PathLike[str], delimiter: str, whole: str | None, on_part: OnPart
) -> ArrowTable:
    """Open a text file of columns, whose first line names them, plain or compressed.

    Types are those of the first megabyte: a column that holds numbers there, holds numbers. One
    may be of ``whole`` numbers.
    """
    name = name_of(path)
    pa = require_pyarrow(name)
    from pyarrow import csv

    parts = filter(None, read_parts(path, on_part))  # an empty one is not the end
    head, n_lines = bytearray(), 0
    # The names, and a line at least to read types off.
    while (len(head) < _HEAD or n_lines < 2) and (part := next(parts, b"")):
        head += part
        n_lines += part.count(b"\n")
        if len(head) > _LONGEST and n_lines < 2:
            raise InputError(f"{name}: no two lines in its first {_LONGEST:,} bytes")
    begin = bytes(head[: head.rfind(b"\n") + 1] if len(head) >= _HEAD else head)
    if not begin.strip():
        raise InputError(f"{name}: no data in the file")
    try:
        begin.partition(b"\n")[0].decode()
    except UnicodeDecodeError:
        raise InputError(f"{name}:1: not UTF-8 text") from None
    parse = csv.ParseOptions(delimiter=delimiter)
    at_once = csv.ReadOptions(use_threads=False, block_size=len(begin) + 1)
    with _told(name, pa, []):
        schema = csv.open_csv(io.BytesIO(begin), read_options=at_once, parse_options=parse).schema
    names = schema.names
    if all(map(_reads_as_number, names)):
        raise InputError(
            f"{name}: the first line must name the columns; it reads {', '.join(names[:5])}"
        )
    if empty := [number for number, column in enumerate(names, start=1) if not column.strip()]:
        raise InputError(f"{name}: column {empty[0]} has no name in the first line")
    fields = [
        pa.field(field.name, pa.float64()) if _may_be_fractions(pa, field, whole) else field
        for field in schema
    ]

    # A block must hold a whole line, and some are longer than others.
    longest = max(map(len, begin.splitlines()))
    read = csv.ReadOptions(use_threads=False, block_size=max(_BLOCK, 4 * longest))

    def batches(columns: list[str]) -> Iterator[Any]:
        convert = csv.ConvertOptions(column_types=fields, include_columns=columns)
        file = _Parts(chain([bytes(head)], parts))
        with _told(name, pa, names):
            yield from csv.open_csv(
                file, read_options=read, parse_options=parse, convert_options=convert
            )

    return ArrowTable(name, pa.schema(fields), batches)


def _reads_as_number(name: str) -> bool:
    with contextlib.suppress(ValueError):
        float(name)
        return True
    return False


def _may_be_fractions(pa: Any, field: Any, whole: str | None) -> bool:
    """Whether fractions may follow in a column that has whole numbers, or none, at first."""
    is_whole = pa.types.is_integer(field.type) and field.name != whole
    return bool(is_whole or pa.types.is_null(field.type))


class _Parts(io.RawIOBase):
    """A file made of parts."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._rest = parts, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Return so many bytes; fewer at the end only: pyarrow takes what it gets for a block."""
        wanted = sys.maxsize if size is None or size < 0 else size
        found = [self._rest]
        missing = wanted - len(self._rest)
        while missing > 0 and (part := next(self._parts, b"")):
            found.append(part)
            missing -= len(part)
        whole = b"".join(found)
        self._rest = whole[wanted:]
        return whole[:wanted]


def parquet_table(path: str, on_rows: Callable[[int, int], object]) -> ArrowTable:
    """Open a Parquet file; ``on_rows`` is told how many rows are read, and how many there are."""
    pa = require_pyarrow(path)
    from pyarrow import parquet

    with _told(path, pa, []):
        known = parquet.read_metadata(path)
        buffer_size = max(_BUFFER // known.num_columns, _LEAST_BUFFER)
        # Else it would read a whole group of rows at once, and a file may be one group.
        file = parquet.ParquetFile(path, metadata=known, pre_buffer=False, buffer_size=buffer_size)

    def batches(columns: list[str]) -> Iterator[Any]:
        n_rows, done = known.num_rows, 0
        size = rows_at_once(len(columns))
        with _told(path, pa, []), file:
            for batch in file.iter_batches(size, columns=columns, use_threads=False):
                yield batch
                done += batch.num_rows
                on_rows(done, n_rows)

    return ArrowTable(path, file.schema_arrow, batches)


def arrow_table(path: str, on_part: Callable[[int, int], object]) -> ArrowTable:
    """Open a file of Arrow's record batches (IPC, Feather), or a stream of them in a file.

    ``on_part`` is told how many batches are read, and how many there are.
    """
    pa = require_pyarrow(path)
    with _told(path, pa, []):
        mapped = pa.memory_map(path)
        try:
            file = pa.ipc.open_file(mapped)
        except pa.ArrowInvalid:
            mapped.seek(0)
            stream = pa.ipc.open_stream(mapped)
            return ArrowTable(path, stream.schema, partial(_chosen, path, pa, stream))

    def all_batches() -> Iterator[Any]:
        for k in range(file.num_record_batches):
            yield file.get_batch(k)
            on_part(k + 1, file.num_record_batches)

    return ArrowTable(path, file.schema, partial(_chosen, path, pa, all_batches()))


def stream_table(source: Any) -> ArrowTable:
    """Open anything that offers Arrow's C stream: data frames, query results, readers."""
    name = f"a {type(source).__name__}"
    pa = require_pyarrow(name)
    with _told(name, pa, []):
        reader = pa.RecordBatchReader.from_stream(source)
    return ArrowTable(name, reader.schema, partial(_chosen, name, pa, reader))


def _chosen(name: str, pa: Any, batches: Iterator[Any], columns: list[str]) -> Iterator[Any]:
    """Yield some columns of record batches."""
    with _told(name, pa, []):
        for batch in batches:
            yield batch.select(columns)


@contextlib.contextmanager
def _told(name: str, pa: Any, columns: list[str]) -> Iterator[None]:
    """Say in one line what is wrong with a table."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except OSError as error:
        raise InputError(f"{name}: cannot read: {reason(error)}") from error
    except pa.ArrowCancelled as error:  # by Ctrl-C
        raise KeyboardInterrupt from error
    except pa.ArrowException as error:
        raise InputError(f"{name}: {_in_words(str(error), columns)}") from None


def _in_words(error: str, columns: list[str]) -> str:
    """Return pyarrow's words for an error, with the place in front."""
    found = _PLACE.match(error)
    assert found is not None  # it matches the empty text too
    what = " ".join(error[found.end() :].split())
    if invalid := _INVALID.fullmatch(error[found.end() :]):
        what = f"{invalid[1][:40]!r} is no number, as those at the beginning of the file are"
    place = []
    if found[2]:
        place.append(f"row {int(found[2]) - 1}")  # the first line has the names
    if found["column"] and columns:
        place.append(f"column {columns[int(found['column'])]!r}")
    return f"{', '.join(place)}: {what}" if place else what
