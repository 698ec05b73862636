"""Fitted models, and pipelines that end with one, as ONNX graphs: for runtimes without Python.

What a model computes is written node by node, the same for a file and for a graph of skl2onnx. All
is float64, as our predictions are: scores of other runtimes differ by the order in which sums are
taken, and by nothing else. The operations of steps before the model are those of scikit-learn, in
its order. A table has an input for each column, numbers or words.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from cutplane.compute.arrays import dense
from cutplane.estimators import ESTIMATORS
from cutplane.estimators.classifier import LinearClassifier, has_probabilities
from cutplane.estimators.linear import LinearModel
from cutplane.estimators.regressor import LinearRegressor
from cutplane.io.files import write_atomically
from cutplane.losses import Exponential, Logistic, Poisson, Softmax
from cutplane.models.columns.estimators import (
    LinearQuantiles,
    MultilabelClassifier,
    VectorRegressor,
)
from cutplane.models.few_labels.transductive import TransductiveClassifier
from cutplane.models.novelty.novelty import NoveltyDetector
from cutplane.models.ordinal.ordinal import OrdinalClassifier

# Operators are those of this version; later runtimes know them too.
OPSET = 17
LABELS_DOMAIN, LABELS_OPSET = "ai.onnx.ml", 3  # of the operator that finds words in a list
# The probability of the positive class is 1 / (1 + exp(-factor * score)).
_LOG_ODDS = {Logistic: 1.0, Exponential: 2.0}


class Graph:
    """Nodes and constants, which have names of their own.

    Parameters
    ----------
    unique : function of an operator or a word
        Returns a name that nothing else has.
    """

    def __init__(self, unique: Callable[[str], str]) -> None:
        self._unique = unique
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node, and the inputs that are no names as constants; return its output's name."""
        from onnx import TensorProto, helper, numpy_helper

        names: list[str] = []
        for given in inputs:
            if isinstance(given, str):
                names.append(given)
                continue
            names.append(self._unique("constant"))
            self.constants.append(numpy_helper.from_array(np.asarray(given), names[-1]))
        if "to" in attributes:
            attributes["to"] = getattr(TensorProto, attributes["to"].upper())
        outputs = [self._unique(operator)]
        if operator == "TopK":  # has the places of the numbers, too
            outputs.append(self._unique("places"))
        self.nodes.append(helper.make_node(operator, names, outputs, **attributes))
        return outputs[0]


def is_linear(of: type[Any]) -> bool:
    """Say whether models of a class are linear in their features: those of kernels are not."""
    return issubclass(of, LinearModel) and not of.description.spans_examples


def add_model(graph: Graph, model: Any, X: str) -> dict[str, str]:
    """Add what a fitted model computes from rows; return the names of its outputs.

    The first is what ``predict`` returns, the others are scores and probabilities. TypeError says
    that there is no graph for such a model.
    """
    if not is_linear(type(model)):
        raise TypeError(f"{type(model).__name__} cannot be exported to ONNX: only linear models")
    # The transposed matrix is copied: initializers are stored as they lie in memory.
    coef = np.ascontiguousarray(np.atleast_2d(dense(model.coef_)).T)
    products = graph.add("MatMul", X, coef)
    if isinstance(model, OrdinalClassifier):
        return _grades(graph, model, products)
    if isinstance(model, NoveltyDetector):
        column = graph.add("Sub", _column(graph, products), float(model.offset_))
        inside = graph.add("GreaterOrEqual", column, 0.0)
        return {"label": graph.add("Where", inside, 1, -1), "scores": column}
    offsets = np.atleast_1d(np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64))
    scores = graph.add("Add", products, offsets)
    if isinstance(model, LinearClassifier | TransductiveClassifier):
        return _classes(graph, model, scores)
    if isinstance(model, MultilabelClassifier):
        if model.multilabel_:
            return {"label": _above_zero(graph, scores), "scores": scores}
        return _classes(graph, model, scores, probable=False)
    if isinstance(model, LinearQuantiles):
        ranked = graph.add("TopK", scores, [len(offsets)], axis=1, largest=0, sorted=1)
        return {"prediction": ranked}
    if isinstance(model, VectorRegressor) and model.vector_:
        return {"prediction": scores}
    column = _column(graph, scores)
    if isinstance(model, LinearRegressor) and isinstance(model.loss_function(), Poisson):
        return {"prediction": graph.add("Exp", column), "scores": column}
    return {"prediction": column}


