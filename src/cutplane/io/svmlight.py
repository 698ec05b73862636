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
the white space of ASCII, lines by newlines.

scikit-learn does the parsing. It reads more than this (``qidfoo:9`` as a query, ``1_0`` as 10), so
it only sees lines that match the grammar here; and it does not say where a file is wrong, so a
file that it refuses is read again to find the place.
"""

from __future__ import annotations

import io
import os
from array import array
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_text_bytes, require_room_for_labels
from cutplane.io.svmlight_lines import (
    DECIMAL_ONLY,
    LARGEST_INDEX,
    LARGEST_QUERY,
    LINE,
    MOST_FEATURES_UNASKED,
    Wrong,
    check_tokens,
    show,
    tokens_of,
    whole_number,
    word_of,
)


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
    path: str | os.PathLike[str], *, n_features: int | None = None, queries: bool = False
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

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    name = name_of(path)
    text = read_text_bytes(path)
    words, qid = None, None
    parsed = None if queries or text.translate(None, DECIMAL_ONLY) else _parse(text, n_features)
    if parsed is None:
        numbers, words, qid = _check(text, name, n_features, queries)
        parsed = _parse(numbers, n_features)
    if parsed is None:
        _explain(text, name, n_features, queries)
        raise InputError(f"{name}: scikit-learn cannot read it")
    X, y = parsed
    if X.shape[0] == 0:
        raise InputError(f"{name}: no data in the file")
    unasked = n_features is None and X.shape[1] > MOST_FEATURES_UNASKED
    if unasked or not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        _explain(text, name, n_features, queries)  # raises, and says where
    if X.nnz == 0 and n_features is None:
        raise InputError(f"{name}: no line has a feature (index:value)")
    return SvmlightData(X, y if words is None else words, qid)


def _parse(text: bytes, n_features: int | None) -> tuple[Any, NDArray[Any]] | None:
    """Return features and labels, or None if there is something wrong."""
    # Imported here because it takes longer than all of cutplane's own modules.
    from scipy.sparse import csr_matrix
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=False)
    except (ValueError, OverflowError):
        return None
    # scikit-learn leaves 64-bit indices. Half of that means half the memory traffic of every pass.
    index = np.int32 if X.nnz <= LARGEST_INDEX else np.int64
    parts = (X.data, X.indices.astype(index), X.indptr.astype(index))
    return csr_matrix(parts, shape=X.shape), y


def _check(
    text: bytes, name: str, n_features: int | None, queries: bool
) -> tuple[bytes, NDArray[Any] | None, NDArray[np.int64] | None]:
    """Check that every line matches the grammar.

    Returns
    -------
    numbers : bytes
        The text, with a number in place of every label if they are words.
    words : ndarray or None
        The labels, if they are words.
    qid : ndarray or None
        The queries, if they are asked for.
    """
    if queries and b"qid:" not in text and any(map(tokens_of, io.BytesIO(text))):
        raise InputError(f"{name}: no line has a query (qid:number after the label)")
    labels, qid = _Labels(name), array("q")
    lines = []
    for line_number, line in enumerate(io.BytesIO(text), start=1):
        match = LINE.fullmatch(line)
        if match is not None and match[1] is None:
            continue
        try:
            if match is None:
                check_tokens(tokens_of(line), n_features, queries)
                raise Wrong("not of the form label index:value ...")
            if labels.add(match[1], line_number):
                if line[match.end(1) :].startswith(b"#"):
                    raise Wrong(f"label {show(match[1])}: white space is missing before the #")
                lines.append(b"0" + line[match.end(1) :])
            if match[2] is not None:
                qid.append(whole_number(match[2], "query", LARGEST_QUERY))
            elif queries:
                raise Wrong("no query (qid:number after the label)")
        except Wrong as wrong:
            before = b"".join(islice(io.BytesIO(text), line_number - 1))
            _explain(before, name, n_features, queries)  # another line may be the first
            raise InputError(f"{name}:{line_number}: {wrong}") from None
    numbers = b"".join(lines) if labels.words else text
    return numbers, labels.as_array(len(text)), np.array(qid) if queries else None


def _explain(text: bytes, name: str, n_features: int | None, queries: bool) -> None:
    """Raise what is wrong with the first bad line, if there is one."""
    for line_number, line in enumerate(io.BytesIO(text), start=1):
        if tokens := tokens_of(line):
            try:
                check_tokens(tokens, n_features, queries)
            except Wrong as wrong:
                raise InputError(f"{name}:{line_number}: {wrong}") from None


class _Labels:
    """The labels of a file: all numbers, or all words."""

    def __init__(self, name: str) -> None:
        self.words: list[str] = []
        self._name = name
        self._first = ""
        self._longest = (0, 0)  # characters, line

    def add(self, token: bytes, line_number: int) -> bool:
        """Take a label, and return whether it is a word."""
        word = word_of(token)
        if not self._first:
            self._first = f"{show(token)} in line {line_number}"
        elif (word is None) != (not self.words):
            raise Wrong(f"label {show(token)} after {self._first}: numbers and words mixed")
        if word is not None:
            self.words.append(word)
            self._longest = max(self._longest, (len(word), -line_number))
        return word is not None

    def as_array(self, n_bytes: int) -> NDArray[Any] | None:
        """Return the words; None if labels are numbers."""
        length, line = self._longest
        require_room_for_labels(f"{self._name}:{-line}", length, len(self.words), n_bytes)
        return np.array(self.words) if self.words else None
