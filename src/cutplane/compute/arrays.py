"""Arrays: their types, copies, memory that is used again, and the files that they may lie in.

An iteration makes a handful of vectors as long as the sample, and drops them. The system takes back
memory of that size at once, and gives it out again page by page, with zeros in it: with 6 million
examples a quarter of a fit went into that. With a `BufferPool` a vector that is dropped leaves its
memory to the next one of the same size, as long as the fit lasts.

Numbers may lie in files: are these still what they were when a run began?

A file that is mapped into memory can be changed by anybody, at any time. Planes taken before and
after that belong to two problems, so that no bound made of them holds for either. Two things tell:

    stamps    inode, size and times of the file, which every pass over the data compares before it
              reads any: indices that were checked are those that are used, and nothing beyond the
              end of a file is touched. The time of the inode (ctime) cannot be set back
    digests   of the numbers, compared at the end of a run: of all of them where stamps may be
              missing, else of pieces spread over the file

Stamps are missing where a page is written again, through a map, before it has gone to the disk: it
gets no new time. And where there is no file of that name any more. What is written while a compiled
loop is at the same place cannot be caught.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property
from math import prod
from mmap import mmap
from numbers import Real
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


def dense(array: Any) -> NDArray[Any]:
    """Return an array as it is, and a sparse one of SciPy as one that is not."""
    return np.asarray(array.toarray() if hasattr(array, "toarray") else array)


def positive(name: str, value: Any) -> float:
    """Return the value of a parameter as a float if it is positive and finite."""
    if not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def copied(value: Any) -> Any:
    """Return the same value with arrays of its own.

    Dataclasses, tuples, lists and dictionaries are copied all the way down. All else, such as a
    point of a risk, is never changed once it is made, and shared.
    """
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [copied(part) for part in value]
    if isinstance(value, tuple):
        parts = map(copied, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        twin = copy(value)
        for part in fields(value):
            # A frozen dataclass is frozen for those who use it.
            object.__setattr__(twin, part.name, copied(getattr(value, part.name)))
        return twin
    return value


T = TypeVar("T")


class lazy(cached_property[T]):
    """`cached_property` without the lock that it has before Python 3.12, one for all objects.

    Workers that live in one process wait for each other while they compute theirs.
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Return the value, computed once."""
        if instance is None:
            return self
        assert self.attrname is not None
        known = instance.__dict__
        if self.attrname not in known:
            known[self.attrname] = self.func(instance)
        return known[self.attrname]


Buffers = deque[NDArray[np.float64]]

# Numbers from which on it pays, half a megabyte of them: NumPy is quick with less.
_LEAST_NUMBERS = 1 << 16


class BufferPool(dict[int, Buffers]):
    """Buffers that nobody uses, by how many numbers they hold."""

    def empty(self, n_numbers: int) -> NDArray[np.float64]:
        """Return a vector of numbers that mean nothing."""
        unused = self.setdefault(n_numbers, deque())
        try:
            buffer = unused.pop()
        except IndexError:
            buffer = np.empty(n_numbers)
        return np.asarray(_Lent(buffer, unused))


class _Lent:
    """What an array from here, and all views of it, keep alive; it then gives the buffer back."""

    def __init__(self, buffer: NDArray[np.float64], unused: Buffers) -> None:
        self._buffer, self._unused = buffer, unused
        self.__array_interface__ = buffer.__array_interface__

    def __del__(self) -> None:
        self._unused.append(self._buffer)


_room: ContextVar[BufferPool | None] = ContextVar("room for vectors", default=None)


@contextmanager
def reusing(room: BufferPool) -> Iterator[None]:
    """Let vectors be made in this room meanwhile."""
    token = _room.set(room)
    try:
        yield
    finally:
        _room.reset(token)


def empty(*shape: int) -> NDArray[np.float64]:
    """Return an array of numbers that mean nothing, in the room in use if there is one."""
    room, n_numbers = _room.get(), prod(shape)
    if room is None or n_numbers < _LEAST_NUMBERS:
        return np.empty(shape)
    return room.empty(n_numbers).reshape(shape)


def is_dask(thing: Any) -> bool:
    """Say whether something is a Dask collection."""
    return hasattr(thing, "__dask_graph__") and thing.__dask_graph__() is not None


def require_in_memory(who: str, X: Any, advice: str = "give it X.compute()") -> None:
    """Raise TypeError, in one line, if the rows lie elsewhere: they are never fetched unasked.

    Parameters
    ----------
    who : str
        What the user has called.
    X : anything
        The rows that were given.
    advice : str
        What to do instead.
    """
    if is_dask(X):
        kind = type(X).__name__.lower()
        raise TypeError(f"{who} wants rows in memory: X is a Dask {kind}; {advice}")


Stamp = tuple[int, ...]

# File systems count time in ticks of up to 10 ms, some of them in seconds. A change in the tick of
# the one before would show no other time.
_TICKS = 20 * 10**6
_COARSE = 2 * 10**9
# A page of a map goes to the disk half a minute after it was written to, and is then watched again.
_SETTLED = 60 * 10**9
# Bytes that are digested at a time, and of a file that has settled in all: less than a pass.
_PIECE = 1 << 16
_MOST = 1 << 22


class ChangedData(ValueError):
    """A file that a run reads is no longer the one that it began with."""


class MappedFile:
    """The file of a mapped array, as it was at first.

    Parameters
    ----------
    array : ndarray
        Contiguous, in C order.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._array, self.n_bytes = array, array.nbytes
        self._map, self._path = _mapping(array)
        self._size, self._stamp = self._length(), self._settled_stamp()
        self._digest: int | None = None
        self._whole = True

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedFile, (self._array,)  # of which pickle makes one in memory

    def remember(self) -> None:
        """Digest the numbers, for a `change` that is looked for thoroughly; once."""
        if self._digest is None and self._map is not None and not self.change():
            age = time.time_ns() - max(self._stamp[-2:], default=0)
            self._whole = not self._stamp or age < _SETTLED
            self._digest = self._digest_now()

    def change(self, *, thorough: bool = False) -> str:
        """Return in one line what has happened to the file, or nothing.

        Parameters
        ----------
        thorough : bool
            Whether to compare the numbers, too, if they were digested.
        """
        if self._map is None:
            return ""
        # What is beyond the end of a file must not be touched: the system would end the process.
        changed = self._length() != self._size or self._stamp_now() != self._stamp
        if not changed and thorough and self._digest is not None:
            changed = self._digest_now() != self._digest
        which = self._path or "a file that is mapped"
        return f"{which} has changed since the fit began" if changed else ""

    def _length(self) -> int:
        """Return the size of the file that is mapped, even if it has no name any more."""
        try:
            return -1 if self._map is None else self._map.size()
        except (OSError, ValueError):  # memory without a file
            return -1

    def _settled_stamp(self) -> Stamp:
        """Return the stamp, once a later change would show another one."""
        stamp = self._stamp_now()
        last = max(stamp[-2:], default=0)
        ticks = _TICKS if last % 10**9 else _COARSE
        age = time.time_ns() - last
        if 0 <= age < ticks:
            time.sleep((ticks - age) / 1e9)
            return self._stamp_now()
        return stamp

    def _stamp_now(self) -> Stamp:
        try:
            found = os.stat(self._path) if self._path else None
        except OSError:
            return ()
        if found is None:
            return ()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _digest_now(self) -> int:
        """Return a checksum of the numbers: of all of them, or of pieces at equal distances."""
        numbers = np.asarray(self._array).reshape(-1).view(np.uint8)
        begins: Any = range(0, len(numbers), _PIECE)
        if not self._whole and len(begins) > _MOST // _PIECE:
            begins = np.linspace(0, len(numbers) - _PIECE, _MOST // _PIECE).astype(np.int64)
        digest = 0
        for begin in begins:
            digest = crc32(numbers[begin : begin + _PIECE].data, digest)
        return digest


def files_of(arrays: Iterable[NDArray[Any]]) -> tuple[MappedFile, ...]:
    """Return the files of those arrays that lie in some."""
    return tuple(MappedFile(array) for array in arrays if _mapping(array)[0] is not None)


def require_same(files: Iterable[MappedFile]) -> None:
    """Raise ChangedData if one of the files has changed, as far as its stamp tells."""
    for file in files:
        if change := file.change():
            raise ChangedData(change)


def in_memory(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that no file can change: itself, or a copy of one that is mapped."""
    return array if _mapping(array)[0] is None else np.array(array)


def _mapping(array: NDArray[Any]) -> tuple[mmap | None, str]:
    """Return the map that an array lies in, if there is one, and the path of the file, if known."""
    base: Any = array
    path: Any = None
    while isinstance(base, np.ndarray):
        path = getattr(base, "filename", None) or path
        base = base.base
    return (base, os.fspath(path or "")) if isinstance(base, mmap) else (None, "")
