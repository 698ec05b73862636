"""Write whole files or nothing, with messages for users.

A reader sees the old file or the new one; a failure leaves the old one. After a loss of power there
is one of them, too, never a part of one (`cutplane.compute.durable`).
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from cutplane.compute import durable
from cutplane.io.errors import OutputError, reason


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path``, all of it or nothing.

    Raises
    ------
    OutputError
        If it cannot be written. The target is as it was, and no other file is left behind.
    """
    try:
        target = _target(path)
        if _is_device(target):
            target.write_bytes(content)
        else:
            durable.replace(target, content)
    except OSError as error:
        raise OutputError(f"{os.fspath(path)}: cannot write: {reason(error)}") from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out before a long computation whether its result can be written to ``path``.

    Raises
    ------
    OutputError
        If `write_atomically` would fail, as far as can be known now.
    """
    try:
        target = _target(path)
        if not _is_device(target):
            trial = durable.temporary_name(target)
            try:
                trial.touch(exist_ok=False)
            finally:  # Ctrl-C too must not leave it
                trial.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{os.fspath(path)}: cannot write: {reason(error)}") from error


def _target(path: str | os.PathLike[str]) -> Path:
    """Return what a path leads to, unless that must not be replaced."""
    target = Path(path).resolve()  # the file that a link points to, not the link
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def _is_device(target: Path) -> bool:
    """Whether the target is a terminal, a pipe or the like, not to be replaced by a file."""
    return target.exists() and not target.is_file() and not target.is_dir()
