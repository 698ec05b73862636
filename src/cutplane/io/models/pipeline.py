"""A pipeline of scikit-learn in a model file: what prepares the rows, and the model at its end.

The entry ``preparation`` of the document has the steps before the model, and the model's name among
them; the rest of the file is that of the model alone. Because a reader that does not know the entry
would predict something else, such files have a format number of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from cutplane.io.models.schema import Malformed
from cutplane.io.models.transformers import (
    KINDS,
    Entry,
    Part,
    Tensors,
    describe,
    described_parameters,
    is_transformer,
    restore,
    with_parameters,
)
from cutplane.io.tables.cells import TableColumns
from cutplane.io.tables.columns import Kind
from cutplane.io.tables.reader import TableLayout

PLACE = "preparation"
"""What the names of the tensors begin with."""

_MADE_OF_OTHERS = {of.__name__: of for of in (Pipeline, ColumnTransformer)}


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
    n_outputs = _check_widths([transformer for _, transformer in steps])
    if n_outputs not in (None, estimator.n_features_in_):
        raise Malformed(f"{n_outputs} features for a model of {estimator.n_features_in_}")
    return pipeline


def _is_of_tables(transformer: Any) -> bool:
    """Say whether a transformer is one that the command line makes for a table."""
    return isinstance(transformer, ColumnTransformer) and all(
        of == "drop" or (name in {*Kind} and (name != Kind.WORDS or isinstance(of, OneHotEncoder)))
        for name, of, _ in transformer.transformers_
    )


def _described(transformer: Any, place: str, tensors: Tensors) -> Any:
    if transformer is None or isinstance(transformer, str):
        return transformer or "passthrough"
    if is_transformer(transformer):
        return describe(transformer, place, tensors)
    of_tables = type(transformer) is TableColumns
    name = ColumnTransformer.__name__ if of_tables else type(transformer).__name__
    if not of_tables and type(transformer) is not _MADE_OF_OTHERS.get(name):
        known = ", ".join([*KINDS, *_MADE_OF_OTHERS])
        raise TypeError(f"cannot save a {name} in a pipeline; only {known}")
    entry = described_parameters(transformer)
    entry.kind = name
    if isinstance(transformer, Pipeline):
        entry.n_features = entry.feature_names = None  # those of its first step
        entry.parts = _described_parts(transformer.steps, place, tensors)
        return entry
    entry.sparse = bool(transformer.sparse_output_)
    entry.parts = [
        # Of no columns a transformer was not fitted.
        Part(name, _described(of if plain != [] else "drop", f"{place}/{name}", tensors), plain)
        for name, of, columns in transformer.transformers_
        for plain in [_plain_columns(columns)]
    ]
    return entry


def _described_parts(steps: Sequence[Any], place: str, tensors: Tensors) -> list[Part]:
    return [Part(name, _described(of, f"{place}/{name}", tensors)) for name, of in steps]


def _plain_columns(columns: Any) -> Any:
    """Return which columns a transformer takes: names or numbers, one or a list."""
    if isinstance(columns, slice):
        raise TypeError("cannot save columns that are given as a slice; list them")
    listed = np.asarray(columns).tolist()
    if isinstance(listed, list) and listed and isinstance(listed[0], bool):
        return np.flatnonzero(listed).tolist()
    return listed


def _restored(entry: Any, place: str, tensors: Tensors) -> Any:
    if isinstance(entry, str):
        return entry
    if entry.kind == "Pipeline":
        steps = _restored_parts(entry.parts or [], place, tensors)
        if not steps:
            raise Malformed("a pipeline without steps")
        _require_different([name for name, _ in steps])
        pipeline = with_parameters(Pipeline, entry, steps=steps)
        _check_widths([transformer for _, transformer in steps])
        return pipeline
    if entry.kind == "ColumnTransformer":
        return _restored_columns(entry, place, tensors)
    return restore(entry, place, tensors)


def _restored_parts(parts: list[Part], place: str, tensors: Tensors) -> list[tuple[str, Any]]:
    for part in parts:
        if part.columns is not None or part.transformer == "drop":
            raise Malformed("a step of a pipeline that takes columns, or drops them")
    return [
        (part.name, _restored(part.transformer, f"{place}/{part.name}", tensors)) for part in parts
    ]


def _restored_columns(entry: Entry, place: str, tensors: Tensors) -> Any:
    """Return a fitted `ColumnTransformer`, with the columns that were chosen at its fit."""
    parts = entry.parts or []
    if entry.n_features is None or entry.sparse is None or not parts:
        raise Malformed("a ColumnTransformer without columns")
    _require_different([part.name for part in parts])
    fitted = [
        (part.name, _restored(part.transformer, f"{place}/{part.name}", tensors), part.columns)
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


def _check_widths(transformers: Sequence[Any]) -> int | None:
    """Return how many features come out of steps, if known; refuse those that do not fit."""
    width: int | None = None
    for transformer in transformers:
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
