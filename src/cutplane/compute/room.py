"""Room for vectors as long as the sample, used again and again during a fit.

An iteration makes a handful of them, and drops them. The system takes back memory of that size at
once, and gives it out again page by page, with zeros in it: with 6 million examples a quarter of a
fit went into that. Here a vector that is dropped leaves its room to the next one of the same size,
as long as the fit lasts.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Buffers = deque[NDArray[np.float64]]

# Numbers from which on it pays, half a megabyte of them: NumPy is quick with less.
_LEAST_NUMBERS = 1 << 16


class Room:
    """Buffers that nobody uses, by how many numbers they hold."""

    def __init__(self) -> None:
        self._unused: defaultdict[int, Buffers] = defaultdict(deque)

    def empty(self, n_numbers: int) -> NDArray[np.float64]:
        """Return a vector of numbers that mean nothing."""
        unused = self._unused[n_numbers]
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


_room: ContextVar[Room | None] = ContextVar("room for vectors", default=None)


@contextmanager
def using(room: Room) -> Iterator[None]:
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


def empty_like(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return one of the same shape."""
    return empty(*array.shape)
