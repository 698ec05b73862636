"""A run's state as text and arrays, and back, exactly.

A state is a tree of dataclasses, named tuples, lists, dictionaries, arrays and numbers. Its shape
becomes a JSON text, its arrays stay arrays, and both together give the same tree again: every type,
every bit, and what was one object is one object again.

What belongs to the problem (data, loss, regularizer) is not stored, only its name: who decodes has
the same problem, and gives it.

    {"type": "cutplane.core.certificate:Record", ...}     an object, with the name of its class

A name leads only to classes of modules that are loaded and trusted (cutplane's own, and those of
the user's risk and method). Objects are made without calling anything: a file cannot make code run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]

_PLAIN = (type(None), bool, int, float, str)
# Values that may be one object by chance: that they are a part of the problem means nothing.
_SHARED = (*_PLAIN, tuple, frozenset, bytes, Enum, np.generic, np.dtype)

_DTYPE = re.compile(r"[<>|][?biufcmMSU]\d{1,9}(\[\w{1,9}\])?")


class Unstorable(TypeError):
    """The state contains a value that cannot be stored."""


class Unknown(ValueError):
    """A tree was not made by this codec, or of classes that are not known here."""


class Encoded(NamedTuple):
    """A tree as a JSON-like value and arrays by name."""

    tree: dict[str, Any]
    arrays: dict[str, AnyArray]


class Codec:
    """Encodes and decodes trees around things that both sides have.

    What is ``given``, by name, is not stored, nor are its parts (attributes of attributes), as far
    as they exist now: what is computed later is data. Classes of ``modules`` may be stored, besides
    cutplane's own.
    """

    def __init__(self, given: Mapping[str, object], modules: Collection[str] = ()) -> None:
        self._given: dict[str, object] = {}
        self._modules = frozenset(modules)
        level = dict(given)
        known: set[int] = set()
        for _ in range(4):  # risk.map.rows.values is three deep
            new = {
                name: part
                for name, part in level.items()
                if not isinstance(part, _SHARED) and id(part) not in known
            }
            known.update(map(id, new.values()))
            self._given |= new
            level = {
                name_of_part: part
                for name, thing in new.items()
                for attribute, value in attributes(thing)
                for name_of_part, part in _members(f"{name}.{attribute}", value)
            }
        self._names = {id(part): name for name, part in reversed(self._given.items())}

    @property
    def given(self) -> list[object]:
        """What is not stored, and the parts of it that have names."""
        return list(self._given.values())

    def encode(self, value: object, **more: object) -> Encoded:
        """Return a tree as text and arrays, which are not copied. ``more`` is given too, this time.

        A value that cannot be stored, or is of a class that is not trusted, is Unstorable.
        """
        names = self._names | {id(thing): name for name, thing in more.items()}
        encoder = _Encoder(names, self._modules)
        root = encoder.node(value, "state")
        tree = {"root": root, "objects": encoder.objects, "arrays": encoder.layouts}
        return Encoded(tree, encoder.arrays)

    def decode(self, encoded: Encoded, **more: object) -> Any:
        """Return the tree, made of the same arrays; Unknown if `encode` returns no such text."""
        try:
            return _Decoder(self._given | more, self._modules, encoded).root
        except Unknown:
            raise
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise Unknown(f"not a stored state: {error}") from error


class _Encoder:
    """One walk through a tree."""

    def __init__(self, names: Mapping[int, str], modules: Collection[str]) -> None:
        self._names = names
        self._modules = modules
        self._seen: dict[int, dict[str, int]] = {}
        self._alive: list[object] = []  # an id is unique only while its object lives
        self.objects: list[Any] = []
        self.arrays: dict[str, AnyArray] = {}
        self.layouts: list[Any] = []

    def node(self, value: Any, path: str) -> Any:
        """Return what stands for a value in the text."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if id(value) in self._names:
            return {"given": self._names[id(value)]}
        if kind is list:
            return self._table(value) or self._nodes(value, path)
        if kind is tuple:
            return {"tuple": self._nodes(value, path)}
        if kind is dict:
            pairs = [[self.node(key, path), self.node(value[key], path)] for key in value]
            return {"dict": pairs}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), path)}
        if isinstance(value, Enum):
            return {"enum": self._name(kind, path), "member": value.name}
        if isinstance(value, tuple):
            return {"named": self._name(kind, path), "items": self._nodes(list(value), path)}
        if id(value) not in self._seen:
            self._alive.append(value)
            if kind is np.ndarray:
                self._seen[id(value)] = {"array": self._array(value, path)}
            else:
                self._seen[id(value)] = {"object": len(self.objects)}
                entry: dict[str, Any] = {"type": self._name(kind, path)}
                self.objects.append(entry)
                entry["fields"] = {
                    name: self.node(part, f"{path}.{name}") for name, part in attributes(value)
                }
        return self._seen[id(value)]

    def _nodes(self, values: Collection[Any], path: str) -> list[Any]:
        return [self.node(value, f"{path}[{i}]") for i, value in enumerate(values)]

    def _array(self, array: AnyArray, path: str) -> int:
        if array.dtype.hasobject or array.dtype.names:
            raise Unstorable(f"{path} is an array of {array.dtype}, which cannot be stored")
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        self.layouts.append([array.dtype.str, list(array.shape), order, array.flags.writeable])
        stored = np.ascontiguousarray(array.T if order == "F" else array)
        self.arrays[str(len(self.layouts) - 1)] = stored
        return len(self.layouts) - 1

    def _table(self, values: list[Any]) -> dict[str, Any] | None:
        """Return a long list of records of one class as columns, or None for other lists."""
        kind = type(values[0]) if len(values) >= 8 else None  # fewer are not worth columns
        if kind is None or not is_dataclass(kind) or hasattr(values[0], "__dict__"):
            return None
        if any(type(value) is not kind for value in values):
            return None
        columns: dict[str, AnyArray] = {}
        for field in fields(kind):
            column = [getattr(value, field.name) for value in values]
            types = set(map(type, column))
            if types not in ({float}, {int}) or (types == {int} and max(map(abs, column)) >> 63):
                return None
            columns[field.name] = np.array(column, dtype=np.float64 if float in types else np.int64)
        name = self._name(kind, "history")
        numbers = {key: self._array(column, key) for key, column in columns.items()}
        return {"table": name, "columns": numbers}

    def _name(self, kind: type, path: str) -> str:
        name = f"{kind.__module__}:{kind.__qualname__}"
        try:
            found = class_named(name, self._modules)
        except Unknown:
            found = None
        if found is not kind:
            raise Unstorable(f"{path} is a {kind.__qualname__}, which is no data to be stored")
        return name


