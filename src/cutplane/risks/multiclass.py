"""The risk of a linear model for many classes: one row of coefficients a class, one bundle for all.

    R(W) = sum_i weight_i * loss(y_i, W x_i)                        without intercepts
    R(W) = min_c sum_i weight_i * loss(y_i, W x_i + c)              with them

``W`` is a matrix with one row a class; the solver sees its entries as one long vector. As in
:mod:`cutplane.risks.linear`, the intercepts are minimized out, and a point carries its scores.

Planes come from shares of the classes in each example (`losses.multiclass`), with
intercepts from shares that are balanced exactly: so a plane lies below the risk even where the
intercepts are not quite the best, and the risk of a point is that of the intercepts it carries.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import Plane, Quadratic
from cutplane.losses.multiclass.losses import MulticlassLoss, Ray
from cutplane.losses.multiclass.offsets import BestOffsets
from cutplane.maps import Rows, as_rows
from cutplane.risks.composite import Summable
from cutplane.risks.finite_scores import require_finite
from cutplane.risks.linear import normalized


class MulticlassRisk(Summable):
    """Mean loss of a linear model for many classes on a sample.

    Parameters
    ----------
    rows : Rows or array-like
        The features; see `cutplane.maps.as_rows`.
    y : ndarray of shape (n_samples,)
        Classes, numbered from 0 on.
    loss : MulticlassLoss
        `cutplane.CrammerSinger` or `cutplane.Softmax`.
    weights : ndarray of shape (n_samples,), optional
        Weights of the examples, not negative; scaled to sum to one. Equal by default.
    intercept : bool
        Whether each class has an intercept.
    n_classes : int, optional
        By default one more than the largest of ``y``.
    accuracy : float
        How far from their best the intercepts may be, as a share of the risk. Bounds are valid
        however far, but the gap cannot be closed beyond it.
    """

    convex = True

    def __init__(
        self,
        rows: Any,
        y: Any,
        loss: MulticlassLoss,
        *,
        weights: Vector | None = None,
        intercept: bool = True,
        n_classes: int | None = None,
        accuracy: float = 1e-11,
    ) -> None:
        if not isinstance(loss, MulticlassLoss):
            raise TypeError(f"loss must be a MulticlassLoss such as cp.Softmax(), got {loss!r}")
        self.rows: Rows = as_rows(rows)
        n_samples, n_features = self.rows.shape
        self.y = np.array(y, dtype=np.int64)
        if self.y.shape != (n_samples,):
            raise ValueError(f"y has shape {self.y.shape}, X has {n_samples} rows")
        if n_samples == 0:
            raise ValueError("a risk needs at least one example")
        if (self.y != np.asarray(y)).any() or self.y.min() < 0:
            raise ValueError("classes are numbered 0, 1, 2, ...")
        self.n_classes = int(self.y.max()) + 1 if n_classes is None else n_classes
        if not self.y.max() < self.n_classes:
            raise ValueError(f"y has class {self.y.max()}, there are {self.n_classes} classes")
        self.loss = loss
        self.weights = normalized(weights, n_samples)
        self.intercept = intercept
        self.intercept_shape = (self.n_classes,)
        self.accuracy = accuracy
        self.n_parameters = self.n_classes * n_features
        self.lower_bound = loss.lower_bound
        self.evaluations = 0
        masses = np.bincount(self.y, weights=self.weights, minlength=self.n_classes)
        if intercept and not masses.all():
            raise ValueError("a class without any weight has no best intercept")

    def at(self, w: Vector) -> MulticlassPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        scores = self.rows.class_scores(w.reshape(self.n_classes, -1))
        require_finite(scores, w)
        return MulticlassPoint(self, w, scores, None)

    @cached_property
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        zeros = np.zeros((len(self.y), self.n_classes))
        return abs(self.loss.value(self.y, zeros, self.weights, zeros[0]))

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "features": self.rows,
            "targets": (self.y, self.n_classes),
            "weights": self.weights,
            "loss": self.loss,
            "intercept": self.intercept,
        }

    def __repr__(self) -> str:
        intercepts = "intercepts" if self.intercept else "no intercepts"
        return f"MulticlassRisk({self.rows}, {self.n_classes} classes, {self.loss!r}, {intercepts})"


class MulticlassPoint:
    """The risk of a linear model for many classes at ``w``, with the scores there.

    Attributes
    ----------
    w : ndarray
        Coefficients, class after class.
    scores : ndarray of shape (n_samples, n_classes)
        Without the intercepts.
    """

    def __init__(
        self, risk: MulticlassRisk, w: Vector, scores: Matrix, start: Vector | None
    ) -> None:
        self._risk = risk
        self.w = w
        self.scores = scores
        self._best: BestOffsets = (
            risk.loss.best_offsets(
                risk.y, scores, risk.weights, start=start, accuracy=risk.accuracy
            )
            if risk.intercept
            else risk.loss.at_once(np.zeros(risk.n_classes))
        )

    @property
    def intercept(self) -> Vector:
        """The best intercepts for these coefficients; zero if the model has none."""
        return self._best.offsets

    @cached_property
    def value(self) -> float:
        """The risk."""
        risk = self._risk
        return risk.loss.value(risk.y, self.scores, risk.weights, self.intercept)

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        risk = self._risk
        y, weights, loss = risk.y, risk.weights, risk.loss
        slopes = loss.slopes(y, self.scores, weights, self._best, balanced=risk.intercept)
        offset = -loss.conjugate(y, slopes, weights)
        slopes *= weights[:, None]
        return Plane(risk.rows.class_pullback(slopes).ravel(), offset)

    def toward(self, other: MulticlassPoint) -> MulticlassSegment:
        """Return the risk on the ray from here through ``other``."""
        return MulticlassSegment(self._risk, self, other)


class MulticlassSegment:
    """The risk on a ray between two points, from their scores alone.

    The search goes along coefficients and intercepts together, as in
    `cutplane.risks.linear.LinearSegment`.
    """

    def __init__(self, risk: MulticlassRisk, start: MulticlassPoint, end: MulticlassPoint) -> None:
        self._risk = risk
        self._start = start
        self._end = end
        self._ray = Ray(
            start.scores,
            start.intercept,
            end.scores - start.scores,
            end.intercept - start.intercept,
        )

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        risk = self._risk
        return risk.loss.minimize_along(risk.y, self._ray, risk.weights, regularizer)

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        risk = self._risk
        return risk.loss.on_ray(risk.y, self._ray, risk.weights, step)

    def at(self, step: float) -> MulticlassPoint:
        """Return the point at ``step``, without a pass over the data."""
        ray, start = self._ray, self._start
        scores = np.empty_like(ray.scores)

        def block(i: slice) -> None:
            np.multiply(ray.direction[i], step, out=scores[i])
            scores[i] += ray.scores[i]

        map_blocks(block, len(scores), width=len(ray.offsets))
        w = start.w + step * (self._end.w - start.w)
        return MulticlassPoint(self._risk, w, scores, ray.offsets + step * ray.speeds)
