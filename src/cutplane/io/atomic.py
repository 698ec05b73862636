"""Write whole files or nothing.

The content goes to a temporary file next to the target, reaches the disk, and takes the target's
name in one step, which reaches the disk too. A reader sees the old file or the new one; a failure
leaves the old one. After a loss of power there is one of them, too, never a part of one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

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
            _replace(target, content)
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
            trial = _temporary_name(target)
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


def _replace(target: Path, content: bytes) -> None:
    temporary = _temporary_name(target)
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:  # Ctrl-C too must not leave the temporary file
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        # A folder may be writable but not readable, and some file systems do not synchronize
        # folders: then this is left to the system. A failing disk must be told of.
        if error.errno == errno.EIO:
            raise


def _temporary_name(target: Path) -> Path:
    # Not derived from the target's name, which may already be as long as the system allows.
    return target.with_name(f".cutplane-{secrets.token_hex(8)}.tmp")


def _is_device(target: Path) -> bool:
    """Whether the target is a terminal, a pipe or the like, not to be replaced by a file."""
    return target.exists() and not target.is_file() and not target.is_dir()
