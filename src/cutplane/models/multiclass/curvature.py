"""Second derivatives of losses of all classes, with their compiled loops.

Compiled loops of Newton's method on the smoothed losses of all classes.

``v_ij = z_ij + c_j + margins_yj * [j != y_i]`` is what speaks for class j (softmax has no margins,
unless there are costs; see `losses.multiclass.kernels`). Shares are

    softmax             P = exp(v) / sum exp(v)
    Crammer, Singer     P = projection of ``center + v / width`` to the simplex

of which the second is the derivative of ``max_P P.v - width/2 |P - center|^2``, the maximum of
``v`` with its kinks rounded. Each kernel does one block of rows.

Second derivatives of the smoothed losses of all classes, and Newton's direction from them.

A direction has a row for each class: its coefficients and, if there are intercepts, one number
more. That is by how much the score of the mean example changes, not the intercept itself, because
what the one and the coefficients do hardly depends on each other. The system is solved for the mean
of the examples whose loss bends along the score of the class: with Crammer and Singer's loss they
are few near the end, and need not be like all others.

The system is solved by conjugate gradients. Its matrix is never made: a product with it is two
passes over the examples whose loss bends. What makes such a system slow are features of different
sizes that depend on each other, and these are the same for all classes and at all points: one
decomposition of the matrix of their products, made once, takes that out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.pace import affords
from cutplane.compute.products import conjugate_gradients, dot
from cutplane.compute.threads import map_arrays
from cutplane.losses.smooth import exp_minus
from cutplane.models.multiclass.offsets import Indices, Motion, largest
from cutplane.risks import ScoredRisk

_REORDER = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def _soften(v: Vector, own: int, share: Vector) -> float:
    """Set the shares of softmax; return the loss."""
    top = largest(v)
    for j in range(len(v)):
        share[j] = exp_minus(top - v[j])
    total = 0.0
    for j in range(len(v)):
        total += share[j]
    scale = 1.0 / total
    for j in range(len(v)):
        share[j] *= scale
    loss: float = np.log(total) + (top - v[own])
    return loss


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def _project(v: Vector, own: int, center: Vector, width: float, share: Vector) -> float:
    """Set the shares of the rounded maximum; return the loss."""
    n = len(v)
    scale, top = 1.0 / width, largest(v)
    # Relative to the highest, so that a small width leaves no large numbers to cancel.
    for j in range(n):
        share[j] = center[j] + scale * (v[j] - top)
    # The level above which shares sum to one; it rises as classes drop out. All loops go through
    # all classes, without branches: vectors make that faster than a list of the few that count.
    level = largest(share) - 1.0
    while True:
        total, count = 0.0, 0.0
        for j in range(n):
            above = share[j] - level
            total += above if above > 0.0 else 0.0
            count += 1.0 if above > 0.0 else 0.0
        higher = level + (total - 1.0) / count
        if not higher > level:
            break
        level = higher
    for j in range(n):
        above = share[j] - level
        share[j] = above if above > 0.0 else 0.0
    total = 0.0
    for j in range(n):
        total += share[j]
    scale, mean, moved = 1.0 / total, 0.0, 0.0
    for j in range(n):
        share[j] *= scale
    for j in range(n):
        mean += share[j] * (v[j] - v[own])
        moved += (share[j] - center[j]) ** 2
    return mean - 0.5 * width * moved


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def shares_on_ray(
    rule: Motion, width: float,
    scores: Matrix, direction: Matrix, y: Indices, weights: Vector, centers: Matrix, shares: Matrix,
) -> tuple[float, float]:  # fmt: skip
    """Set the shares at ``scores + step * direction``; return smoothed loss and slope by the step.

    With a width of zero the loss is softmax, and there are no centers.
    """
    offsets, speeds, step, margins = rule
    n = len(offsets)
    v = np.empty(n)
    value, slope = 0.0, 0.0
    for i in range(len(y)):
        own = y[i]
        margin = margins[own if len(margins) > 1 else 0]
        for j in range(n):
            v[j] = scores[i, j] + offsets[j] + margin[j] + step * (direction[i, j] + speeds[j])
        v[own] -= margin[own]
        if width > 0.0:
            value += weights[i] * _project(v, own, centers[i], width, shares[i])
        else:
            value += weights[i] * _soften(v, own, shares[i])
        along = 0.0
        for j in range(n):
            ahead = (direction[i, j] + speeds[j]) - (direction[i, own] + speeds[own])
            along += shares[i, j] * ahead
        slope += weights[i] * along
    return value, slope


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def fill_bends(width: float, shares: Matrix, weights: Vector, bends: Matrix) -> None:
    """Set how much the loss of each example bends along the score of each class."""
    for i in range(len(weights)):
        count = 0
        if width > 0.0:
            for j in range(shares.shape[1]):
                count += shares[i, j] > 0.0
        for j in range(shares.shape[1]):
            share = shares[i, j]
            if width == 0.0:
                bends[i, j] = weights[i] * share * (1.0 - share)
            elif share > 0.0:
                bends[i, j] = weights[i] / width * (1.0 - 1.0 / count)
            else:
                bends[i, j] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def bend(width: float, shifts: Vector, shares: Matrix, weights: Vector, speeds: Matrix) -> None:
    """Multiply speeds of scores by second derivatives, in place: how fast the slopes change.

    The ``shifts`` are speeds of intercepts, to be added to those of the scores.
    """
    n = shares.shape[1]
    for i in range(len(weights)):
        mean, count = 0.0, 0
        if width > 0.0:
            for j in range(n):
                if shares[i, j] > 0.0:
                    mean += speeds[i, j] + shifts[j]
                    count += 1
            mean /= count
            for j in range(n):
                change = weights[i] / width * (speeds[i, j] + shifts[j] - mean)
                speeds[i, j] = change if shares[i, j] > 0.0 else 0.0
        else:
            for j in range(n):
                mean += shares[i, j] * (speeds[i, j] + shifts[j])
            for j in range(n):
                speeds[i, j] = weights[i] * shares[i, j] * (speeds[i, j] + shifts[j] - mean)


@njit(cache=True, nogil=True)
def add_bends_of_pairs(shares: Matrix, weights: Vector, width: float, bends: Matrix) -> None:
    """Add the second derivatives by the intercepts of two classes, where kinks are rounded."""
    n = shares.shape[1]
    classes = np.empty(n, dtype=np.int64)
    for i in range(len(weights)):
        count = 0
        for j in range(n):
            if shares[i, j] > 0.0:
                classes[count] = j
                count += 1
        change = weights[i] / width
        for a in range(count):
            bends[classes[a], classes[a]] += change
            for b in range(count):
                bends[classes[a], classes[b]] -= change / count


@njit(cache=True, nogil=True)
def add_rows(values: Matrix, sums: Vector) -> None:
    """Add all rows to the sums."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            sums[j] += values[i, j]


