"""Losses of several scores per example, with their compiled loops.

An example has a row of scores ``z``, one for each output.

    NonCrossing         sum_k pinball_k(z_k - y) + penalty * sum_k max(0, z_k - z_{k+1})
    LabelRanking        mean or maximum over pairs of max(0, 1 + z_l - z_k),
                        k relevant, l not, and a label of score 0 between the two kinds
    Euclidean           |z - y|             by their distance, in all directions alike
    SquaredEuclidean    |z - y|^2 / 2       the sum of the squared losses of the columns

The first two are maxima of affine functions of the scores. So their tangents need no cancellation:
the offset is a sum of targets, or of margins.

For the others targets are rows, too, and offsets, one for each column, are minimized out: the mean
of the residuals for squares, their geometric median for lengths. A plane is valid for the minimum
if its slopes sum to zero, and slopes of lengths may be any vectors no longer than the weight. So
the slopes at a median that is nearly right are made to sum to zero, and shortened: what it lacks
costs tightness, not validity.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import add_up
from cutplane.compute.compiled import njit
from cutplane.compute.products import product_over, sum_over
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import Quadratic
from cutplane.core.search import minimize_on_ray
from cutplane.losses.loss import AtBestOffset, Ray, ScoreLoss, Tangent, not_negative
from cutplane.losses.piecewise import Quantile

Relevant = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def quantiles_along(
    quantiles: Vector, penalty: float, step: float, y: Vector, scores: Matrix, direction: Matrix,
    weights: Vector, out: Matrix | None = None,
) -> tuple[float, float, float]:  # fmt: skip
    """Do a block of pinball losses and crossings; see `ColumnLoss`."""
    value = slope = offset = 0.0
    for i in range(len(y)):
        own_value = own_slope = 0.0
        last = last_speed = 0.0
        for k in range(len(quantiles)):
            z, speed = scores[i, k] + step * direction[i, k], direction[i, k]
            factor = 1.0 - quantiles[k] if z > y[i] else -quantiles[k]
            own_value += factor * (z - y[i])
            own_slope += factor * speed
            offset -= weights[i] * factor * y[i]
            if out is not None:
                out[i, k] = weights[i] * factor
            if k > 0 and last > z:
                own_value += penalty * (last - z)
                own_slope += penalty * (last_speed - speed)
                if out is not None:
                    out[i, k - 1] += weights[i] * penalty
                    out[i, k] -= weights[i] * penalty
            last, last_speed = z, speed
        value += weights[i] * own_value
        slope += weights[i] * own_slope
    return value, slope, offset


@njit(cache=True, nogil=True)
def _worst_pair(relevant: Any, scores: Any, direction: Any, step: float, i: int) -> Any:
    """Return what should be ranked above what but is not: the lowest relevant, the highest other.

    -1 stands for the label of score zero. The worst of three pairs is returned: both of these, and
    each of them with that label.
    """
    low, high = -1, -1
    lowest, highest = np.inf, -np.inf
    for k in range(scores.shape[1]):
        z = scores[i, k] + step * direction[i, k]
        if relevant[i, k]:
            if z < lowest:
                lowest, low = z, k
        elif z > highest:
            highest, high = z, k
    if high >= 0 and (low < 0 or (lowest >= 0.0 and -lowest <= highest)):
        low, lowest = -1, 0.0
    elif low >= 0 and (high < 0 or highest <= 0.0):
        high, highest = -1, 0.0
    return low, high, highest - lowest


@njit(cache=True, nogil=True)
def worst_pairs_along(
    step: float, relevant: Relevant, scores: Matrix, direction: Matrix, weights: Vector,
    out: Matrix | None = None,
) -> tuple[float, float, float]:  # fmt: skip
    """Do a block of worst pairs' losses; see `ColumnLoss`."""
    value = slope = offset = 0.0
    if out is not None:
        out[:] = 0.0
    for i in range(len(weights)):
        low, high, excess = _worst_pair(relevant, scores, direction, step, i)
        if 1.0 + excess > 0.0:
            value += weights[i] * (1.0 + excess)
            offset += weights[i]
            if high >= 0:
                slope += weights[i] * direction[i, high]
                if out is not None:
                    out[i, high] = weights[i]
            if low >= 0:
                slope -= weights[i] * direction[i, low]
                if out is not None:
                    out[i, low] = -weights[i]
    return value, slope, offset


