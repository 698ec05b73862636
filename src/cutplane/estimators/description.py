"""What an estimator is, as data: task, losses, parameters, how it is saved and measured.

A `Description` stands in the class of each estimator, and `cutplane.estimators.ESTIMATORS` lists
the classes. The command line, model files, the documentation and the tests read both: none of them
knows an estimator by name.

What several estimators have in common is written once, in the docstring of the class that it comes
from, and shown in each. A class describes what is its own.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Meta
from sklearn.utils.validation import _check_sample_weight

from cutplane.checkpoints.checkpoint import Checkpoint
from cutplane.compute.arrays import Vector
from cutplane.estimators.lams import CrossValidation
from cutplane.losses.loss import Task
from cutplane.named import ByName
from cutplane.solvers.registry import METHODS

_TITLES = ("Parameters", "Attributes")


def entries_of(doc: str, title: str) -> dict[str, str]:
    """Return the entries of a section by their names; one that is for several names, for each."""
    text = _sections(doc).get(title, "")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", text) if text else []:
        names = re.split(" ?: ?", entry.partition("\n")[0], maxsplit=1)[0]
        found |= dict.fromkeys(names.split(", "), entry)
    return found


def text_of(entry: str) -> str:
    """Return what an entry says after its name and type, in one line."""
    return " ".join(entry.partition("\n")[2].split())


def complete_docstring(of: type[Any], parameters: Container[str]) -> None:
    """Add to the docstring of a class what it inherits: entries of these parameters, attributes."""
    of._own_doc = inspect.cleandoc(of.__doc__ or "")
    sections = _sections(of._own_doc)
    for title in _TITLES:
        entries: dict[str, str] = {}
        for base in of.__mro__:
            for name, entry in entries_of(vars(base).get("_own_doc", ""), title).items():
                if title == "Attributes" or name in parameters:
                    entries.setdefault(name, entry)
        if entries:
            sections[title] = "\n".join(dict.fromkeys(entries.values()))
    order = ["", *_TITLES, *(title for title in sections if title not in ("", *_TITLES))]
    parts = [
        f"{title}\n{'-' * len(title)}\n{sections[title]}" if title else sections[title]
        for title in order
        if title in sections
    ]
    of.__doc__ = "\n\n".join(parts) + "\n"


def _sections(doc: str) -> dict[str, str]:
    """Return the sections of a docstring in NumPy's style by their titles; the first has none."""
    parts = re.split(r"(?:^|\n\n?)(\w+)\n-{3,}\n", doc)
    titles = ["", *parts[1::2]]
    return {title: text.strip("\n") for title, text in zip(titles, parts[::2], strict=True)}


Positive = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
NotNegative = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]

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
    loss_task : str or None
        The task that the losses of a linear or kernel model are for.
    least_classes : int
        How many different ``classes_`` there must be; 0 if it has none.
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

    loss_task: Task | None = field(init=False)
    least_classes: int = field(init=False)

    def __post_init__(self) -> None:
        usual = _USUAL[self.targets]
        object.__setattr__(self, "loss_task", usual.loss_task)
        object.__setattr__(self, "least_classes", usual.least_classes)
        if self.measures is None:
            object.__setattr__(self, "measures", usual.measures)

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


T = TypeVar("T")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_whole(value: Any, least: int = 1) -> bool:
    return isinstance(value, Integral) and _is_number(value) and int(value) >= least


def _is_strength(value: Any) -> bool:
    return _is_positive(value) and math.isfinite(value)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


_NONE_ALLOWED = frozenset(
    [
        *("lam", "C", "certified", "max_iter", "time_limit", "n_jobs", "random_state"),
        *("checkpoint", "landmarks", "templates"),
    ]
)

RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tol": (_is_positive, "positive"),
    "max_iter": (_is_whole, "None or a whole number above 0"),
    "time_limit": (_is_positive, "positive"),
    "n_jobs": (
        lambda value: _is_whole(value, -1) and value != 0,
        "None, -1 or a whole number above 0",
    ),
    "verbose": (
        lambda value: _is_switch(value) or _is_whole(value, 0),
        "a whole number, not negative",
    ),
    "margin": (lambda value: _is_positive(value) and math.isfinite(value), "positive and finite"),
    "variance_floor": (
        lambda value: _is_positive(value) and value <= 1,
        "above 0 and at most 1",
    ),
    "landmarks": (_is_whole, "None or a whole number above 0"),
    "random_state": (lambda value: _is_whole(value, 0), "None or a whole number, not negative"),
    "templates": (lambda value: isinstance(value, str), "None or text"),
    "quantiles": (lambda value: not isinstance(value, str), "a sequence of numbers"),
    "callbacks": (
        lambda value: isinstance(value, Iterable) and not callable(value),
        "a sequence of callables",
    ),
    "checkpoint": (
        lambda value: isinstance(value, str | os.PathLike | Checkpoint),
        "None, a path or a Checkpoint",
    ),
    "lam": (
        lambda value: (
            isinstance(value, CrossValidation)
            or (value == "cv" if isinstance(value, str) else _is_strength(value))
        ),
        "positive and finite, or 'cv', which chooses it by cross-validation",
    ),
    "C": (_is_strength, "positive and finite"),
    "certified": (_is_strength, "None, or positive and finite"),
    "l1_ratio": (lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    **dict.fromkeys(
        ("n_states", "n_components", "likelihood_iter", "n_starts", "gamma_steps", "min_count"),
        (_is_whole, "a whole number above 0"),
    ),
    **dict.fromkeys(
        ("fit_intercept", "posterior", "warm_start", "parallel", "fit_ends", "positive"),
        (_is_switch, "True or False"),
    ),
    # Which of these are allowed is said by the losses.
    **dict.fromkeys(
        [
            *("smoothing", "beta", "k", "quantile", "epsilon", "delta", "nu", "crossing_penalty"),
            *("clip", "width", "plateau"),
        ],
        (_is_number, "a number"),
    ),
}


