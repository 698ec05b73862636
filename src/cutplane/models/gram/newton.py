"""Newton's method for kernel machines, and the posterior of a Gaussian process.

Cholesky's factor of a matrix that is positive definite, but for rounding.

Newton's method for kernels and smooth losses, certified by planes at its points.

At a function ``sum_i b_i k(x_i, .)`` with slopes ``g`` and curvatures ``h`` of the loss, the
quadratic model of the objective has its minimizer at coefficients ``b + d`` with

    lam d + h * (K d + c') = -(g + lam b),            sum_i b_i + d_i = 0 if there is an intercept

For examples without curvature ``d_i = -g_i / lam - b_i``. For the others, with ``s = sqrt(h)`` and
``d = s * v``, it is a positive definite system

    (lam + s K s) v = -(g + lam b) / s - s * (c' + K_rest d_rest)

solved by Cholesky's factors, or by conjugate gradients where they would take too much time and
memory. The change ``c'`` of the model's intercept follows from a second right-hand side. The step
ends in a search on the scores. Since it is the change that is solved for, a matrix that is rounded,
or a system that is not solved to the end, makes for a step that is too short or a little aside, and
not for another minimizer.

The posterior of a Gaussian process around its most likely function, by Laplace's method.

With the prior covariance ``s k``, ``s = 1 / (lam * M)`` for weights ``w`` that sum to ``M``, the
logistic loss and its curvatures ``W = w p (1 - p)`` at the minimizer ``f`` of ``J`` (Rasmussen and
Williams 2006, section 3.4):

    B = 1 + sqrt(W) s K sqrt(W)
    log marginal likelihood = -M J(f) - log|B| / 2
    variance at x = s k(x, x) - k_x' sqrt(W) B^-1 sqrt(W) k_x,         k_x = s k(x_i, x)

Probabilities are means of the logistic function over a normal distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, ndtr

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.products import conjugate_gradients, dot
from cutplane.compute.threads import one_blas_thread
from cutplane.core.policies.bmrm import best_step
from cutplane.core.protocols import Plane
from cutplane.core.solver import Need, Solver, Step
from cutplane.core.state import Run
from cutplane.models.gram.risk import KernelRisk
from cutplane.risks.scored import ScoredPoint
from cutplane.solvers.ascent import balanced
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.needs import CURVATURES, loss_with

SPANS_EXAMPLES = Need("risk", KernelRisk, "functions in the span of the examples, a kernel")


def lower_factor(matrix: Matrix) -> Matrix:
    """Return the lower factor, of a matrix that is changed.

    Where rounding has left eigenvalues that are not positive, so much is added to the diagonal that
    there are none.
    """
    from scipy.linalg import LinAlgError, cholesky  # slow to import

    largest = float(matrix.diagonal().max(initial=0.0))
    added, diagonal = 0.0, np.diag_indices_from(matrix)
    # Several threads of LAPACK would go on spinning after each call.
    with one_blas_thread():
        while True:
            try:
                return np.asarray(cholesky(matrix, lower=True, check_finite=False))
            except LinAlgError:
                if not added < largest:  # so much is no rounding
                    raise
            more = max(10.0 * added, len(matrix) * EPS * largest)
            matrix[diagonal] += more - added
            added = more


@dataclass(frozen=True, slots=True)
class KernelNewtonSteps(Solver[None]):
    """Newton steps, each with a search on the scores."""

    needs = (
        SPANS_EXAMPLES,
        loss_with("a loss without kinks", lambda loss: loss.smooth),
        CURVATURES,
    )
    planes: int | None = 4
    name: str = "kernel-newton"

    def step(self, run: Run, own: None) -> Step[None]:
        """Solve the quadratic model at the best point, and search on the way there."""
        risk, best = SPANS_EXAMPLES.of(run.problem), run.best
        assert isinstance(best, ScoredPoint)
        lam = run.problem.norm.lam
        share = min(max(run.relative_gap, 0.0), 1.0) if np.isfinite(run.gap) else 1.0
        scores = best.scores + best.offset
        slopes = risk.pointwise.slopes(risk.y, scores, risk.weights)
        curvatures = risk.pointwise.known_curvatures(risk.y, scores, risk.weights)
        point = newton_point(risk, lam, best, scores, slopes, curvatures, accuracy=0.1 * share)
        segment = best.toward(point)
        along = run.problem.norm.along(best.w, point.w)
        lowest = segment.at(best_step(segment, along))
        plane = _plane_of(risk, lam, point)
        if plane is not None and run.problem.below(plane).lower > run.lower:
            return Step([lowest], None, [plane])  # which saves the product for the other one
        return Step([lowest], None, cut_at=[lowest])


def _plane_of(risk: KernelRisk, lam: float, point: ScoredPoint) -> Plane | None:
    """Return the plane whose duals are the coefficients of a function, times ``-lam``.

    At the minimizer of a quadratic model they are the slopes of the model there, and the product
    with the matrix is known. None if they are no slopes of the loss.
    """
    beta, values = np.split(point.w, 2)
    duals = -lam * beta
    if risk.minimizes_intercept:
        duals = balanced(duals)
    offset = -risk.pointwise.known_conjugate(risk.y, duals, risk.weights)
    if not np.isfinite(offset):
        return None
    return Plane(0.5 * np.concatenate([-lam * values, duals]), offset)


def newton_point(
    risk: KernelRisk,
    lam: float,
    start: ScoredPoint,
    scores: Vector,
    slopes: Vector,
    curvatures: Vector,
    *,
    accuracy: float,
) -> ScoredPoint:
    """Return the minimizer of the quadratic model at a point, with scores that may be moved.

    Conjugate gradients leave ``accuracy`` of what the right-hand side would be at a function of
    zero with these scores, slopes and curvatures.
    """
    before = start.w[: len(scores)]
    # Examples with much less curvature than the regularizer have none: roots of next to nothing
    # would make numbers that leave no digits to the others.
    bent = curvatures * risk.matrix_rows.diagonal > 1e-6 * lam
    change = np.where(bent, 0.0, -slopes / lam - before)
    rest = risk.rows.pullback(change) if change.any() else np.zeros_like(change)
    used = np.flatnonzero(bent)
    roots = np.sqrt(curvatures[used])
    right = -(slopes + lam * before)[used] / roots - roots * rest[used]
    whole = roots * scores[used] - slopes[used] / roots
    goal = accuracy * float(np.linalg.norm(whole))
    solve: Callable[[Vector], Vector]
    if len(used) <= 2048:
        from scipy.linalg import cho_solve  # slow to import

        matrix = np.asarray(risk.matrix_rows.matrix[np.ix_(used, used)], dtype=np.float64)
        matrix *= roots[:, None]
        matrix *= roots
        matrix[np.diag_indices_from(matrix)] += lam
        # What is added if rounding has left negative eigenvalues makes for a shorter step.
        factor = lower_factor(matrix), True
        solve = partial(cho_solve, factor, check_finite=False)
    else:
        spread = np.zeros_like(change)

        def times(v: Vector) -> Vector:
            spread[used] = roots * v
            images: Vector = lam * v + roots * risk.rows.pullback(spread)[used]
            return images

        def solve(right: Vector) -> Vector:
            size = float(np.linalg.norm(right))
            left = min(max(goal / size, 1e-10), 1e-3) if size > 0.0 else 1e-3
            return conjugate_gradients(
                times, right.copy(), roughly_divided=np.copy, left=left, most=500
            )

    v = solve(right)
    if risk.minimizes_intercept and len(used):
        of_one = solve(roots)
        v -= (dot(roots, v) + before.sum() + change.sum()) / dot(roots, of_one) * of_one
    change[used] = roots * v
    risk.evaluations += 1
    return risk.with_coefficients(before + change, risk.kernel.values(before + change))


def kernel_newton(*, planes: int = 4) -> KernelNewtonSteps:
    """Newton's method on functions in the span of the examples, for smooth losses.

    Parameters
    ----------
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    return KernelNewtonSteps(checked_planes(planes))


