"""Dask collections: told apart from data in memory, without Dask, which need not be installed."""

from __future__ import annotations

from typing import Any


def is_dask(thing: Any) -> bool:
    """Say whether something is a Dask collection."""
    return hasattr(thing, "__dask_graph__") and thing.__dask_graph__() is not None


def require_in_memory(who: str, X: Any, advice: str = "give it X.compute()") -> None:
    """Raise TypeError, in one line, if the rows lie elsewhere: they are never fetched unasked.

    Parameters
    ----------
    who : str
        What the user has called.
    X : anything
        The rows that were given.
    advice : str
        What to do instead.
    """
    if is_dask(X):
        kind = type(X).__name__.lower()
        raise TypeError(f"{who} wants rows in memory: X is a Dask {kind}; {advice}")
