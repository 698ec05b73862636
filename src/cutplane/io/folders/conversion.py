"""Stream a file, or a table in memory, once into a folder of memory-mapped arrays."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cutplane.io.files import STANDARD_INPUT, InputError, name_of, reason, require_regular
from cutplane.io.folders.arrow import (
    ArrowTable,
    arrow_table,
    choose_columns,
    csv_table,
    parquet_table,
    stream_table,
    table_batches,
)
from cutplane.io.folders.folder import DataFolder, open_folder
from cutplane.io.folders.manifest import Source, write_manifest
from cutplane.io.folders.writing import Batch, Columns, FolderWriter, new_folder
from cutplane.io.svmlight import Rules, read_pieces

QUERY, LABEL = "qid", "label"


def svmlight_batches(
    path: str | os.PathLike[str], rules: Rules, on_part: Callable[[bytes], object]
) -> Iterator[Batch]:
    """Yield the rows of a file; ``on_part`` is called with all that is read, before it is used."""
    for piece in read_pieces(path, rules, on_part=on_part):
        yield Batch((piece.values, piece.indices, piece.indptr), piece.labels, None, piece.qid)


SVMLIGHT, CSV, TSV, PARQUET, ARROW = "svmlight", "csv", "tsv", "parquet", "arrow"
FORMATS = (SVMLIGHT, CSV, TSV, PARQUET, ARROW)
_STREAM = "arrow stream"

_DELIMITERS = {CSV: ",", TSV: "\t"}
_ENDINGS = {
    ".csv": CSV,
    ".tsv": TSV,
    ".tab": TSV,
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".feather": ARROW,
    ".ipc": ARROW,
}
_COMPRESSED = {".gz", ".bz2", ".xz"}
_PART = 2**20

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
        kind = _format_of(source) if format is None else format
    if kind not in (*FORMATS, _STREAM):
        raise InputError(f"unknown format {kind!r}; choose from {', '.join(FORMATS)}")
    watch = _Watch(source, kind, on_progress)
    with new_folder(folder, replace=force) as place:
        if kind == SVMLIGHT:
            columns, batches = _svmlight(source, watch, target, weights, query, drop, n_features)
        elif n_features is not None:
            raise InputError(f"{watch.name}: a number of features is for svmlight files only")
        else:
            table = _open_table(source, kind, watch, query)
            columns = choose_columns(table, target=target, weights=weights, query=query, drop=drop)
            batches = table_batches(table, columns)
        with contextlib.closing(FolderWriter(place, dtype, watch.name)) as writer:
            for batch in batches:
                writer.append(batch)
            manifest = writer.complete(watch.source(), columns, n_features=n_features)
        write_manifest(place, manifest)
    return open_folder(folder)


def _svmlight(
    source: Any,
    watch: _Watch,
    target: str | None,
    weights: str | None,
    query: str | None,
    drop: Sequence[str],
    n_features: int | None,
) -> tuple[Columns, Iterator[Batch]]:
    """Open a file in the svmlight format, whose columns have no names."""
    if named := [name for name in (target, weights, *drop) if name is not None]:
        raise InputError(f"{watch.name}: svmlight files have no column {named[0]!r}")
    if query not in (None, QUERY):
        raise InputError(f"{watch.name}: queries of svmlight files are {QUERY!r}, not {query!r}")
    if n_features is not None and n_features < 1:
        raise InputError(f"the number of features must be at least 1, not {n_features}")
    rules = Rules(n_features, queries=query is not None)
    return Columns(target=LABEL, queries=query), svmlight_batches(source, rules, watch.take)


def _open_table(source: Any, kind: str, watch: _Watch, query: str | None) -> ArrowTable:
    if kind in _DELIMITERS:
        return csv_table(source, _DELIMITERS[kind], query, watch.take)
    if kind == _STREAM:
        return stream_table(source)
    if os.fspath(source) == STANDARD_INPUT:
        raise InputError(f"{watch.name}: {kind} must be a file, not a stream")
    watch.take_all()
    return (parquet_table if kind == PARQUET else arrow_table)(os.fspath(source), watch.take_share)


def _format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that the name of a file ends with."""
    name = Path(path)
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return _ENDINGS.get(name.suffix.lower(), SVMLIGHT)


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
        """Take note of the next bytes of the file."""
        assert self._digest is not None
        self._digest.update(part)
        self._tell(self._done + len(part))

    def take_all(self) -> None:
        """Digest the whole file, which is going to be read in another order."""
        assert self._digest is not None
        assert self._path is not None
        require_regular(self._path)  # it is opened again
        try:
            with open(self._path, "rb") as file:
                while part := file.read(_PART):
                    self._digest.update(part)
        except OSError as error:
            raise InputError(f"{self.name}: cannot read: {reason(error)}") from error

    def take_share(self, done: int, total: int) -> None:
        """Take note that so many of all equal parts are done."""
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
            return None  # whoever reads it will say what is wrong
