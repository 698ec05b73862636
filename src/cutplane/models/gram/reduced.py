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
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf, dtrtri

from cutplane.compute import pace
from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.pace import OutOfTime, affords, deadline
from cutplane.compute.threads import default_threads, one_blas_thread, run_blocks
from cutplane.core.protocols import Point
from cutplane.data import as_rows
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.description import lam_of, threads_of
from cutplane.estimators.fit import Plan, share_of_time
from cutplane.models.gram.functions import (
    Kernel,
    between,
    products_with,
    ridge_of,
)
from cutplane.models.gram.model import Sample
from cutplane.models.gram.pair_ascent import pair_ascent
from cutplane.models.gram.risk import KernelRisk, SpannedRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.regularizers import L2, KernelNorm
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.minimize import minimize

# The largest share of all examples that a pilot may have.
_LARGEST_SHARE = 0.5


def chosen_landmarks(
    model: Any, sample: Sample, targets: Sequence[Vector], lam: float
) -> NDArray[np.intp]:
    """Return which of the examples that are used are landmarks, ascending.

    A pilot that runs out of time has told what it could. They are drawn at random for regressions,
    for losses with smooth parts, with which a machine leans on every example, and if there are too
    few examples for a pilot.
    """
    _, weights, used, X, kernel = sample
    loss, draw = model.loss_function(), np.random.default_rng(model.random_state)
    number, m = int(model.landmarks), len(used)
    # Three examples of a pilot for each landmark.
    size, by_margin = 3 * number, loss.straight and not loss.of_residual
    if size > _LARGEST_SHARE * m or not (kernel.proven and by_margin):
        return np.sort(draw.choice(m, min(number, m), replace=False))
    pilot = draw.choice(m, size, replace=False)  # in random order, which decides between equals
    # It may take a third of the time, features and fit the others.
    limit = share_of_time(model.time_limit, sample.examples.begin, 3)
    rows = KernelRows(
        kernel,
        X[pilot],
        on_demand=len(targets) == 1,
        later=limit is not None,
        n_threads=threads_of(model.n_jobs),
    )
    own = weights[used][pilot]
    regularizer = KernelNorm(lam * float(weights.sum() / own.sum()))  # the same C
    leaning = np.zeros(size)
    for target in targets:
        risk = KernelRisk(rows, target[pilot], loss, weights=own, intercept=model.fit_intercept)
        each = None if limit is None else limit / len(targets)
        found = minimize(risk, regularizer, method=pair_ascent(), time_limit=each)
        leaning += np.abs(found.w[:size])
    return np.sort(pilot[np.argsort(-leaning, kind="stable")[:number]])