@njit(cache=True, nogil=True)
def _deal(relevant: Any, i: int, above: Any, below: Any) -> Any:
    """Set the numbers of the labels that belong above and below, and return how many there are.

    A label of score zero belongs to both; its number is one more than the last.
    """
    n_above = n_below = 0
    for k in range(relevant.shape[1]):
        # A number is written to both, and counts only where it belongs.
        above[n_above] = below[n_below] = k
        n_above += relevant[i, k]
        n_below += not relevant[i, k]
    above[n_above] = below[n_below] = relevant.shape[1]
    return n_above + 1, n_below + 1


@njit(cache=True, nogil=True)
def all_pairs_along(
    step: float, relevant: Relevant, scores: Matrix, direction: Matrix, weights: Vector,
    out: Matrix | None = None,
) -> tuple[float, float, float]:  # fmt: skip
    """Do a block of mean losses of pairs; see `ColumnLoss`."""
    n_labels = scores.shape[1]
    above, below = np.empty(n_labels + 1, np.int64), np.empty(n_labels + 1, np.int64)
    z, speed = np.zeros(n_labels + 1), np.zeros(n_labels + 1)  # of the last label: zero
    own = np.zeros(n_labels + 1)
    value = slope = offset = 0.0
    for i in range(len(weights)):
        for k in range(n_labels):
            z[k], speed[k] = scores[i, k] + step * direction[i, k], direction[i, k]
        if out is not None:
            own[:] = 0.0
        n_above, n_below = _deal(relevant, i, above, below)
        weight = weights[i] / (n_above * n_below - 1)
        for a in above[:n_above]:
            for b in below[:n_below]:
                if a != b and 1.0 + z[b] - z[a] > 0.0:
                    value += weight * (1.0 + z[b] - z[a])
                    slope += weight * (speed[b] - speed[a])
                    offset += weight
                    if out is not None:
                        own[b] += weight
                        own[a] -= weight
        if out is not None:
            out[i] = own[:n_labels]
    return value, slope, offset


Targets = NDArray[Any]
Along = Callable[..., tuple[float, float, float]]

_PAIRS: dict[str, Along] = {"all": all_pairs_along, "worst": worst_pairs_along}


