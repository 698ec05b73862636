"""Newton's method for kernels and smooth losses, certified by planes at its points.

At a function ``f`` with scores ``z = f(x) + c``, slopes ``g`` and curvatures ``h``, the quadratic
model of the objective has the minimizer ``f' = sum_i beta_i k(x_i, .)`` with

    lam beta + h * (K beta + c') = h * z - g,            sum_i beta_i = 0 if there is an intercept

For examples without curvature ``beta_i = -g_i / lam``. For the others, with ``s = sqrt(h)`` and
``beta = s * v``, it is a positive definite system

    (lam + s K s) v = s * (z - c' - K_rest beta_rest) - g / s

solved by Cholesky's factors, or by conjugate gradients where they would take too much time and
memory. The model's intercept ``c'`` follows from a second right-hand side. The step ends in a
search on the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.method import Found, Method, Query
from cutplane.core.needs import Need, quadratic
from cutplane.core.policies.bmrm import best_step
from cutplane.core.protocols import SearchablePoint
from cutplane.core.state import Candidate, State
from cutplane.maps.kernels.matrix import one_blas_thread
from cutplane.methods.bundle import with_query
from cutplane.methods.kernels.pair_ascent import SPANS_EXAMPLES
from cutplane.methods.needs import CURVATURES

# Up to so many examples with curvature the system is solved by factors.
_DIRECT = 2048

# Conjugate gradients end at this share of the right-hand side, or of what the gap calls for.
_ROUGH, _EXACT = 0.1, 1e-10
_MOST_PRODUCTS = 500


@dataclass(frozen=True, slots=True)
class KernelNewtonSteps(Query[None]):
    """Query by Newton steps, each with a search on the scores."""

    needs = (
        SPANS_EXAMPLES,
        Need("risk", "loss.smooth", "a loss without kinks"),
        CURVATURES,
    )

    def __call__(self, state: State, candidate: Candidate, own: None) -> tuple[Found, None]:
        """Solve the quadratic model at the best point, and search on the way there."""
        risk: Any = state.problem.risk
        best: Any = state.best
        lam: float = state.problem.regularizer.lam  # type: ignore[attr-defined]
        share = min(max(state.relative_gap, 0.0), 1.0) if np.isfinite(state.gap) else 1.0
        beta = newton_coefficients(risk, best, lam, accuracy=_ROUGH * share)
        risk.evaluations += 1
        point = risk.with_coefficients(beta, risk.map.values(beta))
        segment = cast(SearchablePoint, best).toward(point)
        along = quadratic(state.problem.regularizer).along(best.w, point.w)
        lowest = segment.at(best_step(segment, along))
        return Found([lowest], [lowest]), None


def newton_coefficients(risk: Any, point: Any, lam: float, *, accuracy: float) -> Vector:
    """Return the coefficients of the minimizer of the quadratic model at a point."""
    scores = point.scores + point.offset
    slopes = risk.loss.slopes(risk.y, scores, risk.weights)
    curvatures = risk.loss.curvatures(risk.y, scores, risk.weights)
    bent = curvatures > 0.0
    beta = np.where(bent, 0.0, -slopes / lam)
    rest = risk.map.values(beta) if beta.any() else np.zeros_like(beta)
    used = np.flatnonzero(bent)
    roots = np.sqrt(curvatures[used])
    right = roots * (scores - rest)[used] - slopes[used] / roots
    solve = _solver(risk, lam, used, roots, accuracy)
    v = solve(right)
    if risk.minimizes_intercept and len(used):
        of_one = solve(roots)
        v -= (dot(roots, v) + beta.sum()) / dot(roots, of_one) * of_one
    beta[used] = roots * v
    return beta


def _solver(risk: Any, lam: float, used: Any, roots: Vector, accuracy: float) -> Any:
    """Return a function that solves the system for a right-hand side."""
    if len(used) <= _DIRECT:
        from scipy.linalg import cho_factor, cho_solve  # slow to import

        matrix = np.asarray(risk.rows.matrix[np.ix_(used, used)], dtype=np.float64)
        matrix *= roots[:, None]
        matrix *= roots
        matrix[np.diag_indices_from(matrix)] += lam
        # Several threads of LAPACK would go on spinning after each call.
        with one_blas_thread():
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return lambda right: cho_solve(factor, right, check_finite=False)
    spread = np.zeros(len(risk.y))

    def product(v: Vector) -> Vector:
        spread[used] = roots * v
        images: Vector = lam * v + roots * risk.map.values(spread)[used]
        return images

    return lambda right: conjugate_gradients(product, right, max(accuracy, _EXACT))


def conjugate_gradients(product: Any, right: Vector, accuracy: float) -> Vector:
    """Solve a positive definite system until the residual is a share of the right-hand side."""
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    squared = dot(residual, residual)
    goal = accuracy * accuracy * squared
    for _ in range(_MOST_PRODUCTS):
        if squared <= goal or squared == 0.0:
            break
        image = product(direction)
        length = squared / dot(direction, image)
        x += length * direction
        residual -= length * image
        before, squared = squared, dot(residual, residual)
        direction *= squared / before
        direction += residual
    return x


def kernel_newton(*, planes: int = 4) -> Method:
    """Newton's method on functions in the span of the examples, for smooth losses.

    Parameters
    ----------
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    return with_query(KernelNewtonSteps(), planes=planes, name="kernel-newton")
