"""Read data in the svmlight (LIBSVM) format.

A line is ``label qid:number index:value index:value ... # comment``. These decisions make a file
mean the same wherever it is read:

- Indices start at 1, as svmlight defines them: index ``i`` is column ``i - 1`` in every file. A
  guess from the smallest index of each file would shift columns between training and test data.
- Indices increase along a line; a zero may be left out.
- Numbers are decimal: digits, with or without sign, point and exponent (``-1``, ``.5``, ``2e-3``),
  and finite. Python's ``1_0`` is none.
- Labels are numbers, or words (for classification), but not both in one file.

Ranking's query is read where it is asked for, else checked and ignored. Tokens are separated by
the white space of ASCII, lines by newlines. scikit-learn reads more than this (``qidfoo:9`` as a
query, ``1_0`` as 10), and does not say where a file is wrong.

A file is read in pieces, on several threads:

    file -> parts, decompressed -> chunks, cut at the ends of lines -> pieces, checked, in order

The memory needed does not depend on the size of the file, but it does on its longest line. Of a
chunk, the compiled loops of `cutplane.io.parsing` read lines up to one that is not plain. That one
is read by `read_line`, which knows all rules and follows them slowly, and the loops go on behind
it.
"""

from __future__ import annotations

import codecs
import io
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.threads import map_blocks
from cutplane.io.files import (
    InputError,
    Wrong,
    name_of,
    read_parts,
    require_room_for_labels,
    shown,
    what_is_wrong_with_label,
)
from cutplane.io.parsing import DECIMAL, Arrays, parse_plain_lines

LARGEST_INDEX = np.iinfo(np.int32).max
LARGEST_QUERY = np.iinfo(np.int64).max

_WHOLE = rb"[+-]?[0-9]++"
_IS_WHOLE, _IS_DECIMAL = re.compile(_WHOLE), re.compile(DECIMAL.encode())
_IS_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True)
class Rules:
    """What is asked of a file: see `read_svmlight`."""

    n_features: int | None = None
    queries: bool = False
    labels: bool = True
    label_sets: bool = False

    # A model has a number for every feature up to the largest index, even if they are all zero.
    MOST_UNASKED: ClassVar = 10**8

    @property
    def largest_index(self) -> int:
        """The largest index that is allowed."""
        asked = self.MOST_UNASKED if self.n_features is None else self.n_features
        return min(asked, LARGEST_INDEX)


class Line(NamedTuple):
    """What a line says: the text of its label, and more. A query of 0 may stand for none."""

    token: bytes
    is_word: bool
    query: int
    indices: list[int]
    values: list[float]


def word_of(token: bytes) -> str | None:
    """Return a label if it is a word, None if it is a number."""
    if b":" in token:
        raise Wrong(f"the label is missing (the line starts with {shown(token)})")
    if b"," in token:
        raise Wrong(f"label {shown(token)}: several labels in a line are not supported")
    if _is_number(token, f"label {shown(token)}"):
        return None
    try:
        word = token.decode()
    except UnicodeDecodeError:
        raise Wrong(f"label {shown(token)} is neither a number nor UTF-8 text") from None
    if wrong := what_is_wrong_with_label(word):
        raise Wrong(f"label {shown(token)} {wrong}")
    return word


def read_line(line: bytes, rules: Rules) -> Line | None:
    """Return what a line says, None if it is empty, or raise what is wrong with it.

    What depends on other lines, the kind of labels, is not looked at.
    """
    content, sign, _ = line.partition(b"#")
    tokens = content.split()
    if not tokens:
        return None
    token, *features = tokens
    word = word_of(token)
    if word is not None and sign and len(tokens) == 1 and content.endswith(token):
        raise Wrong(f"label {shown(token)}: white space is missing before the #")
    query = 0
    if features and features[0].startswith(b"qid:"):
        query = _whole_number(features[0].removeprefix(b"qid:"), "query", LARGEST_QUERY)
        features = features[1:]
    elif rules.queries:
        raise Wrong("no query (qid:number after the label)")
    indices: list[int] = []
    values: list[float] = []
    for feature in features:
        index, value = _read_feature(feature, indices[-1] if indices else 0, rules)
        indices.append(index)
        values.append(value)
    return Line(token, word is not None, query, indices, values)


