"""Check a structured model: features, loss, and both searches against all outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, logsumexp

from cutplane.compute.arrays import Vector
from cutplane.models.structured.model import Offers, as_examples, name_of_model, prepared
from cutplane.models.structured.risk import Features, as_features
from cutplane.testing.checks import Report

_ROUNDING = 1e-9  # of scores, which are sums of many terms

# What each search maximizes, in words and as a function of score, loss and score of the truth.
_GOALS: dict[str, tuple[str, Callable[[float, float, float], float]]] = {
    "inference": ("score", lambda score, loss, true: score),
    "loss_augmented_inference": ("score + loss", lambda score, loss, true: score + loss),
    "slack_augmented_inference": (
        "loss * (1 + score - true score)",
        lambda score, loss, true: loss * (1.0 + score - true),
    ),
}


def check_model(
    model: Any,
    X: Any,
    Y: Any,
    outputs: Callable[[Any], Iterable[Any]] | None = None,
    *,
    n_trials: int = 10,
    scale: float = 1.0,
    seed: int = 0,
) -> Report:
    """Check a structured model; return a report, or raise AssertionError if anything is wrong.

    A few examples are enough, small ones if all outputs are to be tried. Joint features must be
    finite and repeatable, the loss zero for the true output and never negative. With random
    weights, inference must find an output whose score no other exceeds, and loss-augmented
    inference one for score plus loss. The others are all outputs, where they can be listed; else
    the true one, and those that the model itself finds. Where they can be listed, a model's
    ``expected_feature`` must agree with sums over them.

    Parameters
    ----------
    model : StructuredModel
        What to check.
    X, Y : sequences
        Inputs and their true outputs.
    outputs : callable, optional
        From an input to all its outputs; by default the model's own method ``outputs``, if it has
        one.
    n_trials : int
        How many random weights to try for each example.
    scale : float
        Size of the weights.
    seed : int
        Of the weights.

    Examples
    --------
    >>> import cutplane as cp
    >>> print(check_model(cp.MulticlassModel(), np.eye(3), [0, 1, 2]))
    MulticlassModel
      ok: joint features are finite and repeatable
      ok: the loss is zero for the true output, and never negative
      ok: inference finds the best of all outputs
      ok: loss_augmented_inference finds the best of all outputs
      ok: slack_augmented_inference finds the best of all outputs
      ok: expected_feature is the mean of all outputs
    """
    inputs, truths = as_examples(X, Y)
    model = prepared(model, inputs, truths)
    offers = Offers.of(model)
    listed = outputs or offers.outputs
    rng = np.random.default_rng(seed)
    trials = [scale * rng.normal(size=model.n_parameters) for _ in range(n_trials)]
    examples = [
        _Example(model, i, x, y, listed)
        for i, (x, y) in enumerate(zip(inputs, truths, strict=True))
    ]
    passed = [
        "joint features are finite and repeatable",
        "the loss is zero for the true output, and never negative",
    ]
    known = "the best of all outputs" if listed else "no worse output than others that are known"
    for search in offers.searches:
        missed = sum(example.missed(search, w) for example in examples for w in trials)
        if offers.exact:
            passed.append(f"{search} finds {known}")
        else:
            passed.append(f"{search} missed the best {missed} times in {n_trials * len(examples)}")
    if listed and "expected_feature" in offers.functions:
        refused = [example.refuses_sums(trials) for example in examples]
        if not all(refused):
            passed.append("expected_feature is the mean of all outputs")
        if any(refused):
            passed.append(f"expected_feature refuses {sum(refused)} of {len(examples)} examples")
    return Report(name_of_model(model), tuple(passed))


class _Output(NamedTuple):
    output: Any
    features: Features
    loss: float

    def __str__(self) -> str:
        text = " ".join(repr(self.output).split())
        return text if len(text) <= 60 else f"{text[:57]}..."


class _Example:
    """An example, with the outputs that are known of it, the true one first."""

    def __init__(self, model: Any, number: int, x: Any, y: Any, listed: Any) -> None:
        self._model, self._x, self._y = model, x, y
        self._offers = Offers.of(model)
        self._name = f"{name_of_model(model)}, example {number}"
        self._listed = listed is not None
        truth = self._judged(y)
        self._require(truth.loss == 0.0, f"the loss of the true output is {truth.loss}, not 0")
        self._known = [truth, *map(self._judged, listed(x) if listed else ())]

    def missed(self, search: str, w: Vector) -> bool:
        """Run a search, and say whether it missed the best of the outputs that are known."""
        before = w.copy()
        arguments = (self._x, w) if search == "inference" else (self._x, self._y, w)
        found = self._judged(self._offers.functions[search](*arguments))
        self._require(np.array_equal(w, before), f"{search} changes w")
        what, goal = _GOALS[search]
        scores = [output.features.dot(w) for output in self._known]
        goals = [
            goal(score, output.loss, scores[0])
            for score, output in zip(scores, self._known, strict=True)
        ]
        score = found.features.dot(w)
        reached, best = goal(score, found.loss, scores[0]), int(np.argmax(goals))
        noise = _ROUNDING * (abs(goals[best]) + float(np.abs(w).sum()) + 1.0)
        self._require(
            not self._listed or reached <= goals[best] + noise,
            f"{search} finds {found}, which is better than all outputs that were listed",
        )
        missed = goals[best] > reached + noise
        highest = max(*scores, score)
        leaves_out = search != "inference" and score >= highest - _ROUNDING * abs(highest)
        hint = ", and what it finds has the best score: does it leave the loss out?"
        self._require(
            not (missed and self._offers.exact),
            f"{search} finds {found} with {what} {reached:.8g}, but {self._known[best]} has "
            f"{goals[best]:.8g}{hint if leaves_out else ''}",
        )
        if not self._listed:
            self._known.append(found)
        return missed

    def refuses_sums(self, trials: list[Vector]) -> bool:
        """Compare expected features and entropies with sums over all outputs.

        Return whether the model refuses them for this input, by a ValueError.
        """
        known = self._known[1:]  # the true output is in the list too
        for w in trials:
            try:
                given, entropy = self._offers.functions["expected_feature"](self._x, w)
                found = as_features(given, len(w), name="expected_feature")
            except ValueError:
                return True
            scores = np.array([output.features.dot(w) for output in known])
            shares = np.exp(scores - logsumexp(scores))
            mean, found_mean = np.zeros((2, len(w)))
            for share, output in zip(shares, known, strict=True):
                mean[output.features.indices] += share * output.features.values
            found_mean[found.indices] = found.values
            wrong = float(np.abs(found_mean - mean).max())
            self._require(
                wrong <= _ROUNDING * (1.0 + float(np.abs(mean).max())),
                f"expected_feature is off by {wrong:.3g} from the mean over all outputs",
            )
            true_entropy = float(entr(shares).sum())
            self._require(
                abs(entropy - true_entropy) <= _ROUNDING * (1.0 + true_entropy),
                f"expected_feature gives the entropy {entropy:.8g}, it is {true_entropy:.8g}",
            )
        return False

    def _judged(self, output: Any) -> _Output:
        """Return an output with its features and its loss, which are checked."""
        try:
            first, second = (
                as_features(self._model.joint_feature(self._x, output), self._model.n_parameters)
                for _ in range(2)
            )
        except ValueError as error:
            raise AssertionError(f"{self._name}: {error}") from error
        judged = _Output(output, first, float(self._model.loss(self._y, output)))
        self._require(
            all(map(np.array_equal, first, second)),
            f"joint_feature of {judged} is not the same the second time",
        )
        self._require(
            np.isfinite(judged.loss) and judged.loss >= 0.0,
            f"the loss of {judged} is {judged.loss}, it must be finite and not negative",
        )
        return judged

    def _require(self, condition: object, message: str) -> None:
        if not condition:
            raise AssertionError(f"{self._name}: {message}")
