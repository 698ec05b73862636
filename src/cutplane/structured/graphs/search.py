"""The best labels of the nodes of a graph with loops.

Messages bound the score of all labels (:mod:`cutplane.structured.graphs.messages`), and suggest
good ones. If these reach the bound, they are the best. If not, the best are among those that lose
little to the bound, and are found by a walk over the nodes
(:mod:`cutplane.structured.graphs.frontier`). If there are too many of them, triplets of nodes on
short cycles lower the bound (:mod:`cutplane.structured.graphs.triplets`). What is too much even
then goes to HiGHS, without the nodes that have one label left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.structured.graphs.forests import Labels
from cutplane.structured.graphs.frontier import Frontier, Losses, walk
from cutplane.structured.graphs.local_polytope import RelaxedLabels, best_integral, best_relaxed
from cutplane.structured.graphs.messages import (
    Chains,
    improve_labels,
    label_bounds,
    losses_of_chains,
    pass_messages,
    suggested_labels,
    upward,
)
from cutplane.structured.graphs.ordering import narrow_order
from cutplane.structured.graphs.triplets import Triplets, losses_of_triplets, tighten

# Rounds of messages before bounds are looked at: first, and after the first looks.
_ROUNDS = (10, 20, 40)
# With triplets: rounds before a look, messages in each of them, and the most looks.
_TRIPLET_ROUNDS, _MESSAGES_EACH, _MOST_LOOKS = 10, 2, 40
# A look that lowers the bound by less than this part of the gap is the last one.
_WORTHWHILE = 0.01
# The most states of a walk: at the first looks, which is faster than messages; then twice as many
# from look to look, until this many; at last, some seconds.
_FIRST_STATES, _STATES, _LAST_STATES = 1 << 12, 1 << 18, 1 << 22
# The smallest part of the gap that the best labels are supposed to lose; then twice as much, until
# it is true. States are as many as the labels that lose less, and these grow exponentially.
_FIRST_SHARE, _GROWTH = 1.0 / 16.0, 1.5
# What is accepted as equal to a bound, and what rounding may do to one, for each node and as parts
# of the largest score.
_TOLERANCE, _ROUNDING = 1e-9, 1e-12
# What was found out about so many graphs is kept: a fit searches the same ones many times.
_GRAPHS = 32


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


@lru_cache(maxsize=_GRAPHS)
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
        self._moved = self._pairwise
        self._up = np.zeros((len(edges), unary.shape[1]))
        self._down = np.zeros_like(self._up)
        self._given = np.zeros((0, 3, unary.shape[1], unary.shape[1]))
        self._kept = 0.0
        largest = max(np.abs(unary).max(), np.abs(self._pairwise).max())
        self.size = float(largest) * len(unary)
        self.accepted = _TOLERANCE * self.size
        self._best = -math.inf, np.zeros(len(unary), dtype=np.int64)
        self._ceiling = math.inf

    def improve(self, n_rounds: int) -> _Known:
        """Send messages for so many rounds, and return what is known then."""
        pass_messages(*self._state, n_rounds)
        return self._look()

    def add_triplets(self) -> bool:
        """Look at short cycles from now on; return whether there are any."""
        n_labels = self._unary.shape[1]
        self._plan = _plan(*self._graph, True)
        n_chords = len(self._plan.chains.ends) - len(self._chains.ends)
        self._moved = np.concatenate([self._pairwise, np.zeros((n_chords, n_labels, n_labels))])
        more = np.zeros((n_chords, n_labels))
        self._up = np.concatenate([self._up, more])
        self._down = np.concatenate([self._down, more])
        self._given = np.zeros((len(self._plan.sides), 3, n_labels, n_labels))
        return len(self._given) > 0

    def tighten(self) -> _Known:
        """Go through triplets and messages in turn, and return what is known then."""
        for _ in range(_TRIPLET_ROUNDS):
            self._kept = tighten(*self._state, self._plan.sides, self._given)
            pass_messages(*self._state, _MESSAGES_EACH)
        return self._look()

    @property
    def _state(self) -> tuple[Matrix, Any, Chains, Matrix, Matrix]:
        return self._unary, self._moved, self._plan.chains, self._up, self._down

    def _look(self) -> _Known:
        labels = suggested_labels(self._unary, self._moved, self._plan.chains, self._down)
        score = improve_labels(self._unary, self._pairwise, self._chains, labels)
        if score > self._best[0]:
            self._best = score, labels
        score, labels = self._best
        bounds = label_bounds(*self._state) + self._kept
        return _Known(labels, score, bounds, float(bounds.max(axis=1).min()))

    def losses(self) -> tuple[float, Losses]:
        """Return a bound, and what labels lose to it."""
        bound, lost, lost_pairs = losses_of_chains(*self._state)
        kept, lost_triplets = losses_of_triplets(self._given)
        return bound + kept, Losses(lost, lost_pairs, lost_triplets)

    def walk(self, most: int) -> Labels | None:
        """Return the best labels, or None if more than ``most`` states are needed to find them."""
        bound, losses = self.losses()
        gap = bound - self._best[0]
        # No labels are above the ceiling, as earlier walks have shown.
        allowed = max(_FIRST_SHARE * gap, _GROWTH * (bound - self._ceiling))
        while True:
            enough = allowed + _ROUNDING * self.size
            loss, labels = walk(losses, self._plan.chains, self._plan.frontier, enough, most)
            if loss < math.inf:
                return labels
            if math.isnan(loss):
                return None
            self._ceiling = min(self._ceiling, bound - allowed)
            allowed = min(_GROWTH * allowed, gap)


@lru_cache(maxsize=_GRAPHS)
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
    allowed = known.bounds >= known.score - _ROUNDING * messages.size
    return _by_program(unary, pairwise, edges, known, allowed.sum(axis=1) > 1)


def _looks(messages: _Messages) -> Iterator[tuple[_Known, int]]:
    """Yield what is known after more and more rounds, and how many states a walk may take."""
    for n_rounds in _ROUNDS:
        known = messages.improve(n_rounds)
        yield known, _FIRST_STATES
    if messages.add_triplets():
        most = _FIRST_STATES
        for _ in range(_MOST_LOOKS):
            last, known = known, messages.tighten()
            if last.least - known.least < _WORTHWHILE * (known.least - known.score):
                break
            most = min(2 * most, _STATES)
            yield known, most
    yield known, _LAST_STATES


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
    labels[free] = best_integral(single[free], pairwise[both], number[edges[both]])
    return labels


def best_relaxed_first_by_messages(
    unary: Matrix, pairwise: Any, edges: Labels
) -> Labels | RelaxedLabels:
    """Return the best point of the local polytope, as `best_relaxed` does."""
    messages = _Messages(unary, pairwise, edges)
    for n_rounds in _ROUNDS:
        known = messages.improve(n_rounds)
        if known.least - known.score <= messages.accepted:
            return known.labels
    return best_relaxed(unary, pairwise, edges)
