"""The n best label sequences of chains, exactly and in order: list Viterbi by deviations.

Viterbi's algorithm knows, for each token and label, the best labels before it. So a sequence of
labels is told by where it deviates from them, read from its end: the best one of all deviates
nowhere, and any other has one parent, the sequence without its earliest deviation. If it deviates
at token t to the label a, where the parent has p and both go on with f, it scores less by

    (best[t, p] + T[p, f]) - (best[t, a] + T[a, f])  >=  0

The next best is always a child of one that was found. So n of them cost the L^2 a token of one
Viterbi pass and another L for each, and no memory beyond that pass but a list of n candidates: no
pointers from each of n x L ends back to where they came from. (The idea is that of the serial list
Viterbi algorithm: N. Seshadri, C.-E. Sundberg, IEEE Transactions on Communications, 1994.)

What a sequence scores less than the best is a sum of such differences, none of them negative. So
long sequences and large scores leave the order exact to the last digits of these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.sequences.chain import Blocks, Chains, ChainScores
from cutplane.models.sequences.loops import (
    Indices,
    Labels,
    last_label,
    longest_in,
    reach_labels,
    trace_back,
)


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
def _score(scores: ChainScores, labels: Labels, i0: int, i1: int) -> float:
    S, T, start, end = scores
    total: float = start[labels[i0]] + end[labels[i1 - 1]]
    for t in range(i0, i1):
        total += S[t, labels[t]]
        if t > i0:
            total += T[labels[t - 1], labels[t]]
    return total


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
    best = np.full((longest_in(offsets, first, last), width), -np.inf)
    reach = np.empty(width)
    backward = np.ascontiguousarray(scores.transitions[:n_labels, :n_labels].T)
    # The tree of those found, and the children that wait, in order, with what they score less: no
    # more of them than are still wanted.
    tree, children = np.empty((n, 3), dtype=np.int64), np.empty((n, 3), dtype=np.int64)
    losses, child = np.empty(n), np.empty(3, dtype=np.int64)
    for i in range(first, last):
        i0, i1 = offsets[i], offsets[i + 1]
        counts[i], top_scores[i], behind[i, 0] = 1, 0.0, 0.0
        if i0 == i1:
            continue
        reach_labels(scores, y, 0.0, i0, i1, best, reach)
        labels[0, i1 - 1] = last_label(best, i1 - i0, end)
        trace_back(best, backward, i0, i1 - i0 - 1, labels[0])
        top_scores[i] = _score(scores, labels[0], i0, i1)
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
            for t in range(i0 + place + 1, i1):
                labels[k + 1, t] = labels[parent, t]
            labels[k + 1, i0 + place] = label
            trace_back(best, backward, i0, place, labels[k + 1])
            waiting -= 1
            for j in range(waiting):
                losses[j], children[j] = losses[j + 1], children[j + 1]
