"""Labels of the nodes of trees, with exact inference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.structured.graphs.forests import ForestScores, Labels, parents_first
from cutplane.structured.graphs.marginals import ForestMarginals
from cutplane.structured.graphs.node_labels import NodeLabels


class Tree(NamedTuple):
    """A tree, or several, with features.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes, n_features)
        Features of the nodes.
    parents : ndarray of shape (n_nodes,)
        The parent of each node, or -1 for a root.
    edges : ndarray of shape (n_nodes, n_edge_features), optional
        Features of the edge from each node to its parent; those of roots are not used. Without
        them every edge has one feature, which is 1.
    """

    nodes: Any
    parents: Any
    edges: Any = None


class TreeModel(NodeLabels):
    """A label for each node of a tree; inputs are of the kind `Tree`.

    Parameters are a weight for each label and node feature, then one for each edge feature, label
    of the parent and label of the child. The loss is the number of wrong labels.

    Parameters
    ----------
    n_labels : int, optional
        Labels are 0, 1, ...; by default as many as occur.
    """

    def initialize(self, X: list[Tree], Y: list[Any]) -> None:
        """Look up the numbers of labels and features, and check the data."""
        self._count_labels(Y)
        self.n_features = np.shape(X[0].nodes)[1]
        self.n_edge_features = 1 if X[0].edges is None else np.shape(X[0].edges)[1]
        self.n_parameters = self.labels * (self.n_features + self.n_edge_features * self.labels)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            if len(y) != len(x.nodes) or len(x.parents) != len(x.nodes):
                raise ValueError(
                    f"example {i} has {len(x.nodes)} nodes, {len(x.parents)} parents and "
                    f"{len(y)} labels"
                )

    @staticmethod
    def smallest_examples(
        labels: int, n_features: int, n_edge_features: int
    ) -> tuple[list[Any], list[Any]]:
        """Return a root with the last label."""
        root = Tree(np.zeros((1, n_features)), [-1], np.zeros((1, n_edge_features)))
        return [root], [[labels - 1]]

    def joint_feature(self, x: Tree, y: Any) -> Vector:
        """Return sums of features by label, then of edge features by pairs of labels."""
        y = np.asarray(y, dtype=np.int64)
        nodes, parents, edges = _as_arrays(x)
        by_label = np.zeros((self.labels, self.n_features))
        np.add.at(by_label, y, nodes)
        by_pair = np.zeros((self.labels, self.labels, self.n_edge_features))
        inner = parents >= 0
        np.add.at(by_pair, (y[parents[inner]], y[inner]), edges[inner])
        return np.concatenate([by_label.ravel(), np.moveaxis(by_pair, 2, 0).ravel()])

    def _mean_feature(self, x: Tree, found: ForestMarginals) -> Vector:
        nodes, _, edges = _as_arrays(x)
        # Without edge features the pairs are summed over edges.
        features = np.ones((1, 1)) if x.edges is None else edges
        by_pair = np.tensordot(features, found.pairs, (0, 0))
        return np.concatenate([(found.nodes.T @ nodes).ravel(), by_pair.ravel()])

    def _scores(self, x: Tree, w: Vector, y: Labels | None) -> ForestScores:
        nodes, parents, edges = _as_arrays(x)
        unary, rest = self._unary(nodes, w, y)
        weights = rest.reshape(self.n_edge_features, self.labels, self.labels)
        # Without edge features all edges have the same scores.
        pairwise = weights if x.edges is None else np.tensordot(edges, weights, axes=1)
        return ForestScores(
            np.ascontiguousarray(unary),
            np.ascontiguousarray(pairwise),
            parents,
            parents_first(parents),
        )


def _as_arrays(x: Tree) -> tuple[Matrix, Labels, Matrix]:
    nodes = np.asarray(x.nodes, dtype=np.float64)
    edges = np.ones((len(nodes), 1)) if x.edges is None else np.asarray(x.edges, dtype=np.float64)
    return nodes, np.asarray(x.parents, dtype=np.int64), edges
