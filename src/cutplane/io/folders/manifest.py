"""What is in a data folder: the manifest, arrays of NumPy, and what is wrong with one that is none.

    manifest.json    this
    X.npy            dense rows; or values.npy, indices.npy and indptr.npy, those of CSR
    y.npy            targets, or codes of the labels that the manifest lists
    weights.npy, queries.npy

Arrays are files of NumPy, so that anything can read them. They grow row by row, and are mapped into
memory when they are complete. The manifest is written last.
"""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from cutplane.compute import durable
from cutplane.io.files import InputError, reason, require_regular

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
        block, and blocks depend on the data alone, so that whoever adds up finds the same bits.
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
            f"{path}: version {kind.version}, this cutplane reads version {VERSION}; convert anew"
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
    wanted = {
        "y": manifest.target is not None,
        "weights": manifest.weights is not None,
        "queries": manifest.queries is not None,
    }
    names = {*features, *(name for name, there in wanted.items() if there)}
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


# Bytes that are digested, or numbers that are converted, at a time.
_AT_ONCE = 2**20


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
        # It has room for any number of rows: NumPy leaves that for whoever appends.
        shape = (self.n_rows, *self._row)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()


def rewrite(folder: Path, name: str, stored: StoredArray, dtype: Any) -> StoredArray:
    """Convert the numbers of a vector to another type, a part at a time."""
    path, new = array_file(folder, name), array_file(folder, f"{name}-new")
    numbers = map_array(folder, name, stored)
    writer = ArrayWriter(new, dtype)
    try:
        for begin in range(0, len(numbers), _AT_ONCE):
            writer.append(numbers[begin : begin + _AT_ONCE])
        done = writer.complete()
    finally:
        writer.close()
    os.replace(new, path)
    return done


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


def require_digest(folder: Path, name: str, stored: StoredArray) -> None:
    """Read an array from front to back, and refuse one whose numbers have changed."""
    digest = hashlib.sha256()
    numbers = bytes_of(map_array(folder, name, stored))
    for begin in range(0, len(numbers), _AT_ONCE):
        digest.update(numbers[begin : begin + _AT_ONCE])
    if digest.hexdigest() != stored.sha256:
        raise InputError(f"{array_file(folder, name)}: damaged: its numbers have changed")
