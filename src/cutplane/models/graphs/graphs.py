"""Labels of the nodes of any graphs, with exact or relaxed inference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.models.graphs.local_polytope import RelaxedLabels
from cutplane.models.graphs.search import best_exact, best_relaxed_first_by_messages
from cutplane.models.graphs.trees import NodeLabels
from cutplane.models.structured.forests import (
    Forest,
    ForestMarginals,
    ForestScores,
    Labels,
    best_labels,
)

_SEARCHES = {"exact": best_exact, "relaxed": best_relaxed_first_by_messages}


class Graph(NamedTuple):
    """A graph with features.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes, n_features)
        Features of the nodes.
    edges : ndarray of shape (n_edges, 2)
        Pairs of nodes. Two nodes may have several edges, and none to itself.
    edge_features : ndarray of shape (n_edges, n_edge_features), optional
        Without them every edge has one feature, which is 1.
    """

    nodes: Any
    edges: Any
    edge_features: Any = None


class GraphModel(NodeLabels):
    """A label for each node of a graph; inputs are of the kind `Graph`.

    Parameters are a weight for each label and node feature, then one for each edge feature, label
    of the edge's first node and label of its second. The loss is the number of wrong labels.

    Graphs without loops are searched by dynamic programming, others by messages that bound the
    scores, and by HiGHS where these are not enough.

    Parameters
    ----------
    n_labels : int, optional
        Labels are 0, 1, ...; by default as many as occur.
    search : {"exact", "relaxed"}
        How graphs with loops are searched. Exactly; or by a linear relaxation, where a node may
        have shares of several labels. Then the risk that is minimized
        is an upper bound of the one of labels proper, and the certificate is about this bound.
        Predictions are rounded: each node gets the label that it has most of.
    symmetric : bool
        Whether an edge means the same in both directions: then weights are for pairs of labels in
        any order.
    """

    def __init__(
        self, n_labels: int | None = None, *, search: str = "exact", symmetric: bool = False
    ) -> None:
        if search not in _SEARCHES:
            raise ValueError(f"unknown search {search!r}: known are {', '.join(_SEARCHES)}")
        super().__init__(n_labels)
        self.search = search
        self.symmetric = symmetric

    def initialize(self, X: list[Graph], Y: list[Any]) -> None:
        """Look up the numbers of labels and features, and check the data."""
        outputs = [_checked_labels(y, f"output {i}") for i, y in enumerate(Y)]
        self._count_labels(outputs)
        for i, (x, y) in enumerate(zip(X, outputs, strict=True)):
            try:
                if i == 0:
                    first = _as_arrays(x)
                    self.n_features = first.nodes.shape[1]
                    self.n_edge_features = first.edge_features.shape[1]
                nodes = self._checked(x).nodes
            except ValueError as error:
                raise ValueError(f"example {i}: {error}") from None
            if len(y) != len(nodes):
                raise ValueError(f"example {i} has {len(nodes)} nodes and {len(y)} labels")
        self.n_parameters = self.labels * self.n_features + self.n_edge_features * self.n_pairs

    @staticmethod
    def smallest_examples(
        labels: int, n_features: int, n_edge_features: int
    ) -> tuple[list[Any], list[Any]]:
        """Return a node with the last label."""
        node = Graph(np.zeros((1, n_features)), [], np.zeros((0, n_edge_features)))
        return [node], [[labels - 1]]

    @property
    def n_pairs(self) -> int:
        """The number of weights that an edge feature has."""
        return self.labels * (self.labels + self.symmetric) // (1 + self.symmetric)

    @property
    def _places(self) -> Labels:
        """The place of the weight of each pair of labels."""
        if not self.symmetric:
            return np.arange(self.n_pairs).reshape(self.labels, self.labels)
        places = np.empty((self.labels, self.labels), dtype=np.int64)
        upper = np.triu_indices(self.labels)
        places[upper] = places.T[upper] = np.arange(self.n_pairs)
        return places

    def joint_feature(self, x: Graph, y: Any) -> Vector:
        """Return sums of features by label, then of edge features by pairs of labels."""
        x = self._checked(x)
        shares = RelaxedLabels.of(y, x.edges, self.labels)
        by_pair = np.zeros((self.n_pairs, self.n_edge_features))
        np.add.at(by_pair, self._places, np.tensordot(shares.edges, x.edge_features, (0, 0)))
        return np.concatenate([(shares.nodes.T @ x.nodes).ravel(), by_pair.T.ravel()])

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return the number of wrong labels, in shares if ``y_hat`` is relaxed."""
        if isinstance(y_hat, RelaxedLabels):
            return float(
                np.sum(1.0 - y_hat.nodes[np.arange(len(y)), np.asarray(y, dtype=np.int64)])
            )
        return super().loss(y, y_hat)

    def inference(self, x: Graph, w: Vector) -> Labels:
        """Return the labels with the highest score, or rounded ones if the search is relaxed."""
        found = super().inference(x, w)
        return found.rounded() if isinstance(found, RelaxedLabels) else found

    def _best(self, x: Graph, w: Vector, y: Labels | None) -> Labels | RelaxedLabels:
        x = self._checked(x)
        unary, pairwise = self._of_nodes_and_edges(x, w, y)
        forest = Forest.of(len(unary), x.edges)
        if forest is not None:
            return best_labels(*_directed(unary, pairwise, x.edges, forest))
        if self.labels == 1:
            return np.zeros(len(unary), dtype=np.int64)
        return _SEARCHES[self.search](unary, pairwise, x.edges)

    def _scores(self, x: Graph, w: Vector, y: Labels | None) -> ForestScores:
        x = self._checked(x)
        unary, pairwise = self._of_nodes_and_edges(x, w, y)
        return _directed(unary, pairwise, x.edges, _without_loops(x))

    def _of_nodes_and_edges(
        self, x: Graph, w: Vector, y: Labels | None
    ) -> tuple[Matrix, NDArray[np.float64]]:
        unary, rest = self._unary(x.nodes, w, y)
        weights = rest.reshape(self.n_edge_features, -1)[:, self._places]
        return unary, np.tensordot(x.edge_features, weights, axes=1)

    def _mean_feature(self, x: Graph, found: ForestMarginals) -> Vector:
        x = self._checked(x)
        child, downward = _children(x.edges, _without_loops(x))
        pairs = found.pairs[child]
        pairs = np.where(downward[:, None, None], pairs, np.swapaxes(pairs, 1, 2))
        return self.joint_feature(x, RelaxedLabels(found.nodes, pairs))

    def _checked(self, x: Graph) -> Graph:
        """Return a graph as arrays that fit together, and to the model."""
        x = _as_arrays(x)
        found = x.nodes.shape[1], x.edge_features.shape[1]
        if found != (self.n_features, self.n_edge_features):
            raise ValueError(
                f"nodes have {found[0]} features and edges {found[1]}, the model has weights for "
                f"{self.n_features} and {self.n_edge_features}"
            )
        return x


