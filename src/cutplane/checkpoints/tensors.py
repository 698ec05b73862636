"""Arrays in a file, in the safetensors format, written piece by piece and read with a check.

    8 bytes: length of the header | header, JSON: name -> dtype, shape, place | all arrays

The library of that name wants everything in memory at once, and a copy of it; planes of a large
model fill half of the memory. Files can be read by it all the same.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute import durable

_NAMES = {
    "<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8",
    "<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip

# The header ends at a multiple of this many bytes, as the format recommends.
_ALIGNED = 8


class CheckpointError(ValueError):
    """A checkpoint cannot be used, for the reason that the message gives; nothing was changed."""


class StoredFile(NamedTuple):
    """A file of a checkpoint, as the manifest knows it."""

    name: str
    bytes: int
    sha256: str


def write_arrays(
    path: Path,
    arrays: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]],
    words: Mapping[str, str] | None = None,
) -> StoredFile:
    """Write arrays in C order, or the rows of matrices, and some words, to a new file."""
    header: dict[str, Any] = {"__metadata__": dict(words or {})}
    contents: list[memoryview] = []
    end = 0
    for name, array in arrays.items():
        rows = [array] if isinstance(array, np.ndarray) else array
        content = [row.reshape(-1).view(np.uint8).data for row in rows]
        begin, end = end, end + sum(map(len, content))
        dtype = _NAMES.get(rows[0].dtype.str)
        if dtype is None:  # what the format has no name for is kept as bytes: the words tell more
            dtype, shape = "U8", (end - begin,)
        else:
            shape = (*(() if rows[0] is array else (len(rows),)), *rows[0].shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        contents += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNED)
    digest = durable.create(path, [len(text).to_bytes(8, "little") + text, *contents])
    return StoredFile(path.name, 8 + len(text) + end, digest)


def read_file(
    folder: Path, file: StoredFile
) -> tuple[dict[str, str], dict[str, NDArray[np.uint8]]]:
    """Return the words of a file, and the bytes of its arrays by name.

    Raises
    ------
    CheckpointError
        If it is not the one that was written.
    """
    path = folder / file.name
    try:
        found = path.stat()
        # Before it is opened: what is no plain file may have no end.
        if found.st_size != file.bytes or not stat.S_ISREG(found.st_mode):
            raise CheckpointError(f"{path}: truncated: {found.st_size} bytes of {file.bytes}")
        content = np.fromfile(path, dtype=np.uint8, count=file.bytes)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing, it is a part of the checkpoint") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read: {error.strerror}") from error
    if hashlib.sha256(content.data).hexdigest() != file.sha256:
        raise CheckpointError(f"{path}: damaged: it is not what was written")
    try:
        begin = 8 + int(content[:8].view("<u8")[0])
        header = json.loads(content[8:begin].tobytes())
        words = header.pop("__metadata__", {})
        places = {name: entry["data_offsets"] for name, entry in header.items()}
        arrays = {name: content[begin + a : begin + b] for name, (a, b) in places.items()}
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: not a file of arrays") from error
    return words, arrays
