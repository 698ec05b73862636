"""Files that reach the disk whole or not at all, even if the process dies or the power fails.

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
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

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
