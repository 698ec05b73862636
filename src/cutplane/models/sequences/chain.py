"""Labeled sequences, and the scores of their labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import count_blocks, default_threads, map_blocks, run_blocks
from cutplane.models.sequences.loops import Indices, Labels, fill_worst, with_padding

# Enough to make groups of; more if there is work for more.
_LEAST_BLOCKS = 64
# Each block has sums of all pairs of labels. That many numbers are kept.
_MOST_SUMS = 1 << 22


class ChainScores(NamedTuple):
    """What the labels of a chain score: linear in the parameters."""

    emissions: Matrix  # (n_tokens, n_labels)
    transitions: Matrix  # (n_labels, n_labels), from a label (row) to the next one (column)
    start: Vector  # (n_labels,), of the first label of a sequence
    end: Vector  # (n_labels,), of the last one

    def moved(self, step: float, direction: ChainScores) -> ChainScores:
        """Return ``self + step * direction``."""
        emissions = np.empty_like(self.emissions)

        def block(i: slice) -> None:
            np.multiply(direction.emissions[i], step, out=emissions[i])
            emissions[i] += self.emissions[i]

        map_blocks(block, len(emissions), width=emissions.shape[1])
        rest = (own + step * other for own, other in zip(self[1:], direction[1:], strict=True))
        return ChainScores(emissions, *rest)

    def padded(self) -> ChainScores:
        """Return the scores with transitions from and to labels that nothing reaches."""
        return self._replace(transitions=with_padding(self.transitions, -np.inf))


class Blocks(NamedTuple):
    """Sequences, cut into blocks of work."""

    offsets: Indices  # sequence i has the tokens from offsets[i] to offsets[i + 1]
    bounds: Indices  # block k has the sequences from bounds[k] to bounds[k + 1]


class Chains:
    """Sequences of tokens, whose tokens lie behind each other, cut into blocks of work.

    ``offsets`` tells where each sequence begins, and where the last one ends; sequences may be
    empty. The number of threads has no influence on the results. By default there are enough blocks
    for many threads, and to make groups of.
    """

    def __init__(
        self,
        offsets: Any,
        n_labels: int,
        *,
        n_threads: int | None = None,
        n_blocks: int | None = None,
    ) -> None:
        offsets = np.asarray(offsets)
        if offsets.ndim != 1 or len(offsets) < 1:
            raise ValueError("offsets must be a vector: where sequences begin, and the last ends")
        self.offsets: Indices = offsets.astype(np.int64)
        if (self.offsets != offsets).any():
            raise ValueError("offsets must be whole numbers")
        self.lengths = np.diff(self.offsets)
        if self.offsets[0] != 0 or (self.lengths < 0).any():
            raise ValueError("offsets must begin with 0 and never fall")
        self.n_sequences = len(self.lengths)
        self.n_tokens = int(self.offsets[-1])
        self.n_labels = n_labels
        self.n_threads = default_threads() if n_threads is None else n_threads
        if n_blocks is None:
            work = self.n_tokens * n_labels * n_labels
            most = max(_MOST_SUMS // (n_labels * n_labels), 8)
            n_blocks = min(max(count_blocks(work), _LEAST_BLOCKS), most)
        self.n_blocks = min(n_blocks, self.n_sequences)
        self.bounds = self.cut(self.n_blocks)
        self.blocks = Blocks(self.offsets, self.bounds)

    @cached_property
    def firsts(self) -> Indices:
        """The first token of each sequence that has one."""
        return np.asarray(self.offsets[:-1][self.lengths > 0])

    @cached_property
    def lasts(self) -> Indices:
        """The last token of each sequence that has one."""
        return np.asarray(self.offsets[1:][self.lengths > 0] - 1)

    @cached_property
    def seconds(self) -> Indices:
        """All tokens but the first of each sequence: they have one before them."""
        follows = np.ones(self.n_tokens, dtype=np.bool_)
        follows[self.firsts] = False
        return np.flatnonzero(follows)

    def cut(self, n_pieces: int) -> Indices:
        """Return the sequences where pieces of about as many tokens begin, and where the last ends.

        Where sequences are long, some of the pieces are empty.
        """
        tokens = np.arange(1, n_pieces) * self.n_tokens // n_pieces
        inner = np.searchsorted(self.offsets[:-1], tokens)
        return np.concatenate(([0], inner, [self.n_sequences])).astype(np.int64)

    @cached_property
    def block_of(self) -> NDArray[np.int64]:
        """The block of each sequence."""
        return np.repeat(np.arange(self.n_blocks), np.diff(self.bounds))

    def sum_by_block(self, values: Vector) -> Vector:
        """Return the sums of a number for each sequence over the blocks."""
        return _sums(self.block_of, values, self.n_blocks)

    def count_pairs(self, labels: Labels, weights: Vector) -> NDArray[np.float64]:
        """Return for each block how often labels follow each other, weighted by sequence."""
        n, here = self.n_labels, self.seconds
        sequences = np.repeat(np.arange(self.n_sequences), np.maximum(self.lengths - 1, 0))
        pairs = (self.block_of[sequences] * n + labels[here - 1]) * n + labels[here]
        counts = _sums(pairs, weights[sequences], self.n_blocks * n * n)
        return counts.reshape(self.n_blocks, n, n)

    def run(self, kernel: Callable[..., None], *arguments: Any) -> None:
        """Call ``kernel(blocks, first, last, *arguments)`` on all blocks, on several threads."""
        run_blocks(
            lambda first, last: kernel(self.blocks, first, last, *arguments),
            self.n_blocks,
            n_threads=self.n_threads,
        )

    def worst(
        self, scores: ChainScores, y: Labels, margin: float
    ) -> tuple[Labels, Vector, NDArray[np.int64]]:
        """Return the labels with the largest ``score + margin * (number of mistakes)``.

        Also what each sequence scores more than ``y``, and its number of mistakes.
        """
        labels = np.empty(self.n_tokens, dtype=np.int32)
        gains, mistakes = np.empty(self.n_sequences), np.empty(self.n_sequences, dtype=np.int64)
        self.run(fill_worst, scores.padded(), y, margin, labels, gains, mistakes)
        return labels, gains, mistakes

    def best(self, scores: ChainScores) -> Labels:
        """Return the labels with the largest score."""
        return self.worst(scores, np.zeros(self.n_tokens, dtype=np.int32), 0.0)[0]


def _sums(places: NDArray[np.int64], values: Vector, n_places: int) -> Vector:
    """Return the sum of the values that belong to each place."""
    sums: Any = np.bincount(places, weights=values, minlength=n_places)
    return np.asarray(sums, dtype=np.float64)
