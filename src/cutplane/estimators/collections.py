"""Predictions for Dask collections: part by part, where the rows are.

Dask is imported only in `cutplane.cluster`, when a collection is given.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sklearn.utils.validation import check_is_fitted

from cutplane.compute.collections import is_dask

P = ParamSpec("P")
T = TypeVar("T")


def for_collections(
    predicted: Callable[..., Any],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: for a collection, a method of predictions calls ``predicted`` instead.

    That gets the model, the name of the method, and what the method was called with.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def predict(*args: P.args, **kwargs: P.kwargs) -> Any:
            options: dict[str, Any] = dict(kwargs)
            model, X, *others = args if len(args) > 1 else (*args, options.pop("X", None))
            if not is_dask(X):
                return method(*args, **kwargs)
            check_is_fitted(model)
            return predicted(light(model), method.__name__, X, *others, **options)

        return predict

    return decorate


@for_collections
def by_parts(model: Any, method: str, X: Any) -> Any:
    """Let a method of predictions return a collection for a collection, part by part."""
    from cutplane.cluster.predictions import predicted

    return predicted(model, method, X)


def light(model: Any) -> Any:
    """Return the model without what predictions do not need, and workers need not get."""
    light = copy(model)
    for name in ("history_", "certificate_", "start_certificate_"):
        light.__dict__.pop(name, None)
    light.callbacks, light.checkpoint = (), None
    return light
