"""What Ctrl-C does to the program, from its first moments to its last.

While it starts, and has nothing to lose, Ctrl-C ends it. An exception would not do: a package that
is being imported may swallow it, or answer with a page of its own. While a command works, Ctrl-C is
raised as in any program, and `cutplane.core.interrupts` lets it wait where there is a model. When
the command is done, what is left takes a few milliseconds, and Ctrl-C changes nothing any more.

Whoever has chosen another handler, or to ignore Ctrl-C as shells do for programs in the background,
keeps it.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

_INTERRUPTED = 130


def end_at_once(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """End the program with one line."""
    os.write(2, b"cutplane: interrupted\n")
    os._exit(_INTERRUPTED)


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
