"""Examples with their model: the output of each that is worst at ``w``.

    margin rescaling:   max_y  loss(y_i, y) + w.(psi(x_i, y) - psi(x_i, y_i))
    slack rescaling:    max_y  loss(y_i, y) * (1 + w.(psi(x_i, y) - psi(x_i, y_i)))

The true output is one of them, so that the maximum is never below zero. Any output makes a plane
``difference.w + loss`` that the maximum never goes below, the best one or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.structured.features import Features, as_features
from cutplane.structured.model import Offers, name_of_model

RESCALINGS = {"margin": "loss_augmented_inference", "slack": "slack_augmented_inference"}
"""From ways to bring the loss in to the search that a model must offer."""


class Worst(NamedTuple):
    """An output of an example: its features beyond those of the true output, and its loss.

    With rescaled slacks the difference is multiplied by the loss. It is the plane
    ``difference.w + loss`` of the example.
    """

    difference: Features
    loss: float

    def height_at(self, w: Vector) -> float:
        """Return how high the plane is."""
        return self.loss + self.difference.dot(w)


_TRUTH = Worst(Features(np.zeros(0, dtype=np.int64), np.zeros(0)), 0.0)


class Examples:
    """Inputs with their true outputs, and a model of them that knows its number of parameters."""

    def __init__(self, model: Any, X: list[Any], Y: list[Any], rescaling: str) -> None:
        if rescaling not in RESCALINGS:
            raise ValueError(f"unknown rescaling {rescaling!r}: known are {', '.join(RESCALINGS)}")
        self.offers = Offers.of(model)
        if RESCALINGS[rescaling] not in self.offers.searches:
            raise TypeError(
                f"{rescaling} rescaling needs {RESCALINGS[rescaling]}(x, y, w), which "
                f"{name_of_model(model)} has not"
            )
        self.model, self.X, self.Y = model, X, Y
        self.rescaling = rescaling
        self._truths = [self._features(i, y) for i, y in enumerate(Y)]

    def part(self, chosen: Sequence[int]) -> Examples:
        """Return some of the examples, with the same model."""
        part = copy(self)
        part.X, part.Y, part._truths = (
            [whole[i] for i in chosen] for whole in (self.X, self.Y, self._truths)
        )
        return part

    def worst(self, i: int, w: Vector) -> Worst:
        """Return the worst output of example ``i`` that inference finds at ``w``.

        An error is raised as it is, with the number of the example added to it.
        """
        search = self.offers.searches[RESCALINGS[self.rescaling]]
        try:
            y_hat = search(self.X[i], self.Y[i], w)
            loss = float(self.model.loss(self.Y[i], y_hat))
        except Exception as error:
            error.add_note(f"raised by {name_of_model(self.model)} at example {i}")
            raise
        if not (np.isfinite(loss) and loss >= 0.0):
            raise ValueError(
                f"{name_of_model(self.model)}: the loss must be finite and not negative, it is "
                f"{loss} at example {i}"
            )
        difference = self._features(i, y_hat).minus(self._truths[i])
        if self.rescaling == "slack":
            difference = difference.scaled(loss)
        found = Worst(difference, loss)
        return found if found.height_at(w) > 0.0 else _TRUTH

    def _features(self, i: int, y: Any) -> Features:
        try:
            return as_features(self.model.joint_feature(self.X[i], y), self.model.n_parameters)
        except Exception as error:
            error.add_note(f"raised by {name_of_model(self.model)} at example {i}")
            raise
