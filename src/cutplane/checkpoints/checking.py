"""What the parts of a state look like: types, shapes and ranges, in terms of the problem.

Compiled loops do not look whether an index is in range, and a state comes from a file. So before a
state is used, each part of it is compared with what is written here; numbers as such are believed
(see `store`), but none of them leads a loop out of an array.

A dataclass or named tuple of the library says what its parts look like in the types of its fields
(`layout_of`): a ``Vector`` is one of parameters, ``float`` and ``int`` say all, and whatever is
more special is ``Annotated``, as in ``Annotated[Vector, "f8[n]"]`` for a number for each example.
What has to be true of several fields of what a solver remembers, a method ``fits(risk, solver)``
says. Classes of other kinds are in a table; what may be missing there, because it is computed when
it is first asked for, has a question mark behind its name. Parts of a user's own classes are taken
as they are.

=============  ====================================================================================
``float``      finite
``real``       a float that is not NaN, maybe infinite: what ``float`` means as a type
``count``      a whole number, not negative; a ``number`` may be too large to be counted to
``f8[n, *]``   a finite array: 8 or 4 bytes a float (f) or whole number (i, u), 1 a truth (b)
``f8~[n]``     maybe with entries that are not finite
``<n``         and numbers from 0 to n - 1; ``>=0``: that are not negative
``=risk.data`` the very part of the problem, and nothing else
``None``       nothing; a class by its name; ``a | b`` one or the other
``planes``     a dictionary of lists of planes; ``list of a``, ``pair of a and b``
=============  ====================================================================================

The letters: ``p`` parameters, ``n`` examples, ``d`` features, ``c`` columns of scores, ``k``
planes, ``g`` groups of planes; ``t`` tokens, ``s`` sequences and ``l`` labels of chains, and ``b``
blocks of sequences; ``scores`` stands for the shape of all scores. Other letters are those of
the same part. What does not fit is `Unknown`, with the place where it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Protocol,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from cutplane.checkpoints.codec import Unknown, attributes
from cutplane.compute.arrays import Vector
from cutplane.core.protocols import FarRisk, Risk
from cutplane.core.solver import AnySolver, BundleSolver, Policy, PolicyStates, Solver
from cutplane.core.state import Problem, Run

# The points of each kind of risk; those of others are taken as they are.
POINTS = {
    "ScoredRisk": "ScoredPoint",
    "KernelRisk": "ScoredPoint",
    "ChainRisk": "ChainPoint | KeptPoint",
    "StructuredRisk": "StructuredPoint",
    "WeightedSum": "SumPoint | SearchableSumPoint",
    "FunctionRisk": "KeptPoint",
    "HMMRisk": "KeptPoint",
    "TorchRisk": "KeptPoint",
}

# Classes that have no fields to say it.
LAYOUTS: dict[str, dict[str, str]] = {
    "Bundle": {
        "metric": "=metric", "n_groups": "count", "_slopes": "unseen", "_gram": "unseen",
        "slots": "unseen", "held": "unseen", "_flat": "b1[k]", "groups": "i8[k]<g",
        "offsets": "f8[k]", "centered_offsets": "f8[k]", "tilts": "f8[k]", "localities": "f8[k]",
        "alpha": "f8[k]>=0", "idle": "i8[k]>=0", "numbers": "i8[k]>=0", "_n_added": "count",
        "_qp": "SimplexQP", "floor": "real", "_measured?": "pair of f8[p] and f8[k] | None",
    },
    "ScoredPoint": {
        "_risk": "=risk", "w": "f8[p]", "scores": "f8[scores] | f4[scores]",
        "_group_planes": "planes", "_at": "AtBestOffset", "_plane?": "Plane",
        "intercept?": "f8[*] | f8[*, *] | float",
    },
    "ChainPoint": {
        "risk": "=risk", "w": "f8[p]", "scores": "ChainScores", "_group_planes": "planes",
        "outcome?": "WorstLabels | Marginals", "_plane?": "Plane",
    },
    "WorstLabels": {
        "_data": "=risk.data", "labels": "i4[t]<l", "mistakes": "i8[s]>=0 | f8[s]",
        "value": "float",
    },
    "Marginals": {
        "losses": "f8[s]", "value": "float", "_slopes": "ChainSlopes",
        "_chains": "=risk.data.chains", "_weights": "=risk.data.weights",
    },
    "StructuredPoint": {
        "w": "f8[p]", "examples": "=risk._used", "losses": "f8[u]", "indices": "i8[e]<p",
        "values": "f8[e]", "starts": "i8[*]>=0", "_weights": "f8[u]", "_planes": "planes",
        "_owners?": "i8[e]<u", "value?": "float",
    },
}  # fmt: skip

# Types of fields that say all by themselves.
_SPECS: dict[Any, str] = {
    Any: "unseen",
    float: "real",
    int: "count",
    bool: "bool",
    str: "str",
    NoneType: "None",
    Vector: "f8[p]",
    NDArray[np.uint64]: "u8[1]",
}

# Classes whose parts are taken as they are: layers of PyTorch are what the user says.
_AS_THEY_ARE = {"NetworkCurvature", "LayerCurvature"}


@cache
def layout_of(kind: type) -> Mapping[str, str] | None:
    """Return the layout of a class, from the table or from the types of its fields.

    None if parts of such a class are taken as they are.
    """
    name = kind.__name__
    if name in LAYOUTS:
        return LAYOUTS[name]
    if name in _AS_THEY_ARE or not kind.__module__.startswith("cutplane."):
        return None
    if (names := _names_of(kind)) is None:
        return None
    hints = get_type_hints(kind, include_extras=True)
    return {each: spec_of(hints[each]) for each in names}


def spec_of(hint: Any) -> str:
    """Return what a type says of a part: for ``Annotated[Vector, "f8[n]"]`` it is ``"f8[n]"``."""
    origin = get_origin(hint)
    if origin is Annotated:
        return str(get_args(hint)[1])
    if origin in (Union, UnionType):
        return " | ".join(map(spec_of, get_args(hint)))
    if origin is list:
        return f"list of {spec_of(*get_args(hint))}"
    if origin is tuple:
        return "pair of {} and {}".format(*map(spec_of, get_args(hint)))
    if hint in _SPECS:
        return _SPECS[hint]
    known = isinstance(hint, type) and (hint.__name__ in PLAIN or hint.__name__ in LAYOUTS)
    if known or _names_of(hint):
        return str(hint.__name__)
    raise TypeError(f"{hint} does not say what a part looks like: annotate it, as with 'f8[n]'")


def _names_of(kind: Any) -> list[str] | None:
    """Return the names of the fields of a dataclass, or of a named tuple."""
    if is_dataclass(kind):
        return [part.name for part in fields(kind)]
    return list(kind._fields) if hasattr(kind, "_fields") else None


def is_named(value: Any, name: str) -> bool:
    """Say whether a value is of one of the library's own classes, by its name."""
    kind = type(value)
    return kind.__name__ == name and kind.__module__.startswith("cutplane.")


