"""Folders of memory-mapped arrays: data larger than the memory, converted once, fitted often.

    manifest.json    this
    X.npy            dense rows; or values.npy, indices.npy and indptr.npy, those of CSR
    y.npy            targets, or codes of the labels that the manifest lists
    weights.npy, queries.npy

Arrays are files of NumPy, so that anything can read them. They grow row by row, and are mapped into
memory when they are complete. The manifest is written last: a folder is there when it is complete,
or not at all.

A part of a folder is a path and a range of rows, which is all that travels to workers. They
read it from the folder itself, and read it again if one is lost. The folder must have
the same path everywhere, and is recognized by the digest of its manifest, in which are those of all
its arrays.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cutplane import __version__
from cutplane.compute import durable
from cutplane.compute.blocks import count_blocks, even_bounds
from cutplane.data.rows import Entries
from cutplane.io.files import InputError, OutputError, reason, require_regular

FORMAT: Literal["cutplane data"] = "cutplane data"
VERSION = 1
MANIFEST = "manifest.json"

DENSE = ("X",)
SPARSE = ("values", "indices", "indptr")

_FLOATS, _INTEGERS = ("<f4", "<f8"), ("<i4", "<i8")
# The types that each array may have.
_TYPES = {
    "X": _FLOATS,
    "values": _FLOATS,
    "indices": _INTEGERS,
    "indptr": _INTEGERS,
    "y": ("<f8", "<i4"),
    "weights": ("<f8",),
    "queries": ("<i8",),
}


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder was made of; all but the format is None if that was no file."""

    format: str
    name: str | None = None
    bytes: int | None = None
    modified_ns: int | None = None
    sha256: str | None = None


class StoredArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array: its type, its shape, and the SHA-256 of its numbers, without the file's header."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in a folder.

    Attributes
    ----------
    arrays : dict from str to StoredArray
    n_rows, n_features : int
    block_bounds : list of ints
        The rows where blocks begin, and where the last ends: sums over examples are taken block by
        block, and blocks depend on the data alone, so that sums have the same bits everywhere.
    feature_names : list of str, or None
    target, weights, queries : str or None
        The columns that these were, None if there are none.
    labels : list of str, or None
        The words that the numbers in ``y`` stand for.
    """

    library: str
    source: Source
    n_rows: int
    n_features: int
    arrays: dict[str, StoredArray]
    block_bounds: list[int]
    feature_names: list[str] | None = None
    target: str | None = None
    weights: str | None = None
    queries: str | None = None
    labels: list[str] | None = None
    format: Literal["cutplane data"] = FORMAT
    version: int = VERSION

    @property
    def sparse(self) -> bool:
        """Whether the rows are CSR."""
        return "values" in self.arrays


class _Kind(msgspec.Struct):
    """What every manifest of ours has, of whatever version."""

    format: str
    version: int


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest, and wait for the disk."""
    durable.create(folder / MANIFEST, [msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"])


def digest_of(manifest: Manifest) -> str:
    """Return the SHA-256 of a manifest, which differs where any number of the data does."""
    return hashlib.sha256(msgspec.json.encode(manifest)).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder, or say in one line why it is no data folder.

    Raises
    ------
    InputError
        If there is none, if it is not ours or not of this version, or contradicts itself.
    """
    if not folder.is_dir():
        there = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {there}")
    path = folder / MANIFEST
    require_regular(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{folder}: not a data folder, it has no {MANIFEST} (cutplane convert makes them)"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot read: {reason(error)}") from error
    try:
        kind = msgspec.json.decode(content, type=_Kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a manifest of cutplane data: {error}") from None
    if kind.format != FORMAT:
        raise InputError(f"{path}: the format is {kind.format!r}, not {FORMAT!r}")
    if kind.version != VERSION:
        raise InputError(
            f"{path}: version {kind.version}, this cutplane reads version {VERSION}; convert again"
        )
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: damaged: {error}") from None
    if wrong := _contradiction(manifest):
        raise InputError(f"{path}: damaged: {wrong}")
    return manifest


def _contradiction(manifest: Manifest) -> str | None:
    """Return in which way a manifest contradicts itself, or None."""
    m, d, arrays = manifest.n_rows, manifest.n_features, manifest.arrays
    features = SPARSE if manifest.sparse else DENSE
    vectors = {"y": manifest.target, "weights": manifest.weights, "queries": manifest.queries}
    names = {*features, *(name for name, column in vectors.items() if column is not None)}
    if m < 1 or d < 1:
        return f"{m} rows, {d} features"
    if names != set(arrays):
        return f"it lists the arrays {', '.join(sorted(arrays))}, not {', '.join(sorted(names))}"
    n_entries = arrays["values"].shape[:1] if manifest.sparse else ()
    shapes = {"X": (m, d), "values": n_entries, "indices": n_entries, "indptr": (m + 1,)}
    for name, array in arrays.items():
        if array.shape != shapes.get(name, (m,)) or array.dtype not in _TYPES[name]:
            return f"{name} has shape {array.shape} and type {array.dtype}"
    if manifest.sparse and arrays["indices"].dtype != arrays["indptr"].dtype:
        return "indices and indptr differ in type"
    if "y" in arrays and (arrays["y"].dtype == "<i4") != (manifest.labels is not None):
        return "labels without codes, or codes without labels"
    if manifest.feature_names is not None and len(manifest.feature_names) != d:
        return f"{len(manifest.feature_names)} names of {d} features"
    bounds = manifest.block_bounds
    if not bounds or bounds[0] != 0 or bounds[-1] != m or bounds != sorted(bounds):
        return "the bounds of blocks do not rise from the first row to the last"
    return None


def bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the bytes of a contiguous array, not copied."""
    return array.reshape(-1).view(np.uint8).data


def array_file(folder: Path, name: str) -> Path:
    """Return the file of an array."""
    return folder / f"{name}.npy"


class ArrayWriter:
    """A file of NumPy that rows are appended to.

    Parameters
    ----------
    path : Path
        A new file.
    dtype : dtype
        What is appended is converted to it.
    row : tuple of ints
        The shape of a row; a number by default.
    """

    def __init__(self, path: Path, dtype: Any, row: tuple[int, ...] = ()) -> None:
        self._path, self._dtype, self._row = path, np.dtype(dtype).newbyteorder("<"), row
        self.n_rows = 0
        self._digest = hashlib.sha256()
        self._file = open(path, "xb")  # noqa: SIM115 - `close` closes it
        self._begin = self._write_header()

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows."""
        numbers = bytes_of(np.ascontiguousarray(rows, self._dtype))
        self._digest.update(numbers)
        self._file.write(numbers)
        self.n_rows += len(rows)

    def complete(self) -> StoredArray:
        """Write down how many rows there are, wait for the disk, and close the file."""
        self._file.seek(0)
        if self._write_header() != self._begin:
            raise AssertionError("NumPy left no room for the number of rows")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()
        return StoredArray(self._dtype.str, (self.n_rows, *self._row), self._digest.hexdigest())

    def close(self) -> None:
        """Close the file, complete or not."""
        self._file.close()

    def _write_header(self) -> int:
        # It has room for any number of rows: NumPy leaves that for appending.
        shape = (self.n_rows, *self._row)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()


def rewrite(folder: Path, name: str, stored: StoredArray, dtype: Any) -> StoredArray:
    """Convert the numbers of a vector to another type, a part at a time."""
    path, new = array_file(folder, name), array_file(folder, f"{name}-new")
    with contextlib.closing(ArrayWriter(new, dtype)) as writer:
        for part in _parts_of(map_array(folder, name, stored)):
            writer.append(part)
        done = writer.complete()
    os.replace(new, path)
    return done


def _parts_of(array: NDArray[Any], at_once: int = 2**20) -> Iterator[NDArray[Any]]:
    """Yield a long vector in parts."""
    return (array[begin : begin + at_once] for begin in range(0, len(array), at_once))


def map_array(folder: Path, name: str, stored: StoredArray) -> NDArray[Any]:
    """Return an array of a folder as a memory map, if the file is what the manifest says.

    Raises
    ------
    InputError
        If it is not, or cannot be read.
    """
    path = array_file(folder, name)
    require_regular(path)
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"version {version} of NumPy's format")
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
            begin, size = file.tell(), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError(f"{path}: cannot read: {reason(error)}") from error
    except ValueError as error:
        raise InputError(f"{path}: damaged: {error}") from error
    if (shape, dtype.str, fortran_order) != (stored.shape, stored.dtype, False):
        raise InputError(f"{path}: not the array that {MANIFEST} lists")
    wanted = begin + dtype.itemsize * math.prod(shape)
    if size != wanted:
        raise InputError(f"{path}: damaged: {size:,} bytes, not {wanted:,}")
    if wanted == begin:
        return np.empty(shape, dtype)  # nothing can be mapped of it
    return np.memmap(path, dtype=dtype, mode="r", offset=begin, shape=shape)


LARGEST_INT32 = np.iinfo(np.int32).max


class Batch(NamedTuple):
    """Consecutive rows: dense, or CSR; targets that are numbers or words; weights; queries."""

    X: NDArray[Any] | Entries
    y: NDArray[np.float64] | list[str] | None = None
    weights: NDArray[np.float64] | None = None
    queries: NDArray[np.int64] | None = None


class Columns(NamedTuple):
    """What the columns of a source are called; None if there is no such column."""

    feature_names: list[str] | None = None
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

    # More different words are no classes, and all of them are kept in memory.
    MOST_LABELS = 100_000

    def __init__(self, folder: Path, dtype: Any, name: str) -> None:
        self._folder, self._dtype, self._name = folder, np.dtype(dtype), name
        self._writers: dict[str, ArrayWriter] = {}
        self._codes: dict[str, int] = {}
        self._n_columns = 0
        self.n_rows = 0

    def append(self, batch: Batch) -> None:
        """Append rows."""
        X = batch.X
        if isinstance(X, tuple):
            values, indices, indptr = X
            entries, starts = self._writer("values", self._dtype), self._writer("indptr", np.int64)
            starts.append((indptr if self.n_rows == 0 else indptr[1:]) + entries.n_rows)
            entries.append(
                self._narrowed(values, lambda k: int(np.searchsorted(indptr, k, "right")) - 1)
            )
            self._writer("indices", np.int32).append(indices)
            n_rows = len(indptr) - 1
            self._n_columns = max(self._n_columns, int(indices.max(initial=-1)) + 1)
        else:
            n_rows, d = X.shape
            self._writer("X", self._dtype, (d,)).append(self._narrowed(X, lambda k: k // d))
            self._n_columns = d
        y = self._codes_of(batch.y) if isinstance(batch.y, list) else batch.y
        for name, vector in (("y", y), ("weights", batch.weights), ("queries", batch.queries)):
            if vector is not None:
                self._writer(name, vector.dtype).append(vector)
        self.n_rows += n_rows

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
        n_entries = self.n_rows * self._n_columns
        if "values" in arrays:
            n_entries = arrays["values"].shape[0]
            # SciPy would copy indices that differ in type from indptr, or are wider than needed.
            narrow = n_entries <= LARGEST_INT32
            name, index = ("indptr", np.int32) if narrow else ("indices", np.int64)
            arrays[name] = rewrite(self._folder, name, arrays[name], index)
        return Manifest(
            library=__version__,
            source=source,
            n_rows=self.n_rows,
            n_features=n_columns,
            arrays=arrays,
            # As many blocks of equal size as work is cut into.
            block_bounds=even_bounds(self.n_rows, count_blocks(n_entries)).tolist(),
            **columns._asdict(),
            labels=[*self._codes] if self._codes else None,
        )

    def close(self) -> None:
        """Close all files, complete or not."""
        for writer in self._writers.values():
            writer.close()

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
        if len(known) > self.MOST_LABELS:
            raise InputError(
                f"{self._name}: more than {self.MOST_LABELS:,} different words as labels; "
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


class DataFolder:
    """Data that `convert` wrote, on disk.

    Attributes
    ----------
    X : memory map or scipy.sparse.csr_array, shape (n_samples, n_features)
        The features, read from the disk as they are needed.
    y : ndarray of shape (n_samples,), or None
        The targets: numbers, or words.
    weights : ndarray of shape (n_samples,), or None
        For ``sample_weight``.
    queries : ndarray of shape (n_samples,), or None
        For ``qid`` of a `LinearRanker`.
    feature_names : list of str, or None
    path : Path
    manifest : Manifest
        All that is known of it: where it comes from, types, bounds of blocks, digests.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.feature_names = manifest.feature_names

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.manifest.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and features there are."""
        return self.manifest.n_rows, self.manifest.n_features

    @property
    def n_bytes(self) -> int:
        """How many bytes all arrays have."""
        arrays = self.manifest.arrays.values()
        return sum(np.dtype(a.dtype).itemsize * math.prod(a.shape) for a in arrays)

    @cached_property
    def X(self) -> Any:
        """The features."""
        if not self.manifest.sparse:
            return self._map("X")
        # Imported here because it takes longer than all of cutplane's own modules.
        from scipy.sparse import csr_array

        return csr_array(tuple(map(self._map, SPARSE)), shape=self.shape, copy=False)

    def widened(self, n_features: int) -> Any:
        """Return ``X`` with so many features; those beyond the last of sparse rows are zero.

        Raises
        ------
        InputError
            If there are more, or if dense rows have fewer.
        """
        m, d = self.shape
        if d == n_features:
            return self.X
        if d > n_features or not self.manifest.sparse:
            raise InputError(f"{self.path}: {d} features, {n_features} are expected")
        from scipy.sparse import csr_array

        X = self.X
        return csr_array((X.data, X.indices, X.indptr), shape=(m, n_features), copy=False)

    @cached_property
    def y(self) -> NDArray[Any] | None:
        """The targets."""
        return self._vector("y", slice(None))

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights."""
        return self._vector("weights", slice(None))

    @cached_property
    def queries(self) -> NDArray[np.int64] | None:
        """The queries."""
        return self._vector("queries", slice(None))

    def rows(self, begin: int, end: int) -> dict[str, Any]:
        """Return some rows: ``X``, and those of ``y``, ``weights`` and ``queries`` that exist."""
        chosen = slice(begin, end)
        vectors = {name: self._vector(name, chosen) for name in ("y", "weights", "queries")}
        return {"X": self.X[chosen]} | {k: v for k, v in vectors.items() if v is not None}

    def _vector(self, name: str, rows: slice) -> NDArray[Any] | None:
        """Return the numbers of some rows, or the words that they stand for; None without any."""
        if name not in self.manifest.arrays:
            return None
        numbers: NDArray[Any] = np.array(self._map(name)[rows])
        if name != "y" or self.manifest.labels is None:
            return numbers
        words = np.array(self.manifest.labels)
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= len(words):
            raise InputError(f"{self.path / 'y.npy'}: damaged: codes beyond the labels")
        chosen: NDArray[Any] = words[numbers]
        return chosen

    def __repr__(self) -> str:
        m, d = self.shape
        kind = "sparse" if self.manifest.sparse else "dense"
        return f"DataFolder({os.fspath(self.path)!r}: {m:,} rows, {d:,} features, {kind})"

    def _map(self, name: str) -> NDArray[Any]:
        return map_array(self.path, name, self.manifest.arrays[name])


def open_folder(path: str | os.PathLike[str], *, check: bool = False) -> DataFolder:
    """Open a folder of data that `convert` wrote.

    Parameters
    ----------
    path : str or path
        The folder.
    check : bool
        Whether to read all of it, and compare it with the digests in its manifest. By default only
        what is cheap is looked at: types, shapes and sizes of all files.

    Returns
    -------
    DataFolder

    Raises
    ------
    InputError
        In one line, if it is not such a folder, or damaged.

    See Also
    --------
    convert : Its example opens the folder that it has made.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    for name, stored in manifest.arrays.items():
        array = map_array(folder, name, stored)
        if check:
            digest = hashlib.sha256()
            for part in _parts_of(array.reshape(-1)):
                digest.update(bytes_of(part))
            if digest.hexdigest() != stored.sha256:
                raise InputError(f"{array_file(folder, name)}: damaged: its numbers have changed")
    return DataFolder(folder, manifest)


@dataclass(frozen=True)
class FolderRecipe:
    """How to read some rows of a data folder."""

    path: str
    sha256: str
    begin: int
    end: int

    def read(self) -> dict[str, Any]:
        """Return the rows, by the names of their arrays (see `DataFolder.rows`)."""
        folder = open_folder(self.path)
        if digest_of(folder.manifest) != self.sha256:
            raise InputError(f"{self.path}: not the data that the fit began with")
        return folder.rows(self.begin, self.end)


def dask_arrays(folder: DataFolder, n_parts: int) -> dict[str, Any]:
    """Return ``X``, and those of ``y``, ``weights`` and ``queries`` that exist, as Dask arrays.

    Nothing is read before a partition is needed, and then by its worker: the folder must
    have the same path on every worker.

    Parameters
    ----------
    folder : DataFolder
    n_parts : int
        Into how many ranges of rows it is cut.
    """
    import dask.array as da
    from dask import delayed

    n_rows, path = len(folder), os.path.abspath(folder.path)
    bounds = [k * n_rows // n_parts for k in range(n_parts + 1)]
    sha256 = digest_of(folder.manifest)
    recipes = [FolderRecipe(path, sha256, a, b) for a, b in pairwise(bounds) if a < b]
    like = folder.rows(0, 1)

    def array(name: str) -> Any:
        part = like[name]
        parts = [
            da.from_delayed(
                delayed(_read, pure=True)(recipe, name),
                shape=(recipe.end - recipe.begin, *part.shape[1:]),
                meta=part[:0],
            )
            for recipe in recipes
        ]
        return da.concatenate(parts)

    return {name: array(name) for name in like}


def _read(recipe: FolderRecipe, name: str) -> Any:
    return recipe.read()[name]
