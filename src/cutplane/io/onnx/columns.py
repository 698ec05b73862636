"""Tables as inputs of a graph: one for each column, numbers or words."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from cutplane.io.onnx.graph import LABELS_DOMAIN, Graph
from cutplane.io.onnx.preparation import add_step

_GAP = ""  # an ONNX text is never missing


def add_columns(graph: Graph, step: ColumnTransformer) -> tuple[str, dict[str, str]]:
    """Add a fitted `ColumnTransformer`; return the name of the rows it makes, and its inputs.

    These are columns by name, each "double" or "string", in the order of the table. TypeError names
    a part that is of another kind.
    """
    if not hasattr(step, "feature_names_in_"):
        raise TypeError(
            "a ColumnTransformer can be exported to ONNX if it was fitted to a data frame whose "
            "columns have names"
        )
    names = step.feature_names_in_.tolist()
    kinds: dict[str, str] = {}
    parts = []
    for name, part, columns in step.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        chosen = _chosen(columns, names)
        if not chosen:
            continue
        kind = "string" if isinstance(part, OneHotEncoder) else "double"
        for column in chosen:
            if kinds.setdefault(column, kind) != kind:
                raise TypeError(f"the column {column!r} is taken both as numbers and as words")
        if isinstance(part, OneHotEncoder):
            parts += [_encoded(graph, name, part, k, at) for k, at in enumerate(chosen)]
            continue
        rows = graph.add("Concat", *chosen, axis=1)
        for inner, each in part.steps if isinstance(part, Pipeline) else [(name, part)]:
            rows = add_step(graph, inner, each, rows)
        parts.append(rows)
    ordered = {name: kinds[name] for name in names if name in kinds}
    return graph.add("Concat", *parts, axis=1), ordered


def _chosen(columns: Any, names: list[str]) -> list[str]:
    """Return the names of columns that are given by names, places, or whether they are meant."""
    if isinstance(columns, str | int):
        columns = [columns]
    if isinstance(columns, slice):
        return names[columns]
    listed = np.asarray(columns)
    if listed.dtype.kind in "biu":
        return [str(name) for name in np.asarray(names, dtype=object)[listed]]
    return [str(name) for name in listed]


def _encoded(graph: Graph, name: str, encoder: OneHotEncoder, k: int, column: str) -> str:
    """Add the features of a column of words, 1 or 0: by a number for each word that is known."""
    if encoder.drop_idx_ is not None or encoder.handle_unknown == "error":
        raise TypeError(
            f"the step {name!r} is a OneHotEncoder that drops features or refuses unknown words, "
            "which cannot be exported to ONNX here"
        )
    rare = getattr(encoder, "infrequent_categories_", {k: None})[k]
    lumped = set() if rare is None else {_text(word, column) for word in rare}
    texts = (_text(word, column) for word in encoder.categories_[k])
    frequent = [text for text in texts if text not in lumped]
    places = {text: place for place, text in enumerate(frequent)}
    places |= dict.fromkeys(lumped, len(frequent))
    n_features = len(frequent) + bool(lumped)
    unknown = len(frequent) if lumped and encoder.handle_unknown != "ignore" else -1
    numbers = graph.add(
        "LabelEncoder",
        column,
        domain=LABELS_DOMAIN,
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=unknown,
    )
    same = graph.add("Equal", numbers, graph.constant(np.arange(n_features)))
    return graph.add("Cast", same, to="double")


def _text(word: Any, column: str) -> str:
    if isinstance(word, str):
        return word
    if word is None or (isinstance(word, float) and np.isnan(word)):
        return _GAP
    raise TypeError(f"the column {column!r} has the level {word}, which is no word")
