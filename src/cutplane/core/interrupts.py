"""Ctrl-C between two steps of a run, not inside one.

Python raises KeyboardInterrupt wherever the main thread happens to be. Inside a compiled kernel it
comes out as a SystemError, and any line of Python may be cut in two. So while a run is on, Ctrl-C
only leaves a note, and the loop looks at it where its state is whole. Two exceptions: a function of
the user's (:func:`at_once`), which may take minutes and keeps nothing of ours, is left at once; and
a second Ctrl-C is raised wherever it comes.

    with held():                  before the first run Ctrl-C raises, there is nothing to lose;
        with running() as run:    from then on it waits,
            run.check()           is raised here, or where the user's code runs,
        ...                       and waits again until the outermost block ends

The handler is process-wide, so it is installed in the main thread only, only in place of Python's
own, and taken away by the outermost block. Elsewhere these blocks do nothing but keep count.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Self

# Signals that come within this many seconds are one Ctrl-C. Programs that pass it on, such as
# `timeout`, signal the process and then its group, which the process belongs to.
ONE_PRESS = 0.3


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, also one that came while compiled code ran."""
    while isinstance(error, SystemError):
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)


def _raise_plainly(error: object) -> None:
    """Raise KeyboardInterrupt for one that compiled code has made a SystemError of."""
    if isinstance(error, SystemError) and is_interrupt(error):
        raise KeyboardInterrupt from error


def interrupted_so_far() -> bool:
    """Whether there was a Ctrl-C since the first run in the outermost block."""
    return _watch.taken or _watch.waiting


def is_waiting() -> bool:
    """Whether there was a Ctrl-C that nobody has looked at yet."""
    return _watch.waiting


class _Watch(threading.local):
    """What is known of Ctrl-C in a thread."""

    holds = 0  # open blocks
    runs = 0  # open runs among them
    raising = True  # whether Ctrl-C is raised where it comes
    waiting = False  # one has come, and nobody has looked at it
    taken = False  # one has ended a run
    insisted = False  # a second one was raised
    first: float | None = None  # when it came
    installed = False
    hint = b""  # for the user who may have to wait


_watch = _Watch()


def _on_signal(number: int, frame: FrameType | None) -> None:
    watch, now = _watch, time.monotonic()
    if watch.first is not None and now - watch.first < ONE_PRESS:
        return
    again, watch.first = watch.first is not None, now
    # Here in this file a block may be half opened or closed: not to be left at once.
    in_this_file = frame is not None and frame.f_globals is globals()
    if (watch.raising or again or watch.holds == 0) and not in_this_file:
        watch.insisted = again
        raise KeyboardInterrupt
    watch.waiting = True
    if watch.hint:
        os.write(2, watch.hint)  # a stream may be busy with another line


@dataclass(slots=True)
class held:
    """From the first run inside the block to its end, let Ctrl-C wait.

    For what must be finished once there is a result, such as the runs of several problems, or a
    file. Blocks may be nested; the outermost counts.

    Parameters
    ----------
    hint : str
        What to write to standard error when Ctrl-C has come and waits.
    """

    hint: str = ""

    def __enter__(self) -> Self:
        watch = _watch
        if watch.holds == 0:
            watch.raising = watch.waiting = watch.taken = watch.insisted = False
            watch.first, watch.hint = None, self.hint.encode()
            mine = threading.current_thread() is threading.main_thread()
            if mine and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _on_signal):
                try:
                    signal.signal(signal.SIGINT, _on_signal)
                    watch.installed = True
                except ValueError:  # the main thread of an interpreter that is not the main one
                    pass
        watch.holds += 1
        if watch.holds == 1:
            watch.raising = True
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        watch = _watch
        if watch.holds == 1:
            watch.raising = False
        watch.holds -= 1
        if watch.holds == 0:
            # Somebody else may have put a handler of theirs in place meanwhile.
            if watch.installed and signal.getsignal(signal.SIGINT) is _on_signal:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            watch.installed, watch.waiting, watch.raising = False, False, True
        if error is not None:
            _raise_plainly(error)


class running(held):
    """A block in which Ctrl-C waits until `check`, for a run of the loop.

    A run inside another one, which a Ctrl-C has ended, leaves it to the outer one to end too.
    """

    __slots__ = ("_raising", "_taken")

    def __enter__(self) -> Self:
        super().__enter__()
        self._taken = False
        self._raising, _watch.raising = _watch.raising, False
        _watch.runs += 1
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        _watch.runs -= 1
        if _watch.runs:
            _watch.waiting |= self._taken
            _watch.raising = self._raising
        super().__exit__(kind, error, traceback)

    def check(self) -> None:
        """Raise a Ctrl-C that waits."""
        if _watch.waiting:
            raise KeyboardInterrupt

    def take(self) -> None:
        """Note that this run ends because of Ctrl-C."""
        _watch.waiting, _watch.taken, self._taken = False, True, True

    @property
    def late(self) -> bool:
        """Whether a Ctrl-C waits."""
        return _watch.waiting

    @property
    def insisted(self) -> bool:
        """Whether a second Ctrl-C was raised, which is to end everything."""
        return _watch.insisted


class at_once:
    """A block of code that is not ours, which Ctrl-C leaves at once."""

    __slots__ = ("_raising",)

    def __enter__(self) -> None:
        if _watch.waiting:
            raise KeyboardInterrupt
        self._raising = _watch.raising
        _watch.raising = True

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        _watch.raising = self._raising
        if error is not None:
            _raise_plainly(error)
