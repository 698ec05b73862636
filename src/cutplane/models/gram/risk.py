"""The risk of a kernel machine, rounded and exact; its functions, and their norm.

A function in the span of the examples, ``f = sum_i beta_i k(x_i, .)``, is kept twice: by its
coefficients, and by its values at the examples, ``K beta``. So the parameters are ``w = (beta, K
beta)``. A plane with slopes ``q`` by the scores is kept as ``(K q, q) / 2``, whose product with
``w`` is ``q.K beta``. Then no inner product of functions or planes needs the kernel matrix, and no
inverse of it is ever taken. With ``z = K beta``:

    r(w)  = lam/2 * beta.z                                     = lam/2 |f|^2
    r*(u) = (v, q)' (q, v) / lam   for u = (v, q), v = K q     attained at  w = 2 (q, v) / lam

The best function of all those of the kernel's space, of whatever dimension, lies in this span, and
bounds hold for that space.

A large kernel matrix is rounded, and something is added to its diagonal, so that a run on it proves
nothing of the kernel that predicts. It ends with a run on an exact risk:

- Examples without a loss, however large the errors of their scores may be, have no influence. If
  the others are few, their kernel matrix is kept in float64, and the exact risk is the part of the
  risk that is theirs. It is nowhere above the risk, so that its lower bounds hold for the risk, and
  at the point where the run ends they are equal. If not, the examples that should not have been
  left out are added, and the run goes on.
- Else it is a risk of all examples. Values and planes are computed from the examples, by blocks,
  and steps use the matrix that is kept only for what a function changes by: iterative refinement.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.pace import OutOfTime
from cutplane.compute.products import dot
from cutplane.core.protocols import InexactRisk, Plane, Point, Quadratic
from cutplane.data.rows import Rows, ScoreMap
from cutplane.models.gram.rows import ExactRows, KernelRows, KernelSource
from cutplane.regularizers.l2 import Centered
from cutplane.risks.scored import Groups, ScoredPoint, ScoredRisk


class KernelMap(ScoreMap):
    """From a function in the span of the examples to its values at them.

    Parameters
    ----------
    rows : Rows
        The rows of the kernel matrix.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows, self.n_parameters = rows, 2 * rows.shape[1]

    def values(self, beta: Vector) -> Vector:
        """Return ``K beta``; coefficients of zero cost nothing."""
        return self.rows.pullback(beta)

    def scores(self, w: Vector) -> Vector:
        """Return the values at the examples, computed afresh from the coefficients."""
        return self.values(_halves(w)[0])

    def pullback(self, slopes: Vector) -> Vector:
        """Return the plane of these slopes, without its offset."""
        return 0.5 * np.concatenate([self.values(slopes), slopes])

    def __str__(self) -> str:
        return f"kernel of {self.rows.shape[1]} examples"


class KernelNorm(Centered):
    """Squared norm ``lam/2 |f|^2`` of a function, kept by coefficients and values.

    Parameters
    ----------
    lam : float
        Strength, positive.
    """

    def __init__(self, lam: float) -> None:
        super().__init__(lam)

    def value(self, w: Vector) -> float:
        """Return ``r(w)``."""
        beta, z = _halves(w)
        return max(0.5 * self.lam * dot(beta, z), 0.0)

    def conjugate(self, u: Vector) -> tuple[float, Vector]:
        """Return ``r*(u)`` and the ``w`` that attains it."""
        image = self.dual_metric(u)
        return max(dot(u, image) / (2.0 * self.lam), 0.0), image / self.lam

    def dual_metric(self, slope: Vector) -> Vector:
        """Return the function whose product with another slope is their inner product."""
        values, duals = _halves(slope)
        return 2.0 * np.concatenate([duals, values])

    def at_center(self, slope: Vector) -> float:
        """Return zero: the function that costs nothing."""
        return 0.0

    def along(self, start: Vector, end: Vector) -> Quadratic:
        """Return the regularizer on the ray from ``start`` through ``end``."""
        beta, z = _halves(start)
        toward, rise = _halves(end - start)
        return Quadratic(
            slope=0.5 * self.lam * (dot(beta, rise) + dot(toward, z)),
            curvature=max(self.lam * dot(toward, rise), 0.0),
        )

    def gradient(self, w: Vector) -> Vector:
        """Return the derivative at ``w``, as a slope."""
        beta, z = _halves(w)
        return 0.5 * self.lam * np.concatenate([z, beta])


def _halves(w: Vector) -> tuple[Vector, Vector]:
    m = len(w) // 2
    return w[:m], w[m:]


