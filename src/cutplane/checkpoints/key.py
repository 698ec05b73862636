"""The key that tells a user's own checkpoints from those of others.

Whether planes lie below a risk cannot be seen from them: to check them would take as long as to
compute them. So what a checkpoint says is believed if its manifest, which has the digests of all
files, is signed with the key of the user (HMAC with SHA-256). The key is made when the first
checkpoint is written, in a file that nobody else may read. `VARIABLE` names another file, for
machines without a common home directory.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
from pathlib import Path
from typing import Any

from cutplane.checkpoints.tensors import CheckpointError
from cutplane.compute import durable

_log = logging.getLogger("cutplane.checkpoints")

VARIABLE = "CUTPLANE_KEY_FILE"

# Bytes; what is shorter could be guessed.
_SHORTEST = 16


class Key:
    """The key of the user, or of nobody, who signs nothing and has signed nothing."""

    def __init__(self) -> None:
        self._secret = b""
        given = os.environ.get(VARIABLE)
        try:
            path = Path(given) if given else _default_path()
            self.where = f"the key in {path}"
            self._secret = _read_or_make(path)
        except (OSError, RuntimeError) as error:  # no home directory is a RuntimeError
            why = error.strerror if isinstance(error, OSError) else error
            if given:
                raise CheckpointError(f"{given}: no key ({VARIABLE}): {why}") from error
            self.where = "a key, and none can be kept in the home directory"
            _log.warning(
                "no key for checkpoints can be kept (%s): a later run will go on from the best "
                "point only, unless %s names a file for one",
                why,
                VARIABLE,
            )

    def signature(self, content: bytes) -> str:
        """Return what nobody without the key can make of a content; nothing without a key."""
        if not self._secret:
            return ""
        return hmac.new(self._secret, b"cutplane checkpoint\0" + content, _sha256).hexdigest()

    def has_signed(self, content: bytes, signature: str) -> bool:
        """Say whether a content was signed with this key."""
        expected = self.signature(content)
        return bool(expected) and hmac.compare_digest(
            expected.encode(), signature.encode(errors="replace")
        )


def _sha256(data: bytes = b"") -> Any:
    """Return the digest that `hmac` is to use.

    With a name in its place OpenSSL does all of the work, in whose lock a child that was forked at
    the wrong moment was seen to wait for ever.
    """
    return hashlib.sha256(data)


def _default_path() -> Path:
    """Return where programs keep what belongs to the user."""
    folder = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "cutplane" / "checkpoint.key"


def _read_or_make(path: Path) -> bytes:
    """Return the key in a file, which is made if there is none."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
    secret = path.read_bytes().strip()
    if len(secret) < _SHORTEST:
        raise CheckpointError(f"{path}: not a key for checkpoints, it has {len(secret)} bytes")
    return secret


def _make(path: Path) -> None:
    """Put a new key into a file, unless another process has just done so."""
    temporary = durable.temporary_name(path)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_hex(32).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
