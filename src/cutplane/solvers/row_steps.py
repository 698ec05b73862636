"""Compiled steps on rows: products with them, random orders, and epochs on their duals.

A row is a range of entries. Without indices it is dense, and has all columns.

With weights ``p`` and duals ``beta`` (one slope for each example), ``w = -X'(p*beta) / lam``. The
best ``beta_i`` with all others fixed satisfies

    beta_i' in dl(z_i'),     z_i' = z_i - Q_i * (beta_i' - beta_i),     Q_i = p_i |x_i|^2 / lam,

so it is the slope of the loss at the proximal point of ``r = z_i + Q_i * beta_i``. For a loss made
of pieces that is closed-form: where ``r`` lies beyond the start of a piece by ``e``, the slope is
``e / (Q + 1/curvature)``, at most that of the piece. For the logistic loss a few steps find it.

An offset is added to all scores. It follows the duals as if it were the weight of a feature that is
the same for all examples: ``coupling`` is that feature's square over ``lam``. It is zero where the
offset is fixed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import REORDER, fetch, njit
from cutplane.data.layouts import CompressedRows, DenseRows
from cutplane.data.rows import Rows
from cutplane.losses.loss import LOGISTIC, MARGIN_PIECES

IndexVector = NDArray[np.int64]

_CONTRACT = {"contract"}


def entries_of(rows: Rows) -> tuple[Any, Any, Any]:
    """Return values, columns and starts of rows as compiled steps take them."""
    if isinstance(rows, DenseRows):
        return rows.by_rows, np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int32)
    assert isinstance(rows, CompressedRows)
    if not len(rows.indices):  # for no indices mean dense rows
        return np.zeros(1, rows.values.dtype), np.zeros(1, rows.indices.dtype), rows.starts
    return rows.values, rows.indices, rows.starts


@njit(cache=True, nogil=True, fastmath=REORDER, inlined=True)
def dense_product(values: NDArray[Any], first: np.uint64, v: Vector) -> float:
    """Return the dot product of a dense row with ``v``."""
    total = 0.0
    for j in range(len(v)):
        total += values[first + np.uint64(j)] * v[j]
    return total


@njit(cache=True, nogil=True, fastmath=_CONTRACT, inlined=True)
def _sparse_product(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, v: Vector
) -> float:
    # Four sums by hand: left to the compiler, entries are gathered by long vectors, and what is
    # left of short rows takes longer (a pass over a9a took 1.1 times as long).
    a = b = c = d = 0.0
    k = first
    while k + np.uint64(4) <= last:
        a += values[k] * v[np.uint64(indices[k])]
        b += values[k + np.uint64(1)] * v[np.uint64(indices[k + np.uint64(1)])]
        c += values[k + np.uint64(2)] * v[np.uint64(indices[k + np.uint64(2)])]
        d += values[k + np.uint64(3)] * v[np.uint64(indices[k + np.uint64(3)])]
        k += np.uint64(4)
    while k < last:
        a += values[k] * v[np.uint64(indices[k])]
        k += np.uint64(1)
    return (a + b) + (c + d)


@njit(cache=True, nogil=True, fastmath=_CONTRACT, inlined=True)
def row_product(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, v: Vector
) -> float:
    """Return the dot product of a row with ``v``; a row without indices has all columns."""
    if len(indices) == 0:
        return float(dense_product(values, first, v))
    return float(_sparse_product(values, indices, first, last, v))


@njit(cache=True, nogil=True, fastmath=_CONTRACT, inlined=True)
def add_row(
    values: NDArray[Any], indices: NDArray[Any], first: np.uint64, last: np.uint64, factor: float,
    v: Vector,
) -> None:  # fmt: skip
    """Add a row to ``v``, times a factor."""
    if len(indices) == 0:
        for j in range(len(v)):
            v[j] += factor * values[first + np.uint64(j)]
    else:
        for k in range(first, last):
            v[np.uint64(indices[k])] += factor * values[k]


@njit(cache=True, nogil=True, inlined=True)
def _scrambled(state: np.uint64) -> np.uint64:
    """Return the state that follows (xorshift64*)."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    return state ^ (state >> np.uint64(27))


