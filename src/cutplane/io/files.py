"""Files and standard input: read part by part and decompressed, written whole or not at all.

What cannot be read, is damaged or is no text raises `InputError`, what cannot be written
`OutputError`: one line that users can act on.

The kind of compression is read off the first bytes, not off the name, so that a renamed file and
a compressed stream on standard input work alike. A few bytes can decompress to more than the
memory holds, so what comes out is limited to a multiple of what goes in. Files come part by part,
so that a part is all that must be held.

Of a file that is written, a reader sees the old one or the new one; a failure leaves the old one.
After a loss of power there is one of them, too, never a part of one (`cutplane.compute.durable`).
"""

from __future__ import annotations

import bz2
import codecs
import errno
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeAlias

from cutplane.compute import durable


class InputError(ValueError):
    """Something read from a file, or given as an option, cannot be used."""


class OutputError(OSError):
    """A file cannot be written."""


class Wrong(Exception):
    """What is wrong with a line of a file."""


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise InputError if a path is a pipe, a socket or a device: to open one may take for ever.

    A path that nothing can be read from, such as a folder, is left to the code that opens it.
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


STANDARD_INPUT = "-"


class Limits:
    """How much is read at a time, and how much a file may ask for. In bytes, if nothing is said."""

    PART = 2**16
    LARGEST_PART = 2**18  # that one step of a decompressor may make of a part
    # Text becomes 3 to 20 times smaller; only files that are made to do harm, a thousand times.
    LARGEST_RATIO = 100
    ALWAYS_ALLOWED = 256 * 10**6
    XZ_MEMORY = 2**30  # that a file in the xz format may ask for; `xz -9` asks for 65 MiB
    LONGEST_LABEL = 256  # characters: NumPy gives every label of an array the room of the longest
    # The room for labels that are words: some, or what is in proportion to the file.
    LABELS = 10**8
    LABELS_PER_BYTE = 8


