"""How well the labels of sequences were predicted: tokens, chunks, segments, whole sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.metrics.chunks import find_chunks, token_accuracy
from cutplane.metrics.quality import Measures, retrieved, share
from cutplane.metrics.segments import count_segments


class _Things:
    """Things of several kinds that sequences have: there, predicted, and right, by sequence."""

    def __init__(self, counts: Sequence[tuple[Counter[Any], Counter[Any], Counter[Any]]]) -> None:
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


def _tokens(y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> _Things:
    return _Things(
        [
            (
                Counter(own),
                Counter(other),
                Counter(a for a, b in zip(own, other, strict=True) if a == b),
            )
            for own, other in zip(y, predicted, strict=True)
        ]
    )


class TokenQuality:
    """Labels of tokens beside the right ones, and of chunks if labels mark any.

    Parameters
    ----------
    y, predicted : sequences of sequences of labels
    """

    unit = "sequences"

    def __init__(self, y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> None:
        token_accuracy(y, predicted)  # refuses what cannot be compared
        self.n_units = len(y)
        self._lengths = np.array([len(own) for own in y], dtype=np.float64)
        self._whole = np.array(
            [list(own) == list(other) for own, other in zip(y, predicted, strict=True)], dtype=float
        )
        self._tokens = _tokens(y, predicted)
        self._chunks = _chunks(y, predicted)

    def facts(self) -> dict[str, Any]:
        """Return how many sequences, tokens and chunks there are."""
        facts: dict[str, Any] = {
            "n_samples": self.n_units,
            "n_tokens": int(self._lengths.sum()),
            "per_label": self._tokens.rows("label", "tokens"),
        }
        if self._chunks is not None:
            right, found, there = self._chunks.at(np.ones(self.n_units))
            kinds = zip(
                ("all", *self._chunks.kinds), *map(_with_sum, (there, found, right)), strict=True
            )
            facts["chunks"] = [
                {"type": kind, "there": int(a), "predicted": int(b), "right": int(c)}
                for kind, a, b, c in kinds
            ]
        return facts

    def at(self, counts: Vector) -> Measures:
        """Return accuracies, and measures of each label and each type of chunk."""
        right, found, there = self._tokens.at(counts)
        measures: Measures = {
            "accuracy": share(right.sum(), there.sum()),
            "sequence_accuracy": float(counts @ self._whole / counts.sum()),
        }
        if self._chunks is not None:
            totals = map(_with_sum, self._chunks.at(counts))
            chunks = {name: np.nan_to_num(of) for name, of in retrieved(*totals).items()}
            measures |= {f"chunk_{name}": float(of[0]) for name, of in chunks.items()}
            measures["chunks"] = chunks
        return measures | {"per_label": retrieved(right, found, there)}


class SegmentQuality:
    """Labels of frames beside the right ones, and the segments that they make."""

    unit = "sequences"

    def __init__(self, y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> None:
        self.n_units = len(y)
        self._tokens = _tokens(y, predicted)
        pairs = zip(y, predicted, strict=True)
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


def _chunks(y: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> _Things | None:
    """Return the chunks that labels mark; None if they are labels of another kind."""
    try:
        marked = [
            (find_chunks(own), find_chunks(other)) for own, other in zip(y, predicted, strict=True)
        ]
    except ValueError:
        return None
    return _Things(
        [
            (
                Counter(chunk.type for chunk in own),
                Counter(chunk.type for chunk in other),
                Counter(chunk.type for chunk in set(own) & set(other)),
            )
            for own, other in marked
        ]
    )


def _with_sum(values: Vector) -> Vector:
    """Return the sum, and then the values."""
    return np.append(values.sum(), values)
