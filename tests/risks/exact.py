"""The linear objectives once more, independent of the library: by formula, and by an exact solver.

    J(w) = lam/2 * |theta * (w - center)|^2 + min_c sum_i p_i * loss(y_i, x_i.w + c)

`Objective` evaluates it in plain NumPy and hands it to CVXPY with Clarabel. Whatever ``w`` the
solver returns, ``J(w)`` is an upper bound on the optimum, so comparing a lower bound with it needs
no tolerance for the solver.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import cvxpy
import numpy as np
import scipy.sparse
from scipy.optimize import minimize_scalar
from scipy.special import expit, xlogy

from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    SmoothHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)


class Twin(NamedTuple):
    """A loss by its formula: each example's value, and the same as a CVXPY expression."""

    values: Callable
    expression: Callable


def _huber(u, delta):
    return np.where(np.abs(u) <= delta, 0.5 * u**2, delta * (np.abs(u) - 0.5 * delta))


def _above(u, epsilon=0.0):
    return np.maximum(np.abs(u) - epsilon, 0.0)


TWINS: dict[type[Loss], Twin] = {
    Hinge: Twin(
        lambda loss, y, z: np.maximum(1 - y * z, 0),
        lambda loss, y, z: cvxpy.pos(1 - cvxpy.multiply(y, z)),
    ),
    SquaredHinge: Twin(
        lambda loss, y, z: np.maximum(1 - y * z, 0) ** 2,
        lambda loss, y, z: cvxpy.square(cvxpy.pos(1 - cvxpy.multiply(y, z))),
    ),
    SmoothHinge: Twin(
        lambda loss, y, z: _huber(np.maximum(1 - y * z, 0), loss.smoothing) / loss.smoothing,
        lambda loss, y, z: (
            cvxpy.huber(cvxpy.pos(1 - cvxpy.multiply(y, z)), loss.smoothing) / (2 * loss.smoothing)
        ),
    ),
    Logistic: Twin(
        lambda loss, y, z: np.logaddexp(0, -y * z),
        lambda loss, y, z: cvxpy.logistic(-cvxpy.multiply(y, z)),
    ),
    Exponential: Twin(
        lambda loss, y, z: np.exp(-y * z),
        lambda loss, y, z: cvxpy.exp(-cvxpy.multiply(y, z)),
    ),
    Squared: Twin(
        lambda loss, y, z: 0.5 * (z - y) ** 2,
        lambda loss, y, z: 0.5 * cvxpy.square(z - y),
    ),
    Absolute: Twin(
        lambda loss, y, z: np.abs(z - y),
        lambda loss, y, z: cvxpy.abs(z - y),
    ),
    Quantile: Twin(
        lambda loss, y, z: np.maximum(loss.quantile * (y - z), (1 - loss.quantile) * (z - y)),
        lambda loss, y, z: cvxpy.maximum(loss.quantile * (y - z), (1 - loss.quantile) * (z - y)),
    ),
    EpsilonInsensitive: Twin(
        lambda loss, y, z: _above(z - y, loss.epsilon),
        lambda loss, y, z: cvxpy.pos(cvxpy.abs(z - y) - loss.epsilon),
    ),
    SquaredEpsilonInsensitive: Twin(
        lambda loss, y, z: _above(z - y, loss.epsilon) ** 2,
        lambda loss, y, z: cvxpy.square(cvxpy.pos(cvxpy.abs(z - y) - loss.epsilon)),
    ),
    Huber: Twin(
        lambda loss, y, z: _huber(z - y, loss.delta),
        lambda loss, y, z: 0.5 * cvxpy.huber(z - y, loss.delta),
    ),
    Poisson: Twin(
        lambda loss, y, z: np.exp(z) - y * z + xlogy(y, y) - y,
        lambda loss, y, z: cvxpy.exp(z) - cvxpy.multiply(y, z) + (xlogy(y, y) - y),
    ),
}


# First and second derivative by the score, of the losses that need an exponential cone.
DERIVATIVES: dict[type[Loss], Callable] = {
    Logistic: lambda y, z: (-y * expit(-y * z), expit(z) * expit(-z)),
    Exponential: lambda y, z: (-y * np.exp(-y * z), np.exp(-y * z)),
    Poisson: lambda y, z: (np.exp(z) - y, np.exp(z)),
}


