"""The bundle: planes below the risk, their Gram matrix, and the weights of the reduced problem.

Row ``i`` of ``slopes`` and entry ``i`` of ``offsets`` are one plane ``(a_i, b_i)``. Slopes may be
long, so they stay where they were stored, and ``slots`` tells where that is. The reduced problem
``min_w r(w) + max_i a_i.w + b_i`` has the dual

    max  b.alpha - r*(-A'alpha)  over the simplex.

For a quadratic regularizer it needs only the inner products of the slopes in the regularizer's
metric (``gram``) and the offsets shifted by its center. Both are kept up to date here, plane by
plane. For others `maximize_dual` and `cutplane.core.policies.flat` work with the planes themselves.

A risk that is a sum over groups of examples, ``R = sum_k R_k``, may have planes for each of them.
The model is then ``sum_k max_{i in group k} a_i.w + b_i``, and there is one simplex for each group.
The ordinary bundle has one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.products import Numbers, combination, dot, extend_gram, inner_products
from cutplane.core.protocols import CurvedRegularizer, Plane, QuadraticRegularizer, Regularizer
from cutplane.core.simplex_qp import SimplexQP, lowest_model

if TYPE_CHECKING:
    from cutplane.core.state import Candidate, Problem


_OF_EACH_PLANE = (
    "slots", "_flat", "groups", "offsets", "centered_offsets", "tilts", "localities", "alpha",
    "idle", "numbers",
)  # fmt: skip


class Bundle:
    """Planes and the weight ``alpha`` that the last reduced problem gave to each.

    ``numbers`` tells planes apart for those who keep something about them: the first plane that
    was ever added has the number 0. They increase from row to row. ``slots`` tells where the slope
    of each plane is, as a row of the first of the `matrices`; ``floor`` is what the risk never goes
    below.

    Parameters
    ----------
    n_parameters : int
        Length of a slope.
    regularizer : Regularizer
        If it is quadratic it supplies the metric of the Gram matrix and the center.
    n_groups : int
        Into how many groups the risk is split; one plane of each is added at a time.
    """

    # How many planes there is room for at first.
    FIRST_CAPACITY = 32

    # Planes that had no weight in more reduced problems than this are not carried over. Measured on
    # paths of 20 lams (breast cancer, diabetes, a9a; hinge, logistic, absolute and squared loss;
    # tol 1e-3 and 1e-4): at most 2 % more evaluations than with all planes, and at most 110 planes
    # where there were 411. With 0 it is up to 14 % more.
    LONGEST_IDLE = 20

    # The last point whose heights were asked for, mostly the best one, and its inner products with
    # the slopes: the reduced problem near that point will ask for them again.
    _measured: tuple[Vector, Vector] | None = None

    def __init__(self, n_parameters: int, regularizer: Regularizer, n_groups: int = 1) -> None:
        self.metric = regularizer if isinstance(regularizer, QuadraticRegularizer) else None
        self.n_groups = n_groups
        self._slopes: Matrix = np.empty((self.FIRST_CAPACITY, n_parameters))
        self._gram: Matrix = np.empty((self.FIRST_CAPACITY, self.FIRST_CAPACITY))
        self.slots: Numbers = np.empty(0, dtype=np.int64)
        self.held: Numbers = self.slots
        self._flat: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self.groups: Numbers = np.empty(0, dtype=np.int64)
        self.offsets: Vector = np.empty(0)
        self.centered_offsets: Vector = np.empty(0)
        self.tilts: Vector = np.empty(0)
        self.localities: Vector = np.empty(0)
        self.alpha: Vector = np.empty(0)
        self.idle: Numbers = np.empty(0, dtype=np.int64)
        self.numbers: Numbers = np.empty(0, dtype=np.int64)
        self._n_added = 0
        self._qp = SimplexQP()
        self.floor = -np.inf

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
        """A copy of the slopes, one row a plane."""
        return self._slopes[self.slots]

    @property
    def matrices(self) -> tuple[Matrix, Matrix]:
        """Where slopes and inner products are kept, with room for more planes.

        A row in use does not change. Those of planes that are dropped are used again, unless they
        are among the slots that are ``held``, for somebody who still reads them.
        """
        return self._slopes, self._gram

    @property
    def last_slope(self) -> Vector:
        """The slope of the newest plane."""
        return np.asarray(self._slopes[self.slots[-1]])

    @property
    def gram(self) -> Matrix:
        """Inner products of the slopes in the metric of a quadratic regularizer."""
        return self._gram[: self.n_planes, : self.n_planes]

    def add(self, *planes: Plane) -> None:
        """Append a plane of each group, with weight zero."""
        if len(planes) != self.n_groups:
            raise ValueError(
                f"the planes of {self.n_groups} groups come together, got {len(planes)}"
            )
        if not any(plane.slope.any() for plane in planes):
            self.floor = max(self.floor, sum(plane.offset for plane in planes))
        self._append(
            np.array([plane.slope for plane in planes]),
            np.array([plane.offset for plane in planes]),
            np.array([plane.tilt for plane in planes]),
            np.arange(self.n_groups),
            np.array([plane.locality for plane in planes]),
        )

    def add_mean(self) -> None:
        """Append the weighted mean of a bundle with one group, with weight zero.

        Its inner products follow from those of the planes: no pass over the slopes is needed.
        """
        alpha = self._exact_weights(self.alpha)
        mean = self._mean(alpha)
        self._append(
            mean.slope[None],
            np.array([mean.offset]),
            np.array([mean.tilt]),
            np.zeros(1, dtype=np.int64),
            np.array([mean.locality]),
            weights=alpha,
        )

    def lower(self, by: Vector, localities: Vector) -> None:
        """Lower each plane by a number that is not negative, and give it a new locality."""
        vars(self).update(
            offsets=self.offsets - by,
            centered_offsets=self.centered_offsets - by,
            localities=localities,
        )

    def keep(self, rows: Numbers) -> None:
        """Keep the planes with these (increasing) row numbers, drop the others."""
        n = len(rows)
        gram = np.empty_like(self._gram)
        gram[:n, :n] = self._gram[np.ix_(rows, rows)]
        kept = {name: getattr(self, name)[rows] for name in _OF_EACH_PLANE}
        kept |= {"_qp": self._qp.after_dropping(rows), "_gram": gram}
        if self._measured is not None:
            kept["_measured"] = (self._measured[0], self._measured[1][rows])
        # All at once, here and below: Ctrl-C between two of them would leave a broken bundle.
        vars(self).update(kept)

    def make_room(self, planes: int, incoming: int) -> None:
        """Keep at most so many planes a group, and a mean, before ``incoming`` ones are added.

        Planes without weight go first, the longest idle before the others; then the weighted mean
        of each group takes the place of the lightest ones, which gives the same bound as they did.
        """
        planes *= self.n_groups
        # One row more for each group, for its mean.
        excess = self.n_planes + incoming - (planes + self.n_groups)
        if excess <= 0:
            return
        n_idle = int(np.count_nonzero(self.alpha == 0.0))
        if n_idle >= excess:
            order = np.lexsort((-self.idle, self.alpha > 0.0))
            self.keep(np.sort(order[excess:]))
            return
        self.condense(max(planes - incoming, 0))

    def condense(self, n_kept: int) -> None:
        """Keep the heaviest planes, and one of each group that stands for all, with the weight."""
        n = self.n_planes
        heaviest = np.argsort(self.alpha, kind="stable")[n - n_kept :]
        # Added before the others go: an interrupt in between must not leave an empty bundle.
        self.add(*self.aggregates())
        self.keep(np.append(np.sort(heaviest), np.arange(n, self.n_planes)))
        self.alpha[:] = 0.0
        self.alpha[n_kept:] = 1.0

    def used_within(self, longest: int) -> Numbers:
        """Return the rows of all planes but those idle in more reduced problems than ``longest``.

        Flat planes stay, however long idle: there are few, and they keep the reduced problem
        bounded where the risk vanishes.
        """
        return np.flatnonzero(self._flat | (self.idle <= longest))

    def copied(self) -> Bundle:
        """Return a bundle with arrays of its own."""
        return deepcopy(self, {id(self.metric): self.metric})

    def carried_over(self, regularizer: Regularizer) -> Bundle:
        """Return the planes and their weights for another regularizer, without those long idle.

        Planes lie below the risk whatever the regularizer.
        """
        bundle = copy(self)
        bundle._qp = SimplexQP(free=self._qp.free, warm=self._qp.warm)
        bundle.keep(self.used_within(self.LONGEST_IDLE))
        bundle._slopes = np.empty_like(self._slopes)
        bundle._slopes[: bundle.n_planes] = self._slopes[bundle.slots]
        bundle.slots = np.arange(bundle.n_planes)
        bundle.held = np.empty(0, dtype=np.int64)
        measured_anew = Bundle(self.n_parameters, regularizer, self.n_groups)
        if self._has_geometry_of(measured_anew.metric):
            bundle.metric = measured_anew.metric
            return bundle
        measured_anew._append(
            bundle.slopes, bundle.offsets, bundle.tilts, bundle.groups, bundle.localities
        )
        measured_anew.alpha, measured_anew.idle = bundle.alpha, bundle.idle
        measured_anew._qp.free, measured_anew.floor = bundle._qp.free, bundle.floor
        return measured_anew

    def refill(self, n_parameters: int, slopes: Sequence[Vector], gram: Matrix) -> None:
        """Take over the slopes and inner products of the planes, which were kept elsewhere."""
        n, room = self.n_planes, self.FIRST_CAPACITY
        fitting = gram.dtype == np.float64 and gram.shape == (n, n)
        fitting &= self.metric is None or bool(np.isfinite(gram).all())
        for slope in slopes:
            fitting &= slope.shape == (n_parameters,) and np.isfinite(dot(slope, slope))
        if not fitting or len(slopes) != n:
            raise ValueError("slopes or inner products are not those of the planes")
        while room < n:
            room *= 2
        self._slopes, self._gram = np.zeros((room, n_parameters)), np.zeros((room, room))
        for row, slope in enumerate(slopes):
            self._slopes[row] = slope
        self._gram[:n, :n] = gram
        self.slots, self.held = np.arange(n), np.empty(0, dtype=np.int64)

    def minimize(self, problem: Problem, *, accuracy: float) -> Candidate:
        """Solve the reduced problem of a strictly convex regularizer, and take its weights."""
        if quadratic := problem.quadratic:
            self.weigh(quadratic.lam, accuracy=accuracy)
        else:
            regularizer = problem.regularizer
            start = self.feasible_weights(regularizer)
            self.set_weights(maximize_dual(regularizer, self.model(), start, accuracy=accuracy))
        return problem.below(self.aggregate())

    def weigh(self, lam: float, *, accuracy: float, shift: Vector | float = 0.0) -> None:
        """Solve the reduced problem's dual to ``accuracy``, and set the weights ``alpha``.

        For quadratic regularizers. With ``shift`` the offsets are higher by so much.
        """
        alpha = self._qp.solve_balanced(
            self._gram, self.centered_offsets + shift, self.tilts, lam,
            groups=self.groups if self.n_groups > 1 else None, start=self.alpha, accuracy=accuracy,
        )  # fmt: skip
        self.set_weights(alpha)

    def lowest(self, lam: float) -> float:
        """Return the dual's value at the weights, without a pass over the slopes.

        For quadratic regularizers, and where nothing is proven by it: the inner products of slopes
        that cancel have the rounding errors of those that do not.
        """
        products = inner_products(self._gram, np.arange(self.n_planes), self.alpha)
        return float(self.alpha @ self.centered_offsets) - dot(products, self.alpha) / (2.0 * lam)

    def set_weights(self, alpha: Vector) -> None:
        """Take over the weights of a reduced problem."""
        self.alpha, self.idle = alpha, np.where(alpha > 0.0, 0, self.idle + 1)

    def model(self) -> Model:
        """Return the planes as the reduced problem sees them."""
        return Model(self._slopes, self.slots, self.offsets, self.tilts, self.groups, self.n_groups)

    def feasible_weights(self, regularizer: Regularizer) -> Vector:
        """Return weights to begin a reduced problem with: the last ones, or a plane a group."""
        totals = np.bincount(self.groups, weights=self.alpha, minlength=self.n_groups)
        if np.all(np.abs(totals - 1.0) <= 1e-9):
            return self._exact_weights(self.alpha)
        # The first planes, mostly the floors, and the last, which were taken at one point, balance.
        first, last = np.zeros(self.n_planes), np.zeros(self.n_planes)
        first[: self.n_groups] = last[-self.n_groups :] = 1.0
        duals = [
            float(alpha @ self.offsets) - regularizer.conjugate(-self._mean(alpha).slope)[0]
            for alpha in (first, last)
        ]
        return first if duals[0] >= duals[1] else last

    def aggregate(self, alpha: Vector | None = None) -> Plane:
        """Return the planes' mean weighted by ``alpha``, of all groups together.

        It is again a plane below the risk. Other weights than those of the last reduced problem
        must be feasible too.
        """
        return self._mean(self._exact_weights(self.alpha if alpha is None else alpha))

    def aggregates(self) -> list[Plane]:
        """Return the weighted mean of each group's planes."""
        alpha = self._exact_weights(self.alpha)
        parts = [np.where(self.groups == k, alpha, 0.0) for k in range(self.n_groups)]
        return [self._mean(part) for part in parts]

    def heights_at(self, w: Vector) -> Vector:
        """Return the height of each plane at ``w``."""
        known = self._measured
        if known is None or not (known[0] is w or np.array_equal(known[0], w)):
            known = self._measured = (w, inner_products(self._slopes, self.slots, w))
        return known[1] + self.offsets

    def height_at(self, w: Vector, *more: Plane) -> float:
        """Return the model at ``w``; with ``more``, a plane for each group, if it had them too."""
        heights = np.append(
            self.heights_at(w), [dot(plane.slope, w) + plane.offset for plane in more]
        )
        tilts = np.append(self.tilts, [plane.tilt for plane in more])
        groups = np.append(self.groups, np.arange(len(more)))
        return lowest_model(heights, tilts, groups, self.n_groups)[0]

    def _mean(self, weights: Vector) -> Plane:
        numbers = (self.offsets, self.tilts, self.localities)
        slope = combination(self._slopes, self.slots, weights)
        return Plane(slope, *(float(weights @ number) for number in numbers))

    def _exact_weights(self, alpha: Vector) -> Vector:
        # Normalized once more, because the certificate needs weights that sum to one exactly.
        if self.n_groups == 1:
            return np.asarray(alpha / alpha.sum())
        totals = np.bincount(self.groups, weights=alpha, minlength=self.n_groups)
        return np.asarray(alpha / totals[self.groups])

    def _append(
        self,
        slopes: Matrix,
        offsets: Vector,
        tilts: Vector,
        groups: Numbers,
        localities: Vector,
        weights: Vector | None = None,
    ) -> None:
        """Append planes with weight zero, and their inner products with all others.

        With ``weights`` it is one plane, the sum of those that are there, weighted.
        """
        n = self.n_planes
        unused = np.ones(len(self._slopes), dtype=np.bool_)
        unused[self.slots] = unused[self.held] = False
        free = np.flatnonzero(unused)
        while len(free) < len(slopes):
            before, capacity = len(self._slopes), 2 * len(self._slopes)
            free = np.append(free, np.arange(before, capacity))
            wider, gram = np.empty((capacity, self.n_parameters)), np.empty((capacity, capacity))
            wider[:before], gram[:n, :n] = self._slopes, self.gram
            self._slopes, self._gram = wider, gram
        slots = np.append(self.slots, free[: len(slopes)])
        self._slopes[slots[n:]] = slopes
        centered = offsets
        if metric := self.metric:
            centered = offsets + [metric.at_center(slope) for slope in slopes]
            if weights is None:
                images = np.array([metric.dual_metric(slope) for slope in slopes])
                extend_gram(self._gram, self._slopes, slots, images)
            else:
                products = inner_products(self._gram, np.arange(n), weights)
                self._gram[n, :n] = self._gram[:n, n] = products
                self._gram[n, n] = dot(products, weights)
        new = {
            "_flat": ~slopes.any(axis=1),
            "groups": groups,
            "offsets": offsets,
            "centered_offsets": centered,
            "tilts": tilts,
            "localities": localities,
            "alpha": np.zeros(len(slopes)),
            "idle": np.zeros(len(slopes), dtype=np.int64),
            "numbers": self._n_added + np.arange(len(slopes)),
        }
        planes = {name: np.concatenate((getattr(self, name), part)) for name, part in new.items()}
        measured = self._measured
        if measured is not None:
            w, products = measured
            new_products = inner_products(self._slopes, slots[n:], w)
            measured = (w, np.concatenate((products, new_products)))
        vars(self).update(
            planes, slots=slots, _n_added=self._n_added + len(slopes), _measured=measured
        )

    def _has_geometry_of(self, other: QuadraticRegularizer | None) -> bool:
        """Say whether Gram matrix and centered offsets would be the same with the other one."""
        mine = self.metric
        if mine is None or other is None:
            return False
        # Metric and center are linear, and linear maps that agree on a random vector are equal.
        probe = np.random.default_rng(0).normal(size=self.n_parameters)
        return mine.at_center(probe) == other.at_center(probe) and np.array_equal(
            mine.dual_metric(probe), other.dual_metric(probe)
        )


