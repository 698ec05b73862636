"""Inference in forests: the best labels of their nodes, and the probabilities of labels.

    max_y  sum_v unary[v, y_v]  +  sum_v pairwise[v, y_parent(v), y_v]
    p(y) ~ exp( sum_v unary[v, y_v]  +  sum_v pairwise[v, y_parent(v), y_v] )

The best labels are found by dynamic programming from the leaves to the roots, probabilities by sums
from the leaves to the roots, and products back (sum-product, which for a chain is the
forward-backward algorithm). A forest is a Markov chain from the roots to the leaves, so the entropy
of p is that of the roots plus the mean entropies of nodes given their parents: a sum of terms that
are not negative, without a difference of large numbers.

This is the one sum-product in logarithms: trees, hidden Markov models and, where transitions are
too far apart to be exponentiated, conditional random fields use it. Other searches and sums have
the shape of their transitions built into their inner loop, which makes them several times as fast,
and nothing to share: a dense matrix that is padded to whole vectors and exponentiated once
(:mod:`cutplane.models.sequences`), a few shifted rows (:mod:`cutplane.models.speech`), pairs of
bases (:mod:`cutplane.models.rna`). Here each edge may have a matrix of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from cutplane.compute.arrays import Matrix, Vector
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
    for v in order[::-1]:
        parent, edge = parents[v], v if pairwise.shape[0] > 1 else 0
        if parent < 0:
            continue
        for a in range(n_labels):
            best = -np.inf
            for b in range(n_labels):
                score = below[v, b] + pairwise[edge, a, b]
                if score > best:
                    best = score
                    choices[v, a] = b
            below[parent, a] += best
    labels = np.zeros(n_nodes, dtype=np.int64)
    for v in order:
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


class ForestMarginals(NamedTuple):
    """The probabilities of labels and of pairs of them, and the entropy of all labels together."""

    nodes: Matrix  # (n_nodes, n_labels)
    pairs: NDArray[np.float64]  # (n_nodes, n_labels, n_labels): rows are for the parent's label
    entropy: float

    @classmethod
    def of(cls, scores: ForestScores) -> ForestMarginals:
        """Run both passes. If all edges share their scores, ``pairs`` has one entry, their sum."""
        nodes, pairs = np.zeros_like(scores.unary), np.zeros_like(scores.pairwise)
        entropy = sum_product(*scores, nodes, pairs, np.empty(len(nodes)))
        # An entropy lies in this range; beyond it is rounding, which must not lift a plane.
        most = nodes.shape[0] * np.log(nodes.shape[1])
        return cls(nodes, pairs, float(np.clip(entropy, 0.0, most)))


@njit(cache=True, nogil=True, inner=True, error_model="numpy")
def _normalize(logs: Vector, shares: Vector) -> float:
    """Write the shares that are proportional to exp(logs), and return log sum exp(logs)."""
    top = -np.inf
    for b in range(len(logs)):
        top = max(top, logs[b])
    total = 0.0
    for b in range(len(logs)):
        # exp(-40) is 4e-18 of the sum that it would be added to.
        shares[b] = np.exp(logs[b] - top) if logs[b] - top > -40.0 else 0.0
        total += shares[b]
    for b in range(len(logs)):
        shares[b] /= total
    return float(top + np.log(total))


@njit(cache=True, nogil=True, inner=True)
def _entropy(logs: Vector, shares: Vector, log_total: float) -> float:
    entropy = 0.0
    for b in range(len(logs)):
        if shares[b] > 0.0:
            entropy += shares[b] * (log_total - logs[b])
    return entropy


@njit(cache=True, nogil=True)
def sum_product(
    unary: Matrix, pairwise: Any, parents: Labels, order: Labels, nodes: Matrix, pairs: Any,
    log_sums: Vector,
) -> float:  # fmt: skip
    """Write the probabilities of labels and pairs, which are zero before; return the entropy.

    The first parameters are those of `best_labels`, ``pairs`` is as large as ``pairwise``. The sum
    of ``log_sums``, one for each node, is the logarithm of the sum of all exp(score).
    """
    n_labels = unary.shape[1]
    below = unary.copy()  # log of the sum over a node's subtree, by its label, up to a constant
    logs, shares, message = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    for v in order[::-1]:
        parent, edge = parents[v], v if pairwise.shape[0] > 1 else 0
        if parent < 0:
            continue
        for a in range(n_labels):
            for b in range(n_labels):
                logs[b] = below[v, b] + pairwise[edge, a, b]
            message[a] = _normalize(logs, shares)
        # Only differences matter. So numbers stay small however many nodes there are.
        log_sums[v] = message.max()
        for a in range(n_labels):
            below[parent, a] += message[a] - log_sums[v]
    entropy = 0.0
    for v in order:
        parent, edge = parents[v], v if pairwise.shape[0] > 1 else 0
        if parent < 0:
            log_sums[v] = _normalize(below[v], nodes[v])
            entropy += _entropy(below[v], nodes[v], log_sums[v])
            continue
        for a in range(n_labels):
            above = nodes[parent, a]
            if above == 0.0:
                continue
            for b in range(n_labels):
                logs[b] = below[v, b] + pairwise[edge, a, b]
            total = _normalize(logs, shares)
            entropy += above * _entropy(logs, shares, total)
            for b in range(n_labels):
                pairs[edge, a, b] += above * shares[b]
                nodes[v, b] += above * shares[b]
    return entropy