class _Decoder:
    """One walk back."""

    def __init__(
        self, given: Mapping[str, object], modules: Collection[str], encoded: Encoded
    ) -> None:
        self._given = given
        self._modules = modules
        self._arrays = [
            _laid_out(encoded.arrays[str(i)], *layout)
            for i, layout in enumerate(encoded.tree["arrays"])
        ]
        # All of them first, empty, because they may refer to each other.
        self._objects: list[Any] = [
            object.__new__(class_named(entry["type"], modules)) for entry in encoded.tree["objects"]
        ]
        for made, entry in zip(self._objects, encoded.tree["objects"], strict=True):
            _fill(made, {name: self._node(part) for name, part in entry["fields"].items()})
        self.root = self._node(encoded.tree["root"])

    def _node(self, node: Any) -> Any:
        if type(node) in _PLAIN:
            return node
        if type(node) is list:
            return [self._node(part) for part in node]
        if "object" in node:
            return self._objects[node["object"]]
        if "array" in node:
            return self._arrays[node["array"]]
        if "given" in node:
            return self._given[node["given"]]
        if "scalar" in node:
            return self._arrays[node["scalar"]][()]
        if "tuple" in node:
            return tuple(self._node(part) for part in node["tuple"])
        if "dict" in node:
            return {self._node(key): self._node(part) for key, part in node["dict"]}
        if "table" in node:
            return self._table(node)
        if "enum" in node:
            kind = class_named(node["enum"], self._modules)
            if not issubclass(kind, Enum):
                raise Unknown(f"{node['enum']} is no enumeration")
            return kind.__members__[node["member"]]
        kind = class_named(node["named"], self._modules)
        if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            raise Unknown(f"{node['named']} is no named tuple")
        return tuple.__new__(kind, [self._node(part) for part in node["items"]])

    def _table(self, node: dict[str, Any]) -> list[Any]:
        kind = class_named(node["table"], self._modules)
        columns = {name: self._arrays[i].tolist() for name, i in node["columns"].items()}
        made: list[Any] = []
        for entries in zip(*columns.values(), strict=True):
            made.append(object.__new__(kind))
            _fill(made[-1], dict(zip(columns, entries, strict=True)))
        return made


def class_named(name: str, modules: Collection[str]) -> type:
    """Return a class by module and name, if it is loaded and may be stored."""
    module, _, path = name.partition(":")
    if module not in modules and not module.startswith("cutplane."):
        raise Unknown(f"{name} is not one of cutplane's classes")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = vars(found).get(part) if found is not None else None
    if not isinstance(found, type) or found.__module__ != module:
        raise Unknown(f"there is no class {name}")
    return found


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def attributes(thing: object) -> Iterator[tuple[str, Any]]:
    """Yield what an object keeps: in its dictionary, and in its slots."""
    if isinstance(thing, type | np.ndarray):
        return
    if hasattr(thing, "__dict__"):
        yield from vars(thing).items()
    for name in _slots(type(thing)):
        if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
            yield name, getattr(thing, name)


def _members(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value, or those in a short list, such as the terms of a sum, with their names."""
    if isinstance(value, list | tuple) and len(value) <= 100:
        for i, part in enumerate(value):
            yield from _members(f"{name}[{i}]", part)
    else:
        yield name, value


def _fill(thing: object, parts: Mapping[str, Any]) -> None:
    """Give an empty object its parts, without calling anything of its class."""
    slots = set(_slots(type(thing)))
    for name, part in parts.items():
        if name in slots:
            object.__setattr__(thing, name, part)
        else:
            vars(thing)[name] = part


def _laid_out(
    array: AnyArray, dtype: str, shape: list[int], order: str, writeable: bool
) -> AnyArray:
    """Return an array as it was laid out in memory."""
    if not _DTYPE.fullmatch(dtype) or min(shape, default=0) < 0:
        raise Unknown(f"arrays of {dtype} and shape {shape} are not stored")
    kind = np.dtype(dtype)
    flat = array.reshape(-1).view(kind)
    made = flat.reshape(shape) if order == "C" else flat.reshape(shape[::-1]).T
    made.flags.writeable = writeable
    return made
