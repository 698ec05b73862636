"""The reduced problem of a bundle method: a concave quadratic over a product of simplices.

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
"""

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

Indices = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)
LEAST_PIVOT = 64 * EPS  # squared, relative to the slopes subtracted; anything less is rounding
NEARLY_FLAT = 1e-12  # squared slopes this far below the largest count as so large
SCALE_DRIFT = 1e6  # refactor when the largest squared slope has moved this far from the scale
LEAST_SCALE = 1e-290  # division by less could overflow
PATIENCE = 16  # rounds without a better value or gap before giving up
STEPS_PER_PLANE = 30  # where to stop in any case; a cold start needs 1 to 3

# Rows of `work`, the memory of a call: an entry for each plane and each group. Python allocates
# it: a kernel that calls np.empty compiles that too, and counts references to what it returns.
GRADIENT, BEST, LACKS, ERROR, RISE, DIRECTION, MOVE, BEND, TOTAL, COSINE, SINE = range(11)
N_ROWS = 11

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
        least = LEAST_PIVOT * max(largest, NEARLY_FLAT)
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
    return largest if largest >= LEAST_SCALE else 1.0


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
    steps, stalled, limit = 0, 0, STEPS_PER_PLANE * alpha.size
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
        if gap <= max(accuracy, noise) or stalled > PATIENCE or steps > limit:
            break
        if stalled == PATIENCE // 2:
            scale = 0.0  # the factor has gathered too much rounding: start it afresh

        natural = largest_square(gram, base, support, size, top)
        if not natural / SCALE_DRIFT <= scale <= natural * SCALE_DRIFT:
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
