"""Several labels at once as a structured model, alone or joined by a tree."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.models.graphs.forests import (
    ForestMarginals,
    ForestScores,
    Labels,
    SeveralLabels,
    parents_first,
)


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
