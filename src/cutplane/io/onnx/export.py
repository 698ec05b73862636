"""Write a fitted model, or a pipeline that ends with one, to an ONNX file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from cutplane.io.atomic import write_atomically
from cutplane.io.onnx.columns import add_columns
from cutplane.io.onnx.graph import LABELS_DOMAIN, LABELS_OPSET, OPSET, add_model
from cutplane.io.onnx.preparation import add_step

# The oldest form of files that has the operators: readers of 2022 and later know it.
_FILE_FORMAT = 8


class OnnxUnavailable(ImportError):
    """The package onnx is not installed."""


def export_onnx(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted linear model to an ONNX file, with the scaling before it.

    The input ``X`` has rows of float64 numbers. A model of a table, such as `cutplane fit` makes of
    CSV files, has an input for each column in place of it, by the name of the column: a matrix with
    one column of float64 numbers (NaN for a gap) or of words ("" for a gap).

    The first output is what ``predict`` returns: ``label`` of classifiers, ``prediction`` of
    others. ``scores`` are those of ``decision_function``, ``probabilities`` those of
    ``predict_proba``, for the losses that imply them. All numbers agree with ours to rounding.

    Needs the package onnx (``pip install "cutplane[onnx]"``), nothing else. The file is written
    whole or not at all.

    Parameters
    ----------
    model : estimator or Pipeline
        A linear model, or a pipeline of scikit-learn's scalers and numeric `SimpleImputer` with one
        at its end; a `ColumnTransformer` of these and of `OneHotEncoder` may come first.
    path : path
        Where to write the file.

    Raises
    ------
    TypeError
        The model, or a step before it, cannot be exported; the message says which.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import cutplane as cp
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), cp.LinearClassifier("logistic")).fit(X, y)
    >>> cp.export_onnx(model, "iris.onnx")  # doctest: +SKIP
    """
    try:
        import onnx
    except ImportError as error:
        raise OnnxUnavailable(
            'export_onnx needs the package onnx: pip install "cutplane[onnx]"'
        ) from error
    check_is_fitted(model)
    steps = model.steps if isinstance(model, Pipeline) else [("model", model)]
    graph = _OnnxGraph(onnx)
    before = steps[:-1]
    info = onnx.helper.make_tensor_value_info
    if before and isinstance(before[0][1], ColumnTransformer):
        X, kinds = add_columns(graph, before.pop(0)[1])
        inputs = [
            info(name, getattr(onnx.TensorProto, kind.upper()), [None, 1])
            for name, kind in kinds.items()
        ]
    else:
        known = (getattr(step, "n_features_in_", None) for _, step in steps)
        n_features = next(number for number in known if number is not None)
        X, inputs = "X", [info("X", onnx.TensorProto.DOUBLE, [None, n_features])]
    for name, step in before:
        X = add_step(graph, name, step, X)
    outputs = add_model(graph, steps[-1][1], X)
    for name, at in outputs.items():
        graph.nodes.append(onnx.helper.make_node("Identity", [at], [name]))
    made = onnx.helper.make_graph(
        graph.nodes,
        "cutplane",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        initializer=graph.constants,
    )
    document = onnx.helper.make_model(
        made,
        opset_imports=[
            onnx.helper.make_opsetid("", OPSET),
            onnx.helper.make_opsetid(LABELS_DOMAIN, LABELS_OPSET),
        ],
        producer_name="cutplane",
        ir_version=_FILE_FORMAT,
    )
    # The types and shapes of the outputs follow from those of the input.
    document = onnx.shape_inference.infer_shapes(document, check_type=True, strict_mode=True)
    onnx.checker.check_model(document, full_check=True)
    write_atomically(path, document.SerializeToString())


class _OnnxGraph:
    """Nodes and constants of a file."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        if "to" in attributes:
            attributes["to"] = getattr(self._onnx.TensorProto, attributes["to"].upper())
        name = f"cutplane {operator} {len(self.nodes)}"  # no column is called so
        # Of the two outputs of TopK the numbers are wanted, not their places.
        outputs = [name, f"{name}_places"] if operator == "TopK" else [name]
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, outputs, **attributes))
        return name

    def constant(self, value: Any) -> str:
        array: NDArray[Any] = np.asarray(value)
        name = f"cutplane constant {len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name
