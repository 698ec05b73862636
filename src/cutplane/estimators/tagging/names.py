"""Tokens whose features have names, looked up many at a time.

The matrix is that of scikit-learn's `DictVectorizer`, which is what a fit keeps; only the way there
is shorter. Loops over names are those of Python's own compiled iterators, known names are found by
:mod:`cutplane.structured.vocabulary`: no dictionary and no counter is made for a token, and no
number becomes an object. Tokens come in pieces, so that strings are still in the processor's cache
when they are looked at again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import chain, compress, count, repeat
from operator import is_not, methodcaller
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer

from cutplane.structured.templates import as_csr
from cutplane.structured.vocabulary import Vocabulary, as_bytes

COLLECTIONS = (list, tuple, set, frozenset)

_NUMBERS = frozenset({bool, int, float, np.float64, np.float32, np.int64, np.int32})
# Tokens of a piece: with twenty names each, some 300 kB of strings.
_PIECE = 256

# As long as there is the vectorizer that they belong to.
_VOCABULARIES: WeakKeyDictionary[DictVectorizer, Vocabulary] = WeakKeyDictionary()


class _Unusual(Exception):
    """A token is of another kind than the usual ones: what it means is found out slowly."""


def transform_names(vectorizer: DictVectorizer, tokens: list[Any], *, fit: bool) -> Any:
    """Return the matrix of tokens that are dictionaries, or collections of strings.

    It is that of ``vectorizer.fit_transform`` or ``transform``, in canonical format: a string that
    occurs k times in a token counts k. A fit sets the names in order.
    """
    try:
        return _looked_up(vectorizer, tokens, fit=fit)
    except _Unusual:
        mappings = [
            _without_gaps(token, place)
            if isinstance(token, Mapping)
            else Counter(_strings(token, place))
            for place, token in enumerate(tokens)
        ]
    X = vectorizer.fit_transform(mappings) if fit else vectorizer.transform(mappings)
    X.sum_duplicates()
    return X


def _without_gaps(token: Any, place: int) -> Any:
    for name, value in token.items():
        if value is None:
            raise ValueError(
                f"feature {name!r} of token {place} is None: leave it out, or give it a number or "
                "a word"
            )
    return token


def _strings(token: Any, place: int) -> Any:
    if isinstance(token, COLLECTIONS) and all(isinstance(name, str) for name in token):
        return token
    raise ValueError(f"token {place} must be a dictionary or a list of strings, got {token!r}")


def _looked_up(vectorizer: DictVectorizer, tokens: list[Any], *, fit: bool) -> Any:
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    separator = vectorizer.separator

    def number(names: list[str], texts: list[str] | None = None) -> NDArray[np.int32]:
        """Return the numbers of names that may be new, perhaps with texts behind them."""
        if not set(map(type, names)) <= {str}:
            raise _Unusual
        joined = names if texts is None else map(separator.join, zip(names, texts, strict=True))
        return np.fromiter(map(numbers.__getitem__, joined), np.int32, len(names))

    def look_up(names: list[str], texts: list[str] | None = None) -> NDArray[np.int32]:
        """Return the same of names that are known, -1 for others."""
        try:
            behind = () if texts is None else (separator, texts)
            return _vocabulary(vectorizer).numbers_of(*as_bytes(names, *behind))
        except TypeError:  # a name is no string
            raise _Unusual from None

    pieces = (tokens[begin : begin + _PIECE] for begin in range(0, len(tokens), _PIECE))
    found = [_piece(piece, number if fit else look_up) for piece in pieces]
    columns = np.concatenate([columns for columns, _ in found])
    values = None
    if any(part is not None for _, part in found):
        values = np.concatenate([np.ones(len(k)) if x is None else x for k, x in found])
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    if fit:
        columns = _set_names(vectorizer, numbers)[columns]
    return as_csr(columns, values, starts, len(vectorizer.feature_names_))


def _vocabulary(vectorizer: DictVectorizer) -> Vocabulary:
    """Return the names of a vectorizer, ready to be looked up; made once."""
    known = _VOCABULARIES.get(vectorizer)
    if known is None or known.names is not vectorizer.feature_names_:
        known = _VOCABULARIES[vectorizer] = Vocabulary(vectorizer.feature_names_)
    return known


def _piece(
    tokens: list[Any], numbers_of: Callable[..., NDArray[np.int32]]
) -> tuple[NDArray[np.int32], NDArray[np.float64] | None]:
    """Return the columns of all names, and their values if these are not all one."""
    kinds = set(map(type, tokens))
    if kinds <= {*COLLECTIONS}:
        return numbers_of(list(chain.from_iterable(tokens))), None
    if not kinds <= {dict, Counter}:
        raise _Unusual
    names = list(chain.from_iterable(tokens))
    given = list(chain.from_iterable(map(methodcaller("values"), tokens)))
    kinds = set(map(type, given))
    if kinds <= {str}:
        return numbers_of(names, given), None
    if not kinds <= {str} | _NUMBERS:
        raise _Unusual
    number = np.fromiter(map(is_not, map(type, given), repeat(str)), np.bool_, len(given))
    text = ~number
    columns, values = np.empty(len(names), dtype=np.int32), np.ones(len(names))
    columns[text] = numbers_of([*compress(names, text)], [*compress(given, text)])
    columns[number] = numbers_of([*compress(names, number)])
    values[number] = np.fromiter(compress(given, number), np.float64)
    return columns, values


def _set_names(vectorizer: DictVectorizer, numbers: Mapping[str, int]) -> NDArray[np.int32]:
    """Give a vectorizer names in their order; return the places of those that have numbers."""
    names = sorted(numbers)
    places = np.empty(len(names), dtype=np.int32)
    places[[numbers[name] for name in names]] = np.arange(len(names), dtype=np.int32)
    vectorizer.feature_names_ = names
    vectorizer.vocabulary_ = {name: place for place, name in enumerate(names)}
    return places
