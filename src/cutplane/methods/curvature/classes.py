"""Second derivatives of the smoothed losses of all classes, and Newton's direction from them.

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
from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.conjugate_gradients import conjugate_gradients
from cutplane.compute.pace import affords
from cutplane.compute.products import dot
from cutplane.compute.threads import map_blocks
from cutplane.methods import class_newton_kernels as kernels
from cutplane.risks import ScoredRisk

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

    mean: Vector
    sizes: Vector
    basis: Matrix
    sums: Matrix
    masses: Vector

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

    def turned(self, rows: Matrix) -> Matrix:
        """Return rows in coordinates of the basis."""
        return rows @ self.basis if self.basis.size else rows.copy()

    def turned_back(self, rows: Matrix) -> Matrix:
        """Return rows in coordinates of the features."""
        return rows @ self.basis.T if self.basis.size else rows


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
        map_blocks(
            lambda i: kernels.fill_bends(shares[i], risk.weights[i], width, bends[i]),
            len(shares),
            width=shares.shape[1],
        )
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
            self.means = self._bent_means(bends[chosen])
            bends_of_pairs = np.diag(of_classes[:, 0])
            if width > 0.0:
                # Of few classes an example has shares, so that all pairs of them cost little, and
                # planes ask for shares that balance. (Crammer and Singer's loss, lam = 1/m, steps
                # to a gap of 1e-3 with the diagonal alone and with pairs: digits 29 and 24.)
                bends_of_pairs[:] = 0.0
                kernels.add_bends_of_pairs(self._shares, self._weights, width, bends_of_pairs)
            bends_of_pairs[np.diag_indices_from(bends_of_pairs)] += ridge
            self._of_intercepts: Matrix = np.linalg.inv(bends_of_pairs).astype(np.float64)

    def _bent_means(self, bends: Matrix) -> Matrix:
        """Return for each class the mean of the examples whose loss bends, weighted by how much."""
        masses = column_sums(bends)[:, None]
        sums = self._map.pullback(bends).reshape(len(masses), -1)
        means = np.tile(self._spectrum.mean, (len(masses), 1))
        np.divide(sums, masses, out=means, where=masses > 0.0)
        return means

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
        map_blocks(
            lambda i: kernels.bend(
                self._shares[i], self._weights[i], self._width, shifts, speeds[i]
            ),
            len(speeds),
            width=speeds.shape[1],
        )
        changed[:, :d] += self._map.pullback(speeds).reshape(-1, d)
        if self.means is not None:
            sums = column_sums(speeds)
            changed[:, :d] -= sums[:, None] * self.means
            changed[:, d] += sums
        return changed

    def roughly_divided(self, gradient: Matrix) -> Matrix:
        """Return what `times` would give the gradient, nearly: classes and bends as their means."""
        d = len(self._spectrum.mean)
        divided: Matrix = np.empty_like(gradient)
        divided[:, :d] = self._spectrum.turned_back(
            self._spectrum.turned(gradient[:, :d]) * self._inverse
        )
        if self.means is not None:
            divided[:, d] = self._of_intercepts @ gradient[:, d]
        return divided

    def direction(self, gradient: Matrix, *, left: float) -> Matrix:
        """Return Newton's direction against a gradient, by conjugate gradients.

        Of the gradient a share ``left`` may be left, in the norm of the rough inverse.
        """
        if self.means is None:
            return self._solved(-gradient, left)
        # From the mean example to those that bend, and back.
        d, moves = gradient.shape[1] - 1, self._spectrum.mean - self.means
        right = -gradient
        right[:, :d] += right[:, d:] * moves
        direction = self._solved(right, left)
        direction[:, d] += np.einsum("ij,ij->i", direction[:, :d], moves)
        return direction

    def _solved(self, right: Matrix, left: float) -> Matrix:
        """Return a direction whose product is what is given, but for a share that is left."""
        return conjugate_gradients(
            self.times, right, roughly_divided=self.roughly_divided, left=left, most=_MOST_PRODUCTS
        )


def pulled_back(map_: Any, mean: Vector, slopes: Matrix, *, with_sums: bool) -> Matrix:
    """Return the derivatives by a direction, given those by the scores."""
    by_coefficient = map_.pullback(slopes).reshape(-1, len(mean))
    if not with_sums:
        return np.asarray(by_coefficient)
    sums = column_sums(slopes)
    return np.column_stack([by_coefficient - np.outer(sums, mean), sums])


def column_sums(values: Matrix) -> Vector:
    """Return the sum of each column; NumPy takes several times as long for few columns."""
    sums = np.zeros(values.shape[1])
    kernels.add_rows(values, sums)
    return sums
