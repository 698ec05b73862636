"""Objectives once more, in extended precision and without the library.

    J(w, c) = r(w) + R(w, c)

``c`` are intercepts that are not regularized. Risks are sums of terms, written from the formulas of
the documentation. Each term can be evaluated (`numpy.longdouble`, 64 bits of mantissa on x86), says
by how much rounding in double precision may move it, and has an expression for CVXPY.

Whatever point a solver returns, its ``J`` is an upper bound on the optimum. So a claim that it
contradicts is false, however good or bad the solver is: no tolerance stands for the solver.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import cvxpy
import numpy as np

Extended = np.longdouble
EPS = float(np.finfo(np.float64).eps)


def extended(array):
    return np.asarray(array).astype(Extended)


def _pos(u):
    return np.maximum(u, Extended(0))


def _half_square_then_line(u, width):
    return np.where(np.abs(u) <= width, u * u / 2, width * np.abs(u) - width * width / 2)


def _log1p_exp(u):
    return _pos(u) + np.log1p(np.exp(-np.abs(u)))


def _y_log_y(y):
    return np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), 0)


# The table of docs/regression.md: of target y, score z and the loss's parameter.
VALUES = {
    "hinge": lambda y, z, _: _pos(1 - y * z),
    "squared_hinge": lambda y, z, _: _pos(1 - y * z) ** 2,
    "smooth_hinge": lambda y, z, s: _half_square_then_line(_pos(1 - y * z), s) / s,
    "logistic": lambda y, z, _: _log1p_exp(-y * z),
    "exponential": lambda y, z, _: np.exp(-y * z),
    "squared": lambda y, z, _: (z - y) ** 2 / 2,
    "absolute": lambda y, z, _: np.abs(z - y),
    "quantile": lambda y, z, q: np.maximum(q * (y - z), (1 - q) * (z - y)),
    "epsilon_insensitive": lambda y, z, e: _pos(np.abs(z - y) - e),
    "squared_epsilon_insensitive": lambda y, z, e: _pos(np.abs(z - y) - e) ** 2,
    "huber": lambda y, z, d: _half_square_then_line(z - y, d),
    "poisson": lambda y, z, _: np.exp(z) - y * z + _y_log_y(y) - y,
}

EXPRESSIONS = {
    "hinge": lambda y, z, _: cvxpy.pos(1 - cvxpy.multiply(y, z)),
    "squared_hinge": lambda y, z, _: cvxpy.square(cvxpy.pos(1 - cvxpy.multiply(y, z))),
    "smooth_hinge": lambda y, z, s: cvxpy.huber(cvxpy.pos(1 - cvxpy.multiply(y, z)), s) / (2 * s),
    "logistic": lambda y, z, _: cvxpy.logistic(-cvxpy.multiply(y, z)),
    "exponential": lambda y, z, _: cvxpy.exp(-cvxpy.multiply(y, z)),
    "squared": lambda y, z, _: cvxpy.square(z - y) / 2,
    "absolute": lambda y, z, _: cvxpy.abs(z - y),
    "quantile": lambda y, z, q: cvxpy.maximum(q * (y - z), (1 - q) * (z - y)),
    "epsilon_insensitive": lambda y, z, e: cvxpy.pos(cvxpy.abs(z - y) - e),
    "squared_epsilon_insensitive": lambda y, z, e: cvxpy.square(cvxpy.pos(cvxpy.abs(z - y) - e)),
    "huber": lambda y, z, d: cvxpy.huber(z - y, d) / 2,
    "poisson": lambda y, z, _: (
        cvxpy.exp(z) - cvxpy.multiply(y, z) + (np.asarray(_y_log_y(y), dtype=float) - y)
    ),
}


@dataclass
class Pointwise:
    """``sum_i p_i loss(y_i, x_i.w + c)``; ``n_offsets`` is 1 with an intercept, else 0."""

    loss: str
    X: np.ndarray
    y: np.ndarray
    p: np.ndarray
    parameter: float = 0.0
    n_offsets: int = 0

    def _scores(self, w, c):
        z = extended(self.X) @ w
        return z + c[0] if self.n_offsets else z

    def _values(self, z):
        return VALUES[self.loss](extended(self.y), z, Extended(self.parameter))

    def value(self, w, c):
        return extended(self.p) @ self._values(self._scores(w, c))

    def rounding(self, w, c):
        """Return what scores in double precision may change: all of them, each the worse way."""
        z = self._scores(w, c)
        shift = np.abs(c[0]) if self.n_offsets else Extended(0)
        size = np.abs(extended(self.X)) @ np.abs(w) + shift + np.abs(extended(self.y)) + 1
        by = EPS * (len(w) + 4) * size
        here = self._values(z)
        changes = [np.abs(self._values(z + sign * by) - here) for sign in (1, -1)]
        terms = np.abs(here)
        if self.loss == "poisson":
            terms = np.exp(z) + np.abs(self.y * z) + np.abs(_y_log_y(extended(self.y))) + self.y
        return extended(self.p) @ (np.maximum(*changes) + 8 * EPS * terms)

    def expression(self, w, c):
        z = self.X @ w
        z = z + c[0] if self.n_offsets else z
        return np.asarray(self.p, dtype=float) @ EXPRESSIONS[self.loss](self.y, z, self.parameter)


@dataclass
class Maxima:
    """``sum_g factor_g max_j (slopes_gj.w + tilts_gj.c + offsets_gj)``: a list of groups of planes.

    The hinge loss of many classes, measures of a whole sample, pairs of documents, structured
    models: all of them, with every output written out.
    """

    factors: np.ndarray
    slopes: list[np.ndarray]
    offsets: list[np.ndarray]
    tilts: list[np.ndarray] | None = None
    n_offsets: int = 0

    def _heights(self, g, w, c):
        heights = extended(self.slopes[g]) @ w + extended(self.offsets[g])
        return heights + extended(self.tilts[g]) @ c if self.n_offsets else heights

    def value(self, w, c):
        tops = [self._heights(g, w, c).max() for g in range(len(self.factors))]
        return extended(self.factors) @ np.array(tops)

    def rounding(self, w, c):
        total = Extended(0)
        for g, factor in enumerate(self.factors):
            size = np.abs(extended(self.slopes[g])) @ np.abs(w) + np.abs(extended(self.offsets[g]))
            if self.n_offsets:
                size = size + np.abs(extended(self.tilts[g])) @ np.abs(c)
            total += factor * EPS * (len(w) + 8) * (size.max() + 1)
        return total

    def expression(self, w, c):
        total = 0
        for g, factor in enumerate(self.factors):
            heights = self.slopes[g] @ w + self.offsets[g]
            if self.n_offsets:
                heights = heights + self.tilts[g] @ c
            total = total + float(factor) * cvxpy.max(heights)
        return total


@dataclass
class SoftmaxTerm:
    """``sum_i p_i (log sum_j exp(z_ij) - z_iy)`` with ``z = X W' + c``, rows of W in ``w``."""

    X: np.ndarray
    y: np.ndarray
    p: np.ndarray
    n_classes: int
    n_offsets: int = 0

    def _scores(self, w, c):
        z = extended(self.X) @ w.reshape(self.n_classes, -1).T
        return z + c if self.n_offsets else z

    def value(self, w, c):
        z = self._scores(w, c)
        behind = z - z[np.arange(len(self.y)), self.y][:, None]
        top = behind.max(axis=1)
        return extended(self.p) @ (top + np.log(np.exp(behind - top[:, None]).sum(axis=1)))

    def rounding(self, w, c):
        sizes = np.abs(extended(self.X)) @ np.abs(w.reshape(self.n_classes, -1)).T
        if self.n_offsets:
            sizes = sizes + np.abs(c)
        return extended(self.p) @ (2 * EPS * (len(w) + 8) * (sizes.max(axis=1) + 1))

    def expression(self, w, c):
        d = self.X.shape[1]
        total = 0
        for i, own in enumerate(self.y):
            rows = [self.X[i] @ w[j * d : (j + 1) * d] for j in range(self.n_classes)]
            z = cvxpy.hstack([row + (c[j] if self.n_offsets else 0) for j, row in enumerate(rows)])
            total = total + float(self.p[i]) * (cvxpy.log_sum_exp(z) - z[int(own)])
        return total


