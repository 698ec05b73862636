"""The allreduce: sums over rows that lie on several workers.

All workers run the same code at the same time, each on its own rows. Wherever that code takes a sum
over examples (`cutplane.compute.blocks`), a worker sends the sums of its subtrees to the leader,
which adds them up along the tree and sends the total to all. So workers come to the same decisions
from the same numbers, and code written for rows in one place runs on rows in many.

    leader                     worker
    call(verb, ...)  ------>   verb runs ...
                     <------   sums of subtrees
    adds up          ------>   total; verb goes on ...
                     <------   done, result

What each worker measures for itself, such as seconds, is exchanged the same way: `agreed` is what
the first of them says. A worker sends a sign of life every second. One that is silent for longer
than the leader's patience is lost. No wait is longer.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
import time
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

# Seconds between two signs of life of a worker.
_PULSE = 1.0

Sums = tuple[Any, ...]
# How many blocks there are on a level of the tree, the number of one of them, and its sums.
Subtree = tuple[int, int, Sums]


class Released(Exception):
    """The leader has ended a call, because of an error elsewhere."""


class LostWorker(ConnectionError):
    """A worker has died, or was silent for too long.

    Attributes
    ----------
    number : int
        Its place among the workers.
    """

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


@dataclass(frozen=True)
class Shards:
    """Which of the shards of a sample a worker has.

    Attributes
    ----------
    n_rows : int
        Rows of the whole sample.
    n_shards : int
        A power of two: into how many blocks the rows are cut at most coarsely.
    held : tuple of ints
        The numbers of the worker's shards, in the order in which it stores their rows.
    """

    n_rows: int
    n_shards: int
    held: tuple[int, ...]

    def rows_of(self, shard: int) -> slice:
        """Return the rows of a shard in the whole sample."""
        begin, end = (k * self.n_rows // self.n_shards for k in (shard, shard + 1))
        return slice(begin, end)


class Worker(Placed):
    """The rows of a worker, as the code that it runs sees them.

    Parameters
    ----------
    shards : Shards
        Which rows it has.
    link : Connection
        To the leader.
    alike : bool
        Whether all workers round alike.
    """

    def __init__(self, shards: Shards, link: Link, *, alike: bool = True) -> None:
        self._shards, self._link, self.alike = shards, link, alike
        self.n_rows, self.least_blocks = shards.n_rows, shards.n_shards
        self._known: dict[int, list[int]] = {}
        self.n_here = int(self.bounds(shards.n_shards)[-1])

    def row_numbers(self) -> NDArray[np.int64]:
        """Return the numbers of its rows among all of them."""
        rows = [self._shards.rows_of(shard) for shard in self._shards.held]
        return np.concatenate([np.arange(own.start, own.stop) for own in rows])

    def bounds(self, n_blocks: int) -> Bounds:
        """Return where its blocks begin, of ``n_blocks`` of all rows, and where the last ends."""
        n_blocks = max(n_blocks, self.least_blocks)
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
        """Return the sums over the blocks of all workers, place by place."""
        n_blocks, numbers = self._numbered(sums)
        largest = subtrees(n_blocks, dict(zip(numbers, sums, strict=True)))
        total: Sums = self._link.ask("total", largest)
        return total

    def joined(self, parts: Sequence[Sums]) -> list[NDArray[Any]]:
        """Return the arrays of all blocks of all workers one after the other, place by place."""
        n_blocks, numbers = self._numbered(parts)
        begins = [number / n_blocks for number in numbers]
        return list(self._link.ask("joined", list(zip(begins, parts, strict=True))))

    def added(self, number: int) -> int:
        """Return the sum of the workers' numbers."""
        return int(self._link.ask("added", number))

    def agreed(self, value: Any) -> Any:
        """Return what the worker with the first shard has."""
        return self._link.ask("agreed", self.of_first(value))

    def reported(self, report: Any) -> Any:
        """Send the report of the worker with the first shard to the client; return its answer."""
        return self._link.ask("report", self.of_first(report))

    def of_first(self, value: Any) -> Any:
        """Return a value on the worker with the first shard, None on the others."""
        return value if 0 in self._shards.held else None


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
    """A connection between leader and worker, on which no wait is endless."""

    def __init__(self, connection: Connection, patience: float | None) -> None:
        self._connection, self._patience = connection, patience
        self.n_bytes = 0
        self._over = False
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
        """Send a message to the leader, and return the answer.

        Nothing is asked again in a call that the leader has ended.
        """
        if self._over:
            raise Released
        self.send(kind, content)
        answer, content = self.receive()
        if answer == "release":
            self._over = True
            raise Released
        return content

    def begin(self) -> None:
        """Begin to work on a call."""
        self._over = False

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
            link.begin()
            working.set()
            try:
                answer = ("done", service(link, *content))
            except Released:
                answer = ("released", None)
            except (EOFError, ConnectionError):
                return
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


