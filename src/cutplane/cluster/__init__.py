"""Dask: collections as samples whose rows lie on workers, and the workers as members of a team.

Dask is imported by the modules of this package, and these only when a collection is given.
"""

from typing import Any


def is_dask(thing: Any) -> bool:
    """Say whether something is a Dask collection; Dask itself need not be installed."""
    return hasattr(thing, "__dask_graph__") and thing.__dask_graph__() is not None
