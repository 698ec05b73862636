"""The risk of a structured model: the mean of the worst that each example can hold against ``w``.

    R(w) = sum_i weight_i * max_y [ loss(y_i, y) + w.(psi(x_i, y) - psi(x_i, y_i)) ]

or, with rescaled slacks, ``loss * (1 + w.(...))``. It is convex, and the outputs that attain the
maxima make its planes (`cutplane.models.structured.examples`). A point keeps those outputs, not the
scores: what else could be worst on the way to another point, only inference can tell. For an
exponential family (conditional random field) the maximum is ``log sum_y exp(w.(...))``, without the
loss; its planes are made of the mean features of all outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.collections import require_in_memory
from cutplane.core.interrupts import at_once
from cutplane.core.protocols import Plane
from cutplane.models.structured.examples import Examples, OutputLoss, Worst
from cutplane.models.structured.model import as_examples, name_of_model, prepared
from cutplane.models.structured.workers import Workers
from cutplane.risks.checks import normalized
from cutplane.risks.composite import Summable

# More groups save inference and cost time in the reduced problem. Chosen on RNA folding (the 61
# sequences of rna_rfam151 below 90 bases, relative gap 1e-2): with 1, 4, 16, 32 and 64 groups 29,
# 23, 18, 14 and 12 evaluations at lam = 0.1; with 1, 4 and 16 groups 87, 50 and 26 at lam = 0.01.
_MOST_GROUPS = 32


class StructuredRisk(Summable):
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
        self.n_parameters = int(self.model.n_parameters)
        self._n_jobs = n_jobs
        self._take(Examples(self.model, inputs, outputs, self.loss), weights)

    def _take(self, examples: Examples, weights: Vector | None) -> None:
        self.n_examples = len(examples.X)
        self.weights = normalized(weights, self.n_examples)
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

        The model is the same, and is not initialized anew; weights are scaled to sum to one.
        """
        chosen = np.arange(self.n_examples)[examples]
        if not len(chosen):
            raise ValueError("a model needs at least one example")
        part = copy(self)
        part._take(self._examples.part(chosen.tolist()), self.weights[chosen])
        return part

    inference_steps: int | None = None  # unknown

    @property
    def worst_outputs(self) -> bool:
        """Whether exact inference finds the worst output of an example."""
        return bool(self.convex) and not self.loss.probabilities

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest: inference is what takes the time."""
        return 1 << (min(len(self._used), _MOST_GROUPS).bit_length() - 1)

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


class StructuredPoint:
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
