"""Types of arrays, and properties that are computed once.

The arrays that all numerical code speaks of, and copies of values that consist of them.

Attributes that are computed when they are first asked for.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def dense(array: Any) -> NDArray[Any]:
    """Return an array as it is, and a sparse one of SciPy as one that is not."""
    return np.asarray(array.toarray() if hasattr(array, "toarray") else array)


def copied(value: Any) -> Any:
    """Return the same value with arrays of its own.

    Dataclasses, tuples, lists and dictionaries are copied all the way down. All else, such as a
    point of a risk, is never changed once it is made, and shared.
    """
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [copied(part) for part in value]
    if isinstance(value, tuple):
        parts = map(copied, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        twin = copy(value)
        for part in fields(value):
            # A frozen dataclass is frozen for those who use it.
            object.__setattr__(twin, part.name, copied(getattr(value, part.name)))
        return twin
    return value


T = TypeVar("T")


class lazy(cached_property[T]):
    """`cached_property` without the lock that it has before Python 3.12, one for all objects.

    Members of a team that live in one process wait for each other while they compute theirs.
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Return the value, computed once."""
        if instance is None:
            return self
        assert self.attrname is not None
        known = instance.__dict__
        if self.attrname not in known:
            known[self.attrname] = self.func(instance)
        return known[self.attrname]