def check_parameters(estimator: Any) -> set[str]:
    """Refuse parameters that make no sense, whatever the data are; return those not at defaults.

    Raises
    ------
    ValueError
        With the name of the parameter.
    """
    of, changed = type(estimator), set[str]()
    for name, default in (_DEFAULTS.get(of) or defaults_of(of)).items():
        value = getattr(estimator, name)
        if value is default:
            continue
        changed.add(name)
        if name not in RULES or (value is None and name in _NONE_ALLOWED):
            continue
        is_right, what = RULES[name]
        if not is_right(value):
            raise ValueError(f"{name} must be {what}, got {value!r}")
    return changed


def look_up(what: str, name: object, registry: Mapping[str, T]) -> T:
    """Return the registry's entry, or raise ValueError with the nearest name."""
    if isinstance(name, str) and name in registry:
        return registry[name]
    similar = get_close_matches(str(name), registry, n=1)
    hint = f"did you mean {similar[0]!r}? " if similar else ""
    raise ValueError(f"unknown {what} {name!r}: {hint}known are {', '.join(registry)}")


def threads_of(n_jobs: int | None) -> int | None:
    """Return the number of threads, None for all cores."""
    # As in joblib: -1 means all cores, which is what None means here as well.
    if n_jobs is None or n_jobs == -1:
        return None
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be None, -1 or at least 1, got {n_jobs}")
    return int(n_jobs)


def lam_of(lam: Any, C: float | None, total_weight: float) -> float:
    """Return the strength that the parameters ``lam`` and ``C`` describe."""
    if lam is not None and C is not None:
        raise ValueError("give lam or C, not both: lam = 1 / (C * n_samples)")
    if C is not None:
        return 1.0 / (C * total_weight)
    return 1e-4 if lam is None else strength_of(lam)


def strength_of(lam: Any) -> float:
    """Return lam, which is a number by now: `fit_with_best_lam` has chosen it, where it was to."""
    if isinstance(lam, str | CrossValidation):
        raise ValueError("lam='cv' is for fit: a stream has no folds")
    if lam is None:  # which means a default only where there is one, beside C
        raise ValueError("lam must be positive and finite, got None")
    return float(lam)


def weights_of(sample_weight: Any, n_examples: int) -> Vector:
    """Return the weights of the examples, validated; ones if none are given."""
    ones = np.broadcast_to(1.0, n_examples)  # takes no memory
    if sample_weight is None:
        return ones
    weights: Vector = _check_sample_weight(
        sample_weight, ones, dtype=np.float64, ensure_non_negative=True
    )
    return weights


def is_crf(estimator: Any) -> bool:
    """Say that a model has probabilities, for `available_if`; AttributeError if it has none."""
    if estimator.loss != "crf":
        raise AttributeError(f"the loss {estimator.loss!r} implies no probabilities")
    return True


ESTIMATORS = ByName[type[Any]](
    {
        "LinearClassifier": "cutplane.estimators.classifier:LinearClassifier",
        "LinearRegressor": "cutplane.estimators.regressor:LinearRegressor",
        "OrdinalClassifier": "cutplane.models.ordinal.ordinal:OrdinalClassifier",
        "NoveltyDetector": "cutplane.models.novelty.novelty:NoveltyDetector",
        "LinearRanker": "cutplane.models.ranking.ranker:LinearRanker",
        "TransductiveClassifier": "cutplane.models.few_labels.transductive:TransductiveClassifier",
        "SequenceTagger": "cutplane.models.tagging.tagger:SequenceTagger",
        "LinearQuantiles": "cutplane.models.columns.estimators:LinearQuantiles",
        "MultilabelClassifier": "cutplane.models.columns.estimators:MultilabelClassifier",
        "VectorRegressor": "cutplane.models.columns.estimators:VectorRegressor",
        "StructuredPredictor": "cutplane.models.structured.predictor:StructuredPredictor",
        "HMMClassifier": "cutplane.models.speech.estimator:HMMClassifier",
        "HMMTagger": "cutplane.models.speech.estimator:HMMTagger",
        "LinearClassifierCV": "cutplane.estimators.cross_validation:LinearClassifierCV",
        "LinearRegressorCV": "cutplane.estimators.cross_validation:LinearRegressorCV",
        "KernelClassifier": "cutplane.models.gram.model:KernelClassifier",
        "KernelRegressor": "cutplane.models.gram.model:KernelRegressor",
        "KernelClassifierCV": "cutplane.models.gram.cross_validation:KernelClassifierCV",
        "KernelRegressorCV": "cutplane.models.gram.cross_validation:KernelRegressorCV",
    }
)
"""From a name to the class, whose ``description`` says the rest."""


# Those that the command line never names, and need not import for its options: fitted in Python
# only, or in place of another one that is to choose its lam.
WITHOUT_TASK = frozenset(
    [
        "VectorRegressor",
        "StructuredPredictor",
        "LinearClassifierCV",
        "LinearRegressorCV",
        "KernelClassifierCV",
        "KernelRegressorCV",
    ]
)


def estimators_by_task() -> dict[str, type[Any]]:
    """Return the estimators that the command line can fit, by the name of their task."""
    known = (ESTIMATORS[name] for name in ESTIMATORS if name not in WITHOUT_TASK)
    return {of.description.task: of for of in known if of.description.task}
