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
from typing import NamedTuple

from cutplane.compute.blocks import placed
from cutplane.compute.compiled import clock

# What an estimate of seconds is trusted with: machines differ, and do other work besides.
_CAUTION = 4.0


class OutOfTime(Exception):
    """A step was left before it had anything: nothing has changed, and the run should end."""


class _Pace(NamedTuple):
    """When a step has to end, and what says that somebody waits for that."""

    deadline: float = inf
    waiting: Callable[[], bool] = lambda: False


_UNHURRIED = _Pace()
_pace: ContextVar[_Pace] = ContextVar("pace of a run", default=_UNHURRIED)


@contextmanager
def using(seconds: float, waiting: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Let steps end meanwhile after so many seconds, or when somebody is ``waiting`` for that.

    Where others have a part of the rows there is no limit: all must come to the end of a step
    together.
    """
    if placed() is not None:
        yield
        return
    token = _pace.set(_Pace(clock() + seconds if seconds < inf else inf, waiting))
    try:
        yield
    finally:
        _pace.reset(token)


def _is_over(pace: _Pace) -> bool:
    return (pace.deadline < inf and clock() >= pace.deadline) or pace.waiting()


def hurried() -> bool:
    """Say whether a step should end with what it has."""
    return _is_over(_pace.get())


def deadline() -> Callable[[], None]:
    """Return what raises `OutOfTime` if the step should end, from whatever thread it is called."""
    pace = _pace.get()

    def look() -> None:
        if _is_over(pace):
            raise OutOfTime

    return look


def seconds_left() -> float:
    """Return how long the step may still take; infinite if nobody has said."""
    until = _pace.get().deadline
    return until - clock() if until < inf else inf


def affords(seconds: float) -> bool:
    """Say whether there is time for something that takes about so many seconds."""
    return _CAUTION * seconds <= seconds_left()
