"""What a structured model must offer: features, a loss, and two searches for the best output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from inspect import signature
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.sparse import issparse
from scipy.special import entr, softmax

from cutplane.compute.arrays import Vector
from cutplane.named import ByName


class StructuredModel(Protocol):
    """Scores an output ``y`` of an input ``x`` by ``w . joint_feature(x, y)``.

    Inputs and outputs are any objects. No base class is needed; with this one for a base, the
    attributes have their defaults. Optional are

    - ``initialize(X, Y)``, which looks at the data and sets ``n_parameters``;
    - ``slack_augmented_inference(x, y, w)``, for rescaled slacks;
    - ``expected_feature(x, w)``, for the loss "crf": the mean of joint features if the probability
      of an output is proportional to ``exp(w . joint_feature(x, y))``, and the entropy of these
      probabilities, as a pair; and ``marginals(x, w)``, the probabilities of parts of an output;
    - ``outputs(x)``, all outputs of an input, for `cutplane.testing.check_model`.

    Attributes
    ----------
    n_parameters : int
        Length of ``w``.
    exact : bool
        False if inference may miss the best output: then no gap is a proof. True by default.
    releases_gil : bool
        Whether inference is compiled and lets other threads run. False by default.
    """

    n_parameters: int
    exact: bool = True
    releases_gil: bool = False

    def joint_feature(self, x: Any, y: Any) -> Any:
        """Return a vector of ``n_parameters`` numbers, or a pair ``(indices, values)``."""

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return what it costs to say ``y_hat`` where ``y`` is true: 0 if they are the same."""

    def inference(self, x: Any, w: Vector) -> Any:
        """Return the output with the highest score."""

    def loss_augmented_inference(self, x: Any, y: Any, w: Vector) -> Any:
        """Return the output with the highest sum of its score and its loss beside ``y``."""


class LibraryModel:
    """A model that comes with the library: it can be shown, and kept in a model file.

    A file has the options of the constructor, which are attributes of the same names, and what
    `initialize` looked up in the data. A model is restored by showing it the smallest examples from
    which it looks up the same. So it checks them itself.
    """

    releases_gil = True
    n_parameters: int
    looked_up: ClassVar[tuple[str, ...]] = ()
    """Attributes that are sizes, or ``classes``."""

    @staticmethod
    def smallest_examples(*args: Any, **kwargs: Any) -> tuple[list[Any], list[Any]]:
        """Return the smallest inputs and outputs, given what is looked up in them."""
        return [], []

    def __repr__(self) -> str:
        names = [name for name in signature(type(self)).parameters if name in vars(self)]
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({options})"


_SEARCHES = ("inference", "loss_augmented_inference", "slack_augmented_inference")
_FUNCTIONS = (*_SEARCHES, "expected_feature")  # a model may lack the last two
_REQUIRED = {
    "joint_feature": "joint_feature(x, y)",
    "loss": "loss(y, y_hat)",
    "inference": "inference(x, w)",
    "loss_augmented_inference": "loss_augmented_inference(x, y, w)",
}


class Offers(NamedTuple):
    """What a model says of itself, or the defaults where it says nothing."""

    exact: bool
    releases_gil: bool
    outputs: Callable[[Any], Iterable[Any]] | None
    functions: dict[str, Callable[..., Any]]  # searches and expectations it has, by name

    @classmethod
    def of(cls, model: Any) -> Offers:
        """Ask a model: the only place where that is done."""
        return cls(
            exact=bool(getattr(model, "exact", StructuredModel.exact)),
            releases_gil=bool(getattr(model, "releases_gil", StructuredModel.releases_gil)),
            outputs=getattr(model, "outputs", None),
            functions={
                name: own for name in _FUNCTIONS if callable(own := getattr(model, name, None))
            },
        )

    @property
    def searches(self) -> list[str]:
        """The names of the searches that the model has."""
        return [name for name in _SEARCHES if name in self.functions]


def prepared(model: Any, X: list[Any], Y: list[Any]) -> Any:
    """Return a model that knows its number of parameters; the given one is left as it is."""
    for name, call in _REQUIRED.items():
        if isinstance(model, type) or not callable(getattr(model, name, None)):
            raise TypeError(f"{name_of_model(model)} is no structured model: it has no {call}")
    if callable(getattr(model, "initialize", None)):
        model = deepcopy(model)
        model.initialize(X, Y)
    n_parameters = getattr(model, "n_parameters", None)
    if not (isinstance(n_parameters, Integral) and int(n_parameters) > 0):
        raise TypeError(
            f"{name_of_model(model)}.n_parameters must be a whole number above 0, got "
            f"{n_parameters!r}; a model may set it in initialize(X, Y)"
        )
    return model


def as_examples(X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
    """Return inputs and outputs as lists of the same length, at least one of each."""
    inputs, outputs = as_list(X), as_list(Y)
    if len(inputs) != len(outputs):
        raise ValueError(f"X has {len(inputs)} examples, Y has {len(outputs)}")
    if not inputs:
        raise ValueError("a model needs at least one example")
    return inputs, outputs


def as_list(things: Any) -> list[Any]:
    """Return a list of examples, one for each row of a table."""
    if issparse(things):
        raise TypeError("a sparse matrix is no list of examples; give a list of its rows")
    # What is no sequence, or has rows that are not what it goes through, such as a data frame.
    if hasattr(things, "iloc") or not hasattr(things, "__iter__"):
        things = np.asarray(things)
    return list(things)


def name_of_model(model: Any) -> str:
    """Return what to call a model in a message."""
    return model.__name__ if isinstance(model, type) else type(model).__name__


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
        return np.asarray(softmax(self._scores(x, w)))

    def _scores(self, x: Any, w: Vector) -> Vector:
        return np.asarray(w.reshape(len(self.classes), -1) @ x)


MODELS = ByName[type[Any]](
    {
        "MulticlassModel": "cutplane.models.structured.model:MulticlassModel",
        "MultilabelModel": "cutplane.models.graphs.graphs:MultilabelModel",
        "TreeModel": "cutplane.models.graphs.graphs:TreeModel",
        "GraphModel": "cutplane.models.graphs.graphs:GraphModel",
        "RNAFolding": "cutplane.models.rna.model:RNAFolding",
    }
)
"""From a name to the class."""
