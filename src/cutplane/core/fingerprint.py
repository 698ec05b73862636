"""Fingerprints: whether two things say the same, told without keeping both.

Bounds hold for one problem only. So when planes or a state are handed from one run to another,
everything that they depend on is compared: data, targets, weights, loss, regularizer. Each is
digested, arrays block by block, so that a memory map is never read into memory as a whole.

What an object consists of is what its method ``identity()`` returns, if it has one. Else it is what
pickle would keep of it, without counts of evaluations and what `cached_property` has computed. A
function is its code, with the variables that it uses; a class is its name, and its code too unless
it was installed with a package. Anything that cannot be looked into is the same only if it is the
same object, and has no fingerprint that another process would understand. So fingerprints of equal
things may differ, but those of different things are never the same.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

# Bytes of an array that are digested at a time.
_BLOCK = 1 << 20

_COUNTERS = ("evaluations", "inferences")
_SIMPLE = (type(None), bool, int, float, complex, str, bytes)
_DATA = (*_SIMPLE, list, tuple, dict, set, frozenset, np.ndarray)


class Opaque(ValueError):
    """Something has no fingerprint that another process would understand."""


def fingerprint(value: Any, *, portable: bool = False) -> str:
    """Return a digest of everything that a value consists of.

    With ``portable`` it is the same in another process; `Opaque` is raised where that is not
    possible.
    """
    return _Walk(portable).digest(value)


def fingerprints_of_parts(value: Any, *, portable: bool = False) -> dict[str, str]:
    """Return the fingerprint of each part of an object, by the names that say where two differ."""
    kind = type(value)
    if hasattr(kind, "identity"):
        parts = {"kind": kind} | value.identity()
    elif hasattr(value, "__dict__"):
        # The whole as well, because an object may keep more than its attributes.
        parts = {**_lasting(kind, vars(value))[0], kind.__name__: value}
    else:
        parts = {kind.__name__: value}
    return {name: fingerprint(part, portable=portable) for name, part in parts.items()}


class _Walk:
    """One walk through a value; an object that contains itself is told by where it stood."""

    def __init__(self, portable: bool) -> None:
        self._portable = portable
        self._above: dict[int, int] = {}

    def digest(self, value: Any) -> str:
        """Return the digest of a part."""
        if id(value) in self._above:
            return f"inside itself, {self._above[id(value)]}"
        self._above[id(value)] = len(self._above)
        found = sha256()
        for piece in self._pieces(value):
            found.update(piece.encode() + b"\0" if isinstance(piece, str) else piece)
        del self._above[id(value)]
        return found.hexdigest()

    def _pieces(self, value: Any) -> Iterator[str | memoryview]:
        kind = type(value)
        if isinstance(value, type):
            yield from self._class(value)
            return
        if isinstance(value, np.ufunc):  # NumPy's, with an attribute of this name
            yield from ("ufunc", value.__name__)
            return
        if hasattr(kind, "identity"):
            yield from ("identity", self.digest(value.identity()))
            return
        yield from self._class(kind)
        if kind in _SIMPLE:
            yield repr(value)
        elif kind in (list, tuple):
            yield from map(self.digest, value)
        elif kind in (set, frozenset):
            yield from sorted(map(self.digest, value))
        elif kind is dict:
            # In order of the digests, since keys of several types have no order of their own.
            yield from sorted(self.digest(key) + self.digest(value[key]) for key in value)
        elif isinstance(value, np.ndarray | np.generic):
            yield from self._array(np.asarray(value))
        elif scipy.sparse.issparse(value):
            rows = value.tocsr()
            yield from map(self.digest, (rows.shape, rows.data, rows.indices, rows.indptr))
        elif kind is ModuleType:
            yield value.__name__
        elif kind is FunctionType:
            if _is_installed(value):
                yield _name(value)
            else:
                yield from map(self.digest, _function(value))
        elif isinstance(getattr(value, "py_func", None), FunctionType):  # compiled by Numba
            yield self.digest(value.py_func)
        elif kind is CodeType:
            yield from map(self.digest, (value.co_code, value.co_consts, value.co_names))
        else:
            yield self._content(value)

    def _array(self, array: NDArray[Any]) -> Iterator[str | memoryview]:
        yield f"{array.dtype.str} {array.shape}"
        if array.dtype.hasobject:
            yield from map(self.digest, array.ravel().tolist())
            return
        # In C order, whatever the order in memory; rows of a long matrix a few at a time.
        rows = np.atleast_1d(array)
        at_once = max(_BLOCK // max(rows[:1].nbytes, 1), 1)
        for begin in range(0, len(rows), at_once):
            block = np.ascontiguousarray(rows[begin : begin + at_once])
            yield block.reshape(-1).view(np.uint8).data

    def _class(self, kind: type) -> Iterator[str]:
        """Yield the name of a class, and its content if it may be defined otherwise elsewhere."""
        yield _name(kind)
        if _is_installed(kind):
            return
        yield from map(self.digest, kind.__bases__)
        for name, member in sorted(vars(kind).items()):
            if isinstance(member, classmethod | staticmethod):
                member = member.__func__
            if isinstance(member, property | cached_property):
                member = member.fget if isinstance(member, property) else member.func
            # Python keeps notes of its own on a class, such as __slotnames__.
            is_data = type(member) in _DATA and not name.startswith("__")
            if is_data or isinstance(member, FunctionType):
                yield from (name, self.digest(member))

    def _content(self, value: Any) -> str:
        """Return the digest of what pickle would keep, or the place of what it would not take."""
        try:
            reduced = value.__reduce_ex__(4)
        except TypeError:
            return self._place(value)
        if isinstance(reduced, str):  # the name of a global object
            return reduced if _found(value, reduced) else self._place(value)
        made, state, *items = (*reduced[1:], None)[:4]
        return self.digest(
            (
                made,
                _lasting(type(value), state),
                [None if entries is None else list(entries) for entries in items],
            )
        )

    def _place(self, value: Any) -> str:
        if self._portable:
            raise Opaque(f"{type(value).__qualname__} cannot be recognized in another process")
        return str(id(value))


def _function(function: FunctionType) -> Iterator[Any]:
    """Yield what a function consists of: its code, and the values that it reads."""
    yield function.__code__
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet set
            yield None
    # Names of attributes are among them; a global variable that has one is harmless.
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in sorted(names & function.__globals__.keys()):
        yield function.__globals__[name]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of all functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _name(thing: type | FunctionType) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _found(thing: Any, name: str) -> bool:
    """Whether a thing is what its module has under its name."""
    found: Any = sys.modules.get(getattr(thing, "__module__", None) or "builtins")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is thing


def _is_installed(thing: type | FunctionType) -> bool:
    """Whether the name tells all, because a class or function is of a package and not changed."""
    return thing.__module__ == "builtins" or (
        _is_of_a_package(thing.__module__) and _found(thing, thing.__qualname__)
    )


@cache
def _is_of_a_package(name: str | None) -> bool:
    if name is None or name.partition(".")[0] in ("cutplane", *sys.stdlib_module_names):
        return name not in (None, "__main__")
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return False
    paths = sysconfig.get_paths()
    if file.startswith((paths["purelib"], paths["platlib"])):
        return True
    # Also where `pip install --user` or `--target` put it.
    path = name.replace(".", "/")
    for ending in (".py", "/__init__.py"):
        if Path(file).as_posix().endswith(path + ending):
            return path + ending in _recorded(file[: -len(path + ending)])
    return False


@cache
def _recorded(folder: str) -> frozenset[str]:
    """Return the files that an installer has put into a folder, by its own records."""
    from importlib.metadata import distributions  # slow, and rarely needed

    records = (found.read_text("RECORD") or "" for found in distributions(path=[folder]))
    return frozenset(line.split(",")[0] for record in records for line in record.splitlines())


def _lasting(kind: type, state: Any) -> Any:
    """Return the state of an object without counters and what was computed from the rest."""
    parts = state if isinstance(state, tuple) else (state,)
    computed = {
        name
        for base in kind.__mro__
        for name, member in vars(base).items()
        if isinstance(member, cached_property)
    }
    return [
        {name: entry for name, entry in part.items() if name not in (*computed, *_COUNTERS)}
        if isinstance(part, dict)
        else part
        for part in parts
    ]