def _read_feature(token: bytes, previous: int, rules: Rules) -> tuple[int, float]:
    """Return index and value of a feature that may follow index ``previous``."""
    before, colon, after = token.partition(b":")
    if not colon:
        raise Wrong(f"{shown(token)} is not of the form index:value")
    index = _whole_number(before, "feature index", LARGEST_INDEX)
    if index < 1:
        hint = " (in scikit-learn, write with zero_based=False)" if index == 0 else ""
        raise Wrong(f"feature index {index}: indices start at 1{hint}")
    if index <= previous:
        raise Wrong(f"feature index {index} follows {previous}: indices must increase")
    if rules.n_features is not None and index > rules.n_features:
        raise Wrong(f"feature index {index} is beyond the {rules.n_features} features expected")
    if index > rules.largest_index:
        raise Wrong(
            f"feature index {index} is beyond {rules.MOST_UNASKED:,}; if it is right, give the "
            "number of features (--features, or n_features in Python)"
        )
    value = f"value {shown(after)} of feature {index}"
    if not _is_number(after, value):
        raise Wrong(f"{value} is not a number")
    return index, float(after)


def _is_number(token: bytes, what: str) -> bool:
    """Whether a token is a number, which must be finite."""
    is_decimal = _IS_DECIMAL.fullmatch(token) is not None
    if _IS_NOT_FINITE.fullmatch(token) or (is_decimal and not math.isfinite(float(token))):
        raise Wrong(f"{what} is not finite")
    return is_decimal


def _whole_number(token: bytes, what: str, largest: int) -> int:
    """Return a whole number that is not larger in size than the largest one."""
    if not _IS_WHOLE.fullmatch(token):
        raise Wrong(f"{what} {shown(token)} is not a whole number")
    # Python refuses to read thousands of digits, even if they are zeros.
    if len(token) > 100 or abs(int(token)) > largest:
        raise Wrong(f"{what} {shown(token)[1:-1]} is too large")
    return int(token)


class Sizes:
    """How much is read at a time."""

    CHUNK = 2**18  # bytes: with its arrays no more than a core's cache holds
    CHUNKS_AT_ONCE = 16  # are read before threads share them
    # Numbers that Python reads before the kernel must return. Only those of more than 19 digits can
    # be hard, and of these less than one in a hundred is, unless they are made to be.
    HARD = 1024


# A line that begins with a feature, or a query, in place of a label.
_LABELS = re.compile(rb"^[ \t]*([^\s#:;=]+)(?=\s)", re.MULTILINE)
_NO_LABEL = re.compile(rb"^[ \t]*(?=[^\s#:]+:)", re.MULTILINE)


class Fault(NamedTuple):
    """A line that is wrong, counted from 1, and what is wrong with it.

    None stands for a label of another kind than those before it, numbers or words.
    """

    line: int
    what: str | None


class Piece(NamedTuple):
    """Consecutive rows of a file.

    Attributes
    ----------
    values : ndarray of float64, shape (n_entries,)
    indices : ndarray of int32, shape (n_entries,)
        Indices of columns, from 0 on.
    indptr : ndarray of int64, shape (n_rows + 1,)
        Row ``i`` has the entries from ``indptr[i]`` to ``indptr[i + 1]``.
    labels : ndarray of float64, or list of str, of length n_rows
    qid : ndarray of int64, shape (n_rows,), or None
        Queries, if they are asked for.
    n_bytes : int
        How long the text is that they are made of.
    longest : (int, int)
        How many characters the longest label that is a word has, and its line.
    fault : Fault or None
        What ends the piece before the text ends.
    """

    values: NDArray[np.float64]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    labels: NDArray[np.float64] | list[str]
    qid: NDArray[np.int64] | None
    n_bytes: int
    longest: tuple[int, int] = (0, 0)
    fault: Fault | None = None


def read_chunk(text: bytes, rules: Rules) -> Piece:
    """Return what a text says, which ends with a newline, up to a line that is wrong."""
    if rules.label_sets:
        text = _LABELS.sub(lambda found: b"=" + found[1].replace(b",", b";"), text)
        text = _NO_LABEL.sub(b"= ", text)
    elif not rules.labels:
        text = _NO_LABEL.sub(b"0 ", text)
    rows = _Rows(text, rules)
    place, fault = 0, None
    while (place := rows.fill_from(place)) < len(text):
        end = text.index(b"\n", place) + 1
        try:
            line = read_line(text[place:end], rules)
        except Wrong as wrong:
            fault = Fault(_line_at(text, place), str(wrong))
            break
        if line is not None and not rows.append(line, text.index(line.token, place)):
            fault = Fault(_line_at(text, place), None)
            break
        place = end
    if not rows.words:
        labels = rows.arrays.labels
        labels.resize(rows.n_rows, refcheck=False)
        return rows.piece(labels)._replace(fault=fault)
    places = rows.arrays.label_places[: rows.n_rows].tolist()
    words, earlier = _decode(text, places)
    length, (begin, _) = max(
        zip(map(len, words), places, strict=False), key=itemgetter(0), default=(0, [0, 0])
    )
    longest = length, _line_at(text, begin)
    return rows.piece(words)._replace(longest=longest, fault=earlier or fault)


