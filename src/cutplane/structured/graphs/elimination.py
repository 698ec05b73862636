"""The best labels of a graph with few labels left to choose from, node by node.

A node is eliminated by the best that it can contribute for each choice of its neighbors' labels:
this is a table, which joins them. The time is that of the largest table, whose size is the product
of the neighbors' numbers of labels; the node with the smallest one comes first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.structured.graphs.forests import Labels


class _Factor(NamedTuple):
    """A table of scores, with an axis for each of its nodes, whose numbers increase."""

    nodes: tuple[int, ...]
    scores: NDArray[np.float64]


def best_among(
    unary: Matrix, pairwise: Any, edges: Labels, allowed: NDArray[np.bool_], *, largest: int
) -> Labels | None:
    """Return the best labels of those that are allowed, or None if a table would be too large.

    Parameters are those of `best_relaxed`; each node has an allowed label. ``largest`` is the most
    entries of a table.
    """
    labels: Labels = np.argmax(allowed, axis=1).astype(np.int64)
    free = allowed.sum(axis=1) > 1
    single = with_known_neighbors(unary, pairwise, edges, labels, free)
    choices = {v: np.flatnonzero(allowed[v]) for v in np.flatnonzero(free).tolist()}
    factors: dict[int, list[_Factor]] = {
        v: [_Factor((v,), single[v, few])] for v, few in choices.items()
    }
    for e in np.flatnonzero(free[edges].all(axis=1)).tolist():
        u, v = edges[e].tolist()
        table = pairwise[e][np.ix_(choices[u], choices[v])]
        factor = _Factor((u, v), table) if u < v else _Factor((v, u), table.T)
        factors[u].append(factor)
        factors[v].append(factor)
    found = _eliminated(factors, {v: len(few) for v, few in choices.items()}, largest)
    if found is None:
        return None
    for v, place in found.items():
        labels[v] = choices[v][place]
    return labels


def with_known_neighbors(
    unary: Matrix, pairwise: Any, edges: Labels, labels: Labels, free: NDArray[np.bool_]
) -> Matrix:
    """Return scores of the free nodes' labels, with those of edges to nodes that are not free."""
    single = unary.copy()
    first, second = edges.T
    inner, outer = free[first] & ~free[second], free[second] & ~free[first]
    np.add.at(single, first[inner], pairwise[inner, :, labels[second[inner]]])
    np.add.at(single, second[outer], pairwise[outer, labels[first[outer]], :])
    return single


def _eliminated(
    factors: dict[int, list[_Factor]], sizes: dict[int, int], largest: int
) -> dict[int, int] | None:
    """Return the best place of each node in its list of labels."""

    def joined(v: int) -> tuple[int, ...]:
        return tuple(sorted({node for factor in factors[v] for node in factor.nodes}))

    def size(v: int) -> int:
        return math.prod(sizes[node] for node in joined(v))

    costs = {v: size(v) for v in factors}
    last: list[tuple[int, tuple[int, ...], NDArray[np.int64]]] = []
    while factors:
        v = min(costs, key=lambda node: (costs[node], node))
        if costs[v] > largest:
            return None
        nodes = joined(v)
        total = np.zeros([sizes[node] for node in nodes])
        for factor in factors.pop(v):
            shape = [sizes[node] if node in factor.nodes else 1 for node in nodes]
            total += factor.scores.reshape(shape)
        axis = nodes.index(v)
        others = nodes[:axis] + nodes[axis + 1 :]
        last.append((v, others, total.argmax(axis=axis)))
        rest = _Factor(others, total.max(axis=axis))
        del costs[v]
        for node in others:
            factors[node] = [factor for factor in factors[node] if v not in factor.nodes]
            factors[node].append(rest)
        for node in others:
            costs[node] = size(node)
    found: dict[int, int] = {}
    for v, others, best in reversed(last):
        found[v] = int(best[tuple(found[node] for node in others)])
    return found