@dataclass(frozen=True, slots=True)
class Model:
    """The planes below the risk; plane ``i`` has row ``slots[i]`` of ``storage`` for a slope."""

    storage: Matrix
    slots: Numbers
    offsets: Vector
    tilts: Vector
    groups: NDArray[np.int64]
    n_groups: int

    def lowest_height(self, heights: Vector) -> float:
        """Return the height of the model, given those of its planes."""
        if self.n_groups == 1:
            return float(heights.max())
        return lowest_model(heights, self.tilts, self.groups, self.n_groups)[0]

    def heights(self, w: Vector) -> Vector:
        """Return the height of each plane at ``w``."""
        return np.asarray(inner_products(self.storage, self.slots, w) + self.offsets)

    def slope(self, weights: Vector) -> Vector:
        """Return the sum of the slopes, weighted."""
        return np.asarray(combination(self.storage, self.slots, weights))

    def slopes(self) -> Matrix:
        """Return a copy of the slopes, one row a plane."""
        return self.storage[self.slots]


def maximize_dual(
    regularizer: Regularizer, model: Model, start: Vector, *, accuracy: float
) -> Vector:
    """Return weights whose dual value is within ``accuracy`` of the best, or as near as it goes.

    ``start`` is feasible: its tilts balance, and the weights of each group sum to one.

        maximize  D(alpha) = b.alpha - r*(-A'alpha)
        over      alpha >= 0, the weights of each group of planes sum to 1

    by Newton steps, for any regularizer that is strictly convex. ``D`` is concave, and its
    derivative is made of the heights of the planes at the ``w`` that the conjugate returns:
    ``D'(alpha) = A w + b``. Each step replaces ``D`` by its quadratic model, whose maximum is the
    quadratic program of `simplex_qp`, with ``A r*'' A'`` for the Gram matrix, and goes as far
    toward it as ``D`` rises. What ``alpha`` lacks is known at each step, for ``D`` is concave:

        D* - D(alpha)  <=  max_i (a_i.w + b_i) - alpha.(A w + b)

    so the work ends when that is small enough. Measured on reduced problems of a9a (hinge loss,
    elastic net, p-norm, entropy, bounds; 4 to 54 planes, accuracy 1e-5 to 1e-8): 7 to 13
    conjugates, 0.3 to 0.9 ms. Pairwise Frank-Wolfe steps take 240 to 46,000 conjugates, 2 to 800
    ms; L-BFGS on weights that are exponentials misses the accuracy in five of eight cases. Without
    ``local_gram`` the curvature comes from differences: 29 to 335 conjugates, 0.6 to 19 ms.
    """
    alpha, before, least = start, start, np.inf
    blind = False
    slopes = model.slopes()
    for _ in range(100):
        u = -model.slope(alpha)
        _, w = regularizer.conjugate(u)
        heights = model.heights(w)
        # Heights are sums of terms that each carry rounding errors of a few units.
        noise = 64 * EPS * float(np.abs(heights).max())
        gap = model.lowest_height(heights) - dot(alpha, heights)
        if blind and not gap < least:
            return before
        if not gap > max(accuracy, noise):
            break
        gram = local_gram(regularizer, u, slopes)
        # The direction sums to zero: less is rounded when heights are around zero.
        direction = _newton_direction(model, gram, heights - dot(alpha, heights), alpha)
        rise = dot(heights - dot(alpha, heights), direction)
        # Where the dual value does not change but by rounding, the gap says whether a step is good.
        blind = abs(rise) <= noise
        step = 1.0 if blind else _step(regularizer, model, u, direction, rise)
        if step == 0.0:
            break
        before, least = alpha, gap
        alpha = np.maximum(alpha + step * direction, 0.0)
    return alpha


