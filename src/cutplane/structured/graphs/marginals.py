"""Forests: the probabilities of labels if those of whole labelings are proportional to exp(score).

    p(y) ~ exp( sum_v unary[v, y_v]  +  sum_v pairwise[v, y_parent(v), y_v] )

By sums from the leaves to the roots, and products back (sum-product). A forest is a Markov chain
from the roots to the leaves, so the entropy of p is that of the roots plus the mean entropies of
nodes given their parents: a sum of terms that are not negative, without a difference of large
numbers. The logarithm of the sum of all exp(score) is the entropy plus the mean score.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.structured.graphs.forests import ForestScores, Labels


class ForestMarginals(NamedTuple):
    """The probabilities of labels and of pairs of them, and the entropy of all labels together."""

    nodes: Matrix  # (n_nodes, n_labels)
    pairs: NDArray[np.float64]  # (n_nodes, n_labels, n_labels): rows are for the parent's label
    entropy: float

    @classmethod
    def of(cls, scores: ForestScores) -> ForestMarginals:
        """Run both passes. If all edges share their scores, ``pairs`` has one entry, their sum."""
        nodes, pairs = np.zeros_like(scores.unary), np.zeros_like(scores.pairwise)
        entropy = fill_marginals(*scores, nodes, pairs)
        # An entropy lies in this range; beyond it is rounding, which must not lift a plane.
        most = nodes.shape[0] * np.log(nodes.shape[1])
        return cls(nodes, pairs, float(np.clip(entropy, 0.0, most)))


@njit(cache=True, nogil=True, inner=True)
def _normalize(logs: Vector, shares: Vector) -> float:
    """Write the shares that are proportional to exp(logs), and return log sum exp(logs)."""
    top = -np.inf
    for b in range(len(logs)):
        top = max(top, logs[b])
    total = 0.0
    for b in range(len(logs)):
        shares[b] = np.exp(logs[b] - top)
        total += shares[b]
    for b in range(len(logs)):
        shares[b] /= total
    log_total: float = top + np.log(total)
    return log_total


@njit(cache=True, nogil=True, inner=True)
def _entropy(logs: Vector, shares: Vector, log_total: float) -> float:
    entropy = 0.0
    for b in range(len(logs)):
        entropy += shares[b] * (log_total - logs[b])
    return entropy


@njit(cache=True, nogil=True)
def fill_marginals(
    unary: Matrix, pairwise: Any, parents: Labels, order: Labels, nodes: Matrix, pairs: Any
) -> float:
    """Write the probabilities of labels and pairs, which are zero before; return the entropy.

    Parameters are those of `best_labels`; ``pairs`` is as large as ``pairwise``.
    """
    n_nodes, n_labels = unary.shape
    below = unary.copy()  # log of the sum over a node's subtree, by its label, up to a constant
    logs, shares, message = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    for step in range(n_nodes - 1, -1, -1):
        v = order[step]
        parent = parents[v]
        if parent < 0:
            continue
        edge = v if pairwise.shape[0] > 1 else 0
        for a in range(n_labels):
            for b in range(n_labels):
                logs[b] = below[v, b] + pairwise[edge, a, b]
            message[a] = _normalize(logs, shares)
        # Only differences matter. So numbers stay small however many nodes there are.
        top = message.max()
        for a in range(n_labels):
            below[parent, a] += message[a] - top
    entropy = 0.0
    for step in range(n_nodes):
        v = order[step]
        parent = parents[v]
        if parent < 0:
            total = _normalize(below[v], nodes[v])
            entropy += _entropy(below[v], nodes[v], total)
            continue
        edge = v if pairwise.shape[0] > 1 else 0
        for a in range(n_labels):
            above = nodes[parent, a]
            for b in range(n_labels):
                logs[b] = below[v, b] + pairwise[edge, a, b]
            total = _normalize(logs, shares)
            entropy += above * _entropy(logs, shares, total)
            for b in range(n_labels):
                pairs[edge, a, b] += above * shares[b]
                nodes[v, b] += above * shares[b]
    return entropy
