"""The lines of a text in the svmlight format as arrays: plain ones quickly, others one by one.

`svmlight_kernels` reads lines up to one that is not plain. That one is read by `svmlight_lines`,
which knows all rules, and the kernel goes on behind it.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.io.svmlight.kernels import parse_plain_lines
from cutplane.io.svmlight.lines import Line, Rules, Wrong, read_line, word_of

# The shortest entry is " 1:1", the shortest line with a label "1\n".
_LEAST_BYTES_OF_ENTRY, _LEAST_BYTES_OF_ROW = 4, 2
# Numbers that Python reads before the kernel must return. Only those of more than 19 digits can
# be hard, and of these less than one in a hundred is, unless they are made to be.
_MOST_HARD = 1024
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
        rows.labels.resize(rows.n_rows, refcheck=False)
        return rows.piece(rows.labels)._replace(fault=fault)
    places = rows.label_places[: rows.n_rows].tolist()
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
        most_rows = min(text.count(b"\n"), len(text) // _LEAST_BYTES_OF_ROW)
        most_entries = len(text) // _LEAST_BYTES_OF_ENTRY
        self.n_rows = self.n_entries = 0
        self.words = False
        self.labels = np.empty(most_rows)
        self.label_places = np.empty((0, 2), np.int64)
        self._values = np.empty(most_entries)
        self._indices = np.empty(most_entries, np.int32)
        self._indptr = np.empty(most_rows + 1, np.int64)
        self._indptr[0] = 0
        self._qid = np.empty(most_rows if rules.queries else 0, np.int64)
        self._hard = np.empty((_MOST_HARD, 3), np.int64)
        self._text, self._bytes, self._rules = text, np.frombuffer(text, np.uint8), rules

    def fill_from(self, place: int) -> int:
        """Read plain lines from a place on, and return the place of the first that is not."""
        place, self.n_rows, self.n_entries, n_hard = parse_plain_lines(
            self._bytes,
            place,
            self.n_rows,
            self.n_entries,
            self._rules.largest_index,
            self.words,
            self._rules.queries,
            self._values,
            self._indices,
            self._indptr,
            self.labels,
            self.label_places,
            self._qid,
            self._hard,
        )
        for entry, begin, end in self._hard[:n_hard].tolist():
            self._values[entry] = float(self._text[begin:end])
        return place

    def append(self, line: Line, place: int) -> bool:
        """Append a line with its label at a place, if labels before it are of the same kind."""
        row, entries = self.n_rows, slice(self.n_entries, self.n_entries + len(line.values))
        if row == 0 and line.is_word:
            self.words, self.label_places = True, np.empty((len(self.labels), 2), np.int64)
        if self.words != line.is_word:
            return False
        if line.is_word:
            self.label_places[row] = place, place + len(line.token)
        else:
            self.labels[row] = float(line.token)
        if self._rules.queries:
            self._qid[row] = line.query
        self._values[entries] = line.values
        self._indices[entries] = np.array(line.indices, np.int32) - 1
        self._indptr[row + 1] = entries.stop
        self.n_rows, self.n_entries = row + 1, entries.stop
        return True

    def piece(self, labels: NDArray[np.float64] | list[str]) -> Piece:
        """Return the rows, as many as there are labels, in arrays without room for more."""
        n_rows = len(labels)
        n_entries = self._indptr[n_rows]
        self._values.resize(n_entries, refcheck=False)
        self._indices.resize(n_entries, refcheck=False)
        self._indptr.resize(n_rows + 1, refcheck=False)
        self._qid.resize(n_rows, refcheck=False)
        qid = self._qid if self._rules.queries else None
        return Piece(self._values, self._indices, self._indptr, labels, qid, len(self._text))
