"""Who leads a team: calls verbs on all members, and adds up what they send (`cluster/team.py`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.cluster.team import Link, Sums, packed, sum_of_subtrees


class LostMember(ConnectionError):
    """A member of a team has died, or said nothing for too long.

    Attributes
    ----------
    member : int
        Its number.
    """

    def __init__(self, member: int, why: str) -> None:
        super().__init__(why)
        self.member = member


class Leader:
    """Calls verbs on all members of a team at once.

    Parameters
    ----------
    connections : sequence of Connection
        To the members.
    patience : float
        Seconds without a sign of life after which a member is lost.

    Attributes
    ----------
    n_calls, n_rounds : int
        How many verbs were called, and how often members waited for a sum meanwhile.
    seconds : float
        How long that took.
    closed : bool
        Whether the members were let go.
    """

    def __init__(self, connections: Sequence[Connection], *, patience: float = 30.0) -> None:
        self._links = [Link(connection, patience) for connection in connections]
        self.n_calls = self.n_rounds = 0
        self.seconds = 0.0
        self.closed = False
        self._idle = True

    @property
    def n_bytes(self) -> int:
        """How many bytes went to all members, and came from them."""
        return sum(link.n_bytes for link in self._links)

    def call(self, verb: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Run a verb on all members, with arguments of their own last if there are any.

        Returns
        -------
        list
            What each member returned.

        Raises
        ------
        LostMember
            If a member is gone. The others are free again.
        Exception
            What a member has raised.
        """
        try:
            return self._call(verb, arguments, each)
        except BaseException:
            if not self._idle:  # interrupted, say: nobody knows what the members wait for
                self.close()
            raise

    def _call(self, verb: str, arguments: Sequence[Any], each: Sequence[Any] | None) -> list[Any]:
        begin = time.perf_counter()
        self.n_calls += 1
        self._idle = False
        for k, link in enumerate(self._links):
            own = () if each is None else (each[k],)
            self._guarded(k, link.send, "call", (verb, *arguments, *own))
        while True:
            answers = self._answers()
            kinds = {kind for kind, _ in answers}
            if kinds == {"done"}:
                self.seconds += time.perf_counter() - begin
                self._idle = True
                return [content for _, content in answers]
            if kinds - {"total", "joined", "added"} or len(kinds) > 1:
                self._release(answers)
            self.n_rounds += 1
            answer = _ANSWERS[kinds.pop()]([content for _, content in answers])
            message = packed("answer", answer)
            for k, link in enumerate(self._links):
                self._guarded(k, link.send_packed, message)

    def _answers(self) -> list[tuple[str, Any]]:
        return [self._guarded(k, link.receive) for k, link in enumerate(self._links)]

    def _guarded(self, member: int, act: Callable[..., Any], *given: Any) -> Any:
        """Send to a member, or receive from it; if it is gone, free the others and say so."""
        try:
            return act(*given)
        except (OSError, EOFError) as error:
            self.close()
            why = str(error) or "the connection has ended"
            raise LostMember(member, why) from error

    def _release(self, answers: list[tuple[str, Any]]) -> None:
        """Free the members that wait for an answer, and raise the first error."""
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
        raise RuntimeError(f"members disagree: {[kind for kind, _ in answers]}")

    def close(self) -> None:
        """Let the members go."""
        self.closed = True
        for link in self._links:
            with suppress(OSError):
                link.send("leave")
            link.close()


def _joined(parts: list[list[tuple[float, Sums]]]) -> list[NDArray[Any]]:
    """Return the arrays of all blocks, in the order of their beginnings."""
    ordered = sorted((part for own in parts for part in own), key=lambda part: part[0])
    return [np.concatenate(column) for column in zip(*(sums for _, sums in ordered), strict=True)]


_ANSWERS: dict[str, Callable[[list[Any]], Any]] = {
    "total": lambda parts: sum_of_subtrees(part for own in parts for part in own),
    "joined": _joined,
    "added": sum,
}