def local_gram(regularizer: Regularizer, u: Vector, slopes: Matrix) -> Matrix:
    """Return ``slopes r*''(u) slopes'``, from differences if the regularizer does not offer it."""
    if isinstance(regularizer, CurvedRegularizer):
        return regularizer.local_gram(u, slopes)
    images = np.empty_like(slopes)
    size = np.sqrt(dot(u, u))
    for i, slope in enumerate(slopes):
        norm = np.sqrt(dot(slope, slope))
        # So far to both sides, differences are right to about 1e-10.
        probe = 1e-5 * max(size, norm) / norm if norm > 0.0 else 1.0
        ahead, behind = (regularizer.conjugate(u + step * slope)[1] for step in (probe, -probe))
        images[i] = (ahead - behind) / (2.0 * probe)
    gram = slopes @ images.T
    gram = 0.5 * (gram + gram.T)
    # The quadratic program must not take errors for negative curvature.
    gram[np.diag_indices_from(gram)] += 1e-9 * np.abs(np.diagonal(gram)).max()
    return np.asarray(gram)


def _newton_direction(model: Model, gram: Matrix, heights: Vector, alpha: Vector) -> Vector:
    """Return the way to the maximum of the quadratic model at ``alpha``."""
    # The planes with weight may be more than the coordinates that bend. They are then no support
    # that the program could go on from, and it begins with single planes.
    for start in (alpha, np.zeros_like(alpha)):
        target = SimplexQP(warm=start).solve_balanced(
            gram, heights + gram @ alpha, model.tilts, 1.0,
            groups=model.groups if model.n_groups > 1 else None, start=start, accuracy=0.0,
        )  # fmt: skip
        if dot(heights, target - alpha) > 0.0:
            break
    return np.asarray(target - alpha)


