"""What a model computes, node by node; the same for a file and for a graph of skl2onnx.

All is float64, as our predictions are: scores of other runtimes differ by the order in which sums
are taken, and by nothing else.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import dense
from cutplane.estimators.linear.classes import has_probabilities
from cutplane.estimators.linear.classifier import LinearClassifier
from cutplane.estimators.linear.model import LinearModel
from cutplane.estimators.linear.regressor import LinearRegressor
from cutplane.losses import Exponential, Logistic, Poisson, Softmax
from cutplane.models.columns.multilabel import MultilabelClassifier
from cutplane.models.columns.quantiles import LinearQuantiles
from cutplane.models.columns.vectors import VectorRegressor
from cutplane.models.few_labels.transductive import TransductiveClassifier
from cutplane.models.novelty.novelty import NoveltyDetector
from cutplane.models.ordinal.ordinal import OrdinalClassifier

# Operators are those of this version; later runtimes know them too.
OPSET = 17
LABELS_DOMAIN, LABELS_OPSET = "ai.onnx.ml", 3  # of the operator that finds words in a list
# The probability of the positive class is 1 / (1 + exp(-factor * score)).
_LOG_ODDS = {Logistic: 1.0, Exponential: 2.0}


class Graph(Protocol):
    """Where nodes are put: each has an operator, inputs, and one output with a name."""

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""

    def constant(self, value: Any) -> str:
        """Add numbers or words; return their name."""


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
    products = graph.add("MatMul", X, graph.constant(coef))
    if isinstance(model, OrdinalClassifier):
        return _grades(graph, model, products)
    if isinstance(model, NoveltyDetector):
        return _novelty(graph, model, products)
    offsets = np.atleast_1d(np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64))
    scores = graph.add("Add", products, graph.constant(offsets))
    if isinstance(model, LinearClassifier | TransductiveClassifier):
        return _classes(graph, model, scores)
    if isinstance(model, MultilabelClassifier):
        return _labels(graph, model, scores)
    if isinstance(model, LinearQuantiles):
        count = graph.constant(np.array([len(offsets)]))
        return {"prediction": graph.add("TopK", scores, count, axis=1, largest=0, sorted=1)}
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
    return graph.add("Squeeze", scores, graph.constant(np.array([1])))


def _above_zero(graph: Graph, scores: str) -> str:
    return graph.add("Cast", graph.add("Greater", scores, graph.constant(0.0)), to="int64")


def _picked(graph: Graph, classes: NDArray[Any], places: str) -> str:
    return graph.add("Gather", graph.constant(label_array(classes)), places)


def _probability(graph: Graph, model: Any, scores: str) -> str | None:
    """Add the probabilities that a loss implies for each score by itself, if it does."""
    try:
        has_probabilities(model)
    except AttributeError:
        return None
    loss = model.loss_function()
    if type(loss) not in _LOG_ODDS:
        raise TypeError(f"the probabilities of {loss} cannot be exported to ONNX")
    factor = graph.constant(_LOG_ODDS[type(loss)])
    return graph.add("Sigmoid", graph.add("Mul", scores, factor))


def _classes(graph: Graph, model: Any, scores: str, *, probable: bool = True) -> dict[str, str]:
    classes = model.classes_
    if len(classes) == 2:
        column = _column(graph, scores)
        found = {"label": _picked(graph, classes, _above_zero(graph, column)), "scores": column}
        positive = _probability(graph, model, scores) if probable else None
        if positive is not None:
            negative = graph.add("Sub", graph.constant(1.0), positive)
            found["probabilities"] = graph.add("Concat", negative, positive, axis=1)
        return found
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    found = {"label": _picked(graph, classes, best), "scores": scores}
    if not probable:
        return found
    if isinstance(getattr(model, "_joint_loss", lambda: None)(), Softmax):
        found["probabilities"] = graph.add("Softmax", scores, axis=1)
    elif (each := _probability(graph, model, scores)) is not None:
        total = graph.add("ReduceSum", each, graph.constant(np.array([1])), keepdims=1)
        shares, equal = graph.add("Div", each, total), graph.constant(1.0 / len(classes))
        some = graph.add("Greater", total, graph.constant(0.0))
        found["probabilities"] = graph.add("Where", some, shares, equal)
    return found


def _labels(graph: Graph, model: Any, scores: str) -> dict[str, str]:
    if model.multilabel_:
        return {"label": _above_zero(graph, scores), "scores": scores}
    return _classes(graph, model, scores, probable=False)


def _grades(graph: Graph, model: Any, scores: str) -> dict[str, str]:
    above = graph.add("Sub", scores, graph.constant(model.thresholds_))
    passed = _above_zero(graph, above)
    place = graph.add("ReduceSum", passed, graph.constant(np.array([1])), keepdims=0)
    found = {
        "label": _picked(graph, model.classes_, place),
        "scores": _column(graph, scores),
    }
    beyond = _probability(graph, model, above)
    if beyond is not None:
        # Everyone is above no threshold, nobody above all: differences of neighbors.
        one = graph.add("Add", graph.add("Mul", scores, graph.constant(0.0)), graph.constant(1.0))
        none = graph.add("Mul", scores, graph.constant(0.0))
        higher = graph.add("Concat", beyond, none, axis=1)
        lower = graph.add("Concat", one, beyond, axis=1)
        found["probabilities"] = graph.add("Sub", lower, higher)
    return found


def _novelty(graph: Graph, model: Any, scores: str) -> dict[str, str]:
    column = graph.add("Sub", _column(graph, scores), graph.constant(float(model.offset_)))
    inside = graph.add("GreaterOrEqual", column, graph.constant(0.0))
    label = graph.add("Where", inside, graph.constant(np.array(1)), graph.constant(np.array(-1)))
    return {"label": label, "scores": column}
