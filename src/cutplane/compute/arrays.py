"""Arrays: their types, memory for them that is used again, attributes computed once, copies.

An iteration makes a handful of vectors as long as the sample, and drops them. The system takes back
memory of that size at once, and gives it out again page by page, with zeros in it: with 6 million
examples a quarter of a fit went into that. With a `BufferPool` a vector that is dropped leaves its
memory to the next one of the same size, as long as the fit lasts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property
from math import prod
from numbers import Real
from typing import Any, TypeVar

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


def empty_like(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return one of the same shape."""
    return empty(*array.shape)


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
