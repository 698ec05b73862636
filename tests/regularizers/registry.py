"""Every regularizer with its formula once more. A new one is one entry of `CASES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import cvxpy
import numpy as np
from scipy.special import xlogy

import cutplane as cp

D = 4
_rng = np.random.default_rng(20240611)
center = _rng.normal(size=D)
POSITIVE = _rng.uniform(0.3, 2.0, D)
FACTOR = _rng.normal(size=(D + 2, D))
ORDERED = np.diff(np.eye(D), axis=0)
LOWER, UPPER = np.array([-0.1, 0.0, -np.inf, 0.2]), np.array([0.1, np.inf, 0.0, 0.3])


class CoshRegularizer:
    """A user's own: ``lam * sum_j (cosh(w_j) - 1)``, by value and conjugate alone."""

    def __init__(self, lam):
        self.lam = lam

    def value(self, w):
        return self.lam * float(np.sum(np.cosh(w) - 1.0))

    def conjugate(self, u):
        w = np.arcsinh(u / self.lam)
        return float(u @ w) - self.value(w), w


@dataclass(frozen=True)
class Case:
    """A regularizer, its formula in NumPy and in CVXPY, and a map of any vector into its domain."""

    regularizer: object
    formula: Callable
    expression: Callable
    constraints: Callable = lambda w: []
    into_domain: Callable = lambda w: w


def _square(u):
    return float(np.sum(u**2))


def _elastic(lam, ratio):
    return Case(
        cp.ElasticNet(lam, ratio),
        lambda w: lam * (ratio * np.abs(w).sum() + 0.5 * (1 - ratio) * _square(w)),
        lambda w: lam * (ratio * cvxpy.norm1(w) + 0.5 * (1 - ratio) * cvxpy.sum_squares(w)),
    )


def _form(lam, Q, center, regularizer):
    return Case(
        regularizer,
        lambda w: 0.5 * lam * float((w - center) @ Q @ (w - center)),
        lambda w: 0.5 * lam * cvxpy.quad_form(w - center, cvxpy.psd_wrap(Q)),
    )


def _lp(lam, p):
    return Case(
        cp.SquaredLp(lam, p),
        lambda w: 0.5 * lam * float(np.sum(np.abs(w) ** p)) ** (2 / p),
        lambda w: 0.5 * lam * cvxpy.square(cvxpy.pnorm(w, p)),
    )


def _entropy(lam, center, regularizer):
    return Case(
        regularizer,
        lambda w: lam * float(np.sum(xlogy(w, w / center) - w + center)),
        lambda w: lam * cvxpy.sum(cvxpy.kl_div(w, center)),
        into_domain=lambda w: np.maximum(w, 0.0),
    )


def _bounded(lam, lower, upper, center, regularizer):
    finite = [(np.isfinite(lower), lower, 1.0), (np.isfinite(upper), upper, -1.0)]
    return Case(
        regularizer,
        lambda w: 0.5 * lam * _square(w - center),
        lambda w: 0.5 * lam * cvxpy.sum_squares(w - center),
        lambda w: [
            sign * (w[some] - bound[some]) >= 0 for some, bound, sign in finite if some.any()
        ],
        lambda w: np.clip(w, lower, upper),
    )


def _bounded_elastic(lam, ratio, lower, upper):
    net, box = _elastic(lam, ratio), _bounded(lam, lower, upper, 0.0, None)
    return replace(
        net,
        regularizer=cp.BoundedElasticNet(lam, ratio, lower=lower, upper=upper),
        constraints=box.constraints,
        into_domain=box.into_domain,
    )


_zero, _one = np.zeros(D), np.ones(D)
CASES = {
    "L2": Case(
        cp.L2(0.1, center=center, weights=POSITIVE),
        lambda w: 0.05 * _square(POSITIVE * (w - center)),
        lambda w: 0.05 * cvxpy.sum_squares(cvxpy.multiply(POSITIVE, w - center)),
    ),
    "L1": Case(cp.L1(0.1), lambda w: 0.1 * np.abs(w).sum(), lambda w: 0.1 * cvxpy.norm1(w)),
    "ElasticNet": _elastic(0.2, 0.5),
    "ElasticNet nearly L1": _elastic(0.1, 0.95),
    "ElasticNet without L1": _elastic(0.1, 0.0),
    "QuadraticForm": _form(
        0.1, FACTOR.T @ FACTOR, center, cp.QuadraticForm(0.1, FACTOR.T @ FACTOR, center=center)
    ),
    "QuadraticForm diagonal": _form(0.1, np.diag(POSITIVE), _zero, cp.QuadraticForm(0.1, POSITIVE)),
    "QuadraticForm factor": _form(
        0.2, FACTOR.T @ FACTOR, _zero, cp.QuadraticForm(0.2, factor=FACTOR)
    ),
    "SquaredLp": _lp(0.1, 1.5),
    "SquaredLp nearly L1": _lp(0.1, 1.1),
    "SquaredLp like L2": _lp(0.1, 2.0),
    "Entropy": _entropy(0.1, _one, cp.Entropy(0.1)),
    "Entropy centered": _entropy(0.02, POSITIVE, cp.Entropy(0.02, center=POSITIVE)),
    "BoundedL2": _bounded(0.1, _zero, np.full(D, np.inf), _zero, cp.BoundedL2(0.1)),
    "BoundedL2 box": _bounded(
        0.1, LOWER, UPPER, center, cp.BoundedL2(0.1, lower=LOWER, upper=UPPER, center=center)
    ),
    "BoundedElasticNet": _bounded_elastic(0.2, 0.5, _zero, np.full(D, np.inf)),
    "BoundedElasticNet box": _bounded_elastic(0.1, 0.8, LOWER, UPPER),
    "ConstrainedL2": Case(
        cp.ConstrainedL2(0.1, ORDERED, lower=0.0),
        lambda w: 0.05 * _square(w),
        lambda w: 0.05 * cvxpy.sum_squares(w),
        lambda w: [ORDERED @ w >= 0],
        lambda w: np.sort(w),
    ),
    "ConstrainedL2 equation": Case(
        cp.ConstrainedL2(0.1, _one, lower=1.0, upper=1.0),
        lambda w: 0.05 * _square(w),
        lambda w: 0.05 * cvxpy.sum_squares(w),
        lambda w: [cvxpy.sum(w) == 1],
        lambda w: w + (1.0 - w.sum()) / D,
    ),
    "a user's own": Case(
        CoshRegularizer(0.1),
        lambda w: 0.1 * float(np.sum(np.cosh(w) - 1.0)),
        lambda w: 0.1 * cvxpy.sum(0.5 * (cvxpy.exp(w) + cvxpy.exp(-w)) - 1.0),
    ),
}
