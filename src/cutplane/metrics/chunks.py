"""Chunks that labels mark, and how well predicted ones agree: counted as conlleval does.

A label is ``O``, for a token outside of all chunks, or a prefix and a type such as ``B-NP``:

    IOB1     I- inside; B- only where a chunk begins right behind another of its type
    IOB2     B- begins every chunk, I- goes on
    IOBES    B- begins, I- goes on, E- ends; S- is a chunk of one token

One reading covers all of them, and labels that break the rules too, which models predict: a chunk
goes on with I- or E- of its type, unless an E- or S- has ended it; any other label ends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

_PREFIXES = frozenset("BIES")


class Chunk(NamedTuple):
    """Tokens from ``begin`` up to and not including ``end`` that belong together."""

    begin: int
    end: int
    type: str


def find_chunks(labels: Sequence[str]) -> list[Chunk]:
    """Return the chunks that the labels of a sequence mark, in their order.

    Parameters
    ----------
    labels : sequence of str
        In IOB1, IOB2 or IOBES: ``O``, or ``B``, ``I``, ``E`` or ``S``, alone or followed by ``-``
        and a type.

    Raises
    ------
    ValueError
        If a label is none of these.

    Examples
    --------
    >>> find_chunks(["B-NP", "I-NP", "O", "B-VP"])
    [Chunk(begin=0, end=2, type='NP'), Chunk(begin=3, end=4, type='VP')]
    """
    chunks: list[Chunk] = []
    begin, inside = 0, ""  # an open chunk's first token, and its type after a dash
    for place, label in enumerate([*labels, "O"]):
        prefix, kind = _split(label)
        goes_on = inside and prefix in "IE" and kind == inside
        if inside and not goes_on:
            chunks.append(Chunk(begin, place, inside[1:]))
            inside = ""
        if prefix != "O" and not goes_on:
            begin, inside = place, kind
        if prefix in "ES":  # ends with this token
            chunks.append(Chunk(begin, place + 1, kind[1:]))
            inside = ""
    return chunks


def _split(label: str) -> tuple[str, str]:
    """Return the prefix, and a dash with the type: not empty, also for labels without a type."""
    label = str(label)
    prefix, _, kind = label.partition("-")
    if label != "O" and prefix not in _PREFIXES:
        raise ValueError(f"{label!r} is no label of a chunk: O, B-type, I-type, E-type or S-type")
    return prefix, f"-{kind}"


class ChunkCounts(NamedTuple):
    """How many chunks were there, how many were predicted, and how many of these are right.

    A chunk is right if its tokens and its type are exactly those of a chunk that is there.
    """

    there: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        """The share of predicted chunks that are right; 0 if none was predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of chunks that were found; 0 if there is none."""
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if both are."""
        total = self.there + self.predicted
        return 2.0 * self.right / total if total else 0.0


def count_chunks(
    y: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, ChunkCounts]:
    """Return the counts of each type of chunk, and of all together under ``""``.

    Parameters
    ----------
    y, predicted : list of sequences of labels
        The right labels, and those to be judged.
    """
    there, found, right = Counter[str](), Counter[str](), Counter[str]()
    for own, other in _pairs(y, predicted):
        chunks, guesses = find_chunks(own), find_chunks(other)
        there.update(chunk.type for chunk in chunks)
        found.update(chunk.type for chunk in guesses)
        right.update(chunk.type for chunk in set(chunks) & set(guesses))
    kinds = sorted({*there, *found})
    counts = {kind: ChunkCounts(there[kind], found[kind], right[kind]) for kind in kinds}
    return counts | {"": ChunkCounts(there.total(), found.total(), right.total())}


def sequence_accuracy(y: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of sequences whose labels are all right."""
    agreements = [list(own) == list(other) for own, other in _pairs(y, predicted)]
    return sum(agreements) / len(agreements)


def token_accuracy(y: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of tokens whose label is right."""
    right = [a == b for pair in _pairs(y, predicted) for a, b in zip(*pair, strict=True)]
    return sum(map(bool, right)) / len(right)


def _pairs(y: Sequence[Any], predicted: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(y) != len(predicted):
        raise ValueError(f"there are {len(y)} sequences, and {len(predicted)} predictions")
    for place, (own, other) in enumerate(zip(y, predicted, strict=True)):
        if len(own) != len(other):
            raise ValueError(f"sequence {place} has {len(own)} labels, its prediction {len(other)}")
    if not sum(map(len, y)):
        raise ValueError("there is no token to judge")
    return list(zip(y, predicted, strict=True))