PLAIN: dict[str, Callable[[Any], bool]] = {
    "float": lambda value: isinstance(value, float) and math.isfinite(value),
    "real": lambda value: isinstance(value, float) and not math.isnan(value),
    # Larger counts cannot be reached by counting, and would overflow.
    "count": lambda value: type(value) is int and 0 <= value < 2**53,
    "number": lambda value: type(value) is int and 0 <= value < 2**63,
    "bool": lambda value: type(value) is bool,
    "str": lambda value: type(value) is str,
    "None": lambda value: value is None,
    "unseen": lambda value: True,
    "Status": lambda value: is_named(value, "Status"),
}


def own_kinds(kind: type) -> frozenset[str] | None:
    """Return the names of the types that a solver or policy may remember, or None if unknown."""
    for base in kind.__mro__:
        for made in vars(base).get("__orig_bases__", ()):
            origin = get_origin(made)
            if not (isinstance(origin, type) and issubclass(origin, Policy | Solver)):
                continue
            (own,) = get_args(made)
            if isinstance(own, ForwardRef):
                return frozenset(own.__forward_arg__.replace("None", "NoneType").split(" | "))
            kinds = get_args(own) if isinstance(own, UnionType) else (own,)
            if all(isinstance(each, type) for each in kinds):
                return frozenset(each.__name__ for each in kinds)
    return None


