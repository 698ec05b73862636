"""Parts of a model file: described in plain values, and checked, trusting nothing, when read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.core.state import Certificate, Status
from cutplane.io.traces import finite_or_none

_CLASS_TYPES: dict[str, tuple[type, ...]] = {
    **{f"{sign}int{bits}": (int,) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (float,) for bits in (16, 32, 64)},
    "bool": (bool,),
    "str": (str,),
    "object": (str,),
}
_IN_WORDS = {1: "one", 2: "two"}


class Malformed(Exception):
    """What is wrong with a model file."""


def is_plain(value: object) -> bool:
    """Say whether JSON can hold a value."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def describe_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return labels and their type."""
    dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
    values = classes.tolist()
    if not all(type(value) in _CLASS_TYPES.get(dtype, ()) for value in values):
        raise TypeError(f"cannot save class labels of type {type(values[0]).__name__} ({dtype})")
    return {"dtype": dtype, "values": values}


def describe_certificate(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate in plain values."""
    return {
        "objective": finite_or_none(certificate.objective),
        "lower_bound": finite_or_none(certificate.lower_bound),
        "status": str(certificate.status),
        "valid": bool(certificate.valid),
    }


def checked_classes(classes: object, *, least: int = 2) -> NDArray[Any]:
    """Return labels."""
    match classes:
        case {"dtype": str(dtype), "values": list(values)} if dtype in _CLASS_TYPES:
            pass
        case _:
            raise Malformed("no classes")
    if not all(type(value) in _CLASS_TYPES[dtype] for value in values):
        raise Malformed(f"classes are not of type {dtype}")
    try:
        restored = np.array(values, dtype=dtype)
    except (ValueError, OverflowError):
        raise Malformed(f"classes are not of type {dtype}") from None
    if len(restored) < least or len(np.unique(restored)) != len(restored):
        raise Malformed(f"fewer than {_IN_WORDS[least]} different classes")
    return restored


def checked_names(names: object, n_features: int) -> NDArray[Any]:
    """Return the names of features."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Malformed("feature names are not words")
    if len(names) != n_features:
        raise Malformed(f"{len(names)} feature names for {n_features} features")
    return np.array(names, dtype=object)


def checked_certificates(certificates: object, problems: int) -> list[Certificate]:
    """Return one certificate a problem."""
    if not isinstance(certificates, list) or len(certificates) != problems:
        raise Malformed(f"expected {problems} certificates")
    return [_checked_certificate(certificate) for certificate in certificates]


def _checked_certificate(certificate: object) -> Certificate:
    match certificate:
        case {
            "objective": float() | None as objective,
            "lower_bound": float() | None as lower_bound,
            "status": str(status),
            "valid": bool(valid),
        } if status in list(Status):
            return Certificate(
                objective=math.inf if objective is None else float(objective),
                lower_bound=-math.inf if lower_bound is None else float(lower_bound),
                status=Status(status),
                valid=valid,
            )
        case _:
            raise Malformed("a certificate is incomplete")
