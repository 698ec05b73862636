"""A data folder is written row by row, and is there when it is complete, or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane import __version__
from cutplane.compute import durable
from cutplane.compute.blocks import even_bounds
from cutplane.compute.threads import count_blocks
from cutplane.data.rows import Entries
from cutplane.io.files import InputError, OutputError, reason
from cutplane.io.folders.manifest import (
    MANIFEST,
    ArrayWriter,
    Manifest,
    Source,
    StoredArray,
    array_file,
    read_manifest,
    rewrite,
)

LARGEST_INT32 = np.iinfo(np.int32).max
# More different words are no classes, and all of them are kept in memory.
_MOST_LABELS = 100_000


class Batch(NamedTuple):
    """Consecutive rows: dense, or CSR; targets that are numbers or words; weights; queries."""

    X: NDArray[Any] | Entries
    y: NDArray[np.float64] | list[str] | None = None
    weights: NDArray[np.float64] | None = None
    queries: NDArray[np.int64] | None = None


class Columns(NamedTuple):
    """What the columns of a source are called; None if there is no such column."""

    features: list[str] | None = None
    target: str | None = None
    weights: str | None = None
    queries: str | None = None


class FolderWriter:
    """Appends rows to the arrays of a folder.

    Parameters
    ----------
    folder : Path
        Where they are written.
    dtype : dtype
        Of the features, float32 or float64.
    name : str
        What to call the source in messages.
    """

    def __init__(self, folder: Path, dtype: Any, name: str) -> None:
        self._folder, self._dtype, self._name = folder, np.dtype(dtype), name
        self._writers: dict[str, ArrayWriter] = {}
        self._codes: dict[str, int] = {}
        self._n_columns = 0
        self.n_rows = 0

    def append(self, batch: Batch) -> None:
        """Append rows."""
        X = batch.X
        n_rows = self._append_sparse(*X) if isinstance(X, tuple) else self._append_dense(X)
        if isinstance(batch.y, list):
            self._writer("y", np.int32).append(self._codes_of(batch.y))
        elif batch.y is not None:
            self._writer("y", np.float64).append(batch.y)
        if batch.weights is not None:
            self._writer("weights", np.float64).append(batch.weights)
        if batch.queries is not None:
            self._writer("queries", np.int64).append(batch.queries)
        self.n_rows += n_rows

    def _append_dense(self, X: NDArray[Any]) -> int:
        d = self._n_columns = X.shape[1]
        self._writer("X", self._dtype, (d,)).append(self._narrowed(X, lambda k: k // d))
        return len(X)

    def _append_sparse(
        self, values: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]
    ) -> int:
        entries = self._writer("values", self._dtype)
        starts = self._writer("indptr", np.int64)
        starts.append((indptr if self.n_rows == 0 else indptr[1:]) + entries.n_rows)
        entries.append(
            self._narrowed(values, lambda k: int(np.searchsorted(indptr, k, "right")) - 1)
        )
        self._writer("indices", np.int32).append(indices)
        self._n_columns = max(self._n_columns, int(indices.max(initial=-1)) + 1)
        return len(indptr) - 1

    def complete(
        self, source: Source, columns: Columns, *, n_features: int | None = None
    ) -> Manifest:
        """Close all files, and return what is to be written down of them.

        ``n_features`` is how many columns there are if that is known; else the last column is the
        largest that any row has an entry in.
        """
        if self.n_rows == 0:
            raise InputError(f"{self._name}: no data in it")
        n_columns = self._n_columns if n_features is None else n_features
        if n_columns == 0:
            raise InputError(f"{self._name}: no row has a feature")
        arrays = {name: writer.complete() for name, writer in self._writers.items()}
        if "values" in arrays:
            # SciPy would copy indices that differ in type from indptr, or are wider than needed.
            narrow = arrays["values"].shape[0] <= LARGEST_INT32
            name, index = ("indptr", np.int32) if narrow else ("indices", np.int64)
            arrays[name] = rewrite(self._folder, name, arrays[name], index)
        return Manifest(
            library=__version__,
            source=source,
            n_rows=self.n_rows,
            n_features=n_columns,
            arrays=arrays,
            block_bounds=self._bounds(arrays),
            feature_names=columns.features,
            target=columns.target,
            weights=columns.weights,
            queries=columns.queries,
            labels=[*self._codes] if self._codes else None,
        )

    def close(self) -> None:
        """Close all files, complete or not."""
        for writer in self._writers.values():
            writer.close()

    def _bounds(self, arrays: dict[str, StoredArray]) -> list[int]:
        """Return the rows where as many blocks of equal size begin as work is cut into."""
        n_entries = self.n_rows * self._n_columns
        if "values" in arrays:
            n_entries = arrays["values"].shape[0]
        bounds: list[int] = even_bounds(self.n_rows, count_blocks(n_entries)).tolist()
        return bounds

    def _writer(self, name: str, dtype: Any, row: tuple[int, ...] = ()) -> ArrayWriter:
        if name not in self._writers:
            self._writers[name] = ArrayWriter(array_file(self._folder, name), dtype, row)
        return self._writers[name]

    def _narrowed(self, numbers: NDArray[Any], row_of: Callable[[int], int]) -> NDArray[Any]:
        """Return finite numbers in the type of the features, or refuse one that is too large."""
        with np.errstate(over="ignore", under="ignore"):
            narrowed = numbers.astype(self._dtype, copy=False)
        too_large = ~np.isfinite(narrowed).reshape(-1)
        if too_large.any():
            k = int(too_large.argmax())
            raise InputError(
                f"{self._name}: row {self.n_rows + row_of(k) + 1}: {numbers.reshape(-1)[k]:g} is "
                "too large for float32; use float64"
            )
        return narrowed

    def _codes_of(self, words: list[str]) -> NDArray[np.int32]:
        """Return the number of each word, in the order in which words first came."""
        known = self._codes
        codes = np.fromiter((known.setdefault(w, len(known)) for w in words), np.int32, len(words))
        if len(known) > _MOST_LABELS:
            raise InputError(
                f"{self._name}: more than {_MOST_LABELS:,} different words as labels; "
                "targets are classes, or numbers"
            )
        return codes


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str], *, replace: bool) -> Iterator[Path]:
    """Yield an empty folder to be filled, which takes its name unless something goes wrong.

    Parameters
    ----------
    path : str or path
        The name it takes.
    replace : bool
        Whether it may take the place of a data folder.

    Raises
    ------
    OutputError
        If it cannot be written, or is there already.
    """
    try:
        target = Path(os.path.realpath(path))
        with durable.new_folder(target, partial(_require_free, replace=replace)) as hidden:
            yield hidden
    except (InputError, OutputError):
        raise
    except OSError as error:
        raise OutputError(f"{os.fspath(path)}: cannot write: {reason(error)}") from error


def _require_free(target: Path, *, replace: bool) -> None:
    if not target.exists():
        if not target.parent.is_dir():
            raise OutputError(f"{target}: cannot write: {target.parent} is no folder")
        return
    if not replace:
        raise OutputError(f"{target}: already there; --force (force=True in Python) replaces it")
    try:
        manifest = read_manifest(target)
    except InputError as error:
        raise OutputError(f"{error}; it is not replaced") from None
    ours = {MANIFEST, durable.LOCK, *(array_file(target, name).name for name in manifest.arrays)}
    if others := sorted({file.name for file in target.iterdir()} - ours):
        raise OutputError(f"{target}: holds {others[0]!r}, which is not ours; it is not replaced")
