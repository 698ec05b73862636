"""Tables in files (CSV, Parquet, Arrow) and in memory, opened by pyarrow."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from cutplane.io.errors import InputError, reason
from cutplane.io.folders.tables import Table, require_pyarrow, rows_at_once
from cutplane.io.sources import name_of, read_parts

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
) -> Table:
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
    if all(map(_looks_like_a_number, names)):
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

    return Table(name, pa.schema(fields), batches)


def _looks_like_a_number(name: str) -> bool:
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


def parquet_table(path: str, on_rows: Callable[[int, int], object]) -> Table:
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

    return Table(path, file.schema_arrow, batches)


def arrow_table(path: str, on_part: Callable[[int, int], object]) -> Table:
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
            return Table(path, stream.schema, partial(_chosen, path, pa, stream))

    def all_batches() -> Iterator[Any]:
        for k in range(file.num_record_batches):
            yield file.get_batch(k)
            on_part(k + 1, file.num_record_batches)

    return Table(path, file.schema, partial(_chosen, path, pa, all_batches()))


def stream_table(source: Any) -> Table:
    """Open anything that offers Arrow's C stream: data frames, query results, readers."""
    name = f"a {type(source).__name__}"
    pa = require_pyarrow(name)
    with _told(name, pa, []):
        reader = pa.RecordBatchReader.from_stream(source)
    return Table(name, reader.schema, partial(_chosen, name, pa, reader))


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
