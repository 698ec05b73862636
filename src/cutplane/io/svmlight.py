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

import codecs
import io
import math
import os
import re
from array import array
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_bytes
from cutplane.io.words import what_is_wrong_with_label

_LARGEST_INDEX = np.iinfo(np.int32).max
_LARGEST_QUERY = np.iinfo(np.int64).max
# A model has a number for every feature up to the largest index, even if they are all zero.
_MOST_FEATURES_UNASKED = 10**8
# The room for labels that are words: some, or what is in proportion to the file.
_LABEL_BYTES = 10**8
_LABEL_BYTES_PER_BYTE = 8

_WHOLE = rb"[+-]?[0-9]++"
_DECIMAL = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_SPACE = rb"[ \t\r\f\v]"
_LINE = re.compile(
    rb"%(space)b*+(?:([^\s#:,]++)(?:%(space)b++qid:(%(whole)b))?"
    rb"(?:%(space)b++%(whole)b:%(decimal)b)*+%(space)b*+)?(?:#[^\n]*+)?\n?"
    % {b"space": _SPACE, b"whole": _WHOLE, b"decimal": _DECIMAL}
)
_IS_WHOLE, _IS_DECIMAL = re.compile(_WHOLE), re.compile(_DECIMAL)
_IS_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_MOST_DIGITS = 100
# Of these characters Python's int and float, which scikit-learn calls, read decimal numbers only.
_DECIMAL_ONLY = b"0123456789+-.eE: \t\r\f\v\n"


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
    text = read_bytes(path).removeprefix(codecs.BOM_UTF8)
    if b"\0" in text:
        raise InputError(f"{name}: not a text file")
    words, qid = None, None
    if queries or text.translate(None, _DECIMAL_ONLY):
        checked, words, qid = _check(text, name, n_features, queries)
    else:
        checked = text
    try:
        X, y = _parse(checked, n_features)
    except (ValueError, OverflowError) as error:
        _explain(text, name, n_features, queries)
        raise InputError(f"{name}: {error}") from error
    if X.shape[0] == 0:
        raise InputError(f"{name}: no data in the file")
    unasked = n_features is None and X.shape[1] > _MOST_FEATURES_UNASKED
    if unasked or not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        _explain(text, name, n_features, queries)  # raises, and says where
    if X.nnz == 0 and n_features is None:
        raise InputError(f"{name}: no line has a feature (index:value)")
    return SvmlightData(X, y if words is None else words, qid)


def _parse(text: bytes, n_features: int | None) -> tuple[Any, NDArray[Any]]:
    """Return features and labels."""
    # Imported here because it takes longer than all of cutplane's own modules.
    from scipy.sparse import csr_matrix
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=False)
    # scikit-learn leaves 64-bit indices. Half of that means half the memory traffic of every pass.
    index = np.int32 if X.nnz <= _LARGEST_INDEX else np.int64
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
    labels, qid = _Labels(name), array("q")
    lines = []
    for line_number, line in enumerate(io.BytesIO(text), start=1):
        match = _LINE.fullmatch(line)
        if match is not None and match[1] is None:
            continue
        try:
            if match is None:
                _check_tokens(_tokens(line), n_features, queries)
                raise _Wrong("not of the form label index:value ...")
            if labels.add(match[1], line_number):
                if line[match.end(1) :].startswith(b"#"):
                    raise _Wrong(f"label {_show(match[1])}: white space is missing before the #")
                lines.append(b"0" + line[match.end(1) :])
            if queries:
                if match[2] is None:
                    if b"qid:" not in text:
                        raise InputError(f"{name}: no line has a query (qid:number after the label)")
                    raise _Wrong("no query (qid:number after the label)")
                qid.append(_whole_number(match[2], "query", _LARGEST_QUERY))
        except _Wrong as wrong:
            before = b"".join(islice(io.BytesIO(text), line_number - 1))
            _explain(before, name, n_features, queries)  # another line may be the first
            raise InputError(f"{name}:{line_number}: {wrong}") from None
    numbers = b"".join(lines) if labels.words else text
    return numbers, labels.as_array(len(text)), np.array(qid) if queries else None


def _explain(text: bytes, name: str, n_features: int | None, queries: bool) -> None:
    """Raise what is wrong with the first bad line, if there is one."""
    for line_number, line in enumerate(io.BytesIO(text), start=1):
        if tokens := _tokens(line):
            try:
                _check_tokens(tokens, n_features, queries)
            except _Wrong as wrong:
                raise InputError(f"{name}:{line_number}: {wrong}") from None


def _tokens(line: bytes) -> list[bytes]:
    return line.partition(b"#")[0].split()


class _Wrong(Exception):
    """What is wrong with a line."""


