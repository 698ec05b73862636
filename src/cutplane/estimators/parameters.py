"""What the parameters of estimators must be: checked by name, the same for all estimators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

Check = Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_positive_and_finite(value: Any) -> bool:
    return _is_positive(value) and math.isfinite(value)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and _is_number(value) and int(value) >= least


def _is_count(value: Any) -> bool:
    return _is_whole(value, 1)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


_SWITCHES = ("fit_intercept", "warm_start", "parallel", "fit_ends")
# Which numbers are allowed is said by the losses.
_NUMBERS = ("smoothing", "beta", "k", "quantile", "epsilon", "delta", "nu", "crossing_penalty")

_RULES: dict[str, tuple[Check, str]] = {
    "tol": (_is_positive, "positive"),
    "lam": (_or_none(_is_positive_and_finite), "positive and finite"),
    "C": (_or_none(_is_positive_and_finite), "positive and finite"),
    "max_iter": (_or_none(_is_count), "None or a whole number above 0"),
    "time_limit": (_or_none(_is_positive), "positive"),
    "n_jobs": (
        _or_none(lambda value: _is_whole(value, -1) and value != 0),
        "None, -1 or a whole number above 0",
    ),
    "verbose": (
        lambda value: _is_switch(value) or _is_whole(value, 0),
        "a whole number, not negative",
    ),
    "min_count": (_is_count, "a whole number above 0"),
    "templates": (_or_none(lambda value: isinstance(value, str)), "None or text"),
    "quantiles": (lambda value: not isinstance(value, str), "a sequence of numbers"),
    "callbacks": (
        lambda value: isinstance(value, Iterable) and not callable(value),
        "a sequence of callables",
    ),
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
    for name, value in estimator.get_params(deep=False).items():
        if name in _RULES:
            is_right, what = _RULES[name]
            if not is_right(value):
                raise ValueError(f"{name} must be {what}, got {value!r}")