# So many examples a feature tell their products well enough.
_PER_FEATURE = 16
# With more features the decomposition takes longer than it saves.
_MOST_FEATURES = 2000
_SECONDS_PER_CUBE = 3e-9
# Examples that bend less than this share of the mean are left out: together they are no more.
_NEGLIGIBLE = 0.01
# The most products with a matrix of second derivatives, for one direction.
_MOST_PRODUCTS = 250
# A constant added to all intercepts changes nothing, and of a class nothing may bend.
_RIDGE = 1e-6


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The products of features with each other, decomposed.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        The mean example if there are intercepts, else zeros.
    sizes : ndarray
        Mean squares along the columns of the basis.
    basis : ndarray
        Orthogonal directions; without columns if there are too many features.
    sums : ndarray of shape (n_classes, n_features)
        The weighted sums of the examples of each class if there are intercepts, else without rows.
    masses : ndarray of shape (n_classes,)
        Their weights; likewise.
    """

    mean: Annotated[Vector, "f8[d]"]
    sizes: Annotated[Vector, "f8[d]"]
    basis: Annotated[Matrix, "f8[d, *]"]
    sums: Annotated[Matrix, "f8[c, d] | f8[0, d]"]
    masses: Annotated[Vector, "f8[c] | f8[0]"]

    @classmethod
    def of(cls, risk: ScoredRisk) -> Spectrum:
        """Return the spectrum of a risk's features."""
        rows, weights = risk.rows, risk.weights
        m, d = rows.shape
        sums, masses = np.zeros((0, d)), np.zeros(0)
        if risk.minimizes_intercept:
            of_classes = np.zeros((m, *risk.map.score_shape))
            of_classes[np.arange(m), risk.y] = weights
            sums = risk.map.pullback(of_classes).reshape(-1, d)
            masses = column_sums(of_classes)
        mean = sums.sum(axis=0)
        if d > _MOST_FEATURES or not affords(_SECONDS_PER_CUBE * d**3):
            square = dot(weights, rows.squared_norms()) - dot(mean, mean)
            sizes = np.full(d, max(square, 0.0) / d)
            return cls(mean, sizes, np.empty((d, 0)), sums, masses)
        some = np.zeros(m)
        stride = max(m // (_PER_FEATURE * d), 1)
        some[::stride] = weights[::stride]
        total = float(some.sum())
        gram = rows.weighted_gram(some / total if total > 0.0 else weights)
        gram -= np.outer(mean, mean)
        sizes, basis = np.linalg.eigh(gram)
        return cls(mean, np.maximum(sizes, 0.0), basis, sums, masses)

    def fits(self, risk: ScoredRisk, solver: object) -> bool:
        """Say whether the basis is whole or absent, and sums are there for intercepts."""
        whole = self.basis.shape[1] in (0, len(self.sizes))
        return whole and (len(self.sums) > 0) == (len(self.masses) > 0) == risk.minimizes_intercept


class Curvature:
    """Second derivatives of regularizer and smoothed loss at some shares.

    Parameters
    ----------
    risk : ScoredRisk
    lam : float
        The regularizer's.
    spectrum : Spectrum
        Of the features.
    shares : ndarray of shape (n_samples, n_classes)
        Slopes of the smoothed loss, plus one for the own class.
    width : float
        How widely its kinks are rounded.

    Attributes
    ----------
    means : ndarray of shape (n_classes, n_features) or None
        For which example the last column of a direction says by how much a score changes; None
        without intercepts.
    """

    def __init__(
        self, risk: ScoredRisk, lam: float, spectrum: Spectrum, shares: Matrix, width: float
    ) -> None:
        self._spectrum, self._width = spectrum, width
        bends = np.empty_like(shares)
        map_arrays(partial(fill_bends, width), shares, risk.weights, bends)
        of_examples = bends.sum(axis=1)
        chosen = np.flatnonzero(of_examples > _NEGLIGIBLE * float(of_examples.mean()))
        self._map: Any = risk.map.part(chosen) if len(chosen) < len(shares) else risk.map
        self._shares, self._weights = shares[chosen], risk.weights[chosen]
        self._lams = np.full((1, len(spectrum.mean)), lam)
        of_classes = column_sums(bends)[:, None]
        self._inverse = 1.0 / (lam + of_classes * spectrum.sizes)
        self.means: Matrix | None = None
        if risk.minimizes_intercept:
            ridge = _RIDGE * float(of_classes.mean()) or lam
            self._lams = np.append(self._lams, [[ridge]], axis=1)
            # For each class that of the examples whose loss bends, weighted by how much.
            masses = column_sums(bends[chosen])[:, None]
            self.means = np.tile(spectrum.mean, (len(masses), 1))
            sums = self._map.pullback(bends[chosen]).reshape(len(masses), -1)
            np.divide(sums, masses, out=self.means, where=masses > 0.0)
            bends_of_pairs = np.diag(of_classes[:, 0])
            if width > 0.0:
                # Of few classes an example has shares, so that all pairs of them cost little, and
                # planes ask for shares that balance. (Crammer and Singer's loss, lam = 1/m, steps
                # to a gap of 1e-3 with the diagonal alone and with pairs: digits 29 and 24.)
                bends_of_pairs[:] = 0.0
                add_bends_of_pairs(self._shares, self._weights, width, bends_of_pairs)
            bends_of_pairs[np.diag_indices_from(bends_of_pairs)] += ridge
            self._of_intercepts: Matrix = np.linalg.inv(bends_of_pairs).astype(np.float64)

    def times(self, direction: Matrix) -> Matrix:
        """Return the product with a direction, whose last column is for the `means`."""
        changed = self._lams * direction
        if not len(self._weights):
            return changed
        d = len(self._spectrum.mean)
        coefficients = np.ascontiguousarray(direction[:, :d])
        speeds: Matrix = self._map.scores(coefficients.ravel())
        shifts = np.zeros(len(direction))
        if self.means is not None:
            shifts += direction[:, d] - np.einsum("ij,ij->i", coefficients, self.means)
        map_arrays(partial(bend, self._width, shifts), self._shares, self._weights, speeds)
        changed[:, :d] += self._map.pullback(speeds).reshape(-1, d)
        if self.means is not None:
            sums = column_sums(speeds)
            changed[:, :d] -= sums[:, None] * self.means
            changed[:, d] += sums
        return changed

    def roughly_divided(self, gradient: Matrix) -> Matrix:
        """Return what `times` would give the gradient, nearly: classes and bends as their means."""
        d, basis = len(self._spectrum.mean), self._spectrum.basis
        divided: Matrix = np.empty_like(gradient)
        if basis.size:
            divided[:, :d] = (gradient[:, :d] @ basis * self._inverse) @ basis.T
        else:
            divided[:, :d] = gradient[:, :d] * self._inverse
        if self.means is not None:
            divided[:, d] = self._of_intercepts @ gradient[:, d]
        return divided

    def direction(self, gradient: Matrix, *, left: float) -> Matrix:
        """Return Newton's direction against a gradient, by conjugate gradients.

        Of the gradient a share ``left`` may be left, in the norm of the rough inverse.
        """
        right, moves = -gradient, np.zeros((1, 0))
        if self.means is not None:  # from the mean example to those that bend, and back
            moves = self._spectrum.mean - self.means
            right[:, :-1] += right[:, -1:] * moves
        direction = conjugate_gradients(
            self.times, right, roughly_divided=self.roughly_divided, left=left, most=_MOST_PRODUCTS
        )
        if self.means is not None:
            direction[:, -1] += np.einsum("ij,ij->i", direction[:, :-1], moves)
        return direction


def column_sums(values: Matrix) -> Vector:
    """Return the sum of each column; NumPy takes several times as long for few columns."""
    sums = np.zeros(values.shape[1])
    add_rows(values, sums)
    return sums