class Leader:
    """Calls verbs on all workers at once, and adds up what they send.

    Parameters
    ----------
    connections : sequence of Connection
        To the workers.
    patience : float
        Seconds without a sign of life after which a worker is lost.

    Attributes
    ----------
    n_calls, n_rounds : int
        How many verbs were called, and how often workers waited for a sum meanwhile.
    seconds : float
        How long that took.
    closed : bool
        Whether the workers were let go.
    """

    def __init__(self, connections: Sequence[Connection], *, patience: float = 30.0) -> None:
        self._links = [Link(connection, patience) for connection in connections]
        self.n_calls = self.n_rounds = 0
        self.seconds = 0.0
        self.closed = False
        self._idle = True

    @property
    def n_bytes(self) -> int:
        """How many bytes went to all workers, and came from them."""
        return sum(link.n_bytes for link in self._links)

    def call(
        self,
        verb: str,
        *arguments: Any,
        each: Sequence[Any] | None = None,
        on_report: Callable[[Any], Any] | None = None,
    ) -> list[Any]:
        """Run a verb on all workers, with arguments of their own last if there are any.

        ``on_report`` is called with what workers report meanwhile, and returns the answer.

        Returns
        -------
        list
            What each worker returned.

        Raises
        ------
        LostWorker
            If a worker is gone. The others are free again.
        Exception
            What a worker has raised.
        """
        begin = time.perf_counter()
        self.n_calls += 1
        self._idle = False
        try:
            for k, link in enumerate(self._links):
                own = () if each is None else (each[k],)
                self._guarded(k, link.send, "call", (verb, *arguments, *own))
            while True:
                answers = [self._guarded(k, link.receive) for k, link in enumerate(self._links)]
                kinds, contents = {kind for kind, _ in answers}, [own for _, own in answers]
                if kinds == {"done"}:
                    self.seconds += time.perf_counter() - begin
                    self._idle = True
                    return contents
                if kinds - _ANSWERS.keys() or len(kinds) > 1:
                    self._release(answers)
                self.n_rounds += 1
                kind = kinds.pop()
                answer = _ANSWERS[kind](contents)
                if kind == "report" and on_report is not None:
                    answer = on_report(answer)
                message = packed("answer", answer)
                for k, link in enumerate(self._links):
                    self._guarded(k, link.send_packed, message)
        except BaseException:
            if not self._idle:  # interrupted, say: what the workers wait for is not known
                self.close()
            raise

    def _guarded(self, number: int, act: Callable[..., Any], *given: Any) -> Any:
        """Send to a worker, or receive from it; if it is gone, free the others and say so."""
        try:
            return act(*given)
        except (OSError, EOFError) as error:
            self.close()
            why = str(error) or "the connection has ended"
            raise LostWorker(number, why) from error

    def _release(self, answers: list[tuple[str, Any]]) -> None:
        """Free the workers that wait for an answer, and raise the first error."""
        for k, ((kind, _), link) in enumerate(zip(answers, self._links, strict=True)):
            if kind in _ANSWERS:
                self._guarded(k, link.send, "release")
        for k, (kind, _) in enumerate(answers):
            if kind in _ANSWERS:
                self._guarded(k, self._links[k].receive)  # "released"
        self._idle = True
        errors = [content for kind, content in answers if kind == "failed"]
        if errors:
            raise errors[0]
        raise RuntimeError(f"workers disagree: {[kind for kind, _ in answers]}")

    def close(self) -> None:
        """Let the workers go."""
        self.closed = True
        for link in self._links:
            with suppress(OSError):
                link.send("leave")
            link.close()


def _joined(parts: list[list[tuple[float, Sums]]]) -> list[NDArray[Any]]:
    """Return the arrays of all blocks, in the order of their beginnings."""
    ordered = sorted((part for own in parts for part in own), key=lambda part: part[0])
    return [np.concatenate(column) for column in zip(*(sums for _, sums in ordered), strict=True)]


def _first(contents: list[Any]) -> Any:
    """Return what the worker with the first shard has sent; the others have sent nothing."""
    return next((content for content in contents if content is not None), None)


_ANSWERS: dict[str, Callable[[list[Any]], Any]] = {
    "total": lambda parts: sum_of_subtrees(part for own in parts for part in own),
    "joined": _joined,
    "added": sum,
    "agreed": _first,
    "report": _first,
}
