"""The best labels of the nodes of a graph with loops.

Messages bound the score of all labels that have a given label at a given node
(:mod:`cutplane.structured.graphs.messages`), and suggest good ones. If these reach the bound, they
are the best. If not, a label whose bound is below their score is in no better ones, and is dropped.
Few are left as a rule, and the best among them are found node by node
(:mod:`cutplane.structured.graphs.elimination`); this is exact. What is too much for that goes to
HiGHS, without the nodes that have one label left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix
from cutplane.structured.graphs.elimination import best_among
from cutplane.structured.graphs.forests import Labels
from cutplane.structured.graphs.local_polytope import RelaxedLabels, best_integral, best_relaxed
from cutplane.structured.graphs.messages import (
    Chains,
    good_labels,
    label_bounds,
    pass_messages,
    score_of,
    upward,
)

# Rounds of messages before bounds are looked at: first, and after the first looks.
_ROUNDS = (10, 20, 40, 80, 160)
# Entries of the largest table of an elimination: some milliseconds.
_LARGEST_TABLE = 1 << 18
# What is accepted as equal to a bound, and what rounding may do to one, for each node and as parts
# of the largest score.
_TOLERANCE, _ROUNDING = 1e-9, 1e-12


class _Known(NamedTuple):
    """Good labels and their score; a bound for each label of each node, and whether they meet."""

    labels: Labels
    score: float
    bounds: Matrix
    proven: bool


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
        self._best: tuple[float, Labels] | None = None

    def improve(self, n_rounds: int) -> _Known:
        """Send messages for so many rounds, and return what is known then."""
        scores = self._unary, self._pairwise, self._chains
        pass_messages(*scores, self._up, self._down, n_rounds)
        labels = good_labels(*scores, self._down)
        score = score_of(*scores, labels)
        if self._best is None or score > self._best[0]:
            self._best = score, labels
        score, labels = self._best
        bounds = label_bounds(*scores, self._up, self._down)
        least = float(bounds.max(axis=1).min())
        return _Known(labels, score, bounds, least - score <= _TOLERANCE * self.size)


def best_exact(unary: Matrix, pairwise: Any, edges: Labels) -> Labels:
    """Return the labels with the highest score; parameters are those of `best_relaxed`."""
    messages = _Messages(unary, pairwise, edges)
    for n_rounds in _ROUNDS:
        known = messages.improve(n_rounds)
        if known.proven:
            return known.labels
        allowed = known.bounds >= known.score - _ROUNDING * messages.size
        allowed[np.arange(len(unary)), known.labels] = True
        found = best_among(unary, pairwise, edges, allowed, largest=_LARGEST_TABLE)
        if found is not None:
            return found
    return _by_program(unary, pairwise, edges, known.labels, allowed.sum(axis=1) > 1)


def best_relaxed_first_by_messages(
    unary: Matrix, pairwise: Any, edges: Labels
) -> Labels | RelaxedLabels:
    """Return the best point of the local polytope, as `best_relaxed` does."""
    messages = _Messages(unary, pairwise, edges)
    for n_rounds in _ROUNDS:
        known = messages.improve(n_rounds)
        if known.proven:
            return known.labels
    return best_relaxed(unary, pairwise, edges)


def _by_program(unary: Matrix, pairwise: Any, edges: Labels, labels: Labels, free: Any) -> Labels:
    """Return the best labels, those of nodes that are not free being known."""
    single = unary.copy()
    first, second = edges.T
    inner, outer = free[first] & ~free[second], free[second] & ~free[first]
    np.add.at(single, first[inner], pairwise[inner, :, labels[second[inner]]])
    np.add.at(single, second[outer], pairwise[outer, labels[first[outer]], :])
    both = free[first] & free[second]
    number = np.cumsum(free) - 1
    found: Labels = labels.copy()
    found[free] = best_integral(single[free], pairwise[both], number[edges[both]])
    return found
