"""Many classes as a structured model: the simplest of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr, softmax

from cutplane.compute.arrays import Vector
from cutplane.models.structured.model import LibraryModel


class MulticlassModel(LibraryModel):
    """One of k classes: a vector of weights for each, loss 1 for a wrong one.

    The risk is that of Crammer and Singer's loss without intercepts, or of softmax if the loss is
    "crf"; `cutplane.ScoredRisk` is much faster. Classes and the number of features are those of the
    data.
    """

    releases_gil = False  # Python's work is the larger part
    looked_up = ("n_features", "classes")
    classes: Any

    def initialize(self, X: list[Any], Y: list[Any]) -> None:
        """Look up the classes and the number of features."""
        self.classes = np.unique(np.array(Y))
        self.n_features = len(X[0])
        self.n_parameters = len(self.classes) * self.n_features

    @staticmethod
    def smallest_examples(n_features: int, classes: Any) -> tuple[list[Any], list[Any]]:
        """Return an input of zeros for each class."""
        return [np.zeros(n_features)] * len(classes), list(classes)

    def outputs(self, x: Any) -> list[Any]:
        """Return all classes."""
        return list(self.classes)

    def joint_feature(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the features of the input, at the place of the class."""
        k = np.searchsorted(self.classes, y)
        if k == len(self.classes) or self.classes[k] != y:
            raise ValueError(f"{y!r} is none of the {len(self.classes)} classes")
        return k * len(x) + np.arange(len(x)), x

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return 1 for another class, else 0."""
        return float(y != y_hat)

    def inference(self, x: Any, w: Vector) -> Any:
        """Return the class with the highest score."""
        return self.classes[np.argmax(self._scores(x, w))]

    def loss_augmented_inference(self, x: Any, y: Any, w: Vector) -> Any:
        """Return the class with the highest sum of score and loss."""
        return self.classes[np.argmax(self._scores(x, w) + (self.classes != y))]

    def slack_augmented_inference(self, x: Any, y: Any, w: Vector) -> Any:
        """Return the class with the highest product of loss and missing margin."""
        scores = self._scores(x, w)
        missing = 1.0 + scores - scores[self.classes == y]
        return self.classes[np.argmax((self.classes != y) * missing)]

    def expected_feature(self, x: Any, w: Vector) -> tuple[Vector, float]:
        """Return the mean of joint features if classes have probabilities, and their entropy."""
        shares = self.marginals(x, w)
        return np.outer(shares, x).ravel(), float(entr(shares).sum())

    def marginals(self, x: Any, w: Vector) -> Vector:
        """Return the probability of each class, as proportional to the exponential of its score."""
        shares: Vector = softmax(self._scores(x, w))
        return shares

    def _scores(self, x: Any, w: Vector) -> Vector:
        scores: Vector = w.reshape(len(self.classes), -1) @ x
        return scores