# Up to a standard deviation of one the logistic function is smooth beside the normal density, and
# few nodes of Gauss and Hermite are exact to 1e-9; beyond it is the other way around, and the mean
# is an integral over the logistic density, by the trapezoidal rule.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_PLACES = np.arange(-160, 161) * 0.25
_DENSITY = 0.25 * expit(_PLACES) * expit(-_PLACES)


@dataclass(frozen=True)
class Posterior:
    """Laplace's posterior for one problem.

    Attributes
    ----------
    roots : ndarray
        ``sqrt(W)`` for each example.
    factor : ndarray
        Cholesky's lower factor of ``B``.
    scale : float
        ``s``.
    """

    roots: Vector
    factor: Matrix
    scale: float

    @classmethod
    def of(cls, matrix: Matrix, curvatures: Vector, scale: float) -> Posterior:
        """Return the posterior for a kernel matrix and curvatures."""
        roots = np.sqrt(curvatures)
        inner = scale * roots[:, None] * matrix * roots
        inner[np.diag_indices_from(inner)] += 1.0
        return cls(roots, lower_factor(inner), scale)

    def variances(self, kernels: Matrix, with_themselves: Vector) -> Vector:
        """Return the variance at some examples.

        Parameters
        ----------
        kernels : ndarray of shape (n_new, n_examples)
        with_themselves : ndarray of shape (n_new,)
            The kernel of each new example with itself.
        """
        right = (self.scale * kernels * self.roots).T
        with one_blas_thread():
            solved = solve_triangular(self.factor, right, lower=True, check_finite=False)
        reduced = self.scale * with_themselves - np.einsum("ij,ij->j", solved, solved)
        return np.asarray(np.maximum(reduced, 0.0))


def mean_probability(means: Vector, variances: Vector) -> Vector:
    """Return the mean of ``1 / (1 + exp(-f))`` for normal ``f``, to nine digits."""
    deviations = np.sqrt(variances)
    out = np.empty(len(means))
    narrow = deviations <= 1.0
    near = means[narrow, None] + deviations[narrow, None] * _NODES
    out[narrow] = expit(near) @ _WEIGHTS
    wide = ~narrow
    out[wide] = ndtr((means[wide, None] - _PLACES) / deviations[wide, None]) @ _DENSITY
    return out
