"""Parts of a model file: described in plain values, and put together again, trusting nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.core.state import Certificate
from cutplane.io.model_schema import CLASS_TYPES, CertificateEntry, Classes, Malformed

_IN_WORDS = {1: "one", 2: "two"}
# NumPy gives all words the room of the longest: many labels and a long one would fill the memory.
_MOST_LETTERS = 10_000_000


def describe_classes(classes: NDArray[Any]) -> Classes:
    """Return labels and their type."""
    dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
    values = classes.tolist()
    if not all(type(value) is CLASS_TYPES.get(dtype) for value in values):
        raise TypeError(f"cannot save class labels of type {type(values[0]).__name__} ({dtype})")
    return Classes(dtype, values)


def restored_classes(classes: Classes | None, *, least: int = 2) -> NDArray[Any]:
    """Return labels."""
    if classes is None:
        raise Malformed("no classes")
    dtype, values = classes.dtype, classes.values
    if not all(type(value) is CLASS_TYPES[dtype] for value in values):
        raise Malformed(f"classes are not of type {dtype}")
    if dtype == "str" and len(values) * max(map(len, map(str, values)), default=0) > _MOST_LETTERS:
        raise Malformed("labels are too long")
    try:
        with np.errstate(over="raise"):
            restored = np.array(values, dtype=dtype)
    except (OverflowError, FloatingPointError):
        raise Malformed(f"classes are not of type {dtype}") from None
    if len(restored) < least or len(np.unique(restored)) != len(restored):
        raise Malformed(f"fewer than {_IN_WORDS[least]} different classes")
    return restored


def restored_names(names: list[str], n_features: int) -> NDArray[Any]:
    """Return the names of features."""
    if len(names) != n_features:
        raise Malformed(f"{len(names)} feature names for {n_features} features")
    return np.array(names, dtype=object)


def restored_certificates(
    entries: list[CertificateEntry], tol: float, n_problems: int
) -> Certificate | list[Certificate]:
    """Return the certificate, or one for each problem if there are several."""
    if len(entries) != n_problems:
        raise Malformed(f"{len(entries)} certificates, expected {n_problems}")
    found = [entry.certificate(tol) for entry in entries]
    return found if n_problems > 1 else found[0]
