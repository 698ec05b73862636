"""Tokens whose features have names, looked up all at once.

The matrix is that of scikit-learn's `DictVectorizer`, which is what a fit keeps; only the way there
is shorter. A name costs one look-up in a dictionary, called from compiled loops of Python's own: no
dictionary and no counter is made for a token, and no number becomes an object.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count, repeat
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer

from cutplane.structured.templates import as_csr

COLLECTIONS = (list, tuple, set, frozenset)

# Values that are what they are equal to: a number of another of these types means the same.
_PLAIN = frozenset(
    {str, bool, int, float, type(None), np.str_, np.float64, np.float32, np.int64, np.int32}
)


def transform_names(vectorizer: DictVectorizer, tokens: list[Any], *, fit: bool) -> Any:
    """Return the matrix of tokens that are dictionaries, or collections of strings.

    It is that of ``vectorizer.fit_transform`` or ``transform``, in canonical format: a string that
    occurs k times in a token counts k. A fit sets the names in order.
    """
    kinds = set(map(type, tokens))
    if any(not issubclass(kind, Mapping) for kind in kinds):
        if all(issubclass(kind, COLLECTIONS) for kind in kinds) and _all_strings(tokens):
            return _of_strings(vectorizer, tokens, fit=fit)
        tokens = [
            token if isinstance(token, Mapping) else Counter(_strings(token, place))
            for place, token in enumerate(tokens)
        ]
    if _all_plain(tokens):
        return _of_dictionaries(vectorizer, tokens, fit=fit)
    # Lists as values, or keys that are no strings: rare, and scikit-learn knows what they mean.
    X = vectorizer.fit_transform(tokens) if fit else vectorizer.transform(tokens)
    X.sum_duplicates()
    return X


def _all_strings(tokens: list[Any]) -> bool:
    kinds = set(map(type, chain.from_iterable(tokens)))
    return all(issubclass(kind, str) for kind in kinds)


def _all_plain(tokens: list[Any]) -> bool:
    """Say whether all keys are strings, and all values strings or numbers of the usual kinds."""
    values = chain.from_iterable(map(methodcaller("values"), tokens))
    return set(map(type, chain.from_iterable(tokens))) <= {str} and set(map(type, values)) <= _PLAIN


def _strings(token: Any, place: int) -> Any:
    if isinstance(token, COLLECTIONS) and all(isinstance(name, str) for name in token):
        return token
    raise ValueError(f"token {place} must be a dictionary or a list of strings, got {token!r}")


def _of_strings(vectorizer: DictVectorizer, tokens: list[Any], *, fit: bool) -> Any:
    starts = _starts(tokens)
    names = chain.from_iterable(tokens)
    if fit:
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        found = np.fromiter(map(numbers.__getitem__, names), np.int32, starts[-1])
        found = _sorted_names(vectorizer, numbers)[found]
    else:
        look_up = vectorizer.vocabulary_.get
        found = np.fromiter(map(look_up, names, repeat(-1)), np.int32, starts[-1])
    return as_csr(found, None, starts, len(vectorizer.feature_names_))


def _of_dictionaries(vectorizer: DictVectorizer, tokens: list[Any], *, fit: bool) -> Any:
    starts = _starts(tokens)
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    known = vectorizer.vocabulary_ if not fit else {}
    look_up = numbers.__getitem__ if fit else lambda name: known.get(name, -1)
    features = _Features(look_up, vectorizer.separator)
    items: Iterable[tuple[str, Any]] = chain.from_iterable(map(methodcaller("items"), tokens))
    places = np.fromiter(map(features.__getitem__, items), np.int64, starts[-1])
    columns = np.frombuffer(features.columns, dtype=np.int32)
    if fit:
        columns = _sorted_names(vectorizer, numbers)[columns]
    values = np.frombuffer(features.values_, dtype=np.float64)
    return as_csr(columns[places], values[places], starts, len(vectorizer.feature_names_))


class _Features(dict[tuple[str, Any], int]):
    """From a key and its value to a feature, by the place of its column and of its number."""

    def __init__(self, look_up: Callable[[str], int], separator: str) -> None:
        self._look_up, self._separator = look_up, separator
        self.columns, self.values_ = array("i"), array("d")

    def __missing__(self, item: tuple[str, Any]) -> int:
        name, value = item
        place = len(self.columns)
        if isinstance(value, str):
            name, value = f"{name}{self._separator}{value}", 1.0
        if not isinstance(value, float) or value == 1.0:  # other numbers may all be different
            self[item] = place
        self.columns.append(self._look_up(name))
        self.values_.append(np.float64(value))
        return place


def _starts(tokens: list[Any]) -> NDArray[np.int64]:
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    return np.concatenate([[0], np.cumsum(lengths)])


def _sorted_names(vectorizer: DictVectorizer, numbers: Mapping[str, int]) -> NDArray[np.int32]:
    """Give a vectorizer names in their order; return the places of those that have numbers."""
    names = sorted(numbers)
    places = np.empty(len(names), dtype=np.int32)
    places[[numbers[name] for name in names]] = np.arange(len(names), dtype=np.int32)
    vectorizer.feature_names_ = names
    vectorizer.vocabulary_ = {name: place for place, name in enumerate(names)}
    return places