def _decode(text: bytes, places: list[list[int]]) -> tuple[list[str], Fault | None]:
    """Return the words at these places, up to one that is none."""
    words: list[str] = []
    known: dict[bytes, str] = {}
    for begin, end in places:
        token = text[begin:end]
        if token not in known:
            try:
                word = word_of(token)
            except Wrong as wrong:
                return words, Fault(_line_at(text, begin), str(wrong))
            if word is None:
                return words, Fault(_line_at(text, begin), None)
            known[token] = word
        words.append(known[token])
    return words, None


def _line_at(text: bytes, place: int) -> int:
    return text.count(b"\n", 0, place) + 1


class _Rows:
    """The arrays that are filled from a text, and how far that has come."""

    def __init__(self, text: bytes, rules: Rules) -> None:
        # The shortest line with a label is "1\n", the shortest entry " 1:1".
        most_rows, most_entries = min(text.count(b"\n"), len(text) // 2), len(text) // 4
        self.n_rows = self.n_entries = 0
        self.words = False
        self.arrays = Arrays(
            values=np.empty(most_entries),
            indices=np.empty(most_entries, np.int32),
            indptr=np.zeros(most_rows + 1, np.int64),
            labels=np.empty(most_rows),
            label_places=np.empty((0, 2), np.int64),
            qid=np.empty(most_rows if rules.queries else 0, np.int64),
            hard=np.empty((Sizes.HARD, 3), np.int64),
        )
        self._text, self._bytes, self._rules = text, np.frombuffer(text, np.uint8), rules

    def fill_from(self, place: int) -> int:
        """Read plain lines from a place on, and return the place of the first that is not."""
        largest, queries = self._rules.largest_index, self._rules.queries
        at = place, self.n_rows, self.n_entries
        place, self.n_rows, self.n_entries, n_hard = parse_plain_lines(
            self._bytes, at, largest, self.words, queries, self.arrays
        )
        for entry, begin, end in self.arrays.hard[:n_hard].tolist():
            self.arrays.values[entry] = float(self._text[begin:end])
        return place

    def append(self, line: Line, place: int) -> bool:
        """Append a line with its label at a place, if labels before it are of the same kind."""
        row, entries = self.n_rows, slice(self.n_entries, self.n_entries + len(line.values))
        if row == 0 and line.is_word:
            self.words = True
            places = np.empty((len(self.arrays.labels), 2), np.int64)
            self.arrays = self.arrays._replace(label_places=places)
        if self.words != line.is_word:
            return False
        if line.is_word:
            self.arrays.label_places[row] = place, place + len(line.token)
        else:
            self.arrays.labels[row] = float(line.token)
        if self._rules.queries:
            self.arrays.qid[row] = line.query
        self.arrays.values[entries] = line.values
        self.arrays.indices[entries] = np.array(line.indices, np.int32) - 1
        self.arrays.indptr[row + 1] = entries.stop
        self.n_rows, self.n_entries = row + 1, entries.stop
        return True

    def piece(self, labels: NDArray[np.float64] | list[str]) -> Piece:
        """Return the rows, as many as there are labels, in arrays without room for more."""
        arrays, n_rows = self.arrays, len(labels)
        n_entries = arrays.indptr[n_rows]
        sizes = {"values": n_entries, "indices": n_entries, "indptr": n_rows + 1, "qid": n_rows}
        for name, size in sizes.items():
            getattr(arrays, name).resize(size, refcheck=False)
        qid = arrays.qid if self._rules.queries else None
        return Piece(*arrays[:3], labels, qid, len(self._text))


def read_pieces(
    path: str | os.PathLike[str], rules: Rules, *, on_part: Callable[[bytes], object] | None = None
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
    n_lines, first_label, words = 0, "", False
    has_query = not rules.queries
    while batch := list(islice(chunks, Sizes.CHUNKS_AT_ONCE)):
        has_query = has_query or any(b"qid:" in chunk for chunk in batch)
        for chunk, piece in zip(batch, _read_all(batch, rules), strict=True):
            fault, are_words = piece.fault, isinstance(piece.labels, list)
            if len(piece.labels) and not first_label:
                token, line = _label_from(chunk, 1)
                first_label, words = f"{shown(token)} in line {n_lines + line}", are_words
            elif len(piece.labels) and are_words != words:
                fault = Fault(1, None)
            if fault is None:
                length, line = piece.longest
                yield piece._replace(longest=(length, n_lines + line))
                n_lines += chunk.count(b"\n")
                continue
            line, what = fault
            if what is None:
                token, line = _label_from(chunk, line)
                what = f"label {shown(token)} after {first_label}: numbers and words mixed"
            # All of them, so that whatever is wrong with the file as a whole is said.
            has_query = any([has_query, *(b"qid:" in rest for rest in chunks)])
            if not has_query:
                raise InputError(f"{name}: no line has a query (qid:number after the label)")
            raise InputError(f"{name}:{n_lines + line}: {what}")


def _read_all(chunks: list[bytes], rules: Rules) -> Iterator[Piece]:
    def read(some: slice) -> list[Piece]:
        return [read_chunk(chunk, rules) for chunk in chunks[some]]

    return chain.from_iterable(map_blocks(read, len(chunks), width=Sizes.CHUNK))


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
        if cut and size >= Sizes.CHUNK:
            yield b"".join([*kept, part[:cut]])
            kept, size = [part[cut:]], len(part) - cut
        else:
            kept.append(part)
    yield b"".join([*kept, b"\n"])


def _label_from(text: bytes, line: int) -> tuple[bytes, int]:
    """Return the first label from a line on, and its line."""
    lines = enumerate(io.BytesIO(text), start=1)
    return next(
        (tokens[0], number)
        for number, content in islice(lines, line - 1, None)
        if (tokens := content.partition(b"#")[0].split(None, 1))
    )


Number = TypeVar("Number", bound=np.generic)


class SvmlightData(NamedTuple):
    """A data set.

    Attributes
    ----------
    X : scipy.sparse.csr_matrix, shape (n_samples, n_features)
        The features, float64.
    y : ndarray, shape (n_samples,)
        The labels: float64, or str when the file's labels are words.
    qid : ndarray, shape (n_samples,), or None
        The query of each line, int64, if it was asked for.
    """

    X: Any
    y: NDArray[Any]
    qid: NDArray[np.int64] | None = None


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    queries: bool = False,
    labels: bool = True,
    label_sets: bool = False,
) -> SvmlightData:
    """Read a data set in the svmlight format, plain or compressed (gzip, bzip2, xz).

    Parameters
    ----------
    path : str or path
        The file; ``-`` is standard input.
    n_features : int, optional
        Number of columns of ``X``. By default the largest index in the file, which must then not
        be beyond 100,000,000.
    queries : bool
        Whether every line must have a query, ``qid:number`` after the label.
    labels : bool
        Whether every line must have a label. If not, a line may begin with its features, and its
        label is 0.
    label_sets : bool
        Whether a line may have several labels, ``1,3``, or none: each is then a word, ``=`` and
        the labels with semicolons between them.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    # Imported here because it takes longer than all of cutplane's own modules.
    from scipy.sparse import csr_matrix

    name = name_of(path)
    values, indices, indptr = _Growing(np.float64), _Growing(np.int32), _Growing(np.int64)
    numbers, qid = _Growing(np.float64), _Growing(np.int64)
    words, longest = list[str](), (0, 0)  # characters, line
    n_columns = n_bytes = 0
    indptr.append(np.zeros(1, np.int64))
    for piece in read_pieces(path, Rules(n_features, queries, labels, label_sets)):
        indptr.append(piece.indptr[1:] + values.size)
        values.append(piece.values)
        indices.append(piece.indices)
        n_columns = max(n_columns, int(piece.indices.max(initial=-1)) + 1)
        n_bytes += piece.n_bytes
        if isinstance(piece.labels, list):
            words += piece.labels
            longest = max(longest, piece.longest, key=itemgetter(0))  # the first of equal ones
        else:
            numbers.append(piece.labels)
        if piece.qid is not None:
            qid.append(piece.qid)
    if indptr.size == 1:
        raise InputError(f"{name}: no data in the file")
    if values.size == 0 and n_features is None:
        raise InputError(f"{name}: no line has a feature (index:value)")
    require_room_for_labels(f"{name}:{longest[1]}", longest[0], len(words), n_bytes)
    y = np.array(words) if words else numbers.as_array()
    index = np.int32 if values.size <= LARGEST_INDEX else np.int64
    parts = (
        values.as_array(),
        indices.as_array().astype(index, copy=False),
        indptr.as_array().astype(index, copy=False),
    )
    shape = (len(y), n_columns if n_features is None else n_features)
    return SvmlightData(csr_matrix(parts, shape=shape), y, qid.as_array() if queries else None)


class _Growing(Generic[Number]):
    """An array that others are appended to.

    It is enlarged in place, a quarter at a time: large ones are not copied for that where the
    system can move pages, and never is there room for two of them.
    """

    def __init__(self, kind: type[Number]) -> None:
        self.size = 0
        self._array = np.empty(0, kind)

    def append(self, part: NDArray[Number]) -> None:
        """Append an array."""
        size = self.size + len(part)
        if size > len(self._array):
            self._array.resize(max(size, len(self._array) * 5 // 4), refcheck=False)
        self._array[self.size : size] = part
        self.size = size

    def as_array(self) -> NDArray[Number]:
        """Return what was appended, in an array without room for more; the last use of this."""
        self._array.resize(self.size, refcheck=False)
        return self._array
