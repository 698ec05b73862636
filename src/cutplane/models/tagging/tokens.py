"""Sequences of tokens as users have them, brought into one matrix of tokens.

Accepted are a list of sequences, each an array, a CSR matrix, or a list of tokens that are
dictionaries or lists of strings; or all tokens concatenated, with ``lengths``.

Features with names are looked up many at a time. The matrix is that of scikit-learn's
`DictVectorizer`, which is what a fit keeps; only the way there is shorter. Loops over names are
those of Python's own compiled iterators, known names are found by
:mod:`cutplane.models.tagging.templates`: no dictionary and no counter is made for a token, and no
number becomes an object. Tokens come in pieces, so that strings are still in the processor's cache
when they are read again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, compress, count, repeat
from operator import is_not, methodcaller
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

from cutplane.estimators.description import weights_of
from cutplane.models.sequences.chain import Labels, tokens_of
from cutplane.models.tagging.templates import TemplateVectorizer, as_bytes, as_csr, vocabulary_of

COLLECTIONS = (list, tuple, set, frozenset)

_NUMBERS = frozenset({bool, int, float, np.float64, np.float32, np.int64, np.int32})
# Tokens of a piece: with twenty names each, some 300 kB of strings.
_PIECE = 256


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
        mappings: list[Mapping[Any, Any]] = []
        for place, token in enumerate(tokens):
            if isinstance(token, Mapping):
                gaps = [name for name, value in token.items() if value is None]
                if gaps:
                    raise ValueError(
                        f"feature {gaps[0]!r} of token {place} is None: leave it out, or give it a "
                        "number or a word"
                    ) from None
                mappings.append(token)
            elif isinstance(token, COLLECTIONS) and all(isinstance(name, str) for name in token):
                mappings.append(Counter(token))
            else:
                raise ValueError(
                    f"token {place} must be a dictionary or a list of strings, got {token!r}"
                ) from None
    X = vectorizer.fit_transform(mappings) if fit else vectorizer.transform(mappings)
    X.sum_duplicates()
    return X


def _looked_up(vectorizer: DictVectorizer, tokens: list[Any], *, fit: bool) -> Any:
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    separator = vectorizer.separator

    def number(names: list[str], texts: list[str] | None = None) -> NDArray[np.int32]:
        """Return the numbers of names, perhaps with texts behind them; -1 if not known."""
        if fit and not set(map(type, names)) <= {str}:
            raise _Unusual
        try:
            if texts is not None:
                names = list(map(separator.join, zip(names, texts, strict=True)))
            if not fit:
                return vocabulary_of(vectorizer).numbers_of(*as_bytes(names))
            return np.fromiter(map(numbers.__getitem__, names), np.int32, len(names))
        except TypeError:  # a name is no string
            raise _Unusual from None

    pieces = (tokens[begin : begin + _PIECE] for begin in range(0, len(tokens), _PIECE))
    found = [_piece(piece, number) for piece in pieces]
    columns = np.concatenate([columns for columns, _ in found])
    values = None
    if any(part is not None for _, part in found):
        values = np.concatenate([np.ones(len(k)) if x is None else x for k, x in found])
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    if fit:
        names = sorted(numbers)
        places = np.empty(len(names), dtype=np.int32)
        places[[numbers[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        give_names(vectorizer, names)
        columns = places[columns]
    return as_csr(columns, values, starts, len(vectorizer.feature_names_))


def give_names(vectorizer: DictVectorizer | TemplateVectorizer, names: list[str]) -> None:
    """Give a vectorizer the names of the columns, as a fit does."""
    vectorizer.feature_names_ = names
    if isinstance(vectorizer, DictVectorizer):
        vectorizer.vocabulary_ = {name: place for place, name in enumerate(names)}


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


class Tokens(NamedTuple):
    """The tokens of all sequences.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_tokens, n_features), or a list of tokens with names
    lengths : ndarray of shape (n_sequences,)
    flat : bool
        Whether they came as one matrix.
    """

    X: Any
    lengths: NDArray[np.int64]
    flat: bool

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where sequences begin, and the last ends."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @property
    def named(self) -> bool:
        """Whether tokens are dictionaries or lists of strings."""
        return isinstance(self.X, list)

    def share_of(self, right: NDArray[np.bool_], sample_weight: Any) -> float:
        """Return which share of the tokens is right, each with the weight of its sequence."""
        weights = weights_of(sample_weight, len(self.lengths))
        return float(np.average(right, weights=np.repeat(weights, self.lengths)))

    def some(self, n_sequences: int) -> Tokens:
        """Return at most ``n_sequences`` sequences, evenly spread, of a matrix of tokens."""
        chosen = np.arange(0, len(self.lengths), -(-len(self.lengths) // n_sequences))
        rows, _ = tokens_of(self.offsets, chosen)
        return Tokens(self.X[rows], self.lengths[chosen], self.flat)

    def vectorized(
        self, vectorizer: DictVectorizer | TemplateVectorizer, *, fit: bool, min_count: int = 1
    ) -> Tokens:
        """Return the tokens as rows of a matrix; names that were not there in a fit are left out.

        For templates, a token's strings are its columns. Without, a string that occurs k times in a
        token counts k, and a fit leaves out names that fewer than ``min_count`` tokens have.
        """
        if isinstance(vectorizer, TemplateVectorizer):
            vectorize = vectorizer.fit_transform if fit else vectorizer.transform
            return self._replace(X=vectorize(self.X, self.lengths))
        X = transform_names(vectorizer, self.X, fit=fit)
        if fit and min_count > 1:
            kept = np.bincount(X.indices, minlength=X.shape[1]) >= min_count
            if not kept.any():
                raise ValueError(f"no feature occurs min_count = {min_count} times")
            vectorizer.restrict(kept)
            X = X[:, kept]
        return self._replace(X=X)

    def like_input(self, values: NDArray[Any]) -> Any:
        """Return values of the tokens in the form the tokens came in."""
        if self.flat:
            return values
        return np.split(values, np.cumsum(self.lengths)[:-1]) if len(self.lengths) else []


def read_tokens(X: Any, lengths: Any) -> Tokens:
    """Return the tokens of ``X``; ValueError names the sequence that does not fit the others."""
    if lengths is not None:
        return _read_flat(X, lengths)
    if scipy.sparse.issparse(X) or getattr(X, "ndim", 1) == 2 or hasattr(X, "iloc"):
        raise ValueError("X is one matrix: say by lengths how many tokens each sequence has")
    if not isinstance(X, Sequence | np.ndarray) or isinstance(X, str):
        raise ValueError(f"X must be a list of sequences, got {type(X).__name__}")
    sequences = [_as_sequence(sequence, place) for place, sequence in enumerate(X)]
    sizes = np.array([_num_samples(sequence) for sequence in sequences], dtype=np.int64)
    filled = [place for place, size in enumerate(sizes) if size]
    matrices = [place for place in filled if not isinstance(sequences[place], list)]
    if len(matrices) < len(filled):
        if matrices:
            raise ValueError(
                f"sequence {matrices[0]} is a matrix, but others have tokens with named features"
            )
        return Tokens([*chain.from_iterable(sequences[place] for place in filled)], sizes, False)
    return Tokens(_stacked(sequences, filled), sizes, False)


def read_labels(y: Any, tokens: Tokens) -> NDArray[Any]:
    """Return the labels of all tokens, concatenated; ValueError if they are not as many."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    nested = isinstance(y, list | tuple) and len(y) > 0 and np.ndim(y[0]) == 1
    if tokens.flat and not nested:
        labels = np.asarray(column_or_1d(y, warn=True))
        n_tokens = int(tokens.lengths.sum())
        if len(labels) != n_tokens:
            raise ValueError(f"y has {len(labels)} labels, X has {n_tokens} tokens")
        return labels
    if len(y) != len(tokens.lengths):
        raise ValueError(f"y has {len(y)} sequences, X has {len(tokens.lengths)}")
    for place, (labels, size) in enumerate(zip(y, tokens.lengths, strict=True)):
        if np.ndim(labels) != 1:
            raise ValueError(f"y[{place}] must be a list of labels, got {labels!r}")
        if len(labels) != size:
            raise ValueError(f"sequence {place} has {size} tokens, but {len(labels)} labels")
    filled = [np.asarray(labels) for labels in y if len(labels)]
    return np.concatenate(filled) if filled else np.empty(0)


