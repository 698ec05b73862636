"""Labeled sequences, the scores of their labels, and the best labels by Viterbi's algorithm.

A sequence of n tokens with labels ``y_1 .. y_n`` out of L has the score

    score(y) = start[y_1] + sum_t S[t, y_t] + sum_t T[y_t-1, y_t] + end[y_n]

The program takes L^2 steps per token. Its inner loop runs along rows of a matrix that is padded to
`padded(L)` columns, so that whole vectors fit. `Chains.run` calls the compiled loops for the blocks
from ``first_block`` up to and not including ``last_block``.

The n best label sequences are found by list Viterbi with deviations. Viterbi's algorithm knows, for
each token and label, the best labels before it. So a sequence of labels is described by where it
deviates from them, read from its end: the best one of all deviates nowhere, and any other has one
parent, the sequence without its earliest deviation. If it deviates at token t to the label a, where
the parent has p and both go on with f, it scores less by

    (best[t, p] + T[p, f]) - (best[t, a] + T[a, f])  >=  0

The next best is always a child of one that was found. So n of them cost the L^2 steps per token of
one Viterbi pass and another L for each, and no memory beyond that pass but a list of n candidates.
(The idea is that of the serial list Viterbi algorithm: N. Seshadri, C.-E. Sundberg, IEEE
Transactions on Communications, 1994.) What a sequence scores less than the best is a sum of such
differences, none of them negative: long sequences and large scores leave the order exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import count_blocks
from cutplane.compute.compiled import njit
from cutplane.compute.threads import default_threads, map_blocks, run_blocks

Indices = NDArray[np.int64]
Labels = NDArray[np.int32]


def padded(n_labels: int) -> int:
    """Return the number of columns that rows of ``n_labels`` numbers are given."""
    return -(-n_labels // 8) * 8 if n_labels > 4 else n_labels


def tokens_of(offsets: Indices, chosen: Indices) -> tuple[Indices, Indices]:
    """Return the tokens of some sequences, one after the other, and the offsets that they have."""
    lengths = np.diff(offsets)[chosen]
    own = np.concatenate([[0], np.cumsum(lengths)])
    return np.repeat(offsets[chosen] - own[:-1], lengths) + np.arange(own[-1]), own


def cut(offsets: Indices, n_pieces: int) -> Indices:
    """Return the sequences where pieces of about as many tokens begin, and where the last ends.

    Where sequences are long, some of the pieces are empty.
    """
    tokens = np.arange(1, n_pieces) * offsets[-1] // n_pieces
    inner = np.searchsorted(offsets[:-1], tokens)
    return np.concatenate(([0], inner, [len(offsets) - 1])).astype(np.int64)


@njit(cache=True, nogil=True)
def longest_in(offsets: Indices, first: int, last: int) -> int:
    """Return the length of the longest of some sequences, at least 1."""
    longest = 1
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@njit(cache=True, nogil=True)
def _gain(scores: ChainScores, y: Labels, labels: Labels, i0: int, i1: int) -> float:
    """Return ``score(labels) - score(y)`` of the tokens from i0 to i1, as a sum of differences."""
    if i0 == i1:
        return 0.0
    S, T, start, end = scores
    total: float = start[labels[i0]] - start[y[i0]]
    for t in range(i0, i1):
        if labels[t] != y[t]:
            total += S[t, labels[t]] - S[t, y[t]]
        if t > i0 and (labels[t] != y[t] or labels[t - 1] != y[t - 1]):
            total += T[labels[t - 1], labels[t]] - T[y[t - 1], y[t]]
    total += end[labels[i1 - 1]] - end[y[i1 - 1]]
    return total


@njit(cache=True, nogil=True)
def fill_gains(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, labels: Labels, gains: Vector,
) -> None:  # fmt: skip
    """Fill in ``score(labels) - score(y)`` of each sequence."""
    offsets, bounds = blocks
    for i in range(bounds[first_block], bounds[last_block]):
        gains[i] = _gain(scores, y, labels, offsets[i], offsets[i + 1])


@njit(cache=True, nogil=True)
def reach_labels(
    scores: ChainScores, y: Labels, margin: float, i0: int, i1: int, best: Matrix, reach: Vector
) -> None:
    """Fill in the largest ``score + margin * (number of mistakes)`` up to each token and label.

    Row ``t`` of ``best`` is for token ``i0 + t``, and relative: a number may be added to all of it.
    Its columns beyond the labels must be minus infinity. ``reach`` is room for one more row.
    """
    S, T, start, _ = scores
    n_labels, width = S.shape[1], T.shape[1]
    fours = n_labels // 4 * 4
    for b in range(n_labels):
        best[0, b] = S[i0, b] + start[b] + margin
    best[0, y[i0]] -= margin
    for t in range(1, i1 - i0):
        # Relative to the largest, so that the sums of long sequences keep their last digits.
        top = best[t - 1, 0]
        for a in range(1, n_labels):
            top = max(top, best[t - 1, a])
        for b in range(width):
            reach[b] = -np.inf
        for a in range(0, fours, 4):
            s0, s1 = best[t - 1, a] - top, best[t - 1, a + 1] - top
            s2, s3 = best[t - 1, a + 2] - top, best[t - 1, a + 3] - top
            for b in range(width):
                u0, u1 = s0 + T[a, b], s1 + T[a + 1, b]
                u2, u3 = s2 + T[a + 2, b], s3 + T[a + 3, b]
                v0 = u0 if u0 > u1 else u1
                v1 = u2 if u2 > u3 else u3
                v = v0 if v0 > v1 else v1
                reach[b] = v if v > reach[b] else reach[b]
        for a in range(fours, n_labels):
            s = best[t - 1, a] - top
            for b in range(width):
                v = s + T[a, b]
                reach[b] = v if v > reach[b] else reach[b]
        for b in range(n_labels):
            best[t, b] = reach[b] + (S[i0 + t, b] + margin)
        best[t, y[i0 + t]] = reach[y[i0 + t]] + S[i0 + t, y[i0 + t]]


@njit(cache=True, nogil=True)
def trace_back(best: Matrix, backward: Matrix, i0: int, t: int, labels: Labels) -> None:
    """Fill in the best labels before token ``i0 + t``, given its own; the first if several are."""
    n_labels = len(backward)
    label = labels[i0 + t]
    for s in range(t, 0, -1):
        following, label, height = label, 0, -np.inf
        for a in range(n_labels):
            v = best[s - 1, a] + backward[following, a]
            if v > height:
                label, height = a, v
        labels[i0 + s - 1] = label


class Buffers(NamedTuple):
    """Memory for the search of the best labels of a sequence, and transitions by the next label."""

    best: Matrix
    reach: Vector
    backward: Matrix


@njit(cache=True, nogil=True)
def buffers_for(longest: int, n_labels: int, width: int) -> Buffers:
    """Return buffers for sequences up to a length; rows of transitions are this wide."""
    best = np.full((longest, width), -np.inf)
    return Buffers(best, np.empty(width), np.empty((n_labels, n_labels)))


@njit(cache=True, nogil=True)
def find_best(
    scores: ChainScores, y: Labels, margin: float, i0: int, i1: int, buffers: Buffers,
    labels: Labels,
) -> None:  # fmt: skip
    """Fill in the labels with the largest ``score + margin * (number of mistakes)``.

    The sequence is not empty, and transitions are in ``buffers.backward``.
    """
    best, reach, backward = buffers
    reach_labels(scores, y, margin, i0, i1, best, reach)
    label, height, end = 0, -np.inf, scores.end
    for b in range(len(end)):
        if best[i1 - i0 - 1, b] + end[b] > height:  # the first one, if several are the best
            label, height = b, best[i1 - i0 - 1, b] + end[b]
    labels[i1 - 1] = label
    trace_back(best, backward, i0, i1 - i0 - 1, labels)


@njit(cache=True, nogil=True)
def fill_worst(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, margin: float,
    labels: Labels, gains: Vector, mistakes: Indices,
) -> None:  # fmt: skip
    """Fill in the labels with the largest ``score(labels) + margin * (number of mistakes)``.

    Also what they score more than ``y``, and their mistakes. Transitions are padded with -inf.
    """
    offsets, bounds = blocks
    n_labels, width = scores.emissions.shape[1], scores.transitions.shape[1]
    first, last = bounds[first_block], bounds[last_block]
    buffers = buffers_for(longest_in(offsets, first, last), n_labels, width)
    buffers.backward[:] = scores.transitions[:n_labels, :n_labels].T
    for i in range(first, last):
        i0, i1 = offsets[i], offsets[i + 1]
        if i0 == i1:
            gains[i], mistakes[i] = 0.0, 0
            continue
        find_best(scores, y, margin, i0, i1, buffers, labels)
        wrong = 0
        for t in range(i0, i1):
            if labels[t] != y[t]:
                wrong += 1
        gain = _gain(scores, y, labels, i0, i1)
        if margin > 0.0 and gain + margin * wrong < 0.0:  # by rounding only: y itself is as good
            labels[i0:i1], gain, wrong = y[i0:i1], 0.0, 0
        gains[i], mistakes[i] = gain, wrong


# Enough to make groups of; more if there is work for more.
_LEAST_BLOCKS = 64
# Each block has sums of all pairs of labels. That many numbers are kept.
_MOST_SUMS = 1 << 22


class ChainScores(NamedTuple):
    """What the labels of a chain score: linear in the parameters."""

    emissions: Annotated[Matrix, "f8[t, l] | f4[t, l]"]  # of tokens and labels
    transitions: Annotated[Matrix, "f8[l, l]"]  # from a label (row) to the next one (column)
    start: Annotated[Vector, "f8[l]"]  # of the first label of a sequence
    end: Annotated[Vector, "f8[l]"]  # of the last one

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
        n, width = len(self.start), padded(len(self.start))
        transitions = np.full((width, width), -np.inf)  # np.pad is slow, for each piece
        transitions[:n, :n] = self.transitions
        return self._replace(transitions=transitions)


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
        self.bounds = cut(self.offsets, self.n_blocks)
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

    @cached_property
    def block_of(self) -> NDArray[np.int64]:
        """The block of each sequence."""
        return np.repeat(np.arange(self.n_blocks), np.diff(self.bounds))

    def sum_by_block(self, values: Vector) -> Vector:
        """Return the sums of a number for each sequence over the blocks."""
        sums = np.bincount(self.block_of, values, self.n_blocks)
        return sums.astype(np.float64, copy=False)  # without values NumPy counts in integers

    def count_pairs(self, labels: Labels, weights: Vector) -> NDArray[np.float64]:
        """Return for each block how often labels follow each other, weighted by sequence."""
        n, here = self.n_labels, self.seconds
        sequences = np.repeat(np.arange(self.n_sequences), np.maximum(self.lengths - 1, 0))
        pairs = (self.block_of[sequences] * n + labels[here - 1]) * n + labels[here]
        counts = np.bincount(pairs, weights[sequences], self.n_blocks * n * n)
        return counts.astype(np.float64, copy=False).reshape(self.n_blocks, n, n)

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


class NBest(NamedTuple):
    """The best labels of sequences, the best first.

    Of those that score the same, the one comes first whose label is the lower where they differ
    last.
    """

    labels: Labels  # (n, n_tokens): row k has rank k of all sequences behind each other
    counts: Indices  # (n_sequences,): fewer than n if a sequence has no more
    top_scores: Vector  # (n_sequences,), of rank 0
    behind: Matrix  # (n_sequences, n): what each scores less than rank 0


def n_best(chains: Chains, scores: ChainScores, n: int) -> NBest:
    """Return the ``n`` label sequences of each chain with the largest scores."""
    longest = int(chains.lengths.max(initial=0))
    n = min(n, chains.n_labels**longest)  # whole numbers of Python: it may be a very large one
    found = NBest(
        labels=np.empty((n, chains.n_tokens), dtype=np.int32),
        counts=np.empty(chains.n_sequences, dtype=np.int64),
        top_scores=np.empty(chains.n_sequences),
        behind=np.empty((chains.n_sequences, n)),
    )
    no_mistakes = np.zeros(chains.n_tokens, dtype=np.int32)
    chains.run(_fill_n_best, scores.padded(), no_mistakes, found)
    return found


@njit(cache=True, nogil=True)
def _comes_first(child: Indices, other: Indices, tree: Indices, labels: Labels, i0: int) -> bool:
    """Say which of two children comes first if they score the same: see `NBest`.

    A child is told by three numbers: its parent, the place where it deviates, and to which label.
    """
    while child[0] != other[0]:  # the later one cannot be an ancestor of the other
        if child[0] > other[0]:
            child = tree[child[0]]
        else:
            other = tree[other[0]]
    if child[1] == other[1]:
        return bool(child[2] < other[2])
    if child[1] > other[1]:
        return bool(child[2] < labels[child[0], i0 + child[1]])
    return bool(labels[child[0], i0 + other[1]] < other[2])


@njit(cache=True, nogil=True)
def _line_up(
    loss: float, child: Indices, waiting: int, wanted: int, losses: Vector, children: Indices,
    tree: Indices, labels: Labels, i0: int,
) -> int:  # fmt: skip
    """Put a child in its place among those that wait, and return how many wait then."""
    j = waiting
    while j > 0 and loss <= losses[j - 1]:
        if loss == losses[j - 1] and not _comes_first(child, children[j - 1], tree, labels, i0):
            break
        j -= 1
    if j == wanted:
        return waiting
    waiting = min(waiting + 1, wanted)
    for m in range(waiting - 1, j, -1):
        losses[m] = losses[m - 1]
        for c in range(3):
            children[m, c] = children[m - 1, c]
    losses[j] = loss
    for c in range(3):
        children[j, c] = child[c]
    return waiting


@njit(cache=True, nogil=True)
def _fill_n_best(
    blocks: Blocks, first_block: int, last_block: int, scores: ChainScores, y: Labels, found: NBest
) -> None:
    """Fill in the best labels of each sequence; transitions are padded with minus infinity."""
    labels, counts, top_scores, behind = found
    offsets, bounds = blocks
    end, width = scores.end, scores.transitions.shape[1]
    n_labels, n = len(end), len(labels)
    first, last = bounds[first_block], bounds[last_block]
    buffers = buffers_for(longest_in(offsets, first, last), n_labels, width)
    buffers.backward[:] = scores.transitions[:n_labels, :n_labels].T
    best, backward = buffers.best, buffers.backward
    # The tree of those found, and the children that wait, in order, with what they score less: no
    # more of them than are still wanted.
    tree, children = np.empty((n, 3), dtype=np.int64), np.empty((n, 3), dtype=np.int64)
    losses, child = np.empty(n), np.empty(3, dtype=np.int64)
    for i in range(first, last):
        i0, i1 = offsets[i], offsets[i + 1]
        counts[i], top_scores[i], behind[i, 0] = 1, 0.0, 0.0
        if i0 == i1:
            continue
        find_best(scores, y, 0.0, i0, i1, buffers, labels[0])
        top_scores[i] = scores.start[labels[0, i0]] + end[labels[0, i1 - 1]]
        for t in range(i0, i1):
            top_scores[i] += scores.emissions[t, labels[0, t]]
            if t > i0:
                top_scores[i] += scores.transitions[labels[0, t - 1], labels[0, t]]
        tree[0, 0], tree[0, 1], tree[0, 2] = -1, i1 - i0, -1
        waiting = 0
        for k in range(n - 1):
            # Deviations of rank k, all before its own, from the first token on: where all labels
            # score the same, they come in order.
            for t in range(tree[k, 1]):
                # What goes on from this token: to the label after it, or to the end.
                onward = end if i0 + t == i1 - 1 else backward[labels[k, i0 + t + 1]]
                own = labels[k, i0 + t]
                height = best[t, own] + onward[own]
                for a in range(n_labels):
                    loss = behind[i, k] + (height - (best[t, a] + onward[a]))
                    if a == own or (waiting == n - 1 - k and loss > losses[waiting - 1]):
                        continue
                    child[0], child[1], child[2] = k, t, a
                    waiting = _line_up(
                        loss, child, waiting, n - 1 - k, losses, children, tree, labels, i0
                    )
            if waiting == 0:
                break
            behind[i, k + 1], counts[i] = losses[0], k + 2
            tree[k + 1] = children[0]
            parent, place, label = tree[k + 1, 0], tree[k + 1, 1], tree[k + 1, 2]
            labels[k + 1, i0 + place + 1 : i1] = labels[parent, i0 + place + 1 : i1]
            labels[k + 1, i0 + place] = label
            trace_back(best, backward, i0, place, labels[k + 1])
            waiting -= 1
            for j in range(waiting):
                losses[j], children[j] = losses[j + 1], children[j + 1]