class _Labels:
    """The labels of a file: all numbers, or all words."""

    def __init__(self, name: str) -> None:
        self.words: list[str] = []
        self._name = name
        self._first = ""
        self._longest = (0, 0)  # characters, line

    def add(self, token: bytes, line_number: int) -> bool:
        """Take a label, and return whether it is a word."""
        word = _word(token)
        if not self._first:
            self._first = f"{_show(token)} in line {line_number}"
        elif (word is None) != (not self.words):
            raise _Wrong(f"label {_show(token)} after {self._first}: numbers and words mixed")
        if word is not None:
            self.words.append(word)
            self._longest = max(self._longest, (len(word), -line_number))
        return word is not None

    def as_array(self, n_bytes: int) -> NDArray[Any] | None:
        """Return the words; None if labels are numbers."""
        length, line = self._longest
        needed = 4 * length * len(self.words)
        if needed > max(_LABEL_BYTES, _LABEL_BYTES_PER_BYTE * n_bytes):
            raise InputError(
                f"{self._name}:{-line}: a label of {length} characters; with as much room for the "
                f"label of each of {len(self.words):,} lines, they would take "
                f"{needed / 1e6:,.0f} MB; use shorter labels"
            )
        return np.array(self.words) if self.words else None


def _word(token: bytes) -> str | None:
    """Return a label if it is a word, None if it is a number."""
    if b":" in token:
        raise _Wrong(f"the label is missing (the line starts with {_show(token)})")
    if b"," in token:
        raise _Wrong(f"label {_show(token)}: several labels in a line are not supported")
    if _is_number(token, f"label {_show(token)}"):
        return None
    try:
        word = token.decode()
    except UnicodeDecodeError:
        raise _Wrong(f"label {_show(token)} is neither a number nor UTF-8 text") from None
    if wrong := what_is_wrong_with_label(word):
        raise _Wrong(f"label {_show(token)} {wrong}")
    return word


def _check_tokens(tokens: list[bytes], n_features: int | None, queries: bool) -> None:
    """Raise what is wrong with a line, apart from what depends on other lines."""
    _word(tokens[0])
    features = tokens[1:]
    if features and features[0].startswith(b"qid:"):
        _whole_number(features[0].removeprefix(b"qid:"), "query", _LARGEST_QUERY)
        features = features[1:]
    elif queries:
        raise _Wrong("no query (qid:number after the label)")
    previous = 0
    for token in features:
        previous = _check_feature(token, previous, n_features)


def _check_feature(token: bytes, previous: int, n_features: int | None) -> int:
    """Return the index of a feature that may follow index ``previous``."""
    before, colon, after = token.partition(b":")
    if not colon:
        raise _Wrong(f"{_show(token)} is not of the form index:value")
    index = _whole_number(before, "feature index", _LARGEST_INDEX)
    if index < 1:
        hint = " (in scikit-learn, write with zero_based=False)" if index == 0 else ""
        raise _Wrong(f"feature index {index}: indices start at 1{hint}")
    if index <= previous:
        raise _Wrong(f"feature index {index} follows {previous}: indices must increase")
    if n_features is not None and index > n_features:
        raise _Wrong(f"feature index {index} is beyond the {n_features} features expected")
    if n_features is None and index > _MOST_FEATURES_UNASKED:
        raise _Wrong(
            f"feature index {index} is beyond {_MOST_FEATURES_UNASKED:,}; if it is right, give the "
            "number of features (--features, or n_features in Python)"
        )
    value = f"value {_show(after)} of feature {index}"
    if not _is_number(after, value):
        raise _Wrong(f"{value} is not a number")
    return index


def _is_number(token: bytes, what: str) -> bool:
    """Whether a token is a number, which must be finite."""
    is_decimal = _IS_DECIMAL.fullmatch(token) is not None
    if _IS_NOT_FINITE.fullmatch(token) or (is_decimal and not math.isfinite(float(token))):
        raise _Wrong(f"{what} is not finite")
    return is_decimal


def _whole_number(token: bytes, what: str, largest: int) -> int:
    if not _IS_WHOLE.fullmatch(token):
        raise _Wrong(f"{what} {_show(token)} is not a whole number")
    # Python refuses to read thousands of digits, even if they are zeros.
    if len(token) > _MOST_DIGITS or abs(int(token)) > largest:
        raise _Wrong(f"{what} {_show(token)[1:-1]} is too large")
    return int(token)


def _show(token: bytes) -> str:
    """Return a token as it may be printed: quoted, on one line, not too long."""
    shown = repr(token.decode(errors="backslashreplace"))
    return shown if len(shown) <= 40 else f"{shown[:36]}...'"