# Control characters, separators of lines, and the byte order mark that stands in the middle of
# files that were appended to each other: a label with one of them looks like another label.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class _Gzip:
    """A stream of zlib, which leaves it to others to keep what it could not take yet."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)


_Stream: TypeAlias = _Gzip | bz2.BZ2Decompressor | lzma.LZMADecompressor
_DECOMPRESSORS: dict[str, tuple[bytes, Callable[[], _Stream]]] = {
    "gzip": (b"\x1f\x8b", _Gzip),
    "bzip2": (b"BZh", bz2.BZ2Decompressor),
    "xz": (b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, Limits.XZ_MEMORY)),
}


def name_of(path: str | os.PathLike[str]) -> str:
    """Return what to call ``path`` in messages."""
    name = os.fspath(path)
    return "standard input" if name == STANDARD_INPUT else name


def read_bytes(path: str | os.PathLike[str], *, decompress: bool = True) -> bytes:
    """Return the content of a file, or of standard input for ``-``, decompressed if wanted."""
    if decompress:
        return b"".join(read_parts(path))
    with _opened(path) as file:
        return file.read()


def read_parts(
    path: str | os.PathLike[str], on_part: Callable[[bytes], object] | None = None
) -> Iterator[bytes]:
    """Yield the decompressed content of a file, or of standard input for ``-``, part by part.

    ``on_part`` is called with each part of the file as it is stored.
    """
    with _opened(path) as file:

        def stored() -> Iterator[bytes]:
            while part := file.read(Limits.PART):
                if on_part is not None:
                    on_part(part)
                yield part

        raw = stored()
        first = next(raw, b"")
        raw = chain([first], raw)
        for kind, (magic, start) in _DECOMPRESSORS.items():
            if first.startswith(magic):
                try:
                    n_bytes = os.fstat(file.fileno()).st_size
                except OSError:
                    n_bytes = 0  # not known
                yield from _decompressed(raw, kind, start, name_of(path), n_bytes)
                return
        yield from raw


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file, or standard input, and say of errors which file they are about."""
    name = name_of(path)
    try:
        if os.fspath(path) == STANDARD_INPUT:
            yield sys.stdin.buffer
        else:
            with open(path, "rb") as file:
                yield file
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{name}: cannot read: {reason(error)}") from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{name!r}: cannot read: {error}") from error


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the decompressed content of a file in UTF-8, without a byte order mark."""
    return text_of(read_bytes(path), name_of(path))


def text_of(content: bytes, name: str) -> str:
    """Return the content of the file ``name``, in UTF-8, without a byte order mark."""
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\0" in content:
        raise InputError(f"{name}: not a text file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{line}: not UTF-8 text") from None


def shown(word: bytes | str | float) -> str:
    """Return a word as it may be printed: quoted, on one line, not too long."""
    if isinstance(word, bytes):
        word = word[:400].decode(errors="backslashreplace")
    elif isinstance(word, float):  # a label that is a number
        word = f"{word:.17g}"
    quoted = repr(str(word)[:400])
    return quoted if len(quoted) <= 40 else f"{quoted[:36]}...'"


def reads_as_number(text: str) -> bool:
    """Say whether a text is a number to Python."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def counted(number: int, thing: str) -> str:
    """Return how many things there are, in words."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def what_is_wrong_with_label(word: str) -> str | None:
    """Return what is wrong with a label, in words that follow "label ..."; None if it is good."""
    if len(word) > Limits.LONGEST_LABEL:
        return f"has {len(word):,} characters; {Limits.LONGEST_LABEL} are allowed"
    if found := _INVISIBLE.search(word):
        return f"has the invisible character U+{ord(found[0]):04X}"
    return None


def require_room_for_labels(place: str, length: int, n_labels: int, n_bytes: int) -> None:
    """Refuse so many labels, the longest of this length, if they outgrow their file."""
    needed = 4 * length * n_labels
    if needed > max(Limits.LABELS, Limits.LABELS_PER_BYTE * n_bytes):
        raise InputError(
            f"{place}: a label of {length} characters; with as much room for the "
            f"label of each of {n_labels:,} lines, they would take "
            f"{needed / 1e6:,.0f} MB; use shorter labels"
        )


def _decompressed(
    raw: Iterator[bytes], kind: str, start: Callable[[], _Stream], name: str, n_bytes: int
) -> Iterator[bytes]:
    """Yield what a compressed file of ``n_bytes`` (or more, if not known) contains, part by part.

    Parts are held back while they are suspiciously many, until they are known to be within the
    limit: nothing should be made of a file that will be refused for its size.
    """
    held: list[bytes] = []
    taken = made = 0
    try:
        for step, part in _steps(raw, start):
            taken += step
            made += len(part)
            size = max(n_bytes, taken)
            limit = max(Limits.ALWAYS_ALLOWED, Limits.LARGEST_RATIO * size)
            if made > limit:
                raise InputError(
                    f"{name}: decompresses to more than {limit // 10**6:,} MB, which is suspicious "
                    f"for a file of {size:,} bytes; if it is right, decompress it first"
                )
            held.append(part)
            if made <= Limits.LARGEST_RATIO * taken:
                yield from held
                held.clear()
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # it is the system's; those of bz2 have no number
        raise InputError(f"{name}: damaged {kind} file: {error}") from error
    yield from held


def _steps(raw: Iterator[bytes], start: Callable[[], _Stream]) -> Iterator[tuple[int, bytes]]:
    """Decompress all streams, between which there may be zeros, but nothing else.

    Yields how many bytes were read for a step, and what it made. The functions of the libraries
    that do this ignore what they do not understand behind the first stream, and so lose data when a
    second one is damaged.
    """
    stream: _Stream | None = start()
    for data in raw:
        taken = len(data)
        while True:
            if stream is None:
                data = data.lstrip(b"\0")
                if not data:
                    break
                stream = start()
            yield taken, stream.decompress(data, Limits.LARGEST_PART)
            taken = 0
            if stream.eof:
                data, stream = stream.unused_data, None
            elif stream.needs_input:
                break
            else:
                data = b""
    if stream is not None:
        raise EOFError("it ends too early")


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path``, all of it or nothing.

    Raises
    ------
    OutputError
        If it cannot be written. The target is as it was, and no other file is left behind.
    """
    with _written(path) as target:
        if _is_device(target):
            target.write_bytes(content)
        else:
            durable.replace(target, content)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out before a long computation whether its result can be written to ``path``.

    Raises
    ------
    OutputError
        If `write_atomically` would fail, as far as can be known now.
    """
    with _written(path) as target:
        if not _is_device(target):
            trial = durable.temporary_name(target)
            try:
                trial.touch(exist_ok=False)
            finally:  # Ctrl-C too must not leave it
                trial.unlink(missing_ok=True)


@contextmanager
def _written(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield what a path leads to, and say of errors that it cannot be written."""
    try:
        target = Path(path).resolve()  # the file that a link points to, not the link
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        yield target
    except OSError as error:
        raise OutputError(f"{os.fspath(path)}: cannot write: {reason(error)}") from error


def _is_device(target: Path) -> bool:
    """Whether the target is a terminal, a pipe or the like, not to be replaced by a file."""
    return target.exists() and not target.is_file() and not target.is_dir()
