"""The risk of a linear model with many outputs, whose intercepts are parameters like others.

    R(W, e) = sum_i weight_i * loss(y_i, z_i),     z_i = W (x_i - mean(x)) + constants + 30 e

``W`` has one row an output, ``w`` holds its rows one after the other and then ``e``. The constants
are what a model without features would say, so ``e`` only says how far the outputs in the middle of
the data are from that. A loss that ties the outputs of an example together ties their intercepts
too, so that minimizing them out, as other risks do, would be a problem of its own. Here they are
regularized with ``W``, a 900th as much; because of the constants and the mean, no shift of features
or of targets makes a difference to what that costs.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.core.protocols import Plane, Quadratic
from cutplane.losses.columns.losses import ColumnLoss
from cutplane.losses.line_search import minimize_on_ray
from cutplane.maps import Rows, as_rows
from cutplane.risks.composite import Summable
from cutplane.risks.finite_scores import require_finite
from cutplane.risks.linear import normalized

# A poor step costs iterations, but no certificate is wrong because of it.
_STEP_ACCURACY = 1e-4

# Intercepts are the products of this and parameters, so that regularizing them has next to no
# effect: it adds 1e-4 to the objective on diabetes (lam = 0.01, two quantiles), where 1 would add
# 3 %. With 1 there are fewer iterations: 55 and 185 in place of 85 and 214 (nine quantiles of
# 8,000 examples of house_16H, lam = 0.01 and 1e-4).
_EASE = 30.0


class ColumnsRisk(Summable):
    """Mean loss of a linear model with many outputs on a sample.

    Parameters
    ----------
    rows : Rows or array-like
        The features; see `cutplane.maps.as_rows`.
    y : array-like
        Targets as the loss wants them.
    loss : ColumnLoss
        `cutplane.NonCrossing` or `cutplane.LabelRanking`.
    weights : ndarray of shape (n_samples,), optional
        Weights of the examples, not negative; scaled to sum to one. Equal by default.
    """

    convex = True
    lower_bound = 0.0

    def __init__(
        self, rows: Any, y: Any, loss: ColumnLoss, *, weights: Vector | None = None
    ) -> None:
        if not isinstance(loss, ColumnLoss):
            raise TypeError(f"loss must be a ColumnLoss such as cp.LabelRanking(), got {loss!r}")
        self.rows: Rows = as_rows(rows)
        n_samples, n_features = self.rows.shape
        if n_samples == 0:
            raise ValueError("a risk needs at least one example")
        self.y = loss.checked(y)
        if len(self.y) != n_samples:
            raise ValueError(f"y has {len(self.y)} rows, X has {n_samples}")
        self.loss = loss
        self.weights = normalized(weights, n_samples)
        self.mean = self.rows.pullback(self.weights)
        self.constants = loss.constants(self.y, self.weights)
        n_columns = loss.n_columns(self.y)
        self.intercept_shape = (n_columns,)
        self.n_parameters = n_columns * (n_features + 1)
        self.evaluations = 0

    def split(self, w: Vector) -> tuple[Matrix, Vector]:
        """Return the rows of coefficients, and the intercepts for features as they are."""
        n_columns = len(self.constants)
        coef = w[:-n_columns].reshape(n_columns, -1)
        intercept: Vector = self.constants + _EASE * w[-n_columns:] - coef @ self.mean
        return coef, intercept

    def at(self, w: Vector) -> ColumnsPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        coef, intercept = self.split(w)
        scores = self.rows.class_scores(coef)
        scores += intercept
        require_finite(scores, w)
        return ColumnsPoint(self, w, scores)

    @cached_property
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        zeros = np.zeros((len(self.y), len(self.constants)))
        return abs(self.loss.value(self.y, zeros, self.weights))

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "features": self.rows,
            "targets": self.y,
            "weights": self.weights,
            "loss": self.loss,
        }

    def __repr__(self) -> str:
        return f"ColumnsRisk({self.rows}, {self.loss!r})"


class ColumnsPoint:
    """The risk at ``w``, with the scores there.

    Attributes
    ----------
    w : ndarray
        Coefficients, output after output, then the shifts of the intercepts.
    scores : ndarray of shape (n_samples, n_outputs)
        With the intercepts.
    """

    def __init__(self, risk: ColumnsRisk, w: Vector, scores: Matrix) -> None:
        self._risk = risk
        self.w = w
        self.scores = scores

    @property
    def intercept(self) -> Vector:
        """The intercepts for features as they are."""
        return self._risk.split(self.w)[1]

    @cached_property
    def value(self) -> float:
        """The risk."""
        risk = self._risk
        return risk.loss.value(risk.y, self.scores, risk.weights)

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        risk = self._risk
        slopes, offset = risk.loss.tangent(risk.y, self.scores, risk.weights)
        by_shift = slopes.sum(axis=0)
        by_coef = risk.rows.class_pullback(slopes) - np.outer(by_shift, risk.mean)
        offset += dot(by_shift, risk.constants)
        return Plane(np.concatenate([by_coef.ravel(), _EASE * by_shift]), offset)

    def toward(self, other: ColumnsPoint) -> ColumnsSegment:
        """Return the risk on the ray from here through ``other``."""
        return ColumnsSegment(self._risk, self, other)


class ColumnsSegment:
    """The risk on a ray between two points, from their scores alone."""

    def __init__(self, risk: ColumnsRisk, start: ColumnsPoint, end: ColumnsPoint) -> None:
        self._risk = risk
        self._start = start
        self._end = end
        self._direction = end.scores - start.scores

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        return minimize_on_ray(self.along, regularizer, accuracy=_STEP_ACCURACY)

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        risk, scores = self._risk, self._start.scores
        return risk.loss.on_ray(risk.y, scores, self._direction, risk.weights, step)

    def at(self, step: float) -> ColumnsPoint:
        """Return the point at ``step``, without a pass over the data."""
        start = self._start
        w = start.w + step * (self._end.w - start.w)
        return ColumnsPoint(self._risk, w, start.scores + step * self._direction)
