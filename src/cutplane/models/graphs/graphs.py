"""Models of several labels at once: of the nodes of trees and of any graphs, and sets of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.models.graphs.local_polytope import RelaxedLabels
from cutplane.models.graphs.search import best_exact, best_relaxed_first_by_messages
from cutplane.models.structured.forests import (
    Forest,
    ForestMarginals,
    ForestScores,
    Labels,
    best_labels,
    parents_first,
)
from cutplane.models.structured.model import LibraryModel


class SeveralLabels(LibraryModel, ABC):
    """Several labels at once; a wrong one costs 1."""

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return the number of wrong labels."""
        return float(np.sum(np.asarray(y) != np.asarray(y_hat)))

    def inference(self, x: Any, w: Vector) -> Any:
        """Return the labels with the highest score."""
        return self._best(x, w, None)

    def loss_augmented_inference(self, x: Any, y: Any, w: Vector) -> Any:
        """Return the labels with the highest sum of score and loss."""
        return self._best(x, w, np.asarray(y, dtype=np.int64))

    def expected_feature(self, x: Any, w: Vector) -> tuple[Vector, float]:
        """Return the mean of joint features if labels have probabilities, and their entropy."""
        found = ForestMarginals.of(self._scores(x, w, None))
        return self._mean_feature(x, found), found.entropy

    def marginals(self, x: Any, w: Vector) -> Matrix:
        """Return the probability of each label, as proportional to the exponential of scores."""
        return ForestMarginals.of(self._scores(x, w, None)).nodes

    def _best(self, x: Any, w: Vector, y: Labels | None) -> Any:
        """Return the best labels, with the loss beside ``y`` if it is given."""
        return best_labels(*self._scores(x, w, y))

    @abstractmethod
    def _scores(self, x: Any, w: Vector, y: Labels | None) -> ForestScores:
        """Return the scores of labels of a forest, with the loss beside ``y`` if it is given."""

    @abstractmethod
    def _mean_feature(self, x: Any, found: ForestMarginals) -> Vector:
        """Return the mean of joint features."""


class NodeLabels(SeveralLabels):
    """A label for each node, by features of nodes and edges.

    Parameters are a weight for each label and node feature, then those of edge features. Labels are
    0, 1, ...; by default as many as occur.
    """

    looked_up = ("labels", "n_features", "n_edge_features")
    n_features: int
    n_edge_features: int

    def __init__(self, n_labels: int | None = None) -> None:
        self.n_labels = n_labels

    def _count_labels(self, Y: list[Any]) -> None:
        largest = max(int(np.max(y, initial=0)) for y in Y)
        self.labels = largest + 1 if self.n_labels is None else self.n_labels
        if largest >= self.labels:
            raise ValueError(f"label {largest} occurs, there are {self.labels} labels")

    def outputs(self, x: Any) -> list[Any]:
        """Return all labelings."""
        return [np.array(y) for y in product(range(self.labels), repeat=len(x.nodes))]

    def _unary(self, nodes: Matrix, w: Vector, y: Labels | None) -> tuple[Matrix, Vector]:
        """Return the scores of the nodes' labels, and the weights of edge features."""
        split = self.labels * self.n_features
        unary = nodes @ w[:split].reshape(self.labels, -1).T
        if y is not None:
            unary += 1.0
            unary[np.arange(len(y)), y] -= 1.0
        return unary, w[split:]


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
        nodes, parents, edges = _tree_as_arrays(x)
        by_label = np.zeros((self.labels, self.n_features))
        np.add.at(by_label, y, nodes)
        by_pair = np.zeros((self.labels, self.labels, self.n_edge_features))
        inner = parents >= 0
        np.add.at(by_pair, (y[parents[inner]], y[inner]), edges[inner])
        return np.concatenate([by_label.ravel(), np.moveaxis(by_pair, 2, 0).ravel()])

    def _mean_feature(self, x: Tree, found: ForestMarginals) -> Vector:
        nodes, _, edges = _tree_as_arrays(x)
        # Without edge features the pairs are summed over edges.
        features = np.ones((1, 1)) if x.edges is None else edges
        by_pair = np.tensordot(features, found.pairs, (0, 0))
        return np.concatenate([(found.nodes.T @ nodes).ravel(), by_pair.ravel()])

    def _scores(self, x: Tree, w: Vector, y: Labels | None) -> ForestScores:
        nodes, parents, edges = _tree_as_arrays(x)
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


