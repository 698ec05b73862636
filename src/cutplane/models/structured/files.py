"""A `cutplane.StructuredPredictor` in a model file, if its model is one of the library.

The only tensor is ``coef``. The document has an entry ``structured``: the kind of model, its
constructor's options, and the sizes (and classes) that it looked up in the data. It is restored as
`cutplane.models.structured.model.LibraryModel` says.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, Union

import msgspec
import numpy as np
from numpy.typing import NDArray

from cutplane.estimators import StructuredPredictor
from cutplane.io.models.schema import (
    Classes,
    Malformed,
    Size,
    arguments_of,
    is_plain,
    plain_value,
    tagged,
)
from cutplane.models.structured import MODELS
from cutplane.models.structured.model import prepared


def _sizes_of(kind: type[Any]) -> list[str]:
    return [name for name in kind.looked_up if name != "classes"]


def _schema(kind: type[Any]) -> Any:
    name = kind.__name__
    sizes = msgspec.defstruct(
        f"{name}Sizes", [(size, Size) for size in _sizes_of(kind)], forbid_unknown_fields=True
    )
    options = arguments_of(kind)
    return tagged(name, {"options": options, "sizes": sizes, "classes": (Classes | None, None)})


SCHEMA: Any = Union[tuple(map(_schema, MODELS.values()))]  # noqa: UP007
"""The schema of the entry ``structured``."""


def describe(predictor: StructuredPredictor) -> dict[str, Any]:
    """Return the model of a fitted predictor in plain values."""
    model = predictor.model_
    name = type(model).__name__
    if type(model) is not MODELS.get(name):
        raise TypeError(
            f"cannot save a StructuredPredictor of a model of your own: the code of {name} would "
            "not be in the file; keep coef_ by numpy.savez, or the whole by joblib for files that "
            "you trust"
        )
    options = {
        option: plain_value(getattr(model, option)) for option in signature(type(model)).parameters
    }
    for option, value in options.items():
        if not is_plain(value):
            raise TypeError(f"cannot save {name} with {option}={value!r}")
    sizes = {size: int(getattr(model, size)) for size in _sizes_of(type(model))}
    described: dict[str, Any] = {"kind": name, "options": options, "sizes": sizes}
    if "classes" in model.looked_up:
        described["classes"] = Classes.of(model.classes)
    return described


def tensors_of(predictor: StructuredPredictor) -> dict[str, NDArray[Any]]:
    """Return the weights of a fitted predictor."""
    return {"coef": predictor.coef_}


def restore(predictor: StructuredPredictor, tensors: dict[str, NDArray[Any]], document: Any) -> int:
    """Make a predictor with parameters a fitted one; return its number of problems."""
    if set(tensors) != {"coef"}:
        raise Malformed(f"arrays {', '.join(sorted(tensors))}")
    coef = tensors["coef"]
    if coef.dtype != np.float64 or coef.ndim != 1 or not np.isfinite(coef).all():
        raise Malformed("weights are no vector of finite numbers in float64")
    predictor.model, predictor.model_ = _restored_models(document.structured, len(coef))
    predictor.coef_ = coef
    return 1


def _restored_models(structured: Any, n_parameters: int) -> tuple[Any, Any]:
    """Return a model as it was constructed, and ready for use."""
    name = type(structured).__name__
    kind, sizes = MODELS[name], msgspec.structs.asdict(structured.sizes)
    # The examples to show have these sizes: they must not be larger than the file.
    if max(sizes.values(), default=0) > n_parameters:
        raise Malformed(f"sizes of {name} are no numbers up to {n_parameters}")
    shown: dict[str, Any] = dict(sizes)
    if "classes" in kind.looked_up:
        if structured.classes is None:
            raise Malformed("no classes")
        shown["classes"] = structured.classes.restored(least=1)
    try:
        model = kind(**msgspec.structs.asdict(structured.options))
        ready = prepared(model, *kind.smallest_examples(**shown))
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"{name} cannot be restored: {error}") from None
    if ready.n_parameters != n_parameters or any(
        not np.array_equal(getattr(ready, size), expected) for size, expected in shown.items()
    ):
        raise Malformed(f"{n_parameters} weights for {name} with {ready.n_parameters} parameters")
    return model, ready
