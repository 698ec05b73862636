"""Sums over examples that do not depend on where they are computed.

Rows are cut into ``2^k`` blocks of equal size, and block ``i`` begins at row ``i * n_rows // 2^k``.
So the bounds follow from the number of rows alone, and coarser blocks are pairs of finer ones: all
of them are nodes of one binary tree over the rows. Every sum over examples is taken along it: a
block is summed by a kernel, two neighbors make their parent, up to the root.

    rows      0 ............................................................... n
    1 block   [------------------------------ root -----------------------------]
    2 blocks  [------------- 0 -------------][--------------- 1 ----------------]
    4 blocks  [----- 0 -----][----- 1 ------][------- 2 -----][------- 3 -------]

Which of them are computed by which thread, process or machine then leaves no trace in the bits.
Where the rows of a sample lie on several workers (`cutplane.cluster.allreduce`), each of them adds
up the largest subtrees that it has all blocks of, and the sums of these are what travels.

The functions below are how everything else takes sums, so that losses and maps know nothing of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Bounds = NDArray[np.int64]

# Numbers of a vector that make a block: a few vectors of that length fit into a core's cache, and
# to call a kernel costs little beside it.
LEAST_NUMBERS = 1 << 15
# A block takes 50 microseconds or more; to wake a thread up costs about half of that.
LEAST_ENTRIES = 1 << 17
# Enough for 64 threads; every block of a sum needs a buffer, so there must be a limit.
_MOST_BLOCKS = 256


def power_below(number: int) -> int:
    """Return the largest power of two that is not above a number; at least 1."""
    return 1 << (max(number, 1).bit_length() - 1)


def even_bounds(n_rows: int, n_blocks: int) -> Bounds:
    """Return the rows where ``n_blocks`` blocks of equal size begin, and where the last ends."""
    return np.arange(n_blocks + 1, dtype=np.int64) * n_rows // n_blocks


def vector_blocks(n_rows: int, width: int = 1) -> int:
    """Return into how many blocks to cut vectors with one number, or ``width``, for each row."""
    return min(power_below(n_rows * width // LEAST_NUMBERS), power_below(n_rows))


def count_blocks(n_entries: int, *, most: int = _MOST_BLOCKS) -> int:
    """Return into how many blocks to cut work on ``n_entries`` numbers.

    At least 1 and at most ``most``. Always a power of two, so that 2, 4 or 8 threads get equal
    shares when there are few blocks. Small work is one block, which the caller runs by itself.
    """
    return power_below(min(n_entries // LEAST_ENTRIES, most, _MOST_BLOCKS))


class Placed(ABC):
    """The rows of a sample that a worker has: whole blocks of it.

    Attributes
    ----------
    n_rows : int
        How many rows all workers have together.
    n_here : int
        How many this one has. A vector of that length belongs to them.
    least_blocks : int
        The fewest blocks that sums can have, because coarser ones lie on several workers.
    alike : bool
        Whether all workers round alike, as processors of one kind do.
    """

    n_rows: int
    n_here: int
    least_blocks: int
    alike: bool

    @abstractmethod
    def row_numbers(self) -> NDArray[np.int64]:
        """Return the numbers of its rows among all of them."""

    @abstractmethod
    def bounds(self, n_blocks: int) -> Bounds:
        """Return where its blocks begin, of ``n_blocks`` of all rows, and where the last ends.

        Of more than ``n_blocks`` where there are more shards.
        """

    @abstractmethod
    def total(self, sums: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sums over the blocks of all workers, place by place."""

    @abstractmethod
    def joined(self, parts: Sequence[tuple[Any, ...]]) -> list[NDArray[Any]]:
        """Return the arrays of all blocks of all workers one after the other, place by place."""

    @abstractmethod
    def added(self, number: int) -> int:
        """Return the sum of the workers' numbers."""

    @abstractmethod
    def agreed(self, value: Any) -> Any:
        """Return what the first worker has."""


_placed: ContextVar[Placed | None] = ContextVar("rows of a worker", default=None)


def placed() -> Placed | None:
    """Return where the rows of this thread's sample lie; None if all are here."""
    return _placed.get()


@contextmanager
def placing(rows: Placed | None) -> Iterator[None]:
    """Let sums be those of all workers meanwhile; with None, of what is here alone."""
    token = _placed.set(rows)
    try:
        yield
    finally:
        _placed.reset(token)


def rows_in_all(n_here: int) -> int:
    """Return how many rows a sample has, of which there are ``n_here`` here."""
    rows = _placed.get()
    return n_here if rows is None or rows.n_here != n_here else rows.n_rows


def least_blocks() -> int:
    """Return how many blocks all sums must have: a shard is one at least."""
    rows = _placed.get()
    return 1 if rows is None else rows.least_blocks


def row_numbers(n_here: int) -> NDArray[np.int64]:
    """Return the numbers, in the whole sample, of the ``n_here`` rows that are here."""
    rows = _placed.get()
    return np.arange(n_here) if rows is None or rows.n_here != n_here else rows.row_numbers()


def bounds_here(n_here: int, n_blocks: int) -> Bounds:
    """Return where the blocks begin that are here, of ``n_blocks`` of a sample."""
    rows = _placed.get()
    if rows is None or rows.n_here != n_here:
        return even_bounds(n_here, n_blocks)
    return rows.bounds(n_blocks)


def total(sums: Iterable[Any]) -> Any:
    """Return the sum over all blocks of a sample: of numbers or arrays, one for each block here."""
    return add_up([(each,) for each in sums])[0]


def add_up(sums: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sums over all blocks, place by place, of results that are tuples."""
    parts, rows = list(sums), _placed.get()
    if rows is not None:
        return rows.total(parts)
    if len(parts) == 1:
        return parts[0]
    return tuple(tree_sum(column) for column in zip(*parts, strict=True))


def total_of_rows(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum over all blocks of a sample: of the rows of an array, which it overwrites."""
    rows = _placed.get()
    if rows is not None:
        total: NDArray[np.float64] = rows.total([(each,) for each in sums])[0]
        return total
    if len(sums) == 1:
        return np.ascontiguousarray(sums[0])
    while len(sums) > 1:
        sums[::2] += sums[1::2]
        sums = sums[::2]
    return np.array(sums[0], order="C")  # a copy: the others need not live on


def joined(parts: Iterable[tuple[Any, ...]]) -> list[NDArray[Any]]:
    """Return what all blocks have found, one after the other, place by place."""
    rows = _placed.get()
    if rows is None:
        return [np.concatenate(column) for column in zip(*parts, strict=True)]
    return rows.joined(list(parts))


def added(number: int) -> int:
    """Return the sum of a whole number over all workers, such as a count."""
    rows = _placed.get()
    return number if rows is None else rows.added(number)


def agreed(value: T) -> T:
    """Return what the first worker has: of what each measures for itself, such as seconds."""
    rows = _placed.get()
    if rows is None:
        return value
    first: T = rows.agreed(value)
    return first


def rounded_alike(value: T) -> T:
    """Return what all workers have computed from the same numbers.

    Where their processors round differently, that of the first.
    """
    rows = _placed.get()
    return value if rows is None or rows.alike else agreed(value)


def tree_sum(sums: Iterable[Any]) -> Any:
    """Return the sum of what the blocks, a power of two of them, make along the tree."""
    level = list(sums)
    while len(level) > 1:
        level = [a + b for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]
