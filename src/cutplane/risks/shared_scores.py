"""The risk of one score that several losses look at, each with an offset of its own.

    R(w) = sum_k min_{c_k} sum_i weight_i * loss_k(y_ik, x_i.w + c_k)

Given the scores, the offsets are separate problems of one dimension, each minimized out exactly as
the intercept of :mod:`cutplane.risks.linear` is. So planes hold for all offsets, and the data are
read once for all losses.

Grades with thresholds are one example (paper 000, ordinal regression): loss ``k`` asks whether the
grade is above ``k``, and its offset is minus the threshold. Parallel quantiles are another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Plane, Quadratic
from cutplane.losses import Loss
from cutplane.losses.line_search import minimize_on_ray
from cutplane.maps import Rows, as_rows
from cutplane.risks.composite import Summable
from cutplane.risks.finite_scores import require_finite
from cutplane.risks.linear import normalized

# A poor step costs iterations, but no certificate is wrong because of it. A search to the last
# digit takes up to 1.3 times the trials, and saves no more than 2 of 48 iterations (3,000 grades of
# 5 kinds, 10 features, gap 1e-8, three losses).
_STEP_ACCURACY = 1e-4


class Term(NamedTuple):
    """What one of the losses compares the scores with."""

    y: Vector
    loss: Loss


class SharedScoresRisk(Summable):
    """Sum of the mean losses of one linear score, each with an intercept of its own.

    Parameters
    ----------
    rows : Rows or array-like
        The features; see `cutplane.maps.as_rows`.
    terms : sequence of pairs
        Targets of shape (n_samples,), and the `Loss` that compares the scores with them.
    weights : ndarray of shape (n_samples,), optional
        Weights of the examples, not negative; scaled to sum to one. Equal by default.
    """

    convex = True

    def __init__(
        self, rows: Any, terms: Sequence[tuple[Any, Loss]], *, weights: Vector | None = None
    ) -> None:
        self.rows: Rows = as_rows(rows)
        n_samples, self.n_parameters = self.rows.shape
        if n_samples == 0:
            raise ValueError("a risk needs at least one example")
        if not terms:
            raise ValueError("a risk needs at least one loss")
        self.weights = normalized(weights, n_samples)
        self.terms = [Term(np.ascontiguousarray(y, dtype=np.float64), loss) for y, loss in terms]
        for y, loss in self.terms:
            if not isinstance(loss, Loss):
                raise TypeError(f"a loss must be a Loss such as cp.Hinge(), got {loss!r}")
            if y.shape != (n_samples,):
                raise ValueError(f"targets have shape {y.shape}, X has {n_samples} rows")
            loss.check_targets(y[self.weights > 0.0])
        self.intercept_shape = (len(self.terms),)
        self.lower_bound = sum(loss.lower_bound for _, loss in self.terms)
        self.evaluations = 0

    def at(self, w: Vector) -> SharedScoresPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        scores = self.rows.scores(w)
        require_finite(scores, w)
        return SharedScoresPoint(self, w, scores, np.zeros(len(self.terms)))

    @cached_property
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        zeros = np.zeros(len(self.weights))
        return sum(abs(loss.value(y, zeros, self.weights)) for y, loss in self.terms)

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "features": self.rows,
            "targets": [y for y, _ in self.terms],
            "weights": self.weights,
            "loss": [loss for _, loss in self.terms],
        }

    def __repr__(self) -> str:
        losses = ", ".join(dict.fromkeys(repr(loss) for _, loss in self.terms))
        return f"SharedScoresRisk({self.rows}, {len(self.terms)} terms of {losses})"


class SharedScoresPoint:
    """The risk at ``w``, with the scores there.

    Attributes
    ----------
    w : ndarray
        Coefficients.
    scores : ndarray
        ``X w``, without any offset.
    intercept : ndarray of shape (n_terms,)
        The best offset of each loss.
    value : float
        The risk.
    """

    def __init__(self, risk: SharedScoresRisk, w: Vector, scores: Vector, guess: Vector) -> None:
        self._risk = risk
        self.w = w
        self.scores = scores
        best = [
            loss.minimize_offset(y, scores + near, risk.weights)
            for (y, loss), near in zip(risk.terms, guess.tolist(), strict=True)
        ]
        self.intercept = guess + np.array([found.offset for found in best])
        self._values = [found.value for found in best]
        self.value = float(sum(self._values))

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        risk = self._risk
        total, offset = np.zeros_like(self.scores), 0.0
        for (y, loss), own, value in zip(risk.terms, self.intercept, self._values, strict=True):
            # Balanced slopes belong to the same tangent at all offsets.
            slopes = loss.balanced_slopes(y, self.scores, float(own), risk.weights)
            offset += loss.tangent_offset(y, self.scores, slopes, risk.weights, value=value)
            total += slopes
        return Plane(risk.rows.pullback(total), offset)

    def toward(self, other: SharedScoresPoint) -> SharedScoresSegment:
        """Return the risk on the ray from here through ``other``."""
        return SharedScoresSegment(self._risk, self, other)


class SharedScoresSegment:
    """The risk on a ray between two points, from their scores alone.

    The search goes along coefficients and offsets together, as in
    `cutplane.risks.linear.LinearSegment`.
    """

    def __init__(
        self, risk: SharedScoresRisk, start: SharedScoresPoint, end: SharedScoresPoint
    ) -> None:
        self._risk = risk
        self._start = start
        self._end = end
        self._direction = end.scores - start.scores
        self._speeds = end.intercept - start.intercept

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        return minimize_on_ray(self.along, regularizer, accuracy=_STEP_ACCURACY)

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        risk, scores = self._risk, self._scores(step)
        offsets = self._offsets(step)
        value = slope = 0.0
        for (y, loss), offset, speed in zip(risk.terms, offsets, self._speeds, strict=True):
            own, slopes = loss(y, scores + offset, risk.weights)
            value += own
            slope += dot(slopes, self._direction) + speed * float(slopes.sum())
        return value, slope

    def at(self, step: float) -> SharedScoresPoint:
        """Return the point at ``step``, without a pass over the data."""
        start = self._start
        w = start.w + step * (self._end.w - start.w)
        return SharedScoresPoint(self._risk, w, self._scores(step), self._offsets(step))

    def _scores(self, step: float) -> Vector:
        return self._start.scores + step * self._direction

    def _offsets(self, step: float) -> Vector:
        offsets: Vector = self._start.intercept + step * self._speeds
        return offsets
