"""Model files: a fitted estimator as a safetensors file that loads without running code.

The tensors are ``coef`` and ``intercept``; others for a tagger of sequences
(:mod:`cutplane.io.tagger_files`) and a structured predictor (:mod:`cutplane.io.structured_files`).
The file's metadata holds one JSON document: the model (format version, kind of estimator,
constructor parameters, classes, feature names, certificates) and a SHA-256 digest of the model and
the tensors, so that a damaged file is refused and never predicts something else.

Files of format 1 stay readable. A change that old readers would misread takes a new number.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutplane.estimators import (
    LinearClassifier,
    LinearClassifierCV,
    LinearRanker,
    LinearRegressor,
    LinearRegressorCV,
    NoveltyDetector,
    OrdinalClassifier,
    SequenceTagger,
    StructuredPredictor,
)
from cutplane.estimators.multi_class import joint_loss
from cutplane.estimators.positive_class import check_pos_label
from cutplane.io.atomic import write_atomically
from cutplane.io.errors import InputError
from cutplane.io.model_parts import (
    Malformed,
    checked_certificates,
    checked_classes,
    checked_names,
    describe_certificate,
    describe_classes,
    is_plain,
)
from cutplane.io.sources import name_of, read_bytes
from cutplane.io.structured_files import describe_structured, restored_predictor
from cutplane.io.tagger_files import fill_tagger, tensors_of_tagger
from cutplane.losses import CLASSIFICATION, MEASURES, RANKING, REGRESSION

WithDataFiles: TypeAlias = (
    LinearClassifier
    | LinearRegressor
    | LinearRanker
    | NoveltyDetector
    | OrdinalClassifier
    | SequenceTagger
)
Estimator: TypeAlias = WithDataFiles | StructuredPredictor

_FORMAT = 1
_KINDS: dict[str, type[Estimator]] = {
    "LinearClassifier": LinearClassifier,
    "LinearRegressor": LinearRegressor,
    "LinearRanker": LinearRanker,
    "NoveltyDetector": NoveltyDetector,
    "OrdinalClassifier": OrdinalClassifier,
    "SequenceTagger": SequenceTagger,
    "StructuredPredictor": StructuredPredictor,
}
# What the tensor "intercept" is called in an estimator, where it is called something else.
_INTERCEPTS = {"NoveltyDetector": "offset_", "OrdinalClassifier": "thresholds_"}
# Parameters that may be lists.
_LISTS = ("categories",)
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


def save_model(estimator: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    An estimator that chose its ``lam`` by cross-validation is saved as the `LinearClassifier` or
    `LinearRegressor` with that ``lam`` that it has become.

    Constructor parameters that JSON cannot hold (callbacks, a method object, class weights by
    label) are left out; a loaded model has their defaults. They matter to fitting, not to
    prediction. The history of the fit is left out as well: that is what traces are for.

    Raises
    ------
    TypeError
        If the estimator is of another kind, or its loss is not one of cutplane's names, or its
        structured model is one of your own.
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
    tensors = _tensors(estimator, kind)
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
    except Malformed as malformed:
        raise InputError(f"{name_of(path)}: not a usable cutplane model: {malformed}") from None


# -- from estimator to tensors and JSON ------------------------------------------------------------


def _tensors(estimator: Estimator, kind: str) -> dict[str, NDArray[Any]]:
    if isinstance(estimator, SequenceTagger):
        return tensors_of_tagger(estimator)
    if isinstance(estimator, StructuredPredictor):
        return {"coef": estimator.coef_}
    intercept = getattr(estimator, _INTERCEPTS.get(kind, "intercept_"))
    return {
        "coef": np.ascontiguousarray(estimator.coef_),
        "intercept": np.atleast_1d(np.asarray(intercept, dtype=estimator.coef_.dtype)),
    }


def _describe(estimator: Estimator, kind: str) -> dict[str, Any]:
    from cutplane import __version__

    classes = getattr(estimator, "classes_", None)
    names = getattr(estimator, "feature_names_in_", None)
    certificates = estimator.certificate_
    described = {
        "format": _FORMAT,
        "cutplane": __version__,
        "kind": kind,
        "parameters": _plain_parameters(estimator, kind),
        "classes": None if classes is None else describe_classes(classes),
        "feature_names": None if names is None else [str(name) for name in names],
        "certificates": [
            describe_certificate(certificate)
            for certificate in (certificates if isinstance(certificates, list) else [certificates])
        ],
    }
    if isinstance(estimator, StructuredPredictor):
        described["structured"] = describe_structured(estimator)
    return described


def _plain_parameters(estimator: Estimator, kind: str) -> dict[str, Any]:
    parameters = {}
    for name in inspect.signature(_KINDS[kind]).parameters:
        value = getattr(estimator, name)
        if name == "lam" and type(estimator) is not _KINDS[kind]:
            value = estimator.lam_  # chosen by cross-validation
        plain = value.item() if isinstance(value, np.generic) else value
        if name in _LISTS and value is not None:
            plain = np.asarray(value).tolist()
        if _is_plain(name, plain):
            parameters[name] = plain
    return parameters


def _is_plain(name: str, value: object) -> bool:
    if name in _LISTS and isinstance(value, list):
        return all(map(is_plain, value))
    return is_plain(value)


def _digest(model: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(model, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
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
            raise Malformed(f"format {model['format']!r}; this version reads {_FORMAT}")
        if digest != _digest(model, tensors):
            raise Malformed("the file is damaged")
    except (KeyError, TypeError):
        raise Malformed("it was not written by cutplane") from None
    except (SafetensorError, ValueError, RecursionError):
        raise Malformed("it is no safetensors file, or is damaged") from None
    return model, tensors


def _restore(model: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Estimator:
    try:
        kind, parameters, names = model["kind"], model["parameters"], model["feature_names"]
        classes, certificates = model["classes"], model["certificates"]
    except KeyError as missing:
        raise Malformed(f"no entry {missing}") from None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Malformed(f"unknown kind of estimator {kind!r}")
    if kind == "SequenceTagger":
        tagger = SequenceTagger(**_checked_parameters(kind, parameters))
        tagger.classes_ = checked_classes(classes, least=1)
        (tagger.certificate_,) = checked_certificates(certificates, 1)
        fill_tagger(tagger, tensors)
        return tagger
    if kind == "StructuredPredictor":
        options = _checked_parameters(kind, parameters)
        return restored_predictor(options, model.get("structured"), certificates, tensors)
    if set(tensors) != {"coef", "intercept"}:
        raise Malformed("the file is damaged")
    coef, intercept = tensors["coef"], tensors["intercept"]
    if coef.dtype.kind != "f" or intercept.dtype != coef.dtype:
        raise Malformed(f"weights of type {coef.dtype} and {intercept.dtype}")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise Malformed("a weight is not finite")

    estimator = _KINDS[kind](**_checked_parameters(kind, parameters))
    if isinstance(estimator, LinearClassifier):
        estimator.classes_ = checked_classes(classes)
        try:
            check_pos_label(estimator.pos_label, estimator.classes_)
        except ValueError as error:
            raise Malformed(str(error)) from None
        rows = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
        problems = rows if estimator.multi_class == "ovr" else 1
        expected_ndim, found = 2, coef.shape[0]
    elif isinstance(estimator, OrdinalClassifier):
        estimator.classes_ = checked_classes(classes)
        rows = found = len(estimator.classes_) - 1
        problems, expected_ndim = 1, 1
        if (np.diff(intercept) < 0.0).any():
            raise Malformed("thresholds are not in order")
    else:
        rows, problems, expected_ndim, found = 1, 1, 1, 1
    if coef.ndim != expected_ndim or found != rows or intercept.shape != (rows,):
        raise Malformed(f"weights of shapes {coef.shape} and {intercept.shape}")
    estimator.coef_ = coef
    single = isinstance(estimator, LinearRegressor | NoveltyDetector)
    offsets = float(intercept[0]) if single else intercept
    setattr(estimator, _INTERCEPTS.get(kind, "intercept_"), offsets)
    estimator.n_features_in_ = coef.shape[-1]
    if names is not None:
        estimator.feature_names_in_ = checked_names(names, coef.shape[-1])
    checked = checked_certificates(certificates, problems)
    estimator.certificate_ = checked if problems > 1 else checked[0]
    return estimator


def _checked_parameters(kind: str, parameters: object) -> dict[str, Any]:
    known = inspect.signature(_KINDS[kind]).parameters
    if not isinstance(parameters, dict) or not all(
        _is_plain(name, value) for name, value in parameters.items()
    ):
        raise Malformed("parameters are not plain values")
    if unknown := [name for name in parameters if name not in known]:
        raise Malformed(f"unknown parameter {unknown[0]!r}")
    if kind not in _LOSSES:
        return parameters
    if parameters.get("loss") not in _LOSSES[kind]:
        raise Malformed(f"unknown loss {parameters.get('loss')!r}")
    try:
        estimator = _KINDS[kind](**parameters)
        loss = estimator.loss_function()  # predictions depend on it
        if isinstance(estimator, LinearClassifier):
            joint_loss(estimator.multi_class, loss)
    except (TypeError, ValueError) as error:
        raise Malformed(f"a parameter of the loss is wrong: {error}") from None
    return parameters
