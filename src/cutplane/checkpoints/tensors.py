"""Arrays in a file, in the safetensors format, written piece by piece and read with a check.

    8 bytes: length of the header | header, JSON: name -> dtype, shape, place | all arrays

The library of that name wants everything in memory at once, and a copy of it; planes of a large
model fill half of the memory. Files can be read by it all the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.checkpoints.errors import CheckpointError
from cutplane.compute import durable
from cutplane.compute.arrays import Vector

Bytes = NDArray[np.uint8]

_NAMES = {
    "<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8",
    "<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip

# The header ends at a multiple of this many bytes, as the format recommends.
_ALIGNED = 8


class StoredFile(NamedTuple):
    """A file of a checkpoint, as the manifest knows it."""

    name: str
    bytes: int
    sha256: str


class Contents(NamedTuple):
    """What a file holds: words, and the bytes of arrays by name."""

    words: dict[str, str]
    arrays: dict[str, Bytes]


def write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], words: Mapping[str, str]
) -> StoredFile:
    """Write arrays in C order, and some words, to a new file."""
    # What the format has no name for is kept as bytes: the words tell what it is.
    parts = {
        name: array if array.dtype.str in _NAMES else array.reshape(-1).view(np.uint8)
        for name, array in arrays.items()
    }
    shapes = {name: (_NAMES[part.dtype.str], part.shape) for name, part in parts.items()}
    return _write(path, shapes, words, (_content(part) for part in parts.values()))


def write_rows(path: Path, numbers: NDArray[np.int64], rows: Sequence[Vector]) -> StoredFile:
    """Write the slopes of planes, a row for each of their numbers, to a new file."""
    shapes = {"numbers": ("I64", numbers.shape), "slopes": ("F64", (len(rows), len(rows[0])))}
    return _write(path, shapes, {}, map(_content, (numbers, *rows)))


def read_file(folder: Path, file: StoredFile) -> Contents:
    """Read a file of which size and digest are known.

    Raises
    ------
    CheckpointError
        If it is not the one that was written.
    """
    path = folder / file.name
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing, it is a part of the checkpoint") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read: {error.strerror}") from error
    if len(content) != file.bytes:
        raise CheckpointError(f"{path}: truncated: {len(content)} bytes of {file.bytes}")
    if hashlib.sha256(content.data).hexdigest() != file.sha256:
        raise CheckpointError(f"{path}: damaged: it is not what was written")
    begin = 8 + int(content[:8].view("<u8")[0])
    header = json.loads(content[8:begin].tobytes())
    words = header.pop("__metadata__", {})
    places = {name: entry["data_offsets"] for name, entry in header.items()}
    return Contents(
        words, {name: content[begin + a : begin + b] for name, (a, b) in places.items()}
    )


def _write(
    path: Path,
    shapes: Mapping[str, tuple[str, tuple[int, ...]]],
    words: Mapping[str, str],
    contents: Iterator[memoryview],
) -> StoredFile:
    header: dict[str, Any] = {"__metadata__": dict(words)}
    end = 0
    for name, (dtype, shape) in shapes.items():
        size = 1 if dtype == "BOOL" else int(dtype[1:]) // 8
        begin, end = end, end + size * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNED)

    def chunks() -> Iterator[bytes | memoryview]:
        yield len(text).to_bytes(8, "little") + text
        yield from contents

    digest = durable.create(path, chunks())
    return StoredFile(path.name, 8 + len(text) + end, digest)


def _content(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
