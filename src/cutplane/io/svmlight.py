"""Read data in the svmlight (LIBSVM) format.

A line is ``label index:value index:value ... # comment``. Three decisions make a file mean the
same wherever it is read:

- Indices start at 1, as svmlight defines them: index ``i`` is column ``i - 1`` in every file. A
  guess from the smallest index of each file would shift columns between training and test data.
- Indices increase along a line; a zero may be left out.
- Labels are numbers, or words (for classification), but not both in one file.

Ranking's ``qid:number`` after the label is read where it is asked for, else ignored. scikit-learn
does the parsing. It does not say where a file is wrong, so a file that it refuses is read again
line by line to find the place.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_bytes

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LARGEST_INDEX = np.iinfo(np.int32).max
_LARGEST_QUERY = np.iinfo(np.int64).max


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
        Number of columns of ``X``. By default the largest index in the file.
    queries : bool
        Whether every line must have a query, ``qid:number`` after the label.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    name = name_of(path)
    text = read_bytes(path).removeprefix(_BYTE_ORDER_MARK)
    if b"\0" in text:
        raise InputError(f"{name}: not a text file")
    try:
        X, y, qid = _parse(text, n_features, queries)
    except (ValueError, OverflowError) as error:
        numbers, words = _read_slowly(text, name, n_features, queries)
        if not words:  # the line-by-line reader found nothing wrong: let the parser speak
            raise InputError(f"{name}: {error}") from error
        X, _, qid = _parse(numbers, n_features, queries)
        y = np.array(words)
    if qid is not None and len(qid) != len(y):
        if len(qid) == 0:
            raise InputError(f"{name}: no line has a query (qid:number after the label)")
        _read_slowly(text, name, n_features, queries)  # raises, and says where
    if not (np.isfinite(X.data).all() and (y.dtype.kind == "U" or np.isfinite(y).all())):
        _read_slowly(text, name, n_features, queries)  # raises, and says where
        raise InputError(f"{name}: a number is not finite")
    if X.shape[0] == 0:
        raise InputError(f"{name}: no data in the file")
    if X.nnz == 0 and n_features is None:
        raise InputError(f"{name}: no line has a feature (index:value)")
    return SvmlightData(X, y, qid)


def _parse(
    text: bytes, n_features: int | None, queries: bool
) -> tuple[Any, NDArray[Any], NDArray[np.int64] | None]:
    """Return features and labels; if asked for, the queries of those lines that have one."""
    # Imported here because it takes longer than all of cutplane's own modules.
    from scipy.sparse import csr_matrix
    from sklearn.datasets import load_svmlight_file

    X, y, *qid = load_svmlight_file(
        io.BytesIO(text), n_features=n_features, zero_based=False, query_id=queries
    )
    # scikit-learn leaves 64-bit indices. Half of that means half the memory traffic of every pass.
    index = np.int32 if X.nnz <= _LARGEST_INDEX else np.int64
    parts = (X.data, X.indices.astype(index), X.indptr.astype(index))
    return csr_matrix(parts, shape=X.shape), y, qid[0] if queries else None


def _read_slowly(
    text: bytes, name: str, n_features: int | None, queries: bool
) -> tuple[bytes, list[str]]:
    """Check every line.

    Returns
    -------
    numbers : bytes
        The text with a number in place of every label.
    words : list of str
        The labels, if they are words; else empty.
    """
    lines: list[bytes] = []
    words: list[str] = []
    first = ""
    for line_number, tokens in _lines(text):
        try:
            word = _check_label(tokens[0])
            if queries:
                _check_query(tokens[1:])
            _check_features(tokens[1:], n_features)
            first = first or f"{_show(tokens[0])} in line {line_number}"
            if (word is None) != (not words) and lines:
                raise _Wrong(f"label {_show(tokens[0])} after {first}: numbers and words mixed")
        except _Wrong as wrong:
            raise InputError(f"{name}:{line_number}: {wrong}") from None
        if word is not None:
            words.append(word)
        lines.append(b" ".join([b"0", *tokens[1:]]))
    return b"\n".join(lines), words


def _lines(text: bytes) -> Iterator[tuple[int, list[bytes]]]:
    for line_number, line in enumerate(text.split(b"\n"), start=1):
        if tokens := line.partition(b"#")[0].split():
            yield line_number, tokens


class _Wrong(Exception):
    """What is wrong with a line."""


def _check_label(token: bytes) -> str | None:
    """Return the label if it is a word, None if it is a number."""
    if b":" in token:
        raise _Wrong(f"the label is missing (the line starts with {_show(token)})")
    if b"," in token:
        raise _Wrong(f"label {_show(token)}: several labels in a line are not supported")
    try:
        number = float(token)
    except ValueError:
        try:
            return token.decode()
        except UnicodeDecodeError:
            raise _Wrong(f"label {_show(token)} is neither a number nor UTF-8 text") from None
    if not np.isfinite(number):
        raise _Wrong(f"label {_show(token)} is not finite")
    return None


def _check_query(tokens: list[bytes]) -> None:
    if not tokens or not tokens[0].startswith(b"qid:"):
        raise _Wrong("no query (qid:number after the label)")
    number = tokens[0].removeprefix(b"qid:")
    try:
        query = int(number)
    except ValueError:
        raise _Wrong(f"query {_show(number)} is not a whole number") from None
    if abs(query) > _LARGEST_QUERY:
        raise _Wrong(f"query {query} is too large")


def _check_features(tokens: list[bytes], n_features: int | None) -> None:
    if tokens and tokens[0].startswith(b"qid:"):
        tokens = tokens[1:]
    previous = 0
    for token in tokens:
        previous = _check_feature(token, previous, n_features)


def _check_feature(token: bytes, previous: int, n_features: int | None) -> int:
    """Return the index of a feature that may follow index ``previous``."""
    before, colon, after = token.partition(b":")
    if not colon:
        raise _Wrong(f"{_show(token)} is not of the form index:value")
    try:
        index = int(before)
    except ValueError:
        raise _Wrong(f"feature index {_show(before)} is not a whole number") from None
    if index < 1:
        hint = " (in scikit-learn, write with zero_based=False)" if index == 0 else ""
        raise _Wrong(f"feature index {index}: indices start at 1{hint}")
    if index > _LARGEST_INDEX:
        raise _Wrong(f"feature index {index} is too large")
    if index <= previous:
        raise _Wrong(f"feature index {index} follows {previous}: indices must increase")
    if n_features is not None and index > n_features:
        raise _Wrong(f"feature index {index} is beyond the {n_features} features expected")
    try:
        value = float(after)
    except ValueError:
        raise _Wrong(f"value {_show(after)} of feature {index} is not a number") from None
    if not np.isfinite(value):
        raise _Wrong(f"value {_show(after)} of feature {index} is not finite")
    return index


def _show(token: bytes) -> str:
    """Return a token as it may be printed: quoted, on one line, not too long."""
    shown = repr(token.decode(errors="backslashreplace"))
    return shown if len(shown) <= 40 else f"{shown[:36]}...'"
