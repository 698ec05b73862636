"""A pipeline of scikit-learn in a model file: fitted transformers, and the model at its end.

The entry ``preparation`` of the document has the steps before the model, and the model's name among
them; the rest of the file is that of the model alone. Because a reader that does not know the entry
would predict something else, such files have a format number of their own.

An `Entry` of the JSON document has a transformer's constructor parameters, the levels of text, and
how many features go in; numbers are tensors, named by the place of the transformer and the
attribute. What scikit-learn keeps for itself follows from these, and is computed again, so that a
file does not depend on its version. What a transformer does is decided by its parameters, which
scikit-learn checks: no code comes from the file. Why it is not skops:
docs/decisions/2026-11-18-model-files-without-skops.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
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
from cutplane.io.tables import Kind, TableColumns, TableLayout

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
        _Kind(Pipeline),
        _Kind(ColumnTransformer),
    )
}
"""The transformers that files keep."""

_NEVER_KEPT = {"n_jobs", "memory", "verbose", "transformers", "steps", "remainder"}


def describe(transformer: Any, place: str, tensors: Tensors) -> Any:
    """Return the entry of a fitted transformer, or its word; add its numbers to the tensors."""
    if transformer is None or isinstance(transformer, str):
        return transformer or "passthrough"
    of = ColumnTransformer if type(transformer) is TableColumns else type(transformer)
    kind = KINDS.get(of.__name__)
    if kind is None or kind.of is not of:
        known = ", ".join(KINDS)
        raise TypeError(f"cannot save a {of.__name__} in a pipeline; only {known}")
    parameters = {}
    for parameter, value in transformer.get_params(deep=False).items():
        if parameter not in _NEVER_KEPT:
            try:
                parameters[parameter] = _encoded(value)
            except TypeError:
                raise TypeError(
                    f"cannot save a {of.__name__} with {parameter}={value!r}: no plain value, and "
                    "code is not kept"
                ) from None
    entry = Entry(of.__name__, parameters)
    entry.output = vars(transformer).get("_sklearn_output_config", {}).get("transform")
    for name in (*kind.vectors, *kind.others):
        value = getattr(transformer, name)
        if value is not None:
            tensors[f"{place}/{name}"] = np.ascontiguousarray(value).reshape(np.shape(value))
    if of is Pipeline:  # whose features are those of its first step
        entry.parts = _described_parts(transformer.steps, place, tensors)
        return entry
    if (n_features := getattr(transformer, "n_features_in_", None)) is not None:
        entry.n_features = int(n_features)
    if (names := getattr(transformer, "feature_names_in_", None)) is not None:
        entry.feature_names = [str(name) for name in names]
    if of is SimpleImputer:
        statistics = np.asarray(transformer.statistics_)
        # Before scikit-learn 1.8 there is one of the two only.
        fill_dtype = getattr(transformer, "_fill_dtype", transformer._fit_dtype)
        entry.dtypes = [transformer._fit_dtype.name, fill_dtype.name]
        if statistics.dtype.kind == "f":
            tensors[f"{place}/statistics_"] = statistics
        else:
            fills = [np.array([each], dtype=object) for each in statistics.tolist()]
            entry.levels = [*map(Levels.of, fills)]
        if transformer.indicator_ is not None:
            entry.indicator = describe(transformer.indicator_, f"{place}/indicator", tensors)
    elif of in (OneHotEncoder, OrdinalEncoder):
        entry.levels = [Levels.of(np.asarray(levels)) for levels in transformer.categories_]
        if transformer._infrequent_enabled:
            if of is OrdinalEncoder:
                raise TypeError("cannot save an OrdinalEncoder that groups rare levels")
            entry.rare = [
                None if rare is None else rare.tolist() for rare in transformer._infrequent_indices
            ]
    elif of is ColumnTransformer:
        entry.sparse = bool(transformer.sparse_output_)
        entry.parts = []
        for name, inner, columns in transformer.transformers_:
            if isinstance(columns, slice):
                raise TypeError("cannot save columns that are given as a slice; list them")
            plain = np.asarray(columns).tolist()
            if isinstance(plain, list) and plain and isinstance(plain[0], bool):
                plain = np.flatnonzero(plain).tolist()
            # Of no columns a transformer was not fitted.
            described = describe("drop" if plain == [] else inner, f"{place}/{name}", tensors)
            entry.parts.append(Part(name, described, plain))
    return entry


def restore(entry: Any, place: str, tensors: Tensors) -> Any:
    """Return the transformer of an entry; its numbers are taken out of the tensors."""
    if isinstance(entry, str):
        return entry
    kind = KINDS.get(entry.kind)
    if kind is None:
        raise Malformed(f"unknown transformer {entry.kind[:40]!r}")
    if kind.of is Pipeline:
        steps = _restored_parts(entry.parts or [], place, tensors)
        if not steps:
            raise Malformed("a pipeline without steps")
        _require_different([name for name, _ in steps])
        pipeline = with_parameters(Pipeline, entry, steps=steps)
        _width_after(steps)
        return pipeline
    if kind.of is ColumnTransformer:
        return _restored_columns(entry, place, tensors)
    transformer = with_parameters(kind.of, entry)
    for name in kind.vectors:
        vector = tensors.pop(f"{place}/{name}", None)
        wanted = (entry.n_features,)
        if vector is not None and not (
            vector.dtype.kind == "f" and vector.shape == wanted and np.isfinite(vector).all()
        ):
            raise Malformed(f"{name} of a {entry.kind} is no vector of {entry.n_features} numbers")
        setattr(transformer, name, vector)
    for name in kind.others:
        found = tensors.pop(f"{place}/{name}", None)
        if found is None or found.ndim > 1 or found.dtype.kind not in "iuf":
            raise Malformed(f"{name} of a {entry.kind} is missing, or no number")
        setattr(transformer, name, found if found.ndim else found[()])
    if kind.of is SimpleImputer:
        _restore_imputer(transformer, entry, place, tensors)
    elif kind.of is MissingIndicator:
        features, n_features = transformer.features_, entry.n_features or 0
        if features.ndim != 1 or features.dtype.kind not in "iu":
            raise Malformed("features of an indicator are no whole numbers")
        if len(features) and not (features.min() >= 0 and features.max() < n_features):
            raise Malformed("features of an indicator are out of range")
        # As an imputer makes it, which alone has one.
        transformer._n_features, transformer._precomputed = n_features, True
    elif kind.of in (OneHotEncoder, OrdinalEncoder):
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
        # The frequent levels first, and one for all others.
        if len(entry.rare or []) != len(encoder.categories_):
            raise Malformed("rare levels are not there for each column")
        encoder._infrequent_indices, encoder._default_to_infrequent_mappings = [], []
        for levels, places in zip(encoder.categories_, entry.rare or [], strict=True):
            indices = mapping = None
            if places is not None:
                if not places or sorted(set(places)) != places or places[-1] >= len(levels):
                    raise Malformed("places of rare levels are wrong")
                indices = np.array(places, dtype=np.int64)
                mapping = np.cumsum(~np.isin(np.arange(len(levels)), indices)) - 1
                mapping[indices] = len(levels) - len(places)
            encoder._infrequent_indices.append(indices)
            encoder._default_to_infrequent_mappings.append(mapping)
    elif entry.rare is not None:
        raise Malformed("rare levels of an encoder that groups none")
    if isinstance(encoder, OneHotEncoder):
        try:
            encoder._set_drop_idx()
            encoder._n_features_outs = encoder._compute_n_features_outs()
        except (TypeError, ValueError, IndexError) as error:
            raise Malformed(f"levels that are dropped: {error}") from None


PLACE = "preparation"
"""What the names of the tensors begin with."""


class Preparation(Struct, forbid_unknown_fields=True):
    """The steps of a pipeline before its last one, and the name of that one."""

    steps: list[Part]
    model: str
    table: TableLayout | None = None  # how the command line reads what it was fitted to


def describe_preparation(pipeline: Any, tensors: Tensors, table: TableLayout | None) -> Preparation:
    """Return the entry of a fitted pipeline, and add its numbers to the tensors.

    TypeError says which transformer cannot be kept.
    """
    *steps, (name, _) = pipeline.steps
    if steps and table is None:
        table = getattr(steps[0][1], "layout_", None)  # of a file that was loaded
    return Preparation(_described_parts(steps, PLACE, tensors), name, table)


def restored_pipeline(preparation: Preparation, estimator: Any, tensors: Tensors) -> Any:
    """Return the pipeline, whose last step this is; the tensors must be those of its steps."""
    try:
        steps = _restored_parts(preparation.steps, PLACE, tensors)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    if tensors:
        raise Malformed(f"array {min(tensors)} belongs to nothing")
    _require_different([*(name for name, _ in steps), preparation.model])
    if steps and preparation.table is not None and _is_of_tables(steps[0][1]):
        steps[0] = steps[0][0], TableColumns.of(steps[0][1], preparation.table)
    pipeline = Pipeline([*steps, (preparation.model, estimator)])
    n_outputs = _width_after(steps)
    if n_outputs not in (None, estimator.n_features_in_):
        raise Malformed(f"{n_outputs} features for a model of {estimator.n_features_in_}")
    return pipeline


def _is_of_tables(transformer: Any) -> bool:
    """Say whether a transformer is one that the command line makes for a table."""
    return isinstance(transformer, ColumnTransformer) and all(
        of == "drop" or (name in {*Kind} and (name != Kind.WORDS or isinstance(of, OneHotEncoder)))
        for name, of, _ in transformer.transformers_
    )


def _described_parts(steps: Sequence[Any], place: str, tensors: Tensors) -> list[Part]:
    return [Part(name, describe(of, f"{place}/{name}", tensors)) for name, of in steps]


def _restored_parts(parts: list[Part], place: str, tensors: Tensors) -> list[tuple[str, Any]]:
    for part in parts:
        if part.columns is not None or part.transformer == "drop":
            raise Malformed("a step of a pipeline that takes columns, or drops them")
    return [
        (part.name, restore(part.transformer, f"{place}/{part.name}", tensors)) for part in parts
    ]


def _restored_columns(entry: Entry, place: str, tensors: Tensors) -> Any:
    """Return a fitted `ColumnTransformer`, with the columns that were chosen at its fit."""
    parts = entry.parts or []
    if entry.n_features is None or entry.sparse is None or not parts:
        raise Malformed("a ColumnTransformer without columns")
    _require_different([part.name for part in parts])
    fitted = [
        (part.name, restore(part.transformer, f"{place}/{part.name}", tensors), part.columns)
        for part in parts
    ]
    rest = fitted[-1] if fitted[-1][0] == "remainder" else ("remainder", "drop", [])
    own = fitted[:-1] if rest is fitted[-1] else fitted
    transformer = with_parameters(ColumnTransformer, entry, transformers=own, remainder=rest[1])
    indices = {
        name: _indices(columns, entry) for name, _, columns in (*own, ("remainder", None, rest[2]))
    }
    transformer.transformers_ = fitted
    transformer._columns = [columns for _, _, columns in own]
    transformer._remainder = rest
    transformer._transformer_to_input_indices = indices
    transformer.sparse_output_ = entry.sparse
    transformer.output_indices_, begin = {}, 0
    for name, of, _ in fitted:
        width = 0 if of == "drop" or not indices[name] else _width(of, len(indices[name]))
        if width:
            transformer.output_indices_[name] = slice(begin, begin + width)
            begin += width
    for name in indices:
        transformer.output_indices_.setdefault(name, slice(0, 0))
    return transformer


def _indices(columns: Any, entry: Entry) -> list[int]:
    """Return the numbers of columns that are given by number or name."""
    names = {name: place for place, name in enumerate(entry.feature_names or [])}
    listed = columns if isinstance(columns, list) else [] if columns is None else [columns]
    try:
        found = [names[each] if isinstance(each, str) else each for each in listed]
    except KeyError as error:
        raise Malformed(f"no column has the name {str(error)[:40]}") from None
    if any(place >= (entry.n_features or 0) for place in found):
        raise Malformed("numbers of columns are out of range")
    return found


def _width_after(steps: Sequence[tuple[str, Any]]) -> int | None:
    """Return how many features come out of steps, if known; refuse those that do not fit."""
    width: int | None = None
    for _, transformer in steps:
        width = _width(transformer, width)
    return width


def _width(transformer: Any, n_inputs: int | None) -> int | None:
    """Return how many features come out of a transformer that so many go into, if known."""
    if isinstance(transformer, str | FunctionTransformer):  # which have no function
        return n_inputs
    expected = getattr(transformer, "n_features_in_", None)
    if None not in (n_inputs, expected) and n_inputs != expected:
        raise Malformed(f"{n_inputs} features for a {type(transformer).__name__} of {expected}")
    n_inputs = n_inputs if expected is None else expected
    if n_inputs is None:
        return None
    try:
        if hasattr(transformer, "feature_names_in_"):
            return len(transformer.get_feature_names_out())
        return len(transformer.get_feature_names_out([f"x{k}" for k in range(n_inputs)]))
    except Exception as error:  # whatever scikit-learn stumbles over
        name = type(transformer).__name__
        raise Malformed(f"a {name} cannot be restored: {error}") from None


def _require_different(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise Malformed("steps with the same name")