@njit(cache=True, nogil=True, inlined=True)
def _below(n: int, state: np.uint64) -> np.int64:
    """Return a random number from 0 to ``n - 1``."""
    draw = (state * np.uint64(2685821657736338717)) >> np.uint64(32)
    return np.int64((draw * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def shuffle(order: IndexVector, seed: NDArray[np.uint64]) -> None:
    """Put the entries into random order; the seed is used up and replaced."""
    state = seed[0]
    for i in range(len(order) - 1, 0, -1):
        state = _scrambled(state)
        j = _below(i + 1, state)
        order[i], order[j] = order[j], order[i]
    seed[0] = state


@njit(cache=True, nogil=True)
def random(seed: NDArray[np.uint64]) -> float:
    """Return a number below 1; the seed is used up and replaced."""
    state = seed[0] = _scrambled(seed[0])
    return float((state * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True, nogil=True)
def draw(examples: IndexVector, order: IndexVector, seed: NDArray[np.uint64]) -> None:
    """Fill ``order`` with examples, each drawn by itself."""
    for j in range(len(order)):
        order[j] = examples[np.int64(random(seed) * len(examples))]


class Examples(NamedTuple):
    """What steps on duals need of examples.

    Attributes
    ----------
    form : int
        Of the loss.
    shape : ndarray of shape (2, 5)
        Its pieces, left and right of the middle.
    y, weights : ndarray
    curvatures : ndarray
        ``Q``: how much each dual moves its own score.
    """

    form: int
    shape: Matrix
    y: Vector
    weights: Vector
    curvatures: Vector


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def logistic_dual(margin: float, q: float, p: float) -> float:
    """Return the ``p'`` with ``p' = 1 / (1 + exp(margin + q*(p' - p)))``, to 3 % of the change.

    Here ``p = -y*beta`` and ``margin = y*z``. Halley's steps, inside a bracket, go on until one
    moves the margin by little: what it leaves is less than half of the cube of that. Near the
    optimum the first step is the last, and needs a single exponential. ``p = 0`` is no special
    case, as the entropy in the dual is never computed.
    """
    new, low, high = p, -1.0, 2.0  # a step may go to the very ends of [0, 1], once
    for _ in range(100):
        there = margin + q * (new - p)
        small = np.exp(-abs(there))
        likelier = 1.0 / (1.0 + small)
        rarer = small * likelier
        wrong = rarer if there > 0.0 else likelier
        off = new - wrong
        if off < 0.0:
            low = new
        else:
            high = new
        bend = q * rarer * likelier
        rise = 1.0 + bend
        step = -off * rise / (rise * rise + 0.5 * off * q * bend * (1.0 - 2.0 * wrong))
        if low < new + step < high or step == 0.0:
            new += step
            if abs(step) * q <= 0.25:
                break
        else:
            new = 0.5 * (low + high)
    return min(max(new, 0.0), 1.0)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, inlined=True)
def _score(
    values: NDArray[Any], indices: NDArray[Any], w: Vector, first: np.uint64, last: np.uint64
) -> float:
    """Return the dot product of a row with ``w``; a row without indices has all columns."""
    if len(indices) == 0:
        return float(dense_product(values, first, w))
    z = 0.0
    for k in range(first, last):
        z += values[k] * w[np.uint64(indices[k])]
    return z


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT, inlined=True)
def _piece_gain(beyond: float, slope: float, piece: Vector) -> float:
    """Return ``piece(u) + piece*(slope) - slope*u`` where ``u`` is so far beyond the start."""
    _, bend, jump, rise, width = piece
    gain = -slope * beyond
    if bend > 0.0:
        gain += 0.5 * slope * slope / bend
        if beyond > width:
            gain += rise * (beyond - 0.5 * width)
        elif beyond > 0.0:
            gain += 0.5 * bend * beyond * beyond
    elif beyond > 0.0:
        gain += jump * beyond
    return max(gain, 0.0)  # it is no less, but for rounding


# Only the dot product may be reordered: with leave to reorder the steps too, an epoch takes 20 %
# longer (logistic loss).
@njit(cache=True, nogil=True, error_model="numpy", fastmath=_CONTRACT)
def dual_epoch(
    values: NDArray[Any], indices: NDArray[Any], starts: NDArray[Any], examples: Examples,
    lam: float, coupling: float, w: Vector, offset: float, beta: Vector, order: IndexVector,
    seed: NDArray[np.uint64], slack: float,
) -> tuple[float, float, float, int, int]:  # fmt: skip
    """Improve each dual in turn, in random order, and leave out those that are settled.

    Rows without ``indices`` are dense. ``w`` and ``beta`` are updated in place, ``order`` is
    shuffled, and the seed replaced. A dual is settled if it sits at an end of its range, and would
    stay there if its score changed by ``slack``.

    Returns
    -------
    offset, largest, gain : float
        The new offset, the largest change of a score by its dual, and about how much the duality
        gap was: the sum of what each example had to gain when its turn came.
    n_entries, n_left : int
        How many entries were read, and how many duals are not settled: they are the first ones in
        ``order`` now.
    """
    form, shape, y, weights, curvatures = examples
    left_piece, right_piece = shape[0], shape[1]
    start_left, bend_left, _, rise_left, width_left = left_piece
    start_right, bend_right, _, rise_right, width_right = right_piece
    soft_left = 1.0 / bend_left if bend_left > 0.0 else 0.0
    soft_right = 1.0 / bend_right if bend_right > 0.0 else 0.0
    steepest_left = rise_left if width_left < np.inf else np.inf
    steepest_right = rise_right if width_right < np.inf else np.inf
    largest = gain = 0.0
    state = seed[0]
    dense, width = len(indices) == 0, np.uint64(len(w))
    n_left, n_entries, k = len(order), 0, 0
    while k < n_left:
        i = order[k]
        k += 1
        if k < n_left:
            state = _scrambled(state)
            pick = k + _below(n_left - k, state)
            order[pick], order[k] = order[k], order[pick]
            # Memory takes its time: the next row is on its way while this one is worked on, and an
            # epoch takes 0.6 to 0.95 times as long. Only its beginning is asked for, as all of it
            # is too much at once for rows of text (1.1 times as long).
            coming = order[k]
            begin = np.uint64(coming) * width if dense else np.uint64(starts[coming])
            fetch(indices, begin)
            fetch(values, begin)
            fetch(values, begin + np.uint64(8))
            fetch(y, coming)
            fetch(curvatures, coming)
            fetch(beta, coming)
        first = np.uint64(i) * width if dense else np.uint64(starts[i])
        last = first + width if dense else np.uint64(starts[i + 1])
        n_entries += np.int64(last - first)  # type: ignore[assignment]
        z = _score(values, indices, w, first, last)
        q, old, sign = curvatures[i], beta[i], 1.0
        if form == LOGISTIC:
            p = -y[i] * old
            found = logistic_dual(y[i] * (z + offset), q, p)
            new = -y[i] * found
            # To second order: duals that have an exponential of their own would cost another one.
            spread = max(found * (1.0 - found), 1e-9)
            off = (found - p) * (1.0 + q * spread)
            gain += weights[i] * 0.5 * off * off / spread
        else:
            r = z + offset + q * old
            v = r - y[i]
            if form == MARGIN_PIECES:
                sign = y[i]
                v = sign * r - 1.0
            right, left = v - start_right, -v - start_left
            slope, settled = 0.0, False
            # At equality with q = 0 (an empty row) a kink gives 0/0: the flat side is as good.
            if right > 0.0:
                slope = right / (q + soft_right)
                if slope > steepest_right:
                    slope = steepest_right
                    settled = right > steepest_right * (q + soft_right) + slack
            elif left > 0.0:
                slope = -left / (q + soft_left)
                if slope < -steepest_left:
                    slope = -steepest_left
                    settled = left > steepest_left * (q + soft_left) + slack
            else:
                settled = max(right, left) < -slack
            new = sign * slope
            if new != old:
                before = sign * old
                here = q * before
                if before > 0.0 or right - here > 0.0:
                    gain += weights[i] * _piece_gain(right - here, max(before, 0.0), right_piece)
                if before < 0.0 or left + here > 0.0:
                    gain += weights[i] * _piece_gain(left + here, max(-before, 0.0), left_piece)
            elif settled:
                k -= 1
                n_left -= 1
                order[k] = order[n_left]
                order[n_left] = i
        change = new - old
        if change != 0.0:
            beta[i] = new
            largest = max(largest, abs(change) * q)
            offset -= weights[i] * change * coupling
            step = -weights[i] * change / lam
            add_row(values, indices, first, last, step, w)
    seed[0] = state
    return offset, largest, gain, n_entries, n_left


@njit(cache=True, nogil=True, error_model="numpy")
def find_movable(
    examples: Examples, begin: int, end: int, scores: Vector, beta: Vector, slack: float
) -> IndexVector:
    """Return which of some examples have a dual that changes if its score does by ``slack``.

    For losses made of pieces. The others sit at an end of their range (no slope, or the steepest
    one) and are left out of the next epochs: that is shrinking, decided with exact scores.
    """
    form, shape, y, weights, curvatures = examples
    start_left, bend_left, _, rise_left, width_left = shape[0]
    start_right, bend_right, _, rise_right, width_right = shape[1]
    soft_left = 1.0 / bend_left if bend_left > 0.0 else 0.0
    soft_right = 1.0 / bend_right if bend_right > 0.0 else 0.0
    has_left, has_right = width_left + rise_left > 0.0, width_right + rise_right > 0.0
    found = np.empty(end - begin, np.int64)
    n = 0
    for i in range(begin, end):
        if weights[i] == 0.0:
            continue
        q = curvatures[i]
        r = scores[i] + q * beta[i]
        v = y[i] * r - 1.0 if form == MARGIN_PIECES else r - y[i]
        right, left = v - start_right, -v - start_left
        slope = y[i] * beta[i] if form == MARGIN_PIECES else beta[i]
        if slope > 0.0:
            settled = slope == rise_right and right > rise_right * (q + soft_right) + slack
        elif slope < 0.0:
            settled = slope == -rise_left and left > rise_left * (q + soft_left) + slack
        else:
            settled = (right < -slack or not has_right) and (left < -slack or not has_left)
        if not settled:
            found[n] = i
            n += 1
    return found[:n]
