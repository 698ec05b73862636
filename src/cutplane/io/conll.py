"""Read sequences of tokens from columns, as in the CoNLL shared tasks.

A token is a line, its columns are separated by tabs if the first line has one, else by spaces and
tabs. A line that is empty, or has only spaces and tabs, ends a sequence. All lines have as many
columns as the first. Other white space, such as a space that does not break, is part of a word.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import NamedTuple, TypeAlias

from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_text, what_is_wrong_with_label

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
    name = name_of(path)
    sequences: list[list[Token]] = [[]]
    separator, n_columns = "", 0
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip(" \t"):
            if sequences[-1]:
                sequences.append([])
            continue
        if not separator:
            separator = "\t" if "\t" in line else " "
        columns = columns_of(line, separator)
        n_columns = n_columns or len(columns)
        wrong = _what_is_wrong(line, columns, n_columns, labels)
        if wrong is not None:
            raise InputError(f"{name}:{number}: {wrong}")
        sequences[-1].append(columns)
    if not sequences[-1]:
        sequences.pop()
    if not sequences:
        raise InputError(f"{name}: no data in the file")
    return ConllData(sequences, separator)


def columns_of(line: str, separator: str) -> Token:
    """Return the columns of a line, between tabs or (``" "``) between spaces and tabs."""
    if separator == "\t":  # spaces may stand between words of several parts
        return tuple(line.split("\t"))
    return tuple(filter(None, line.replace("\t", " ").split(" ")))


def what_is_wrong_with_line(line: str) -> str | None:
    """Return why a line is none, whatever its columns are; None if it is good."""
    if "\r" in line:
        return "a carriage return inside a line; lines end with a newline"
    if line.startswith("\ufeff"):
        return "a byte order mark inside the file"
    return None


def _what_is_wrong(line: str, columns: Token, n_columns: int, labels: bool) -> str | None:
    if wrong := what_is_wrong_with_line(line):
        return wrong
    if len(columns) != n_columns:
        found = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
        return f"{found}, but the first line has {n_columns}"
    if labels:
        label = columns[-1]
        wrong = what_is_wrong_with_label(label) if label else "is empty"
        return None if wrong is None else f"label {label[:36]!r} {wrong}"
    return None
