"""Tighter bounds on the scores of a graph's labels, by triplets of nodes on short cycles.

Chains bound what the labels of a cycle can reach by less than the truth where its edges contradict
each other. Three nodes with an edge between any two of them are a triplet. It takes parts of its
edges' scores and gives back a third of the best that it can reach for each pair of labels, so that
its edges agree (block coordinate descent in the dual: D. Sontag et al., Tightening LP relaxations
for MAP using message passing, 2008). A cycle of four nodes gets a chord, an edge without scores,
that makes two triplets of it.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix
from cutplane.compute.compiled import njit
from cutplane.structured.graphs.forests import Labels
from cutplane.structured.graphs.messages import Chains, Table, gather

# For each edge at most so many triplets: in dense graphs there are too many cycles.
_TRIPLETS_PER_EDGE = 4


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
        neighbors: list[set[int]] = [set() for _ in range(n_nodes)]
        for e, (u, v) in enumerate(np.sort(edges, axis=1).tolist()):
            number.setdefault((u, v), e)
            neighbors[u].add(v)
            neighbors[v].add(u)
        joined: dict[tuple[int, int], list[int]] = {}
        for middle in range(n_nodes):
            for pair in combinations(sorted(neighbors[middle]), 2):
                joined.setdefault(pair, []).append(middle)
        most = _TRIPLETS_PER_EDGE * len(edges)
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
def tighten(
    unary: Matrix,
    pairwise: Table,
    chains: Chains,
    up: Matrix,
    down: Matrix,
    sides: Labels,
    given: Table,
) -> float:
    """Let each triplet share what its edges have among them; return what triplets keep at most.

    ``pairwise`` and ``given``, what each triplet has given to its three sides, are changed.
    """
    n_nodes, n_labels = unary.shape
    beliefs = pairwise.copy()  # of edges, with messages and their parts of the nodes
    scores = np.empty(n_labels)
    for v in range(n_nodes):
        gather(unary, chains, up, down, v, scores)
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
    kept = 0.0
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
            for a in range(n_labels):
                for b in range(n_labels):
                    change = best[side, a, b] / 3.0 - beliefs[e, a, b]
                    given[t, side, a, b] += change
                    beliefs[e, a, b] += change
                    pairwise[e, a, b] += change
    for t in range(len(sides)):
        largest = -np.inf
        for a in range(n_labels):
            for b in range(n_labels):
                for c in range(n_labels):
                    rest = given[t, 0, a, b] + given[t, 1, b, c] + given[t, 2, a, c]
                    largest = max(largest, -rest)
        kept += largest
    return kept


def losses_of_triplets(given: Table) -> tuple[float, Table]:
    """Return what triplets keep at most, and what labels lose to it."""
    first, second, third = given[:, 0, :, :, None], given[:, 1, None], given[:, 2, :, None]
    rest = first + second + third
    least = rest.min(axis=(1, 2, 3))
    return -float(least.sum()), rest - least[:, None, None, None]
