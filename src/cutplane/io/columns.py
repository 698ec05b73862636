"""Read sequences of tokens from columns, as in the CoNLL shared tasks.

A token is a line, its columns are separated by tabs if the first line has one, else by any white
space. An empty line ends a sequence. All lines have as many columns as the first.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import NamedTuple, TypeAlias

from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_bytes

Token: TypeAlias = tuple[str, ...]


class ColumnData(NamedTuple):
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


def read_columns(path: str | os.PathLike[str]) -> ColumnData:
    """Read sequences from a file of columns, plain or compressed (gzip, bzip2, xz).

    Parameters
    ----------
    path : str or path
        The file, in UTF-8; ``-`` is standard input.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    name = name_of(path)
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{number}: not UTF-8 text") from None
    if "\0" in text:
        raise InputError(f"{name}: not a text file")
    sequences: list[list[Token]] = [[]]
    separator, n_columns = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            if sequences[-1]:
                sequences.append([])
            continue
        if not separator:
            separator = "\t" if "\t" in line else " "
        # Tabs may stand between words of several parts; no other white space is at a line's end.
        columns = line.rstrip("\r").split("\t") if separator == "\t" else line.split()
        n_columns = n_columns or len(columns)
        if len(columns) != n_columns:
            raise InputError(
                f"{name}:{number}: {len(columns)} columns, but the first line has {n_columns}"
            )
        sequences[-1].append(tuple(columns))
    if not sequences[-1]:
        sequences.pop()
    if not sequences:
        raise InputError(f"{name}: no data in the file")
    return ColumnData(sequences, separator)
