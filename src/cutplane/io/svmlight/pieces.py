"""Files in the svmlight format, piece by piece, on several threads.

    file -> parts, decompressed -> chunks, cut at the ends of lines -> pieces, checked, in order

The memory needed does not depend on the size of the file, but it does on its longest line.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Callable, Iterator
from itertools import chain, islice

from cutplane.compute.threads import map_blocks
from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_parts
from cutplane.io.svmlight.chunks import Fault, Piece, read_chunk
from cutplane.io.svmlight.lines import Rules, show

# Bytes of a chunk: with its arrays no more than a core's cache holds. And how many are read before
# threads share them.
_CHUNK = 2**18
_CHUNKS_AT_ONCE = 16


def read_pieces(
    path: str | os.PathLike[str],
    rules: Rules,
    *,
    on_part: Callable[[bytes], object] | None = None,
) -> Iterator[Piece]:
    """Yield the rows of a file in order, in pieces without a fault.

    ``on_part`` is called with each part of the file as it is stored, before it is decompressed.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``. Whatever is wrong with the
        file as a whole (damage, a NUL, no query anywhere) is said rather than what is wrong with a
        line: it is the reason for that.
    """
    name, chunks = name_of(path), _chunks(path, on_part)
    known = _Known()
    has_query = not rules.queries
    while batch := list(islice(chunks, _CHUNKS_AT_ONCE)):
        has_query = has_query or any(b"qid:" in chunk for chunk in batch)
        for chunk, piece in zip(batch, _read_all(batch, rules), strict=True):
            if fault := known.fault_of(chunk, piece):
                has_query = any([has_query, *(b"qid:" in rest for rest in chunks)])
                if not has_query:
                    raise InputError(f"{name}: no line has a query (qid:number after the label)")
                raise InputError(f"{name}:{fault.line}: {fault.what}")
            yield known.add(chunk, piece)


def _read_all(chunks: list[bytes], rules: Rules) -> Iterator[Piece]:
    def read(some: slice) -> list[Piece]:
        return [read_chunk(chunk, rules) for chunk in chunks[some]]

    return chain.from_iterable(map_blocks(read, len(chunks), width=_CHUNK))


def _chunks(
    path: str | os.PathLike[str], on_part: Callable[[bytes], object] | None
) -> Iterator[bytes]:
    """Yield the text of a file, without a byte order mark, in chunks that end with a newline."""
    for number, chunk in enumerate(_cut_at_lines(read_parts(path, on_part))):
        if b"\0" in chunk:
            raise InputError(f"{name_of(path)}: not a text file")
        yield chunk if number else chunk.removeprefix(codecs.BOM_UTF8)


def _cut_at_lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join parts to chunks of whole lines; the last one gets a newline that need not be there."""
    kept: list[bytes] = []
    size = 0
    for part in parts:
        size += len(part)
        cut = part.rfind(b"\n") + 1
        if cut and size >= _CHUNK:
            yield b"".join([*kept, part[:cut]])
            kept, size = [part[cut:]], len(part) - cut
        else:
            kept.append(part)
    yield b"".join([*kept, b"\n"])


class _Known:
    """What is known of a file after some of its pieces."""

    def __init__(self) -> None:
        self._n_lines = 0
        self._words = False
        self._first_label = ""

    def fault_of(self, chunk: bytes, piece: Piece) -> Fault | None:
        """Return what is wrong with the next piece, or with the line after it."""
        fault = piece.fault
        if len(piece.labels):
            words = isinstance(piece.labels, list)
            if not self._first_label:
                token, line = _label_from(chunk, 1)
                self._words = words
                self._first_label = f"{show(token)} in line {self._n_lines + line}"
            elif words != self._words:
                fault = Fault(1, None)
        if fault is None or fault.what is not None:
            return fault and Fault(self._n_lines + fault.line, fault.what)
        token, line = _label_from(chunk, fault.line)
        mixed = f"label {show(token)} after {self._first_label}: numbers and words mixed"
        return Fault(self._n_lines + line, mixed)

    def add(self, chunk: bytes, piece: Piece) -> Piece:
        """Return a piece without fault, with lines counted from the beginning of the file."""
        length, line = piece.longest
        piece = piece._replace(longest=(length, self._n_lines + line))
        self._n_lines += chunk.count(b"\n")
        return piece


def _label_from(text: bytes, line: int) -> tuple[bytes, int]:
    """Return the first label from a line on, and its line."""
    lines = enumerate(io.BytesIO(text), start=1)
    return next(
        (tokens[0], number)
        for number, content in islice(lines, line - 1, None)
        if (tokens := content.partition(b"#")[0].split(None, 1))
    )
