"""Examples of structured models, and the features of their outputs.

Joint features in one form: places and values of what is not zero.

Examples with their model: the plane that touches the loss of each at ``w``.

    margin rescaling:   max_y  loss(y_i, y) + w.(psi(x_i, y) - psi(x_i, y_i))
    slack rescaling:    max_y  loss(y_i, y) * (1 + w.(psi(x_i, y) - psi(x_i, y_i)))
    crf:                log sum_y exp(w.psi(x_i, y)) - w.psi(x_i, y_i)

The true output is one of them, so that no loss is ever below zero. Any output makes a plane
``difference.w + loss`` that the maximum never goes below, the best one or not. Any probabilities of
outputs make one below the last: the difference is that of the mean features, and the entropy takes
the place of the loss. It touches where they are proportional to ``exp(w.psi(x_i, y))``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.models.structured.model import Offers, name_of_model


class Features(NamedTuple):
    """A vector of joint features: its entries that are not zero, each place once, in order."""

    indices: NDArray[np.int64]
    values: Vector

    def dot(self, w: Vector) -> float:
        """Return the score of the features."""
        return float(w[self.indices] @ self.values)

    def minus(self, other: Features) -> Features:
        """Return the difference of two vectors."""
        return _summed(
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.values, -other.values]),
        )

    def scaled(self, factor: float) -> Features:
        """Return the vector times a factor."""
        return Features(self.indices, factor * self.values)


def as_features(given: Any, n_parameters: int, *, name: str = "joint_feature") -> Features:
    """Return what a model's ``joint_feature`` gave in one form, or raise ValueError.

    That is a vector of all features, or a pair of arrays ``(indices, values)``, where values at the
    same place add up.
    """
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"{name} gave a tuple of {len(given)}, not (indices, values)")
        indices, values = np.asarray(given[0]), np.asarray(given[1], dtype=np.float64)
        if indices.ndim != 1 or indices.shape != values.shape:
            raise ValueError(
                f"{name} gave indices of shape {indices.shape} with values of shape {values.shape}"
            )
        if len(indices) and indices.dtype.kind not in "iu":
            raise ValueError(f"{name} gave indices of type {indices.dtype}")
        if len(indices) and not (indices.min() >= 0 and indices.max() < n_parameters):
            worst = indices.max() if indices.max() >= n_parameters else indices.min()
            raise ValueError(f"{name} gave index {worst} of {n_parameters} parameters")
        features = _summed(indices.astype(np.int64), values)
    else:
        vector = np.asarray(given, dtype=np.float64)
        if vector.shape != (n_parameters,):
            raise ValueError(
                f"{name} gave shape {vector.shape}, the model has {n_parameters} parameters"
            )
        places = np.flatnonzero(vector)
        features = Features(places, vector[places])
    if not np.isfinite(features.values).all():
        place = features.indices[~np.isfinite(features.values)][0]
        raise ValueError(f"{name} is not finite at index {place}")
    return features


def _summed(indices: NDArray[np.int64], values: Vector) -> Features:
    """Return features with the values at each place added up, in the order they came."""
    places, where = np.unique(indices, return_inverse=True)
    sums = np.zeros(len(places))
    np.add.at(sums, where, values)
    kept = sums != 0.0  # NaN is kept, to be found
    return Features(places[kept], sums[kept])


RESCALINGS = {"margin": "loss_augmented_inference", "slack": "slack_augmented_inference"}
"""From ways to bring the loss in to the search that a model must offer."""

_EXPECTATION = "expected_feature"


class OutputLoss(NamedTuple):
    """How scores and losses of all outputs make the loss of an example.

    Attributes
    ----------
    name : {"margin", "crf"}
        A maximum over outputs, or the negative logarithm of the true output's probability.
    rescaling : {"margin", "slack"}
        How the maximum brings the loss in.
    """

    name: str = "margin"
    rescaling: str = "margin"

    @classmethod
    def of(cls, name: str, rescaling: str, model: Any) -> OutputLoss:
        """Return a loss that is known and that the model has a function for, or raise an error."""
        if name not in LOSSES:
            raise ValueError(f"unknown loss {name!r}: known are {', '.join(LOSSES)}")
        if rescaling not in RESCALINGS:
            raise ValueError(f"unknown rescaling {rescaling!r}: known are {', '.join(RESCALINGS)}")
        loss = cls(name, rescaling)
        if loss.probabilities and rescaling != "margin":
            raise ValueError(f"rescaling={rescaling!r} is for loss='margin', not for {name!r}")
        if loss.function not in Offers.of(model).functions:
            what = f"loss={name!r}" if loss.probabilities else f"{rescaling} rescaling"
            arguments = "x, w" if loss.probabilities else "x, y, w"
            raise TypeError(
                f"{what} needs {loss.function}({arguments}), which {name_of_model(model)} has not"
            )
        return loss

    @property
    def probabilities(self) -> bool:
        """Whether outputs have probabilities: then the loss is smooth."""
        return self.name == "crf"

    @property
    def smooth(self) -> bool:
        """Whether the loss has no kinks."""
        return self.probabilities

    @property
    def function(self) -> str:
        """The name of what a model must offer."""
        return _EXPECTATION if self.probabilities else RESCALINGS[self.rescaling]


LOSSES: dict[str, Callable[..., OutputLoss]] = {
    "margin": lambda rescaling="margin": OutputLoss("margin", rescaling),
    "crf": lambda: OutputLoss("crf"),
}
"""Losses by name."""


class Worst(NamedTuple):
    """An output of an example: its features beyond those of the true output, and its loss.

    With rescaled slacks the difference is multiplied by the loss. Probabilities of outputs have
    their mean features, and their entropy for a loss. It is the plane ``difference.w + loss`` of
    the example.
    """

    difference: Features
    loss: float

    def height_at(self, w: Vector) -> float:
        """Return how high the plane is."""
        return self.loss + self.difference.dot(w)


_TRUTH = Worst(Features(np.zeros(0, dtype=np.int64), np.zeros(0)), 0.0)


class Examples:
    """Inputs with their true outputs, and a model of them that knows its number of parameters."""

    def __init__(self, model: Any, X: list[Any], Y: list[Any], loss: OutputLoss) -> None:
        self.offers = Offers.of(model)
        self.model, self.X, self.Y = model, X, Y
        self.loss = loss
        self._truths = []
        for i, y in enumerate(Y):
            with self._naming(i):
                self._truths.append(self._features(i, y))

    def part(self, chosen: Sequence[int]) -> Examples:
        """Return some of the examples, with the same model."""
        part = copy(self)
        part.X, part.Y, part._truths = (
            [whole[i] for i in chosen] for whole in (self.X, self.Y, self._truths)
        )
        return part

    def worst(self, i: int, w: Vector) -> Worst:
        """Return the worst output of example ``i`` that inference finds at ``w``.

        If outputs have probabilities, all of them are the worst, each by its probability. An error
        is raised as it is, with the number of the example added to it.
        """
        with self._naming(i):
            features, loss = self._mean(i, w) if self.loss.probabilities else self._worst(i, w)
        difference = features.minus(self._truths[i])
        if self.loss.rescaling == "slack":
            difference = difference.scaled(loss)
        found = Worst(difference, loss)
        return found if found.height_at(w) > 0.0 else _TRUTH

    def _worst(self, i: int, w: Vector) -> tuple[Features, float]:
        """Return the features of the output that the model's search finds, and its loss."""
        y_hat = self.offers.functions[self.loss.function](self.X[i], self.Y[i], w)
        loss = float(self.model.loss(self.Y[i], y_hat))
        self._require_not_negative("loss", loss, i)
        return self._features(i, y_hat), loss

    def _mean(self, i: int, w: Vector) -> tuple[Features, float]:
        """Return the mean features of all outputs, and the entropy of their probabilities."""
        features, entropy = self.offers.functions[self.loss.function](self.X[i], w)
        self._require_not_negative("entropy", float(entropy), i)
        return as_features(features, self.model.n_parameters, name=_EXPECTATION), float(entropy)

    def _require_not_negative(self, what: str, number: float, i: int) -> None:
        if not (np.isfinite(number) and number >= 0.0):
            raise ValueError(
                f"{name_of_model(self.model)}: the {what} must be finite and not negative, it is "
                f"{number} at example {i}"
            )

    def _features(self, i: int, y: Any) -> Features:
        return as_features(self.model.joint_feature(self.X[i], y), self.model.n_parameters)

    @contextmanager
    def _naming(self, i: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(f"raised by {name_of_model(self.model)} at example {i}")
            raise