@dataclass
class Objective:
    """A linear objective by its formula. Weights need not sum to one."""

    X: object
    y: np.ndarray
    loss: Loss
    lam: float
    weights: np.ndarray | None = None
    intercept: bool = True
    center: np.ndarray | None = None
    theta: np.ndarray | None = None

    def __post_init__(self):
        dense = self.X.toarray() if scipy.sparse.issparse(self.X) else np.asarray(self.X)
        weights = np.ones(len(self.y)) if self.weights is None else np.asarray(self.weights)
        used = weights > 0
        self.rows = dense[used].astype(np.float64)
        self.targets = np.asarray(self.y, dtype=np.float64)[used]
        self.shares = weights[used] / weights[used].sum()
        self._center = np.zeros(dense.shape[1]) if self.center is None else self.center
        self._theta = np.ones(dense.shape[1]) if self.theta is None else self.theta

    def __call__(self, w) -> float:
        """Return J(w)."""
        return self.penalty(w) + self.risk(w)

    def penalty(self, w) -> float:
        return 0.5 * self.lam * float(np.sum((self._theta * (w - self._center)) ** 2))

    def risk(self, w) -> float:
        return self.best_offset(self.rows @ w)[1] if self.intercept else self.mean(self.rows @ w)

    def mean(self, scores) -> float:
        """Return the weighted mean loss of scores."""
        with np.errstate(over="ignore"):  # infinite far out, as it should be
            return float(
                self.shares @ TWINS[type(self.loss)].values(self.loss, self.targets, scores)
            )

    def best_offset(self, scores) -> tuple[float, float]:
        """Return the constant added to the scores that makes the mean loss smallest, and that."""
        # Kinks are exact candidates for piecewise linear losses; the search is for smooth ones,
        # where its error in the offset (1e-8) shows squared in the value.
        reach = getattr(self.loss, "epsilon", 0.0)
        kinks = np.concatenate([self.targets - scores - reach, self.targets - scores + reach])
        far = 50.0 if isinstance(self.loss, Logistic | Exponential | Poisson) else 0.0
        lo, hi = kinks.min() - far, kinks.max() + far
        found = minimize_scalar(
            lambda c: self.mean(scores + c),
            bounds=(lo, max(hi, lo + 1e-9)),
            method="bounded",
            options={"xatol": 1e-11},
        )
        candidates = np.append(kinks, found.x)
        values = [self.mean(scores + c) for c in candidates]
        best = int(np.argmin(values))
        return float(candidates[best]), float(values[best])

    @cached_property
    def solution(self) -> np.ndarray:
        """The exact solver's w."""
        w = cvxpy.Variable(self.rows.shape[1])
        scores = self.rows @ w
        if self.intercept:
            scores = scores + cvxpy.Variable()
        losses = TWINS[type(self.loss)].expression(self.loss, self.targets, scores)
        penalty = cvxpy.sum_squares(cvxpy.multiply(self._theta, w - self._center))
        goal = cvxpy.Minimize(0.5 * self.lam * penalty + self.shares @ losses)
        if type(self.loss) not in DERIVATIVES:
            clarabel(goal)
            return w.value
        # The exponential cone does not always allow 1e-8. Newton's method does the rest.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            clarabel(goal, 1e-8)
        return self._polished(w.value)

    def _polished(self, w):
        derivatives = DERIVATIVES[type(self.loss)]
        curvature = self.lam * self._theta**2
        for _ in range(4):
            scores = self.rows @ w
            offset = self.best_offset(scores)[0] if self.intercept else 0.0
            first, second = derivatives(self.targets, scores + offset)
            X = (
                np.column_stack([self.rows, np.ones(len(self.targets))])
                if self.intercept
                else self.rows
            )
            gradient = X.T @ (self.shares * first)
            hessian = X.T @ ((self.shares * second)[:, None] * X)
            gradient[: len(w)] += curvature * (w - self._center)
            hessian[: len(w), : len(w)] += np.diag(curvature)
            better = w - np.linalg.lstsq(hessian, gradient)[0][: len(w)]
            if not self(better) < self(w):
                break
            w = better
        return w

    @cached_property
    def optimum(self) -> float:
        """J of the exact solver's w: not below the true minimum, above it by 1e-9 or so at most."""
        return self(self.solution)


def clarabel(goal, tolerance=1e-11) -> None:
    """Solve to a tight tolerance; CVXPY warns, which is an error here, if it is not reached."""
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
    cvxpy.Problem(goal).solve(solver=cvxpy.CLARABEL, **tolerances)