_ARRAY = re.compile(r"([fiub]\d)(~?)\[([^\]]*)\](?:<(\w+)|(>=0))?")


def require_fitting(
    state: Any, problem: Problem, method: AnySolver, given: Collection[object]
) -> None:
    """Raise Unknown unless a state is one of a method on a problem; ``given`` are their parts."""
    if type(state) is not Run:
        raise Unknown("it is no state")
    known = {
        "problem": problem,
        "risk": problem.risk,
        "method": method,
        "metric": problem.quadratic,
    }
    checker = _Checker(known, frozenset(map(id, given)))
    # Both are looked at themselves, like all parts.
    n_planes, n_groups = len(state.bundle.offsets), state.bundle.n_groups
    checker.scope |= {"k": n_planes, "g": n_groups}
    checker.check(state, "Run", "state")
    if n_groups < 1 or method.groups not in (None, n_groups):
        raise Unknown(f"state.bundle has {n_groups} groups")
    if state.convex and problem.risk.convex is False:
        raise Unknown("state.convex is not what the risk says")
    checker.check_own(state.own, method, "state.own")
    if not isinstance(method, BundleSolver):
        return
    if method.stabilizer.confined and state.bundle.tilts.any():
        raise Unknown("state.bundle has planes of groups")
    if state.own is None:
        return
    for place in (part.name for part in fields(PolicyStates)):
        checker.check_own(getattr(state.own, place), getattr(method, place), f"state.own.{place}")


@runtime_checkable
class FitsTogether(Protocol):
    """What a solver remembers, if more has to be true of it than what each field looks like."""

    def fits(self, risk: Risk, solver: Any) -> bool:
        """Say whether the fields fit together, and the problem."""


