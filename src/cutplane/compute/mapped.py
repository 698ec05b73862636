"""Arrays that lie in files: whether these are still what they were when a run began.

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
from collections.abc import Iterable, Iterator
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.compiled import njit

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
        self._digest: tuple[int, ...] | None = None
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
        return change_in(self._array) if changed else ""

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

    def _digest_now(self) -> tuple[int, ...]:
        state = np.arange(1, 5, dtype=np.uint64)
        room = np.zeros(_PIECE // 8, dtype=np.uint64)
        for piece in _pieces(self._array, _MOST // _PIECE if not self._whole else None):
            room.view(np.uint8)[: len(piece)] = piece
            _mix(room[: (len(piece) + 31) // 32 * 4], state)
        return tuple(state.tolist())


def files_of(arrays: Iterable[NDArray[Any]]) -> tuple[MappedFile, ...]:
    """Return the files of those arrays that lie in some."""
    return tuple(MappedFile(array) for array in arrays if _mapping(array)[0] is not None)


def require_same(files: Iterable[MappedFile]) -> None:
    """Raise ChangedData if one of the files has changed, as far as its stamp tells."""
    for file in files:
        if change := file.change():
            raise ChangedData(change)


def change_in(array: NDArray[Any]) -> str:
    """Return the line that says of an array that its file has changed."""
    return f"{_mapping(array)[1] or 'a file that is mapped'} has changed since the fit began"


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


def _pieces(array: NDArray[Any], most: int | None) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes of an array in pieces: all of them, or some at equal distances."""
    numbers = np.asarray(array).reshape(-1).view(np.uint8)
    begins: Any = range(0, len(numbers), _PIECE)
    if most is not None and len(begins) > most:
        begins = np.linspace(0, len(numbers) - _PIECE, most).astype(np.int64)
    for begin in begins:
        yield numbers[begin : begin + _PIECE]


@njit(cache=True, nogil=True)
def _mix(words: NDArray[np.uint64], state: NDArray[np.uint64]) -> None:
    """Stir words, of which there are four times some, into four sums; each step is one to one."""
    by, half = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
    a, b, c, d = state[0], state[1], state[2], state[3]
    for k in range(0, len(words), 4):
        a = (a ^ words[k]) * by
        b = (b ^ words[k + 1]) * by
        c = (c ^ words[k + 2]) * by
        d = (d ^ words[k + 3]) * by
        # Back to the low bits, or two signs that change would cancel.
        a ^= a >> half
        b ^= b >> half
        c ^= c >> half
        d ^= d >> half
    state[0], state[1], state[2], state[3] = a, b, c, d
