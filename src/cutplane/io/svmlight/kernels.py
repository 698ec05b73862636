"""Plain lines in the svmlight format, from bytes to arrays, compiled.

A line is plain if it has the usual form: ``label qid:number index:value ... # comment``, with
indices that increase and have no sign, and with numbers that are zero or normal doubles. Where a
line is not plain, :func:`parse_plain_lines` stops in front of it and says no more: it is read, or
refused with a message, by `svmlight_lines`. So this file decides only what it is certain of.

Texts end with a newline, which ends every loop over their bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.compiled import njit
from cutplane.io.decimals import HARD, MINUS, NOT_PLAIN, NUMBER, PLUS, W0, Text, decimal, digits

_SPACE, _TAB, _NEWLINE, _RETURN, _HASH, _COMMA, _COLON, _Q, _I, _D = b" \t\n\r#,:qid"

# Digits that a number of 64 bits with a sign always has room for; the largest index has ten.
_MOST_DIGITS = 18
_MOST_INDEX_DIGITS = 10


@njit(cache=True, nogil=True)
def _is_space(byte: np.uint8) -> bool:
    return bool(byte == _SPACE or (byte != _NEWLINE and _TAB <= byte <= _RETURN))


@njit(cache=True, nogil=True)
def _after_spaces(text: Text, i: int) -> int:
    while _is_space(text[i]):
        i += 1
    return i


@njit(cache=True, nogil=True)
def _query(text: Text, i: int) -> tuple[np.int64, int]:
    """Read ``qid:number`` at ``i``; return the number and the place after it, ``i`` if not plain.

    Whatever follows is looked at by the caller.
    """
    begin = i + 4
    negative = text[begin] == MINUS
    if negative or text[begin] == PLUS:
        begin += 1
    end, number = digits(text, begin, W0)
    if end == begin or end - begin > _MOST_DIGITS:
        return np.int64(0), i
    query = np.int64(number)
    return -query if negative else query, end


@njit(cache=True, nogil=True, error_model="numpy")
def parse_plain_lines(
    text: Text,
    place: int,
    row: int,
    entry: int,
    largest: int,
    words: bool,
    queries: bool,
    values: NDArray[np.float64],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int64],
    labels: NDArray[np.float64],
    label_places: NDArray[np.int64],
    qid: NDArray[np.int64],
    hard: NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Read lines from ``place`` on, up to the end of the text or to a line that is not plain.

    Parameters
    ----------
    text : uint8 array
        Its last byte is a newline.
    place, row, entry : int
        Where to begin: in the text, in arrays of rows, and in arrays of entries.
    largest : int
        The largest index that is allowed.
    words : bool
        Whether labels are words. Any are taken: whoever decodes them must look at them.
    queries : bool
        Whether a query is asked for.
    values, indices : float64 and int32 arrays, an element for each entry
        Filled from ``entry`` on; indices start at 0.
    indptr : int64 array
        Element ``row + 1`` is where the entries of ``row`` end.
    labels : float64 array, an element for each row
        Filled if labels are numbers.
    label_places : int64 array, two elements for each row
        Where labels that are words begin and end in the text.
    qid : int64 array, an element for each row
        Filled if queries are asked for.
    hard : int64 array of three columns
        Filled from its beginning with numbers that Python must read: entry, begin and end in text.

    Returns
    -------
    place, row, entry, n_hard : int
        Where reading ended, and how many rows of ``hard`` were filled.
    """
    n_hard = 0
    while place < len(text):
        i = _after_spaces(text, place)
        if text[i] != _NEWLINE and text[i] != _HASH:
            begin, e, h = i, entry, n_hard
            if words:
                while not _is_space(text[i]) and text[i] != _NEWLINE:
                    if text[i] == _COLON or text[i] == _COMMA or text[i] == _HASH:
                        return place, row, entry, n_hard
                    i += 1
                label_places[row, 0], label_places[row, 1] = begin, i
            else:
                kind, label, i = decimal(text, i)
                if kind != NUMBER:
                    return place, row, entry, n_hard
                labels[row] = label
            j = _after_spaces(text, i)
            if (
                text[j] == _Q
                and text[j + 1] == _I
                and text[j + 2] == _D
                and text[j + 3] == _COLON
                and j > i
            ):
                query, i = _query(text, j)
                if i == j:
                    return place, row, entry, n_hard
                if queries:
                    qid[row] = query
            elif queries:
                return place, row, entry, n_hard
            previous = np.int64(0)
            while True:
                j = i
                i = _after_spaces(text, i)
                if text[i] == _NEWLINE or text[i] == _HASH:
                    break
                if i == j:  # more stands behind what was read last
                    return place, row, entry, n_hard
                j, number = digits(text, i, W0)
                index = np.int64(number)
                if (
                    text[j] != _COLON
                    or j - i > _MOST_INDEX_DIGITS
                    or index <= previous
                    or index > largest
                ):
                    return place, row, entry, n_hard
                previous = index
                kind, value, i = decimal(text, j + 1)
                if kind == NOT_PLAIN or (kind == HARD and h == len(hard)):
                    return place, row, entry, n_hard
                if kind == HARD:
                    hard[h, 0], hard[h, 1], hard[h, 2] = e, j + 1, i
                    h += 1
                values[e], indices[e] = value, index - 1
                e += 1
            entry, n_hard = e, h
            row += 1
            indptr[row] = entry
        while text[i] != _NEWLINE:
            i += 1
        place = i + 1
    return place, row, entry, n_hard
