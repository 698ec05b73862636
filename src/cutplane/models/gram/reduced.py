"""Kernel machines of fewer features, for data whose kernel matrix is too large: landmarks.

Functions in the span of some examples, the landmarks, are a linear model (Nystroem's method). With
the kernel matrix ``R'R`` of the landmarks, ``phi(x) = R'^-1 k(landmarks, x)`` are features whose
inner products are those of the kernel, as far as functions in the span of the landmarks can tell:
``|w|`` is the norm of ``f(x) = w.phi(x)``. So everything that fits linear models fits these
functions, and the objective of the best of them is above that of all functions.

``R`` is a triangle by Cholesky's method, which takes the landmark that the others say least of
next, and ends when they say all: such landmarks get no coefficient. With 4,000 of them it takes a
thirtieth of the time of eigenvectors. Features are kept in float64, however many there are: what is
proven of them is then proven of the function that predicts, which is computed from kernels with the
landmarks.

A pilot chooses landmarks: functions that separate classes are made of examples near the boundary,
and most of a random choice lies elsewhere. So an exact machine is fitted to a few times as many
examples as there are to be landmarks, and those with the largest coefficients are taken. What is
proven of the fit does not depend on how they were chosen (docs/decisions/2026-11-18-worth.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf, dtrtri

from cutplane.compute import pace
from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.pace import OutOfTime, affords, deadline
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.data import as_rows
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.description import l2_of, threads_of
from cutplane.estimators.fit import Examples, Plan, share_of_time
from cutplane.losses.loss import ScoreLoss
from cutplane.models.gram.functions import Kernel, around_zero, one_blas_thread
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
    loss: ScoreLoss,
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
    by_margin = loss.straight and not loss.of_residual
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


def reduced_plan(
    model: Any, examples: Examples, targets: Sequence[Vector], weights: Vector, *, varied: bool
) -> Plan:
    """Return the plan to fit functions of fewer features: linear models."""
    used = np.flatnonzero(weights > 0.0)
    X = examples.X if len(used) == len(weights) else examples.X[used]
    kernel = model._kernel(X, examples.weights[used])
    loss, regularizer = model.loss_function(), l2_of(model.lam, model.C, float(weights.sum()))
    own_targets, own_weights = [each[used] for each in targets], weights[used]
    limit = share_of_time(model.time_limit, examples.begin, _PARTS)
    chosen = _chosen(model, kernel, X, own_targets, own_weights, regularizer.lam, limit)
    # Features may take half of what is left, the fit the rest.
    left = share_of_time(model.time_limit, examples.begin, _PARTS - 1)
    with pace.using(pace.Pace(np.inf if left is None else left)):
        made = landmark_features(kernel, X, chosen, n_threads=threads_of(model.n_jobs))
    rows = as_rows(made.features, n_threads=threads_of(model.n_jobs))
    risks = [
        ScoredRisk(rows, each, loss, weights=own_weights, intercept=model.fit_intercept)
        for each in own_targets
    ]

    def attributes(coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        return {
            "intercept_": intercept,
            "gamma_": kernel.gamma,
            "n_examples_": len(weights),
            "support_": used[chosen],
            "support_vectors_": X[chosen],
            "dual_coef_": coef @ made.back.T,
            "landmark_loss_": made.lost,
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


_ROWS = 1024
# Features that are made first, whatever the time; after them always twice as many as before. And
# what a multiplication takes, for all of the factors: a third of their cube, and as much again.
_FIRST, _SECONDS = 64, 1e-10
# What is left of a landmark beside the others, as a share of the largest: less is rounding.
_LEAST = 1e-10


class LandmarkFeatures(NamedTuple):
    """Features of all examples, and what they are made of.

    Attributes
    ----------
    features : ndarray of shape (n_examples, n_features)
    back : ndarray of shape (n_landmarks, n_features)
        From a weight vector of the features to coefficients of the landmarks.
    lost : float
        The share of the kernel's trace that the features do not reproduce: 0 if the landmarks span
        all examples.
    """

    features: Matrix
    back: Matrix
    lost: float


def landmark_features(
    kernel: Kernel, X: Any, chosen: NDArray[np.intp], *, n_threads: int | None = None
) -> LandmarkFeatures:
    """Return the features that some of the examples give as landmarks.

    When the step should end (`cutplane.compute.threads`), landmarks that there was no time for are
    left out: they get no coefficient, as those that the others say all of.
    """
    m, own = X.shape[0], np.arange(len(chosen))
    while len(own) > _FIRST and not affords(_SECONDS * len(own) ** 3):
        own = own[::2]
    with one_blas_thread():
        order, factor = _factor(_between(kernel, X[chosen[own]], X[chosen[own]]))
        triangle = np.triu(dtrtri(factor)[0]) if factor.any() else factor
    landmarks = X[chosen[own[order]]]
    features = np.empty((m, len(order)))
    done, size = 0, _FIRST
    wanted = default_threads() if n_threads is None else n_threads
    while done < len(order):
        part = slice(done, min(done + size, len(order)))
        try:
            _fill(kernel, X, landmarks, factor, features, part, wanted)
        except OutOfTime:
            features = np.ascontiguousarray(features[:, :done])
            break
        done, size = part.stop, 2 * size
    back = np.zeros((len(chosen), done))
    back[own[order[:done]]] = triangle[:done, :done]
    there = float(np.einsum("ij,ij->", features, features))
    trace = float(kernel.of_pairs(X).sum())
    lost = 1.0 - there / trace if trace > 0.0 else 0.0
    return LandmarkFeatures(features, back, max(lost, 0.0))


def _fill(
    kernel: Kernel,
    X: Any,
    landmarks: Any,
    factor: Matrix,
    features: Matrix,
    part: slice,
    n_threads: int,
) -> None:
    """Write some more features of all examples; the first ones whatever the time."""
    starts, done = range(0, len(features), _ROWS), part.start
    require_time = deadline()
    inverse = np.triu(dtrtri(factor[part, part])[0]) if factor.any() else factor

    def run(first: int, last: int) -> None:
        for begin in starts[first:last]:
            if done:
                require_time()
            rows = features[begin : begin + _ROWS]
            kernels = _between(kernel, X[begin : begin + _ROWS], landmarks[part])
            kernels -= rows[:, :done] @ factor[:done, part]
            np.matmul(kernels, inverse, out=rows[:, part])

    with one_blas_thread():
        run_blocks(run, len(starts), n_threads=1 if kernel.function is not None else n_threads)


def _factor(matrix: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Return an order of landmarks, and the triangle ``R`` with ``R'R`` their matrix in this order.

    Landmarks that the others say all of are left out. If all are zero in the kernel's space, one of
    them is kept, with a coefficient of zero.
    """
    largest = float(matrix.diagonal().max())
    if not largest > 0.0:
        return np.zeros(1, dtype=np.intp), np.zeros((1, 1))
    factor, order, rank, _ = dpstrf(matrix, tol=_LEAST * largest, lower=0)
    return order[:rank].astype(np.intp) - 1, np.triu(factor[:rank, :rank])


def _between(kernel: Kernel, A: Any, B: Any) -> Matrix:
    pair = around_zero(A, B) if kernel.name == "rbf" else (A, B)
    return np.asarray(kernel.between(*pair))