def numbered(labels: NDArray[Any], counted: NDArray[np.bool_]) -> tuple[NDArray[Any], Labels]:
    """Return the different labels of those that count, sorted, and the number of each label.

    Labels that do not count may be any.
    """
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
    classes = np.unique(labels[counted])
    return classes, (np.searchsorted(classes, labels) % max(len(classes), 1)).astype(np.int32)


def _read_flat(X: Any, lengths: Any) -> Tokens:
    sizes = np.asarray(lengths)
    if sizes.ndim != 1 or not np.issubdtype(sizes.dtype, np.integer) or (sizes < 0).any():
        raise ValueError("lengths must be a list of whole numbers, none of them negative")
    if _is_named(X):
        X = list(X)
    elif not hasattr(X, "shape"):
        X = np.asarray(X)
    n_tokens = _num_samples(X)
    if n_tokens != sizes.sum():
        raise ValueError(f"lengths sum to {sizes.sum()}, X has {n_tokens} tokens")
    return Tokens(X, sizes.astype(np.int64), True)


def _as_sequence(sequence: Any, place: int) -> Any:
    """Return a sparse matrix, an array, or a list of tokens with names."""
    if scipy.sparse.issparse(sequence):
        return sequence
    if _is_named(sequence):
        return list(sequence)
    try:
        array = np.asarray(sequence)
    except ValueError:  # rows of different lengths
        raise ValueError(
            f"the tokens of sequence {place} have different numbers of features"
        ) from None
    if array.size == 0 and array.ndim < 2:
        return np.empty((0, 0))
    if array.ndim != 2:
        raise ValueError(
            f"sequence {place} must be a matrix with one row per token, or a list of tokens that "
            f"are dictionaries or lists of strings; got an array of shape {array.shape}"
        )
    return array


def _is_named(sequence: Any) -> bool:
    """Say whether tokens are dictionaries, or collections of strings."""
    if not isinstance(sequence, Sequence) or isinstance(sequence, str) or not len(sequence):
        return False
    # A token may be empty: the first one that is not tells.
    token = next((each for each in sequence if not isinstance(each, COLLECTIONS) or each), None)
    if isinstance(token, Mapping):
        return True
    return isinstance(token, COLLECTIONS) and isinstance(next(iter(token)), str)


def _stacked(sequences: list[Any], filled: list[int]) -> Any:
    """Return one matrix; sequences without tokens need not say how many features they have."""
    if not filled:
        return np.empty((0, 0))
    widths = {place: sequences[place].shape[1] for place in filled}
    for place, width in widths.items():
        if width != widths[filled[0]]:
            raise ValueError(
                f"sequence {place} has {width} features, sequence {filled[0]} has "
                f"{widths[filled[0]]}"
            )
    parts = [sequences[place] for place in filled]
    if any(scipy.sparse.issparse(part) for part in parts):
        return scipy.sparse.vstack(parts, format="csr")
    return np.vstack([check_array(part, dtype=(np.float64, np.float32)) for part in parts])
