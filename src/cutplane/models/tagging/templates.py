"""Templates of features of tokens, and the vocabulary that they make.

Features of tokens from their columns, by templates as CRF++ has them.

A template is a line of text that begins with ``U``. Each ``%x[row,column]`` in it stands for a
word: that of the token so many rows on (or back, if negative), in this column, counted from 0. With
the words put in, the line is the name of a feature that the token has:

    U05:%x[-1,0]/%x[0,0]        U05:the/cat

Before the first token of a sequence stand ``_B-1``, ``_B-2``, ..., behind the last ``_B+1``, ... .
A line ``B`` asks for transitions from label to label, which `cutplane.SequenceTagger` always has.

Look up many names at once, in compiled code.

A dictionary of Python finds a name by way of four objects that lie anywhere in memory, and waits
for each. Here names are bytes behind each other, and numbers lie in a table with open addressing:
the processor looks several of them up at a time (docs/decisions/2026-11-18-structured-measured.md).

    key of a name = FNV-1a of its bytes in UTF-8;     slot = key, or the next one that is free
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, repeat
from operator import itemgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.compiled import njit

_MACRO = re.compile(r"%x\[(-?[0-9]{1,3}),([0-9]{1,3})\]")
_LARGEST_KEY = 1 << 62


def _window(column: int, rows: dict[int, str]) -> str:
    """Return templates for words of a column: numbered from each key on, rows joined by ``/``."""
    return "".join(
        f"U{number:02}:{'/'.join(f'%x[{row},{column}]' for row in one.split('/'))}\n"
        for first, several in rows.items()
        for number, one in enumerate(several.split(), start=first)
    )


_WORDS = _window(0, {0: "-2 -1 0 1 2 -1/0 0/1"})
_SECOND_COLUMN = _window(1, {10: "-2 -1 0 1 2 -2/-1 -1/0 0/1 1/2", 20: "-2/-1/0 -1/0/1 0/1/2"})

BUILT_IN = {"words": _WORDS, "chunking": _WORDS + _SECOND_COLUMN}
"""From a name to templates: words in a window; also a second column, as in CRF++'s example."""


class Template(NamedTuple):
    """A template, cut at its macros: ``texts[0] word[0] texts[1] word[1] ... texts[-1]``."""

    texts: tuple[str, ...]
    places: tuple[tuple[int, int], ...]  # the row of each word, relative to the token; its column


def parse_templates(text: str, source: str = "templates") -> list[Template]:
    """Return the templates in a text, or those of a name of `BUILT_IN`.

    There is one a line; lines that are empty or begin with ``#`` are left out. If a line is no
    template, the ValueError names the source of the text and the line.

    Examples
    --------
    >>> parse_templates("U1:%x[-1,0]")
    [Template(texts=('U1:', ''), places=((-1, 0),))]
    """
    templates = []
    for number, line in enumerate(BUILT_IN.get(text, text).split("\n"), start=1):
        line = line.strip(" \t\r")
        if not line or line.startswith("#") or line == "B":
            continue
        if not line.startswith("U"):
            what = "labels cannot depend on words and the label before, only B alone is known"
            what = what if line.startswith("B") else "a template begins with U"
            raise ValueError(f"{source}:{number}: {what}, got {line[:40]!r}")
        if "\r" in line:
            raise ValueError(f"{source}:{number}: a carriage return inside a line")
        texts = tuple(_MACRO.split(line)[::3])
        if any("%" in part for part in texts):
            raise ValueError(f"{source}:{number}: expected %x[row,column], got {line[:40]!r}")
        found = _MACRO.findall(line)
        templates.append(Template(texts, tuple((int(row), int(column)) for row, column in found)))
    if not templates:
        names = ", ".join(BUILT_IN)
        raise ValueError(f"{source}: no line is a template (known names are {names})")
    return templates


