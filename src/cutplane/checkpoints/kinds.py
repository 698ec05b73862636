"""What a value is, if nothing but the value is known: see `layouts`."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, ForwardRef, get_args, get_origin

from cutplane.core.method import Policy
from cutplane.core.solver import Solver

# Larger counts cannot be reached by counting, and would overflow.
_MOST = 2**53


def is_named(value: Any, name: str) -> bool:
    """Say whether a value is of one of the library's own classes, by its name."""
    kind = type(value)
    return kind.__name__ == name and kind.__module__.startswith("cutplane.")


PLAIN: dict[str, Callable[[Any], bool]] = {
    "float": lambda value: isinstance(value, float) and math.isfinite(value),
    "real": lambda value: isinstance(value, float) and not math.isnan(value),
    "any float": lambda value: isinstance(value, float),
    "count": lambda value: type(value) is int and 0 <= value < _MOST,
    "number": lambda value: type(value) is int and 0 <= value < 2**63,
    "bool": lambda value: type(value) is bool,
    "str": lambda value: type(value) is str,
    "None": lambda value: value is None,
    "unseen": lambda value: True,
    "Status": lambda value: is_named(value, "Status"),
}


def is_balance(value: Any) -> bool:
    """Say whether a value is that of `cutplane.FBeta`: two labelings."""
    try:
        for flips, limits in value:
            if not all(map(PLAIN["count"], flips)) or len(flips) != 2:
                return False
            for margin, ties in limits:
                if not (PLAIN["real"](margin) and PLAIN["count"](ties)):
                    return False
        return is_named(value, "_Balance") and all(
            is_named(part, "Labeling") and is_named(part.flips, "Flips") for part in value
        )
    except (TypeError, ValueError):
        return False


def own_kinds(kind: type) -> frozenset[str] | None:
    """Return the names of the types that a solver or policy may remember, or None if unknown."""
    for base in kind.__mro__:
        for made in vars(base).get("__orig_bases__", ()):
            origin = get_origin(made)
            if isinstance(origin, type) and issubclass(origin, Policy | Solver):
                (own,) = get_args(made)
                if isinstance(own, ForwardRef):
                    names = own.__forward_arg__.split(" | ")
                    return frozenset("NoneType" if name == "None" else name for name in names)
                kinds = get_args(own) if isinstance(own, UnionType) else (own,)
                kinds = tuple(NoneType if each is None else each for each in kinds)
                if all(isinstance(each, type) for each in kinds):
                    return frozenset(each.__name__ for each in kinds)
    return None
