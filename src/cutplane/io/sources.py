"""Bytes and text from a file or from standard input, decompressed on the way.

The kind of compression is read off the first bytes, not off the name, so that a renamed file and
a compressed stream on standard input work alike. A few bytes can decompress to more than the
memory holds, so what comes out is limited to a multiple of what goes in. What cannot be read, is
damaged or is no text raises `InputError`.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable
from typing import Protocol

from cutplane.io.errors import InputError, reason

STANDARD_INPUT = "-"

# Text becomes 3 to 20 times smaller; only files that are made to do harm, a thousand times.
_LARGEST_RATIO = 100
_ALWAYS_ALLOWED = 256 * 10**6
# Memory that a file in the xz format may ask for; `xz -9` asks for 65 MiB.
_XZ_MEMORY = 2**30
_CHUNK = 2**20
# In characters. NumPy gives every label of an array the room of the longest.
_LONGEST_LABEL = 256
# The room for labels that are words: some, or what is in proportion to the file.
_LABEL_BYTES = 10**8
_LABEL_BYTES_PER_BYTE = 8

# Control characters, separators of lines, and the byte order mark that stands in the middle of
# files that were appended to each other: a label with one of them looks like another label.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_PADDING = re.compile(rb"\0*")


class _Stream(Protocol):
    """What the three libraries have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


_DECOMPRESSORS: dict[str, tuple[bytes, Callable[[], _Stream]]] = {
    "gzip": (b"\x1f\x8b", lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)),
    "bzip2": (b"BZh", bz2.BZ2Decompressor),
    "xz": (b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)),
}


def name_of(path: str | os.PathLike[str]) -> str:
    """Return what to call ``path`` in messages."""
    name = os.fspath(path)
    return "standard input" if name == STANDARD_INPUT else name


def read_bytes(path: str | os.PathLike[str], *, decompress: bool = True) -> bytes:
    """Return the content of a file, or of standard input for ``-``, decompressed if wanted."""
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


def read_text_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the decompressed content of a file of text, without a byte order mark."""
    content = read_bytes(path).removeprefix(codecs.BOM_UTF8)
    if b"\0" in content:
        raise InputError(f"{name_of(path)}: not a text file")
    return content


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the decompressed content of a file in UTF-8, without a byte order mark."""
    content = read_text_bytes(path)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name_of(path)}:{line}: not UTF-8 text") from None


def what_is_wrong_with_label(word: str) -> str | None:
    """Return what is wrong with a label, in words that follow "label ..."; None if it is good."""
    if len(word) > _LONGEST_LABEL:
        return f"has {len(word):,} characters; {_LONGEST_LABEL} are allowed"
    if found := _INVISIBLE.search(word):
        return f"has the invisible character U+{ord(found[0]):04X}"
    return None


def require_room_for_labels(place: str, length: int, n_labels: int, n_bytes: int) -> None:
    """Refuse so many labels, the longest of this length, if they outgrow their file."""
    needed = 4 * length * n_labels
    if needed > max(_LABEL_BYTES, _LABEL_BYTES_PER_BYTE * n_bytes):
        raise InputError(
            f"{place}: a label of {length} characters; with as much room for the "
            f"label of each of {n_labels:,} lines, they would take "
            f"{needed / 1e6:,.0f} MB; use shorter labels"
        )


def _decompress(content: bytes, name: str) -> bytes:
    for kind, (magic, start) in _DECOMPRESSORS.items():
        if content.startswith(magic):
            try:
                return _streams(content, start, name)
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                raise InputError(f"{name}: damaged {kind} file: {error}") from error
    return content


def _streams(content: bytes, start: Callable[[], _Stream], name: str) -> bytes:
    """Decompress all streams in ``content``, between which there may be zeros, but nothing else.

    The functions of the libraries that do this ignore what they do not understand behind the first
    stream, and so lose data when a second one is damaged.
    """
    limit = max(_ALWAYS_ALLOWED, _LARGEST_RATIO * len(content))
    parts, size, position = [], 0, 0
    while position < len(content):
        stream = start()
        while not stream.eof:
            if position >= len(content):
                raise EOFError("it ends too early")
            chunk = content[position : position + _CHUNK]
            part = stream.decompress(chunk, limit - size + 1)
            position += len(chunk)
            size += len(part)
            if size > limit:
                raise InputError(
                    f"{name}: decompresses to more than {limit // 10**6:,} MB, which is suspicious "
                    f"for a file of {len(content):,} bytes; if it is right, decompress it first"
                )
            parts.append(part)
        position -= len(stream.unused_data)
        position = _PADDING.match(content, position).end()  # type: ignore[union-attr]
    return b"".join(parts)
