"""Stream a file, or a table in memory, once into a folder of memory-mapped arrays.

Tables with named columns (CSV, Parquet, Arrow, streams) are read in batches of rows, by pyarrow.
Columns of numbers and of truth values become features. Text is refused, but for the target's, and
so is whatever is missing or not finite: the message names column and row.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.io.files import (
    STANDARD_INPUT,
    InputError,
    name_of,
    read_parts,
    reads_as_number,
    reason,
    require_regular,
    what_is_wrong_with_label,
)
from cutplane.io.folders import (
    Batch,
    Columns,
    DataFolder,
    FolderWriter,
    Source,
    new_folder,
    open_folder,
    write_manifest,
)
from cutplane.io.svmlight import Rules, read_pieces

QUERY, LABEL = "qid", "label"


SVMLIGHT, CSV, TSV, PARQUET, ARROW = "svmlight", "csv", "tsv", "parquet", "arrow"
FORMATS = (SVMLIGHT, CSV, TSV, PARQUET, ARROW)
_STREAM = "arrow stream"

_DELIMITERS = {CSV: ",", TSV: "\t"}
_ENDINGS = {
    CSV: {".csv"},
    TSV: {".tsv", ".tab"},
    PARQUET: {".parquet", ".pq"},
    ARROW: {".arrow", ".arrows", ".feather", ".ipc"},
}
_COMPRESSED = {".gz", ".bz2", ".xz"}

Progress = Callable[[int, int | None], object]


def convert(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    format: str | None = None,
    target: str | None = None,
    weights: str | None = None,
    query: str | None = None,
    drop: Sequence[str] = (),
    dtype: Any = np.float64,
    n_features: int | None = None,
    force: bool = False,
    on_progress: Progress | None = None,
) -> DataFolder:
    r"""Write data to a folder that a fit can read from the disk, larger than the memory or not.

    The source is read once, in memory that does not depend on its size.

    Parameters
    ----------
    source : str, path, or anything with ``__arrow_c_stream__``
        A file: svmlight, CSV or TSV (plain or compressed by gzip, bzip2 or xz), Parquet, or Arrow
        (IPC, Feather). Or a data frame, a query result, a reader of record batches. All but
        svmlight need pyarrow, the extra ``parquet``.
    folder : str or path
        The folder to write, which is there only when it is complete.
    format : {"svmlight", "csv", "tsv", "parquet", "arrow"}, optional
        By default as the name of the file ends; "svmlight" if it ends otherwise.
    target, weights, query : str, optional
        Columns of a table: what to predict (numbers or words), weights of examples, and queries of
        a ranking (whole numbers). All columns that are not named are features. Labels of svmlight
        files are targets; ``query="qid"`` keeps their queries.
    drop : sequence of str
        Columns to leave out.
    dtype : {"float64", "float32"}
        Of the features. float32 takes half the room, and fits of it take about half the time.
    n_features : int, optional
        Of svmlight files; by default the largest index.
    force : bool
        Whether to replace a data folder that is already there.
    on_progress : function of two ints, optional
        Called with the bytes that are done, and all that there are, or None.

    Returns
    -------
    DataFolder
        With ``X`` and ``y``, ready for a fit.

    Raises
    ------
    InputError
        If the source cannot be read, in one line that names the place.
    OutputError
        If the folder cannot be written, or is there already.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import cutplane as cp
    >>> with TemporaryDirectory() as place:
    ...     source = Path(place, "data.svm")
    ...     _ = source.write_text("spam 1:2 4:1\nham 2:1\n")
    ...     folder = cp.convert(source, f"{place}/data", dtype="float32")
    ...     model = cp.LinearClassifier(lam=0.1).fit(folder.X, folder.y)
    ...     print(folder.X.toarray(), folder.y, cp.open_folder(f"{place}/data").shape)
    [[2. 0. 0. 1.]
     [0. 1. 0. 0.]] ['spam' 'ham'] (2, 4)
    """
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InputError(f"dtype must be float32 or float64, not {np.dtype(dtype)}")
    if isinstance(drop, str):
        raise InputError(f"drop must be a list of columns, not the text {drop!r}")
    is_file = isinstance(source, str | os.PathLike)
    if not is_file and not hasattr(source, "__arrow_c_stream__"):
        raise InputError(
            f"a {type(source).__name__} is neither the name of a file nor a table with "
            "__arrow_c_stream__"
        )
    kind = _STREAM
    if is_file:
        path = Path(source)
        if path.suffix.lower() in _COMPRESSED:
            path = path.with_suffix("")
        ending = path.suffix.lower()
        usual = next((kind for kind, known in _ENDINGS.items() if ending in known), SVMLIGHT)
        kind = usual if format is None else format
    if kind not in (*FORMATS, _STREAM):
        raise InputError(f"unknown format {kind!r}; choose from {', '.join(FORMATS)}")
    watch = _Watch(source, kind, on_progress)
    asked = Columns(target=target, weights=weights, queries=query)
    with new_folder(folder, replace=force) as place:
        if kind == SVMLIGHT:
            columns, batches = _svmlight(source, watch, asked, drop, n_features)
        elif n_features is not None:
            raise InputError(f"{watch.name}: a number of features is for svmlight files only")
        else:
            table = _open_table(source, kind, watch, query)
            columns = choose_columns(table, asked, drop)
            batches = table_batches(table, columns)
        with contextlib.closing(FolderWriter(place, dtype, watch.name)) as writer:
            for batch in batches:
                writer.append(batch)
            manifest = writer.complete(watch.source(), columns, n_features=n_features)
        write_manifest(place, manifest)
    return open_folder(folder)


def _svmlight(
    source: Any, watch: _Watch, asked: Columns, drop: Sequence[str], n_features: int | None
) -> tuple[Columns, Iterator[Batch]]:
    """Open a file in the svmlight format, whose columns have no names."""
    query = asked.queries
    if named := [name for name in (asked.target, asked.weights, *drop) if name is not None]:
        raise InputError(f"{watch.name}: svmlight files have no column {named[0]!r}")
    if query not in (None, QUERY):
        raise InputError(f"{watch.name}: queries of svmlight files are {QUERY!r}, not {query!r}")
    if n_features is not None and n_features < 1:
        raise InputError(f"the number of features must be at least 1, not {n_features}")
    rules = Rules(n_features, queries=query is not None)
    batches = (
        Batch((piece.values, piece.indices, piece.indptr), piece.labels, None, piece.qid)
        for piece in read_pieces(source, rules, on_part=watch.take)
    )
    return Columns(target=LABEL, queries=query), batches


def _open_table(source: Any, kind: str, watch: _Watch, query: str | None) -> ArrowTable:
    if kind in _DELIMITERS:
        return csv_table(source, _DELIMITERS[kind], query, watch.take)
    if kind == _STREAM:  # data frames, query results, readers: what offers Arrow's C stream
        pa = require_pyarrow(watch.name)
        with _told(watch.name):
            reader = pa.RecordBatchReader.from_stream(source)
        return ArrowTable(watch.name, reader.schema, partial(_chosen, watch.name, reader))
    if os.fspath(source) == STANDARD_INPUT:
        raise InputError(f"{watch.name}: {kind} must be a file, not a stream")
    watch.take_all()
    return (parquet_table if kind == PARQUET else arrow_table)(os.fspath(source), watch.take_share)


class _Watch:
    """What is known of a source while it is read: how far, and its digest."""

    def __init__(self, source: Any, kind: str, report: Progress | None) -> None:
        is_file = kind != _STREAM
        self.name = name_of(source) if is_file else f"a {type(source).__name__}"
        self._path = Path(source) if is_file and os.fspath(source) != STANDARD_INPUT else None
        self._kind, self._report = kind, report
        self._digest = hashlib.sha256() if is_file else None
        self._done = 0
        self._stat = self._look()

    def take(self, part: bytes) -> None:
        """Add the next bytes of the file to the digest, and report them."""
        assert self._digest is not None
        self._digest.update(part)
        self._tell(self._done + len(part))

    def take_all(self) -> None:
        """Digest the whole file, which is going to be read in another order."""
        assert self._path is not None
        require_regular(self._path)  # it is opened again
        try:
            with open(self._path, "rb") as file:
                self._digest = hashlib.file_digest(file, "sha256")
        except OSError as error:
            raise InputError(f"{self.name}: cannot read: {reason(error)}") from error

    def take_share(self, done: int, total: int) -> None:
        """Report that some of all equal parts are done."""
        assert self._stat is not None
        self._tell(self._stat.st_size * done // max(total, 1))

    def source(self) -> Source:
        """Return what is known at the end."""
        if self._digest is None:
            return Source(self._kind)
        digest = self._digest.hexdigest()
        if self._stat is None or self._path is None:
            return Source(self._kind, bytes=self._done, sha256=digest)
        size, modified = self._stat.st_size, self._stat.st_mtime_ns
        now = self._look()
        if now is None or (now.st_size, now.st_mtime_ns) != (size, modified):
            raise InputError(f"{self.name}: changed while it was read")
        return Source(self._kind, self._path.name, size, modified, digest)

    def _tell(self, done: int) -> None:
        self._done = done
        if self._report is not None:
            self._report(done, None if self._stat is None else self._stat.st_size)

    def _look(self) -> os.stat_result | None:
        """Return what the system knows of the file, None if it is no plain file."""
        if self._path is None:
            return None
        try:
            return self._path.stat() if self._path.is_file() else None
        except (OSError, ValueError):
            return None  # reading it will raise the error


class Sizes:
    """How much is read at a time."""

    BATCH = 2**19  # numbers in a batch of rows: some megabytes
    HEAD = 2**20  # bytes of a CSV file that its columns' types are read off
    LONGEST_HEAD = 2**26  # with the names and the first line: no more is read in search of an end
    BLOCK = 2**18  # bytes that are parsed at a time: pyarrow reads 32 blocks ahead
    BUFFER = 2**24  # bytes of a Parquet file, of all columns together
    LEAST_BUFFER = 2**12  # of one column


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


def choose_columns(table: ArrowTable, asked: Columns, drop: Sequence[str]) -> Columns:
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
    _, target, weights, query = asked
    used = [name for name in (target, weights, query, *drop) if name is not None]
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
    return asked._replace(feature_names=features)


def table_batches(table: ArrowTable, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a table."""
    features, *others = columns
    assert features is not None
    wanted = [*features, *(name for name in others if name is not None)]
    types = require_pyarrow(table.name).types
    n_rows, at_once = 0, rows_at_once(len(wanted))
    parts = (
        batch.slice(begin, at_once)
        for batch in table.batches(wanted)
        for begin in range(0, batch.num_rows, at_once)
    )
    for part in parts:
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
    return max(1, Sizes.BATCH // n_columns)


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
        numbers = np.asarray(stored.to_numpy(zero_copy_only=False), dtype=np.float64)
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
    kinds = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
    return any(is_kind(kind) for is_kind in kinds)


def _is_text(types: Any, kind: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


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
    while (len(head) < Sizes.HEAD or n_lines < 2) and (part := next(parts, b"")):
        head += part
        n_lines += part.count(b"\n")
        if len(head) > Sizes.LONGEST_HEAD and n_lines < 2:
            raise InputError(f"{name}: no two lines in its first {Sizes.LONGEST_HEAD:,} bytes")
    begin = bytes(head[: head.rfind(b"\n") + 1] if len(head) >= Sizes.HEAD else head)
    if not begin.strip():
        raise InputError(f"{name}: no data in the file")
    try:
        begin.partition(b"\n")[0].decode()
    except UnicodeDecodeError:
        raise InputError(f"{name}:1: not UTF-8 text") from None
    parse = csv.ParseOptions(delimiter=delimiter)
    at_once = csv.ReadOptions(use_threads=False, block_size=len(begin) + 1)
    with _told(name):
        schema = csv.open_csv(io.BytesIO(begin), read_options=at_once, parse_options=parse).schema
    names = schema.names
    if all(map(reads_as_number, names)):
        raise InputError(
            f"{name}: the first line must name the columns; it reads {', '.join(names[:5])}"
        )
    if empty := [number for number, column in enumerate(names, start=1) if not column.strip()]:
        raise InputError(f"{name}: column {empty[0]} has no name in the first line")
    fields = []
    for field in schema:
        # Fractions may follow in a column that has whole numbers, or none, at first.
        is_whole = pa.types.is_integer(field.type) and field.name != whole
        some = is_whole or pa.types.is_null(field.type)
        fields.append(pa.field(field.name, pa.float64()) if some else field)

    # A block must hold a whole line, and some are longer than others.
    longest = max(map(len, begin.splitlines()))
    read = csv.ReadOptions(use_threads=False, block_size=max(Sizes.BLOCK, 4 * longest))

    def batches(columns: list[str]) -> Iterator[Any]:
        convert = csv.ConvertOptions(column_types=fields, include_columns=columns)
        # Buffered, only its end has fewer bytes than asked for: pyarrow takes them for a block.
        file = io.BufferedReader(_Parts(chain([bytes(head)], parts)))
        with _told(name, names):
            yield from csv.open_csv(
                file, read_options=read, parse_options=parse, convert_options=convert
            )

    return ArrowTable(name, pa.schema(fields), batches)


class _Parts(io.RawIOBase):
    """A file made of parts."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._rest = parts, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Return the rest of a part, or as much of it as there is room for."""
        rest = self._rest or memoryview(next(self._parts, b""))
        n_bytes = min(len(buffer), len(rest))
        buffer[:n_bytes], self._rest = rest[:n_bytes], rest[n_bytes:]
        return n_bytes


def parquet_table(path: str, on_rows: Callable[[int, int], object]) -> ArrowTable:
    """Open a Parquet file; ``on_rows`` gets the number of rows read, and of all rows."""
    require_pyarrow(path)
    from pyarrow import parquet

    with _told(path):
        known = parquet.read_metadata(path)
        buffer_size = max(Sizes.BUFFER // known.num_columns, Sizes.LEAST_BUFFER)
        # Else it would read a whole group of rows at once, and a file may be one group.
        file = parquet.ParquetFile(path, metadata=known, pre_buffer=False, buffer_size=buffer_size)

    def batches(columns: list[str]) -> Iterator[Any]:
        n_rows, done = known.num_rows, 0
        size = rows_at_once(len(columns))
        with _told(path), file:
            for batch in file.iter_batches(size, columns=columns, use_threads=False):
                yield batch
                done += batch.num_rows
                on_rows(done, n_rows)

    return ArrowTable(path, file.schema_arrow, batches)


def arrow_table(path: str, on_part: Callable[[int, int], object]) -> ArrowTable:
    """Open a file of Arrow's record batches (IPC, Feather), or a stream of them in a file.

    ``on_part`` gets the number of batches read, and of all batches.
    """
    pa = require_pyarrow(path)
    with _told(path):
        mapped = pa.memory_map(path)
        try:
            file = pa.ipc.open_file(mapped)
        except pa.ArrowInvalid:
            mapped.seek(0)
            stream = pa.ipc.open_stream(mapped)
            return ArrowTable(path, stream.schema, partial(_chosen, path, stream))

    def all_batches() -> Iterator[Any]:
        for k in range(file.num_record_batches):
            yield file.get_batch(k)
            on_part(k + 1, file.num_record_batches)

    return ArrowTable(path, file.schema, partial(_chosen, path, all_batches()))


def _chosen(name: str, batches: Iterator[Any], columns: list[str]) -> Iterator[Any]:
    """Yield some columns of record batches."""
    with _told(name):
        for batch in batches:
            yield batch.select(columns)


@contextlib.contextmanager
def _told(name: str, columns: Sequence[str] = ()) -> Iterator[None]:
    """Say in one line what is wrong with a table."""
    import pyarrow as pa

    try:
        yield
    except (InputError, MemoryError):
        raise
    except OSError as error:
        raise InputError(f"{name}: cannot read: {reason(error)}") from error
    except pa.ArrowCancelled as error:  # by Ctrl-C
        raise KeyboardInterrupt from error
    except pa.ArrowException as error:
        found = _PLACE.match(text := str(error))
        assert found is not None  # it matches the empty text too
        what = " ".join(text[found.end() :].split())
        if invalid := _INVALID.fullmatch(text[found.end() :]):
            what = f"{invalid[1][:40]!r} is no number, as those at the beginning of the file are"
        place = [f"row {int(found[2]) - 1}"] if found[2] else []  # the first line has the names
        if found["column"] and columns:
            place.append(f"column {columns[int(found['column'])]!r}")
        where = f"{', '.join(place)}: " if place else ""
        raise InputError(f"{name}: {where}{what}") from None
