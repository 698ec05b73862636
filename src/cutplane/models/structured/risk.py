"""The risk of a structured model: the mean of the worst that each example can hold against ``w``.

    margin rescaling:   max_y  loss(y_i, y) + w.(psi(x_i, y) - psi(x_i, y_i))
    slack rescaling:    max_y  loss(y_i, y) * (1 + w.(psi(x_i, y) - psi(x_i, y_i)))
    crf:                log sum_y exp(w.psi(x_i, y)) - w.psi(x_i, y_i)

The true output is one of them, so that no loss is ever below zero. Any output makes a plane
``difference.w + loss`` that the maximum never goes below, the best one or not. Any probabilities of
outputs make one below the last: the difference is that of the mean features, and the entropy takes
the place of the loss. It touches where they are proportional to ``exp(w.psi(x_i, y))``.

The risk is the weighted mean of these, and convex. A point keeps the outputs that attain the
maxima, not the scores: only inference knows what else could be worst on the way to another point.

Compiled inference runs in threads, plain Python in processes. Results come in the order of the
examples, so that sums do not depend on the number of workers.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property, lru_cache
from itertools import pairwise
from multiprocessing import current_process
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector, require_in_memory
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.core.interrupts import at_once
from cutplane.core.protocols import LibraryPoint, Plane
from cutplane.models.structured.model import Offers, as_examples, name_of_model, prepared
from cutplane.risks.composite import InferenceRisk
from cutplane.risks.scored import normalized

T = TypeVar("T")


class Workers(Generic[T]):
    """Calls a function of an example's number and ``w`` for many examples.

    If it releases the GIL, threads run it at the same time. If not, processes do, which get a copy
    of it, and of all it refers to, once. ``n_jobs`` is how many; -1 means as many as there are
    cores. So does None for threads, while it is one process, because a new one takes a second to
    start.
    """

    def __init__(
        self, function: Callable[[int, Vector], T], *, releases_gil: bool, n_jobs: int | None
    ) -> None:
        if n_jobs is not None and n_jobs != -1 and n_jobs < 1:
            raise ValueError(f"n_jobs must be None, -1 or at least 1, got {n_jobs}")
        self._function = function
        self._releases_gil = releases_gil
        if n_jobs is None and not releases_gil:
            n_jobs = 1
        self._n_jobs = default_threads() if n_jobs is None or n_jobs == -1 else int(n_jobs)
        self._path: str | None = None

    def __call__(self, examples: Sequence[int], w: Vector) -> list[T]:
        """Return the results of the examples, in their order."""
        if min(self._n_jobs, len(examples)) <= 1:
            return [self._function(i, w) for i in examples]
        return self._by_threads(examples, w) if self._releases_gil else self._by_jobs(examples, w)

    def __getstate__(self) -> dict[str, Any]:
        # The file goes with the original, so a copy writes its own.
        return self.__dict__ | {"_path": None}

    def _by_threads(self, examples: Sequence[int], w: Vector) -> list[T]:
        results: list[T | None] = [None] * len(examples)
        left = iter(range(len(examples)))  # threads take from it in turn

        def work(first: int, last: int) -> None:
            # One example at a time, because one may take as long as all others together.
            try:
                for place in left:
                    results[place] = self._function(examples[place], w)
            except BaseException:
                deque(left, maxlen=0)
                raise

        run_blocks(work, self._n_jobs, n_threads=self._n_jobs)
        return results  # type: ignore[return-value]  # every place has its result by now

    def _by_jobs(self, examples: Sequence[int], w: Vector) -> list[T]:
        from joblib import Parallel, delayed, wrap_non_picklable_objects

        if self._path is None:
            handle, path = tempfile.mkstemp(prefix="cutplane-", suffix=".pickle")
            # Wrapped by joblib, because models are often defined in a notebook or a script.
            with os.fdopen(handle, "wb") as file:
                pickle.dump(wrap_non_picklable_objects(self._function, keep_wrapper=False), file)
            self._path = path
            weakref.finalize(self, os.unlink, path)
        n_chunks = min(4 * self._n_jobs, len(examples))  # examples differ in size
        cuts = [k * len(examples) // n_chunks for k in range(n_chunks + 1)]
        chunks = [list(examples[a:b]) for a, b in pairwise(cuts)]
        parts = Parallel(n_jobs=self._n_jobs)(delayed(_run)(self._path, part, w) for part in chunks)
        return [result for part in parts for result in part]


@lru_cache(maxsize=2)
def _read(path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)


def _run(path: str, examples: list[int], w: Vector) -> list[Any]:
    # A terminal sends Ctrl-C to all its processes. The one that started this one decides what
    # becomes of it; a worker that died of it would take the others along.
    if current_process().name != "MainProcess":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    function = _read(path)
    return [function(i, w) for i in examples]


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
    sums = np.asarray(np.bincount(where, values, len(places)), dtype=np.float64)
    kept = sums != 0.0  # NaN is kept, to be found
    return Features(places[kept], sums[kept])


RESCALINGS = {"margin": "loss_augmented_inference", "slack": "slack_augmented_inference"}
"""From ways to bring the loss in to the search that a model must offer."""


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
    def function(self) -> str:
        """The name of what a model must offer."""
        return "expected_feature" if self.probabilities else RESCALINGS[self.rescaling]


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
        self.model, self.X, self.Y, self.loss = model, X, Y, loss
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
        find, is_mean = self.offers.functions[self.loss.function], self.loss.probabilities
        with self._naming(i):
            if is_mean:
                mean, loss = find(self.X[i], w)
            else:
                y_hat = find(self.X[i], self.Y[i], w)
                loss = self.model.loss(self.Y[i], y_hat)
            loss = float(loss)
            if not (np.isfinite(loss) and loss >= 0.0):
                raise ValueError(
                    f"{name_of_model(self.model)}: the {'entropy' if is_mean else 'loss'} must be "
                    f"finite and not negative, it is {loss} at example {i}"
                )
            if is_mean:
                features = as_features(mean, self.model.n_parameters, name=self.loss.function)
            else:
                features = self._features(i, y_hat)
        difference = features.minus(self._truths[i])
        if self.loss.rescaling == "slack":
            difference = difference._replace(values=loss * difference.values)
        found = Worst(difference, loss)
        return found if found.height_at(w) > 0.0 else _TRUTH

    def _features(self, i: int, y: Any) -> Features:
        return as_features(self.model.joint_feature(self.X[i], y), self.model.n_parameters)

    @contextmanager
    def _naming(self, i: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(f"raised by {name_of_model(self.model)} at example {i}")
            raise


class StructuredRisk(InferenceRisk):
    """Mean structured hinge loss, or negative log-likelihood, of a model on a sample.

    Parameters
    ----------
    model : StructuredModel
        Joint features, loss and inference. A model with ``initialize`` is copied first.
    X, Y : sequences of the same length
        Inputs and true outputs.
    weights : ndarray of shape (n_examples,), optional
        Weights of the examples, not negative; scaled to sum to one. Equal by default.
    rescaling : {"margin", "slack"}
        Whether the loss is added to the score or multiplies what is missing to the margin. The
        latter needs a model with ``slack_augmented_inference``.
    loss : {"margin", "crf"}
        The hinge loss, or ``-log p(y_i | x_i)`` with probabilities of outputs proportional to
        ``exp(w.psi(x_i, y))``: a conditional random field, whose risk is smooth. The latter needs a
        model with ``expected_feature``.
    n_jobs : int, optional
        How many examples are worked on at the same time: by threads if the model says
        ``releases_gil = True``, else by processes. -1 means as many as there are cores; so does
        the default for threads, while the default for processes is one. The result is the same.

    Attributes
    ----------
    model : StructuredModel
        The model, ready for use.
    loss : OutputLoss
    n_examples : int
    evaluations : int
        How often the whole risk was evaluated.
    inferences : int
        How often inference was called for an example.
    """

    lower_bound = 0.0
    output_kind = "features"

    def __init__(
        self,
        model: Any,
        X: Any,
        Y: Any,
        *,
        weights: Vector | None = None,
        rescaling: str = "margin",
        loss: str = "margin",
        n_jobs: int | None = None,
    ) -> None:
        require_in_memory("StructuredRisk", X)
        inputs, outputs = as_examples(X, Y)
        self.model = prepared(model, inputs, outputs)
        self.loss = OutputLoss.of(loss, rescaling, self.model)
        self.probabilities = self.loss.probabilities
        self.n_parameters = int(self.model.n_parameters)
        self._n_jobs = n_jobs
        self._take(Examples(self.model, inputs, outputs, self.loss), weights)

    def _take(self, examples: Examples, weights: Vector | None) -> None:
        self.weights = normalized(weights, len(examples.X))
        # Where inference misses outputs, values are too low, and planes may lie above them: what
        # is evaluated is not a convex function then, whatever the risk itself is.
        self.convex = examples.offers.exact
        self.unproven = "" if self.convex else "inference is not exact, so the risk may be higher"
        self.evaluations = 0
        self.inferences = 0
        self._examples = examples
        self._workers: Workers[Worst] = Workers(
            examples.worst, releases_gil=examples.offers.releases_gil, n_jobs=self._n_jobs
        )
        self._used = np.flatnonzero(self.weights)

    def part(self, examples: NDArray[np.int64] | slice) -> StructuredRisk:
        """Return the risk of some examples, by their numbers or as a slice.

        The model is the same, and is not initialized again; weights are scaled to sum to one.
        """
        chosen = np.arange(self.n_examples)[examples]
        if not len(chosen):
            raise ValueError("a model needs at least one example")
        part = copy(self)
        part._take(self._examples.part(chosen.tolist()), self.weights[chosen])
        return part

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.weights)

    @property
    def worst_outputs(self) -> bool:
        """Whether exact inference finds the worst output of an example."""
        return bool(self.convex) and not self.loss.probabilities

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest: inference is what takes the time.

        More save inference and cost time in the reduced problem: 32 were chosen on RNA folding
        (docs/decisions/2026-11-18-structured-measured.md).
        """
        return 1 << (min(len(self._used), 32).bit_length() - 1)

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return np.zeros(n_groups)

    def at(self, w: Vector) -> StructuredPoint:
        """Evaluate the risk at ``w``: one inference for each example that has a weight."""
        self.evaluations += 1
        self.inferences += len(self._used)
        with at_once():  # inference may take long, and keeps nothing of ours
            found = self._workers(self._used.tolist(), w)
        return StructuredPoint(w, found, self.weights[self._used], self._used)

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        examples = self._examples
        return {
            "model": self.model,
            "inputs": examples.X,
            "outputs": examples.Y,
            "weights": self.weights,
            "loss": self.loss,
        }

    def __repr__(self) -> str:
        return (
            f"StructuredRisk({name_of_model(self.model)}, {self.n_examples} examples, "
            f"{self.n_parameters} parameters)"
        )