@dataclass
class Scaled:
    """Terms of a sum of risks: each with a factor and with intercepts of its own."""

    parts: list[tuple[float, object]]

    @property
    def n_offsets(self):
        return sum(part.n_offsets for _, part in self.parts)

    def _with_offsets(self, c):
        at = 0
        for factor, part in self.parts:
            yield factor, part, c[at : at + part.n_offsets] if part.n_offsets else ()
            at += part.n_offsets

    def value(self, w, c):
        return sum(Extended(f) * part.value(w, own) for f, part, own in self._with_offsets(c))

    def rounding(self, w, c):
        return sum(Extended(f) * part.rounding(w, own) for f, part, own in self._with_offsets(c))

    def expression(self, w, c):
        return sum(f * part.expression(w, own) for f, part, own in self._with_offsets(c))


@dataclass
class Penalty:
    """A regularizer by its formula: its value in extended precision, and for CVXPY."""

    value: object
    expression: object
    constraints: object = lambda w: []
    project: object = lambda w: w


@dataclass
class Reference:
    """The objective of a problem, and the best value that is known of it."""

    term: object
    penalty: Penalty
    n_parameters: int

    def __post_init__(self):
        self.best = Extended(np.inf)
        self.solved = False

    def objective(self, w, c=()):
        """Return ``J(w, c)``, and remember the least."""
        w, c = extended(w), extended(np.atleast_1d(c))
        value = self.penalty.value(w) + self.term.value(w, c)
        self.best = min(self.best, value)
        return value

    def rounding(self, w, c=()):
        """Return by how much ``J(w, c)`` in double precision may be off."""
        w, c = extended(w), extended(np.atleast_1d(c))
        value = np.abs(self.penalty.value(w)) + np.abs(self.term.value(w, c))
        return self.term.rounding(w, c) + EPS * (self.n_parameters + 64) * value

    def solve(self):
        """Let Clarabel look for the optimum; what it finds only ever lowers `best`."""
        w = cvxpy.Variable(self.n_parameters)
        c = cvxpy.Variable(self.term.n_offsets) if self.term.n_offsets else None
        goal = cvxpy.Minimize(self.penalty.expression(w) + self.term.expression(w, c))
        problem = cvxpy.Problem(goal, self.penalty.constraints(w))
        tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it may be inaccurate costs strength, not truth
            try:
                problem.solve(solver=cvxpy.CLARABEL, **tight)
            except cvxpy.SolverError:
                return
        if w.value is not None and np.isfinite(w.value).all():
            w0 = np.asarray(self.penalty.project(w.value))
            self.objective(w0, () if c is None else c.value)
            self.solved = problem.status == "optimal"
