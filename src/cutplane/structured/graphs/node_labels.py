"""Models of several labels at once: what they have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import product
from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.structured.graphs.forests import ForestScores, Labels, best_labels
from cutplane.structured.graphs.marginals import ForestMarginals
from cutplane.structured.model import LibraryModel


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
