"""Write and read model files, and the tensors of linear estimators in them.

These are ``coef`` and ``intercept`` (which some estimators have another name for). Where intercepts
are regularized they are parameters too, shifts from what a model without features would say:
``shifts``, from which a fit may start again. How many of each there are, the estimator says.
Bounds and constraints of the coefficients are arrays too.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from cutplane.compute.arrays import dense
from cutplane.compute.threads import default_threads
from cutplane.estimators import ESTIMATORS
from cutplane.estimators.description import Description, Reads, parameters_of, threads_of
from cutplane.estimators.estimator import Estimator
from cutplane.io.files import (
    STANDARD_INPUT,
    InputError,
    name_of,
    read_bytes,
    require_regular,
    write_atomically,
)
from cutplane.io.models.pipeline import PLACE, Preparation, describe_preparation, restored_pipeline
from cutplane.io.models.schema import (
    NEVER_KEPT,
    CertificateEntry,
    Classes,
    Malformed,
    checked,
    is_plain,
    model_schema,
    plain_value,
    python_value,
)
from cutplane.io.tables import TableLayout
from cutplane.named import load

# A pipeline has a number of its own: a reader that knows no preparation would leave it out.
_FORMAT, _PIPELINE_FORMAT = 1, 2
# The tensors, by what an estimator is fitted to: modules with `tensors_of` and `restore`.
_LINEAR, _KERNELS = __name__, "cutplane.models.gram.files"
_STRUCTURED = "cutplane.models.structured.files"
_TENSORS = {
    Reads.ROWS: _LINEAR,
    Reads.QUERIES: _LINEAR,
    Reads.SEQUENCES: "cutplane.models.tagging.files",
    Reads.STRUCTURES: _STRUCTURED,
    Reads.FRAMES: "cutplane.models.speech.files",
}


def _tensors(description: Description) -> Any:
    """Return the module that knows the tensors of such estimators."""
    return import_module(_KERNELS if description.spans_examples else _TENSORS[description.reads])


class Content(NamedTuple):
    """What a file holds: a JSON document, and tensors."""

    model: dict[str, Any]
    tensors: dict[str, NDArray[Any]]

    def digest(self) -> str:
        """Return the SHA-256 digest of both."""
        digest = hashlib.sha256(json.dumps(self.model, sort_keys=True).encode())
        for name, tensor in sorted(self.tensors.items()):
            digest.update(f"{name} {tensor.dtype} {tensor.shape} ".encode())
            digest.update(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())
        return digest.hexdigest()


def save_model(estimator: Estimator | Pipeline, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    It may be the last step of a pipeline of scikit-learn, with scalers, imputers, encoders and
    `ColumnTransformer` before it: these are kept as numbers and names, not as code.

    An estimator that chose its ``lam`` by cross-validation is saved as the `LinearClassifier` or
    `LinearRegressor` with that ``lam`` that it has become.

    Constructor parameters are kept, bounds and constraints of coefficients among them; but for
    objects (callbacks, a method object, a checkpoint), in place of which a loaded model has the
    defaults. The history of the fit is left out as well: that is what traces are for.

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
    save_with_layout(estimator, path, None)


def save_with_layout(
    estimator: Any, path: str | os.PathLike[str], table: TableLayout | None
) -> None:
    """Write a model to a file, as `save_model` does, and how its tables are read."""
    # Imported here, as in `load_model`: few programs that import cutplane handle model files.
    from safetensors.numpy import save
    from sklearn.utils.validation import check_is_fitted

    from cutplane.estimators import NeuralFeatures

    pipeline = estimator if isinstance(estimator, Pipeline) else None
    if pipeline is not None:
        estimator = pipeline.steps[-1][1]
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise TypeError(f"cannot save a {name}; only {', '.join(ESTIMATORS)}, or pipelines of them")
    check_is_fitted(estimator)
    description = estimator.description
    if description.losses and not isinstance(estimator.loss, str):
        raise TypeError("cannot save a model with a loss of its own; give the loss by name")
    kind = description.becomes or name
    try:
        tensors = _tensors(description).tensors_of(estimator)
        preparation = None
        if pipeline is not None:
            preparation = describe_preparation(pipeline, tensors, table)
        content = Content(_document(estimator, kind, preparation), tensors)
        features = getattr(estimator, "features", None)
        _restored(content, None if isinstance(features, NeuralFeatures) else features)
    except (Malformed, UnicodeError) as error:
        raise ValueError(f"cannot save this {kind}: {error}") from None
    document = {"model": content.model, "sha256": content.digest()}
    metadata = {"cutplane": json.dumps(document, allow_nan=False)}
    write_atomically(path, save(tensors, metadata=metadata))


def load_model(path: str | os.PathLike[str], *, features: Any = None) -> Any:
    """Read a fitted estimator, or a pipeline with one at its end, from a file.

    It uses no more threads than there are cores here, whatever ``n_jobs`` it was saved with.

    Parameters
    ----------
    path : str or path
    features : torch.nn.Module, optional
        For a `SequenceTagger` that was fitted with a module of your own: a module like that one.
        Its code is not in the file; its weights are, and are given to a copy.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a complete and consistent cutplane model.
    """
    return load_with_layout(path, features=features)[0]


def load_with_layout(
    path: str | os.PathLike[str], *, features: Any = None
) -> tuple[Any, TableLayout | None]:
    """Read a model from a file, as `load_model` does, and how its tables are read."""
    try:
        return _restored(_read(path), features)
    except Malformed as malformed:
        what = " ".join(str(malformed).split())[:300]
        raise InputError(f"{name_of(path)}: not a usable cutplane model: {what}") from None


def _document(estimator: Estimator, kind: str, preparation: Preparation | None) -> dict[str, Any]:
    """Return all but the tensors in plain values."""
    from cutplane import __version__

    of, description = ESTIMATORS[kind], estimator.description
    given = estimator.get_params(deep=False)
    if description.becomes or hasattr(estimator, "path_certificates_"):
        given["lam"] = estimator.lam_  # chosen by cross-validation
    if hasattr(estimator, "gammas_"):
        given["gamma"] = estimator.gamma_  # as well
    parameters = {
        name: plain_value(given[name])
        for name in parameters_of(of)
        if name in given and name not in NEVER_KEPT
    }
    classes = getattr(estimator, "classes_", None)
    names = getattr(estimator, "feature_names_in_", None)
    certificates = estimator.certificate_
    document = {
        "format": _FORMAT if preparation is None else _PIPELINE_FORMAT,
        "cutplane": __version__,
        "kind": kind,
        "parameters": {name: value for name, value in parameters.items() if is_plain(value)},
        "attributes": {
            name: plain_value(getattr(estimator, name, None)) for name in description.saved
        },
        "classes": None
        if classes is None
        else Classes.of(classes, getattr(estimator, "class_texts_", None)),
        "feature_names": None if names is None else [str(name) for name in names],
        "certificates": [
            CertificateEntry.of(certificate)
            for certificate in (certificates if isinstance(certificates, list) else [certificates])
        ],
    }
    if preparation is not None:
        document["preparation"] = preparation
    if description.reads is Reads.STRUCTURES:
        document["structured"] = load(f"{_STRUCTURED}:describe")(estimator)
    # By way of JSON, which refuses words that are none (lone surrogates).
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return plain


def _read(path: str | os.PathLike[str]) -> Content:
    """Return what a file holds, once its digest has been checked."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if os.fspath(path) != STANDARD_INPUT:
        require_regular(path)
    # Not decompressed: a small file could fill the memory.
    raw = read_bytes(path, decompress=False)
    try:
        tensors = load(raw)
        # safetensors gives the metadata of files only, not of bytes. Its place is fixed: a length
        # of 8 bytes, then a JSON header of that length.
        length = int.from_bytes(raw[:8], "little")
        header = msgspec.json.decode(raw[8 : 8 + length])
        document = msgspec.json.decode(header["__metadata__"]["cutplane"])
        content, digest = Content(document["model"], tensors), document["sha256"]
        expected = _PIPELINE_FORMAT if "preparation" in content.model else _FORMAT
        if content.model["format"] != expected:
            raise Malformed(f"format {content.model['format']!r}; this version reads {expected}")
        if digest != content.digest():
            raise Malformed("the file is damaged")
    except msgspec.DecodeError as error:
        raise Malformed(f"its description: {error}") from None
    except (KeyError, TypeError):
        raise Malformed("it was not written by cutplane") from None
    except (SafetensorError, ValueError, RecursionError):
        raise Malformed("it is no safetensors file, or is damaged") from None
    return content


