"""A team: members that hold the rows of a sample between them, and one who leads them.

All members run the same code at the same time, each on its own rows. Wherever that code takes a sum
over examples (`cutplane.compute.blocks`), a member sends the sums of its subtrees to the leader,
who adds them up along the tree and sends everybody the total. So members come to the same decisions
from the same numbers, and code written for rows in one place runs on rows in many.

    leader                     member
    call(verb, ...)  ------>   verb runs ...
                     <------   sums of subtrees
    adds up          ------>   total; verb goes on ...
                     <------   done, result

A member that works says so every second, so that one that is slow is told from one that is gone:
whoever says nothing for as long as the leader's patience is taken for lost. No wait is longer.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from os import dup
from pickle import PicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.blocks import Bounds, Placed, even_bounds

# How often a member that works says that it is there.
_PULSE = 1.0

Sums = tuple[Any, ...]
# How many blocks there are on a level of the tree, the number of one of them, and its sums.
Subtree = tuple[int, int, Sums]


class Released(Exception):
    """The leader has ended a call, because of an error elsewhere."""


@dataclass(frozen=True)
class Shards:
    """Which of the shards of a sample a member has.

    Attributes
    ----------
    n_rows : int
        Rows of the whole sample.
    n_shards : int
        A power of two: into how many blocks the rows are cut at most coarsely.
    held : tuple of ints
        The numbers of the member's shards, in the order in which it stores their rows.
    """

    n_rows: int
    n_shards: int
    held: tuple[int, ...]

    def rows_of(self, shard: int) -> slice:
        """Return the rows of a shard in the whole sample."""
        begin, end = (k * self.n_rows // self.n_shards for k in (shard, shard + 1))
        return slice(begin, end)


class Member(Placed):
    """A member of a team, as the code that it runs sees it.

    Parameters
    ----------
    shards : Shards
        Which rows it has.
    link : Connection
        To the leader.
    """

    def __init__(self, shards: Shards, link: Link) -> None:
        self._shards, self._link = shards, link
        self.n_rows, self.least_blocks = shards.n_rows, shards.n_shards
        self._known: dict[int, list[int]] = {}
        self.n_here = int(self.bounds(shards.n_shards)[-1])

    def row_numbers(self) -> NDArray[np.int64]:
        """Return the numbers of its rows among all of them."""
        rows = [self._shards.rows_of(shard) for shard in self._shards.held]
        return np.concatenate([np.arange(own.start, own.stop) for own in rows])

    def bounds(self, n_blocks: int) -> Bounds:
        """Return where its blocks begin, of ``n_blocks`` of all rows, and where the last ends."""
        everywhere = even_bounds(self.n_rows, n_blocks)
        lengths = np.diff(everywhere)[self._numbers(n_blocks)]
        return np.concatenate([[0], np.cumsum(lengths)])

    def _numbers(self, n_blocks: int) -> NDArray[np.int64]:
        """Return the numbers of its blocks, in the order of its rows."""
        each, rest = divmod(n_blocks, self._shards.n_shards)
        if rest or not each:
            raise ValueError(f"{self._shards.n_shards} shards cannot have {n_blocks} blocks")
        held = np.array(self._shards.held, dtype=np.int64)
        return (held[:, None] * each + np.arange(each)).ravel()

    def _numbered(self, parts: Sequence[Any]) -> tuple[int, list[int]]:
        """Return of how many blocks there are parts, and which of them these are."""
        n_blocks = len(parts) // max(len(self._shards.held), 1) * self._shards.n_shards
        if n_blocks not in self._known:
            self._known[n_blocks] = self._numbers(n_blocks).tolist() if self._shards.held else []
        numbers = self._known[n_blocks]
        if len(numbers) != len(parts):
            raise ValueError(f"{len(parts)} parts are not those of whole blocks")
        return n_blocks, numbers

    def total(self, sums: Sequence[Sums]) -> Sums:
        """Return the sums over the blocks of all members, place by place."""
        n_blocks, numbers = self._numbered(sums)
        largest = subtrees(n_blocks, dict(zip(numbers, sums, strict=True)))
        total: Sums = self._link.ask("total", largest)
        return total

    def joined(self, parts: Sequence[Sums]) -> list[NDArray[Any]]:
        """Return the arrays of all blocks of all members one after the other, place by place."""
        n_blocks, numbers = self._numbered(parts)
        begins = [number / n_blocks for number in numbers]
        return list(self._link.ask("joined", list(zip(begins, parts, strict=True))))

    def added(self, number: int) -> int:
        """Return the sum of the members' numbers."""
        return int(self._link.ask("added", number))


