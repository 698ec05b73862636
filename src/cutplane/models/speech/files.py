"""The tensors of hidden Markov models in a model file.

``coef`` and ``likelihood_coef`` are the parameters of the margin fit and of maximum likelihood,
``center`` and ``scale`` what frames are centered and scaled by. The shape of the models follows
from the estimator's parameters and classes, and from the number of features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.io.models.schema import Malformed

_NAMES = ("coef", "likelihood_coef", "center", "scale")


def tensors_of(estimator: Any) -> dict[str, NDArray[Any]]:
    """Return all that a fitted estimator predicts from, but its parameters and classes."""
    return {name: np.ascontiguousarray(getattr(estimator, f"{name}_")) for name in _NAMES}


def restore(estimator: Any, tensors: dict[str, NDArray[Any]], document: object) -> int:
    """Make an estimator with parameters and classes a fitted one; return its number of problems."""
    if set(tensors) != set(_NAMES):
        raise Malformed(f"arrays {', '.join(sorted(tensors))}")
    for name, tensor in tensors.items():
        if tensor.dtype != np.float64 or tensor.ndim != 1 or not np.isfinite(tensor).all():
            raise Malformed(f"{name} is no vector of finite numbers in float64")
    center, scale, coef = tensors["center"], tensors["scale"], tensors["coef"]
    if not len(center) or center.shape != scale.shape or not (scale > 0.0).all():
        raise Malformed("center and scale do not fit together")
    for name in ("n_states", "n_components"):
        if not 1 <= getattr(estimator, name) <= len(coef):
            raise Malformed(f"{name} is no number from 1 to {len(coef)}")
    try:
        hmms = estimator.shape_of(len(estimator.classes_), len(center))
    except ValueError as error:
        raise Malformed(f"a parameter is wrong: {error}") from None
    # States are squared in the number of parameters: a file must not make them fill the memory.
    if hmms.n_states * hmms.n_components * hmms.n_features * hmms.n_classes > len(coef):
        raise Malformed(f"{len(coef)} parameters are too few")
    if {len(coef), len(tensors["likelihood_coef"])} != {hmms.n_parameters}:
        raise Malformed(f"{len(coef)} parameters, expected {hmms.n_parameters}")
    for name, tensor in tensors.items():
        setattr(estimator, f"{name}_", tensor)
    estimator.hmms_ = hmms
    estimator.n_features_in_ = len(center)
    return 1
