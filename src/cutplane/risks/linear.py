"""The risk of a linear model: the weighted mean loss of the scores ``X w`` (plus an intercept).

    R(w) = sum_i weight_i * loss(y_i, x_i.w)                        without an intercept
    R(w) = min_c sum_i weight_i * loss(y_i, x_i.w + c)              with one

The intercept is minimized out, so it is not regularized, and the solver never sees it (paper 000,
section 2). A point carries its scores: moving along the line between two points costs no pass over
the data.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import NonFiniteRisk, Plane, Quadratic
from cutplane.losses import Loss
from cutplane.losses.loss import AtBestOffset
from cutplane.maps import Rows, as_rows
from cutplane.risks.composite import Summable
from cutplane.risks.groups import Groups, good_number_of_groups


class LinearRisk(Summable):
    """Mean loss of a linear model on a sample.

    Parameters
    ----------
    rows : Rows or array-like
        The features; see `cutplane.maps.as_rows`.
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
        self.weights = normalized(weights, n_samples)
        self.intercept = intercept
        # To a loss of differences of scores an intercept means nothing.
        self.minimizes_intercept = intercept and not loss.of_differences
        self.lower_bound = loss.lower_bound
        self.evaluations = 0
        self._groups: dict[int, Groups] = {}
        used = self.weights > 0.0
        loss.check_targets(y[used])
        loss.check_weights(self.weights[used])
        # The intercept takes up a shift of the targets. Without it, targets around 1e10 would leave
        # their rounding errors in the offset of every plane.
        self.shift = _middle(y, self.weights) if intercept and loss.of_residual else 0.0
        self.y = y - self.shift if self.shift else y

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest."""
        return good_number_of_groups(self.rows) if self.loss.additive else 1

    def groups(self, n_groups: int) -> Groups:
        """Return the partition of the examples into so many groups."""
        if not self.loss.additive:
            raise ValueError(
                f"groups need a loss that is a sum over examples, {self.loss!r} is not"
            )
        if n_groups not in self._groups:
            self._groups[n_groups] = Groups(self.rows, self.y, self.weights, n_groups)
        return self._groups[n_groups]

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return self.groups(n_groups).lower_bounds(self.loss)

    def at(self, w: Vector) -> LinearPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        return self.with_scores(w, self.rows.scores(w))

    def with_scores(self, w: Vector, scores: Vector, *, guess: float = 0.0) -> LinearPoint:
        """Return the point at ``w``, whose scores are known; ``guess`` is as for the point."""
        # The extremes tell of all: one is infinite or NaN if any score is.
        if not np.isfinite(scores.max() - scores.min()):
            raise NonFiniteRisk(
                f"the scores overflow at coefficients of norm {np.linalg.norm(w):.3g}: "
                "scale the features, or raise lam"
            )
        return LinearPoint(self, w, scores, guess=guess)

    @cached_property
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        return abs(self.loss.value(self.y, np.zeros(len(self.y)), self.weights))

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "features": self.rows,
            "targets": (self.y, self.shift),
            "weights": self.weights,
            "loss": self.loss,
            "intercept": self.intercept,
        }

    def __repr__(self) -> str:
        intercept = "intercept" if self.intercept else "no intercept"
        return f"LinearRisk({self.rows}, {self.loss!r}, {intercept})"


class LinearPoint:
    """The risk of a linear model at ``w``, with the scores there.

    Attributes
    ----------
    w : ndarray
        Coefficients.
    scores : ndarray
        ``X w``, without the intercept.
    guess : float
        Where to begin to look for the best intercept.
    """

    def __init__(self, risk: LinearRisk, w: Vector, scores: Vector, *, guess: float = 0.0) -> None:
        self._risk = risk
        self.w = w
        self.scores = scores
        # Slopes, a vector as long as the sample, are not kept: the plane is all they are for, and
        # of most points it is not wanted.
        self._best: AtBestOffset | None = None
        self._group_planes: dict[int, list[Plane]] = {}
        if risk.minimizes_intercept:
            best = risk.loss.minimize_offset(risk.y, scores + guess, risk.weights)
            self._best = best._replace(offset=best.offset + guess)

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

    @property
    def slopes(self) -> Vector:
        """The derivative of the risk by each score; computed afresh each time."""
        risk = self._risk
        if self._best:
            return risk.loss.balanced_slopes(risk.y, self.scores, self.offset, risk.weights)
        return risk.loss.slopes(risk.y, self.scores, risk.weights)

    @cached_property
    def intercept(self) -> float:
        """The best intercept for these coefficients; zero if the model has none.

        Where the loss has none to prefer, what its threshold says.
        """
        risk = self._risk
        if risk.intercept and risk.loss.of_differences:
            return -risk.loss.threshold(risk.y, self.scores, risk.weights)
        return self.offset + risk.shift

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group, all in one pass over the data, the first time."""
        if n_groups not in self._group_planes:
            risk = self._risk
            self._group_planes[n_groups] = risk.groups(n_groups).planes(
                risk.loss, self._shifted_scores, self.slopes, tilted=risk.intercept
            )
        return self._group_planes[n_groups]

    @cached_property
    def _plane(self) -> Plane:
        risk = self._risk
        slopes, offset = risk.loss.tangent(
            risk.y, self.scores, risk.weights, value=self.value, best=self._best
        )
        return Plane(risk.rows.pullback(slopes), offset)

    @property
    def _shifted_scores(self) -> Vector:
        return self.scores + self.offset if self._risk.minimizes_intercept else self.scores

    def toward(self, other: LinearPoint) -> LinearSegment:
        """Return the risk on the ray from here through ``other``."""
        return LinearSegment(self._risk, self, other)