class TemplateVectorizer:
    """Makes a sparse matrix of the features that templates find: 1 where a token has a feature.

    Features that fewer than ``min_count`` tokens have are left out. ``feature_names_`` are the
    features in the order of the columns, and all that is kept of a fit.
    """

    def __init__(self, templates: Sequence[Template], *, min_count: int = 1) -> None:
        if min_count < 1:
            raise ValueError(f"min_count must be at least 1, got {min_count}")
        self.templates = list(templates)
        self.min_count = min_count
        places = [place for template in templates for place in template.places]
        self.n_columns = max((column + 1 for _, column in places), default=1)
        self._reach = max((abs(row) for row, _ in places), default=0)

    def fit_transform(self, tokens: Sequence[Sequence[str]], lengths: NDArray[np.int64]) -> Any:
        """Collect the features of all tokens, and return them as a CSR matrix.

        Tokens are lists of columns, sequence after sequence; ``lengths`` are those of sequences.
        """
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        found = self._find(
            tokens, lengths, lambda names: np.fromiter(map(numbers.__getitem__, names), np.int32)
        )
        kept = np.bincount(found.ravel(), minlength=len(numbers)) >= self.min_count
        if not kept.any():
            raise ValueError(f"no feature occurs min_count = {self.min_count} times")
        self.feature_names_ = [name for name, keep in zip(numbers, kept, strict=True) if keep]
        renumbered = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        return self._matrix(renumbered[found])

    def transform(self, tokens: Sequence[Sequence[str]], lengths: NDArray[np.int64]) -> Any:
        """Return the known features of tokens as a CSR matrix; others are left out."""
        known = vocabulary_of(self)
        return self._matrix(
            self._find(tokens, lengths, lambda names: known.numbers_of(*as_bytes([*names])))
        )

    def _find(
        self,
        tokens: Sequence[Sequence[str]],
        lengths: NDArray[np.int64],
        numbers_of: Callable[[Iterable[str]], NDArray[np.int32]],
    ) -> NDArray[np.int32]:
        """Return the number of the feature that each template finds at each token."""
        found = np.empty((len(tokens), len(self.templates)), dtype=np.int32)
        for k, (names, which) in enumerate(self._names(tokens, lengths)):
            found[:, k] = numbers_of(names)[which]
        return found

    def _names(
        self, tokens: Sequence[Sequence[str]], lengths: NDArray[np.int64]
    ) -> Iterator[tuple[Iterable[str], NDArray[np.int64]]]:
        """Yield for each template different names, and which of them each token has.

        Words become numbers at once, so that a name is made only once for all tokens that have it.
        """
        self._check(tokens)
        columns = [
            _Column(map(itemgetter(k), tokens), len(tokens), self._reach)
            for k in range(self.n_columns)
        ]
        begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
        ends = np.repeat(np.cumsum(lengths), lengths)
        for template in self.templates:
            shifted = [
                columns[column].shifted(row, begins, ends) for row, column in template.places
            ]
            examples, which = _distinct(shifted, len(tokens))
            first, *texts = template.texts
            parts: list[Iterable[str]] = [repeat(first, len(examples))]
            for numbers, (_, column), text in zip(shifted, template.places, texts, strict=True):
                parts += [columns[column].words_of(numbers[examples]), repeat(text)]
            yield map("".join, zip(*parts, strict=False)), which

    def _check(self, tokens: Sequence[Sequence[str]]) -> None:
        if (
            set(map(type, tokens)) <= {list, tuple}
            and set(map(type, chain.from_iterable(tokens))) <= {str}
            and min(map(len, tokens), default=self.n_columns) >= self.n_columns
        ):
            return
        for place, token in enumerate(tokens):
            if not isinstance(token, list | tuple) or not all(isinstance(x, str) for x in token):
                raise ValueError(f"token {place} must be a list of columns, got {token!r}")
            if len(token) < self.n_columns:
                raise ValueError(
                    f"token {place} has {len(token)} columns, the templates ask for "
                    f"{self.n_columns}"
                )

    def _matrix(self, found: NDArray[np.int32]) -> Any:
        """Return the matrix with a 1 for each feature of a row; negative ones are left out."""
        starts = np.arange(len(found) + 1, dtype=np.int64) * found.shape[1]
        # Templates without a name of their own may find the same feature: it counts twice.
        return as_csr(found.ravel(), None, starts, len(self.feature_names_))


def as_csr(
    columns: NDArray[np.int32],
    values: NDArray[np.float64] | None,
    starts: NDArray[np.int64],
    n_columns: int,
) -> Any:
    """Return a matrix in canonical format, without the entries whose column is negative.

    Row ``i`` has the entries from ``starts[i]`` on. All are 1 if there are no values; those of the
    same row and column are added up.
    """
    known = columns >= 0
    if not known.all():
        kept = np.concatenate([[0], np.cumsum(known)])
        starts, columns = kept[starts], columns[known]
        values = None if values is None else values[known]
    if values is None:
        values = np.ones(len(columns))
    few = starts[-1] <= np.iinfo(np.int32).max
    X = scipy.sparse.csr_matrix(
        (values, columns, starts.astype(np.int32) if few else starts),
        shape=(len(starts) - 1, n_columns),
    )
    X.sum_duplicates()  # sorts, too
    return X


