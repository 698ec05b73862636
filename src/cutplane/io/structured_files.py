"""A `cutplane.StructuredPredictor` in a model file, if its model is one of the library.

The only tensor is ``coef``. The document has an entry ``structured``: the kind of model, its
constructor's options, and the sizes (and classes) that it looked up in the data. A model is
restored by showing it the smallest examples that have these sizes. So it checks them itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.estimators import StructuredPredictor
from cutplane.io.model_parts import (
    Malformed,
    checked_certificates,
    checked_classes,
    describe_classes,
    is_plain,
)
from cutplane.structured import (
    Graph,
    GraphModel,
    MulticlassModel,
    MultilabelModel,
    RNAFolding,
    Tree,
    TreeModel,
)
from cutplane.structured.model import prepared

_Examples = tuple[list[Any], list[Any]]


class _Kind(NamedTuple):
    """A model: names of its options and sizes, and the smallest examples with given sizes."""

    of: type[Any]
    options: tuple[str, ...]
    sizes: tuple[str, ...]
    smallest: Callable[..., _Examples]


def _classes(classes: NDArray[Any], n_features: int) -> _Examples:
    return [np.zeros(n_features)] * len(classes), list(classes)


def _label_set(n_labels: int, n_features: int) -> _Examples:
    return [np.zeros(n_features)], [np.zeros(n_labels)]


def _tree(labels: int, n_features: int, n_edge_features: int) -> _Examples:
    return [Tree(np.zeros((1, n_features)), [-1], np.zeros((1, n_edge_features)))], [[labels - 1]]


def _graph(labels: int, n_features: int, n_edge_features: int) -> _Examples:
    return [Graph(np.zeros((1, n_features)), [], np.zeros((0, n_edge_features)))], [[labels - 1]]


def _nothing() -> _Examples:
    return [], []


_OF_NODES = ("labels", "n_features", "n_edge_features")
_KINDS = {
    kind.of.__name__: kind
    for kind in (
        _Kind(MulticlassModel, (), ("n_features",), _classes),
        _Kind(MultilabelModel, ("parents",), ("n_labels", "n_features"), _label_set),
        _Kind(TreeModel, ("n_labels",), _OF_NODES, _tree),
        _Kind(GraphModel, ("n_labels", "search", "symmetric"), _OF_NODES, _graph),
        _Kind(RNAFolding, ("missed", "wrong"), (), _nothing),
    )
}


def describe_structured(predictor: StructuredPredictor) -> dict[str, Any]:
    """Return the model of a fitted predictor in plain values.

    Raises
    ------
    TypeError
        If it is not one of the library, or an option is no plain value.
    """
    model = predictor.model_
    name = type(model).__name__
    if name not in _KINDS or type(model) is not _KINDS[name].of:
        raise TypeError(
            f"cannot save a StructuredPredictor of a model of your own: the code of {name} would "
            "not be in the file; keep coef_ by numpy.savez, or the whole by joblib for files that "
            "you trust"
        )
    options = {option: _plain(getattr(model, option)) for option in _KINDS[name].options}
    for option, value in options.items():
        if not _is_plain_option(value):
            raise TypeError(f"cannot save {name} with {option}={value!r}")
    sizes = {size: int(getattr(model, size)) for size in _KINDS[name].sizes}
    described = {"kind": name, "options": options, "sizes": sizes}
    if isinstance(model, MulticlassModel):
        described["classes"] = describe_classes(model.classes)
    return described


def restored_predictor(
    parameters: dict[str, Any],
    structured: object,
    certificates: object,
    tensors: dict[str, NDArray[Any]],
) -> StructuredPredictor:
    """Return a fitted predictor.

    Raises
    ------
    Malformed
        If anything does not fit together.
    """
    if set(tensors) != {"coef"}:
        raise Malformed("the file is damaged")
    coef = tensors["coef"]
    if coef.dtype != np.float64 or coef.ndim != 1 or not np.isfinite(coef).all():
        raise Malformed("weights are no vector of finite numbers in float64")
    model, ready = _restored_models(structured, len(coef))
    if "model" in parameters:
        raise Malformed("a model among the parameters")
    predictor = StructuredPredictor(model, **parameters)
    predictor.model_, predictor.coef_ = ready, coef
    (predictor.certificate_,) = checked_certificates(certificates, 1)
    return predictor


def _restored_models(structured: object, n_parameters: int) -> tuple[Any, Any]:
    """Return a model as it was constructed, and ready for use."""
    match structured:
        case {
            "kind": str(name),
            "options": dict(options),
            "sizes": dict(sizes),
            **rest,
        } if name in _KINDS:
            kind = _KINDS[name]
        case _:
            raise Malformed("no structured model, or of an unknown kind")
    if {*options} != {*kind.options} or not all(map(_is_plain_option, options.values())):
        raise Malformed(f"options of {name} are not known or not plain values")
    if {*sizes} != {*kind.sizes} or not all(
        type(size) is int and 0 <= size <= n_parameters for size in sizes.values()
    ):
        raise Malformed(f"sizes of {name} are not known, or no numbers up to {n_parameters}")
    shown: dict[str, Any] = dict(sizes)
    if kind.of is MulticlassModel:
        shown["classes"] = checked_classes(rest.get("classes"), least=1)
    try:
        model = kind.of(**options)
        ready = prepared(model, *kind.smallest(**shown))
    except (TypeError, ValueError) as error:
        raise Malformed(f"{name} cannot be restored: {error}") from None
    if ready.n_parameters != n_parameters or any(
        getattr(ready, size) != number for size, number in sizes.items()
    ):
        raise Malformed(f"{n_parameters} weights for {name} with {ready.n_parameters} parameters")
    return model, ready


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _is_plain_option(value: object) -> bool:
    """Say whether JSON can hold an option: a plain value, or a list of whole numbers."""
    return is_plain(value) or (isinstance(value, list) and all(type(one) is int for one in value))
