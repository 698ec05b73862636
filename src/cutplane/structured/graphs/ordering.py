"""An order of a graph's nodes in which few of them wait for neighbors at a time."""

from __future__ import annotations

import heapq

import numpy as np

from cutplane.structured.graphs.forests import Labels

# A new order is taken if it is narrower than the given one by this factor: beside rows of a grid,
# one that has the same width, but grows and shrinks with the grid's diagonals, took twice the time.
_NARROWER = 0.75


def narrow_order(n_nodes: int, edges: Labels) -> Labels | None:
    """Return the nodes of a graph in a narrow order, or None if the given one is as good.

    A node waits from its turn to that of its last neighbor. Whoever adds least to those that wait
    comes next; then whoever has most neighbors before it.
    """
    neighbors: list[set[int]] = [set() for _ in range(n_nodes)]
    for u, v in edges.tolist():
        neighbors[u].add(v)
        neighbors[v].add(u)
    missing = [len(near) for near in neighbors]  # neighbors still to come
    relieved = [0] * n_nodes  # nodes that wait for this one only
    come = [False] * n_nodes

    def rank(v: int) -> tuple[int, int, int]:
        return (missing[v] > 0) - relieved[v], missing[v] - len(neighbors[v]), v

    order: list[int] = []
    for first in sorted(range(n_nodes), key=lambda v: (missing[v], v)):
        next_ones = [] if come[first] else [rank(first)]
        while next_ones:
            told = heapq.heappop(next_ones)
            v = told[2]
            if come[v] or told != rank(v):
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
    if _width(n_nodes, places[edges]) < _NARROWER * _width(n_nodes, edges):
        return found
    return None


def _width(n_nodes: int, edges: Labels) -> int:
    """Return how many nodes wait at most, if they come in the order of their numbers."""
    ends = np.sort(edges, axis=1)
    until = np.arange(n_nodes)
    np.maximum.at(until, ends[:, 0], ends[:, 1])
    waiting = np.zeros(n_nodes + 1, dtype=np.int64)
    waiting[:-1] += 1
    np.subtract.at(waiting, until, 1)
    return int(np.cumsum(waiting).max())
