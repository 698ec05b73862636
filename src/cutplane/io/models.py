"""Model files: a fitted estimator as a safetensors file that loads without running code.

The tensors are ``coef`` and ``intercept``. The file's metadata holds one JSON document: the model
(format version, kind of estimator, constructor parameters, classes, feature names, certificates)
and a SHA-256 digest of the model and the tensors, so that a damaged file is refused and never
predicts something else.

Files of format 1 stay readable. A change that old readers would misread takes a new number.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.core.state import Certificate, Status
from cutplane.estimators import (
    LinearClassifier,
    LinearClassifierCV,
    LinearRanker,
    LinearRegressor,
    LinearRegressorCV,
    NoveltyDetector,
    OrdinalClassifier,
)
from cutplane.estimators.multi_class import joint_loss
from cutplane.io.atomic import write_atomically
from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, read_bytes
from cutplane.io.traces import finite_or_none
from cutplane.losses import CLASSIFICATION, MEASURES, RANKING, REGRESSION

Estimator: TypeAlias = (
    LinearClassifier | LinearRegressor | LinearRanker | NoveltyDetector | OrdinalClassifier
)

_FORMAT = 1
_KINDS: dict[str, type[Estimator]] = {
    "LinearClassifier": LinearClassifier,
    "LinearRegressor": LinearRegressor,
    "LinearRanker": LinearRanker,
    "NoveltyDetector": NoveltyDetector,
    "OrdinalClassifier": OrdinalClassifier,
}
# What the tensor "intercept" is called in an estimator, where it is called something else.
_INTERCEPTS = {"NoveltyDetector": "offset_", "OrdinalClassifier": "thresholds_"}
# Cross-validation is over once a model is fitted: it is saved as one with the lam that was chosen.
_SAVED_AS: dict[type[Any], str] = {
    **{of: kind for kind, of in _KINDS.items()},
    LinearClassifierCV: "LinearClassifier",
    LinearRegressorCV: "LinearRegressor",
}
_LOSSES = {
    "LinearClassifier": CLASSIFICATION | MEASURES,
    "LinearRegressor": REGRESSION,
    "OrdinalClassifier": CLASSIFICATION,
    "LinearRanker": RANKING,
}
_CLASS_TYPES: dict[str, tuple[type, ...]] = {
    **{f"{sign}int{bits}": (int,) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (float,) for bits in (16, 32, 64)},
    "bool": (bool,),
    "str": (str,),
    "object": (str,),
}


def save_model(estimator: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted linear estimator to a file, whole or not at all.

    An estimator that chose its ``lam`` by cross-validation is saved as the `LinearClassifier` or
    `LinearRegressor` with that ``lam`` that it has become.

    Constructor parameters that JSON cannot hold (callbacks, a method object, class weights by
    label) are left out; a loaded model has their defaults. They matter to fitting, not to
    prediction. The history of the fit is left out as well: that is what traces are for.

    Raises
    ------
    TypeError
        If the estimator is of another kind, or its loss is not one of cutplane's names.
    OutputError
        If the file cannot be written.
    """
    # Imported here, as in `load_model`: few programs that import cutplane handle model files.
    from safetensors.numpy import save
    from sklearn.utils.validation import check_is_fitted

    kind = _SAVED_AS.get(type(estimator))
    if kind is None:
        known = ", ".join(of.__name__ for of in _SAVED_AS)
        raise TypeError(f"cannot save a {type(estimator).__name__}; only {known}")
    check_is_fitted(estimator)
    if kind in _LOSSES and not isinstance(estimator.loss, str):
        raise TypeError("cannot save a model with a loss of its own; give the loss by name")
    intercept = getattr(estimator, _INTERCEPTS.get(kind, "intercept_"))
    tensors = {
        "coef": np.ascontiguousarray(estimator.coef_),
        "intercept": np.atleast_1d(np.asarray(intercept, dtype=estimator.coef_.dtype)),
    }
    model = _describe(estimator, kind)
    document = json.dumps({"model": model, "sha256": _digest(model, tensors)}, allow_nan=False)
    write_atomically(path, save(tensors, metadata={"cutplane": document}))


def load_model(path: str | os.PathLike[str]) -> Estimator:
    """Read a fitted estimator from a file.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a complete and consistent cutplane model.
    """
    try:
        model, tensors = _read(path)
        return _restore(model, tensors)
    except _Malformed as malformed:
        raise InputError(f"{name_of(path)}: not a usable cutplane model: {malformed}") from None


class _Malformed(Exception):
    """What is wrong with a model file."""


# -- from estimator to JSON ------------------------------------------------------------------------


def _describe(estimator: Estimator, kind: str) -> dict[str, Any]:
    from cutplane import __version__

    names = getattr(estimator, "feature_names_in_", None)
    certificates = estimator.certificate_
    return {
        "format": _FORMAT,
        "cutplane": __version__,
        "kind": kind,
        "parameters": _plain_parameters(estimator, kind),
        "classes": _describe_classes(estimator),
        "feature_names": None if names is None else [str(name) for name in names],
        "certificates": [
            _describe_certificate(certificate)
            for certificate in (certificates if isinstance(certificates, list) else [certificates])
        ],
    }


def _plain_parameters(estimator: Estimator, kind: str) -> dict[str, Any]:
    parameters = {}
    for name in inspect.signature(_KINDS[kind]).parameters:
        value = getattr(estimator, name)
        if name == "lam" and type(estimator) is not _KINDS[kind]:
            value = estimator.lam_  # chosen by cross-validation
        plain = value.item() if isinstance(value, np.generic) else value
        if _is_plain(plain):
            parameters[name] = plain
    return parameters


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def _describe_classes(estimator: Estimator) -> dict[str, Any] | None:
    if not isinstance(estimator, LinearClassifier | OrdinalClassifier):
        return None
    classes = estimator.classes_
    dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
    values = classes.tolist()
    if not all(type(value) in _CLASS_TYPES.get(dtype, ()) for value in values):
        raise TypeError(f"cannot save class labels of type {type(values[0]).__name__} ({dtype})")
    return {"dtype": dtype, "values": values}


