"""Bytes from a file or from standard input, decompressed on the way.

The kind of compression is read off the first bytes, not off the name, so that a renamed file and
a compressed stream on standard input work alike.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable

from cutplane.io.errors import InputError, reason

STANDARD_INPUT = "-"

_DECOMPRESSORS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"\x1f\x8b", gzip.decompress),
    "bzip2": (b"BZh", bz2.decompress),
    "xz": (b"\xfd7zXZ\x00", lzma.decompress),
}


def name_of(path: str | os.PathLike[str]) -> str:
    """Return what to call ``path`` in messages."""
    name = os.fspath(path)
    return "standard input" if name == STANDARD_INPUT else name


def read_bytes(path: str | os.PathLike[str], *, decompress: bool = True) -> bytes:
    """Return the content of a file, or of standard input for ``-``, decompressed if wanted.

    Raises
    ------
    InputError
        If it cannot be read, or is damaged.
    """
    name = name_of(path)
    try:
        if os.fspath(path) == STANDARD_INPUT:
            content = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                content = file.read()
    except OSError as error:
        raise InputError(f"{name}: cannot read: {reason(error)}") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{name!r}: cannot read: {error}") from error
    return _decompress(content, name) if decompress else content


def _decompress(content: bytes, name: str) -> bytes:
    for kind, (magic, decompress) in _DECOMPRESSORS.items():
        if content.startswith(magic):
            try:
                return decompress(content)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise InputError(f"{name}: damaged {kind} file: {error}") from error
    return content