class _RowLoss(ScoreLoss):
    """A convex function of a row of scores; see the module's formulas. Weights sum to one."""

    @abstractmethod
    def _checked(self, y: Any, weights: Vector) -> Targets:
        """Return the targets as the other methods take them, or raise ValueError."""

    def targets(self, y: Any, n_samples: int, weights: Vector) -> Targets:
        """Return the targets as the other methods take them, or raise ValueError."""
        checked = self._checked(y, weights)
        if len(checked) != n_samples:
            raise ValueError(f"y has {len(checked)} rows, X has {n_samples}")
        return checked

    def score_shape(self, y: Targets) -> tuple[int, ...]:
        """Return the number of scores, which is that of columns of targets."""
        return y.shape[1:]

    def minimize_on_ray(self, y: Targets, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return nearly the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``.

        A poor step costs iterations, but no certificate is wrong because of it.
        """
        return minimize_on_ray(
            lambda step: self.on_ray(y, ray, weights, step), extra, accuracy=1e-4
        )


class ColumnLoss(_RowLoss):
    """A maximum of affine functions of a row of scores, found example by example.

    A compiled loop does a block of examples on a ray: it returns the weighted sum of losses at a
    step, the derivative by the step, and the offset of the tangent there. The slopes of that, the
    derivatives by the scores, weighted, are written to ``out`` if it is given.
    """

    ties_intercepts = True
    in_blocks = True

    @abstractmethod
    def _along(self) -> Along:
        """Return the compiled loop."""

    def on_ray(self, y: Targets, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        loop = partial(self._along(), step)
        value, slope, _ = add_up(map_arrays(loop, y, ray.scores, ray.direction, weights))
        return value, slope

    def value(self, y: Targets, scores: Matrix, weights: Vector) -> float:
        """Return the weighted sum of losses."""
        return self.on_ray(y, Ray.standing_still(scores, 0.0), weights, 0.0)[0]

    def at_best_offset(self, y: Any, scores: Any, weights: Vector, guess: Any) -> AtBestOffset:
        """Refuse: the map has the intercepts."""
        raise NotImplementedError(f"{self!r} ties intercepts: they are parameters of the map")

    def tangent(self, y: Targets, scores: Matrix, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the derivative by each score, weighted, and the offset of the tangent."""
        slopes, loop = np.empty_like(scores), partial(self._along(), 0.0)
        _, _, offset = add_up(map_arrays(loop, y, scores, scores, weights, slopes))
        return Tangent(slopes, float(offset))


class NonCrossing(ColumnLoss):
    """Pinball losses of several quantiles, and a penalty wherever a lower one is above a higher.

    Parameters
    ----------
    quantiles : sequence of floats
        Strictly between 0 and 1, in ascending order.
    penalty : float
        Price of a unit of crossing, for each two neighbors.
    """

    def __init__(self, quantiles: Any, penalty: float = 1.0) -> None:
        self.quantiles = np.array(quantiles, dtype=np.float64)
        if self.quantiles.ndim != 1 or len(self.quantiles) == 0:
            raise ValueError(f"quantiles must be a sequence of numbers, got {quantiles!r}")
        inside = (self.quantiles > 0.0) & (self.quantiles < 1.0)
        if not (inside.all() and (np.diff(self.quantiles) > 0.0).all()):
            raise ValueError(
                f"quantiles must ascend, strictly between 0 and 1, got {self.quantiles.tolist()}"
            )
        self.penalty = not_negative("the penalty", penalty)

    def _checked(self, y: Any, weights: Vector) -> Targets:
        """Return the targets: one number an example."""
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        if numbers.ndim != 1 or not np.isfinite(numbers).all():
            raise ValueError("targets must be finite numbers, one for each example")
        return numbers

    def score_shape(self, y: Targets) -> tuple[int, ...]:
        """Return the number of quantiles."""
        return self.quantiles.shape

    def constants(self, y: Targets, weights: Vector) -> Vector:
        """Return the quantiles of the targets."""
        zeros = np.zeros_like(y)
        offsets = [
            Quantile(quantile).minimize_offset(y, zeros, weights).offset
            for quantile in self.quantiles.tolist()
        ]
        return np.maximum.accumulate(offsets)

    def _along(self) -> Along:
        return partial(quantiles_along, self.quantiles, self.penalty)

    def __repr__(self) -> str:
        quantiles = ", ".join(f"{quantile:g}" for quantile in self.quantiles)
        return f"NonCrossing([{quantiles}], {self.penalty:g})"


class LabelRanking(ColumnLoss):
    """How far the pairs of labels are from being ranked right, with a margin of one.

    A label of score zero stands between the relevant labels and the others, so that a score above
    zero means relevant (Fuernkranz et al. 2008, calibrated label ranking).

    Parameters
    ----------
    pairs : {"all", "worst"}
        The mean over all pairs of an example, or the worst of them, which bounds the share of
        examples with any mistake, and which a few noisy labels can rule.
    """

    def __init__(self, pairs: str = "all") -> None:
        if pairs not in _PAIRS:
            raise ValueError(f"pairs must be 'all' or 'worst', got {pairs!r}")
        self.pairs = pairs

    def _checked(self, y: Any, weights: Vector) -> Targets:
        """Return which labels are relevant: a matrix of booleans, one column a label."""
        relevant = np.ascontiguousarray(y)
        if relevant.ndim != 2 or relevant.shape[1] == 0:
            raise ValueError(f"labels must be a matrix, one column a label, got {relevant.shape}")
        if not np.isin(relevant, (0, 1)).all():
            raise ValueError("labels must be 0 or 1")
        return relevant.astype(np.bool_)

    def constants(self, y: Targets, weights: Vector) -> Vector:
        """Return 1 for labels that more than half of the examples have, -1 for the others."""
        return np.where(sum_over(weights[:, None] * y) > 0.5, 1.0, -1.0)

    def _along(self) -> Along:
        return _PAIRS[self.pairs]

    def __repr__(self) -> str:
        return f"LabelRanking({self.pairs!r})"


class ResidualLoss(_RowLoss):
    """A convex function of the difference of two rows."""

    def _checked(self, y: Any, weights: Vector) -> Matrix:
        """Return the targets, a row an example."""
        rows: Matrix = np.ascontiguousarray(y, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise ValueError(f"targets must be a matrix, a column an output, got {rows.shape}")
        if len(rows) == len(weights) and not np.isfinite(rows[weights > 0.0]).all():
            raise ValueError("a target is not finite")
        return rows

    def value(self, y: Matrix, scores: Matrix, weights: Vector) -> float:
        """Return the weighted sum of losses."""
        return product_over(weights, self._losses(scores - y))

    def on_ray(self, y: Matrix, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        speeds = ray.direction + ray.speeds
        residuals = ray.scores + ray.offsets - y + step * speeds
        slopes = self._slopes(residuals, weights)
        along = np.einsum("ij,ij->i", slopes, speeds)
        return product_over(weights, self._losses(residuals)), float(sum_over(along))

    @abstractmethod
    def _losses(self, residuals: Matrix) -> Vector:
        """Return the loss of each row."""

    @abstractmethod
    def _slopes(self, residuals: Matrix, weights: Vector) -> Matrix:
        """Return the derivative by each score, weighted."""


class SquaredEuclidean(ResidualLoss):
    """``|z - y|^2 / 2``: the squared losses of all columns, added up."""

    smooth = True

    def at_best_offset(
        self, y: Matrix, scores: Matrix, weights: Vector, guess: Any
    ) -> AtBestOffset:
        """Add the mean residual of each column."""
        residuals = scores - y
        offset = -sum_over(weights[:, None] * residuals)
        residuals += offset
        return AtBestOffset(offset, product_over(weights, self._losses(residuals)))

    def tangent(self, y: Matrix, scores: Matrix, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the slopes, and the offset by the conjugate of the square."""
        residuals = scores - y
        if at.offset is not None:
            residuals += at.offset
            residuals -= sum_over(weights[:, None] * residuals)  # what rounding left
        slopes = self._slopes(residuals, weights)
        return Tangent(slopes, -_product(slopes, y) - 0.5 * _product(slopes, residuals))

    def _losses(self, residuals: Matrix) -> Vector:
        return 0.5 * _squares(residuals)

    def _slopes(self, residuals: Matrix, weights: Vector) -> Matrix:
        return weights[:, None] * residuals


class Euclidean(ResidualLoss):
    """``|z - y|``: the distance of an example from its target, whatever the direction."""

    def at_best_offset(
        self, y: Matrix, scores: Matrix, weights: Vector, guess: Any
    ) -> AtBestOffset:
        """Subtract the geometric median of the residuals."""
        residuals = scores - y
        start = -sum_over(weights[:, None] * residuals) if guess is None else np.asarray(guess)
        offset, width = _median(residuals, weights, start)
        lengths = self._losses(residuals + offset)
        return AtBestOffset(offset, product_over(weights, lengths), width)

    def tangent(self, y: Matrix, scores: Matrix, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return slopes no longer than the weights, which sum to zero at the best offsets."""
        residuals = scores - y
        if at.offset is None:
            slopes = self._slopes(residuals, weights)
        else:
            slopes = _balanced(residuals + at.offset, weights, at.witness)
        return Tangent(slopes, -_product(slopes, y))

    def _losses(self, residuals: Matrix) -> Vector:
        return np.sqrt(_squares(residuals))

    def _slopes(self, residuals: Matrix, weights: Vector) -> Matrix:
        return _rounded_slopes(residuals, weights, 0.0)


def _squares(residuals: Matrix) -> Vector:
    return np.asarray(np.einsum("ij,ij->i", residuals, residuals))


def _product(a: Matrix, b: Matrix) -> float:
    return float(sum_over(np.einsum("ij,ij->i", a, b)))


def _rounded_slopes(residuals: Matrix, weights: Vector, width: float) -> Matrix:
    """Return the slopes of ``sqrt(|u|^2 + width^2)``; zero where that is zero."""
    lengths = np.sqrt(_squares(residuals) + width * width)
    factors = np.divide(weights, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    return factors[:, None] * residuals


def _balanced(residuals: Matrix, weights: Vector, width: float) -> Matrix:
    """Return slopes that sum to zero, none longer than its weight."""
    slopes = _rounded_slopes(residuals, weights, width)
    # Examples next to the median take up what they can: there, any slope does.
    near = np.flatnonzero(_squares(residuals) <= (1e4 * width) ** 2)
    room = np.maximum(weights[near] - np.sqrt(_squares(slopes[near])), 0.0)
    rest, total = sum_over(slopes), float(room.sum())
    if total > 0.0:
        share = (
            min(1.0, total / max(float(np.sqrt(rest @ rest)), np.finfo(np.float64).tiny)) / total
        )
        slopes[near] -= share * room[:, None] * rest
        rest = sum_over(slopes)
    slopes -= weights[:, None] * rest
    slopes /= 1.0 + float(np.sqrt(rest @ rest))
    return slopes


def _median(residuals: Matrix, weights: Vector, start: Vector) -> tuple[Vector, float]:
    """Return nearly the best offset, and over which width lengths were rounded to find it."""
    scale = product_over(weights, np.sqrt(_squares(residuals + start)))
    if not scale > 0.0:
        return start, 0.0
    # Lengths are rounded near zero, over this share of the mean length at the end; if Newton's
    # method does not get there at once, over wider ones before.
    width = 1e-10 * scale
    offset, found = _newton(residuals, weights, start, width)
    if found:
        return offset, width
    offset = start
    for share in (0.1, 3e-3, 1e-4, 3e-6, 1e-7, 3e-9):
        offset, found = _newton(residuals, weights, offset, share * scale)
        nearest = int(np.argmin(np.where(weights > 0.0, _squares(residuals + offset), np.inf)))
        # An example is the median if what is there weighs more than the others pull.
        moved = residuals - residuals[nearest]
        pull = sum_over(_rounded_slopes(moved, weights, 0.0))
        if float(np.sqrt(pull @ pull)) <= float(weights[_squares(moved) == 0.0].sum()):
            return -residuals[nearest], 0.0
    return _newton(residuals, weights, offset, width)[0], width


class _Place(NamedTuple):
    """The sum of rounded lengths, and its slope by the offset."""

    moved: Matrix
    lengths: Vector
    value: float
    slope: Vector

    @classmethod
    def at(cls, offset: Vector, residuals: Matrix, weights: Vector, width: float) -> _Place:
        moved = residuals + offset
        lengths = np.sqrt(_squares(moved) + width * width)
        slope = sum_over((weights / lengths)[:, None] * moved)
        return cls(moved, lengths, product_over(weights, lengths), slope)

    @property
    def steepness(self) -> float:
        return float(np.sqrt(self.slope @ self.slope))


def _newton(
    residuals: Matrix, weights: Vector, offset: Vector, width: float
) -> tuple[Vector, bool]:
    """Minimize the rounded lengths over the offset; say also whether the slopes sum to zero.

    Slopes that sum to 1e-14 have a minimum and are wanted, those to 1e-10 are enough.
    """
    identity = np.eye(residuals.shape[1])
    place = _Place.at(offset, residuals, weights, width)
    for _ in range(30):
        if place.steepness <= 1e-14:
            return offset, True
        factors = weights / place.lengths
        mass = float(sum_over(factors))
        directions = place.moved / place.lengths[:, None]
        hessian = (1.0 + 1e-14) * mass * identity
        hessian -= np.einsum("i,ij,ik->jk", factors, directions, directions)
        # Newton's step or a part of it; else the one of Weiszfeld, which always leads down.
        newton = np.linalg.solve(hessian, place.slope)
        for step in (*(0.25**k * newton for k in range(6)), place.slope / mass):
            tried = _Place.at(offset - step, residuals, weights, width)
            # Lower, or less steep where values are the same but for rounding.
            level = tried.value <= place.value * (1.0 + 1e-14)
            if tried.value < place.value or (level and tried.steepness <= 0.5 * place.steepness):
                break
        else:
            break
        offset, place = offset - step, tried
    return offset, place.steepness <= 1e-10
