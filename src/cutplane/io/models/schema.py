"""What may stand in a model file's JSON document: its schema, which msgspec checks.

The parameters of an estimator, and the options of a structured model, are those of its constructor,
with the types that stand there. So a new one is kept and checked without further code here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from cutplane.core.certificate import VANISHES, Certificate, Status, relative
from cutplane.estimators.description import Positive, Reads, parameters_of

T = TypeVar("T")

Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Scalar = None | bool | _Whole | Finite | str


class ByLabel(Struct, forbid_unknown_fields=True):
    """Numbers by label, such as class weights: JSON has no keys but words."""

    labels: list[bool | _Whole | Finite | str]
    numbers: list[_Whole | Finite]

    def __post_init__(self) -> None:
        """Refuse labels and numbers that do not make a mapping."""
        if len(self.labels) != len(self.numbers) or len({*self.labels}) != len(self.labels):
            raise ValueError("labels and numbers do not belong together")


Plain = _Scalar | list[_Scalar] | ByLabel

# Types of constructor parameters that are plain. A number may be whole where a real one is meant
# (k=5), and a truth value may be given as 0 or 1.
_PLAIN: dict[Any, Any] = {
    Any: Plain,
    NoneType: None,
    str: str,
    float: _Whole | Finite,
    int: _Whole | bool,
    bool: bool | Annotated[int, Meta(ge=0, le=1)],
}
# Objects; but for the structured model, networks, bounds and constraints, which are kept as arrays.
NEVER_KEPT = {"callbacks", "checkpoint", "model", "features", "bounds", "constraints"}
_IN_WORDS = {1: "one", 2: "two"}

CLASS_TYPES: dict[str, type] = {
    **{f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": float for bits in (16, 32, 64)},
    "bool": bool,
    "str": str,
    "object": str,
}


class Malformed(Exception):
    """What is wrong with a model file."""


class Classes(Struct):
    """Labels and their type."""

    dtype: Literal[tuple(CLASS_TYPES)]  # type: ignore[valid-type]
    values: list[bool | int | Finite | str]
    texts: list[str] | None = None  # as they stood in a file, such as +1

    @classmethod
    def of(cls, classes: NDArray[Any], texts: list[str] | None = None) -> Classes:
        """Return the entry of labels."""
        dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
        values = classes.tolist()
        if not all(type(value) is CLASS_TYPES.get(dtype) for value in values):
            kind = type(values[0]).__name__
            raise TypeError(f"cannot save class labels of type {kind} ({dtype})")
        return cls(dtype, values, texts)

    def restored(self, *, least: int) -> NDArray[Any]:
        """Return the labels."""
        dtype, values = self.dtype, self.values
        if self.texts is not None and len(self.texts) != len(values):
            raise Malformed(f"{len(self.texts)} texts for {len(values)} classes")
        if not all(type(value) is CLASS_TYPES[dtype] for value in values):
            raise Malformed(f"classes are not of type {dtype}")
        longest = max(map(len, map(str, values)), default=0)
        # NumPy gives all words the room of the longest: many and a long one would fill the memory.
        if dtype == "str" and len(values) * longest > 10**7:
            raise Malformed("labels are too long")
        try:
            with np.errstate(over="raise"):
                labels = np.array(values, dtype=dtype)
        except (OverflowError, FloatingPointError):
            raise Malformed(f"classes are not of type {dtype}") from None
        if len(labels) < least or len(np.unique(labels)) != len(labels):
            raise Malformed(f"fewer than {_IN_WORDS[least]} different classes")
        return labels


class CertificateEntry(Struct, frozen=True):
    """A certificate. A lower bound that was never found is null."""

    objective: Finite
    lower_bound: Finite | None
    status: Status
    valid: bool
    reason: Annotated[str, Meta(max_length=1000)] = ""

    def __post_init__(self) -> None:
        """Refuse what no run ends with."""
        status, lower = self.status, self.lower_bound
        if status in (Status.RUNNING, Status.FAILED):
            raise ValueError(f"the status of a model that was fitted is not {status}")
        if lower is None and status.success:
            raise ValueError(f"{status} without a lower bound")
        if self.valid and status in (Status.STATIONARY, Status.INCONSISTENT):
            raise ValueError(f"{status}, and valid all the same")
        if not self.valid and status is Status.OPTIMAL:
            raise ValueError(f"{status}, but not valid")
        if lower is not None and lower > self.objective and status is not Status.INCONSISTENT:
            raise ValueError(f"{status}, with the lower bound {lower} above {self.objective}")

    @classmethod
    def of(cls, certificate: Certificate) -> CertificateEntry:
        """Return the entry of a certificate."""
        lower = certificate.lower_bound
        return cls(
            objective=float(certificate.objective),
            lower_bound=None if lower == -math.inf else float(lower),
            status=certificate.status,
            valid=bool(certificate.valid),
            reason=certificate.reason,
        )

    def certificate(self, tol: float) -> Certificate:
        """Return the certificate of a run with this tolerance."""
        lower = -math.inf if self.lower_bound is None else self.lower_bound
        gap = relative(self.objective - lower, self.objective)
        rounded = tol * (1 + 1e-9)
        if self.status.success and gap > rounded and VANISHES not in self.reason:
            raise Malformed(f"{self.status} with a relative gap of {gap:.2g}; tol is {tol:.2g}")
        return Certificate(self.objective, lower, self.status, self.valid, self.reason)


@cache
def model_schema(estimators: tuple[type[Any], ...], structured: Any, preparation: Any) -> Any:
    """Return the schema of a model of any of these estimators.

    ``structured`` and ``preparation`` are the schemas of the entries of these names, for what is
    fitted to structures, and for pipelines.
    """
    return Union[  # noqa: UP007
        tuple(
            _schema(of, structured, preparation) for of in estimators if not of.description.becomes
        )
    ]


def _schema(of: type[Any], structured: Any, preparation: Any) -> type[Struct]:
    name, description = of.__name__, of.description
    saved = [(attribute, *of) for attribute, of in description.saved.items()]
    attributes = msgspec.defstruct(f"{name}Attributes", saved)
    fields = {
        "parameters": arguments_of(of, description.losses),
        "attributes": (attributes, msgspec.field(default_factory=attributes)),
        "classes": Classes | None,
        "feature_names": list[str] | None,
        "certificates": list[CertificateEntry],
        "preparation": (preparation | None, None),
    }
    if description.reads is Reads.STRUCTURES:
        fields["structured"] = structured
    return tagged(name, fields)


def arguments_of(of: type[Any], losses: Iterable[str] = ()) -> type[Struct]:
    """Return the schema of a constructor's arguments that are plain values.

    One that is missing has its default; only a loss, on which predictions depend, must be there.
    """
    fields: list[Any] = []
    for name, parameter in parameters_of(of).items():
        if name == "loss":
            fields.append((name, Literal[tuple(losses)]))
        elif name not in NEVER_KEPT:
            positive = name in ("lam", "C", "tol", "time_limit")
            fields.append((name, _plain(parameter.type, positive=positive), parameter.default))
    return msgspec.defstruct(of.__name__, fields, kw_only=True, forbid_unknown_fields=True)


def _plain(hint: Any, *, positive: bool) -> Any:
    """Return the plain part of a type: null, if there is none (an object is never kept)."""
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(_plain(part, positive=positive) for part in get_args(hint))]  # noqa: UP007
    if hint is float and positive:
        return Annotated[int, Meta(gt=0, le=2**63 - 1)] | Positive
    return _PLAIN.get(hint)


def tagged(kind: str, fields: Mapping[str, Any]) -> type[Struct]:
    """Return the schema of an object with this entry ``kind``, and others.

    A pair of a type and a default makes an entry optional. Entries that are not known are left
    alone: later versions may have some.
    """
    listed = [(name, *(of if isinstance(of, tuple) else (of,))) for name, of in fields.items()]
    return msgspec.defstruct(kind, listed, tag_field="kind", tag=kind, kw_only=True)


def checked(document: object, schema: type[T]) -> T:
    """Return a JSON document as an object of a schema."""
    try:
        return msgspec.convert(document, schema)
    except msgspec.ValidationError as error:
        raise Malformed(str(error).replace("`$", "`model", 1)) from None
    except RecursionError:
        raise Malformed("it is nested too deeply") from None


def plain_value(value: Any) -> Any:
    """Return a value with NumPy's numbers and arrays as Python's, and tuples as lists.

    Numbers by label are a `ByLabel` as JSON has it.
    """
    if isinstance(value, dict):
        labels, numbers = plain_value([*value]), plain_value([*value.values()])
        return {"labels": labels, "numbers": numbers}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    return value


def python_value(value: Any) -> Any:
    """Return what `plain_value` was made of, as far as files keep it."""
    if isinstance(value, ByLabel):
        return dict(zip(value.labels, value.numbers, strict=True))
    return value


def is_plain(value: object) -> bool:
    """Say whether a value is one that files keep."""
    try:
        msgspec.convert(value, Plain)
    except msgspec.ValidationError:
        return False
    return True
