"""The risk of a linear model: the weighted mean loss of the scores ``X w`` (plus an intercept).

    R(w) = sum_i weight_i * loss(y_i, x_i.w)                        without an intercept
    R(w) = min_c sum_i weight_i * loss(y_i, x_i.w + c)              with one

The intercept is minimised out, so it is not regularized, and the solver never sees it (paper 000,
section 2). A point carries its scores: moving along the line between two points costs no pass over
the data.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from cutplane.core.protocols import NonFiniteRisk, Plane, Quadratic, Vector
from cutplane.core.threads import map_blocks
from cutplane.data import Rows, as_rows
from cutplane.losses import Loss
from cutplane.losses.loss import AtBestOffset


class LinearRisk:
    """Mean loss of a linear model on a sample.

    Parameters
    ----------
    rows : Rows or array-like
        The features; see `cutplane.data.as_rows`.
    y : ndarray of shape (n_samples,)
        Targets: -1 and 1 for a classification loss, numbers otherwise.
    loss : Loss
        The loss of a score.
    weights : ndarray of shape (n_samples,), optional
        Weights of the examples, not negative; scaled to sum to one. Equal by default.
    intercept : bool
        Whether the model has an intercept.
    """

    convex = True
    intercept_shape: tuple[int, ...] = ()

    def __init__(
        self,
        rows: Any,
        y: Vector,
        loss: Loss,
        *,
        weights: Vector | None = None,
        intercept: bool = True,
    ) -> None:
        if not isinstance(loss, Loss):
            raise TypeError(f"loss must be a Loss such as cp.Hinge(), got {loss!r}")
        self.rows: Rows = as_rows(rows)
        n_samples, self.n_parameters = self.rows.shape
        y = np.ascontiguousarray(y, dtype=np.float64)
        if y.shape != (n_samples,):
            raise ValueError(f"y has shape {y.shape}, X has {n_samples} rows")
        if n_samples == 0:
            raise ValueError("a risk needs at least one example")
        self.loss = loss
        self.weights = normalised(weights, n_samples)
        self.intercept = intercept
        self.lower_bound = loss.lower_bound
        self.evaluations = 0
        loss.check_targets(y[self.weights > 0.0])
        # The intercept takes up a shift of the targets. Without it, targets around 1e10 would leave
        # their rounding errors in the offset of every plane.
        self.shift = float(self.weights @ y) if intercept and loss.of_residual else 0.0
        self.y = _shifted(y, self.shift) if self.shift else y

    def at(self, w: Vector) -> LinearPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        scores = self.rows.scores(w)
        # The extremes tell of all: one is infinite or NaN if any score is.
        if not np.isfinite(scores.max() - scores.min()):
            raise NonFiniteRisk(
                f"the scores overflow at coefficients of norm {np.linalg.norm(w):.3g}: "
                "scale the features, or raise lam"
            )
        return LinearPoint(self, w, scores)


class LinearPoint:
    """The risk of a linear model at ``w``, with the scores there.

    Attributes
    ----------
    w : ndarray
        Coefficients.
    scores : ndarray
        ``X w``, without the intercept.
    """

    def __init__(self, risk: LinearRisk, w: Vector, scores: Vector) -> None:
        self._risk = risk
        self.w = w
        self.scores = scores
        # With an intercept all comes at once; without, value and slopes are computed when wanted:
        # of most points only one of them is.
        self._best: AtBestOffset | None = None
        if risk.intercept:
            self._best = risk.loss.minimize_offset(risk.y, scores, risk.weights)

    @property
    def offset(self) -> float:
        """What is added to the scores: the best intercept, for targets shifted as in the risk."""
        return self._best.offset if self._best else 0.0

    @cached_property
    def value(self) -> float:
        """The risk."""
        risk = self._risk
        if self._best:
            return self._best.value
        return risk.loss.value(risk.y, self.scores, risk.weights)

    @cached_property
    def slopes(self) -> Vector:
        """The derivative of the risk by each score."""
        risk = self._risk
        if self._best:
            return self._best.slopes
        return risk.loss.slopes(risk.y, self.scores, risk.weights)

    @property
    def intercept(self) -> float:
        """The best intercept for these coefficients; zero if the model has none."""
        return self.offset + self._risk.shift

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        risk = self._risk
        scores = self.scores + self.offset if risk.intercept else self.scores
        offset = risk.loss.tangent_offset(risk.y, scores, self.slopes, risk.weights)
        return Plane(risk.rows.pullback(self.slopes), offset)

    def toward(self, other: LinearPoint) -> LinearSegment:
        """Return the risk on the ray from here through ``other``."""
        return LinearSegment(self._risk, self, other)


class LinearSegment:
    """The risk on a ray between two points, from their scores alone.

    With an intercept, the search goes along the ray of coefficients and intercept together: at
    both ends the intercept is the best one, in between it is nearly so, and no inner minimisation
    is needed.
    """

    def __init__(self, risk: LinearRisk, start: LinearPoint, end: LinearPoint) -> None:
        self._risk = risk
        self._start = start
        self._end = end
        self._direction = end.scores - start.scores

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimises the risk plus the regularizer on the ray."""
        risk, start = self._risk, self._start
        scores, direction = start.scores, self._direction
        if risk.intercept:
            scores = scores + start.offset
            direction = direction + (self._end.offset - start.offset)
        return risk.loss.minimize_along(risk.y, scores, direction, risk.weights, regularizer)

    def at(self, step: float) -> LinearPoint:
        """Return the point at ``step``, without a pass over the data."""
        start = self._start
        w = start.w + step * (self._end.w - start.w)
        return LinearPoint(self._risk, w, self._scores(step))

    def _scores(self, step: float) -> Vector:
        out = np.empty_like(self._direction)

        def block(i: slice) -> None:
            np.multiply(self._direction[i], step, out=out[i])
            out[i] += self._start.scores[i]

        map_blocks(block, len(out))
        return out


def _shifted(y: Vector, shift: float) -> Vector:
    """Return ``y - shift``, and zero where only rounding would be left of it."""
    difference = y - shift
    difference[np.abs(difference) <= 4.0 * np.finfo(np.float64).eps * abs(shift)] = 0.0
    return difference


def normalised(weights: Vector | None, n_samples: int) -> Vector:
    """Return weights that sum to one; equal ones if none are given."""
    if weights is None:
        return np.full(n_samples, 1.0 / n_samples)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n_samples,):
        raise ValueError(f"weights have shape {weights.shape}, X has {n_samples} rows")
    if not np.isfinite(weights).all() or (weights < 0.0).any():
        raise ValueError("weights must be finite and not negative")
    largest = weights.max()
    if largest == 0.0:
        raise ValueError("at least one weight must be positive")
    # Scaled by the largest first, so that neither huge nor tiny weights overflow the sum.
    scaled = weights / largest
    # Less than this has no effect, and is too close to the smallest numbers to divide by.
    scaled[scaled < 1e-200] = 0.0
    return np.asarray(scaled / scaled.sum())
