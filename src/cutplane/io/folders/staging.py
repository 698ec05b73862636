"""A folder that is there whole, or not at all.

It is filled under a hidden name next to its target, and takes the target's name in one step when
all is on the disk. Whatever ends the work before that leaves nothing that looks finished. What a
process that was killed leaves, the next one that works next to it removes: its lock is free.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from cutplane.compute import durable
from cutplane.io.errors import InputError, OutputError, reason
from cutplane.io.folders.arrays import array_file
from cutplane.io.folders.manifest import MANIFEST, read_manifest

if sys.platform != "win32":
    import fcntl

_LOCK = "lock"


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str], *, replace: bool) -> Iterator[Path]:
    """Yield an empty folder to be filled, which takes its name unless something goes wrong.

    Parameters
    ----------
    path : str or path
        The name it takes.
    replace : bool
        Whether it may take the place of a data folder.

    Raises
    ------
    OutputError
        If it cannot be written, or is there already.
    """
    try:
        target = Path(os.path.realpath(path))
        _require_free(target, replace=replace)
        _remove_leftovers(target.parent)
        hidden = durable.temporary_name(target)
        hidden.mkdir()
        try:
            with _locked(hidden):
                yield hidden
                durable.sync_folder(hidden)
                _require_free(target, replace=replace)  # somebody may have been faster
                _take_name(hidden, target)
                (target / _LOCK).unlink()
        except BaseException:  # Ctrl-C too
            shutil.rmtree(hidden, ignore_errors=True)
            raise
    except (InputError, OutputError):
        raise
    except OSError as error:
        raise OutputError(f"{os.fspath(path)}: cannot write: {reason(error)}") from error


def _require_free(target: Path, *, replace: bool) -> None:
    if not target.exists():
        if not target.parent.is_dir():
            raise OutputError(f"{target}: cannot write: {target.parent} is no folder")
        return
    if not replace:
        raise OutputError(f"{target}: already there; --force (force=True in Python) replaces it")
    try:
        manifest = read_manifest(target)
    except InputError as error:
        raise OutputError(f"{error}; it is not replaced") from None
    ours = {MANIFEST, _LOCK, *(array_file(target, name).name for name in manifest.arrays)}
    if others := sorted({file.name for file in target.iterdir()} - ours):
        raise OutputError(f"{target}: holds {others[0]!r}, which is not ours; it is not replaced")


def _take_name(hidden: Path, target: Path) -> None:
    """Give a hidden folder the name of its target."""
    if target.exists():
        # A folder with files in it cannot be replaced in one step: it steps aside first.
        old = durable.temporary_name(target)
        target.rename(old)
        try:
            hidden.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    else:
        hidden.rename(target)
    durable.sync_folder(target.parent)


@contextlib.contextmanager
def _locked(hidden: Path) -> Iterator[None]:
    """Hold a lock in a folder while it is being filled."""
    new = hidden / "new-lock"
    with open(new, "xb") as file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        new.rename(hidden / _LOCK)  # so that nobody ever finds it free while work goes on
        yield


def _remove_leftovers(parent: Path) -> None:
    """Remove what processes that were killed have left in a folder."""
    if sys.platform == "win32":
        return
    for hidden in filter(durable.is_temporary, parent.iterdir()):
        with contextlib.suppress(OSError), open(hidden / _LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(hidden, ignore_errors=True)
