"""Copies of values that consist of arrays and numbers."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def copied(value: T) -> T:
    """Return the same value with arrays of its own.

    Dataclasses, tuples, lists and dictionaries are copied all the way down. All else, such as a
    point of a risk, is never changed once it is made, and shared.
    """
    return _copied(value)  # type: ignore[no-any-return]


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [_copied(part) for part in value]
    if isinstance(value, tuple):
        parts = map(_copied, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        twin = copy(value)
        for part in fields(value):
            # A frozen dataclass is frozen for those who use it.
            object.__setattr__(twin, part.name, _copied(getattr(value, part.name)))
        return twin
    return value
