"""Small problems with known optima, for every method. A new problem is one entry of `PROBLEMS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import cvxpy
import numpy as np
import scipy.sparse

import cutplane as cp
from cutplane.core.protocols import Plane

from ..risks.exact import Objective, clarabel


class MaxOfPlanes:
    """``R(w) = max_i a_i.w + b_i``: a risk for the solver core alone, with exact searches.

    It keeps every point where it was evaluated, so that tests can look at what a method saw.
    """

    convex = True

    def __init__(self, slopes, offsets, lower_bound=-np.inf):
        self.slopes = np.asarray(slopes, dtype=np.float64)
        self.offsets = np.asarray(offsets, dtype=np.float64)
        self.n_parameters = self.slopes.shape[1]
        self.lower_bound = lower_bound
        self.evaluations = 0
        self.seen = []

    def identity(self):
        return {"planes": (self.slopes, self.offsets), "lower bound": self.lower_bound}

    def at(self, w):
        self.evaluations += 1
        return self.point(w)

    def point(self, w):
        point = PlanesPoint(self, w)
        self.seen.append(point)
        return point


class PlanesPoint:
    def __init__(self, risk, w):
        self.risk = risk
        self.w = w
        heights = risk.slopes @ w + risk.offsets
        self._top = int(np.argmax(heights))
        self.value = float(heights[self._top])

    def plane(self):
        return Plane(self.risk.slopes[self._top], float(self.risk.offsets[self._top]))

    def toward(self, other):
        return PlanesSegment(self, other)


class PlanesSegment:
    def __init__(self, start, end):
        self.start, self.end = start, end

    def minimize(self, regularizer):
        # The maximum of parabolas is lowest at zero, at one's own minimum, or where two cross.
        risk, direction = self.start.risk, self.end.w - self.start.w
        speeds = risk.slopes @ direction
        heights = risk.slopes @ self.start.w + risk.offsets
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = (heights[:, None] - heights) / (speeds - speeds[:, None])
            bottoms = -(speeds + regularizer.slope) / regularizer.curvature
        steps = np.concatenate([[0.0], crossings.ravel(), bottoms])
        steps = steps[np.isfinite(steps) & (steps >= 0.0)]
        tops = np.max(np.outer(steps, speeds) + heights, axis=1)
        totals = tops + regularizer.slope * steps + 0.5 * regularizer.curvature * steps**2
        return float(steps[np.argmin(totals)])

    def at(self, step):
        return self.start.risk.point(self.start.w + step * (self.end.w - self.start.w))


@dataclass
class Problem:
    """A risk (a new one each time, so that its count starts at zero) and its regularizer.

    `objective` and `solution` do not use the library.
    """

    name: str
    make_risk: Callable[[], object]
    regularizer: cp.L2
    objective: Callable[[np.ndarray], float]
    solve: Callable[[], np.ndarray]

    @cached_property
    def optimum(self) -> float:
        """The minimum to about 1e-9, from above."""
        return self.objective(self.solve())


def planes_problem(name, slopes, offsets, lam, *, lower_bound=-np.inf, center=None, theta=None):
    slopes, offsets = np.asarray(slopes), np.asarray(offsets)
    # The flat plane of the lower bound is part of the risk, as the contract of a Risk asks.
    if np.isfinite(lower_bound):
        slopes = np.vstack([slopes, np.zeros(slopes.shape[1])])
        offsets = np.append(offsets, lower_bound)
    c = np.zeros(slopes.shape[1]) if center is None else np.asarray(center)
    t = np.ones(slopes.shape[1]) if theta is None else np.asarray(theta)

    def objective(w):
        return 0.5 * lam * float(np.sum((t * (w - c)) ** 2)) + float(np.max(slopes @ w + offsets))

    def solve():
        w = cvxpy.Variable(slopes.shape[1])
        penalty = cvxpy.sum_squares(cvxpy.multiply(t, w - c))
        clarabel(cvxpy.Minimize(0.5 * lam * penalty + cvxpy.max(slopes @ w + offsets)))
        return w.value

    return Problem(
        name,
        lambda: MaxOfPlanes(slopes, offsets, lower_bound),
        cp.L2(lam, center=center, weights=theta),
        objective,
        solve,
    )


def linear_problem(name, X, y, loss, lam, *, weights=None, intercept=True, center=None, theta=None):
    exact = Objective(X, y, loss, lam, weights, intercept, center, theta)
    rows = cp.as_rows(X)
    return Problem(
        name,
        lambda: cp.ScoredRisk(rows, y, loss, weights=weights, intercept=intercept),
        cp.L2(lam, center=center, weights=theta),
        exact,
        lambda: exact.solution,
    )


def structured_problem(name, X, y, lam):
    """Three or more classes as structures: the worst class of each example, found by inference."""
    n, d = X.shape
    k = int(y.max()) + 1
    wrong = (np.arange(k) != y[:, None]).astype(np.float64)

    def objective(w):
        scores = X @ w.reshape(k, d).T
        worst = (wrong + scores).max(axis=1) - scores[np.arange(n), y]
        return 0.5 * lam * float(w @ w) + float(worst.mean())

    def solve():
        W = cvxpy.Variable((k, d))
        scores = X @ W.T
        right = cvxpy.sum(cvxpy.multiply(1.0 - wrong, scores), axis=1)
        worst = cvxpy.max(wrong + scores, axis=1) - right
        clarabel(cvxpy.Minimize(0.5 * lam * cvxpy.sum_squares(W) + cvxpy.sum(worst) / n))
        return W.value.ravel()

    def make_risk():
        return cp.StructuredRisk(cp.MulticlassModel(), X, y)

    return Problem(name, make_risk, cp.L2(lam), objective, solve)


def _problems():
    rng = np.random.default_rng(20240607)
    slopes, offsets = rng.normal(size=(30, 5)), rng.normal(size=30)
    yield planes_problem("planes", slopes, offsets, 0.3)
    yield planes_problem("planes with a floor", slopes, offsets, 0.05, lower_bound=0.5)
    yield planes_problem(
        "planes centered",
        slopes,
        offsets,
        0.3,
        center=[2.0, -1.0, 0.5, 0.0, 3.0],
        theta=[0.3, 1.0, 4.0, 1.0, 0.7],
    )
    yield planes_problem("one plane", [[3.0, -4.0]], [1.0], 2.0)

    X = rng.normal(size=(30, 4))
    X[np.abs(X) < 0.3] = 0.0
    signal = X @ rng.normal(size=4) + 0.7
    labels = np.where(signal + rng.normal(size=30) > 0, 1.0, -1.0)
    numbers = signal + rng.standard_t(3, size=30)
    counts = rng.poisson(np.exp(0.3 * signal)).astype(np.float64)
    weights = rng.uniform(0.1, 2.0, 30)
    weights[:5] = 0.0
    csr = scipy.sparse.csr_array(X)
    center, theta = rng.normal(size=4), rng.uniform(0.5, 2.0, 4)

    yield linear_problem("hinge", X, labels, cp.Hinge(), 0.1, intercept=False)
    yield linear_problem("hinge CSR intercept", csr, labels, cp.Hinge(), 0.1)
    yield linear_problem("hinge weighted", X, labels, cp.Hinge(), 0.1, weights=weights)
    yield linear_problem(
        "hinge float32 Fortran", np.asfortranarray(X, dtype=np.float32), labels, cp.Hinge(), 0.1
    )
    yield linear_problem(
        "hinge centered", X, labels, cp.Hinge(), 0.1, center=center, theta=theta, intercept=False
    )
    yield linear_problem("absolute", X, numbers, cp.Absolute(), 0.1)
    yield linear_problem("quantile CSR", csr, numbers, cp.Quantile(0.9), 0.1, weights=weights)
    yield linear_problem("logistic", X, labels, cp.Logistic(), 0.1)
    yield linear_problem("logistic centered", X, labels, cp.Logistic(), 0.1, center=center)
    yield linear_problem("squared", X, numbers, cp.Squared(), 0.3)
    yield linear_problem("squared CSR", csr, numbers, cp.Squared(), 0.3, intercept=False)
    yield linear_problem("huber", X, numbers, cp.Huber(), 0.1, theta=theta)
    yield linear_problem("poisson", X, counts, cp.Poisson(), 0.3)


PROBLEMS = {problem.name: problem for problem in _problems()}
