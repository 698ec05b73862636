"""Fitted transformers of scikit-learn in a model file: scalers, imputers, encoders.

An `Entry` of the JSON document has the constructor's parameters, the levels of text, and how many
features go in; numbers are tensors, named by the place of the transformer and the attribute. What
scikit-learn keeps for itself follows from these, and is computed again, so that a file does not
depend on its version. What a transformer does is decided by its parameters, which scikit-learn
checks: no code comes from the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from cutplane.io.models.schema import Finite, Malformed, Size, plain_value

Tensors = dict[str, NDArray[Any]]

_LEVEL_TYPES = ("object", "bool", "float32", "float64", "int32", "int64", "str")
_NUMBER_TYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
_DTYPES = ("object", "float16", "float32", "float64", *_NUMBER_TYPES)


class Levels(Struct, forbid_unknown_fields=True):
    """The levels of a column, or what fills gaps; ``nan`` is the place of the one that is NaN."""

    dtype: Literal[_LEVEL_TYPES]  # type: ignore[valid-type]
    values: list[bool | int | Finite | str | None]
    nan: Size | None = None

    @classmethod
    def of(cls, values: NDArray[Any]) -> Levels:
        """Return the entry of an array."""
        listed, nan = values.tolist(), None
        for place, value in enumerate(listed):
            if isinstance(value, float) and math.isnan(value):
                if nan is not None:
                    raise Malformed("a column has two levels that are NaN")
                listed[place], nan = None, place
        dtype = "str" if values.dtype.kind == "U" else values.dtype.name
        if dtype not in _LEVEL_TYPES:
            raise TypeError(f"cannot save levels of type {dtype}")
        if not all(isinstance(value, None | bool | int | float | str) for value in listed):
            raise TypeError("cannot save levels that are neither numbers nor text")
        return cls(dtype, listed, nan)

    def restored(self) -> NDArray[Any]:
        """Return the array."""
        values: list[Any] = list(self.values)
        if self.nan is not None:
            if not self.nan < len(values) or values[self.nan] is not None:
                raise Malformed("the place of a level that is NaN is wrong")
            values[self.nan] = math.nan
        try:
            array = np.array(values, dtype=self.dtype)
        except (TypeError, ValueError, OverflowError):
            raise Malformed(f"levels are not of type {self.dtype}") from None
        if array.ndim != 1:
            raise Malformed("levels are no list")
        return array


class Entry(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A fitted transformer."""

    kind: str
    parameters: dict[str, Any]
    n_features: Size | None = None
    feature_names: list[str] | None = None
    output: Literal["default", "pandas", "polars"] | None = None  # of `set_output`
    levels: list[Levels] | None = None
    rare: list[list[Size] | None] | None = None  # places of levels that are grouped
    dtypes: list[Literal[_DTYPES]] | None = None  # type: ignore[valid-type]
    indicator: Entry | None = None
    parts: list[Part] | None = None
    sparse: bool | None = None


