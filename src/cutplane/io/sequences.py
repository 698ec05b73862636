"""Sequences in text files: of tokens in columns (CoNLL), and of vectors.

Tokens, as in the CoNLL shared tasks: a token is a line, its columns are separated by tabs if the
first line has one, else by spaces and tabs. A line that is empty, or has only spaces and tabs, ends
a sequence. All lines have as many columns as the first. Other white space, such as a space that
does not break, is part of a word.

Vectors, such as frames of sound or points of a pen: a frame is a line, its label, then its numbers.
Columns are separated by commas if the first line has one, else by spaces and tabs; sequences are
separated, and lines are as long, as those of tokens. Numbers are decimal and finite, as in the
svmlight format; labels are numbers or words, but not both in one file. Where the number of features
is known, a file may do without the column of labels.
"""

from __future__ import annotations

import math
import os
import re
from array import array
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.io.files import (
    InputError,
    Wrong,
    counted,
    name_of,
    read_text,
    require_room_for_labels,
    shown,
    what_is_wrong_with_label,
)
from cutplane.io.parsing import DECIMAL

Token: TypeAlias = tuple[str, ...]


class ConllData(NamedTuple):
    """Sequences of tokens.

    Attributes
    ----------
    sequences : list of lists of tuples of str
        The columns of each token of each sequence.
    separator : str
        What stood between columns: a tab or a space.
    """

    sequences: list[list[Token]]
    separator: str

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.sequences[0][0])

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return sum(map(len, self.sequences))

    def split_labels(self) -> tuple[list[list[Token]], list[list[str]]]:
        """Return the tokens without their last column, and the last column."""
        X = [[token[:-1] for token in sequence] for sequence in self.sequences]
        y = [[token[-1] for token in sequence] for sequence in self.sequences]
        return X, y

    def with_column(self, words: list[list[str]]) -> str:
        """Return the text of a file with one more column."""
        join = self.separator.join
        sequences = (
            [*(f"{join((*token, word))}\n" for token, word in zip(*pair, strict=True)), "\n"]
            for pair in zip(self.sequences, words, strict=True)
        )
        return "".join(chain.from_iterable(sequences))


def read_conll(path: str | os.PathLike[str], *, labels: bool = False) -> ConllData:
    """Read sequences from a file of columns, plain or compressed (gzip, bzip2, xz).

    Parameters
    ----------
    path : str or path
        The file, in UTF-8; ``-`` is standard input.
    labels : bool
        Whether the last column must be a label: not empty, without invisible characters, and not
        longer than 256 characters.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    name, text = name_of(path), read_text(path)
    separator = _separator(text, "\t")
    sequences: list[list[Token]] = []
    for number, begins, columns in _lines(text, separator, name):
        if labels:
            label = columns[-1]
            if wrong := what_is_wrong_with_label(label) if label else "is empty":
                raise InputError(f"{name}:{number}: label {label[:36]!r} {wrong}")
        if begins:
            sequences.append([])
        sequences[-1].append(columns)
    return ConllData(sequences, separator)


def _separator(text: str, special: str) -> str:
    """Return what the columns of the first line are separated by: spaces, or something special."""
    first = next((line for line in text.split("\n") if line.strip(" \t\r")), "")
    return special if special in first else " "


def _lines(text: str, separator: str, name: str) -> Iterator[tuple[int, bool, Token]]:
    """Yield the number of each line that is not empty, whether it begins a sequence, its columns.

    These are what is between tabs, between commas, or (``" "``) between spaces and tabs.
    """
    n_columns, begins = 0, True
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip(" \t"):
            begins = True
            continue
        if separator == " ":
            columns = tuple(filter(None, line.replace("\t", " ").split(" ")))
        elif separator == ",":
            columns = tuple(column.strip(" \t") for column in line.split(","))
        else:  # spaces may stand between words of several parts
            columns = tuple(line.split(separator))
        n_columns = n_columns or len(columns)
        if "\r" in line:
            wrong = "a carriage return inside a line; lines end with a newline"
        elif line.startswith("\ufeff"):
            wrong = "a byte order mark inside the file"
        elif len(columns) != n_columns:
            wrong = f"{counted(len(columns), 'column')}, but the first line has {n_columns}"
        else:
            yield number, begins, columns
            begins = False
            continue
        raise InputError(f"{name}:{number}: {wrong}")
    if not n_columns:
        raise InputError(f"{name}: no data in the file")


_DECIMAL = re.compile(DECIMAL)
# Of these characters Python's float can read decimal numbers only.
_DECIMAL_ONLY = re.compile(r"[0-9+\-.eE]*+")


class FrameData(NamedTuple):
    """Sequences of vectors.

    Attributes
    ----------
    X : ndarray of shape (n_frames, n_features)
        The frames of all sequences, one after the other.
    lengths : ndarray of shape (n_sequences,)
        The number of frames of each sequence.
    labels : ndarray of shape (n_frames,), or None
        float64, or str when they are words; None if the file has none.
    lines : ndarray of shape (n_frames,)
        Where each frame stands in the file.
    name : str
        What to call the file in messages.
    """

    X: Matrix
    lengths: NDArray[np.int64]
    labels: Any
    lines: NDArray[np.int64]
    name: str

    @property
    def sequences(self) -> list[Matrix]:
        """The frames of each sequence: views of ``X``."""
        return self.cut(self.X)

    def cut(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return values of all frames, sequence by sequence."""
        return np.split(values, np.cumsum(self.lengths)[:-1])

    def classes(self) -> NDArray[Any]:
        """Return the label of each sequence; InputError if its frames have different ones."""
        begins = np.cumsum(self.lengths) - self.lengths
        classes: NDArray[Any] = self.labels[begins]
        others = np.flatnonzero(self.labels != np.repeat(classes, self.lengths))
        if len(others):
            frame = others[0]
            first = np.searchsorted(begins, frame, side="right") - 1
            raise InputError(
                f"{self.name}:{self.lines[frame]}: label {shown(self.labels[frame])} in a sequence"
                f" that began with {shown(classes[first])} in line {self.lines[begins[first]]}; "
                "all frames of a sequence must have its class"
            )
        return classes