@dataclass
class _Checker:
    """One look at a state, or at the part of it that belongs to a risk."""

    known: Mapping[str, Any]
    given: Collection[int]
    scope: dict[str, int] = field(default_factory=dict)

    def check(self, value: Any, spec: str, path: str) -> None:
        """Raise Unknown unless a value fits one of the alternatives."""
        if not any(self._fits(value, each, path) for each in spec.split(" | ")):
            raise Unknown(f"{path} is not what it was")

    def check_own(self, own: Any, policy: Policy[Any] | AnySolver, path: str) -> None:
        """Check what a solver or a policy of the library remembers, if it knows the risk."""
        if not type(policy).__module__.startswith("cutplane."):
            return
        # What workers remember is not stored.
        if own is None and isinstance(self.known["risk"], FarRisk):
            return
        kinds = own_kinds(type(policy))
        name = type(own).__name__
        if kinds is not None and name not in kinds:
            raise Unknown(f"{path} is not what {type(policy).__name__} remembers")
        kind: type = type(own)
        if layout_of(kind) is not None:
            self.check(own, name, path)
        elif isinstance(own, float):
            self.check(own, "real", path)

    def _fits(self, value: Any, spec: str, path: str) -> bool:
        if spec in PLAIN:
            return PLAIN[spec](value)
        if match := _ARRAY.fullmatch(spec):
            return self._is_array(value, match)
        if spec.startswith("="):
            name, *parts = spec[1:].split(".")
            expected = self.known[name]
            for part in parts:
                expected = getattr(expected, part)
            return value is expected
        if spec.startswith("list of "):
            return type(value) is list and all(self._fits(each, spec[8:], path) for each in value)
        if spec.startswith("pair of "):
            specs = spec[8:].split(" and ")
            return (
                isinstance(value, tuple)
                and len(value) == 2
                and all(self._fits(*each, path) for each in zip(value, specs, strict=True))
            )
        if special := _SPECIAL.get(spec):
            return special(self, value, path)
        if not is_named(value, spec):
            return False
        kind: type = type(value)
        if (layout := layout_of(kind)) is not None:
            self._check_fields(value, layout, path)
        return True

    def _is_array(self, value: Any, spec: re.Match[str]) -> bool:
        dtype, loose, dims, below, natural = spec.groups()
        if not (
            type(value) is np.ndarray and value.dtype.str[1:] == dtype and value.dtype.isnative
        ):
            return False
        sizes = [dim for part in dims.split(", ") for dim in self._sizes(part)]
        if value.ndim != len(sizes) or id(value) in self.given or not value.flags.writeable:
            return False
        for size, letter in zip(value.shape, sizes, strict=True):
            if letter != "*" and self.scope.setdefault(letter, size) != size:
                return False
        if below or natural:
            most = self.scope[self._sizes(below)[0]] if below else math.inf
            return bool(((value >= 0) & (value < most)).all())
        if loose or dtype[0] != "f":
            return True
        # Parameters and slopes can be squared: where they cannot, a run ends.
        sizes_matter = "p" in sizes and dtype == "f8"
        with np.errstate(over="ignore"):
            return bool(np.isfinite(value * value if sizes_matter else value).all())

    def _sizes(self, part: str) -> list[str]:
        """Return the letters of a part of a shape; what the problem says of them is noted."""
        if part.isdigit():
            self.scope[part] = int(part)
            return [part]
        if part not in _SHAPES:
            return [part]
        shape = _SHAPES[part](self.known["risk"])
        names = [f"{part}{i}" if len(shape) > 1 else part for i in range(len(shape))]
        self.scope |= dict(zip(names, shape, strict=True))
        return names

    def _check_fields(self, value: Any, layout: Mapping[str, str], path: str) -> None:
        is_tuple = isinstance(value, tuple)
        found = dict(zip(value._fields, value, strict=False) if is_tuple else attributes(value))
        inner = _Checker(self.known, self.given)
        inner.scope |= {letter: self.scope[letter] for letter in "kg" if letter in self.scope}
        if is_named(value, "PlainBound"):  # of planes some of which may be gone
            inner.scope["k"] = np.size(value.numbers)
        for name, spec in layout.items():
            own = name.removesuffix("?")
            if own in found:
                inner.check(found.pop(own), spec, f"{path}.{own}")
            elif own == name:
                raise Unknown(f"{path}.{own} is missing")
        if found:
            raise Unknown(f"{path} has more than it had")
        if is_tuple and len(value) != len(value._fields):
            raise Unknown(f"{path} is not what it was")
        rule = _RULES.get(type(value).__name__)
        fits = rule(value, inner) if rule else True
        if isinstance(value, FitsTogether):
            fits = value.fits(self.known["risk"], self.known["method"])
        if not fits:
            raise Unknown(f"{path} is not what it was")

    def is_point(self, value: Any, path: str) -> bool:
        """Say whether a value is a point of the risk, as far as points of such risks are known."""
        of = self.known["risk"]
        kinds = POINTS.get(type(of).__name__)
        if is_named(value, "_Place"):
            return self._fits(value, "_Place", path)
        if kinds is None or not type(of).__module__.startswith("cutplane."):
            return self._fits(getattr(value, "w", None), "f8[p]", path)
        if "SumPoint" not in kinds:
            return any(self._fits(value, kind, path) for kind in kinds.split(" | "))
        parts = dict(attributes(value)).get("parts") if type(value).__name__ in kinds else None
        if type(parts) is not list or len(parts) != len(of.terms):
            return False
        for (factor, risk), part in zip(of.terms, parts, strict=True):
            if type(part) is not tuple or len(part) != 2 or part[0] != factor:
                return False
            if not _Checker({**self.known, "risk": risk}, self.given).is_point(part[1], path):
                return False
        rest = {name: own for name, own in attributes(value) if name != "parts"}
        return rest.keys() <= {"value", "_plane"} and all(
            self._fits(own, "float" if name == "value" else "Plane", path)
            for name, own in rest.items()
        )

    def is_witness(self, value: Any, path: str) -> bool:
        """Say whether a value is what the loss may have found with its best offsets."""
        of = self.known["risk"]
        name = type(of.loss).__name__
        if name == "FBeta" and of.minimizes_intercept:
            return self._fits(value, "list of pair of float and Labeling", path)
        if name == "SharedScore" and type(value) is list:
            alone = all(is_named(own, "AtBestOffset") and own.witness is None for own in value)
            return alone and len(value) == of.intercept_shape[0]
        if name == "Euclidean" and PLAIN["float"](value):
            return True
        by_share = getattr(of.loss, "of_shares", False) and self._fits(value, "BestOffsets", path)
        return value is None or bool(by_share)


