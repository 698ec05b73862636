"""Steps of a pipeline before the model, as nodes: what scales columns, and fills in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from cutplane.io.onnx.graph import Graph


def add_step(graph: Graph, name: str, step: Any, X: str) -> str:
    """Add a fitted step; return the name of what it makes of the rows.

    The operations are those of scikit-learn, in its order. TypeError names a step that is of
    another kind.
    """
    if step is None or step == "passthrough":
        return X
    if isinstance(step, FunctionTransformer) and step.func is None:  # "passthrough", when fitted
        return X
    if isinstance(step, StandardScaler):
        return _scaled(graph, X, step.mean_ if step.with_mean else None, step.scale_)
    if isinstance(step, RobustScaler):
        center = step.center_ if step.with_centering else None
        return _scaled(graph, X, center, step.scale_ if step.with_scaling else None)
    if isinstance(step, MaxAbsScaler):
        return _scaled(graph, X, None, step.scale_)
    if isinstance(step, MinMaxScaler):
        if step.clip:
            raise TypeError(f"the step {name!r} clips, which cannot be exported to ONNX here")
        scaled = graph.add("Mul", X, graph.constant(step.scale_))
        return graph.add("Add", scaled, graph.constant(step.min_))
    if isinstance(step, SimpleImputer) and _fills_numbers(step):
        missing = graph.add("IsNaN", X)
        filling = graph.constant(np.asarray(step.statistics_, dtype=np.float64))
        return graph.add("Where", missing, filling, X)
    raise TypeError(
        f"the step {name!r} is a {type(step).__name__}, which cannot be exported to ONNX here; "
        "skl2onnx may know it: see cutplane.io.register_onnx_converters"
    )


def _scaled(graph: Graph, X: str, center: Any, scale: Any) -> str:
    if center is not None:
        X = graph.add("Sub", X, graph.constant(np.asarray(center, dtype=np.float64)))
    if scale is not None:
        X = graph.add("Div", X, graph.constant(np.asarray(scale, dtype=np.float64)))
    return X


def _fills_numbers(imputer: SimpleImputer) -> bool:
    numbers = all(isinstance(value, int | float) for value in imputer.statistics_.tolist())
    return (
        numbers
        and not np.isnan(imputer.statistics_.astype(float)).any()  # such columns are left out
        and not imputer.add_indicator
        and isinstance(imputer.missing_values, float)
        and bool(np.isnan(imputer.missing_values))
    )