class Part(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A step of a pipeline, or a transformer of columns."""

    name: str
    transformer: Entry | Literal["drop", "passthrough"]
    columns: str | Size | list[str | Size] | None = None


class _Kind(NamedTuple):
    """A class, and the fitted numbers that it has: one for each feature, or other ones."""

    of: type[Any]
    vectors: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


KINDS: dict[str, _Kind] = {
    kind.of.__name__: kind
    for kind in (
        _Kind(StandardScaler, ("mean_", "var_", "scale_"), ("n_samples_seen_",)),
        _Kind(RobustScaler, ("center_", "scale_")),
        _Kind(
            MinMaxScaler,
            ("scale_", "min_", "data_min_", "data_max_", "data_range_"),
            ("n_samples_seen_",),
        ),
        _Kind(MaxAbsScaler, ("scale_", "max_abs_"), ("n_samples_seen_",)),
        _Kind(Normalizer),
        _Kind(FunctionTransformer),
        _Kind(SimpleImputer),
        _Kind(MissingIndicator, (), ("features_",)),
        _Kind(OneHotEncoder),
        _Kind(OrdinalEncoder),
    )
}
"""The transformers that files keep, besides those that are made of others."""

_NEVER_KEPT = {"n_jobs", "memory", "verbose"}


def describe(transformer: Any, place: str, tensors: Tensors) -> Entry:
    """Return the entry of a fitted transformer, and add its numbers to the tensors."""
    kind = KINDS[type(transformer).__name__]
    entry = described_parameters(transformer)
    for name in (*kind.vectors, *kind.others):
        value = getattr(transformer, name)
        if value is not None:
            tensors[f"{place}/{name}"] = np.ascontiguousarray(value).reshape(np.shape(value))
    if isinstance(transformer, SimpleImputer):
        _describe_imputer(transformer, entry, place, tensors)
    elif isinstance(transformer, MissingIndicator):
        entry.n_features = int(transformer.n_features_in_)
    elif isinstance(transformer, OneHotEncoder | OrdinalEncoder):
        _describe_encoder(transformer, entry)
    return entry


def described_parameters(transformer: Any) -> Entry:
    """Return an entry with what all transformers have."""
    name = type(transformer).__name__
    parameters = {}
    for parameter, value in transformer.get_params(deep=False).items():
        if parameter not in _NEVER_KEPT and parameter not in ("transformers", "steps", "remainder"):
            try:
                parameters[parameter] = _encoded(value)
            except TypeError:
                raise TypeError(
                    f"cannot save a {name} with {parameter}={value!r}: no plain value, and code is "
                    "not kept"
                ) from None
    names = getattr(transformer, "feature_names_in_", None)
    n_features = getattr(transformer, "n_features_in_", None)
    output = vars(transformer).get("_sklearn_output_config", {}).get("transform")
    return Entry(
        kind=name,
        parameters=parameters,
        n_features=None if n_features is None else int(n_features),
        feature_names=None if names is None else [str(name) for name in names],
        output=output,
    )


def restore(entry: Entry, place: str, tensors: Tensors) -> Any:
    """Return the transformer of an entry; its numbers are taken out of the tensors."""
    kind = KINDS.get(entry.kind)
    if kind is None:
        raise Malformed(f"unknown transformer {entry.kind[:40]!r}")
    transformer = with_parameters(kind.of, entry)
    for name in kind.vectors:
        vector = tensors.pop(f"{place}/{name}", None)
        if vector is not None and not _is_vector(vector, entry.n_features):
            raise Malformed(f"{name} of a {entry.kind} is no vector of {entry.n_features} numbers")
        setattr(transformer, name, vector)
    for name in kind.others:
        found = tensors.pop(f"{place}/{name}", None)
        if found is None or found.ndim > 1 or found.dtype.kind not in "iuf":
            raise Malformed(f"{name} of a {entry.kind} is missing, or no number")
        setattr(transformer, name, found if found.ndim else found[()])
    if isinstance(transformer, SimpleImputer):
        _restore_imputer(transformer, entry, place, tensors)
    elif isinstance(transformer, MissingIndicator):
        _restore_indicator(transformer)
    elif isinstance(transformer, OneHotEncoder | OrdinalEncoder):
        _restore_encoder(transformer, entry)
    return transformer


def with_parameters(of: type[Any], entry: Entry, **more: Any) -> Any:
    """Return a transformer with the parameters of an entry, which scikit-learn has checked."""
    try:
        parameters = {name: _decoded(value) for name, value in entry.parameters.items()}
        transformer: Any = of(**parameters, **more)
        transformer._validate_params()
    except (TypeError, ValueError) as error:
        raise Malformed(f"a parameter of a {of.__name__} is wrong: {error}") from None
    if entry.n_features is not None:
        transformer.n_features_in_ = entry.n_features
    if entry.feature_names is not None:
        if len(entry.feature_names) != entry.n_features:
            raise Malformed(f"{len(entry.feature_names)} names for {entry.n_features} features")
        transformer.feature_names_in_ = np.array(entry.feature_names, dtype=object)
    if entry.output is not None:
        transformer._sklearn_output_config = {"transform": entry.output}
    return transformer


def _is_vector(tensor: NDArray[Any], length: int | None) -> bool:
    return (
        tensor.dtype.kind == "f" and tensor.shape == (length,) and bool(np.isfinite(tensor).all())
    )


def _encoded(value: Any) -> Any:
    """Return a parameter in plain values; those that JSON does not have are objects."""
    if isinstance(value, float) and math.isnan(value):
        return {"nan": True}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each) for each in value]}
    if isinstance(value, type | np.dtype):
        name = np.dtype(value).name
        if name not in _DTYPES:
            raise TypeError(name)
        return {"dtype": name}
    if isinstance(value, Mapping):
        return {"dict": {str(key): _encoded(each) for key, each in value.items()}}
    value = plain_value(value)
    if isinstance(value, list):
        return [_encoded(each) for each in value]
    if not isinstance(value, None | bool | int | float | str):
        raise TypeError(type(value).__name__)
    return value


def _decoded(value: Any) -> Any:
    """Return the parameter that `_encoded` made a plain value of."""
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"nan": True, **rest} if not rest:
            return math.nan
        case {"tuple": list(values), **rest} if not rest:
            return tuple(map(_decoded, values))
        case {"dtype": str(name), **rest} if not rest and name in _DTYPES:
            return np.dtype(name).type
        case {"dict": dict(values), **rest} if not rest:
            return {key: _decoded(each) for key, each in values.items()}
    raise Malformed("a parameter of a transformer is no plain value")


def _describe_imputer(imputer: Any, entry: Entry, place: str, tensors: Tensors) -> None:
    statistics = np.asarray(imputer.statistics_)
    # Before scikit-learn 1.8 there is one of the two only.
    fill_dtype = getattr(imputer, "_fill_dtype", imputer._fit_dtype)
    entry.dtypes = [imputer._fit_dtype.name, fill_dtype.name]
    if statistics.dtype.kind == "f":
        tensors[f"{place}/statistics_"] = statistics
    else:
        entry.levels = [Levels.of(np.array([each], dtype=object)) for each in statistics.tolist()]
    if imputer.indicator_ is not None:
        entry.indicator = describe(imputer.indicator_, f"{place}/indicator", tensors)


def _restore_imputer(imputer: Any, entry: Entry, place: str, tensors: Tensors) -> None:
    statistics = tensors.pop(f"{place}/statistics_", None)
    if statistics is None and entry.levels is not None:
        fills = [level.restored() for level in entry.levels]
        if any(len(fill) != 1 for fill in fills):
            raise Malformed("what fills the gaps of a column is not one value")
        statistics = np.array([fill[0] for fill in fills], dtype=object)
    elif statistics is None or statistics.dtype.kind != "f" or np.isinf(statistics).any():
        raise Malformed("what fills gaps are no numbers")
    if statistics.shape != (entry.n_features,):
        raise Malformed(f"{len(statistics)} values fill the gaps of {entry.n_features} features")
    if entry.dtypes is None or len(entry.dtypes) != 2:
        raise Malformed("types of an imputer are missing")
    imputer.statistics_, imputer.indicator_ = statistics, None
    imputer._fit_dtype, fill_dtype = map(np.dtype, entry.dtypes)
    if hasattr(SimpleImputer().fit([[0.0]]), "_fill_dtype"):
        imputer._fill_dtype = fill_dtype
    if entry.indicator is not None:
        if entry.indicator.kind != "MissingIndicator":
            raise Malformed("an imputer's indicator is none")
        imputer.indicator_ = restore(entry.indicator, f"{place}/indicator", tensors)
    if (imputer.indicator_ is not None) != imputer.add_indicator:
        raise Malformed("an imputer's indicator is missing, or not asked for")


def _restore_indicator(indicator: Any) -> None:
    features, n_features = indicator.features_, indicator.n_features_in_
    if features.ndim != 1 or features.dtype.kind not in "iu":
        raise Malformed("features of an indicator are no whole numbers")
    if len(features) and not (features.min() >= 0 and features.max() < n_features):
        raise Malformed("features of an indicator are out of range")
    # As an imputer makes it, which alone has one.
    indicator._n_features, indicator._precomputed = n_features, True


def _describe_encoder(encoder: Any, entry: Entry) -> None:
    entry.levels = [Levels.of(np.asarray(levels)) for levels in encoder.categories_]
    if encoder._infrequent_enabled:
        if isinstance(encoder, OrdinalEncoder):
            raise TypeError("cannot save an OrdinalEncoder that groups rare levels")
        entry.rare = [
            None if rare is None else rare.tolist() for rare in encoder._infrequent_indices
        ]


def _restore_encoder(encoder: Any, entry: Entry) -> None:
    if entry.levels is None or len(entry.levels) != entry.n_features:
        raise Malformed(f"levels are not there for each of {entry.n_features} columns")
    encoder.categories_ = [levels.restored() for levels in entry.levels]
    encoder._check_infrequent_enabled()
    if isinstance(encoder, OrdinalEncoder):
        encoder._missing_indices = {
            column: levels.nan
            for column, levels in enumerate(entry.levels)
            if levels.nan is not None
        }
    elif encoder._infrequent_enabled:
        _group_rare(encoder, entry.rare or [])
    elif entry.rare is not None:
        raise Malformed("rare levels of an encoder that groups none")
    if isinstance(encoder, OneHotEncoder):
        try:
            encoder._set_drop_idx()
            encoder._n_features_outs = encoder._compute_n_features_outs()
        except (TypeError, ValueError, IndexError) as error:
            raise Malformed(f"levels that are dropped: {error}") from None


def _group_rare(encoder: Any, rare: list[list[int] | None]) -> None:
    """Set what an encoder with rare levels knows: the frequent ones first, one for all others."""
    if len(rare) != len(encoder.categories_):
        raise Malformed("rare levels are not there for each column")
    encoder._infrequent_indices, encoder._default_to_infrequent_mappings = [], []
    for levels, places in zip(encoder.categories_, rare, strict=True):
        if places is None:
            encoder._infrequent_indices.append(None)
            encoder._default_to_infrequent_mappings.append(None)
            continue
        is_rare = np.zeros(len(levels), dtype=bool)
        if not places or sorted(set(places)) != places or places[-1] >= len(levels):
            raise Malformed("places of rare levels are wrong")
        is_rare[places] = True
        mapping = np.cumsum(~is_rare) - 1
        mapping[is_rare] = len(levels) - len(places)
        encoder._infrequent_indices.append(np.array(places, dtype=np.int64))
        encoder._default_to_infrequent_mappings.append(mapping)


def is_transformer(value: object) -> bool:
    """Say whether this is a transformer that files keep."""
    kind = KINDS.get(type(value).__name__)
    return isinstance(value, BaseEstimator) and kind is not None and type(value) is kind.of
