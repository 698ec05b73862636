"""Forests: the best labels of their nodes, by dynamic programming from the leaves to the roots.

max_y  sum_v unary[v, y_v]  +  sum_v pairwise[v, y_parent(v), y_v]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from cutplane.compute.arrays import Matrix
from cutplane.compute.compiled import njit

Labels = NDArray[np.int64]


class ForestScores(NamedTuple):
    """The scores of labels of a forest's nodes, and its shape.

    ``pairwise[v, a, b]`` is for the edge from ``v`` to a parent with label ``a``; if it has one
    entry only, it serves all edges. ``order`` has parents before children.
    """

    unary: Matrix  # (n_nodes, n_labels)
    pairwise: NDArray[np.float64]  # (n_nodes or 1, n_labels, n_labels)
    parents: Labels
    order: Labels


@njit(cache=True, nogil=True)
def best_labels(unary: Matrix, pairwise: Any, parents: Labels, order: Labels) -> Labels:
    """Return the labels with the highest score; parameters are those of `ForestScores`."""
    n_nodes, n_labels = unary.shape
    below = unary.copy()  # the best score of a node's subtree, by its label
    choices = np.zeros((n_nodes, n_labels), dtype=np.int64)
    for step in range(n_nodes - 1, -1, -1):
        v = order[step]
        parent = parents[v]
        if parent < 0:
            continue
        edge = v if pairwise.shape[0] > 1 else 0
        for a in range(n_labels):
            best = -np.inf
            for b in range(n_labels):
                score = below[v, b] + pairwise[edge, a, b]
                if score > best:
                    best = score
                    choices[v, a] = b
            below[parent, a] += best
    labels = np.zeros(n_nodes, dtype=np.int64)
    for step in range(n_nodes):
        v = order[step]
        if parents[v] >= 0:
            labels[v] = choices[v, labels[parents[v]]]
        else:
            labels[v] = np.argmax(below[v])
    return labels


def parents_first(parents: Labels) -> Labels:
    """Return the nodes of a forest with parents before children; raise ValueError if it is none."""
    n_nodes = len(parents)
    if n_nodes and (parents.min() < -1 or parents.max() >= n_nodes):
        raise ValueError(f"parents must be -1 (a root) or a node from 0 to {n_nodes - 1}")
    depth, ancestors = (parents >= 0).astype(np.int64), parents
    # Ancestors are 1, 2, 4, 8, ... steps away: the deepest node takes log2(n_nodes) rounds.
    for _ in range(n_nodes.bit_length() + 1):
        below = ancestors >= 0
        if not below.any():
            break
        depth += np.where(below, depth[ancestors], 0)
        ancestors = np.where(below, ancestors[ancestors], -1)
    else:
        raise ValueError(f"the parents go round in a circle at node {np.argmax(ancestors >= 0)}")
    return np.argsort(depth, kind="stable")


class Forest(NamedTuple):
    """The parent of each node, -1 for roots, and the nodes with parents before children."""

    parents: Labels
    order: Labels

    @classmethod
    def of(cls, n_nodes: int, edges: Labels) -> Forest | None:
        """Return a graph without loops as a forest, None for others."""
        n_trees, tree_of = connected_components(_joined(n_nodes, edges), directed=False)
        if len(edges) != n_nodes - n_trees:
            return None
        # One more node joins the trees, so that one walk goes through all of them.
        roots = np.unique(tree_of, return_index=True)[1]
        joints = np.column_stack([np.full(n_trees, n_nodes), roots])
        order, parents = breadth_first_order(
            _joined(n_nodes + 1, np.concatenate([edges, joints])), n_nodes, directed=False
        )
        found: Labels = parents[:n_nodes].astype(np.int64)
        found[roots] = -1
        return cls(found, order[1:].astype(np.int64))


def _joined(n_nodes: int, edges: Labels) -> Any:
    ones = np.ones(len(edges), dtype=np.int8)
    return coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_nodes, n_nodes)).tocsr()
