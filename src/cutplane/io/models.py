"""Model files: a fitted estimator as a safetensors file that loads without running code.

The tensors are those of linear estimators (:mod:`cutplane.io.linear_files`), of a tagger of
sequences (:mod:`cutplane.io.tagger_files`) or of a structured predictor
(:mod:`cutplane.io.structured_files`). The file's metadata holds one JSON document: the model
(format version, kind of estimator, constructor parameters, classes, feature names, certificates)
and a SHA-256 digest of the model and the tensors, so that a damaged file is refused and never
predicts something else. The digest tells nothing about who wrote the file: the model is checked
against a schema (:mod:`cutplane.io.model_schema`), and against itself.

Files of format 1 stay readable. A change that old readers would misread takes a new number.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, Union

import msgspec
from numpy.typing import NDArray

from cutplane.compute.threads import default_threads
from cutplane.estimators import (
    LinearClassifier,
    LinearClassifierCV,
    LinearQuantiles,
    LinearRanker,
    LinearRegressor,
    LinearRegressorCV,
    MultilabelClassifier,
    NoveltyDetector,
    OrdinalClassifier,
    SequenceTagger,
    StructuredPredictor,
)
from cutplane.estimators.linear.classes import check_pos_label
from cutplane.estimators.parameters import threads_of
from cutplane.estimators.tagging.tagger import LOSSES as CHAIN_LOSSES
from cutplane.io.atomic import write_atomically
from cutplane.io.errors import InputError
from cutplane.io.linear_files import LinearEstimator, fill_linear, tensors_of_linear
from cutplane.io.model_parts import (
    describe_classes,
    restored_certificates,
    restored_classes,
    restored_names,
)
from cutplane.io.model_schema import (
    NEVER_KEPT,
    CertificateEntry,
    Classes,
    Malformed,
    NotNegative,
    Positive,
    arguments_of,
    checked,
    is_plain,
    plain_value,
    tagged,
)
from cutplane.io.sources import name_of, read_bytes
from cutplane.io.structured_files import STRUCTURED, describe_structured, fill_predictor
from cutplane.io.tagger_files import fill_tagger, tensors_of_tagger
from cutplane.losses import CLASSIFICATION, MEASURES, RANKING, REGRESSION

WithDataFiles: TypeAlias = LinearEstimator | SequenceTagger
Estimator: TypeAlias = WithDataFiles | StructuredPredictor

_FORMAT = 1
_LONGEST_MESSAGE = 300


class _Kind(NamedTuple):
    """A kind of estimator: the names of its losses, and what else a fit tells it."""

    of: type[Any]
    losses: Mapping[str, Any] = {}
    attributes: Mapping[str, Any] = {}


# Each with its default. Files of the first versions do without lam_.
_LAM = {"lam_": (Positive | None, None)}
_CROSSING = {"largest_crossing_": (NotNegative | None, None)}
_KINDS = {
    kind.of.__name__: kind
    for kind in (
        _Kind(LinearClassifier, CLASSIFICATION | MEASURES, _LAM),
        _Kind(LinearRegressor, REGRESSION, _LAM),
        _Kind(LinearRanker, RANKING, _LAM),
        _Kind(LinearQuantiles, {}, _LAM | _CROSSING),
        _Kind(MultilabelClassifier, CLASSIFICATION, _LAM | {"multilabel_": (bool, True)}),
        _Kind(NoveltyDetector, {}, _LAM),
        _Kind(OrdinalClassifier, CLASSIFICATION, _LAM),
        _Kind(SequenceTagger, CHAIN_LOSSES),
        _Kind(StructuredPredictor, {}, _LAM),
    )
}
# Cross-validation is over once a model is fitted: it is saved as one with the lam that was chosen.
_SAVED_AS: dict[type[Any], str] = {
    **{kind.of: name for name, kind in _KINDS.items()},
    LinearClassifierCV: "LinearClassifier",
    LinearRegressorCV: "LinearRegressor",
}


def _schema(name: str, kind: _Kind) -> Any:
    attributes: Any = msgspec.defstruct(
        f"{name}Attributes", [(attribute, *of) for attribute, of in kind.attributes.items()]
    )
    fields = {
        "parameters": arguments_of(kind.of, kind.losses),
        "attributes": (attributes, msgspec.field(default_factory=attributes)),
        "classes": Classes | None,
        "feature_names": list[str] | None,
        "certificates": list[CertificateEntry],
    }
    if kind.of is StructuredPredictor:
        fields["structured"] = STRUCTURED
    return tagged(name, fields)


_MODEL: Any = Union[tuple(_schema(name, kind) for name, kind in _KINDS.items())]  # noqa: UP007


def save_model(estimator: Estimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    An estimator that chose its ``lam`` by cross-validation is saved as the `LinearClassifier` or
    `LinearRegressor` with that ``lam`` that it has become.

    Constructor parameters that are neither plain values nor lists of them (callbacks, a method
    object, class weights by label) are left out; a loaded model has their defaults. They matter to
    fitting, not to prediction. The history of the fit is left out as well: that is what traces are
    for.

    Raises
    ------
    TypeError
        If the estimator is of another kind, or its loss is not one of cutplane's names, or its
        structured model is one of your own.
    ValueError
        If `load_model` would refuse the file: attributes or parameters were changed after the fit,
        and contradict each other now. Nothing is written.
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
    if _KINDS[kind].losses and not isinstance(estimator.loss, str):
        raise TypeError("cannot save a model with a loss of its own; give the loss by name")
    try:
        tensors, model = _tensors(estimator), _describe(estimator, kind)
        _restored(model, tensors)
    except (Malformed, UnicodeError) as error:
        raise ValueError(f"cannot save this {kind}: {error}") from None
    document = json.dumps({"model": model, "sha256": _digest(model, tensors)}, allow_nan=False)
    write_atomically(path, save(tensors, metadata={"cutplane": document}))


def load_model(path: str | os.PathLike[str]) -> Estimator:
    """Read a fitted estimator from a file.

    It uses no more threads than there are cores here, whatever ``n_jobs`` it was saved with.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a complete and consistent cutplane model.
    """
    try:
        return _restored(*_read(path))
    except Malformed as malformed:
        what = " ".join(str(malformed).split())[:_LONGEST_MESSAGE]
        raise InputError(f"{name_of(path)}: not a usable cutplane model: {what}") from None


# -- from estimator to tensors and JSON ------------------------------------------------------------


def _tensors(estimator: Estimator) -> dict[str, NDArray[Any]]:
    if isinstance(estimator, SequenceTagger):
        return tensors_of_tagger(estimator)
    if isinstance(estimator, StructuredPredictor):
        return {"coef": estimator.coef_}
    return tensors_of_linear(estimator)


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
        "attributes": {
            name: plain_value(getattr(estimator, name, None)) for name in _KINDS[kind].attributes
        },
        "classes": None if classes is None else describe_classes(classes),
        "feature_names": None if names is None else [str(name) for name in names],
        "certificates": [
            CertificateEntry.of(certificate)
            for certificate in (certificates if isinstance(certificates, list) else [certificates])
        ],
    }
    if isinstance(estimator, StructuredPredictor):
        described["structured"] = describe_structured(estimator)
    # By way of JSON, which refuses words that are none (lone surrogates).
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(described))
    return plain


def _plain_parameters(estimator: Estimator, kind: str) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    if type(estimator) is not _KINDS[kind].of:
        parameters["lam"] = estimator.lam_  # chosen by cross-validation
    names = [name for name in inspect.signature(_KINDS[kind].of).parameters if name in parameters]
    plain = {name: plain_value(parameters[name]) for name in names if name not in NEVER_KEPT}
    return {name: value for name, value in plain.items() if is_plain(value)}


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

    # Not decompressed: a small file could fill the memory.
    content = read_bytes(path, decompress=False)
    try:
        tensors = load(content)
        # safetensors gives the metadata of files only, not of bytes. Its place is fixed: a length
        # of 8 bytes, then a JSON header of that length.
        length = int.from_bytes(content[:8], "little")
        header = msgspec.json.decode(content[8 : 8 + length])
        document = msgspec.json.decode(header["__metadata__"]["cutplane"])
        model, digest = document["model"], document["sha256"]
        if model["format"] != _FORMAT:
            raise Malformed(f"format {model['format']!r}; this version reads {_FORMAT}")
        if digest != _digest(model, tensors):
            raise Malformed("the file is damaged")
    except msgspec.DecodeError as error:
        raise Malformed(f"its description: {error}") from None
    except (KeyError, TypeError):
        raise Malformed("it was not written by cutplane") from None
    except (SafetensorError, ValueError, RecursionError):
        raise Malformed("it is no safetensors file, or is damaged") from None
    return model, tensors


def _restored(model: object, tensors: dict[str, NDArray[Any]]) -> Estimator:
    """Return the estimator.

    Raises
    ------
    Malformed
        If the description is no model, or contradicts itself or the tensors.
    """
    described = checked(model, _MODEL)
    kind, parameters = type(described).__name__, msgspec.structs.asdict(described.parameters)
    parameters["n_jobs"] = _threads_here(parameters["n_jobs"])
    if kind == "StructuredPredictor":
        parameters["model"] = None  # until it is restored
    estimator: Estimator = _KINDS[kind].of(**parameters)
    for name, value in msgspec.structs.asdict(described.attributes).items():
        if value is not None:
            setattr(estimator, name, value)
    n_problems = 1
    if isinstance(estimator, StructuredPredictor):
        fill_predictor(estimator, described.structured, tensors)
    elif isinstance(estimator, SequenceTagger):
        estimator.classes_ = restored_classes(described.classes, least=1)
        fill_tagger(estimator, tensors)
    else:
        if isinstance(estimator, LinearClassifier | OrdinalClassifier | MultilabelClassifier):
            least = 1 if getattr(estimator, "multilabel_", False) else 2
            estimator.classes_ = restored_classes(described.classes, least=least)
        if isinstance(estimator, LinearClassifier):
            try:
                check_pos_label(estimator.pos_label, estimator.classes_)
            except ValueError as error:
                raise Malformed(str(error)) from None
        n_problems = fill_linear(estimator, tensors)
    if described.feature_names is not None:
        n_features = getattr(estimator, "n_features_in_", 0)
        estimator.feature_names_in_ = restored_names(described.feature_names, n_features)
    estimator.certificate_ = restored_certificates(
        described.certificates, estimator.tol, n_problems
    )
    return estimator


def _threads_here(n_jobs: int | None) -> int | None:
    """Return how many threads a model may use: this machine decides, not the file alone."""
    try:
        n_threads = threads_of(n_jobs)
    except ValueError as error:
        raise Malformed(str(error)) from None
    return n_jobs if n_threads is None else min(n_threads, default_threads())