_SHAPES: dict[str, Callable[[Any], tuple[int, ...]]] = {
    "p": lambda risk: (risk.n_parameters,),
    "n": lambda risk: (_n_examples(risk),),
    "d": lambda risk: (risk.rows.shape[1],),
    "c": lambda risk: risk.map.score_shape[-1:] or (1,),
    "scores": lambda risk: (_n_examples(risk), *risk.map.score_shape),
    "u": lambda risk: (len(risk._used),),
    "t": lambda risk: (risk.data.chains.n_tokens,),
    "s": lambda risk: (risk.data.chains.n_sequences,),
    "l": lambda risk: (risk.data.chains.n_labels,),
    "b": lambda risk: (risk.data.chains.n_blocks,),
}


def _n_examples(of: Any) -> int:
    return int(of.n_examples if hasattr(of, "n_examples") else of.data.chains.n_sequences)


def _are_planes(checker: _Checker, value: Any, path: str) -> bool:
    return type(value) is dict and all(
        PLAIN["count"](n)
        and type(planes) is list
        and len(planes) == n
        and all(checker._fits(plane, "Plane", path) for plane in planes)
        for n, planes in value.items()
    )


def _are_slots(checker: _Checker, value: Any, path: str) -> bool:
    rows = range(checker.scope.get("m", 0))
    return (
        type(value) is list
        and all(type(slot) is int and slot in rows for slot in value)
        and len({*value}) == len(value)
    )


def _increases(numbers: Any) -> bool:
    return bool((np.diff(numbers) > 0).all())


_SPECIAL: dict[str, Callable[[_Checker, Any, str], bool]] = {
    "point": _Checker.is_point,
    "witness": _Checker.is_witness,
    "planes": _are_planes,
    "slots": _are_slots,
}


def _bundle_fits(bundle: Any, checker: _Checker) -> bool:
    numbers = bundle.numbers
    qp = bundle._qp
    return (
        _increases(numbers)
        and (not len(numbers) or (numbers[-1] < bundle._n_added))
        and len(qp.base) in (0, bundle.n_groups)
    )


def _solver_fits(qp: Any, checker: _Checker) -> bool:
    n, k = len(qp.support), checker.scope["k"]
    if qp.size > n or len(qp.warm) > k:
        return False
    planes = np.append(qp.support[: qp.size], qp.base)
    within = bool(((planes >= 0) & (planes < k)).all())
    # Without a base of each group the factor is computed again.
    based = qp.scale == 0.0 or len(qp.base) == checker.scope["g"]
    return within and based and len(np.unique(planes)) == len(planes)


# What has to be true of several fields together.
_RULES: dict[str, Callable[[Any, _Checker], bool]] = {
    "Bundle": _bundle_fits,
    "SimplexQP": _solver_fits,
    "PlainBound": lambda own, _: _increases(own.numbers),
    "AtBestOffset": lambda at, checker: _offset_fits(at.offset, checker.known["risk"]),
    "StructuredPoint": lambda point, _: (
        len(point.starts) == len(point.losses) + 1
        and point.starts[0] == 0
        and point.starts[-1] == len(point.indices)
        and bool((np.diff(point.starts) >= 0).all())
    ),
}


def _offset_fits(offset: Any, of: Any) -> bool:
    if not of.minimizes_intercept:
        return offset is None
    # The kernels that read it are compiled for float64.
    is_float = offset is not None and np.asarray(offset).dtype == np.float64
    return bool(is_float and np.shape(offset) == of.intercept_shape and np.isfinite(offset).all())
