"""Losses of all classes' scores together: Crammer and Singer's, and softmax.

An example has a score ``z_j`` for each class ``j``, and belongs to class ``y``:

    softmax            log sum_j exp(z_j + c_yj) - z_y      conjugate  sum_j P_j (log P_j - c_yj)
    Crammer-Singer     max_j (z_j + c_yj) - z_y             conjugate  -sum_j P_j c_yj

Costs ``c_yj`` are what it costs to say ``j`` where ``y`` is true, nothing if they are the same: by
default 0 for softmax and 1 for Crammer and Singer's loss, whose conjugate is then ``P_y - 1``. An
example is safe where its own class is ahead of each other one by the cost.

Slopes are ``P - e_y`` with shares ``P`` on the simplex, and *any* such slopes give a plane. For the
softmax loss the shares are the probabilities of the classes. With intercepts, planes come from
shares that have the masses of the classes exactly: so a plane lies below the risk even where the
intercepts are not quite the best, and the loss is that of the intercepts that were found.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import softmax

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import add_up, total
from cutplane.compute.products import product_over
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import Quadratic
from cutplane.core.search import find_root, minimize_on_ray
from cutplane.losses.loss import AtBestOffset, Ray, ScoreLoss, Tangent
from cutplane.models.multiclass.offsets import (
    BestOffsets,
    Indices,
    Scores,
    fill_shares,
    hinge_on_ray,
    make_slopes,
    mean_margin,
    minus_entropy,
    repaired,
    sharp_offsets,
    smooth_offsets,
    softmax_on_ray,
)

if TYPE_CHECKING:
    from cutplane.risks.scored import ScoredRisk

# How far from the best the intercepts of classes may be where a run starts.
_AT_FIRST = 1e-4


class MulticlassLoss(ScoreLoss):
    """A convex function of the scores of all classes.

    Scores are a matrix with one column a class, ``y`` are numbers of classes from 0 on, weights sum
    to one, and offsets are added to the columns.

    Parameters
    ----------
    accuracy : float
        How far from their best the intercepts may be, as a share of the risk. Bounds are valid
        however far, but the gap cannot be closed beyond it.
    costs : ndarray of shape (n_classes, n_classes), optional
        The margin of each pair: a row for each true class, zeros on the diagonal.
    """

    has_conjugate = True
    in_blocks = True
    # Slopes are shares of the classes, less one for the own: what `class_ascent` improves.
    of_shares: ClassVar[bool] = True
    margin: ClassVar[float]
    # Of the shares where the offsets are given.
    temperature: ClassVar[float]
    # What minimizes the loss over the offsets, up to an accuracy; and what sums up value and slope
    # on a ray.
    _best_offsets: ClassVar[Callable[..., BestOffsets]]
    _sum_on_ray: ClassVar[Callable[..., tuple[float, ...]]]

    def __init__(self, accuracy: float = 1e-11, costs: Any = None) -> None:
        self.accuracy = accuracy
        self.costs = None if costs is None else checked_costs(costs)

    def identity(self) -> tuple[Any, ...]:
        """Return all that bounds depend on: their accuracy makes none of them wrong."""
        return (type(self), self.costs)

    def margins(self, n_classes: int) -> Matrix:
        """Return by how much the own class must be ahead: a row for each class, or one for all."""
        return np.full((1, n_classes), self.margin) if self.costs is None else self.costs

    def targets(self, y: Any, n_samples: int, weights: Vector) -> Indices:
        """Return the number of each example's class, or raise ValueError."""
        numbers: Indices = np.array(y, dtype=np.int64)
        if numbers.shape != (n_samples,):
            raise ValueError(f"y has shape {numbers.shape}, X has {n_samples} rows")
        if (numbers != np.asarray(y)).any() or numbers.min() < 0:
            raise ValueError("classes are numbered 0, 1, 2, ...")
        return numbers

    def score_shape(self, y: Indices) -> tuple[int, ...]:
        """Return the number of classes: one more than the largest of ``y``."""
        return (int(y.max()) + 1,)

    def check_scores(
        self, y: Indices, weights: Vector, shape: tuple[int, ...], *, intercept: bool
    ) -> None:
        """Raise ValueError if there are too few classes, or one without any weight."""
        (n_classes,) = shape or (0,)
        if not y.max() < n_classes:
            raise ValueError(f"y has class {y.max()}, there are {n_classes} classes")
        if self.costs is not None and len(self.costs) != n_classes:
            raise ValueError(f"costs are for {len(self.costs)} classes, there are {n_classes}")
        masses = map_arrays(partial(np.bincount, minlength=n_classes), y, weights)
        if intercept and not total(masses).all():
            raise ValueError("a class without any weight has no best intercept")

    @abstractmethod
    def conjugate(self, y: Indices, slopes: Matrix, weights: Vector) -> float:
        """Return the weighted sum of the conjugates at the examples' slopes."""

    def value(
        self, y: Indices, scores: Matrix, weights: Vector, offsets: Vector | None = None
    ) -> float:
        """Return the weighted sum of losses."""
        if offsets is None:
            offsets = np.zeros(scores.shape[1])
        return self.on_ray(y, Ray.standing_still(scores, offsets), weights, 0.0)[0]

    def at_best_offset(
        self,
        y: Indices,
        scores: Matrix,
        weights: Vector,
        guess: Vector | None,
        accuracy: float | None = None,
    ) -> AtBestOffset:
        """Minimize the loss over an offset for each class, to the accuracy of the loss or less."""
        data = Scores(scores, y, weights, self.margins(scores.shape[1]))
        best = self._best_offsets(data, guess, max(accuracy or 0.0, self.accuracy))
        offsets = best.offsets
        return AtBestOffset(offsets, self.value(y, scores, weights, offsets), best)

    def at_scores_of_zero(self, y: Indices, weights: Vector) -> AtBestOffset:
        """Minimize the loss where all scores are zero, roughly.

        There the examples of a class are one, with their weights together.
        """
        masses = np.bincount(y, weights=weights).astype(np.float64)
        zeros = np.zeros((len(masses), len(masses)))
        return self.at_best_offset(
            np.arange(len(masses), dtype=np.int32), zeros, masses, None, accuracy=_AT_FIRST
        )

    def at_offset(
        self, y: Indices, scores: Matrix, weights: Vector, offsets: Vector
    ) -> AtBestOffset:
        """Return the loss at offsets that are taken for the best: it is at least the minimum."""
        near = BestOffsets(offsets, np.zeros_like(offsets), self.temperature)
        return AtBestOffset(offsets, self.value(y, scores, weights, offsets), near)

    def tangent(self, y: Indices, scores: Matrix, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the tangent, its offset by the conjugate."""
        slopes = self._slopes(y, scores, weights, at)
        offset = -self.conjugate(y, slopes, weights)
        slopes *= weights[:, None]
        return Tangent(slopes, offset)

    def _slopes(self, y: Indices, scores: Matrix, weights: Vector, at: AtBestOffset) -> Matrix:
        """Return the slopes of each example by its scores, not weighted.

        At the best offsets they sum to zero over the examples, weighted, for each class. So their
        plane does not change with the offsets, and bounds the minimum over all offsets from below.
        """
        shares = np.empty_like(scores)
        width = scores.shape[1]
        none = np.zeros(width)
        base, shifts, temperature = at.witness or BestOffsets(none, none, self.temperature)
        rule = (base, shifts, self.margins(width), temperature)
        map_arrays(partial(fill_shares, rule), scores, y, shares)
        if at.offset is not None:
            repaired(shares, y, weights)
        map_arrays(make_slopes, shares, y)
        return shares

    def on_ray(self, y: Indices, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        value, slope, *_ = self._sums(y, ray, weights, step)
        return value, slope

    def _sums(self, y: Indices, ray: Ray, weights: Vector, step: float) -> tuple[float, ...]:
        """Return the loss on the ray, its slope, and more if a kernel finds that."""
        scores, offsets, direction, speeds = ray
        rule = (offsets, speeds, step, self.margins(len(offsets)))
        return add_up(map_arrays(partial(self._sum_on_ray, rule), scores, direction, y, weights))

    def _mean_costs(self, y: Indices, slopes: Matrix, weights: Vector) -> float:
        """Return the weighted sum of the mean costs of shares."""
        mean = partial(mean_margin, self.margins(slopes.shape[1]))
        return float(total(map_arrays(mean, slopes, y, weights)))

    def __repr__(self) -> str:
        costs = "" if self.costs is None else f"costs of {len(self.costs)} classes"
        return f"{type(self).__name__}({costs})"

    def probability(self, scores: Matrix) -> Matrix | None:
        """Return the probabilities of the classes, or None if the loss implies none."""
        return None


def checked_costs(costs: Any) -> Matrix:
    """Return costs as a matrix, or raise ValueError: square, finite, zeros on the diagonal."""
    matrix = np.array(costs, dtype=np.float64, order="C")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ValueError(f"costs have a row and a column for each class, got {matrix.shape}")
    if not (np.isfinite(matrix).all() and (matrix >= 0.0).all()):
        raise ValueError("costs must be finite and not negative")
    if not matrix.any():
        raise ValueError("costs are all zero: no mistake would matter")
    if np.diag(matrix).any():
        raise ValueError("costs of the true class must be zero: they are the diagonal")
    return matrix


class Softmax(MulticlassLoss):
    """``log sum_j exp(z_j) - z_y``: multinomial logistic regression.

    With a matrix of ``costs`` it is ``log sum_j exp(z_j + costs[y, j]) - z_y``, the softmax margin:
    there is a row for each true class, zeros on the diagonal, and none is negative. Intercepts may
    be away from their best by ``accuracy``, a share of the risk. Bounds are valid all the same, but
    the gap cannot be closed beyond it.
    """

    margin = 0.0
    temperature = 1.0
    smooth = True
    _best_offsets = staticmethod(smooth_offsets)
    _sum_on_ray = staticmethod(softmax_on_ray)

    def conjugate(self, y: Indices, slopes: Matrix, weights: Vector) -> float:
        """Return the weighted sum of the conjugates at the examples' slopes: minus the entropy."""
        entropy = float(total(map_arrays(minus_entropy, slopes, y, weights)))
        return entropy if self.costs is None else entropy - self._mean_costs(y, slopes, weights)

    def minimize_on_ray(self, y: Indices, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""

        def derivatives(step: float) -> tuple[float, float]:
            _, first, second = self._sums(y, ray, weights, step)
            return first + extra.slope + extra.curvature * step, second + extra.curvature

        return find_root(derivatives)

    def probability(self, scores: Matrix) -> Matrix:
        """Return the probabilities of the classes."""
        return np.asarray(softmax(scores, axis=1))


class CrammerSinger(MulticlassLoss):
    """``max_j (z_j + [j != y]) - z_y``: the hinge loss for many classes at once.

    A matrix of ``costs`` takes the place of the ones, ``max_j (z_j + costs[y, j]) - z_y``: it has a
    row for each true class, zeros on the diagonal, none negative. For ``accuracy`` see `Softmax`.
    """

    margin = 1.0
    temperature = 1e-300  # so cold that only exact ties are shared
    _best_offsets = staticmethod(sharp_offsets)
    _sum_on_ray = staticmethod(hinge_on_ray)

    def conjugate(self, y: Indices, slopes: Matrix, weights: Vector) -> float:
        """Return the weighted sum of the conjugates at the examples' slopes."""
        if self.costs is not None:
            return -self._mean_costs(y, slopes, weights)
        return product_over(weights, slopes[np.arange(len(y)), y])

    def minimize_on_ray(self, y: Indices, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""
        return minimize_on_ray(lambda step: self.on_ray(y, ray, weights, step), extra)


def class_loss(risk: ScoredRisk) -> MulticlassLoss:
    """Return the loss of a risk that is known to be one of all classes."""
    assert isinstance(risk.loss, MulticlassLoss)
    return risk.loss
