"""How well labels of sequences were predicted: tokens, chunks, segments, whole sequences.

Chunks are counted as conlleval does. A label is ``O``, for a token outside of all chunks, or a
prefix and a type such as ``B-NP``:

    IOB1     I- inside; B- only where a chunk begins right behind another of its type
    IOB2     B- begins every chunk, I- goes on
    IOBES    B- begins, I- goes on, E- ends; S- is a chunk of one token

One reading covers all of them, and labels that break the rules too, which models predict: a chunk
goes on with I- or E- of its type, unless an E- or S- has ended it; any other label ends it.

A segment, such as a phone, a word or a stroke, is a run of equal labels. Where it begins and ends
does not matter here, only what follows what: the measure is the error rate of speech recognition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.metrics.measures import Measures, retrieved, share

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
    chunks = _Things(_pairs(y, predicted), find_chunks)
    all_together, *each = _counts_of(chunks)
    return {**dict(zip(chunks.kinds, each, strict=True)), "": all_together}


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


class SegmentCounts(NamedTuple):
    """How many segments are there, and how many were inserted, left out or mistaken."""

    there: int
    wrong: int

    @property
    def error_rate(self) -> float:
        """Wrong segments for each that is there; above 1 if many were inserted."""
        return self.wrong / self.there


def count_segments(y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> SegmentCounts:
    """Compare the segments that labels of frames mark, sequence by sequence.

    Examples
    --------
    >>> count_segments([["a", "a", "b", "b", "c"]], [["a", "b", "b", "b", "b"]])
    SegmentCounts(there=3, wrong=1)
    """
    there = wrong = 0
    for pair in zip(y, predicted, strict=True):
        true, found = ([label for label, _ in groupby(labels)] for labels in pair)
        there, wrong = there + len(true), wrong + edits(found, true)
    return SegmentCounts(there, wrong)


def edits(found: Sequence[Any], true: Sequence[Any]) -> int:
    """Return how many items were inserted, left out or mistaken: Levenshtein's distance."""
    costs: list[int] = [*range(len(found) + 1)]
    for i, expected in enumerate(true, 1):
        diagonal, costs[0] = costs[0], i
        for j, item in enumerate(found, 1):
            diagonal, costs[j] = (
                costs[j],
                min(costs[j] + 1, costs[j - 1] + 1, diagonal + (item != expected)),
            )
    return costs[-1]


class _Things:
    """Things of several kinds that sequences have: there, predicted, and right, by sequence.

    ``things_of`` tells those of a sequence's labels, all different and each with its kind at last.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Any, Any]],
        things_of: Callable[[Any], Iterable[tuple[Any, ...]]],
    ) -> None:
        counts = []
        for own, other in pairs:
            there, found = set(things_of(own)), set(things_of(other))
            counts.append(
                [Counter(thing[-1] for thing in some) for some in (there, found, there & found)]
            )
        kinds = {kind for there, found, _ in counts for kind in (*there, *found)}
        self.kinds = sorted(kinds, key=lambda kind: (str(type(kind)), kind))
        self.there, self.found, self.right = (
            np.array([[own[part][kind] for kind in self.kinds] for own in counts], dtype=np.float64)
            for part in range(3)
        )

    def rows(self, name: str, counted: str) -> list[dict[str, Any]]:
        """Return each kind, and how often it is there."""
        totals = self.there.sum(axis=0).astype(np.int64).tolist()
        return [
            {name: kind, counted: total} for kind, total in zip(self.kinds, totals, strict=True)
        ]

    def at(self, counts: Vector) -> tuple[Vector, Vector, Vector]:
        """Return how many are right, predicted and there, of each kind."""
        return counts @ self.right, counts @ self.found, counts @ self.there


def _counts_of(chunks: _Things) -> list[ChunkCounts]:
    """Return how many chunks there are of all types together, and of each."""
    totals = np.array([part.sum(axis=0) for part in (chunks.there, chunks.found, chunks.right)])
    totals = np.column_stack([totals.sum(axis=1), totals]).astype(np.int64)
    return [ChunkCounts(*counts) for counts in totals.T.tolist()]


class TokenQuality:
    """Labels of tokens beside the right ones, and of chunks if labels mark any.

    Parameters
    ----------
    y, predicted : sequences of sequences of labels
    """

    unit = "sequences"

    def __init__(self, y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> None:
        pairs = _pairs(y, predicted)
        self.n_units = len(y)
        self._lengths = np.array([len(own) for own in y], dtype=np.float64)
        self._whole = np.array([list(own) == list(other) for own, other in pairs], dtype=np.float64)
        self._tokens = _Things(pairs, enumerate)
        try:
            self._chunks: _Things | None = _Things(pairs, find_chunks)
        except ValueError:  # labels of another kind
            self._chunks = None

    def facts(self) -> dict[str, Any]:
        """Return how many sequences, tokens and chunks there are."""
        facts: dict[str, Any] = {
            "n_samples": self.n_units,
            "n_tokens": int(self._lengths.sum()),
            "per_label": self._tokens.rows("label", "tokens"),
        }
        if self._chunks is not None:
            kinds = zip(("all", *self._chunks.kinds), _counts_of(self._chunks), strict=True)
            facts["chunks"] = [{"type": kind, **counts._asdict()} for kind, counts in kinds]
        return facts

    def at(self, counts: Vector) -> Measures:
        """Return accuracies, and measures of each label and each type of chunk."""
        right, found, there = self._tokens.at(counts)
        measures: Measures = {
            "accuracy": share(right.sum(), there.sum()),
            "sequence_accuracy": float(counts @ self._whole / counts.sum()),
        }
        if self._chunks is not None:
            totals = (np.append(part.sum(), part) for part in self._chunks.at(counts))
            chunks = {name: np.nan_to_num(of) for name, of in retrieved(*totals).items()}
            measures |= {f"chunk_{name}": float(of[0]) for name, of in chunks.items()}
            measures["chunks"] = chunks
        return measures | {"per_label": retrieved(right, found, there)}


class SegmentQuality:
    """Labels of frames beside the right ones, and the segments that they make."""

    unit = "sequences"

    def __init__(self, y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> None:
        self.n_units = len(y)
        pairs = list(zip(y, predicted, strict=True))
        self._tokens = _Things(pairs, enumerate)
        segments: Matrix = np.array(
            [count_segments([a], [b]) for a, b in pairs], dtype=np.float64
        ).reshape(-1, 2)
        self._there, self._wrong = segments.T

    def facts(self) -> dict[str, Any]:
        """Return how many sequences, frames and segments there are."""
        return {
            "n_samples": self.n_units,
            "n_frames": int(self._tokens.there.sum()),
            "n_segments": int(self._there.sum()),
            "per_label": self._tokens.rows("label", "frames"),
        }

    def at(self, counts: Vector) -> Measures:
        """Return how many frames are right, and how far segments are from the right ones."""
        right, found, there = self._tokens.at(counts)
        return {
            "accuracy": share(right.sum(), there.sum()),
            "segment_error_rate": share(counts @ self._wrong, counts @ self._there),
            "per_label": retrieved(right, found, there),
        }
