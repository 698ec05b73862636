"""One line in the svmlight format: what it says, or what is wrong with it.

All rules are here, and are followed slowly. Lines of the usual form are read by
`svmlight_kernels`, and mean the same there.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cutplane.io.decimals import DECIMAL
from cutplane.io.sources import what_is_wrong_with_label

LARGEST_INDEX = np.iinfo(np.int32).max
LARGEST_QUERY = np.iinfo(np.int64).max
# A model has a number for every feature up to the largest index, even if they are all zero.
MOST_FEATURES_UNASKED = 10**8

_WHOLE = rb"[+-]?[0-9]++"
_IS_WHOLE, _IS_DECIMAL = re.compile(_WHOLE), re.compile(DECIMAL.encode())
_IS_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_MOST_DIGITS = 100


class Wrong(Exception):
    """What is wrong with a line."""


@dataclass(frozen=True)
class Rules:
    """What is asked of a file: see `read_svmlight`."""

    n_features: int | None = None
    queries: bool = False
    labels: bool = True
    label_sets: bool = False

    @property
    def largest_index(self) -> int:
        """The largest index that is allowed."""
        asked = MOST_FEATURES_UNASKED if self.n_features is None else self.n_features
        return min(asked, LARGEST_INDEX)


class Line(NamedTuple):
    """What a line says: the text of its label, and more. A query of 0 may stand for none."""

    token: bytes
    is_word: bool
    query: int
    indices: list[int]
    values: list[float]


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


def read_line(line: bytes, rules: Rules) -> Line | None:
    """Return what a line says, None if it is empty, or raise what is wrong with it.

    What depends on other lines, the kind of labels, is not looked at.
    """
    content, sign, _ = line.partition(b"#")
    tokens = content.split()
    if not tokens:
        return None
    token, *features = tokens
    word = word_of(token)
    if word is not None and sign and len(tokens) == 1 and content.endswith(token):
        raise Wrong(f"label {show(token)}: white space is missing before the #")
    query = 0
    if features and features[0].startswith(b"qid:"):
        query = _whole_number(features[0].removeprefix(b"qid:"), "query", LARGEST_QUERY)
        features = features[1:]
    elif rules.queries:
        raise Wrong("no query (qid:number after the label)")
    indices: list[int] = []
    values: list[float] = []
    for feature in features:
        index, value = _read_feature(feature, indices[-1] if indices else 0, rules)
        indices.append(index)
        values.append(value)
    return Line(token, word is not None, query, indices, values)


def _read_feature(token: bytes, previous: int, rules: Rules) -> tuple[int, float]:
    """Return index and value of a feature that may follow index ``previous``."""
    before, colon, after = token.partition(b":")
    if not colon:
        raise Wrong(f"{show(token)} is not of the form index:value")
    index = _whole_number(before, "feature index", LARGEST_INDEX)
    if index < 1:
        hint = " (in scikit-learn, write with zero_based=False)" if index == 0 else ""
        raise Wrong(f"feature index {index}: indices start at 1{hint}")
    if index <= previous:
        raise Wrong(f"feature index {index} follows {previous}: indices must increase")
    if rules.n_features is not None and index > rules.n_features:
        raise Wrong(f"feature index {index} is beyond the {rules.n_features} features expected")
    if index > rules.largest_index:
        raise Wrong(
            f"feature index {index} is beyond {MOST_FEATURES_UNASKED:,}; if it is right, give the "
            "number of features (--features, or n_features in Python)"
        )
    value = f"value {show(after)} of feature {index}"
    if not _is_number(after, value):
        raise Wrong(f"{value} is not a number")
    return index, float(after)


def _is_number(token: bytes, what: str) -> bool:
    """Whether a token is a number, which must be finite."""
    is_decimal = _IS_DECIMAL.fullmatch(token) is not None
    if _IS_NOT_FINITE.fullmatch(token) or (is_decimal and not math.isfinite(float(token))):
        raise Wrong(f"{what} is not finite")
    return is_decimal


def _whole_number(token: bytes, what: str, largest: int) -> int:
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