def read_frames(
    path: str | os.PathLike[str], *, n_features: int | None = None, labels: bool = True
) -> FrameData:
    """Read sequences of vectors from a file of columns, plain or compressed (gzip, bzip2, xz).

    Parameters
    ----------
    path : str or path
        The file, in UTF-8; ``-`` is standard input.
    n_features : int, optional
        How many numbers a frame has. By default all columns but the first are numbers.
    labels : bool
        Whether there must be labels. If not, the number of columns tells whether there are.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    name, text = name_of(path), read_text(path)
    values, lines, lengths = array("d"), array("q"), array("q")
    separator, found = _separator(text, ","), _Labels()
    for number, begins, columns in _lines(text, separator, name):
        try:
            if not lines:
                found.there = _has_labels(len(columns), n_features, labels)
            if found.there:
                found.add(columns[0], number, quoted=separator == ",")
            values.extend(_numbers(columns, int(found.there)))
        except Wrong as wrong:
            raise InputError(f"{name}:{number}: {wrong}") from None
        lines.append(number)
        if begins:
            lengths.append(0)
        lengths[-1] += 1
    return FrameData(
        np.array(values).reshape(len(lines), -1),
        np.array(lengths),
        found.as_array(name, len(text)),
        np.array(lines),
        name,
    )


def _has_labels(n_columns: int, n_features: int | None, needed: bool) -> bool:
    """Return whether lines with so many columns begin with a label."""
    if n_features is None:
        if n_columns < 2:
            raise Wrong("one column only; the first is the label, others are numbers")
        return True
    if n_columns == n_features + 1:
        return True
    if n_columns == n_features and not needed:
        return False
    alone = "" if needed else ", or the numbers alone"
    raise Wrong(f"{n_columns} columns; expected a label and {n_features} numbers{alone}")


def _numbers(columns: Token, first: int) -> list[float]:
    """Return the numbers of a line, from a column on."""
    try:
        numbers = [*map(float, columns[first:])]
    except ValueError:
        numbers = [math.nan]
    if _DECIMAL_ONLY.fullmatch("".join(columns[first:])) and all(map(math.isfinite, numbers)):
        return numbers
    for column, word in enumerate(columns[first:], start=first + 1):
        if not _DECIMAL.fullmatch(word):
            raise Wrong(f"{shown(word)} in column {column} is not a number")
        if not math.isfinite(float(word)):
            raise Wrong(f"{shown(word)} in column {column} is not finite")
    raise AssertionError("one of them is wrong")


class _Labels:
    """The labels of all frames: all numbers, or all words."""

    def __init__(self) -> None:
        self.there = True
        self._words, self._known = list[str](), dict[str, str]()
        self._first = ""
        self._are_numbers = False
        self._longest = (0, 0)  # characters, line

    def add(self, word: str, line: int, *, quoted: bool) -> None:
        """Take the label of a frame."""
        if word not in self._known:
            self._check(word, line, quoted=quoted)
            self._known[word] = word
            self._longest = max(self._longest, (len(word), -line))
        self._words.append(self._known[word])

    def _check(self, word: str, line: int, *, quoted: bool) -> None:
        wrong = what_is_wrong_with_label(word) if word else "is empty"
        if quoted and len(word) > 1 and word[0] == word[-1] == '"':
            wrong = "has quotes; write labels without them"
        is_number = _DECIMAL.fullmatch(word) is not None
        if is_number and not math.isfinite(float(word)):
            wrong = "is not finite"
        if wrong:
            raise Wrong(f"label {shown(word)} {wrong}")
        if not self._first:
            self._first, self._are_numbers = f"{shown(word)} in line {line}", is_number
        elif is_number != self._are_numbers:
            raise Wrong(f"label {shown(word)} after {self._first}: numbers and words mixed")

    def as_array(self, name: str, size: int) -> NDArray[Any] | None:
        """Return the labels, from a file of this size; None if there are none."""
        if not self.there:
            return None
        if self._are_numbers:
            return np.array([*map(float, self._words)])
        length, line = self._longest
        require_room_for_labels(f"{name}:{-line}", length, len(self._words), size)
        return np.array(self._words)
