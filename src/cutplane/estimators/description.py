"""What an estimator is, as data: its task, its losses, what it reads, how it is saved and measured.

A `Description` stands in the class of each estimator, and `cutplane.estimators.ESTIMATORS` lists
the classes. The command line, model files, the documentation and the tests read both: none of them
knows an estimator by name.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

from msgspec import Meta

from cutplane.estimators.docstrings import entries_of, text_of
from cutplane.losses.loss import Task
from cutplane.solvers.registry import METHODS

Positive = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
NotNegative = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]

STRENGTH: dict[str, tuple[Any, Any]] = {"lam_": (Positive | None, None)}
"""What model files keep of all estimators but taggers; the first files did without."""


class Layout(NamedTuple):
    """How many arrays of which size a linear model has."""

    rows: int | None = None  # of coefficients; None for a vector
    intercepts: int | None = None  # None for a number
    problems: int = 1  # that gave them, each with a certificate
    shifts: int = 0  # intercepts that are parameters too


class Reads(StrEnum):
    """What an estimator is fitted to."""

    ROWS = "rows"
    QUERIES = "rows with queries"
    SEQUENCES = "sequences"
    STRUCTURES = "structures"
    FRAMES = "sequences of vectors"


class Targets(StrEnum):
    """What it learns to predict."""

    CLASSES = "classes"
    GRADES = "grades"
    LABEL_SETS = "sets of labels"
    NUMBERS = "numbers"
    VECTORS = "rows of numbers"
    RELEVANCE = "relevance"
    TAGS = "labels of tokens"
    OUTPUTS = "outputs of a model"
    NOTHING = "nothing"


class Measures(StrEnum):
    """Which measures of quality go with its predictions."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    QUANTILES = "quantiles"
    LABEL_SETS = "sets of labels"
    RANKING = "ranking"
    CHUNKS = "chunks"
    SEGMENTS = "segments"


class _Usual(NamedTuple):
    """What follows from the targets: the task of losses, measures, how many classes at least."""

    loss_task: Task | None = None
    measures: Measures | None = None
    least_classes: int = 0


_USUAL = {
    Targets.CLASSES: _Usual("classification", Measures.CLASSIFICATION, 2),
    Targets.GRADES: _Usual("classification", Measures.CLASSIFICATION, 2),
    Targets.LABEL_SETS: _Usual("classification", Measures.LABEL_SETS, 1),
    Targets.NUMBERS: _Usual("regression", Measures.REGRESSION),
    Targets.VECTORS: _Usual("regression"),
    Targets.RELEVANCE: _Usual("ranking", Measures.RANKING),
    Targets.TAGS: _Usual(least_classes=1),
    Targets.OUTPUTS: _Usual(),
    Targets.NOTHING: _Usual(),
}


@dataclass(frozen=True, kw_only=True)
class Description:
    """A description of an estimator.

    Attributes
    ----------
    targets : Targets
    reads : Reads
    task : str or None
        Its name for ``cutplane fit --task``; None if it is fitted in Python only.
    losses : mapping from str to a function that makes a loss
        Empty if there is no choice. A loss names its parameters as the estimator does.
    only_loss : str
        What the command line calls the loss of an estimator that has no choice of losses.
    methods : mapping from str to a function of risk and regularizer that makes a method
    measures : Measures or None
        By default those of the targets. None if predictions are measured in Python only, by the
        estimator's ``score`` if it has one.
    intercept : str
        The attribute that linear models keep their intercepts in.
    saved : mapping from str to a pair of type and default
        Fitted attributes that model files keep besides arrays, classes and certificates. Files of
        earlier versions may lack them.
    spans_examples : bool
        Whether predictions are made of kernels with training examples, not of coefficients.
    becomes : str
        The estimator that it is saved as, if that is another one.
    defaults : mapping from str to a value
        Parameters whose default on the command line is not that of the constructor.
    """

    targets: Targets
    reads: Reads = Reads.ROWS
    task: str | None = None
    losses: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    only_loss: str = ""
    methods: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: METHODS)
    measures: Measures | None = None
    intercept: str = "intercept_"
    saved: Mapping[str, tuple[Any, Any]] = field(default_factory=lambda: STRENGTH)
    spans_examples: bool = False
    becomes: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.measures is None:
            object.__setattr__(self, "measures", _USUAL[self.targets].measures)

    @property
    def loss_task(self) -> Task | None:
        """The task that the losses of a linear or kernel model are for."""
        return _USUAL[self.targets].loss_task

    @property
    def least_classes(self) -> int:
        """How many different ``classes_`` there must be; 0 if it has none."""
        return _USUAL[self.targets].least_classes

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The losses by the names that the command line knows."""
        return (*self.losses,) or (self.only_loss,)

    def losses_with(self, parameter: str) -> tuple[str, ...]:
        """Return the names of the losses that have this parameter."""
        return tuple(
            name for name, make in self.losses.items() if parameter in loss_parameters(make)
        )


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator's constructor."""

    name: str
    type: Any
    default: Any  # `inspect.Parameter.empty` if there is none
    text: str  # what the class's docstring says of it, in one line


@cache
def loss_parameters(loss: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a loss's parameters."""
    return frozenset(inspect.signature(loss).parameters)


# Each fit asks for them, and a signature takes a fifth of a millisecond to read.
_DEFAULTS: WeakKeyDictionary[type[Any], Mapping[str, Any]] = WeakKeyDictionary()


def defaults_of(estimator: type[Any]) -> Mapping[str, Any]:
    """Return the defaults of the parameters of an estimator's constructor, by name."""
    if estimator not in _DEFAULTS:
        parameters = inspect.signature(estimator).parameters
        _DEFAULTS[estimator] = {name: each.default for name, each in parameters.items()}
    return _DEFAULTS[estimator]


def parameters_of(estimator: type[Any]) -> Mapping[str, Parameter]:
    """Return the parameters of an estimator's constructor by name, in their order."""
    owner = next(of for of in estimator.__mro__ if "__init__" in vars(of))
    # A constructor that was made from fields has its types there, with the names of their modules.
    hints = get_type_hints(
        owner if "__dataclass_fields__" in vars(owner) else vars(owner)["__init__"]
    )
    entries = entries_of(inspect.getdoc(estimator) or "", "Parameters")
    return {
        name: Parameter(name, hints[name], parameter.default, text_of(entries.get(name, "")))
        for name, parameter in inspect.signature(estimator).parameters.items()
    }