# The matrix of some examples may be kept in float64 if it takes no more than this share of the
# memory of all in float32, or if they are so few.
_SHARE_OF_MEMORY, _FEW = 0.5, 1024
# Refinement is slow if what was added to the diagonal changes scores by more than this share, as
# with features that are not scaled. Then so many may have their matrix in float64: 512 MB.
_COARSE, _MANY = 0.01, 8192


@dataclass(frozen=True)
class ExactKernel:
    """An exact risk, and what its parameters are to the risk that it stands for.

    Attributes
    ----------
    risk : KernelRisk
    rounded : KernelRisk
        The risk that it stands for.
    counts : ndarray of bool
        Which examples it is a risk of.
    start : ndarray
        Where a run on it begins: the point that it was made at.
    plane : Plane
        The plane that it was made with, which gives a bound for all functions.
    has_plane : bool
        Whether the plane is one of its planes: only if it is a risk of all examples, whose products
        are computed by blocks, without a matrix in float64.
    """

    risk: KernelRisk
    rounded: KernelRisk
    counts: NDArray[np.bool_]
    start: Vector
    plane: Plane
    has_plane: bool

    def back(self, point: Point) -> ScoredPoint:
        """Return a point of this risk as one of that for which it stands."""
        assert isinstance(point, ScoredPoint)
        if self.has_plane:
            return self.rounded.with_scores(point.w, point.scores, at=point._at)
        m = len(self.counts)
        beta = np.zeros(m)
        beta[self.counts] = point.w[: len(point.w) // 2]
        values = self.rounded.kernel.values(beta)
        values[self.counts] = point.scores
        return self.rounded.with_coefficients(beta, values, at=point._at)

    def misses(self, point: Point) -> bool:
        """Say whether examples that were left out may have a loss, at a point that `back` gave."""
        assert isinstance(point, ScoredPoint)
        return bool((_influential(self.rounded, point) & ~self.counts).any())


def _influential(risk: KernelRisk, point: ScoredPoint) -> NDArray[np.bool_]:
    """Say which examples have a coefficient, or perhaps a loss, if scores are as far off as can be.

    A convex loss whose slope vanishes on both sides of a score is as small as can be there.
    """
    m = risk.n_parameters // 2
    beta = point.w[:m]
    if not risk.loss.additive:
        return np.ones(m, dtype=np.bool_)
    off = risk.matrix_rows.error * float(np.abs(beta).sum())
    scores = point.scores + point.offset
    slopes = (risk.pointwise.slopes(risk.y, scores + side, risk.weights) for side in (-off, off))
    influential: NDArray[np.bool_] = beta != 0.0
    for each in slopes:
        influential |= each != 0.0
    return influential


# From this share of the risk on, its rounding depends on who adds up.
_COUNTS = 1e-10


@njit(cache=True, nogil=True, inlined=True)
def _add_product(total: float, a: float, b: float) -> tuple[float, float, float, float]:
    """Return ``total + a*b``, what the product and the sum lost by rounding, and ``|a*b|``.

    By Dekker (1971) and Knuth (1969).
    """
    product = a * b
    high = 134217729.0 * a
    high = high - (high - a)
    upper = 134217729.0 * b
    upper = upper - (upper - b)
    low, lower = a - high, b - upper
    of_product = low * lower - (((product - high * upper) - low * upper) - high * lower)
    both = total + product
    part = both - total
    return both, of_product, (total - (both - part)) + (product - part), abs(product)


@njit(cache=True, nogil=True)
def squared_length(matrix: Matrix, duals: Vector, used: NDArray[np.intp]) -> tuple[float, float]:
    """Return ``q'Kq`` as if summed up with twice the precision, and the sum of its terms' sizes.

    ``used`` are the places of the duals. Products and sums leave their rounding errors, which are
    summed up besides (Ogita, Rump and Oishi 2005).
    """
    total, rest, sizes = 0.0, 0.0, 0.0
    for i in range(len(used)):
        image, error, size = 0.0, 0.0, 0.0
        for j in range(i + 1):
            entry = matrix[used[i], used[j]]
            if j == i:
                entry *= 0.5
            image, of_product, of_sum, term = _add_product(image, entry, duals[j])
            error += of_product
            error += of_sum
            size += term
        total, of_product, of_sum, _ = _add_product(total, image, duals[i])
        rest += of_product
        rest += of_sum
        rest += error * duals[i]
        sizes += size * abs(duals[i])
    return 2.0 * (total + rest), 2.0 * sizes


class SpannedRisk(ScoredRisk, InexactRisk):
    """A risk of functions in the span of examples, which knows how far rounding may move them."""

    # The sum of the lengths of a function's terms, at any point so far; and the value at zero, and
    # the sum of the sizes of slopes there.
    _heaviest: float
    _at_zero: tuple[float, float]

    @property
    @abstractmethod
    def _lengths(self) -> Vector:
        """The length of each example in the space of the kernel."""

    def _begin(self) -> None:
        super()._begin()
        self._heaviest = 0.0
        zeros = np.zeros(len(self.y))
        self._at_zero = (
            abs(float(self.loss.value(self.y, zeros, self.weights))),
            float(np.abs(self.pointwise.slopes(self.y, zeros, self.weights)).sum()),
        )

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of: losses, and entries of the matrix.

        Scores may be small sums of large products of entries and coefficients, as with features
        that are not scaled.
        """
        value, slope = self._at_zero
        return value + slope * float(self._lengths.max()) * self._heaviest

    def _error_of(self, terms: Vector, slopes: Vector) -> float:
        """Return by how much rounding may have changed a value, from the lengths of terms.

        A score is a sum of products of entries and coefficients, rounded as if the errors of its
        terms did not depend on each other; the errors of scores are taken to add up.
        """
        return EPS * float(np.linalg.norm(terms)) * float(np.abs(slopes) @ self._lengths)


class KernelRisk(SpannedRisk):
    """Mean loss of a function ``sum_i beta_i k(x_i, .)``, and of an intercept, on a sample.

    Parameters
    ----------
    rows : KernelRows
        The kernel matrix of all examples.
    y, loss, weights, intercept
        As for `ScoredRisk`.
    """

    spans_examples = True
    good_groups = 1
    worst_case: bool = False

    def _usual_map(self) -> ScoreMap:
        return KernelMap(self.rows)

    @property
    def kernel(self) -> KernelMap:
        """The map, which also knows functions by their coefficients alone."""
        assert isinstance(self.map, KernelMap)
        return self.map

    @property
    def matrix_rows(self) -> KernelRows:
        """The rows of the matrix that is kept."""
        assert isinstance(self.rows, KernelRows)
        return self.rows

    @property
    def source(self) -> KernelSource:
        """What the matrix is computed from, where that is known."""
        assert self.matrix_rows.source is not None
        return self.matrix_rows.source

    def at(self, w: Vector) -> ScoredPoint:
        """Evaluate the risk at the coefficients in ``w``, whose values are computed afresh."""
        self.evaluations += 1
        beta = w[: self.n_parameters // 2]
        return self.with_coefficients(beta, self.map.scores(w))

    def evaluate_again(self, point: Point) -> ScoredPoint | None:
        """Evaluate the risk where a point is; where rounding counts, by the scores of predictions.

        These are the same sums in another order.
        """
        assert isinstance(point, ScoredPoint)
        if self.matrix_rows.source is None or self.value_error(point) <= _COUNTS * point.value:
            return super().evaluate_again(point)
        self.evaluations += 1
        beta = point.w[: self.n_parameters // 2]
        return self.with_coefficients(beta, self.source.products(beta[None])[0])

    def groups(self, n_groups: int) -> Groups:
        """Refuse: the plane of a group is a function as well, so that each would take a pass."""
        raise ValueError(
            f"planes of groups are not possible with a kernel: use groups=1, not {n_groups}"
        )

    def with_scores(self, w: Vector, scores: Vector, **known: Any) -> ScoredPoint:
        """Return the point at ``w``, whose scores are known."""
        weight = float(np.abs(w[: len(w) // 2]) @ self._lengths)
        self._heaviest = max(self._heaviest, weight)
        return super().with_scores(w, scores, **known)

    def with_coefficients(self, beta: Vector, values: Vector, **known: Any) -> ScoredPoint:
        """Return the point of a function whose values at the examples are known."""
        return self.with_scores(np.concatenate([beta, values]), values, **known)

    def _begin(self) -> None:
        super()._begin()
        # An exact risk, a copy of one that is rounded, keeps its allowance.
        self.worst_case = self.worst_case or self.rounded

    @property
    def loss_size(self) -> float:
        """The value at zero."""
        return self._at_zero[0]

    def value_error(self, point: Point) -> float:
        """Return by how much rounding may have changed the value at a point."""
        if self.rounded or not isinstance(point, ScoredPoint):
            return 0.0  # of another matrix: what is proven is computed afresh
        return self._error_of(point.w[: len(point.w) // 2] * self._lengths, point.slopes)

    def is_coarse_at(self, point: Point) -> bool:
        """Say whether what was added to the diagonal for rounding changes scores by too much."""
        if not isinstance(point, ScoredPoint):
            return False
        added = self.matrix_rows.ridge * float(np.linalg.norm(point.w[: len(point.w) // 2]))
        return bool(added > _COARSE * float(np.linalg.norm(point.scores)))

    def length_error(self, slope: Vector) -> float:
        """Return by how much the squared length of a plane's slope may be larger than it seems.

        It is ``q'Kq``, sums of products of duals and entries, none of which is larger than the
        lengths of its examples, multiplied. For kernels that are products of tensors it is computed
        from the examples. Else a matrix in float64 is summed up with twice its precision, and what
        is left is the rounding of the result. Where neither can be, this is the worst case: in
        whatever order ``n`` terms are taken, their sum is off by ``n`` roundings of the sum of
        their sizes (Higham 2002, section 3.1), and so is the sum of these sums.
        """
        images, halves = np.split(slope, 2)
        duals = 2.0 * halves
        seems = max(2.0 * dot(images, duals), 0.0)
        rows, known = self.map.rows, None
        if not self.rounded and isinstance(rows, KernelRows | ExactRows) and rows.source:
            known = rows.source.tensor_length(duals)
        if known is not None:
            length, off = known
            return float((length + off) ** 2 - seems)
        if self.worst_case:
            total = float(np.abs(duals) @ self._lengths)
            return EPS * (np.count_nonzero(duals) + 2.0) * total * total
        used = np.flatnonzero(duals)
        length, sizes = squared_length(self.matrix_rows.stored, duals[used], used)
        off = EPS * (abs(length) + 4.0 * len(used) ** 2 * EPS * sizes)
        return max(length + off, 0.0) - seems

    @property
    def _lengths(self) -> Vector:
        """The length of each example in the space of the kernel."""
        return np.asarray(np.sqrt(np.maximum(self.matrix_rows.diagonal, 0.0)))

    @property
    def rounded(self) -> bool:
        """Whether the kernel is kept with less than the precision of predictions."""
        return isinstance(self.map.rows, KernelRows) and self.matrix_rows.rounded

    def exact_at(self, point: Point, plane: Plane, before: ExactKernel | None) -> ExactKernel:
        """Return an exact risk for a run that has come to a point of this one, and has a plane.

        ``before`` is the exact risk that the run was on last, if that was not the end.
        """
        assert isinstance(point, ScoredPoint)
        counts = _influential(self, point)
        if before is not None:  # no example is left out that was not left out then
            counts |= before.counts
        if not counts.all():
            # Theirs must be a loss of zero, and not only as small as can be.
            scores, loss = point.scores + point.offset, self.loss.part(np.flatnonzero(~counts))
            if loss.value(self.y[~counts], scores[~counts], self.weights[~counts]) != 0.0:
                counts[:] = True
        m, n = len(counts), np.count_nonzero(counts)
        beta, duals = point.w[:m], 2.0 * plane.slope[m:]
        few = _MANY if self.is_coarse_at(point) else _FEW
        if 8 * n * n <= max(_SHARE_OF_MEMORY * 4 * m * m, 8 * few * few):
            try:
                return self._in_memory(beta, duals, plane.offset, counts)
            except OutOfTime:  # without steps to come, products are enough
                pass
        rows = ExactRows(self.source)
        rows.learn(np.array([beta, duals]))
        exact = copy(self)
        exact.map = KernelMap(rows)
        exact._begin()
        own = Plane(exact.map.pullback(duals), plane.offset)
        start = np.concatenate([beta, np.zeros_like(beta)])
        return ExactKernel(exact, self, np.ones_like(counts), start, own, has_plane=True)

    def _in_memory(
        self, beta: Vector, duals: Vector, offset: float, counts: NDArray[np.bool_]
    ) -> ExactKernel:
        """Return the risk of some examples, with their matrix in float64."""
        places = np.flatnonzero(counts)
        exact = copy(self)
        # Nothing is added to the diagonal: predictions have no such thing.
        source = self.source.part(places)
        exact.rows = KernelRows.of_matrix(
            source.matrix(), roundings=0.0, source=source, n_threads=self.rows.n_threads
        )
        exact.map = KernelMap(exact.rows)
        exact.n_parameters = exact.map.n_parameters
        # Weights are not scaled: it is a part of the sum.
        exact.y, exact.weights, exact.loss = (
            self.y[places],
            self.weights[places],
            self.loss.part(places),
        )
        exact._begin()
        start = np.concatenate([beta[places], np.zeros(len(places))])
        # Images are right where duals are not zero. That is enough for the bound, in which only the
        # product of both occurs.
        used, images = np.flatnonzero(duals), np.zeros_like(duals)
        if len(used):
            images[used] = self.source.part(used).products(duals[None, used])[0]
        plane = Plane(0.5 * np.concatenate([images, duals]), offset)
        return ExactKernel(exact, self, counts, start, plane, has_plane=False)
