"""Files and folders that reach the disk whole or not at all, even if the power fails.

`replace` writes next to the target, waits for the disk, and takes the target's name in one step.
`create` writes a file that has a new name; until something that was replaced atomically names it,
nobody reads it. A folder is synchronized too: else a new name may be lost while the content is not.

Each step is announced to `observer` before and after it is taken, so that a test can end the
process between any two of them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

LOCK = "lock"
"""The file in a folder that whoever writes there has locked."""

observer: Callable[[str], None] | None = None


def _announce(step: str) -> None:
    if observer is not None:
        observer(step)


def replace(target: Path, content: bytes) -> None:
    """Put a file with this content in the place of ``target``, with its permissions."""
    temporary = temporary_name(target)
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            _write(file, [content])
        _announce("before rename")
        os.replace(temporary, target)
        _announce("after rename")
        sync_folder(target.parent)
    except BaseException:  # Ctrl-C too must not leave the temporary file
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def create(target: Path, chunks: Iterable[bytes | memoryview]) -> str:
    """Write a new file, piece by piece; return its SHA-256. Its folder is not synchronized."""
    digest = hashlib.sha256()

    def digested() -> Iterable[bytes | memoryview]:
        for chunk in chunks:
            digest.update(chunk)
            yield chunk

    try:
        with open(target, "xb") as file:
            _write(file, digested())
    except BaseException:
        with contextlib.suppress(OSError):
            target.unlink()
        raise
    return digest.hexdigest()


def lock(handle: int) -> bool:
    """Take the lock of an open file; False if another process has it.

    The system gives it back when the process ends, however it ends. On Windows it does nothing.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextlib.contextmanager
def new_folder(target: Path, may_replace: Callable[[Path], None]) -> Iterator[Path]:
    """Yield an empty folder to be filled, which takes its name when all is on the disk, or never.

    It is filled under a hidden name next to its target. Whatever ends the work before that leaves
    nothing that looks finished. What a process that was killed leaves, the next one that works next
    to it removes: its lock is free. ``may_replace`` raises unless what is at the target may go; it
    is asked before the work, and once more after it: somebody may have been faster.
    """
    may_replace(target)
    _remove_leftovers(target.parent)
    hidden = temporary_name(target)
    hidden.mkdir()
    try:
        new = hidden / "new-lock"
        with open(new, "xb") as file:
            lock(file.fileno())
            new.rename(hidden / LOCK)  # so that nobody ever finds it free while work goes on
            yield hidden
            sync_folder(hidden)
            may_replace(target)
            _take_name(hidden, target)
            (target / LOCK).unlink()
    except BaseException:  # Ctrl-C too
        shutil.rmtree(hidden, ignore_errors=True)
        raise


def _take_name(hidden: Path, target: Path) -> None:
    """Give a hidden folder the name of its target."""
    if target.exists():
        # A folder with files in it cannot be replaced in one step: it steps aside first.
        old = temporary_name(target)
        target.rename(old)
        try:
            hidden.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    else:
        hidden.rename(target)
    sync_folder(target.parent)


def _remove_leftovers(parent: Path) -> None:
    """Remove what processes that were killed have left in a folder."""
    if sys.platform == "win32":
        return
    for hidden in filter(is_temporary, parent.iterdir()):
        with contextlib.suppress(OSError), open(hidden / LOCK, "rb") as file:
            if lock(file.fileno()):
                shutil.rmtree(hidden, ignore_errors=True)


def remove(target: Path) -> None:
    """Remove a file, which may be gone already."""
    _announce("before remove")
    target.unlink(missing_ok=True)
    _announce("after remove")


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can do that."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    _announce("before sync of the folder")
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
    _announce("after sync of the folder")


def temporary_name(target: Path) -> Path:
    """Return a new name next to a target."""
    # Not derived from the target's name, which may already be as long as the system allows.
    return target.with_name(f".cutplane-{secrets.token_hex(8)}.tmp")


def is_temporary(path: Path) -> bool:
    """Whether a file has a name that `temporary_name` gives."""
    return path.name.startswith(".cutplane-") and path.name.endswith(".tmp")


def _write(file: BinaryIO, chunks: Iterable[bytes | memoryview]) -> None:
    for chunk in chunks:
        _announce("before write")
        file.write(chunk)
        _announce("after write")
    file.flush()
    _announce("before sync")
    os.fsync(file.fileno())
    _announce("after sync")
