"""Our estimators inside pipelines that skl2onnx converts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from cutplane.estimators import ESTIMATORS
from cutplane.io.onnx.graph import OPSET, add_model, is_linear, label_array


def register_onnx_converters() -> None:
    """Let skl2onnx convert pipelines with our linear models in them.

    It knows many more transformers than `export_onnx`. Classifiers have the outputs that skl2onnx
    gives them, labels and probabilities (or scores, where the loss implies no probabilities); other
    models have one. Numbers are float64, so convert with ``DoubleTensorType`` inputs.

    Examples
    --------
    >>> import cutplane as cp
    >>> cp.io.register_onnx_converters()  # doctest: +SKIP
    """
    from skl2onnx import update_registered_converter

    for name, of in ESTIMATORS.items():
        if is_linear(of):
            update_registered_converter(of, f"Cutplane{name}", _shapes, _convert)


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    n_rows = operator.inputs[0].get_first_dimension()
    model, types = operator.raw_operator, []
    if is_classifier(model):
        words = label_array(model.classes_).dtype == object
        types.append((StringTensorType if words else Int64TensorType)([n_rows]))
        types.append(DoubleTensorType([n_rows, len(model.classes_)]))
    else:
        types.append(DoubleTensorType([n_rows]))
    for output, kind in zip(operator.outputs, types, strict=False):
        output.type = kind


def _convert(scope: Any, operator: Any, container: Any) -> None:
    graph = _ContainerGraph(scope, container)
    X = graph.add("Cast", operator.inputs[0].full_name, to="double")
    found = add_model(graph, operator.raw_operator, X)
    if is_classifier(operator.raw_operator):
        wanted = [found["label"], found.get("probabilities", found["scores"])]
    else:
        wanted = [next(iter(found.values()))]
    for name, output in zip(wanted, operator.outputs, strict=True):
        container.add_node(
            "Identity", [name], [output.full_name], name=scope.get_unique_operator_name("Identity")
        )


class _ContainerGraph:
    """Nodes and constants of a graph that skl2onnx makes."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        from onnx import TensorProto

        if "to" in attributes:
            attributes["to"] = getattr(TensorProto, attributes["to"].upper())
        outputs: list[str] = [self._scope.get_unique_variable_name(operator)]
        if operator == "TopK":
            outputs.append(self._scope.get_unique_variable_name("places"))
        self._container.add_node(
            operator,
            list(inputs),
            outputs,
            op_version=OPSET,
            name=self._scope.get_unique_operator_name(operator),
            **attributes,
        )
        return outputs[0]

    def constant(self, value: Any) -> str:
        from onnx import TensorProto, numpy_helper

        array: NDArray[Any] = np.asarray(value)
        name: str = self._scope.get_unique_variable_name("constant")
        if array.dtype == object:  # words
            words = [word.encode() for word in array.tolist()]
            self._container.add_initializer(name, TensorProto.STRING, array.shape, words)
            return name
        tensor = numpy_helper.from_array(array, name)
        self._container.add_initializer(name, tensor.data_type, tensor.dims, tensor)
        return name
