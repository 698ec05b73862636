"""What stands in the manifest of a data folder, and what is wrong with a folder that is none.

    manifest.json    this
    X.npy            dense rows; or values.npy, indices.npy and indptr.npy, those of CSR
    y.npy            targets, or codes of the labels that the manifest lists
    weights.npy, queries.npy

Arrays are files of NumPy, so that anything can read them. The manifest is written last.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

import msgspec

from cutplane.io.errors import InputError, reason, require_regular

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
    with open(folder / MANIFEST, "xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        file.flush()
        os.fsync(file.fileno())


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
