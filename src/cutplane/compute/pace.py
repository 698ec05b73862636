"""Whether a step that takes long should come to its end: the time is over, or Ctrl-C waits.

A run looks at its limits between two iterations. Where an iteration is itself a loop (epochs,
products of conjugate gradients, trials of a search) the loop asks `hurried` after each turn, and
ends with what it has: a shorter step, whose state is whole and whose plane holds like any other.
A step that has nothing before it is whole (a matrix) is left by `OutOfTime`, and is not counted.
What cannot be left once it was begun (a factorization, a linear program) is asked for before, by
`affords` and `seconds_left`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from cutplane.compute.blocks import placed
from cutplane.compute.compiled import clock

# What an estimate of seconds is trusted with: machines differ, and do other work besides.
_CAUTION = 4.0


class OutOfTime(Exception):
    """A step was left before it had anything: nothing has changed, and the run should end."""


class Pace:
    """How long a step may take.

    Parameters
    ----------
    seconds : float
        Until the limit of the run, from now on.
    waiting : callable, optional
        Says whether somebody waits for the step to end.
    """

    def __init__(self, seconds: float, waiting: Callable[[], bool] | None = None) -> None:
        self._deadline = clock() + seconds if seconds < inf else inf
        self._waiting = waiting

    @property
    def seconds_left(self) -> float:
        """Until the limit; below zero after it."""
        return self._deadline - clock() if self._deadline < inf else inf

    @property
    def hurried(self) -> bool:
        """Whether the step should end."""
        return self.seconds_left <= 0.0 or (self._waiting is not None and self._waiting())


_pace: ContextVar[Pace | None] = ContextVar("pace of a run", default=None)


@contextmanager
def using(pace: Pace) -> Iterator[None]:
    """Let steps be taken at this pace meanwhile.

    Where others have a part of the rows there is none: all must come to the end of a step together.
    """
    if placed() is not None:
        yield
        return
    token = _pace.set(pace)
    try:
        yield
    finally:
        _pace.reset(token)


def hurried() -> bool:
    """Say whether a step should end with what it has."""
    pace = _pace.get()
    return pace is not None and pace.hurried


def deadline() -> Callable[[], None]:
    """Return what raises `OutOfTime` if the step should end, from whatever thread it is called."""
    pace = _pace.get()

    def look() -> None:
        if pace is not None and pace.hurried:
            raise OutOfTime

    return look


def seconds_left() -> float:
    """Return how long the step may still take; infinite if nobody has said."""
    pace = _pace.get()
    return inf if pace is None else pace.seconds_left


def affords(seconds: float) -> bool:
    """Say whether there is time for something that takes about so many seconds."""
    return _CAUTION * seconds <= seconds_left()
