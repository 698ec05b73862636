"""Lines in the svmlight format: the grammar, and what is wrong with a line that breaks it."""

from __future__ import annotations

import math
import re

import numpy as np

from cutplane.io.sources import what_is_wrong_with_label

LARGEST_INDEX = np.iinfo(np.int32).max
LARGEST_QUERY = np.iinfo(np.int64).max
# A model has a number for every feature up to the largest index, even if they are all zero.
MOST_FEATURES_UNASKED = 10**8

_WHOLE = rb"[+-]?[0-9]++"
_DECIMAL = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_SPACE = rb"[ \t\r\f\v]"
LINE = re.compile(
    rb"%(space)b*+(?:([^\s#:,]++)(?:%(space)b++qid:(%(whole)b))?"
    rb"(?:%(space)b++%(whole)b:%(decimal)b)*+%(space)b*+)?(?:#[^\n]*+)?\n?"
    % {b"space": _SPACE, b"whole": _WHOLE, b"decimal": _DECIMAL}
)
"""Its groups are the label and the number of the query; a line without a label is empty."""
DECIMAL_ONLY = b"0123456789+-.eE: \t\r\f\v\n"
"""Of these characters Python's int and float can read decimal numbers only."""

_IS_WHOLE, _IS_DECIMAL = re.compile(_WHOLE), re.compile(_DECIMAL)
_IS_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_MOST_DIGITS = 100


def tokens_of(line: bytes) -> list[bytes]:
    """Return what stands between white space, before a comment."""
    return line.partition(b"#")[0].split()


class Wrong(Exception):
    """What is wrong with a line."""


def word_of(token: bytes) -> str | None:
    """Return a label if it is a word, None if it is a number."""
    if b":" in token:
        raise Wrong(f"the label is missing (the line starts with {show(token)})")
    if b"," in token:
        raise Wrong(f"label {show(token)}: several labels in a line are not supported")
    if _is_number(token, f"label {show(token)}"):
        return None
    try:
        word = token.decode()
    except UnicodeDecodeError:
        raise Wrong(f"label {show(token)} is neither a number nor UTF-8 text") from None
    if wrong := what_is_wrong_with_label(word):
        raise Wrong(f"label {show(token)} {wrong}")
    return word


def check_tokens(tokens: list[bytes], n_features: int | None, queries: bool) -> None:
    """Raise what is wrong with a line, apart from what depends on other lines."""
    word_of(tokens[0])
    features = tokens[1:]
    if features and features[0].startswith(b"qid:"):
        whole_number(features[0].removeprefix(b"qid:"), "query", LARGEST_QUERY)
        features = features[1:]
    elif queries:
        raise Wrong("no query (qid:number after the label)")
    previous = 0
    for token in features:
        previous = _check_feature(token, previous, n_features)


def _check_feature(token: bytes, previous: int, n_features: int | None) -> int:
    """Return the index of a feature that may follow index ``previous``."""
    before, colon, after = token.partition(b":")
    if not colon:
        raise Wrong(f"{show(token)} is not of the form index:value")
    index = whole_number(before, "feature index", LARGEST_INDEX)
    if index < 1:
        hint = " (in scikit-learn, write with zero_based=False)" if index == 0 else ""
        raise Wrong(f"feature index {index}: indices start at 1{hint}")
    if index <= previous:
        raise Wrong(f"feature index {index} follows {previous}: indices must increase")
    if n_features is not None and index > n_features:
        raise Wrong(f"feature index {index} is beyond the {n_features} features expected")
    if n_features is None and index > MOST_FEATURES_UNASKED:
        raise Wrong(
            f"feature index {index} is beyond {MOST_FEATURES_UNASKED:,}; if it is right, give the "
            "number of features (--features, or n_features in Python)"
        )
    value = f"value {show(after)} of feature {index}"
    if not _is_number(after, value):
        raise Wrong(f"{value} is not a number")
    return index


def _is_number(token: bytes, what: str) -> bool:
    """Whether a token is a number, which must be finite."""
    is_decimal = _IS_DECIMAL.fullmatch(token) is not None
    if _IS_NOT_FINITE.fullmatch(token) or (is_decimal and not math.isfinite(float(token))):
        raise Wrong(f"{what} is not finite")
    return is_decimal


def whole_number(token: bytes, what: str, largest: int) -> int:
    """Return a whole number that is not larger in size than the largest one."""
    if not _IS_WHOLE.fullmatch(token):
        raise Wrong(f"{what} {show(token)} is not a whole number")
    # Python refuses to read thousands of digits, even if they are zeros.
    if len(token) > _MOST_DIGITS or abs(int(token)) > largest:
        raise Wrong(f"{what} {show(token)[1:-1]} is too large")
    return int(token)


def show(token: bytes) -> str:
    """Return a token as it may be printed: quoted, on one line, not too long."""
    shown = repr(token[:400].decode(errors="backslashreplace"))
    return shown if len(shown) <= 40 else f"{shown[:36]}...'"