def _step(
    regularizer: Regularizer,
    model: Model,
    u: Vector,
    direction: Vector,
    rise: float,
    flat: float = 0.1,
) -> float:
    """Return how far to go, at most 1: where the dual value is higher, and nearly stops rising.

    A step may end where the rise is still ``flat``, a share of the rise at its beginning.
    """
    if not rise > 0.0:
        return 0.0
    change = -model.slope(direction)
    along_offsets = dot(model.offsets, direction)
    before = regularizer.conjugate(u)[0]

    def at(step: float) -> tuple[float, float]:
        """Return gain and derivative at a step."""
        with np.errstate(invalid="ignore", over="ignore"):
            value, w = regularizer.conjugate(u + step * change)
            gain, slope = step * along_offsets - (value - before), along_offsets - dot(w, change)
        # Where the minimizer overflows, the dual value falls.
        return (gain, slope) if np.isfinite(slope) else (-np.inf, -np.inf)

    low, high, at_low = 0.0, 1.0, rise
    gain, at_high = at(1.0)
    if at_high >= -flat * rise and (at_high >= 0.0 or gain > 0.0):
        return 1.0
    for _ in range(40):
        step = 0.5 * (low + high)
        if np.isfinite(at_high):
            margin = 0.1 * (high - low)
            secant = low + (high - low) * at_low / (at_low - at_high)
            step = min(max(secant, low + margin), high - margin)
        gain, slope = at(step)
        if abs(slope) <= flat * rise and (slope >= 0.0 or gain > 0.0):
            return step
        if slope < 0.0:
            high, at_high = step, slope
        else:
            low, at_low = step, slope
    return low
