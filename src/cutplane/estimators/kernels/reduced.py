"""Kernel machines for data whose kernel matrix is too large: linear models of fewer features.

The features are those of landmarks, which are examples (`cutplane.maps.kernels.landmarks`), or of
random waves (`cutplane.maps.kernels.waves`). What is proven holds for the functions of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.fit import Examples, Plan, share_of_time
from cutplane.estimators.kernels.pilot import chosen_landmarks
from cutplane.estimators.parameters import l2_of, threads_of
from cutplane.maps import as_rows
from cutplane.maps.kernels.functions import Kernel
from cutplane.maps.kernels.landmarks import landmark_features
from cutplane.maps.kernels.waves import wave_features
from cutplane.risks import ScoredRisk

# Choosing landmarks may take one part of the time, features and fit the others.
_PARTS = 3

Reduced = tuple[Matrix, Callable[[Matrix], Attributes]]
"""Features of the examples, and what makes attributes of the coefficients of these."""


def is_reduced(model: Any) -> bool:
    """Say whether functions of fewer features are asked for, or raise ValueError."""
    if model.landmarks is not None and model.random_features is not None:
        raise ValueError("give landmarks or random_features, not both")
    return model.landmarks is not None or model.random_features is not None


def reduced_plan(
    model: Any, examples: Examples, targets: Sequence[Vector], weights: Vector, *, varied: bool
) -> Plan:
    """Return the plan to fit functions of fewer features: linear models."""
    used = np.flatnonzero(weights > 0.0)
    X = examples.X if len(used) == len(weights) else examples.X[used]
    kernel = model._kernel(X, examples.weights[used])
    loss, regularizer = model.loss_function(), l2_of(model.lam, model.C, float(weights.sum()))
    own_targets, own_weights = [each[used] for each in targets], weights[used]
    if model.landmarks is not None:
        limit = share_of_time(model.time_limit, examples.begin, _PARTS)
        chosen = _chosen(model, kernel, X, own_targets, own_weights, regularizer.lam, limit)
        features, own = _landmarks(model, kernel, X, used, chosen)
    else:
        features, own = _waves(model, kernel, X, used)
    rows = as_rows(features, n_threads=threads_of(model.n_jobs))
    risks = [
        ScoredRisk(rows, each, loss, weights=own_weights, intercept=model.fit_intercept)
        for each in own_targets
    ]

    def attributes(coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        return {
            "intercept_": intercept,
            "gamma_": kernel.gamma,
            "n_examples_": len(weights),
            **own(coef),
        }

    plan: Plan = model._plan_with(
        replace(examples, weights=weights), risks, attributes, varied=varied
    )
    return replace(plan, regularizer=regularizer, starts=None)


def _chosen(
    model: Any,
    kernel: Kernel,
    X: Any,
    targets: Sequence[Vector],
    weights: Vector,
    lam: float,
    time_limit: float | None,
) -> NDArray[np.intp]:
    if model._precomputed:
        raise ValueError("landmarks need examples, not a precomputed kernel")
    return chosen_landmarks(
        kernel,
        X,
        targets,
        model.loss_function(),
        weights,
        number=int(model.landmarks),
        lam=lam,
        intercept=model.fit_intercept,
        seed=model.random_state,
        n_threads=threads_of(model.n_jobs),
        time_limit=time_limit,
    )


def _landmarks(
    model: Any, kernel: Kernel, X: Any, used: NDArray[np.intp], chosen: NDArray[np.intp]
) -> Reduced:
    made = landmark_features(kernel, X, chosen, n_threads=threads_of(model.n_jobs))
    return made.features, lambda coef: {
        "support_": used[chosen],
        "support_vectors_": X[chosen],
        "dual_coef_": coef @ made.back.T,
        "landmark_loss_": made.lost,
    }


def _waves(model: Any, kernel: Kernel, X: Any, used: NDArray[np.intp]) -> Reduced:
    if kernel.name != "rbf":
        raise ValueError(f"random_features need kernel='rbf', got {model.kernel!r}")
    made = wave_features(
        kernel,
        X,
        int(model.random_features),
        seed=model.random_state,
        n_threads=threads_of(model.n_jobs),
    )
    return made.features, lambda coef: {
        "support_": used[:0],
        "support_vectors_": X[:0],
        "dual_coef_": np.zeros((len(coef), 0)),
        "frequencies_": made.frequencies,
        "wave_coef_": coef,
        "kernel_error_": made.error,
    }
