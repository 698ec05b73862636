"""Things that are known by name, and imported when they are used.

Nobody who fits a linear model should wait for kernels, sequences and RNA. A package lists its names
in its stub, ``__init__.pyi``, which type checkers read too; a registry maps names that users write
to places in the package.
"""

from __future__ import annotations

import ast
from collections import UserDict
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


def attach(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package with a stub.

    Parameters
    ----------
    package, file : str
        Its ``__name__`` and ``__file__``.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    places = {
        alias.name: f"{node.module}:{alias.name}"
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cutplane")
        for alias in node.names
    }

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = load(places[name])
        vars(import_module(package))[name] = found  # the next time it is simply there
        return found

    return find, lambda: sorted(places), sorted(places)


def load(place: str) -> Any:
    """Return what is at ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class ByName(UserDict[str, T], Generic[T]):
    """A registry: from names to things that are imported when they are asked for.

    Things of one's own can be added as they are.

    Parameters
    ----------
    places : mapping
        From a name to ``module:name``.
    """

    def __init__(self, places: Mapping[str, str | T]) -> None:
        super().__init__()
        self.data: dict[str, Any] = dict(places)

    def __getitem__(self, name: str) -> T:
        place = self.data[name]
        return cast(T, load(place) if isinstance(place, str) else place)
