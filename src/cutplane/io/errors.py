"""The two ways in which a file can fail its user, each with a message of one line."""

from __future__ import annotations

import os
import stat


class InputError(ValueError):
    """Something read from a file, or given as an option, cannot be used."""


class OutputError(OSError):
    """A file cannot be written."""


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise InputError if a path is a pipe, a socket or a device: to open one may take for ever.

    A path that nothing can be read from, such as a folder, is left to whoever opens it.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{os.fspath(path)}: cannot read: not a regular file")


def reason(error: OSError) -> str:
    """Return the operating system's words for what went wrong, without the path and the number."""
    return (error.strerror or str(error)).lower()
