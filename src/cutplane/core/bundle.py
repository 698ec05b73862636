"""The bundle: planes below the risk, their Gram matrix, and the weights of the reduced problem.

Row ``i`` of ``slopes`` and entry ``i`` of ``offsets`` are one plane ``(a_i, b_i)``. For a quadratic
regularizer the reduced problem ``min_w r(w) + max_i a_i.w + b_i`` has the dual

    max  b.alpha - r*(-A'alpha)  over the simplex,

which needs only the inner products of the slopes in the regularizer's metric (``gram``) and the
offsets shifted by its centre. Both are kept up to date here, plane by plane.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from cutplane.core.products import combination, dot, inner_products
from cutplane.core.protocols import Matrix, Plane, QuadraticRegularizer, Vector
from cutplane.core.simplex_qp import SimplexQP

_FIRST_CAPACITY = 32

# Planes that had no weight in more reduced problems than this are not carried over. Measured on
# paths of 20 lams (breast cancer, diabetes, a9a; hinge, logistic, absolute and squared loss; tol
# 1e-3 and 1e-4): at most 2 % more evaluations than with all planes, and at most 110 planes where
# there were 411. With 0 it is up to 14 % more.
_LONGEST_IDLE = 20


class Bundle:
    """Planes and the weight ``alpha`` that the last reduced problem gave to each.

    Parameters
    ----------
    n_parameters : int
        Length of a slope.
    regularizer : QuadraticRegularizer
        Supplies the metric of the Gram matrix and the centre.
    """

    def __init__(self, n_parameters: int, regularizer: QuadraticRegularizer) -> None:
        self.regularizer = regularizer
        self._slopes: Matrix = np.empty((_FIRST_CAPACITY, n_parameters))
        self._gram: Matrix = np.empty((_FIRST_CAPACITY, _FIRST_CAPACITY))
        self.offsets: Vector = np.empty(0)
        self.centred_offsets: Vector = np.empty(0)
        self.alpha: Vector = np.empty(0)
        self.idle: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._qp = SimplexQP()

    @property
    def n_planes(self) -> int:
        """Number of planes."""
        return len(self.offsets)

    @property
    def n_parameters(self) -> int:
        """Length of a slope."""
        return int(self._slopes.shape[1])

    @property
    def slopes(self) -> Matrix:
        """The slopes, one row a plane."""
        return self._slopes[: self.n_planes]

    @property
    def gram(self) -> Matrix:
        """Inner products of the slopes in the regularizer's metric."""
        return self._gram[: self.n_planes, : self.n_planes]

    @property
    def offset_scale(self) -> float:
        """Size of the terms that the aggregate's offset is made of."""
        return float(self.alpha @ np.abs(self.offsets))

    def add(self, plane: Plane) -> None:
        """Append a plane, with weight zero."""
        n = self.n_planes
        if n == len(self._slopes):
            self._grow()
        image = self.regularizer.dual_metric(plane.slope)
        inner = inner_products(self._slopes, n, image)
        self._slopes[n] = plane.slope
        self._gram[n, :n] = self._gram[:n, n] = inner
        self._gram[n, n] = dot(plane.slope, image)
        centred = plane.offset + self.regularizer.centred(plane.slope)
        planes = (
            np.append(self.offsets, plane.offset),
            np.append(self.centred_offsets, centred),
            np.append(self.alpha, 0.0),
            np.append(self.idle, 0),
        )
        # All at once, here and below: Ctrl-C between two of them would leave a broken bundle.
        self.offsets, self.centred_offsets, self.alpha, self.idle = planes

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep the planes with these (increasing) row numbers, drop the others."""
        n = len(rows)
        slopes, gram = np.empty_like(self._slopes), np.empty_like(self._gram)
        slopes[:n] = self._slopes[rows]
        gram[:n, :n] = self._gram[np.ix_(rows, rows)]
        self._qp.forget()
        kept = (
            slopes,
            gram,
            self.offsets[rows],
            self.centred_offsets[rows],
            self.alpha[rows],
            self.idle[rows],
        )
        (self._slopes, self._gram, self.offsets, self.centred_offsets, self.alpha, self.idle) = kept

    def carried_over(self, regularizer: QuadraticRegularizer) -> Bundle:
        """Return the planes and their weights for another regularizer, without those long idle.

        Planes lie below the risk whatever the regularizer. Flat ones stay, however long idle:
        there are few, and they keep the reduced problem bounded where the risk vanishes.
        """
        flat = np.diagonal(self.gram) == 0.0
        bundle = copy(self)
        bundle._qp = SimplexQP()
        bundle.keep(np.flatnonzero(flat | (self.idle <= _LONGEST_IDLE)))
        if self._has_geometry_of(regularizer):
            bundle.regularizer = regularizer
            return bundle
        measured_anew = Bundle(self.n_parameters, regularizer)
        for slope, offset in zip(bundle.slopes, bundle.offsets, strict=True):
            measured_anew.add(Plane(slope, float(offset)))
        measured_anew.alpha, measured_anew.idle = bundle.alpha, bundle.idle
        return measured_anew

    def weigh(self, lam: float, *, accuracy: float) -> None:
        """Solve the reduced problem's dual to ``accuracy``, and set the weights ``alpha``."""
        solution = self._qp.solve(
            self.gram, self.centred_offsets, lam, start=self.alpha, accuracy=accuracy
        )
        idle = np.where(solution.alpha > 0.0, 0, self.idle + 1)
        self.alpha, self.idle = solution.alpha, idle

    def aggregate(self) -> Plane:
        """Return the planes' mean weighted by ``alpha``: again a plane below the risk."""
        # Normalised once more, because the certificate needs weights that sum to one exactly.
        alpha = self.alpha / self.alpha.sum()
        return Plane(combination(self._slopes, alpha), float(alpha @ self.offsets))

    def _has_geometry_of(self, regularizer: QuadraticRegularizer) -> bool:
        """Say whether Gram matrix and centred offsets would be the same with the other one."""
        # Metric and centre are linear, and linear maps that agree on a random vector are equal.
        probe = np.random.default_rng(0).normal(size=self.n_parameters)
        return self.regularizer.centred(probe) == regularizer.centred(probe) and np.array_equal(
            self.regularizer.dual_metric(probe), regularizer.dual_metric(probe)
        )

    def _grow(self) -> None:
        capacity = 2 * len(self._slopes)
        slopes = np.empty((capacity, self._slopes.shape[1]))
        gram = np.empty((capacity, capacity))
        slopes[: self.n_planes] = self.slopes
        gram[: self.n_planes, : self.n_planes] = self.gram
        self._slopes, self._gram = slopes, gram
