"""Segments of sequences, such as phones, words or strokes: how far found ones are from the right.

A run of equal labels is one segment. Where it begins and ends does not matter here, only what
follows what: the measure is the error rate of speech recognition.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple


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
    pairs = [(_runs(true), _runs(found)) for true, found in zip(y, predicted, strict=True)]
    there = sum(len(true) for true, _ in pairs)
    return SegmentCounts(there, sum(edits(found, true) for true, found in pairs))


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


def _runs(labels: Sequence[Any]) -> list[Any]:
    return [label for label, _ in groupby(labels)]