def _restored(content: Content, features: Any) -> tuple[Any, TableLayout | None]:
    """Return the estimator or pipeline, and how its tables are read.

    ``features`` is a module of the user's, or None.
    """
    schema = model_schema(tuple(ESTIMATORS.values()), load(f"{_STRUCTURED}:SCHEMA"), Preparation)
    document = checked(content.model, schema)
    of = ESTIMATORS[type(document).__name__]
    description: Description = of.description
    given = msgspec.structs.asdict(document.parameters)
    parameters = {name: python_value(value) for name, value in given.items()}
    try:
        n_threads = threads_of(parameters["n_jobs"])
    except ValueError as error:
        raise Malformed(str(error)) from None
    if n_threads is not None:  # this machine decides, not the file alone
        parameters["n_jobs"] = min(n_threads, default_threads())
    if description.reads is Reads.STRUCTURES:
        parameters["model"] = None  # until it is restored
    if description.reads is Reads.SEQUENCES:
        parameters["features"] = features
    elif features is not None:
        raise Malformed("features were given, which only a SequenceTagger may need")
    estimator: Estimator = of(**parameters)
    for name, value in msgspec.structs.asdict(document.attributes).items():
        if value is not None:
            setattr(estimator, name, value)
    if description.least_classes:
        if document.classes is None:
            raise Malformed("no classes")
        estimator.classes_ = document.classes.restored(least=description.least_classes)
        if document.classes.texts is not None:
            estimator.class_texts_ = document.classes.texts
    own = dict(content.tensors)
    steps = [] if document.preparation is None else [n for n in own if n.startswith(f"{PLACE}/")]
    others = {name: own.pop(name) for name in steps}
    n_problems = _tensors(description).restore(estimator, own, document)
    if document.feature_names is not None:
        n_features, names = getattr(estimator, "n_features_in_", 0), document.feature_names
        if len(names) != n_features:
            raise Malformed(f"{len(names)} feature names for {n_features} features")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if len(document.certificates) != n_problems:
        raise Malformed(f"{len(document.certificates)} certificates, expected {n_problems}")
    certificates = [entry.certificate(estimator.tol) for entry in document.certificates]
    estimator.certificate_ = certificates if n_problems > 1 else certificates[0]
    if document.preparation is None:
        return estimator, None
    pipeline = restored_pipeline(document.preparation, estimator, others)
    return pipeline, document.preparation.table