class LinearSegment:
    """The risk on a ray between two points, from their scores alone.

    With an intercept, the search goes along the ray of coefficients and intercept together: at
    both ends the intercept is the best one, in between it is nearly so, and no inner minimization
    is needed.
    """

    def __init__(self, risk: LinearRisk, start: LinearPoint, end: LinearPoint) -> None:
        self._risk = risk
        self._start = start
        self._end = end

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        risk = self._risk
        scores, direction = self._ray()
        return risk.loss.minimize_along(risk.y, scores, direction, risk.weights, regularizer)

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        risk = self._risk
        scores, direction = self._ray()
        value, slopes = risk.loss(risk.y, scores + step * direction, risk.weights)
        return value, dot(slopes, direction)

    def _ray(self) -> tuple[Vector, Vector]:
        """Return the scores at the start, and how they change from there to the end."""
        start, end = self._start, self._end
        scores, direction = start.scores, end.scores - start.scores
        if self._risk.minimizes_intercept:
            scores = scores + start.offset
            direction += end.offset - start.offset
        return scores, direction

    def at(self, step: float) -> LinearPoint:
        """Return the point at ``step``, without a pass over the data."""
        start = self._start
        w = start.w + step * (self._end.w - start.w)
        guess = start.offset + step * (self._end.offset - start.offset)
        return LinearPoint(self._risk, w, self._scores(step), guess=guess)

    def _scores(self, step: float) -> Vector:
        start, end = self._start.scores, self._end.scores
        out = np.empty_like(start)

        def block(i: slice) -> None:
            np.subtract(end[i], start[i], out=out[i])
            out[i] *= step
            out[i] += start[i]

        map_blocks(block, len(out))
        return out


def _middle(y: Vector, weights: Vector) -> float:
    """Return the target that is nearest to the mean, of those that have a weight.

    Not the mean itself, which is rounded: equal targets would differ from it. Differences from a
    target are exact for all others that are less than twice as large and more than half (Sterbenz).
    """
    distance = np.abs(y - float(weights @ y))
    distance[weights == 0.0] = np.inf
    return float(y[distance.argmin()])


def normalized(weights: Vector | None, n_samples: int) -> Vector:
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
    scaled = np.asarray(weights / largest)
    # Less than this has no effect, and is too close to the smallest numbers to divide by.
    scaled[scaled < 1e-200] = 0.0
    scaled /= scaled.sum()
    return scaled
