"""Decimal numbers, and plain lines in the svmlight format, from bytes to arrays, compiled.

Decimal numbers are right to the last bit. Digits and exponent make ``w * 10**q``, ``w`` a whole
number:

- If ``w <= 2**53`` and ``|q| <= 22``, both ``w`` and ``10**|q|`` are doubles, and one operation
  rounds once (Clinger 1990).
- Else 128 bits of ``10**q`` and the 64 bits of ``w`` decide (Lemire 2021, Number parsing at a
  gigabyte per second, Algorithm 1; Mushtak and Lemire 2023 prove that they always do).
- Of more than 19 digits the first 19 are taken. Where ``w`` and ``w + 1`` are rounded to different
  doubles, the number is `HARD`, and left to Python's ``float``.

So are zero from underflow, subnormal numbers, and infinity, which are `NOT_PLAIN`.

A line is plain if it has the usual form: ``label qid:number index:value ... # comment``, with
indices that increase and have no sign, and with numbers that are zero or normal doubles. Where a
line is not plain, :func:`parse_plain_lines` stops in front of it and says no more: it is read, or
refused with a message, by `cutplane.io.svmlight`. So this file decides only what it is certain of.

Texts end with a newline, which ends every loop over their bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.compiled import njit

Text = NDArray[np.uint8]
Word = np.uint64

DECIMAL = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
"""The pattern of decimal numbers in files: of what ``float`` takes, neither ``1_0`` nor ``nan``."""

NUMBER, HARD, NOT_PLAIN = 0, 1, 2
"""Kinds of what was read."""

PLUS, MINUS, _DOT, _ZERO, _SMALL_E, _CAPITAL_E = b"+-.0eE"

# Digits that a word always has room for.
_MOST_DIGITS = 19
# Below the first, 19 digits make no normal double; beyond the second, one digit makes none.
_SMALLEST_POWER, _LARGEST_POWER = -327, 308
_EXACT_POWERS = np.array([float(10**k) for k in range(23)])

# Arithmetic of unsigned numbers with Python's own would be done in doubles.
W0 = np.uint64(0)
_W1, _W3, _W9, _W10, _W32 = np.uint64(1), np.uint64(3), np.uint64(9), np.uint64(10), np.uint64(32)
_W52, _W53, _W63 = np.uint64(52), np.uint64(53), np.uint64(63)
_WZERO = np.uint64(_ZERO)
_LOW_32 = np.uint64(2**32 - 1)
_FRACTION = np.uint64(2**52 - 1)
# A product has 55 bits for the result (52, one before the point, one to round by, one in case that
# the first is zero). If the 9 after them are ones, a carry from further bits could change them.
_CARRIES = np.uint64(2**9 - 1)


def _powers_of_ten() -> NDArray[np.uint64]:
    """Return the first 128 bits of each ``5**q``, in two words; ``10**q`` has the same."""
    words = []
    for q in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        power = 5 ** abs(q)
        length = power.bit_length()
        bits = (power << 128) >> length
        if q < 0:
            # Rounded up while 5**-q has less than 64 bits, so that quotients that are exact in
            # binary are found to be; below it is truncated.
            bits = (1 << (length + 127)) // power + (q >= -27)
        words.append((bits >> 64, bits & (2**64 - 1)))
    return np.array(words, np.uint64)


_POWERS = _powers_of_ten()


@njit(cache=True, nogil=True)
def _product(a: Word, b: Word) -> tuple[Word, Word]:
    """Return the product of two words in two words, the high one first."""
    low_a, low_b, high_a, high_b = a & _LOW_32, b & _LOW_32, a >> _W32, b >> _W32
    low, high = low_a * low_b, high_a * high_b
    one, other = high_a * low_b, low_a * high_b
    middle = (low >> _W32) + (one & _LOW_32) + (other & _LOW_32)
    high += (one >> _W32) + (other >> _W32) + (middle >> _W32)
    return high, a * b


@njit(cache=True, nogil=True)
def nearest_double(w: Word, q: int) -> Word:
    """Return the bits of the double that is nearest to ``w * 10**q``, for ``w > 0``.

    Zero if it is no normal one: subnormal, or infinite.
    """
    # What is converted has the first bit of w and not the second, so it is not rounded up to a
    # power of two, and its exponent is the place of that bit.
    first_bit = np.int64(np.float64(w & ~(w >> _W1)).view(np.uint64) >> _W52) - 1023
    w <<= np.uint64(63 - first_bit)
    k = q - _SMALLEST_POWER
    high, low = _product(w, _POWERS[k, 0])
    if high & _CARRIES == _CARRIES:
        more, _ = _product(w, _POWERS[k, 1])
        low += more
        if low < more:
            high += _W1
    upper_bit = high >> _W63
    dropped = upper_bit + _W9
    mantissa = high >> dropped
    exponent = ((217706 * q) >> 16) + first_bit + np.int64(upper_bit) + 1023
    # Exactly between two doubles, which can only be for small powers: to the even one.
    is_half = low <= _W1 and -4 <= q <= 23 and mantissa & _W3 == _W1
    if is_half and mantissa << dropped == high:
        mantissa -= _W1
    mantissa = (mantissa + (mantissa & _W1)) >> _W1
    if mantissa >> _W53 != W0:  # rounded up to a power of two
        mantissa >>= _W1
        exponent += 1
    if exponent < 1 or exponent > 2046:
        return W0
    return (np.uint64(exponent) << _W52) | (mantissa & _FRACTION)


@njit(cache=True, nogil=True)
def _first_digits(text: Text, begin: int, end: int) -> tuple[Word, int]:
    """Return the number that the first 19 digits make, zeros before not counted, and the rest."""
    w, n_digits, n_dropped = W0, 0, 0
    for i in range(begin, end):
        if text[i] == _DOT:
            continue
        if n_digits < _MOST_DIGITS:
            w = w * _W10 + (np.uint64(text[i]) - _WZERO)
            n_digits += w != W0
        else:
            n_dropped += 1
    return w, n_dropped


@njit(cache=True, nogil=True)
def digits(text: Text, i: int, w: Word) -> tuple[int, Word]:
    """Append the digits from ``i`` on to ``w``, and return the place after them and ``w``."""
    digit = np.uint64(text[i]) - _WZERO
    while digit <= _W9:
        w = w * _W10 + digit
        i += 1
        digit = np.uint64(text[i]) - _WZERO
    return i, w


@njit(cache=True, nogil=True, error_model="numpy")
def decimal(text: Text, i: int) -> tuple[int, float, int]:
    """Read a decimal number that begins at ``i``; return its kind, value, and the place after."""
    negative = text[i] == MINUS
    if negative or text[i] == PLUS:
        i += 1
    begin = i
    i, w = digits(text, i, W0)
    n_digits, q = i - begin, 0
    if text[i] == _DOT:
        point = i + 1
        i, w = digits(text, point, w)
        q = point - i
        n_digits -= q
    if n_digits == 0:
        return NOT_PLAIN, 0.0, i
    n_dropped = 0
    if n_digits > _MOST_DIGITS:
        w, n_dropped = _first_digits(text, begin, i)
        q += n_dropped
    if text[i] == _SMALL_E or text[i] == _CAPITAL_E:
        i += 1
        below = text[i] == MINUS
        if below or text[i] == PLUS:
            i += 1
        begin, exponent = i, 0
        while np.uint64(text[i]) - _WZERO <= _W9:
            # More than the digits of any text, so that they cannot make up for such an exponent.
            exponent = min(10 * exponent + text[i] - _ZERO, 10**15)
            i += 1
        if i == begin:
            return NOT_PLAIN, 0.0, i
        q += -exponent if below else exponent
    kind = NUMBER
    if w == W0:
        value = 0.0
    elif w <= np.uint64(2**53) and -22 <= q <= 22 and n_dropped == 0:
        value = np.float64(w)
        value = value * _EXACT_POWERS[q] if q >= 0 else value / _EXACT_POWERS[-q]
    elif q < _SMALLEST_POWER or q > _LARGEST_POWER:
        return NOT_PLAIN, 0.0, i
    else:
        bits = nearest_double(w, q)
        above = nearest_double(w + _W1, q) if n_dropped > 0 else bits
        if bits == W0 or above == W0:
            return NOT_PLAIN, 0.0, i
        if bits != above:
            kind = HARD
        value = np.uint64(bits).view(np.float64)
    return kind, -value if negative else value, i


_SPACE, _TAB, _NEWLINE, _RETURN, _HASH, _COMMA, _COLON, _Q, _I, _D = b" \t\n\r#,:qid"


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
    if end == begin or end - begin > 18:  # a number of 64 bits with a sign has room for so many
        return np.int64(0), i
    query = np.int64(number)
    return -query if negative else query, end


class Arrays(NamedTuple):
    """What lines are read into.

    Attributes
    ----------
    values : float64 array, indices : int32 array, an element for each entry
        Indices start at 0.
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
    """

    values: NDArray[np.float64]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    labels: NDArray[np.float64]
    label_places: NDArray[np.int64]
    qid: NDArray[np.int64]
    hard: NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy")
def parse_plain_lines(
    text: Text, at: tuple[int, int, int], largest: int, words: bool, queries: bool, to: Arrays
) -> tuple[int, int, int, int]:
    """Read lines from a place on, up to the end of the text or to a line that is not plain.

    Parameters
    ----------
    text : uint8 array
        Its last byte is a newline.
    at : (int, int, int)
        Where to begin: in the text, in arrays of rows, and in arrays of entries.
    largest : int
        The largest index that is allowed.
    words : bool
        Whether labels are words. Any are taken: decoding them checks them.
    queries : bool
        Whether a query is asked for.
    to : Arrays

    Returns
    -------
    place, row, entry, n_hard : int
        Where reading ended, and how many rows of ``hard`` were filled.
    """
    place, row, entry = at
    values, indices, indptr, labels, label_places, qid, hard = to
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
                    or j - i > 10  # which the largest has
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