def _describe_certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "objective": finite_or_none(certificate.objective),
        "lower_bound": finite_or_none(certificate.lower_bound),
        "status": str(certificate.status),
        "valid": bool(certificate.valid),
    }


def _digest(model: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(model, sort_keys=True).encode())
    for name in ("coef", "intercept"):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tensor.shape} ".encode())
        digest.update(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


# -- from JSON to estimator, trusting nothing ------------------------------------------------------


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the model's description and tensors, once their digest has been checked."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = read_bytes(path)
    try:
        tensors = load(content)
        # safetensors gives the metadata of files only, not of bytes. Its place is fixed: a length
        # of 8 bytes, then a JSON header of that length.
        length = int.from_bytes(content[:8], "little")
        document = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["cutplane"])
        model, digest = document["model"], document["sha256"]
        if model["format"] != _FORMAT:
            raise _Malformed(f"format {model['format']!r}; this version reads {_FORMAT}")
        if len(tensors) != 2 or digest != _digest(model, tensors):
            raise _Malformed("the file is damaged")
    except (KeyError, TypeError):
        raise _Malformed("it was not written by cutplane") from None
    except (SafetensorError, ValueError, RecursionError):
        raise _Malformed("it is no safetensors file, or is damaged") from None
    return model, tensors


def _restore(model: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Estimator:
    try:
        kind, parameters, names = model["kind"], model["parameters"], model["feature_names"]
        classes, certificates = model["classes"], model["certificates"]
    except KeyError as missing:
        raise _Malformed(f"no entry {missing}") from None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _Malformed(f"unknown kind of estimator {kind!r}")
    coef, intercept = tensors["coef"], tensors["intercept"]
    if coef.dtype.kind != "f" or intercept.dtype != coef.dtype:
        raise _Malformed(f"weights of type {coef.dtype} and {intercept.dtype}")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise _Malformed("a weight is not finite")

    estimator = _KINDS[kind](**_checked_parameters(kind, parameters))
    if isinstance(estimator, LinearClassifier):
        estimator.classes_ = _checked_classes(classes)
        rows = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
        problems = rows if estimator.multi_class == "ovr" else 1
        expected_ndim, found = 2, coef.shape[0]
    elif isinstance(estimator, OrdinalClassifier):
        estimator.classes_ = _checked_classes(classes)
        rows = found = len(estimator.classes_) - 1
        problems, expected_ndim = 1, 1
        if (np.diff(intercept) < 0.0).any():
            raise _Malformed("thresholds are not in order")
    else:
        rows, problems, expected_ndim, found = 1, 1, 1, 1
    if coef.ndim != expected_ndim or found != rows or intercept.shape != (rows,):
        raise _Malformed(f"weights of shapes {coef.shape} and {intercept.shape}")
    estimator.coef_ = coef
    single = isinstance(estimator, LinearRegressor | NoveltyDetector)
    offsets = float(intercept[0]) if single else intercept
    setattr(estimator, _INTERCEPTS.get(kind, "intercept_"), offsets)
    estimator.n_features_in_ = coef.shape[-1]
    if names is not None:
        estimator.feature_names_in_ = _checked_names(names, coef.shape[-1])
    checked = _checked_certificates(certificates, problems)
    estimator.certificate_ = checked if problems > 1 else checked[0]
    return estimator


def _checked_parameters(kind: str, parameters: object) -> dict[str, Any]:
    known = inspect.signature(_KINDS[kind]).parameters
    if not isinstance(parameters, dict) or not all(map(_is_plain, parameters.values())):
        raise _Malformed("parameters are not plain values")
    if unknown := [name for name in parameters if name not in known]:
        raise _Malformed(f"unknown parameter {unknown[0]!r}")
    if kind not in _LOSSES:
        return parameters
    if parameters.get("loss") not in _LOSSES[kind]:
        raise _Malformed(f"unknown loss {parameters.get('loss')!r}")
    try:
        estimator = _KINDS[kind](**parameters)
        loss = estimator.loss_function()  # predictions depend on it
        if isinstance(estimator, LinearClassifier):
            joint_loss(estimator.multi_class, loss)
    except (TypeError, ValueError) as error:
        raise _Malformed(f"a parameter of the loss is wrong: {error}") from None
    return parameters


def _checked_classes(classes: object) -> NDArray[Any]:
    match classes:
        case {"dtype": str(dtype), "values": list(values)} if dtype in _CLASS_TYPES:
            pass
        case _:
            raise _Malformed("no classes")
    if not all(type(value) in _CLASS_TYPES[dtype] for value in values):
        raise _Malformed(f"classes are not of type {dtype}")
    try:
        restored = np.array(values, dtype=dtype)
    except (ValueError, OverflowError):
        raise _Malformed(f"classes are not of type {dtype}") from None
    if len(restored) < 2 or len(np.unique(restored)) != len(restored):
        raise _Malformed("fewer than two different classes")
    return restored


def _checked_names(names: object, n_features: int) -> NDArray[Any]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _Malformed("feature names are not words")
    if len(names) != n_features:
        raise _Malformed(f"{len(names)} feature names for {n_features} features")
    return np.array(names, dtype=object)


def _checked_certificates(certificates: object, problems: int) -> list[Certificate]:
    if not isinstance(certificates, list) or len(certificates) != problems:
        raise _Malformed(f"expected {problems} certificates")
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
            raise _Malformed("a certificate is incomplete")
