"""Compiled epochs of dual ascent on the shares of classes, one example after the other.

With weights ``p`` and shares ``P`` (a point of the simplex for each example), the slopes are ``S =
P - e_y`` and ``W = -X'(p*S) / lam``, one row a feature and one column a class. With all others
fixed the best shares of example ``i`` are those of its loss at scores that they move themselves:

    z' = z - Q * (P' - P),     Q = p_i |x_i|^2 / lam
    Crammer and Singer:  P' = projection of P + (z + margins) / Q  to the simplex
    softmax:             P' = softmax(z' + margins)

The first is found by dropping classes until no share is negative, the second by Newton's method,
whose matrix is diagonal but for a product of two vectors. Near the optimum one step is enough. The
margins of a class are in `losses.multiclass.kernels`; without costs those of softmax are zero.

Offsets are added to the scores of the classes, and follow the shares as if they were the weights of
a feature that is the same for all examples: ``pull`` is that feature's square over ``lam``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.prefetch import fetch
from cutplane.losses.multiclass.kernels import Indices
from cutplane.losses.pointwise.logistic_kernels import exp_minus, log

_REORDER = {"reassoc", "contract", "nsz"}
# A Newton step that changes no difference of scores by more than this is the last: what it leaves
# is of the size of its square.
_LAST_STEP = 0.5
_MAX_STEPS = 50
# So many columns are moved together in the time of one alone.
_VECTOR = 4


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _fill_scores(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, dense: bool,
    W: Matrix, offsets: Vector, z: Vector,
) -> None:  # fmt: skip
    """Set the scores of all classes; four entries at a time, so that few sums are stored."""
    n = len(z)
    for j in range(n):
        z[j] = offsets[j]
    e = first
    four, one = np.uint64(4), np.uint64(1)
    while e + four <= last:
        e1, e2, e3 = e + one, e + one + one, e + four - one
        x0, x1, x2, x3 = values[e], values[e1], values[e2], values[e3]
        if dense:
            f0, f1, f2, f3 = e - first, e1 - first, e2 - first, e3 - first
        else:
            f0, f1 = np.uint64(indices[e]), np.uint64(indices[e1])
            f2, f3 = np.uint64(indices[e2]), np.uint64(indices[e3])
        for j in range(n):
            z[j] += (x0 * W[f0, j] + x1 * W[f1, j]) + (x2 * W[f2, j] + x3 * W[f3, j])
        e += four
    while e < last:
        x = values[e]
        f = e - first if dense else np.uint64(indices[e])
        for j in range(n):
            z[j] += x * W[f, j]
        e += one


@njit(cache=True, nogil=True, fastmath={"contract"})
def _move(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, dense: bool,
    W: Matrix, steps: Vector,
) -> None:  # fmt: skip
    """Add the products of an example's entries and the steps of all classes to the weights."""
    for e in range(first, last):
        x = values[e]
        f = np.uint64(e) - first if dense else np.uint64(indices[e])
        for j in range(len(steps)):
            W[f, j] += x * steps[j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _move_some(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, dense: bool,
    W: Matrix, steps: Vector, classes: Indices, count: int,
) -> None:  # fmt: skip
    """Do the same for some classes."""
    for e in range(first, last):
        x = values[e]
        f = np.uint64(e) - first if dense else np.uint64(indices[e])
        for c in range(count):
            W[f, np.uint64(classes[c])] += x * steps[c]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def project(v: Vector, share: Vector, q: float, classes: Indices, new: Vector) -> int:
    """Find the projection of ``share + v / q`` to the simplex.

    Return how many classes have a share, before or after; ``classes`` tells which these are, and
    ``new`` their new shares.
    """
    top, best = -np.inf, 0
    for j in range(len(v)):
        height = q * share[j] + v[j]
        if height > top:
            top, best = height, j
    # Only what is less than q below the largest can have a share.
    count, n_higher, total = 0, 0, 0.0
    for j in range(len(v)):
        height = (q * share[j] + v[j]) - top
        if share[j] > 0.0 or height > -q or j == best:
            classes[count] = j
            new[count] = height
            count += 1
            if height > -q:
                total += height
                n_higher += 1
    level = -q
    while n_higher > 0:
        higher = (total - q) / n_higher
        if not higher > level:
            break
        level, before = higher, n_higher
        total, n_higher = 0.0, 0
        for c in range(count):
            if new[c] > level:
                total += new[c]
                n_higher += 1
        if n_higher == before:
            break
    total = 0.0
    for c in range(count):
        new[c] = max(new[c] - level, 0.0)
        total += new[c]
    for c in range(count):
        if total > 0.0:
            new[c] /= total
        else:  # no curvature: all goes to the largest
            new[c] = 1.0 if classes[c] == best else 0.0
    return count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def soften(z: Vector, share: Vector, q: float, new: Vector, u: Vector, a: Vector) -> float:
    """Set ``new`` to the shares ``softmax(z - q * (new - share))``; ``u`` and ``a`` are room.

    Return how much there was to gain, nearly.
    """
    n = len(z)
    gain = 0.0
    for j in range(n):
        u[j] = 0.0
    for step in range(_MAX_STEPS):
        top = -np.inf
        for j in range(n):
            top = max(top, z[j] + q * u[j])
        # Sums have loops without assignments. Before others a test decides whether arrays are far
        # enough apart for vectors, so that the order of a sum would hang on addresses.
        for j in range(n):
            new[j] = exp_minus(top - (z[j] + q * u[j]))
        total = 0.0
        for j in range(n):
            total += new[j]
        scale = 1.0 / total
        for j in range(n):
            new[j] *= scale
            a[j] = 1.0 / (1.0 + q * new[j])
        numerator, denominator = 0.0, 0.0
        for j in range(n):
            numerator += a[j] * (new[j] - share[j] + u[j])
            denominator += a[j] * new[j]
        if step == 0:
            for j in range(n):
                off = new[j] - share[j]
                gain += off * off / max(new[j] + share[j], 1e-300)
        mean_step = numerator / denominator
        low, high, mean = np.inf, -np.inf, 0.0
        for j in range(n):
            a[j] *= new[j] * mean_step - (new[j] - share[j] + u[j])
        for j in range(n):
            low, high = min(low, a[j]), max(high, a[j])
            mean += new[j] * a[j]
        spread = q * (high - low)
        if spread <= _LAST_STEP:
            for j in range(n):
                new[j] *= 1.0 + q * (a[j] - mean)
            break
        damping = np.log1p(spread) / spread
        for j in range(n):
            u[j] += damping * a[j]
    return gain


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def epoch(
    values: NDArray[Any],
    indices: NDArray[Any],
    starts: NDArray[Any],
    n_features: int,
    soft: bool,
    margins: Matrix,
    y: Indices,
    weights: Vector,
    stiffness: Vector,
    lam: float,
    pull: float,
    W: Matrix,
    offsets: Vector,
    shares: Matrix,
    order: Indices,
    least: float,
    gains: Vector,
) -> None:
    """Improve the shares of each example in turn that has more than ``least`` to gain by it.

    What each had to gain is set in ``gains``. Rows are dense if there are no ``indices``. ``W``,
    ``offsets`` and ``shares`` are updated in place; the first two may have more columns than there
    are classes, whose offsets are minus infinity.
    """
    n = W.shape[1]
    n_classes = shares.shape[1]
    dense = len(indices) == 0
    z, new, share = np.empty(n), np.empty(n), np.zeros(n)
    room, more_room = np.empty(n), np.empty(n)
    classes = np.arange(n)
    for k in range(len(order)):
        i = order[k]
        if k + 1 < len(order):
            # The next example is on its way while this one is worked on. Time of an epoch beside
            # that without: connect4 0.62 (softmax 0.79), news20_ng 0.95 (0.98), dna 0.94 (0.90).
            coming = order[k + 1]
            fetch(shares, coming * n_classes)
            fetch(y, coming)
            fetch(stiffness, coming)
            if dense:
                fetch(values, coming * n_features)
            else:
                begin = np.uint64(starts[coming])
                fetch(indices, begin)
                fetch(values, begin)
                fetch(values, begin + np.uint64(8))
        if dense:
            first, last = np.uint64(i * n_features), np.uint64((i + 1) * n_features)
        else:
            first, last = np.uint64(starts[i]), np.uint64(starts[i + 1])
        _fill_scores(values, indices, first, last, dense, W, offsets, z)
        q, weight = stiffness[i], weights[i]
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n_classes):
            share[j] = shares[i, j]
            z[j] += margin[j]
        z[y[i]] -= margin[y[i]]
        if soft:
            gain = weight * soften(z, share, q, new, room, more_room)
        else:
            top, mean = -np.inf, 0.0
            for j in range(n_classes):
                top = max(top, z[j])
                mean += share[j] * z[j]
            gain = weight * (top - mean)
        gains[i] = gain
        if gain <= least:
            continue
        count = n_classes if soft else project(z, share, q, classes, new)
        for c in range(count):
            j = c if soft else classes[c]
            change = new[c] - share[j]
            shares[i, j] = new[c]
            offsets[j] -= weight * pull * change
            new[c] = -weight / lam * change
        if _VECTOR * count < n:
            _move_some(values, indices, first, last, dense, W, new, classes, count)
            continue
        if not soft:
            for j in range(n):
                room[j] = 0.0
            for c in range(count):
                room[classes[c]] = new[c]
            _move(values, indices, first, last, dense, W, room)
        else:
            _move(values, indices, first, last, dense, W, new)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_REORDER)
def fill_gains(
    soft: bool,
    margins: Matrix,
    y: Indices,
    weights: Vector,
    scores: Matrix,
    offsets: Vector,
    shares: Matrix,
    gains: Vector,
) -> None:
    """Set what each example adds to the gap: its loss, less what its shares say of it."""
    n = scores.shape[1]
    v = np.empty(n)
    for i in range(len(y)):
        top = -np.inf
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n):
            v[j] = scores[i, j] + offsets[j] + (margin[j] if j != y[i] else 0.0)
            top = max(top, v[j])
        mean, total, entropy = 0.0, 0.0, 0.0
        for j in range(n):
            mean += shares[i, j] * (top - v[j])
        if soft:
            for j in range(n):
                total += exp_minus(top - v[j])
                entropy += shares[i, j] * log(max(shares[i, j], 1e-300))
            mean += np.log(total) + entropy
        gains[i] = weights[i] * max(mean, 0.0)
