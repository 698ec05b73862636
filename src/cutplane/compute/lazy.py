"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

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
