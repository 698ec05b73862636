"""Labels of the nodes of a graph that may be fractional: points of the local polytope.

    nodes[v] >= 0, sum 1;   edges[e] >= 0, row sums nodes[u], column sums nodes[v], e = (u, v)

Labels proper are its points in zeros and ones. On a forest it has no other corners.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.structured.graphs.forests import Labels

_INTEGRAL = 1e-6  # a tenfold of what HiGHS may miss a bound by


class RelaxedLabels(NamedTuple):
    """How much of each label the nodes have, and of each pair of labels the edges.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes, n_labels)
    edges : ndarray of shape (n_edges, n_labels, n_labels)
        The label of the edge's first node gives the row.
    """

    nodes: Matrix
    edges: NDArray[np.float64]

    @classmethod
    def of(cls, y: Any, edges: Labels, n_labels: int) -> RelaxedLabels:
        """Return labels as shares of zero and one; shares are returned as they are."""
        if isinstance(y, RelaxedLabels):
            return y
        y = np.asarray(y, dtype=np.int64)
        nodes = np.zeros((len(y), n_labels))
        nodes[np.arange(len(y)), y] = 1.0
        pairs = np.zeros((len(edges), n_labels, n_labels))
        pairs[np.arange(len(edges)), y[edges[:, 0]], y[edges[:, 1]]] = 1.0
        return cls(nodes, pairs)

    @property
    def integral(self) -> bool:
        """Whether these are labels proper, up to a solver's tolerance."""
        return bool((np.minimum(self.nodes, 1.0 - self.nodes) < _INTEGRAL).all())

    def rounded(self) -> Labels:
        """Return the label that each node has most of."""
        return np.asarray(np.argmax(self.nodes, axis=1), dtype=np.int64)

    def repaired(self, edges: Labels) -> RelaxedLabels:
        """Return a point of the polytope near to this one, which may miss it by a tolerance.

        Nodes are scaled to one. Pairs are scaled until no row and no column has too much, and what
        is missing is added as the product of what rows and columns miss.
        """
        nodes = np.maximum(self.nodes, 0.0)
        nodes /= nodes.sum(axis=1, keepdims=True)
        rows, columns = nodes[edges[:, 0]], nodes[edges[:, 1]]
        pairs = np.maximum(self.edges, 0.0)
        pairs *= _at_most_one(rows, pairs.sum(axis=2))[:, :, None]
        pairs *= _at_most_one(columns, pairs.sum(axis=1))[:, None, :]
        rows = np.maximum(rows - pairs.sum(axis=2), 0.0)
        columns = np.maximum(columns - pairs.sum(axis=1), 0.0)
        missing = np.maximum(rows.sum(axis=1), np.finfo(np.float64).tiny)
        pairs += rows[:, :, None] * (columns / missing[:, None])[:, None, :]
        return RelaxedLabels(nodes, pairs)


def _at_most_one(wanted: Matrix, found: Matrix) -> Matrix:
    """Return what to scale by, so that nothing exceeds what is wanted."""
    return np.divide(wanted, found, out=np.ones_like(wanted), where=found > wanted)