def tensors_of(estimator: Any) -> dict[str, NDArray[Any]]:
    """Return all that a fitted estimator predicts from, but its parameters and classes."""
    coef = np.ascontiguousarray(dense(estimator.coef_))
    intercept = getattr(estimator, estimator.description.intercept)
    tensors = {"coef": coef, "intercept": np.atleast_1d(np.asarray(intercept, dtype=coef.dtype))}
    if estimator.layout().shifts:
        shifts = estimator._parameters[0, coef.size :]
        tensors["shifts"] = np.ascontiguousarray(shifts, dtype=coef.dtype)
    tensors.update(estimator.parameter_arrays())
    return tensors


def restore(estimator: Any, tensors: dict[str, NDArray[Any]], document: object) -> int:
    """Make an estimator with parameters and classes a fitted one; return its number of problems."""
    try:
        layout = estimator.layout()
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"a parameter is wrong: {error}") from None
    given = _parameter_arrays(estimator, tensors)
    tensors = {name: tensor for name, tensor in tensors.items() if name not in given}
    if set(tensors) != {"coef", "intercept"} | ({"shifts"} if layout.shifts else set()):
        raise Malformed(f"arrays {', '.join(sorted(tensors))}")
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise Malformed(f"{name} has weights that are not finite, or no real numbers")
    coef, intercept, shifts = tensors["coef"], tensors["intercept"], tensors.get("shifts")
    if any(tensor.dtype != coef.dtype for tensor in tensors.values()):
        raise Malformed(f"weights of type {coef.dtype} and others")
    rows = () if layout.rows is None else (layout.rows,)
    if coef.ndim != len(rows) + 1 or coef.shape[:-1] != rows or coef.size == 0:
        raise Malformed(f"coefficients of shape {coef.shape} for {layout.rows or 1} rows")
    n_intercepts = 1 if layout.intercepts is None else layout.intercepts
    if intercept.shape != (n_intercepts,):
        raise Malformed(f"intercepts of shape {intercept.shape}, expected {n_intercepts}")
    if shifts is not None and shifts.shape != (layout.shifts,):
        raise Malformed(f"shifts of shape {shifts.shape}, expected {layout.shifts}")
    estimator.coef_ = coef
    estimator.n_features_in_ = coef.shape[-1]
    one = layout.intercepts is None
    setattr(estimator, estimator.description.intercept, float(intercept[0]) if one else intercept)
    try:
        estimator._complete(shifts)
        estimator.set_parameter_arrays(given)
    except ValueError as error:
        raise Malformed(str(error)) from None
    return int(layout.problems)


def _parameter_arrays(
    estimator: Any, tensors: dict[str, NDArray[Any]]
) -> dict[str, NDArray[np.float64]]:
    """Return the arrays that parameters give, infinite where there is no bound."""
    found: dict[str, NDArray[np.float64]] = {}
    for names in estimator.array_names:
        there = {name: tensors[name] for name in names if name in tensors}
        if there and len(there) < len(names):
            raise Malformed(f"arrays {', '.join(there)} without {', '.join({*names} - {*there})}")
        for name, array in there.items():
            if array.dtype != np.float64 or np.isnan(array).any() or array.size == 0:
                raise Malformed(f"{name} has no numbers, or other things than real numbers")
        found |= there
    return found
