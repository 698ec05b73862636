"""The quadratic program of the bundle over one or several simplices, with its compiled loops.

The reduced problem of a bundle method: a concave quadratic over a product of simplices.

    maximize  D(alpha) = b.alpha - alpha' G alpha / (2 lam)
    over      alpha >= 0, the sum over each group of planes is 1

G is the Gram matrix of the planes' slopes, b their offsets. The ordinary bundle has one group. With
the gradient g = b - G alpha / lam, concavity bounds what is left to gain from any feasible alpha:

    D* - D(alpha)  <=  gap = sum_k max_{j in group k} g_j  -  alpha.g

The method is the primal active set of Wolfe (1976, the nearest point of a polytope) and Kiwiel
(1986, bundle subproblems). A support S carries all the weight. Maximize over S with the signs
ignored, stop at the first weight that would turn negative, drop that plane, repeat; once S has
settled, let the planes with the largest g_j of their groups enter. Consecutive problems of a bundle
method differ by a plane or two of each group, so a warm start needs a handful of steps, each
O(n |S|).

One plane of S in each group is its base: the others of the group take their weight from it. That
leaves a problem without equality constraints in the weights of the others, and the factor kept
between steps, and between calls, is for them, in order of entry,

    L L' = H / scale + E,      H_jl = (a_j - base of j).(a_l - base of l),    E diagonal, E >= 0

- lam is not part of it, so it survives a change of lam; `scale` frees it from the units of G.
- E is zero except where a plane is affinely dependent on those before it (duplicates, rank < |S|).
  There the pivot is zero or rounding noise, and is lifted to a tiny positive value. The direction
  from L then still points uphill. Each step's length comes from the true curvature, so that along
  a direction without curvature it runs to the boundary, where the redundant plane leaves.
- When a base loses its weight, the plane of its group that entered first takes its place: its row
  is subtracted from those of the group below it, which leaves L triangular, and deleted.

Gradients are computed afresh from G, never updated from round to round: rounding in L may cost
extra steps, not accuracy.

The kernels do that; the classes keep what goes from one problem to the next.

A risk may minimize a number ``c`` out that its groups share: ``R(w) = min_c sum_k R_k(w, c)``. Then
the planes of a group have a slope along ``c`` too, their tilt ``t``, and the model is

    min_c  sum_k max_{i in group k} a_i.w + b_i + t_i c

Weights give a plane below ``R`` if the tilts balance, ``t.alpha = 0``. So the reduced problem has
one more constraint. Its multiplier is ``c``: for each ``c`` the problem without the constraint,
with the offsets ``b + c t``, is solved as ever, and ``t.alpha`` grows with ``c``. A search finds
two values of ``c`` with solutions that tilt to either side, and the mean of the solutions that
balances is feasible. What it lacks is bounded as above, for any ``c``:

    D* - D(alpha)  <=  sum_k max_{j in group k} (g_j + t_j c)  -  alpha.g
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import combination

Indices = NDArray[np.int64]

LEAST_PIVOT = 64 * EPS  # squared, relative to the slopes subtracted; anything less is rounding


class _Limits(NamedTuple):
    """What the kernels take for flat, for rounding, and for the end of their progress."""

    nearly_flat: float = 1e-12  # squared slopes this far below the largest count as so large
    scale_drift: float = 1e6  # refactor when the largest squared slope is this far from the scale
    least_scale: float = 1e-290  # division by less could overflow
    patience: int = 16  # rounds without a better value or gap before giving up
    steps_per_plane: int = 30  # where to stop in any case; a cold start needs 1 to 3


LIMITS = _Limits()

# Rows of `work`, the memory of a call: an entry for each plane and each group. Python allocates
# it: a kernel that calls np.empty compiles that too, and counts references to what it returns.
GRADIENT, BEST, LACKS, ERROR, RISE, DIRECTION, MOVE, BEND, TOTAL, COSINE, SINE = range(11)
N_ROWS = SINE + 1

# Reassociated sums vectorize; NaN and inf keep their meaning, and division by zero never raises.
# The kernels are plain loops on purpose: slice assignments would add 2 s of compile time.
_REORDER = {"reassoc", "contract"}
kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
inner = njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER, inner=True)


@inner
def factorize(
    gram: Matrix, groups: Indices, base: Indices, support: Indices, scale: float, factor: Matrix,
    first: int, size: int,
) -> bool:  # fmt: skip
    """Compute rows first..size-1 of the factor from those above them.

    Returns whether the last of them depends on the others, so that its pivot had to be lifted.
    """
    pivot, least = 1.0, 0.0
    for p in range(first, size):
        j, b = support[p], base[groups[support[p]]]
        row, inner, inner_base = factor[p], gram[j], gram[b]
        pivot = ((inner[j] - inner[b]) - (inner_base[j] - inner_base[b])) / scale
        for q in range(p):
            above, k, c = factor[q], support[q], base[groups[support[q]]]
            entry = ((inner[k] - inner[c]) - (inner_base[k] - inner_base[c])) / scale
            for r in range(q):
                entry -= row[r] * above[r]
            row[q] = entry / above[q]
            pivot -= row[q] * row[q]
        largest = max(inner[j] / scale, inner_base[b] / scale)
        least = LEAST_PIVOT * max(largest, LIMITS.nearly_flat)
        row[p] = np.sqrt(max(pivot, least))
    return pivot <= least


@inner
def drop(gone: int, support: Indices, factor: Matrix, size: int, work: Matrix) -> None:
    """Delete a plane from support and factor, given its position.

    Deleting a row leaves one entry right of the diagonal in each row below. Givens rotations of
    neighboring columns clear them: row by row, each row making the rotation for the next.
    """
    cosine, sine = work[COSINE], work[SINE]
    for p in range(gone, size - 1):
        support[p] = support[p + 1]
        new, old = factor[p], factor[p + 1]
        for q in range(gone):
            new[q] = old[q]
        carried = old[gone]
        for q in range(gone, p):
            new[q] = cosine[q] * carried + sine[q] * old[q + 1]
            carried = cosine[q] * old[q + 1] - sine[q] * carried
        new[p] = np.sqrt(carried * carried + old[p + 1] * old[p + 1])
        cosine[p] = carried / new[p]
        sine[p] = old[p + 1] / new[p]


@inner
def drop_weightless(
    alpha: Vector, groups: Indices, base: Indices, support: Indices, factor: Matrix, size: int,
    work: Matrix,
) -> int:  # fmt: skip
    """Delete the planes without weight from support and factor; return the new size."""
    for p in range(size - 1, -1, -1):
        if not alpha[support[p]] > 0.0:
            drop(p, support, factor, size, work)
            size -= 1
    for k in range(base.size):
        if alpha[base[k]] > 0.0:
            continue
        heir = 0
        while heir < size and groups[support[heir]] != k:
            heir += 1
        if heir == size:
            continue
        base[k] = support[heir]
        for p in range(heir + 1, size):
            if groups[support[p]] == k:
                for q in range(heir + 1):
                    factor[p, q] -= factor[heir, q]
        drop(heir, support, factor, size, work)
        size -= 1
    return size


@inner
def find_direction(factor: Matrix, size: int, rise: Vector, direction: Vector) -> None:
    """Maximize rise.d - d'LL'd / 2."""
    for p in range(size):
        row = factor[p]
        x = rise[p]
        for q in range(p):
            x -= row[q] * direction[q]
        direction[p] = x / row[p]
    for p in range(size - 1, -1, -1):
        row = factor[p]
        direction[p] /= row[p]
        for q in range(p):
            direction[q] -= row[q] * direction[p]


@inner
def settle(
    gram: Matrix, lam: float, groups: Indices, alpha: Vector, gradient: Vector,
    base: Indices, support: Indices, size: int, factor: Matrix, work: Matrix, moving: Indices,
) -> tuple[int, int]:  # fmt: skip
    """Maximize over the support, dropping the planes whose weight reaches zero on the way.

    alpha, base, support and factor are updated in place. Of the gradient only the entries of planes
    with weight are read and updated. Returns the new size of the support and the number of steps.
    """
    n_groups = base.size
    rise, direction, move = work[RISE], work[DIRECTION], work[MOVE]
    bend, total = work[BEND], work[TOTAL]
    steps = 0
    blocked = True
    while blocked and size > 0:
        spread = 0.0
        for p in range(size):
            rise[p] = gradient[support[p]] - gradient[base[groups[support[p]]]]
            spread = max(spread, abs(rise[p]))
        for p in range(size):
            rise[p] /= spread
        find_direction(factor, size, rise, direction)

        # Planes that have just entered and do not rise together with the others go again.
        before = size
        for p in range(size - 1, -1, -1):
            if direction[p] < 0.0 and alpha[support[p]] == 0.0:
                drop(p, support, factor, size, work)
                size -= 1
        if size < before:
            continue

        for k in range(n_groups):
            total[k] = 0.0
        for p in range(size):
            moving[p], move[p] = support[p], direction[p]
            total[groups[support[p]]] += direction[p]
        n_moving = size
        for k in range(n_groups):
            if total[k] != 0.0:
                moving[n_moving], move[n_moving] = base[k], -total[k]
                n_moving += 1
        slope, curvature, boundary, first = 0.0, 0.0, np.inf, 0
        for p in range(size):
            slope += rise[p] * direction[p]
        for p in range(n_moving):
            inner = gram[moving[p]]
            product = 0.0
            for q in range(n_moving):
                product += inner[moving[q]] * move[q]
            bend[p] = product
            curvature += bend[p] * move[p]
            if move[p] < 0.0 and alpha[moving[p]] < -move[p] * boundary:
                boundary, first = alpha[moving[p]] / -move[p], p
        rises = 0.0 < slope < np.inf and boundary < np.inf  # else level up to rounding, or overflow
        blocked = rises and not slope * spread * lam < curvature * boundary
        if rises:
            length = boundary if blocked else slope * spread * lam / curvature
            for p in range(n_moving):
                plane = moving[p]
                alpha[plane] = max(alpha[plane] + length * move[p], 0.0)
                gradient[plane] -= length * bend[p] / lam
            steps += 1
        if blocked:
            alpha[moving[first]] = 0.0  # not left to rounding: this is why the loop ends
        size = drop_weightless(alpha, groups, base, support, factor, size, work)
    for k in range(n_groups):
        total[k] = alpha[base[k]]
    for p in range(size):
        total[groups[support[p]]] += alpha[support[p]]
    for p in range(size):
        alpha[support[p]] /= total[groups[support[p]]]
    for k in range(n_groups):
        alpha[base[k]] /= total[k]
    return size, steps


@inner
def assess(
    gram: Matrix, offsets: Vector, lam: float, groups: Indices, alpha: Vector,
    base: Indices, support: Indices, size: int, gradient: Vector, top: Indices, lacks: Vector,
    error: Vector,
) -> tuple[float, float, float]:  # fmt: skip
    """Compute the gradient, its largest entry's index and what is to gain in each group.

    Returns D, the gap and the gap's noise: the rounding error of the gradient entries that the gap
    compares, bounded by means of |G_jk| <= sqrt(G_jj G_kk).
    """
    n, n_groups = offsets.size, base.size
    for j in range(n):
        gradient[j] = 0.0
    norm = 0.0
    for p in range(size + n_groups):
        i = support[p] if p < size else base[p - size]
        inner, weight = gram[i], alpha[i]
        norm += weight * np.sqrt(abs(inner[i]))
        for j in range(n):
            gradient[j] += weight * inner[j]
    for k in range(n_groups):
        top[k] = base[k]
    for j in range(n):
        gradient[j] = offsets[j] - gradient[j] / lam
    for j in range(n):
        if gradient[j] > gradient[top[groups[j]]]:
            top[groups[j]] = j
    for k in range(n_groups):
        j = top[k]
        lacks[k] = gradient[j]
        error[k] = abs(offsets[j]) + np.sqrt(abs(gram[j, j])) * norm / lam
    value = 0.0
    for p in range(size + n_groups):
        j = support[p] if p < size else base[p - size]
        value += alpha[j] * (offsets[j] + gradient[j]) / 2
    for p in range(size + n_groups):
        j = support[p] if p < size else base[p - size]
        k = groups[j]
        lacks[k] -= alpha[j] * gradient[j]
        error[k] = max(error[k], abs(offsets[j]) + np.sqrt(abs(gram[j, j])) * norm / lam)
    gap, noise = 0.0, 0.0
    for k in range(n_groups):
        gap += lacks[k]
        noise += error[k]
    return value, gap, EPS * noise


@inner
def largest_square(gram: Matrix, base: Indices, support: Indices, size: int, top: Indices) -> float:
    """Return the largest squared slope of support and top, or 1 if it is next to nothing."""
    largest = 0.0
    for p in range(size):
        largest = max(largest, gram[support[p], support[p]])
    for k in range(base.size):
        largest = max(largest, gram[base[k], base[k]])
        largest = max(largest, gram[top[k], top[k]])
    return largest if largest >= LIMITS.least_scale else 1.0


@inner
def let_enter(
    gram: Matrix, groups: Indices, alpha: Vector, top: Indices, lacks: Vector,
    base: Indices, support: Indices, size: int, factor: Matrix, scale: float,
) -> int:  # fmt: skip
    """Append the top planes of the groups that lack the most; return the new size.

    A plane that depends on the others enters only alone: of several, the direction would be noise.
    """
    n_groups, before = base.size, size
    first, total = 0, 0.0
    for k in range(n_groups):
        total += lacks[k]
        if lacks[k] > lacks[first]:
            first = k
    enough = total / (2 * n_groups)
    for k in range(first, first + n_groups):
        k = k % n_groups
        if alpha[top[k]] > 0.0 or lacks[k] <= enough:
            continue
        support[size] = top[k]
        dependent = factorize(gram, groups, base, support, scale, factor, size, size + 1)
        if dependent and size > before:
            continue
        size += 1
        if dependent:
            break
    return size


@kernel
def maximize(
    gram: Matrix, offsets: Vector, lam: float, groups: Indices, accuracy: float, alpha: Vector,
    base: Indices, support: Indices, size: int, factor: Matrix, scale: float,
    work: Matrix, places: Indices,
) -> tuple[float, int, int, float]:  # fmt: skip
    """Improve alpha in place until its gap is small enough, or nothing improves any more.

    `base` and `support[:size]` are the planes with weight; `factor` is theirs for `scale`, unless
    that is zero. `work` and `places` (two rows) are overwritten. Returns the gap, the number of
    steps, and the new size and scale.
    """
    gradient, best_alpha, lacks, error = work[GRADIENT], work[BEST], work[LACKS], work[ERROR]
    top, moving = places[0], places[1]
    best_gap, best_value = np.inf, -np.inf
    steps, stalled, limit = 0, 0, LIMITS.steps_per_plane * alpha.size
    # For a plain 0 `factorize` would be compiled once more: Numba has types for literals.
    top_row: int = np.int64(0)  # type: ignore[assignment]
    while True:
        value, gap, noise = assess(
            gram, offsets, lam, groups, alpha, base, support, size, gradient, top, lacks, error
        )
        stalled += 1
        if value > best_value:
            best_value = value
            stalled = 0
        if gap < best_gap:
            best_gap = gap
            for j in range(alpha.size):
                best_alpha[j] = alpha[j]
            stalled = 0
        if gap <= max(accuracy, noise) or stalled > LIMITS.patience or steps > limit:
            break
        if stalled == LIMITS.patience // 2:
            scale = 0.0  # the factor has gathered too much rounding: start it afresh

        natural = largest_square(gram, base, support, size, top)
        if not natural / LIMITS.scale_drift <= scale <= natural * LIMITS.scale_drift:
            scale = natural
            factorize(gram, groups, base, support, scale, factor, top_row, size)
        size = let_enter(gram, groups, alpha, top, lacks, base, support, size, factor, scale)
        size, taken = settle(
            gram, lam, groups, alpha, gradient, base, support, size, factor, work, moving
        )
        steps += taken

    if best_gap < np.inf:
        for j in range(alpha.size):
            alpha[j] = best_alpha[j]
    return max(best_gap, 0.0), steps, size, scale


@dataclass(frozen=True, slots=True)
class SimplexSolution:
    """A feasible alpha, and a bound on what it lacks.

    Attributes
    ----------
    alpha : Vector of shape (n,)
        Non-negative; the weights of each group sum to one up to rounding.
    gap : float
        At least D* - D(alpha), in units of D; recomputed at this alpha.
    steps : int
        Moves made along a search direction.
    """

    alpha: Vector
    gap: float
    steps: int


@dataclass(slots=True)
class SimplexQP:
    """Warm-started solver; keeps the support and its factor between calls.

    Between calls planes may be appended and lam may change. When planes are dropped, go on with
    `after_dropping`; after any other change to them (replaced, regrouped) call `forget` first.

    Attributes
    ----------
    base : Indices
        A plane of each group, which the others of the group exchange weight with.
    support : Indices
        The other planes with weight are its first ``size`` entries.
    factor : Matrix
        Its leading block belongs to them, scaled by ``scale``; zero if there is none.
    free : float
        The free parameter that groups share, of the last problem with tilts.
    warm : Vector
        Where the next problem with tilts begins: one of the two solutions that the last weights are
        a mean of. The planes of both together depend on each other, which makes the mean a bad
        place to start from.
    """

    base: Annotated[Indices, "i8[*]<k"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    support: Annotated[Indices, "i8[m]"] = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )
    factor: Annotated[Matrix, "f8~[m, m]"] = field(default_factory=lambda: np.empty((0, 0)))
    size: int = 0
    scale: Annotated[float, "float"] = 0.0
    free: Annotated[float, "float"] = 0.0
    warm: Annotated[Vector, "f8[*]"] = field(default_factory=lambda: np.empty(0))

    def forget(self) -> None:
        """Discard the factor: the next solve refactors the support of its `start`."""
        self.size, self.scale = 0, 0.0

    def after_dropping(self, rows: Indices) -> SimplexQP:
        """Return the solver for when only these (increasing) rows are left, in this order.

        It takes the factor along if all planes with weight are among them.
        """
        solver = SimplexQP(free=self.free, warm=self.warm[rows[rows < len(self.warm)]])
        planes = np.append(self.support[: self.size], self.base)
        positions = np.searchsorted(rows, planes)
        if self.scale and np.isin(planes, rows).all():
            solver.size, solver.scale, solver.factor = self.size, self.scale, self.factor
            solver.support = np.empty_like(self.support)
            solver.support[: self.size] = positions[: self.size]
            solver.base = positions[self.size :]
        return solver

    def solve(
        self,
        gram: Matrix,
        offsets: Vector,
        lam: float,
        *,
        groups: Indices | None = None,
        start: Vector | None = None,
        accuracy: float = 0.0,
    ) -> SimplexSolution:
        """Maximize D over the simplex of each group.

        Parameters
        ----------
        gram : Matrix of shape (n, n), or larger
            Its leading block counts: symmetric, positive semidefinite up to rounding, finite. It
            is read in place if it is C-ordered, of float64 and writeable, and copied if not.
        offsets : Vector of shape (n,)
            Finite.
        lam : float
            Positive.
        groups : Indices of shape (n,), optional
            The group of each plane, 0, 1, 2, ..., none of them empty; one group by default.
        start : Vector of at most n entries, optional
            Where to begin, padded with zeros; usually the previous solution. If absent or not on
            the simplices: the best single plane of each group.
        accuracy : float
            Stop once the gap is at most this, or as small as rounding allows.

        Returns
        -------
        SimplexSolution
            The iterate with the smallest gap, also if progress stopped short of `accuracy`.
        """
        gram = np.require(gram, np.float64, ["C", "A", "W"])
        offsets = np.array(offsets, dtype=np.float64)
        alpha = _starting_point(start, len(offsets), groups)
        groups = np.zeros(len(offsets), dtype=np.int64) if groups is None else groups
        if alpha is None:
            alpha = np.zeros(len(offsets))
            with np.errstate(over="ignore"):  # -inf is never the best
                alone = offsets - np.diagonal(gram)[: len(offsets)] / (2 * lam)
            order = np.lexsort((-np.arange(len(alone)), alone, groups))
            alpha[order[np.append(np.diff(groups[order]) > 0, True)]] = 1.0
        self._adopt_support(alpha, groups)
        width = len(alpha) + len(self.base)
        gap, steps, self.size, self.scale = maximize(
            gram, offsets, float(lam), groups, float(accuracy), alpha,
            self.base, self.support, self.size, self.factor, self.scale,
            np.empty((N_ROWS, width)), np.empty((2, width), dtype=np.int64),
        )  # fmt: skip
        return SimplexSolution(alpha, gap, steps)

    def solve_balanced(
        self, gram: Matrix, offsets: Vector, tilts: Vector, lam: float, *,
        groups: Indices | None, start: Vector, accuracy: float,
    ) -> Vector:  # fmt: skip
        """Maximize D over the simplex of each group, such that the tilts balance; return alpha.

        Parameters are those of `solve`; ``start`` balances, or is zero at the very first call, when
        the last plane of each group must. The search begins at ``free`` and ``warm``, which need
        not.
        """
        if groups is None or not tilts.any():
            self.warm = self.solve(
                gram, offsets, lam, groups=groups, start=start, accuracy=accuracy
            ).alpha
            return self.warm
        gram = np.require(gram, np.float64, ["C", "A", "W"])
        n_groups, free, alpha = int(groups.max()) + 1, self.free, self.warm
        best, rows = start, np.arange(len(offsets))
        if not start.any():
            best = np.zeros(len(groups))
            # The last plane of each group: they were taken at one point, so they balance.
            best[len(groups) - 1 - np.unique(groups[::-1], return_index=True)[1]] = 1.0
        least = width = np.inf
        step = 1e-2 * ((float(np.ptp(offsets)) or 1.0) / float(np.abs(tilts).max()))
        low: _End | None = None
        high: _End | None = None
        # Enough to go 1e30 units away, or to halve a bracket to rounding; 2 to 4 are usual.
        for _ in range(60):
            alpha = self.solve(
                gram, offsets + free * tilts, lam,
                groups=groups, start=alpha, accuracy=0.5 * accuracy,
            ).alpha  # fmt: skip
            end = _End(free, float(tilts @ alpha), alpha)
            if abs(end.tilt) <= 16 * EPS * float(np.abs(tilts) @ alpha):
                low = high = end
            elif end.tilt < 0.0:
                low = end
            else:
                high = end
            if low is None or high is None:
                free += step if high is None else -step
                step *= 4.0
                continue
            mean = _mean(low, high)
            gradient = offsets - combination(gram, rows, mean)[: len(offsets)] / lam
            height, multiplier = lowest_model(gradient, tilts, groups, n_groups)
            gap = height - float(mean @ gradient)
            if gap < least:
                least, best = gap, mean
                self.free, self.warm = multiplier, alpha
            before, width = width, high.free - low.free
            if gap <= accuracy or width <= 4 * EPS * (abs(low.free) + abs(high.free)):
                break
            if width <= 0.5 * before and low.free < multiplier < high.free:
                free = multiplier
            else:
                free = 0.5 * (low.free + high.free)
        return best

    def _adopt_support(self, alpha: Vector, groups: Indices) -> None:
        """Make the support that of alpha, keeping the factor if it already is."""
        n, size = len(alpha), self.size
        if n > len(self.support):
            support, factor = np.empty(2 * n, dtype=np.int64), np.empty((2 * n, 2 * n))
            support[:size] = self.support[:size]
            factor[:size, :size] = self.factor[:size, :size]
            self.support, self.factor = support, factor
        if (
            self.scale == 0.0
            or np.count_nonzero(alpha) != size + len(self.base)
            or not alpha[self.support[:size]].all()
            or not alpha[self.base].all()
        ):
            self.scale = 0.0
            positive = np.flatnonzero(alpha)
            # The heaviest plane of each group is its base: it is the last to lose its weight.
            order = positive[np.lexsort((-alpha[positive], groups[positive]))]
            first = np.diff(groups[order], prepend=-1) > 0
            self.base, others = order[first], np.sort(order[~first])
            self.size = len(others)
            self.support[: self.size] = others


class _End(NamedTuple):
    """A solution without the constraint: an end of the bracket."""

    free: float
    tilt: float
    alpha: Vector


def _mean(low: _End, high: _End) -> Vector:
    """Return the mean of two solutions that balances."""
    if high is low:
        return low.alpha
    share = high.tilt / (high.tilt - low.tilt)
    return np.asarray(share * low.alpha + (1.0 - share) * high.alpha)


def _starting_point(start: Vector | None, n: int, groups: Indices | None) -> Vector | None:
    """Return start, padded and with sums of one, or None if it is nothing like that."""
    if start is None or not 0 < len(start) <= n or not start.min() >= 0.0:
        return None
    if groups is None:
        totals = divisors = np.array([start.sum()])
    else:
        used = groups[: len(start)]
        totals = np.bincount(used, weights=start, minlength=int(groups.max()) + 1)
        divisors = totals[used]
    if not np.all(np.abs(totals - 1.0) <= 1e-9):
        return None
    alpha = np.zeros(n)
    alpha[: len(start)] = start / divisors
    return alpha


@njit(cache=True, nogil=True, error_model="numpy")
def _model(
    heights: Vector, tilts: Vector, groups: Indices, top: Indices, free: float
) -> tuple[float, float]:
    """Return the sum over groups of the highest plane, and its slope, at a free parameter."""
    for k in range(top.size):
        top[k] = -1
    for j in range(groups.size):
        best = top[groups[j]]
        if best < 0 or heights[j] + free * tilts[j] > heights[best] + free * tilts[best]:
            top[groups[j]] = j
    total, slope = 0.0, 0.0
    for k in range(top.size):
        total += heights[top[k]] + free * tilts[top[k]]
        slope += tilts[top[k]]
    return total, slope


@njit(cache=True, nogil=True, error_model="numpy")
def lowest_model(
    heights: Vector, tilts: Vector, groups: Indices, n_groups: int
) -> tuple[float, float]:
    """Minimize ``sum_k max_{j in k} heights_j + c tilts_j`` over c; return minimum and minimizer.

    The function is convex and made of straight pieces. Two of them, to either side of the minimum,
    cross at the next c to try, until that is on both.
    """
    top = np.empty(n_groups, np.int64)
    steepest, spread = 0.0, 0.0
    for j in range(groups.size):
        steepest = max(steepest, abs(tilts[j]))
        spread = max(spread, abs(heights[j]))
    best, slope = _model(heights, tilts, groups, top, 0.0)
    at, c = 0.0, 0.0
    if steepest == 0.0:
        return best, at
    rounding = 8 * EPS * (spread + abs(best)) * n_groups
    level = 4 * EPS * steepest * n_groups
    low, low_value, low_slope = -np.inf, 0.0, 0.0
    high, high_value, high_slope = np.inf, 0.0, 0.0
    step = (spread if spread > 0.0 else 1.0) / steepest
    value = best
    for _ in range(200):
        if abs(slope) <= level:
            break
        if slope < 0.0:
            low, low_value, low_slope = c, value, slope
        else:
            high, high_value, high_slope = c, value, slope
        if high == np.inf:
            c = low + step
            step *= 4.0
        elif low == -np.inf:
            c = high - step
            step *= 4.0
        else:
            run = (low_value - high_value + high_slope * (high - low)) / (high_slope - low_slope)
            c = low + run
            if not low < c < high:
                break
        value, slope = _model(heights, tilts, groups, top, c)
        if value < best:
            best, at = value, c
        if (
            low > -np.inf
            and high < np.inf
            and value <= low_value + low_slope * (c - low) + rounding
        ):
            break
    return best, at
