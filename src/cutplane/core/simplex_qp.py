"""The reduced problem of a bundle method: a concave quadratic over the simplex.

    maximise  D(alpha) = b.alpha - alpha' G alpha / (2 lam)    over alpha >= 0, sum(alpha) = 1

G is the Gram matrix of the planes' slopes, b their offsets. With the gradient
g = b - G alpha / lam, concavity bounds what is left to gain from any feasible alpha:

    D* - D(alpha)  <=  gap = max_j g_j - alpha.g

The method is the primal active set of Wolfe (1976, the nearest point of a polytope) and Kiwiel
(1986, bundle subproblems). A support S carries all the weight. Maximise over S with the signs
ignored, stop at the first weight that would turn negative, drop that plane, repeat; once S has
settled, let the plane with the largest g_j enter. Consecutive problems of a bundle method differ
by a plane or two, so a warm start needs a handful of steps, each O(n |S|).

The factor kept between steps, and between calls, is for S in order of entry

    L L' = G_SS / scale + 1 1' + E,        E diagonal, E >= 0

- On the simplex 1 1' is a constant: it changes no solution, and makes the matrix positive definite
  whenever the planes of S are affinely independent (a flat plane, or a and -a, included).
- lam is not part of it, so it survives a change of lam; `scale` frees it from the units of G.
- E is zero except where a plane is affinely dependent on those before it (duplicates, rank < |S|).
  There the pivot is zero or rounding noise, and is lifted to a tiny positive value. The direction
  from L then still points uphill. Each step's length comes from the true curvature, so that along
  a direction without curvature it runs to the boundary, where the redundant plane leaves.

Gradients are computed afresh from G, never updated from round to round: rounding in L may cost
extra steps, not accuracy.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cutplane.core.protocols import Matrix, Vector

Indices = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)
LEAST_PIVOT = 64 * EPS  # squared, relative to the diagonal entry; anything less is rounding
NEARLY_FLAT = 1e-12  # squared slopes this far below the largest have no say in the scale
SCALE_DRIFT = 1e3  # refactor when the natural scale has moved this far from that of the factor
LEAST_SCALE = 1e-290  # division by less could overflow
PATIENCE = 16  # rounds without a better value or gap before giving up
STEPS_PER_PLANE = 30  # where to stop in any case; a cold start needs 1 to 3

# Reassociated sums vectorise; NaN and inf keep their meaning, and division by zero never raises.
# The kernels are plain loops on purpose: slice assignments would add 2 s of compile time.
kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@dataclass(frozen=True, slots=True)
class SimplexSolution:
    """A feasible alpha, and a bound on what it lacks.

    Attributes
    ----------
    alpha : Vector of shape (n,)
        Non-negative; sums to one up to rounding.
    gap : float
        max_j g_j - alpha.g >= D* - D(alpha), in units of D; recomputed at this alpha.
    steps : int
        Moves made along a search direction.
    """

    alpha: Vector
    gap: float
    steps: int


class SimplexQP:
    """Warm-started solver; keeps the support and its factor between calls.

    Between calls planes may be appended and lam may change. After any other change to the planes
    (dropped, renumbered, replaced) call `forget` first.
    """

    def __init__(self) -> None:
        self._support = np.empty(0, dtype=np.int64)
        self._factor = np.empty((0, 0))
        self.forget()

    def forget(self) -> None:
        """Discard the factor: the next solve refactors the support of its `start`."""
        self._size = 0
        self._scale = 0.0

    def solve(
        self,
        gram: Matrix,
        offsets: Vector,
        lam: float,
        *,
        start: Vector | None = None,
        accuracy: float = 0.0,
    ) -> SimplexSolution:
        """Maximise D over the simplex.

        Parameters
        ----------
        gram : Matrix of shape (n, n)
            Symmetric, positive semidefinite up to rounding, finite. The leading block of a larger
            C-ordered array is read in place; other layouts are copied.
        offsets : Vector of shape (n,)
            Finite.
        lam : float
            Positive.
        start : Vector of at most n entries, optional
            Where to begin, padded with zeros; usually the previous solution. If absent or not on
            the simplex: the best single plane.
        accuracy : float
            Stop once the gap is at most this, or as small as rounding allows.

        Returns
        -------
        SimplexSolution
            The iterate with the smallest gap, also if progress stopped short of `accuracy`.
        """
        offsets = np.array(offsets, dtype=np.float64)
        alpha = np.zeros(len(offsets))
        if start is not None and _is_on_simplex(start, len(offsets)):
            alpha[: len(start)] = start / start.sum()
        else:
            with np.errstate(over="ignore"):  # -inf is never the best
                alpha[np.argmax(offsets - np.diagonal(gram) / (2 * lam))] = 1.0
        self._adopt_support(alpha)
        gap, steps, self._size, self._scale = _maximise(
            _row_major(gram), offsets, float(lam), float(accuracy), alpha,
            self._support, self._size, self._factor, self._scale,
        )  # fmt: skip
        return SimplexSolution(alpha, gap, steps)

    def _adopt_support(self, alpha: Vector) -> None:
        """Make the support that of alpha, keeping the factor if it already is."""
        n, size = len(alpha), self._size
        if n > len(self._support):
            support, factor = np.empty(2 * n, dtype=np.int64), np.empty((2 * n, 2 * n))
            support[:size] = self._support[:size]
            factor[:size, :size] = self._factor[:size, :size]
            self._support, self._factor = support, factor
        if np.count_nonzero(alpha) != size or not alpha[self._support[:size]].all():
            self.forget()
            positive = np.flatnonzero(alpha)
            self._size = len(positive)
            self._support[: self._size] = positive


def _row_major(gram: Matrix) -> Matrix:
    """Return a C-ordered array whose leading block is gram: the layout the kernels know."""
    whole = gram if gram.flags.c_contiguous else gram.base
    if (
        isinstance(whole, np.ndarray)
        and whole.dtype == np.float64
        and whole.flags.carray
        and whole.strides == gram.strides
        and whole.ctypes.data == gram.ctypes.data
    ):
        return whole
    return np.array(gram, dtype=np.float64, order="C")


def _is_on_simplex(start: Vector, n: int) -> bool:
    """Return whether start gives at most n planes non-negative weights of unit sum, nearly."""
    return 0 < len(start) <= n and bool(start.min() >= 0.0 and abs(start.sum() - 1.0) <= 1e-9)


@kernel
def _factorise(
    gram: Matrix, support: Indices, scale: float, factor: Matrix, first: int, size: int
) -> None:
    """Compute rows first..size-1 of the factor from those above them."""
    for p in range(first, size):
        row, inner = factor[p], gram[support[p]]
        diagonal = inner[support[p]] / scale + 1.0
        pivot = diagonal
        for q in range(p):
            above = factor[q]
            entry = inner[support[q]] / scale + 1.0
            for r in range(q):
                entry -= row[r] * above[r]
            row[q] = entry / above[q]
            pivot -= row[q] * row[q]
        row[p] = np.sqrt(max(pivot, LEAST_PIVOT * diagonal))


@kernel
def _drop_weightless(alpha: Vector, support: Indices, factor: Matrix, size: int) -> int:
    """Delete the planes without weight from support and factor; return the new size.

    Deleting a row leaves one entry right of the diagonal in each row below. Givens rotations of
    neighbouring columns clear them: row by row, each row making the rotation for the next.
    """
    cosine, sine = np.empty(size), np.empty(size)
    for gone in range(size - 1, -1, -1):
        if alpha[support[gone]] > 0.0:
            continue
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
        size -= 1
    return size


@kernel
def _direction(factor: Matrix, size: int, rise: Vector, direction: Vector) -> None:
    """Maximise rise.d - d'LL'd / 2 over sum(d) = 0."""
    ones = np.empty(size)  # L^-1 1, while direction is first L^-1 rise
    dot, norm = 0.0, 0.0
    for p in range(size):
        row = factor[p]
        x, y = rise[p], 1.0
        for q in range(p):
            x -= row[q] * direction[q]
            y -= row[q] * ones[q]
        direction[p] = x / row[p]
        ones[p] = y / row[p]
        dot += direction[p] * ones[p]
        norm += ones[p] * ones[p]
    for p in range(size):
        direction[p] -= dot / norm * ones[p]
    for p in range(size - 1, -1, -1):
        row = factor[p]
        direction[p] /= row[p]
        for q in range(p):
            direction[q] -= row[q] * direction[p]


@kernel
def _settle(
    gram: Matrix, lam: float, alpha: Vector, gradient: Vector,
    support: Indices, size: int, factor: Matrix,
) -> tuple[int, int]:  # fmt: skip
    """Maximise over the support, dropping the planes whose weight reaches zero on the way.

    alpha, support and factor are updated in place. Of the gradient only the entries in the support
    are read and updated. Returns the new size of the support and the number of steps.
    """
    rise, direction, bend = np.empty(size), np.empty(size), np.empty(size)
    steps = 0
    blocked = True
    while blocked and size > 1:
        mean, spread = 0.0, 0.0
        for p in range(size):
            mean += alpha[support[p]] * gradient[support[p]]
        for p in range(size):
            rise[p] = gradient[support[p]] - mean
            spread = max(spread, abs(rise[p]))
        for p in range(size):
            rise[p] /= spread
        _direction(factor, size, rise, direction)

        slope, curvature, boundary, first = 0.0, 0.0, np.inf, 0
        for p in range(size):
            inner = gram[support[p]]
            product = 0.0
            for q in range(size):
                product += inner[support[q]] * direction[q]
            bend[p] = product
            slope += rise[p] * direction[p]
            curvature += bend[p] * direction[p]
            if direction[p] < 0.0 and alpha[support[p]] < -direction[p] * boundary:
                boundary, first = alpha[support[p]] / -direction[p], p
        if not (0.0 < slope < np.inf and boundary < np.inf):
            break  # level up to rounding, or overflow
        blocked = not slope * spread * lam < curvature * boundary
        length = boundary if blocked else slope * spread * lam / curvature

        for p in range(size):
            plane = support[p]
            alpha[plane] = max(alpha[plane] + length * direction[p], 0.0)
            gradient[plane] -= length * bend[p] / lam
        if blocked:
            alpha[support[first]] = 0.0  # not left to rounding: this is why the loop ends
        size = _drop_weightless(alpha, support, factor, size)
        steps += 1
    size = _drop_weightless(alpha, support, factor, size)
    total = 0.0
    for p in range(size):
        total += alpha[support[p]]
    for p in range(size):
        alpha[support[p]] /= total
    return size, steps


@kernel
def _assess(
    gram: Matrix, offsets: Vector, lam: float, alpha: Vector,
    support: Indices, size: int, gradient: Vector,
) -> tuple[int, float, float, float]:  # fmt: skip
    """Compute the gradient; return its largest entry's index, D, the gap and the gap's noise.

    The noise is the rounding error of the gradient entries that the gap compares, bounded by
    means of |G_jk| <= sqrt(G_jj G_kk).
    """
    n = offsets.size
    for j in range(n):
        gradient[j] = 0.0
    norm = 0.0
    for p in range(size):
        inner, weight = gram[support[p]], alpha[support[p]]
        norm += weight * np.sqrt(abs(inner[support[p]]))
        for j in range(n):
            gradient[j] += weight * inner[j]
    top = 0
    for j in range(n):
        gradient[j] = offsets[j] - gradient[j] / lam
        if gradient[j] > gradient[top]:
            top = j
    mean, value = 0.0, 0.0
    noise = abs(offsets[top]) + np.sqrt(abs(gram[top, top])) * norm / lam
    for p in range(size):
        j = support[p]
        mean += alpha[j] * gradient[j]
        value += alpha[j] * (offsets[j] + gradient[j]) / 2
        noise = max(noise, abs(offsets[j]) + np.sqrt(abs(gram[j, j])) * norm / lam)
    return top, value, gradient[top] - mean, EPS * noise


@kernel
def _natural_scale(gram: Matrix, support: Indices, size: int) -> float:
    """Return the geometric mean of the extreme squared slopes, flat planes left aside.

    Well above the small ones 1 1' would drown them; well below the large ones it could not tell
    a and -a apart.
    """
    largest, smallest = 0.0, np.inf
    for p in range(size):
        square = gram[support[p], support[p]]
        largest = max(largest, square)
        if square > 0.0:
            smallest = min(smallest, square)
    if largest < LEAST_SCALE:
        return 1.0
    return float(largest * np.sqrt(max(smallest / largest, NEARLY_FLAT)))


@kernel
def _maximise(
    gram: Matrix, offsets: Vector, lam: float, accuracy: float, alpha: Vector,
    support: Indices, size: int, factor: Matrix, scale: float,
) -> tuple[float, int, int, float]:  # fmt: skip
    """Improve alpha in place until its gap is small enough, or nothing improves any more.

    `support[:size]` are the planes with weight; `factor` is theirs for `scale`, unless that is
    zero. Returns the gap, the number of steps, and the new size and scale.
    """
    gradient, best_alpha = np.empty(alpha.size), np.empty(alpha.size)
    best_gap, best_value = np.inf, -np.inf
    steps, stalled, limit = 0, 0, STEPS_PER_PLANE * alpha.size
    while True:
        top, value, gap, noise = _assess(gram, offsets, lam, alpha, support, size, gradient)
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
            scale = 0.0  # perhaps the factor has gathered too much rounding: start it afresh

        factored = size
        if alpha[top] == 0.0:
            support[size] = top
            size += 1
        natural = _natural_scale(gram, support, size)
        if not natural / SCALE_DRIFT <= scale <= natural * SCALE_DRIFT:
            scale = natural
            factored = 0
        _factorise(gram, support, scale, factor, factored, size)
        size, taken = _settle(gram, lam, alpha, gradient, support, size, factor)
        steps += taken

    if best_gap < np.inf:
        for j in range(alpha.size):
            alpha[j] = best_alpha[j]
    return max(best_gap, 0.0), steps, size, scale
