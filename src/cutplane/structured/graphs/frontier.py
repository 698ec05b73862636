"""The best labels of a graph, from its first node to the last, among those close to a bound.

Messages and triplets write the score of any labels as a bound less what these lose to it: a sum
over nodes, edges and triplets, none of it negative. So labels of the first nodes that have lost
more than is allowed belong to no labels that lose less, and are dropped; of those that agree at the
frontier, the nodes whose neighbors are still to come, only the best are kept. What is left after
the last node is the best there is. It takes few states if the bound is tight, whatever the width of
the frontier (branch and bound in dynamic programming: T. L. Morin and R. E. Marsten,
Branch-and-bound strategies for dynamic programming, 1976).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.compute.compiled import njit
from cutplane.structured.graphs.forests import Labels
from cutplane.structured.graphs.messages import Chains, Table

Words = NDArray[np.int64]
_SCRAMBLE = -7046029254386353131  # odd, near 2^64 / golden ratio


class Losses(NamedTuple):
    """What labels lose to a bound."""

    nodes: Matrix  # (n_nodes, n_labels)
    edges: Table  # (n_edges, n_labels, n_labels)
    triplets: Table  # (n_triplets, n_labels, n_labels, n_labels)


class Frontier(NamedTuple):
    """Where a state has the label of each node, from its own turn to that of its last neighbor.

    A state is a row of words. The label of node ``v`` is in ``words[v]``, ``shifts[v]`` bits from
    the right; ``shifts[v]`` is -1 if all neighbors come before. What is kept after its turn are the
    bits of ``keep[v]``. Triplets with the last node ``v`` are ``last[last_at[v]:last_at[v + 1]]``;
    their other nodes are in ``others``.
    """

    words: Labels
    shifts: Labels
    keep: Words
    last: Labels
    last_at: Labels
    others: Labels

    @classmethod
    def of(cls, n_nodes: int, n_labels: int, chains: Chains, sides: Labels) -> Frontier:
        """Give each node a place that no other one needs at the same time."""
        until = np.arange(n_nodes)
        np.maximum.at(until, chains.ends[:, 0], chains.ends[:, 1])
        places = np.full(n_nodes, -1, dtype=np.int64)
        leaving: list[list[int]] = [[] for _ in range(n_nodes)]
        vacant: list[int] = []
        width = 0
        for v, end in enumerate(until.tolist()):
            vacant.extend(leaving[v])
            if end > v:
                if not vacant:
                    vacant.append(width)
                    width += 1
                places[v] = vacant.pop()
                leaving[end].append(int(places[v]))
        n_bits = int(n_labels - 1).bit_length()
        words, shifts = np.divmod(places, 63 // n_bits)
        shifts = np.where(places < 0, -1, shifts * n_bits)
        keep = np.full((n_nodes, 1 + int(words.max())), -1, dtype=np.int64)
        for v, gone in enumerate(leaving):
            for place in gone:
                word, slot = divmod(place, 63 // n_bits)
                keep[v, word] &= ~(((1 << n_bits) - 1) << (slot * n_bits))
        third = chains.ends[sides[:, 1], 1]
        last = np.argsort(third, kind="stable").astype(np.int64)
        last_at = np.searchsorted(third[last], np.arange(n_nodes + 1)).astype(np.int64)
        return cls(words, shifts, keep, last, last_at, chains.ends[sides[:, 0]])


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _lost_next(
    losses: Losses, chains: Chains, frontier: Frontier, state: Words, mask: int, v: int, out: Matrix
) -> None:
    """Write what each label of a node loses beside the labels of a state."""
    n_labels = len(out)
    for c in range(n_labels):
        out[c] = losses.nodes[v, c]
    for place in range(chains.into_at[v], chains.into_at[v + 1]):
        e = chains.into[place]
        u = chains.ends[e, 0]
        a = (state[frontier.words[u]] >> frontier.shifts[u]) & mask
        for c in range(n_labels):
            out[c] += losses.edges[e, a, c]
    for place in range(frontier.last_at[v], frontier.last_at[v + 1]):
        t = frontier.last[place]
        i, j = frontier.others[t, 0], frontier.others[t, 1]
        a = (state[frontier.words[i]] >> frontier.shifts[i]) & mask
        b = (state[frontier.words[j]] >> frontier.shifts[j]) & mask
        for c in range(n_labels):
            out[c] += losses.triplets[t, a, b, c]


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _found(table: NDArray[np.int32], states: Words, state: Words) -> int:
    """Return where a state is in the table, or the empty place where it belongs."""
    mixed = 0
    for k in range(len(state)):
        mixed = (mixed ^ state[k]) * _SCRAMBLE
        mixed ^= mixed >> 32
    last = len(table) - 1
    place = mixed & last
    while table[place] >= 0:
        known = table[place]
        same = True
        for k in range(len(state)):
            same &= states[known, k] == state[k]
        if same:
            break
        place = (place + 1) & last
    return place


@njit(cache=True, nogil=True, error_model="numpy")
def walk(
    losses: Losses, chains: Chains, frontier: Frontier, allowed: float, most: int
) -> tuple[float, Labels]:
    """Return the labels that lose least, and how much, if it is allowed.

    Without such labels the loss is infinite; it is NaN if more than ``most`` states are needed to
    know.
    """
    n_nodes, n_labels = losses.nodes.shape
    n_words = frontier.keep.shape[1]
    mask = 1
    while mask < n_labels:
        mask *= 2
    mask -= 1
    labels = np.zeros(n_nodes, dtype=np.int64)
    steps = np.empty(most, dtype=np.int64)  # the state before, and the label, of all states
    begins = np.zeros(n_nodes, dtype=np.int64)
    states, lost = np.zeros((1, n_words), dtype=np.int64), np.zeros(1)
    state, more = np.empty(n_words, dtype=np.int64), np.empty(n_labels)
    n_old, n_all = 1, 0
    for v in range(n_nodes):
        begins[v] = n_all
        room = min(n_old * n_labels, most - n_all)
        new_states, new_lost = np.empty((room, n_words), dtype=np.int64), np.empty(room)
        size = 2
        while size < 2 * room:
            size *= 2
        table = np.full(size, -1, dtype=np.int32)
        n_new = 0
        for s in range(n_old):
            _lost_next(losses, chains, frontier, states[s], mask, v, more)
            for c in range(n_labels):
                total = lost[s] + more[c]
                if total > allowed:
                    continue
                for k in range(n_words):
                    state[k] = states[s, k] & frontier.keep[v, k]
                if frontier.shifts[v] >= 0:
                    state[frontier.words[v]] |= c << frontier.shifts[v]
                place = _found(table, new_states, state)
                known = table[place]
                if known < 0:
                    if n_new == room:
                        return np.nan, labels
                    known = n_new
                    table[place] = known
                    for k in range(n_words):
                        new_states[known, k] = state[k]
                    n_new += 1
                elif total >= new_lost[known]:
                    continue
                new_lost[known] = total
                steps[n_all + known] = s * n_labels + c
        if n_new == 0:
            return np.inf, labels
        states, lost, n_old = new_states, new_lost, n_new
        n_all += n_new
    state_before = 0  # after the last node nothing is kept: one state is left
    for v in range(n_nodes - 1, -1, -1):
        step = steps[begins[v] + state_before]
        state_before, labels[v] = step // n_labels, step % n_labels
    return lost[0], labels
