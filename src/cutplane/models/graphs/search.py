"""The best labels of the nodes of a graph with loops.

Messages bound the score of all labels (:mod:`cutplane.models.graphs.messages`), and suggest good
ones. If these reach the bound, they are the best. If not, the best are among those that lose little
to the bound, and are found by a walk over the nodes. If there are too many of them, triplets of
nodes on short cycles lower the bound. What is too much even then goes to HiGHS, without the nodes
that have one label left.

**Walks.** Messages and triplets write the score of any labels as a bound less what these lose to
it: a sum over nodes, edges and triplets, none of it negative. So labels of the first nodes that
have lost more than is allowed belong to no labels that lose less, and are dropped; of those that
agree at the frontier, the nodes whose neighbors are still to come, only the best are kept. What is
left after the last node is the best there is. It takes few states if the bound is tight, whatever
the width of the frontier (branch and bound in dynamic programming: T. L. Morin and R. E. Marsten,
Branch-and-bound strategies for dynamic programming, 1976). Nodes come in an order in which few of
them wait for neighbors at a time.

**Triplets.** Chains bound what the labels of a cycle can reach by less than the truth where its
edges contradict each other. Three nodes with an edge between any two of them are a triplet. It
takes parts of its edges' scores and gives back a third of the best that it can reach for each pair
of labels, so that its edges agree (block coordinate descent in the dual: D. Sontag et al.,
Tightening LP relaxations for MAP using message passing, 2008). A cycle of four nodes gets a chord,
an edge without scores, that makes two triplets of it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.graphs.local_polytope import RelaxedLabels, best_integral, best_relaxed
from cutplane.models.graphs.messages import (
    Chains,
    Moved,
    Table,
    gather,
    improve_labels,
    label_bounds,
    losses_of_chains,
    pass_messages,
    suggested_labels,
    upward,
)
from cutplane.models.structured.forests import Labels


class SearchSettings(NamedTuple):
    """What was chosen on data (docs/decisions/2026-11-18-structured-measured.md), or by size.

    Attributes
    ----------
    narrower : float
        A new order is taken if it is narrower than the given one by this factor.
    triplets_per_edge : int
        The most triplets for each edge: in dense graphs there are too many cycles.
    rounds : tuple of int
        Of messages before bounds are looked at: first, and after the first looks.
    triplet_rounds, messages_each, most_looks : int
        With triplets: rounds before a look, messages in each of them, and the most looks.
    worthwhile : float
        A look that lowers the bound by less than this part of the gap is the last one.
    first_states, states, last_states : int
        The most states of a walk: at the first looks, where that is faster than messages; then
        twice as many from look to look, until so many; at last, some seconds.
    first_share, growth : float
        The smallest part of the gap that the best labels are supposed to lose; how much more then,
        until it is true. States grow exponentially with it.
    tolerance, rounding : float
        What is accepted as equal to a bound, and what rounding may do to one, for each node and as
        parts of the largest score.
    """

    narrower: float = 0.75
    triplets_per_edge: int = 4
    rounds: tuple[int, ...] = (10, 20, 40)
    triplet_rounds: int = 10
    messages_each: int = 2
    most_looks: int = 40
    worthwhile: float = 0.01
    first_states: int = 1 << 12
    states: int = 1 << 18
    last_states: int = 1 << 22
    first_share: float = 1.0 / 16.0
    growth: float = 1.5
    tolerance: float = 1e-9
    rounding: float = 1e-12


SETTINGS = SearchSettings()
# What was found out about some graphs is kept: a fit searches the same ones many times.
_kept = lru_cache(maxsize=32)


def narrow_order(n_nodes: int, edges: Labels) -> Labels | None:
    """Return the nodes of a graph in a narrow order, or None if the given one is as good.

    A node waits from its turn to that of its last neighbor. Whoever adds least to those that wait
    comes next; then whoever has most neighbors before it.
    """
    neighbors = _neighbors(n_nodes, edges)
    missing = [len(near) for near in neighbors]  # neighbors still to come
    relieved = [0] * n_nodes  # nodes that wait for this one only
    come = [False] * n_nodes

    def rank(v: int) -> tuple[int, int, int]:
        return (missing[v] > 0) - relieved[v], missing[v] - len(neighbors[v]), v

    order: list[int] = []
    for first in sorted(range(n_nodes), key=lambda v: (missing[v], v)):
        next_ones = [] if come[first] else [rank(first)]
        while next_ones:
            best = heapq.heappop(next_ones)
            v = best[2]
            if come[v] or best != rank(v):
                continue
            come[v] = True
            order.append(v)
            changed = {u for u in neighbors[v] if not come[u]}
            for u in neighbors[v]:
                missing[u] -= 1
            for u in (v, *neighbors[v]):
                if come[u] and missing[u] == 1:
                    last = next(x for x in neighbors[u] if not come[x])
                    relieved[last] += 1
                    changed.add(last)
            for u in sorted(changed):
                heapq.heappush(next_ones, rank(u))
    found = np.array(order, dtype=np.int64)
    places = np.empty_like(found)
    places[found] = np.arange(n_nodes)
    if _width(n_nodes, places[edges]) < SETTINGS.narrower * _width(n_nodes, edges):
        return found
    return None


def _neighbors(n_nodes: int, edges: Labels) -> list[set[int]]:
    """Return the nodes that each node has an edge with."""
    neighbors: list[set[int]] = [set() for _ in range(n_nodes)]
    for u, v in edges.tolist():
        neighbors[u].add(v)
        neighbors[v].add(u)
    return neighbors


def _width(n_nodes: int, edges: Labels) -> int:
    """Return how many nodes wait at most, if they come in the order of their numbers."""
    ends = np.sort(edges, axis=1)
    until = np.arange(n_nodes)
    np.maximum.at(until, ends[:, 0], ends[:, 1])
    waiting = np.zeros(n_nodes + 1, dtype=np.int64)
    waiting[:-1] += 1
    np.subtract.at(waiting, until, 1)
    return int(np.cumsum(waiting).max())


class Triplets(NamedTuple):
    """Triplets of nodes, and the edges of the graph with chords.

    ``sides[t]`` are the edges of a triplet ``i < j < k``: (i, j), (j, k) and (i, k).
    """

    edges: Labels
    sides: Labels

    @classmethod
    def of(cls, n_nodes: int, edges: Labels) -> Triplets:
        """Find the triplets on cycles of three and of four nodes; chords come behind the edges."""
        number: dict[tuple[int, int], int] = {}
        for e, (u, v) in enumerate(np.sort(edges, axis=1).tolist()):
            number.setdefault((u, v), e)
        neighbors = _neighbors(n_nodes, edges)
        joined: dict[tuple[int, int], list[int]] = {}
        for middle in range(n_nodes):
            for pair in combinations(sorted(neighbors[middle]), 2):
                joined.setdefault(pair, []).append(middle)
        most = SETTINGS.triplets_per_edge * len(edges)
        found: dict[tuple[int, int, int], None] = {}
        seen: set[tuple[int, ...]] = set()
        chords: list[tuple[int, int]] = []
        for (u, v), middles in sorted(joined.items()):
            if (u, v) not in number:
                cycles = {tuple(sorted((u, v, a, b))) for a, b in combinations(middles, 2)}
                if not cycles - seen:
                    continue
                seen |= cycles
                number[u, v] = len(edges) + len(chords)
                chords.append((u, v))
            for middle in middles:
                i, j, k = sorted((u, v, middle))
                found[i, j, k] = None
            if len(found) >= most:
                break
        sides = [[number[i, j], number[j, k], number[i, k]] for i, j, k in found]
        return cls(
            np.concatenate([edges, np.array(chords, dtype=np.int64).reshape(-1, 2)]),
            np.array(sides, dtype=np.int64).reshape(-1, 3),
        )


@njit(cache=True, nogil=True)
def tighten(moved: Moved, sides: Labels, given: Table) -> float:
    """Let each triplet share what its edges have among them; return what triplets keep at most.

    Scores of pairs and ``given``, what each triplet has given to its three sides, are changed.
    """
    unary, pairwise, chains, up, down = moved
    n_nodes, n_labels = unary.shape
    beliefs = pairwise.copy()  # of edges, with messages and their parts of the nodes
    scores = np.empty(n_labels)
    for v in range(n_nodes):
        gather(moved, v, scores)
        degree = chains.out_at[v + 1] - chains.out_at[v] + chains.into_at[v + 1] - chains.into_at[v]
        for place in range(chains.out_at[v], chains.out_at[v + 1]):
            e = chains.out[place]
            for a in range(n_labels):
                for b in range(n_labels):
                    beliefs[e, a, b] += scores[a] / degree - down[e, a]
        for place in range(chains.into_at[v], chains.into_at[v + 1]):
            e = chains.into[place]
            for a in range(n_labels):
                for b in range(n_labels):
                    beliefs[e, a, b] += scores[b] / degree - up[e, b]
    best = np.empty((3, n_labels, n_labels))
    for t in range(len(sides)):
        best[:] = -np.inf
        first, second, third = sides[t]
        for a in range(n_labels):
            for b in range(n_labels):
                here = beliefs[first, a, b] - given[t, 0, a, b]
                for c in range(n_labels):
                    total = (
                        here
                        + (beliefs[second, b, c] - given[t, 1, b, c])
                        + (beliefs[third, a, c] - given[t, 2, a, c])
                    )
                    best[0, a, b] = max(best[0, a, b], total)
                    best[1, b, c] = max(best[1, b, c], total)
                    best[2, a, c] = max(best[2, a, c], total)
        for side in range(3):
            e = sides[t, side]
            change = best[side] / 3.0 - beliefs[e]
            given[t, side] += change
            beliefs[e] += change
            pairwise[e] += change
    kept = 0.0
    for t in range(len(sides)):
        largest = -np.inf
        for a in range(n_labels):
            for b in range(n_labels):
                for c in range(n_labels):
                    rest = given[t, 0, a, b] + given[t, 1, b, c] + given[t, 2, a, c]
                    largest = max(largest, -rest)
        kept += largest
    return kept


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
    the right, and as wide as ``mask``; ``shifts[v]`` is -1 if all neighbors come before. What is
    kept after its turn are the bits of ``keep[v]``. Triplets with the last node ``v`` are
    ``last[last_at[v]:last_at[v + 1]]``; their other nodes are in ``others``.
    """

    words: Labels
    shifts: Labels
    mask: int
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
        mask = (1 << n_bits) - 1
        words, shifts = np.divmod(places, 63 // n_bits)
        shifts = np.where(places < 0, -1, shifts * n_bits)
        keep = np.full((n_nodes, 1 + int(words.max())), -1, dtype=np.int64)
        for v, gone in enumerate(leaving):
            for place in gone:
                word, slot = divmod(place, 63 // n_bits)
                keep[v, word] &= ~(mask << (slot * n_bits))
        third = chains.ends[sides[:, 1], 1]
        last = np.argsort(third, kind="stable").astype(np.int64)
        last_at = np.searchsorted(third[last], np.arange(n_nodes + 1)).astype(np.int64)
        return cls(words, shifts, mask, keep, last, last_at, chains.ends[sides[:, 0]])


@njit(cache=True, nogil=True, error_model="numpy", inner=True)
def _lost_next(
    losses: Losses, chains: Chains, frontier: Frontier, state: Words, v: int, out: Vector
) -> None:
    """Write what each label of a node loses beside the labels of a state."""
    n_labels = len(out)
    for c in range(n_labels):
        out[c] = losses.nodes[v, c]
    for place in range(chains.into_at[v], chains.into_at[v + 1]):
        e = chains.into[place]
        u = chains.ends[e, 0]
        a = (state[frontier.words[u]] >> frontier.shifts[u]) & frontier.mask
        for c in range(n_labels):
            out[c] += losses.edges[e, a, c]
    for place in range(frontier.last_at[v], frontier.last_at[v + 1]):
        t = frontier.last[place]
        i, j = frontier.others[t, 0], frontier.others[t, 1]
        a = (state[frontier.words[i]] >> frontier.shifts[i]) & frontier.mask
        b = (state[frontier.words[j]] >> frontier.shifts[j]) & frontier.mask
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
            _lost_next(losses, chains, frontier, states[s], v, more)
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


class _Known(NamedTuple):
    """Good labels and their score; a bound for each label of each node, and one of all labels."""

    labels: Labels
    score: float
    bounds: Matrix
    least: float


class _Plan(NamedTuple):
    """What a search has to know of a graph, with or without its triplets."""

    chains: Chains
    sides: Labels
    frontier: Frontier


@_kept
def _plan(n_nodes: int, n_labels: int, ends: bytes, with_triplets: bool) -> _Plan:
    """Return the plan of a graph; ``ends`` are its edges, lower numbers first."""
    edges = np.frombuffer(ends, dtype=np.int64).reshape(-1, 2)
    sides = np.zeros((0, 3), dtype=np.int64)
    if with_triplets:
        edges, sides = Triplets.of(n_nodes, edges)
    chains = Chains.of(n_nodes, edges)
    return _Plan(chains, sides, Frontier.of(n_nodes, n_labels, chains, sides))


class _Messages:
    """The state of a search."""

    def __init__(self, unary: Matrix, pairwise: Any, edges: Labels) -> None:
        self._unary = np.ascontiguousarray(unary)
        self._pairwise = upward(pairwise, edges)
        self._graph = (*unary.shape, np.sort(edges, axis=1).tobytes())
        self._plan = _plan(*self._graph, False)
        self._chains = self._plan.chains  # without chords
        up, down = np.zeros((2, len(edges), unary.shape[1]))
        self._moved = Moved(self._unary, self._pairwise, self._chains, up, down)
        self._given = np.zeros((0, 3, unary.shape[1], unary.shape[1]))
        self._kept = 0.0
        largest = max(np.abs(unary).max(), np.abs(self._pairwise).max())
        self.size = float(largest) * len(unary)
        self.accepted = SETTINGS.tolerance * self.size
        self._best = -math.inf, np.zeros(len(unary), dtype=np.int64)
        self._ceiling = math.inf

    def improve(self, n_rounds: int) -> _Known:
        """Send messages for so many rounds, and return what is known then."""
        pass_messages(self._moved, n_rounds)
        return self._look()

    def add_triplets(self) -> bool:
        """Look at short cycles from now on; return whether there are any."""
        n_labels, before = self._unary.shape[1], self._moved
        self._plan = _plan(*self._graph, True)
        n_chords = len(self._plan.chains.ends) - len(self._chains.ends)
        more = np.zeros((n_chords, n_labels))
        self._moved = Moved(
            self._unary,
            np.concatenate([self._pairwise, np.zeros((n_chords, n_labels, n_labels))]),
            self._plan.chains,
            np.concatenate([before.up, more]),
            np.concatenate([before.down, more]),
        )
        self._given = np.zeros((len(self._plan.sides), 3, n_labels, n_labels))
        return len(self._given) > 0

    def tighten(self) -> _Known:
        """Go through triplets and messages in turn, and return what is known then."""
        for _ in range(SETTINGS.triplet_rounds):
            self._kept = tighten(self._moved, self._plan.sides, self._given)
            pass_messages(self._moved, SETTINGS.messages_each)
        return self._look()

    def _look(self) -> _Known:
        labels = suggested_labels(self._moved)
        score = improve_labels(self._unary, self._pairwise, self._chains, labels)
        if score > self._best[0]:
            self._best = score, labels
        score, labels = self._best
        bounds = label_bounds(self._moved) + self._kept
        return _Known(labels, score, bounds, float(bounds.max(axis=1).min()))

    def losses(self) -> tuple[float, Losses]:
        """Return a bound, and what labels lose to it."""
        bound, lost, lost_pairs = losses_of_chains(self._moved)
        given = self._given
        rest = given[:, 0, :, :, None] + given[:, 1, None] + given[:, 2, :, None]
        least = rest.min(axis=(1, 2, 3), keepdims=True)  # minus what triplets keep at most
        return bound - float(least.sum()), Losses(lost, lost_pairs, rest - least)

    def walk(self, most: int) -> Labels | None:
        """Return the best labels, or None if more than ``most`` states are needed to find them."""
        bound, losses = self.losses()
        gap = bound - self._best[0]
        # No labels are above the ceiling, as earlier walks have shown.
        allowed = max(SETTINGS.first_share * gap, SETTINGS.growth * (bound - self._ceiling))
        while True:
            enough = allowed + SETTINGS.rounding * self.size
            loss, labels = walk(losses, self._plan.chains, self._plan.frontier, enough, most)
            if loss < math.inf:
                return labels
            if math.isnan(loss):
                return None
            self._ceiling = min(self._ceiling, bound - allowed)
            allowed = min(SETTINGS.growth * allowed, gap)


@_kept
def _order(n_nodes: int, edges: bytes) -> Labels | None:
    return narrow_order(n_nodes, np.frombuffer(edges, dtype=np.int64).reshape(-1, 2))


def best_exact(unary: Matrix, pairwise: Any, edges: Labels) -> Labels:
    """Return the labels with the highest score; parameters are those of `best_relaxed`."""
    order = _order(len(unary), edges.tobytes())
    if order is None:
        return _best_in_order(unary, pairwise, edges)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return _best_in_order(unary[order], pairwise, places[edges])[places]


def _best_in_order(unary: Matrix, pairwise: Any, edges: Labels) -> Labels:
    messages = _Messages(unary, pairwise, edges)
    for known, most in _looks(messages):
        if known.least - known.score <= messages.accepted:
            return known.labels
        found = messages.walk(most)
        if found is not None:
            return found
    allowed = known.bounds >= known.score - SETTINGS.rounding * messages.size
    return _by_program(unary, pairwise, edges, known, allowed.sum(axis=1) > 1)


def _looks(messages: _Messages) -> Iterator[tuple[_Known, int]]:
    """Yield what is known after more and more rounds, and how many states a walk may take."""
    for n_rounds in SETTINGS.rounds:
        known = messages.improve(n_rounds)
        yield known, SETTINGS.first_states
    if messages.add_triplets():
        most = SETTINGS.first_states
        for _ in range(SETTINGS.most_looks):
            last, known = known, messages.tighten()
            if last.least - known.least < SETTINGS.worthwhile * (known.least - known.score):
                break
            most = min(2 * most, SETTINGS.states)
            yield known, most
    yield known, SETTINGS.last_states


def _by_program(
    unary: Matrix, pairwise: Any, edges: Labels, known: _Known, free: NDArray[np.bool_]
) -> Labels:
    """Return the best labels if those of nodes that are not free are the known ones."""
    single = unary.copy()
    first, second = edges.T
    inner, outer = free[first] & ~free[second], free[second] & ~free[first]
    np.add.at(single, first[inner], pairwise[inner, :, known.labels[second[inner]]])
    np.add.at(single, second[outer], pairwise[outer, known.labels[first[outer]], :])
    both, number = free[edges].all(axis=1), np.cumsum(free) - 1
    labels: Labels = known.labels.copy()
    if free.any():
        labels[free] = best_integral(single[free], pairwise[both], number[edges[both]])
    return labels


def best_relaxed_first_by_messages(
    unary: Matrix, pairwise: Any, edges: Labels
) -> Labels | RelaxedLabels:
    """Return the best point of the local polytope, as `best_relaxed` does."""
    messages = _Messages(unary, pairwise, edges)
    for n_rounds in SETTINGS.rounds:
        known = messages.improve(n_rounds)
        if known.least - known.score <= messages.accepted:
            return known.labels
    return best_relaxed(unary, pairwise, edges)