def subtrees(n_blocks: int, sums: dict[int, Sums]) -> list[Subtree]:
    """Return the sums of the largest subtrees of which all blocks are there."""
    found: list[Subtree] = []
    while n_blocks > 1:
        above = {}
        for number, own in sums.items():
            if number ^ 1 not in sums:
                found.append((n_blocks, number, own))
            elif number % 2 == 0:
                above[number // 2] = _plus(own, sums[number + 1])
        sums, n_blocks = above, n_blocks // 2
    return found + [(1, number, own) for number, own in sums.items()]


def sum_of_subtrees(parts: Iterable[Subtree]) -> Sums:
    """Return the sum of all blocks, along the tree."""
    levels: dict[int, dict[int, Sums]] = {}
    for n_blocks, number, sums in parts:
        levels.setdefault(n_blocks, {})[number] = sums
    finest = max(levels)
    while finest > 1:
        level = levels.pop(finest, {})
        above = levels.setdefault(finest // 2, {})
        for number in level:
            if number ^ 1 not in level:
                raise ValueError(f"block {number} of {finest} has no neighbor")
        for number in level:
            if number % 2 == 0:
                above[number // 2] = _plus(level[number], level[number + 1])
        finest //= 2
    return levels[1][0]


def _plus(a: Sums, b: Sums) -> Sums:
    return tuple(x + y for x, y in zip(a, b, strict=True))


class Link:
    """A connection between leader and member, on which nobody waits for ever."""

    def __init__(self, connection: Connection, patience: float | None) -> None:
        self._connection, self._patience = connection, patience
        self.n_bytes = 0
        self._sending = threading.Lock()
        if patience is not None:
            # The system's own deadline: to poll first made an exchange half as long again.
            seconds, rest = divmod(max(patience, 1e-3), 1.0)
            limit = struct.pack("ll", int(seconds), int(1e6 * rest))
            with socket.socket(fileno=dup(connection.fileno())) as own:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
                own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def send(self, kind: str, content: Any = None) -> None:
        """Send a message."""
        self.send_packed(packed(kind, content))

    def send_packed(self, message: bytes) -> None:
        """Send a message that is packed: one for all, say."""
        with self._sending:
            self.n_bytes += len(message)
            self._connection.send_bytes(message)

    def receive(self) -> tuple[str, Any]:
        """Return the next message but for signs of life; TimeoutError if there are none either."""
        while True:
            try:
                message = self._connection.recv_bytes()
            except BlockingIOError:
                raise TimeoutError(f"nothing heard for {self._patience:g} s") from None
            self.n_bytes += len(message)
            kind, content = ForkingPickler.loads(message)
            if kind != "alive":
                return kind, content

    def ask(self, kind: str, content: Any) -> Any:
        """Send a message to the leader, and return the answer."""
        self.send(kind, content)
        answer, content = self.receive()
        if answer == "release":
            raise Released
        return content

    def close(self) -> None:
        """End it."""
        self._connection.close()


def packed(kind: str, content: Any) -> bytes:
    """Return a message as it is sent."""
    # Not a view into the stream, as `ForkingPickler.dumps` returns: it could not be closed before.
    stream = io.BytesIO()
    ForkingPickler(stream).dump((kind, content))
    return stream.getvalue()


def serve(connection: Connection, service: Callable[..., Any]) -> None:
    """Do what the leader asks for, until it leaves.

    Parameters
    ----------
    connection : Connection
        To the leader.
    service : callable
        Called with the link, the verb and its arguments; returns what the leader is to get.
    """
    link = Link(connection, None)
    working = threading.Event()
    over = threading.Event()

    def pulse() -> None:
        while working.wait() and not over.wait(_PULSE):
            if working.is_set():
                try:
                    link.send("alive")
                except OSError:
                    return

    heart = threading.Thread(target=pulse, daemon=True, name="cutplane pulse")
    heart.start()
    try:
        while True:
            kind, content = link.receive()
            if kind == "leave":
                return
            if kind != "call":
                continue  # released too late: the answer is on its way
            working.set()
            try:
                answer = ("done", service(link, *content))
            except Released:
                answer = ("released", None)
            except (EOFError, OSError) as error:
                if isinstance(error, ConnectionError | EOFError):
                    return
                answer = ("failed", error)
            except Exception as error:
                answer = ("failed", error)
            working.clear()
            try:
                link.send(*answer)
            except (TypeError, AttributeError, PicklingError):  # an error that cannot be sent
                link.send("failed", RuntimeError(repr(answer[1])))
    except (EOFError, OSError):
        return  # the leader is gone
    finally:
        over.set()
        working.set()
        with suppress(OSError):
            connection.close()
