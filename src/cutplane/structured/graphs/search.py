"""The best labels of the nodes of a graph with loops.

Messages bound the score of all labels that have a given label at a given node
(:mod:`cutplane.structured.graphs.messages`), and suggest good ones. If these reach the bound, they
are the best. If not, a label whose bound is below their score is in no better ones, and is dropped.
The best among those that are left are found node by node, exactly
(:mod:`cutplane.structured.graphs.elimination`). If they are too many for that, triplets of nodes on
short cycles lower the bounds (:mod:`cutplane.structured.graphs.triplets`). What is too much even
then goes to HiGHS, without the nodes that have one label left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.structured.graphs.elimination import best_among, with_known_neighbors
from cutplane.structured.graphs.forests import Labels
from cutplane.structured.graphs.local_polytope import RelaxedLabels, best_integral, best_relaxed
from cutplane.structured.graphs.messages import (
    Chains,
    improve_labels,
    label_bounds,
    pass_messages,
    suggested_labels,
    upward,
)
from cutplane.structured.graphs.triplets import Triplets, tighten

# Rounds of messages before bounds are looked at: first, and after the first looks.
_ROUNDS = (10, 20, 40)
# With triplets: rounds before a look, messages in each of them, and the most looks.
_TRIPLET_ROUNDS, _MESSAGES_EACH, _MOST_LOOKS = 10, 2, 40
# The best labels score at least the bound less one of these shares of the gap: the smaller the
# share that one dares to suppose, the fewer labels are allowed. Whether it is true is seen then.
_SHARES = (1.0 / 64.0, 1.0 / 8.0, 1.0)
# Eliminations take longer than messages: until the last look, only with so few bits of choice.
_EASY = 40.0
# Entries of the largest table of an elimination: some milliseconds.
_LARGEST_TABLE = 1 << 20
# What is accepted as equal to a bound, and what rounding may do to one, for each node and as parts
# of the largest score.
_TOLERANCE, _ROUNDING = 1e-9, 1e-12


class _Known(NamedTuple):
    """Good labels and their score; a bound for each label of each node, and one of all labels."""

    labels: Labels
    score: float
    bounds: Matrix
    least: float


class _Messages:
    """The state of a search."""

    def __init__(self, unary: Matrix, pairwise: Any, edges: Labels) -> None:
        self._unary = np.ascontiguousarray(unary)
        self._pairwise = upward(pairwise, edges)
        self._chains = Chains.of(len(unary), edges)
        self._up = np.zeros((len(edges), unary.shape[1]))
        self._down = np.zeros_like(self._up)
        largest = max(np.abs(unary).max(), np.abs(self._pairwise).max())
        self.size = float(largest) * len(unary)
        self.accepted = _TOLERANCE * self.size
        self._best: tuple[float, Labels] | None = None
        self._moved, self._longer, self._kept = self._pairwise, self._chains, 0.0

    def improve(self, n_rounds: int) -> _Known:
        """Send messages for so many rounds, and return what is known then."""
        pass_messages(self._unary, self._moved, self._longer, self._up, self._down, n_rounds)
        return self._look()

    def add_triplets(self) -> bool:
        """Look at short cycles from now on; return whether there are any."""
        n_labels = self._unary.shape[1]
        self._triplets = Triplets.of(len(self._unary), self._chains.ends)
        n_chords = len(self._triplets.edges) - len(self._chains.ends)
        self._longer = Chains.of(len(self._unary), self._triplets.edges)
        self._moved = np.concatenate([self._pairwise, np.zeros((n_chords, n_labels, n_labels))])
        more = np.zeros((n_chords, n_labels))
        self._up = np.concatenate([self._up, more])
        self._down = np.concatenate([self._down, more])
        self._given = np.zeros((len(self._triplets.sides), 3, n_labels, n_labels))
        return len(self._given) > 0

    def tighten(self) -> _Known:
        """Go through triplets and messages in turn, and return what is known then."""
        for _ in range(_TRIPLET_ROUNDS):
            state = self._unary, self._moved, self._longer, self._up, self._down
            self._kept = tighten(*state, self._triplets.sides, self._given)
            pass_messages(*state, _MESSAGES_EACH)
        return self._look()

    def _look(self) -> _Known:
        state = self._unary, self._moved, self._longer
        labels = suggested_labels(*state, self._down)
        score = improve_labels(self._unary, self._pairwise, self._chains, labels)
        if self._best is None or score > self._best[0]:
            self._best = score, labels
        score, labels = self._best
        bounds = label_bounds(*state, self._up, self._down) + self._kept
        return _Known(labels, score, bounds, float(bounds.max(axis=1).min()))

    def offer(self, labels: Labels) -> float:
        """Take labels that were found elsewhere into account; return their score."""
        labels = labels.copy()
        score = improve_labels(self._unary, self._pairwise, self._chains, labels)
        if self._best is None or score > self._best[0]:
            self._best = score, labels
        return score


def best_exact(unary: Matrix, pairwise: Any, edges: Labels) -> Labels:
    """Return the labels with the highest score; parameters are those of `best_relaxed`."""
    messages = _Messages(unary, pairwise, edges)
    for known in _looks(messages):
        if known.least - known.score <= messages.accepted:
            return known.labels
        found = _among_few(messages, unary, pairwise, edges, known, most=_EASY)
        if found is not None:
            return found
    found = _among_few(messages, unary, pairwise, edges, known, most=math.inf)
    if found is not None:
        return found
    allowed = known.bounds >= known.score - _ROUNDING * messages.size
    return _by_program(unary, pairwise, edges, known, allowed.sum(axis=1) > 1)


def _among_few(
    messages: _Messages, unary: Matrix, pairwise: Any, edges: Labels, known: _Known, *, most: float
) -> Labels | None:
    """Return the best labels if few enough are left to choose from, in bits."""
    for share in _SHARES:
        # All labels of the graph that score more than this consist of allowed ones.
        reached = known.least - share * (known.least - known.score)
        allowed = known.bounds >= reached - _ROUNDING * messages.size
        allowed[np.arange(len(unary)), known.labels] = True
        if np.log2(allowed.sum(axis=1)).sum() > most:
            return None
        found = best_among(unary, pairwise, edges, allowed, largest=_LARGEST_TABLE)
        if found is None or share == 1.0 or messages.offer(found) >= reached:
            return found
    return None


def _by_program(
    unary: Matrix, pairwise: Any, edges: Labels, known: _Known, free: NDArray[np.bool_]
) -> Labels:
    """Return the best labels if those of nodes that are not free are the known ones."""
    single = with_known_neighbors(unary, pairwise, edges, known.labels, free)
    both, number = free[edges].all(axis=1), np.cumsum(free) - 1
    labels: Labels = known.labels.copy()
    labels[free] = best_integral(single[free], pairwise[both], number[edges[both]])
    return labels


def _looks(messages: _Messages) -> Iterator[_Known]:
    """Yield what is known after more and more rounds."""
    for n_rounds in _ROUNDS:
        yield messages.improve(n_rounds)
    if messages.add_triplets():
        for _ in range(_MOST_LOOKS):
            yield messages.tighten()


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
