"""Files of NumPy that grow row by row, and are mapped into memory when they are complete."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError, reason, require_regular
from cutplane.io.folders.manifest import MANIFEST, StoredArray

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