def label_array(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels as ONNX has them: whole numbers, numbers, words."""
    if classes.dtype.kind in "OUS":
        if not all(isinstance(label, str) for label in classes.tolist()):
            raise TypeError("labels are neither numbers nor words, which is all that ONNX knows")
        return classes.astype(object)
    return classes.astype(np.float64 if classes.dtype.kind == "f" else np.int64)


def _column(graph: Graph, scores: str) -> str:
    return graph.add("Squeeze", scores, [1])


def _above_zero(graph: Graph, scores: str) -> str:
    return graph.add("Cast", graph.add("Greater", scores, 0.0), to="int64")


def _picked(graph: Graph, classes: NDArray[Any], places: str) -> str:
    return graph.add("Gather", label_array(classes), places)


def _probability(graph: Graph, model: Any, scores: str) -> str | None:
    """Add the probabilities that a loss implies for each score by itself, if it does."""
    try:
        has_probabilities(model)
    except AttributeError:
        return None
    loss = model.loss_function()
    if type(loss) not in _LOG_ODDS:
        raise TypeError(f"the probabilities of {loss} cannot be exported to ONNX")
    return graph.add("Sigmoid", graph.add("Mul", scores, _LOG_ODDS[type(loss)]))


def _classes(graph: Graph, model: Any, scores: str, *, probable: bool = True) -> dict[str, str]:
    classes = model.classes_
    if len(classes) == 2:
        column = _column(graph, scores)
        found = {"label": _picked(graph, classes, _above_zero(graph, column)), "scores": column}
        positive = _probability(graph, model, scores) if probable else None
        if positive is not None:
            negative = graph.add("Sub", 1.0, positive)
            found["probabilities"] = graph.add("Concat", negative, positive, axis=1)
        return found
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    found = {"label": _picked(graph, classes, best), "scores": scores}
    if not probable:
        return found
    if isinstance(getattr(model, "_joint_loss", lambda: None)(), Softmax):
        found["probabilities"] = graph.add("Softmax", scores, axis=1)
    elif (each := _probability(graph, model, scores)) is not None:
        total = graph.add("ReduceSum", each, [1], keepdims=1)
        shares, equal = graph.add("Div", each, total), 1.0 / len(classes)
        some = graph.add("Greater", total, 0.0)
        found["probabilities"] = graph.add("Where", some, shares, equal)
    return found


def _grades(graph: Graph, model: Any, scores: str) -> dict[str, str]:
    above = graph.add("Sub", scores, model.thresholds_)
    passed = _above_zero(graph, above)
    place = graph.add("ReduceSum", passed, [1], keepdims=0)
    found = {"label": _picked(graph, model.classes_, place), "scores": _column(graph, scores)}
    beyond = _probability(graph, model, above)
    if beyond is not None:
        # P(above no threshold) = 1, P(above all) = 0: differences of neighbors.
        none = graph.add("Mul", scores, 0.0)
        one = graph.add("Add", none, 1.0)
        higher = graph.add("Concat", beyond, none, axis=1)
        lower = graph.add("Concat", one, beyond, axis=1)
        found["probabilities"] = graph.add("Sub", lower, higher)
    return found


def add_step(graph: Graph, name: str, step: Any, X: str) -> str:
    """Add a fitted step; return the name of what it makes of the rows.

    The operations are those of scikit-learn, in its order. TypeError names a step that is of
    another kind.
    """
    if step is None or step == "passthrough":
        return X
    if isinstance(step, FunctionTransformer) and step.func is None:  # "passthrough", when fitted
        return X
    if isinstance(step, StandardScaler | RobustScaler | MaxAbsScaler):
        center = getattr(step, "center_", None)
        if isinstance(step, StandardScaler) and step.with_mean:
            center = step.mean_
        if center is not None:
            X = graph.add("Sub", X, np.asarray(center, dtype=np.float64))
        if step.scale_ is not None:
            X = graph.add("Div", X, np.asarray(step.scale_, dtype=np.float64))
        return X
    if isinstance(step, MinMaxScaler):
        if step.clip:
            raise TypeError(f"the step {name!r} clips, which cannot be exported to ONNX here")
        return graph.add("Add", graph.add("Mul", X, step.scale_), step.min_)
    if isinstance(step, SimpleImputer) and _fills_numbers(step):
        filling = np.asarray(step.statistics_, dtype=np.float64)
        return graph.add("Where", graph.add("IsNaN", X), filling, X)
    raise TypeError(
        f"the step {name!r} is a {type(step).__name__}, which cannot be exported to ONNX here; "
        "skl2onnx may know it: see cutplane.io.register_onnx_converters"
    )


def _fills_numbers(imputer: SimpleImputer) -> bool:
    numbers = all(isinstance(value, int | float) for value in imputer.statistics_.tolist())
    return (
        numbers
        and not np.isnan(imputer.statistics_.astype(float)).any()  # such columns are left out
        and not imputer.add_indicator
        and isinstance(imputer.missing_values, float)
        and bool(np.isnan(imputer.missing_values))
    )


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
    for name, part, _ in step.transformers_:
        chosen = [str(names[place]) for place in step._transformer_to_input_indices[name]]
        if (isinstance(part, str) and part == "drop") or not chosen:
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
    same = graph.add("Equal", numbers, np.arange(n_features))
    return graph.add("Cast", same, to="double")


def _text(word: Any, column: str) -> str:
    if isinstance(word, str):
        return word
    if word is None or (isinstance(word, float) and np.isnan(word)):
        return _GAP
    raise TypeError(f"the column {column!r} has the level {word}, which is no word")


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
    number = itertools.count()
    graph = Graph(lambda name: f"cutplane {name} {next(number)}")  # no column is called so
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
        ir_version=8,  # the oldest that has the operators: readers of 2022 and later know it
    )
    # The types and shapes of the outputs follow from those of the input.
    document = onnx.shape_inference.infer_shapes(document, check_type=True, strict_mode=True)
    onnx.checker.check_model(document, full_check=True)
    write_atomically(path, document.SerializeToString())


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
    from onnx.helper import get_attribute_value

    graph = Graph(scope.get_unique_variable_name)
    X = graph.add("Cast", operator.inputs[0].full_name, to="double")
    found = add_model(graph, operator.raw_operator, X)
    if is_classifier(operator.raw_operator):
        wanted = [found["label"], found.get("probabilities", found["scores"])]
    else:
        wanted = [next(iter(found.values()))]
    container.initializers += graph.constants
    for node in graph.nodes:
        options = {each.name: get_attribute_value(each) for each in node.attribute}
        name = scope.get_unique_operator_name(node.op_type)
        inputs, outputs = list(node.input), list(node.output)
        container.add_node(node.op_type, inputs, outputs, op_version=OPSET, name=name, **options)
    for name, output in zip(wanted, operator.outputs, strict=True):
        container.add_node(
            "Identity", [name], [output.full_name], name=scope.get_unique_operator_name("Identity")
        )