class StructuredPoint(LibraryPoint):
    """The risk of a structured model at ``w``, with the worst output of each example there.

    Attributes
    ----------
    w : ndarray
        Parameters.
    examples : ndarray
        Numbers of the examples that have a weight.
    losses : ndarray
        The loss of the worst output of each of them.
    indices, values : ndarray
        Entries of their features beyond those of the true outputs, example after example.
    starts : ndarray
        Where the entries of each example begin, and where the last ones end.
    """

    def __init__(
        self, w: Vector, found: Sequence[Worst], weights: Vector, examples: NDArray[np.int64]
    ) -> None:
        self.w = w
        self.examples = examples
        self.losses = np.array([worst.loss for worst in found])
        self.indices = np.concatenate([worst.difference.indices for worst in found])
        self.values = np.concatenate([worst.difference.values for worst in found])
        sizes = [len(worst.difference.indices) for worst in found]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._weights = weights
        self._planes: dict[int, list[Plane]] = {}

    @cached_property
    def _owners(self) -> NDArray[np.int64]:
        """The place of the example that each entry belongs to."""
        return np.repeat(np.arange(len(self.losses)), np.diff(self.starts))

    @cached_property
    def value(self) -> float:
        """The risk."""
        scores = np.bincount(
            self._owners, weights=self.w[self.indices] * self.values, minlength=len(self.losses)
        )
        return float(np.sum(self._weights * (self.losses + scores)))

    def plane(self) -> Plane:
        """Return the plane that touches the risk here; computed on first use, then kept."""
        return self.planes(1)[0]

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group; examples are dealt out to the groups in turn."""
        if n_groups not in self._planes:
            group_of = self.examples % n_groups
            self._planes[n_groups] = [self._plane(group_of == k) for k in range(n_groups)]
        return self._planes[n_groups]

    def _plane(self, members: NDArray[np.bool_]) -> Plane:
        weights = np.where(members, self._weights, 0.0)
        slope = np.bincount(
            self.indices, weights=weights[self._owners] * self.values, minlength=len(self.w)
        )
        # Without any entries NumPy counts in integers.
        return Plane(np.asarray(slope, dtype=np.float64), float(np.sum(weights * self.losses)))