def _without_loops(x: Graph) -> Forest:
    forest = Forest.of(len(x.nodes), x.edges)
    if forest is None:
        raise ValueError(
            "the graph has loops: probabilities (loss='crf') are for graphs without them, "
            "use loss='margin'"
        )
    return forest


def _children(edges: Labels, forest: Forest) -> tuple[Labels, NDArray[np.bool_]]:
    """Return the end of each edge that is the child, and whether it is the second one."""
    first, second = edges[:, 0], edges[:, 1]
    downward = forest.parents[second] == first
    return np.where(downward, second, first), downward


def _directed(
    unary: Matrix, pairwise: NDArray[np.float64], edges: Labels, forest: Forest
) -> ForestScores:
    """Return the scores of a forest: edges become those from nodes to their parents."""
    child, downward = _children(edges, forest)
    by_child = np.zeros((len(unary), *pairwise.shape[1:]))
    by_child[child] = np.where(downward[:, None, None], pairwise, np.swapaxes(pairwise, 1, 2))
    return ForestScores(np.ascontiguousarray(unary), by_child, *forest)


def _as_arrays(x: Graph) -> Graph:
    """Return a graph as arrays that fit together."""
    if not isinstance(x, Graph):
        raise ValueError(f"a {type(x).__name__} is no Graph(nodes, edges, edge_features)")
    nodes = _matrix(x.nodes, "node features")
    edges = _checked_edges(x.edges, len(nodes))
    if x.edge_features is None:
        return Graph(nodes, edges, np.ones((len(edges), 1)))
    features = _matrix(x.edge_features, "edge features")
    if len(features) != len(edges):
        raise ValueError(f"{len(features)} rows of edge features for {len(edges)} edges")
    return Graph(nodes, edges, features)


def _matrix(given: Any, name: str) -> Matrix:
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} are no table of numbers") from None
    if matrix.ndim != 2:
        raise ValueError(f"{name} have shape {matrix.shape}, not one row for each")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} are not finite")
    return matrix


def _checked_edges(given: Any, n_nodes: int) -> Labels:
    if len(given) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    try:
        edges = np.asarray(given)
    except ValueError:
        raise ValueError("edges must be pairs of nodes") from None
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(f"edges must be pairs of nodes, got shape {edges.shape}, {edges.dtype}")
    missing = ((edges < 0) | (edges >= n_nodes)).any(axis=1)
    for wrong, what in (
        (missing, f"there are nodes 0 to {n_nodes - 1}"),
        (edges[:, 0] == edges[:, 1], "a node has no edge to itself"),
    ):
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ValueError(f"edge {place} joins {edges[place].tolist()}: {what}")
    return edges.astype(np.int64)


def _checked_labels(given: Any, name: str) -> Labels:
    y = np.asarray(given)
    if y.ndim != 1 or (y.size and (y.dtype.kind not in "iu" or y.min() < 0)):
        raise ValueError(f"{name} is no vector of labels 0, 1, ...")
    return y.astype(np.int64)