class _Column:
    """The words of a column as numbers, and numbers for the words beyond a sequence's ends."""

    def __init__(self, words: Iterable[str], n_tokens: int, reach: int) -> None:
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._numbers = np.fromiter(map(numbers.__getitem__, words), np.int64, n_tokens)
        self._n_words, self._reach = len(numbers), reach
        beyond = [f"_B{sign}{row + 1}" for sign in "-+" for row in range(reach)]
        self._words = [*numbers, *beyond]

    def shifted(
        self, row: int, begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the number of the word that stands ``row`` rows on from each token."""
        place = np.arange(len(begins)) + row
        inside = (begins <= place) & (place < ends)
        # _B-1, _B-2, ... and then _B+1, _B+2, ..., behind all words.
        beyond = np.where(place < begins, begins - place - 1, self._reach + place - ends)
        return np.where(inside, self._numbers[np.where(inside, place, 0)], self._n_words + beyond)

    def words_of(self, numbers: NDArray[np.int64]) -> Iterator[str]:
        return map(self._words.__getitem__, numbers.tolist())


def _distinct(
    columns: list[NDArray[np.int64]], n_tokens: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a token for each different row of the columns, and which of them each token equals."""
    keys, size = np.zeros(n_tokens, dtype=np.int64), 1
    for column in columns:
        width = int(column.max()) + 1
        if size * width > _LARGEST_KEY:
            different, keys = np.unique(keys, return_inverse=True)
            size = len(different)
        keys, size = keys * width + column, size * width
    _, examples, which = np.unique(keys, return_index=True, return_inverse=True)
    return examples, which


Bytes = NDArray[np.uint8]
Slots = NDArray[np.uint64]


class Vocabulary:
    """The numbers of different names: their places in a list.

    Parameters
    ----------
    names : sequence of str
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._content, lengths = as_bytes(list(names))
        self._starts = np.zeros(len(names) + 1, dtype=np.int64)
        # Twice as many slots as names, or more: then hardly any search goes beyond the next slot.
        n_slots = 1 << max(2 * len(names), 2).bit_length()
        self._slots = np.zeros(n_slots, dtype=np.uint64)
        _insert(self._content, lengths, self._starts, self._slots)

    def numbers_of(self, content: Bytes, lengths: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of names as `as_bytes` gives them; -1 for those that are not known."""
        found = np.empty(len(lengths), dtype=np.int32)
        _look_up(content, lengths, self._content, self._starts, self._slots, found)
        return found


# As long as there is the vectorizer that they belong to.
_VOCABULARIES: WeakKeyDictionary[Any, Vocabulary] = WeakKeyDictionary()


def vocabulary_of(vectorizer: Any) -> Vocabulary:
    """Return the names of a vectorizer, ready to be looked up; made once."""
    known = _VOCABULARIES.get(vectorizer)
    if known is None or known.names is not vectorizer.feature_names_:
        known = _VOCABULARIES[vectorizer] = Vocabulary(vectorizer.feature_names_)
    return known


def as_bytes(strings: list[str]) -> tuple[Bytes, NDArray[np.int64]]:
    """Return strings in UTF-8, one behind the other, and the number of characters of each."""
    content = "".join(strings).encode("utf-8", "surrogatepass")
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    return np.frombuffer(content, dtype=np.uint8), lengths


@njit(cache=True, nogil=True)
def _name_at(content: Bytes, begin: Any, n_characters: int) -> tuple[Any, Any]:
    """Return where a name ends, and its key."""
    key, at = np.uint64(14695981039346656037), begin
    left = n_characters
    while at < np.uint64(len(content)):
        byte = content[at]
        if byte & 0xC0 != 0x80:  # the first byte of a character
            if left == 0:
                break
            left -= 1
        key = (key ^ np.uint64(byte)) * np.uint64(1099511628211)
        at += np.uint64(1)
    return at, key ^ (key >> np.uint64(32))


@njit(cache=True, nogil=True)
def _insert(
    content: Bytes, lengths: NDArray[np.int64], starts: NDArray[np.int64], slots: Slots
) -> None:
    """Fill in where names begin, and the slots: the upper half of a key, and a number plus one."""
    mask = np.uint64(len(slots) - 1)
    at = np.uint64(0)
    for number in range(len(lengths)):
        starts[number] = at
        at, key = _name_at(content, at, lengths[number])
        slot = key & mask
        while slots[slot] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (key >> np.uint64(32) << np.uint64(32)) | np.uint64(number + 1)
    starts[len(lengths)] = at


@njit(cache=True, nogil=True)
def _look_up(
    content: Bytes, lengths: NDArray[np.int64],
    known: Bytes, starts: NDArray[np.int64], slots: Slots, found: NDArray[np.int32],
) -> None:  # fmt: skip
    """Fill in the number of each name, -1 if it is not known."""
    mask, low = np.uint64(len(slots) - 1), np.uint64(0xFFFFFFFF)
    end = np.uint64(0)
    for i in range(len(lengths)):
        begin = end
        end, key = _name_at(content, begin, lengths[i])
        size = end - begin
        found[i] = -1
        slot = key & mask
        while slots[slot] != np.uint64(0):
            if slots[slot] >> np.uint64(32) == key >> np.uint64(32):
                number = (slots[slot] & low) - np.uint64(1)
                first = np.uint64(starts[number])
                if np.uint64(starts[number + np.uint64(1)]) - first == size:
                    k = np.uint64(0)
                    while k < size and known[first + k] == content[begin + k]:
                        k += np.uint64(1)
                    if k == size:
                        found[i] = number
                        break
            slot = (slot + np.uint64(1)) & mask
