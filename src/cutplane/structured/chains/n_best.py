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
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.structured.chains.chain import Chains, ChainScores
from cutplane.structured.chains.kernels import (
    Indices,
    Labels,
    last_label,
    longest_in,
    reach_labels,
    trace_back,
    transposed,
    with_padding,
)


class NBest(NamedTuple):
    """The best labels of sequences, the best first.

    Of those that score the same, the one comes first whose label is the lower where they differ
    last.

    Attributes
    ----------
    labels : ndarray of shape (n, n_tokens)
        Row ``k`` has the labels of rank ``k`` of all sequences behind each other.
    counts : ndarray of shape (n_sequences,)
        How many there are of a sequence: fewer than n if it has no more.
    top_scores : ndarray of shape (n_sequences,)
        The scores of rank 0.
    behind : ndarray of shape (n_sequences, n)
        What each scores less than rank 0.
    """

    labels: NDArray[np.int32]
    counts: Indices
    top_scores: Vector
    behind: Matrix


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
    transitions = with_padding(scores.transitions, -np.inf)
    no_mistakes = np.zeros(chains.n_tokens, dtype=np.int32)
    chains.run(
        lambda first, last: _fill_n_best(
            scores.emissions,
            transitions,
            scores.start,
            scores.end,
            no_mistakes,
            chains.offsets,
            chains.bounds,
            first,
            last,
            *found,
        )
    )
    return found


@njit(cache=True, nogil=True)
def _comes_first(
    parent: int,
    place: int,
    label: int,
    other_parent: int,
    other_place: int,
    other_label: int,
    parents: Indices,
    places: Indices,
    labels: NDArray[np.int32],
    i0: int,
) -> bool:
    """Say which of two children comes first if they score the same: see `NBest`."""
    while parent != other_parent:  # the later one cannot be an ancestor of the other
        if parent > other_parent:
            place = places[parent]
            label = labels[parent, i0 + place]
            parent = parents[parent]
        else:
            other_place = places[other_parent]
            other_label = labels[other_parent, i0 + other_place]
            other_parent = parents[other_parent]
    if place == other_place:
        return label < other_label
    if place > other_place:
        return bool(label < labels[parent, i0 + place])
    return bool(labels[parent, i0 + other_place] < other_label)


@njit(cache=True, nogil=True)
def _score(
    S: Matrix, T: Matrix, start: Vector, end: Vector, labels: Labels, i0: int, i1: int
) -> float:
    total: float = start[labels[i0]] + end[labels[i1 - 1]]
    for t in range(i0, i1):
        total += S[t, labels[t]]
        if t > i0:
            total += T[labels[t - 1], labels[t]]
    return total


@njit(cache=True, nogil=True)
def _line_up(
    loss: float,
    parent: int,
    place: int,
    label: int,
    waiting: int,
    wanted: int,
    losses: Vector,
    of: Indices,
    at: Indices,
    to: Labels,
    parents: Indices,
    places: Indices,
    labels: NDArray[np.int32],
    i0: int,
) -> int:
    """Put a child in its place among those that wait, and return how many wait then."""
    j = waiting
    while j > 0 and loss <= losses[j - 1]:
        if loss == losses[j - 1] and not _comes_first(
            parent, place, label, of[j - 1], at[j - 1], to[j - 1], parents, places, labels, i0
        ):
            break
        j -= 1
    if j == wanted:
        return waiting
    waiting = min(waiting + 1, wanted)
    for m in range(waiting - 1, j, -1):
        losses[m], of[m], at[m], to[m] = losses[m - 1], of[m - 1], at[m - 1], to[m - 1]
    losses[j], of[j], at[j], to[j] = loss, parent, place, label
    return waiting


@njit(cache=True, nogil=True)
def _fill_n_best(
    S: Matrix,
    T: Matrix,
    start: Vector,
    end: Vector,
    y: Labels,
    offsets: Indices,
    bounds: Indices,
    first_block: int,
    last_block: int,
    labels: NDArray[np.int32],
    counts: Indices,
    top_scores: Vector,
    behind: Matrix,
) -> None:
    """Fill in the best labels of each sequence; ``T`` is padded with minus infinity."""
    n_labels, n = S.shape[1], labels.shape[0]
    first, last = bounds[first_block], bounds[last_block]
    best = np.full((longest_in(offsets, first, last), T.shape[1]), -np.inf)
    reach = np.empty(T.shape[1])
    came_from = transposed(T, n_labels)
    # The tree of those found: whose child each is, and where it deviates.
    parents, places = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    # Children that wait, in order: what they score less, of which parent, at which place, to which
    # label. No more of them than are still wanted.
    losses = np.empty(n)
    of, at = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    to = np.empty(n, dtype=np.int32)
    for i in range(first, last):
        i0, i1 = offsets[i], offsets[i + 1]
        counts[i], top_scores[i], behind[i, 0] = 1, 0.0, 0.0
        if i0 == i1:
            continue
        reach_labels(S, T, start, y, 0.0, i0, i1, best, reach)
        labels[0, i1 - 1] = last_label(best, i1 - i0, end)
        trace_back(best, came_from, i0, i1 - i0 - 1, labels[0])
        top_scores[i] = _score(S, T, start, end, labels[0], i0, i1)
        parents[0], places[0] = -1, i1 - i0
        waiting = 0
        for k in range(n - 1):
            # Deviations of rank k, all before its own, from the first token on: where all labels
            # score the same, they come in order.
            for t in range(places[k]):
                # What goes on from this token: to the label after it, or to the end.
                onward = end if i0 + t == i1 - 1 else came_from[labels[k, i0 + t + 1]]
                own = labels[k, i0 + t]
                height = best[t, own] + onward[own]
                for a in range(n_labels):
                    loss = behind[i, k] + (height - (best[t, a] + onward[a]))
                    if a == own or (waiting == n - 1 - k and loss > losses[waiting - 1]):
                        continue
                    waiting = _line_up(
                        loss,
                        k,
                        t,
                        a,
                        waiting,
                        n - 1 - k,
                        losses,
                        of,
                        at,
                        to,
                        parents,
                        places,
                        labels,
                        i0,
                    )
            if waiting == 0:
                break
            behind[i, k + 1], parents[k + 1], places[k + 1] = losses[0], of[0], at[0]
            for t in range(i0 + at[0] + 1, i1):
                labels[k + 1, t] = labels[of[0], t]
            labels[k + 1, i0 + at[0]] = to[0]
            trace_back(best, came_from, i0, at[0], labels[k + 1])
            counts[i] = k + 2
            waiting -= 1
            for j in range(waiting):
                losses[j], of[j], at[j], to[j] = losses[j + 1], of[j + 1], at[j + 1], to[j + 1]
