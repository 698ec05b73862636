"""Kernel machines of fewer features, and the pilot that chooses landmarks.

Landmarks that a pilot chooses: the examples that a machine of some of them leans on the most.

Functions that separate classes are made of examples near the boundary, and most of a random choice
lies elsewhere. So an exact machine is fitted to a few times as many examples as there are to be
landmarks, and those with the largest coefficients are taken. What is proven of the fit does not
depend on how they were chosen.

Test errors for ten digits of MNIST, 60,000 examples, rbf with gamma = 0.02, C = 5. With 1,000
landmarks at random 2.9 %; by pilots of 3,000, 4,000 and 6,000 examples 2.4 %. With 2,000 at random
2.2 %; by pilots of 4,000, 6,000, 8,000 and 12,000 2.0, 1.9, 2.0 and 1.9 %. A pilot of 6,000 took
1.7 s, and the fits then took a fifth to a third less time. Drawn from the support of a pilot of
12,000, with no regard to coefficients, 2,000 landmarks had 2.1 %. Errors at random and by pilots
elsewhere (hinge loss, means of three seeds), with 100 and with 500 landmarks: satimage 11.3 and
10.9 %, 10.2 and 9.9 %; ijcnn1, C = 10, 6.2 and 4.8 %, 2.5 and 2.4 %; a9a 16.4 and 16.2 %, 15.7 and
15.6 %. Regression with epsilon-insensitive loss gained nothing: generated, 1 - R2 0.075 and 0.077.

Kernel machines for data whose kernel matrix is too large: linear models of fewer features.

The features are those of landmarks, which are examples (`cutplane.models.gram.features`), or of
random waves (`cutplane.models.gram.features`). What is proven holds for the functions of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute import pace
from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.needs import offers
from cutplane.data import as_rows
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.fit import Examples, Plan, share_of_time
from cutplane.estimators.parameters import l2_of, threads_of
from cutplane.models.gram.features import landmark_features, wave_features
from cutplane.models.gram.functions import Kernel
from cutplane.models.gram.pair_ascent import pair_ascent
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.regularizers import KernelNorm
from cutplane.risks import ScoredRisk
from cutplane.solvers.minimize import minimize

# Examples of a pilot for each landmark, and the largest share of all examples that it may have.
_PER_LANDMARK = 3
_LARGEST_SHARE = 0.5


def chosen_landmarks(
    kernel: Kernel,
    X: Any,
    targets: Sequence[Vector],
    loss: Any,
    weights: Vector,
    *,
    number: int,
    lam: float,
    intercept: bool,
    seed: int | None,
    n_threads: int | None,
    time_limit: float | None,
) -> NDArray[np.intp]:
    """Return the numbers of so many examples, ascending.

    A pilot that runs out of time has told what it could. They are drawn at random for regressions,
    for losses with smooth parts, with which a machine leans on every example, and if there are too
    few examples for a pilot.
    """
    draw = np.random.default_rng(seed)
    m, size = X.shape[0], _PER_LANDMARK * number
    by_margin = offers(loss, "straight") and not loss.of_residual
    if size > _LARGEST_SHARE * m or not (kernel.proven and by_margin):
        return np.sort(draw.choice(m, min(number, m), replace=False))
    pilot = draw.choice(m, size, replace=False)  # in random order, which decides between equals
    rows = KernelRows(
        kernel,
        X[pilot],
        on_demand=len(targets) == 1,
        later=time_limit is not None,
        n_threads=n_threads,
    )
    own = weights[pilot]
    regularizer = KernelNorm(lam * float(weights.sum() / own.sum()))  # the same C
    leaning = np.zeros(size)
    for target in targets:
        risk = KernelRisk(rows, target[pilot], loss, weights=own, intercept=intercept)
        limit = None if time_limit is None else time_limit / len(targets)
        found = minimize(risk, regularizer, method=pair_ascent(), time_limit=limit)
        leaning += np.abs(found.w[:size])
    return np.sort(pilot[np.argsort(-leaning, kind="stable")[:number]])


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
        # Features may take half of what is left, the fit the rest.
        left = share_of_time(model.time_limit, examples.begin, _PARTS - 1)
        with pace.using(pace.Pace(np.inf if left is None else left)):
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