def reduced_plan(model: Any, sample: Sample, targets: Sequence[Vector], *, varied: bool) -> Plan:
    """Return the plan to fit functions in the span of landmarks: linear models."""
    examples, weights, used, X, kernel = sample
    if model._precomputed:
        raise ValueError("landmarks need examples, not a precomputed kernel")
    own_targets, own_weights = [each[used] for each in targets], weights[used]
    lam = lam_of(model.lam, model.C, float(weights.sum()))
    n_threads = threads_of(model.n_jobs)
    chosen = chosen_landmarks(model, sample, own_targets, lam)
    # Features may take half of what is left, the fit the rest.
    left = share_of_time(model.time_limit, examples.begin, 2)
    with pace.using(np.inf if left is None else left):
        made = landmark_features(kernel, X, chosen, n_threads=n_threads)
    rows = as_rows(made.features, n_threads=n_threads)
    risks = [
        ScoredRisk(
            rows, each, model.loss_function(), weights=own_weights, intercept=model.fit_intercept
        )
        for each in own_targets
    ]
    plan: Plan = model._plan_with(
        sample, risks, lambda coef: (used[chosen], X[chosen], coef @ made.back.T), varied=varied
    )

    def with_loss(coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        return {**plan.model(coef, intercept), "landmark_loss_": made.lost}

    return replace(plan, model=with_loss, regularizer=L2(lam), starts=None)


def tensor_plan(
    model: Any, sample: Sample, targets: Sequence[Vector], *, varied: bool
) -> Plan | None:
    """Return the plan to fit all functions as linear models; None if their matrix does as well.

    With features that are not scaled, scores of size one are sums of terms that cancel: duals of
    size ``C``, times entries of the matrix. With the kernel "linear", features of 1e4 and ``C=100``
    these are 1e12, and of 16 digits four are left. The features that a kernel is the inner product
    of have no such terms. In the basis of `tensor_features` their number is no larger than that of
    the examples, and coefficients follow for as few of these.
    """
    if model.method not in (None, "auto") or getattr(model, "posterior", False):
        return None
    _, weights, used, X, kernel = sample
    if not kernel.has_tensors(X.shape[1]):
        return None
    total, m = float(weights.sum()), len(used)
    lam = lam_of(model.lam, model.C, total)
    rounding = ridge_of(np.float64, m, float(kernel.of_pairs(X).max()))
    largest = rounding * float(weights.max()) / (total * lam)
    # Rounding is too much for a kernel matrix if it is more of a score of size one. Features in its
    # place may take 32 MB.
    if largest <= 1e-9 or m * kernel.n_tensor_entries(X.shape[1]) > 1 << 22:
        return None
    features, chosen, dropped = tensor_features(kernel, X)
    if dropped**2 > 1e-15 * lam:  # what is left of an example beside the others and rounding
        return None
    rows = as_rows(features, n_threads=threads_of(model.n_jobs))
    machine = Spanned(kernel, X[chosen], features[chosen])
    risks = [
        TensorRisk(
            rows,
            target[used],
            model.loss_function(),
            weights=weights[used],
            intercept=model.fit_intercept,
            machine=machine,
            X=X,
        )
        for target in targets
    ]

    plan: Plan = model._plan_with(
        sample,
        risks,
        lambda coef: (used[chosen], machine.spanning, machine.coefficients(coef)),
        varied=varied,
    )
    before = model._kernel_starts(used, len(weights), len(risks))
    starts = [None if start is None else start[:m] @ features for start in before]
    return replace(plan, regularizer=L2(lam), starts=starts)


class Spanned(NamedTuple):
    """A kernel's functions in the span of some examples, which have triangular features.

    Attributes
    ----------
    kernel : Kernel
    spanning : ndarray or CSR matrix
        These examples.
    triangle : ndarray
        Their features, lower triangular.
    """

    kernel: Kernel
    spanning: Any
    triangle: Matrix

    def coefficients(self, coef: Matrix) -> Matrix:
        """Return the coefficients of the chosen examples, from those of features, by rows."""
        found = solve_triangular(self.triangle, coef.T, trans="T", lower=True, check_finite=False)
        return np.ascontiguousarray(found.T)


class TensorRisk(SpannedRisk):
    """The risk of a kernel's functions as linear models, told of the function that predicts.

    That is computed from kernels with the examples that span it, whose products are rounded by more
    than those of features.
    """

    def __init__(self, *args: Any, machine: Spanned, X: Any, **options: Any) -> None:
        self._machine, self._X = machine, X
        super().__init__(*args, **options)

    @cached_property
    def _lengths(self) -> Vector:
        return np.sqrt(self._machine.kernel.of_pairs(self._X))

    def part(self, examples: Any) -> ScoredRisk:
        """Return the risk of some of the examples."""
        part = super().part(examples)
        assert isinstance(part, TensorRisk)
        part._X = self._X[examples]
        part.__dict__["_lengths"] = self._lengths[examples]
        return part

    def _terms(self, beta: Vector) -> Vector:
        return np.abs(beta) * np.sqrt(self._machine.kernel.of_pairs(self._machine.spanning))

    def evaluate_again(self, point: Point) -> ScoredPoint | None:
        """Evaluate the risk where a point is, by the scores that the model will predict."""
        beta = self._machine.coefficients(point.w[None])
        self._heaviest = max(self._heaviest, float(self._terms(beta[0]).sum()))
        self.evaluations += 1
        used = np.flatnonzero(beta[0])
        spanning = self._machine.spanning[used]
        scores = products_with(self._machine.kernel, self._X, spanning, beta[:, used])[:, 0]
        return self.with_scores(point.w, scores)

    def value_error(self, point: Point) -> float:
        """Return by how much rounding may change the value of what predicts, as for a matrix."""
        if not isinstance(point, ScoredPoint):
            return 0.0
        beta = self._machine.coefficients(point.w[None])[0]
        return self._error_of(self._terms(beta), point.slopes)


def tensor_features(kernel: Kernel, X: Any) -> tuple[Matrix, NDArray[np.intp], float]:
    """Return features whose inner products are the kernel, in a basis that some examples give.

    Those of these examples, in their order, are a lower triangle: each is the one of which the
    others before it say least (QR with pivots). Also how long the features are that were left out,
    at most: no longer than rounding of the largest.
    """
    tensors = kernel.tensors(X)
    with one_blas_thread():
        triangle, order = qr(tensors.T, mode="r", pivoting=True, check_finite=False)
    lengths = np.abs(triangle.diagonal())
    rank = max(int(np.count_nonzero(lengths > max(tensors.shape) * EPS * lengths[0])), 1)
    features = np.empty((len(tensors), rank))
    features[order] = triangle[:rank].T
    dropped = float(np.linalg.norm(triangle[rank:], axis=0).max(initial=0.0))
    return features, order[:rank], dropped


_ROWS = 1024
# Features that are made first, whatever the time; after them always twice as many as before.
_FIRST = 64


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
    # A multiplication takes 1e-10 s: those of all factors are a third of their cube, twice.
    while len(own) > _FIRST and not affords(1e-10 * len(own) ** 3):
        own = own[::2]
    with one_blas_thread():
        order, factor = _factor(between(kernel, X[chosen[own]], X[chosen[own]]))
        triangle = np.triu(dtrtri(factor)[0]) if factor.any() else factor
    landmarks = X[chosen[own[order]]]
    features, starts = np.empty((m, len(order))), range(0, m, _ROWS)
    done, size = 0, _FIRST
    n_threads = 1 if kernel.function is not None else n_threads or default_threads()

    def fill(part: slice) -> None:
        """Write some more features of all examples; the first ones whatever the time."""
        require_time = deadline()
        inverse = np.triu(dtrtri(factor[part, part])[0]) if factor.any() else factor

        def run(first: int, last: int) -> None:
            for begin in starts[first:last]:
                if part.start:
                    require_time()
                rows = features[begin : begin + _ROWS]
                kernels = between(kernel, X[begin : begin + _ROWS], landmarks[part])
                kernels -= rows[:, : part.start] @ factor[: part.start, part]
                np.matmul(kernels, inverse, out=rows[:, part])

        with one_blas_thread():
            run_blocks(run, len(starts), n_threads=n_threads)

    while done < len(order):
        part = slice(done, min(done + size, len(order)))
        try:
            fill(part)
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


def _factor(matrix: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Return an order of landmarks, and the triangle ``R`` with ``R'R`` their matrix in this order.

    Landmarks that the others say all of are left out. If all are zero in the kernel's space, one of
    them is kept, with a coefficient of zero.
    """
    largest = float(matrix.diagonal().max())
    if not largest > 0.0:
        return np.zeros(1, dtype=np.intp), np.zeros((1, 1))
    # What is left of a landmark beside the others is rounding if it is a smaller share.
    factor, order, rank, _ = dpstrf(matrix, tol=1e-10 * largest, lower=0)
    return order[:rank].astype(np.intp) - 1, np.triu(factor[:rank, :rank])
