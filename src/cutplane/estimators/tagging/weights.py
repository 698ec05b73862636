"""The weights of a fitted tagger by the names of their labels and features."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.risks import ChainRisk


class TaggerWeights(NamedTuple):
    """Weights of labels and features, of transitions, and of labels at both ends.

    Attributes
    ----------
    labels : list
        The labels in the order of the weights.
    features : sequence or None
        The names of the features; None if they have none.
    coef : ndarray or sparse array of shape (n_labels, n_features)
    transitions : ndarray of shape (n_labels, n_labels)
    start, end : ndarray of shape (n_labels,)
    """

    labels: list[Any]
    features: Sequence[Hashable] | None
    coef: Any
    transitions: Matrix
    start: Vector
    end: Vector

    def of_features(self) -> dict[tuple[Any, Any], float]:
        """Return the weights other than zero, from feature (or its number) and label."""
        coef = scipy.sparse.coo_array(self.coef)
        names = range(coef.shape[1]) if self.features is None else self.features
        entries = zip(coef.row.tolist(), coef.col.tolist(), coef.data.tolist(), strict=True)
        return {(names[j], self.labels[k]): weight for k, j, weight in entries if weight}

    def of_transitions(self) -> dict[tuple[Any, Any], float]:
        """Return all weights, from label and next label."""
        return {
            (before, after): weight
            for before, row in zip(self.labels, self.transitions.tolist(), strict=True)
            for after, weight in zip(self.labels, row, strict=True)
        }

    def arranged_for(
        self, risk: ChainRisk, labels: list[Any], features: Sequence[Hashable] | None
    ) -> Vector | None:
        """Return the parameters of a risk with other labels and features, zero where they are new.

        None if it is not known which features are the same.
        """
        n_features = self.coef.shape[1]
        columns = np.arange(n_features)
        if features is not None and self.features is not None:
            columns = _places(features, self.features)
        elif features is not self.features or n_features != risk.n_features:
            return None
        rows = _places(labels, self.labels)
        w = np.zeros(risk.n_parameters)
        # Which pair a weight belongs to, the risk tells of weights that are their own numbers.
        numbers = np.arange(1.0, risk.pairs.n_parameters + 1.0)
        pairs = scipy.sparse.coo_array(risk.pairs.as_matrix(numbers))
        row, column = rows[pairs.row], columns[pairs.col]
        known = (row >= 0) & (column >= 0)
        places = pairs.data[known].astype(np.int64) - 1
        w[places] = np.ravel(self.coef[row[known], column[known]])
        _, transitions, start, end = risk.split(w)  # views of w
        new = np.flatnonzero(rows >= 0)
        transitions[np.ix_(new, new)] = self.transitions[np.ix_(rows[new], rows[new])]
        start[new], end[new] = self.start[rows[new]], self.end[rows[new]]
        return w


def _places(names: Sequence[Hashable], known: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return the place of each name among those that are known, -1 if it is not."""
    place_of = {name: place for place, name in enumerate(known)}
    return np.array([place_of.get(name, -1) for name in names], dtype=np.int64)
