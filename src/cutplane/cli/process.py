"""How the program tells of what goes on, and what Ctrl-C does to it, from its first moments on.

What went wrong is one line on standard error, and an exit code. What is compiled is told to people
who wait.

While the program starts, and has nothing to lose, Ctrl-C ends it. An exception would not do: a
package that is being imported may swallow it, or answer with a page of its own. While a command
works, Ctrl-C is raised as in any program, and `cutplane.core.interrupts` lets it wait where there
is a model. When the command is done, what is left takes a few milliseconds, and Ctrl-C changes
nothing any more. Another handler, or ignoring Ctrl-C as shells do for programs in the
background, is kept.

Nothing slow is imported here: Ctrl-C is one line at any moment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from enum import IntEnum
from types import FrameType
from typing import Any


def end_at_once(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """End the program with one line."""
    os.write(2, b"cutplane: interrupted\n")
    os._exit(ExitCode.INTERRUPTED)


def end_at_ctrl_c() -> None:
    """Let Ctrl-C end the program until a command begins to work."""
    _replace(signal.default_int_handler, end_at_once)


class working:
    """A block in which Ctrl-C is raised, and after which it changes nothing."""

    def __enter__(self) -> None:
        # Not so where commands are called from Python.
        self._is_program = _replace(end_at_once, signal.default_int_handler)

    def __exit__(self, *error: object) -> None:
        if self._is_program:
            _replace(signal.default_int_handler, signal.SIG_IGN)


def _replace(present: Any, new: Any) -> bool:
    """Put a handler in the place of another, if that is there; return whether it was."""
    found: bool = signal.getsignal(signal.SIGINT) is present
    if found:
        signal.signal(signal.SIGINT, new)
    return found


_SHOW = "CUTPLANE_TRACEBACK"


class ExitCode(IntEnum):
    """Exit codes; 70 is what sysexits.h calls a defect, 130 what shells use for Ctrl-C."""

    SUCCESS = 0
    TOLERANCE_MISSED = 1
    BAD_INPUT = 2
    DEFECT = 70
    INTERRUPTED = 130


def complain(message: object) -> None:
    """Write one line to standard error."""
    print(f"cutplane: {' '.join(str(message).split())}", file=sys.stderr)


def complain_of_defect(error: Exception) -> ExitCode:
    """Say in one line that the program is at fault; return the exit code."""
    if os.environ.get(_SHOW):
        traceback.print_exception(error)
    complain(
        f"unexpected {type(error).__name__}: {error} (a defect of cutplane: please report it, "
        f"with what {_SHOW}=1 shows)"
    )
    return ExitCode.DEFECT


def _say(message: object) -> None:
    print(message, file=sys.stderr, flush=True)


class _Notes(logging.Handler):
    def __init__(self, warn: Callable[[object], None]) -> None:
        super().__init__()
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        (self._warn if record.levelno >= logging.WARNING else _say)(record.getMessage())


@contextlib.contextmanager
def notes_of(name: str, least: int, *, warn: Callable[[object], None] = _say) -> Iterator[None]:
    """Show what a part of the library logs meanwhile, from a level on."""
    log, notes = logging.getLogger(f"cutplane.{name}"), _Notes(warn)
    before, passed_on = log.level, log.propagate
    log.addHandler(notes)
    log.setLevel(least)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(notes)
        log.setLevel(before)
        log.propagate = passed_on


def compile_notes(*, quiet: bool) -> contextlib.AbstractContextManager[None]:
    """Show what is logged of compilation meanwhile, or nothing of it."""
    return notes_of("compiling", logging.CRITICAL if quiet else logging.INFO)