def _tree_as_arrays(x: Tree) -> tuple[Matrix, Labels, Matrix]:
    nodes = np.asarray(x.nodes, dtype=np.float64)
    edges = np.ones((len(nodes), 1)) if x.edges is None else np.asarray(x.edges, dtype=np.float64)
    return nodes, np.asarray(x.parents, dtype=np.int64), edges


class MultilabelModel(SeveralLabels):
    """A set of labels, given as a vector of zeros and ones.

    Each label has a vector of weights. With `parents`, a label and its parent also have four, for
    what they are together. The loss is the number of wrong labels.

    Parameters
    ----------
    parents : array-like of shape (n_labels,), optional
        Joins the labels to a tree: the parent of each label, or -1. Without it each label is a
        problem of its own.
    """

    looked_up = ("n_labels", "n_features")

    def __init__(self, parents: Any = None) -> None:
        self.parents = parents

    def initialize(self, X: list[Any], Y: list[Any]) -> None:
        """Look up the numbers of labels and features, and check the data."""
        self.n_labels, self.n_features = len(Y[0]), len(X[0])
        for i, y in enumerate(Y):
            if len(y) != self.n_labels or not np.isin(y, (0, 1)).all():
                raise ValueError(f"output {i} is no vector of {self.n_labels} zeros and ones")
        joined = self.parents is not None
        if joined and len(self.parents) != self.n_labels:
            raise ValueError(f"{len(self.parents)} parents for {self.n_labels} labels")
        parents = np.asarray(self.parents if joined else np.full(self.n_labels, -1))
        if parents.dtype.kind not in "iu":
            raise ValueError(f"parents are no whole numbers, got {self.parents!r}")
        self._parents = parents.astype(np.int64)
        self._order = parents_first(self._parents)
        self.n_parameters = self.n_labels * self.n_features + (4 * self.n_labels if joined else 0)

    @staticmethod
    def smallest_examples(n_labels: int, n_features: int) -> tuple[list[Any], list[Any]]:
        """Return an input of zeros without labels."""
        return [np.zeros(n_features)], [np.zeros(n_labels)]

    def outputs(self, x: Any) -> list[Any]:
        """Return all sets of labels."""
        return [np.array(y) for y in product((0, 1), repeat=self.n_labels)]

    def joint_feature(self, x: Any, y: Any) -> Vector:
        """Return the input for each label that is set, then what labels and parents are."""
        y = np.asarray(y, dtype=np.int64)
        single = np.outer(y, np.asarray(x, dtype=np.float64)).ravel()
        if self.parents is None:
            return single
        together = np.zeros((self.n_labels, 2, 2))
        inner = np.flatnonzero(self._parents >= 0)
        together[inner, y[self._parents[inner]], y[inner]] = 1.0
        return np.concatenate([single, together.ravel()])

    def _mean_feature(self, x: Any, found: ForestMarginals) -> Vector:
        single = np.outer(found.nodes[:, 1], np.asarray(x, dtype=np.float64)).ravel()
        return single if self.parents is None else np.append(single, found.pairs.ravel())

    def _scores(self, x: Any, w: Vector, y: Labels | None) -> ForestScores:
        unary = np.zeros((self.n_labels, 2))
        if y is not None:
            unary += np.column_stack([y != 0, y != 1])
        single, together = np.split(w, [self.n_labels * self.n_features])
        unary[:, 1] += single.reshape(self.n_labels, -1) @ np.asarray(x, dtype=np.float64)
        pairwise = together.reshape(-1, 2, 2) if len(together) else np.zeros((1, 2, 2))
        return ForestScores(unary, np.ascontiguousarray(pairwise), self._parents, self._order)


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
