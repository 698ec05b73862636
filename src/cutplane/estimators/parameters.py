"""What the parameters of estimators must be, and what the common ones mean."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from cutplane.checkpoints.checkpoint import Checkpoint
from cutplane.compute.arrays import Vector
from cutplane.estimators.description import defaults_of
from cutplane.estimators.lams.choosing import CrossValidation
from cutplane.regularizers import L2

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


_DEFAULT_LAM = 1e-4

_STRENGTHS = ("lam", "C")
_SWITCHES = ("fit_intercept", "posterior", "warm_start", "parallel", "fit_ends", "positive")
# Which numbers are allowed is said by the losses.
_NUMBERS = (
    *("smoothing", "beta", "k", "quantile", "epsilon", "delta", "nu", "crossing_penalty"),
    *("clip", "width", "plateau"),
)
_NONE_ALLOWED = {
    *(
        *_STRENGTHS,
        "max_iter",
        "landmarks",
        "random_features",
        "time_limit",
        "n_jobs",
        "templates",
        "checkpoint",
        "random_state",
    ),
    "certified",
}

_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
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
    "n_states": (_is_whole, "a whole number above 0"),
    "n_components": (_is_whole, "a whole number above 0"),
    "likelihood_iter": (_is_whole, "a whole number above 0"),
    "margin": (lambda value: _is_positive(value) and math.isfinite(value), "positive and finite"),
    "variance_floor": (
        lambda value: _is_positive(value) and value <= 1,
        "above 0 and at most 1",
    ),
    "n_starts": (_is_whole, "a whole number above 0"),
    "landmarks": (_is_whole, "None or a whole number above 0"),
    "random_features": (_is_whole, "None or a whole number above 0"),
    "gamma_steps": (_is_whole, "a whole number above 0"),
    "random_state": (lambda value: _is_whole(value, 0), "None or a whole number, not negative"),
    "min_count": (_is_whole, "a whole number above 0"),
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
    **dict.fromkeys(_SWITCHES, (_is_switch, "True or False")),
    **dict.fromkeys(_NUMBERS, (_is_number, "a number")),
}


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that make no sense, whatever the data are.

    Raises
    ------
    ValueError
        With the name of the parameter.
    """
    for name, default in defaults_of(type(estimator)).items():
        value = getattr(estimator, name)
        if name not in _RULES or (value is None and (default is None or name in _NONE_ALLOWED)):
            continue
        is_right, what = _RULES[name]
        if not is_right(value):
            raise ValueError(f"{name} must be {what}, got {value!r}")


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
    return _DEFAULT_LAM if lam is None else strength_of(lam)


def l2_of(lam: Any, C: float | None, total_weight: float, *, center: Vector | None = None) -> L2:
    """Return the regularizer that the parameters ``lam`` and ``C`` describe."""
    return L2(lam_of(lam, C, total_weight), center=center)


def strength_of(lam: Any) -> float:
    """Return lam, which is a number by now: `choosing_lam` has chosen it, where it was to."""
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
