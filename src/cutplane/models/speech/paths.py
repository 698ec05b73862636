"""Compiled: densities of frames under many Gaussians, and the best paths by Viterbi's algorithm.

Gaussian ``m`` of state ``s`` is number ``m * S + s``, with S states in all: so the best Gaussian of
each state is a maximum of rows. The inner loops run over Gaussians, four frames at a time.

All states of all classes are in one row, class after class. An arc goes by a number of states, its
jump, so that the best scores of the next frame are a maximum of shifted rows, which the compiler
vectorizes. Rows are padded with minus infinity by the longest jump on both sides. No pointers are
kept: the way back finds the state before in as many steps as there are jumps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.sequences.chain import Indices, Labels, longest_in


class Gaussians(NamedTuple):
    """Gaussians, one in each column."""

    means: Matrix  # (D, G)
    scales: Matrix  # (D, G): one over the standard deviation
    lower: Matrix  # (D (D - 1) / 2, G), or (0, G) for diagonal covariances: row by row
    constants: Vector  # (G,): logarithm of the density's factor, and of the weight in the mixture


class GaussianSums(NamedTuple):
    """Sums of slopes by means, logarithms of standard deviations, and weights: a row a Gaussian."""

    means: Matrix  # (G, D)
    log_sds: Matrix  # (G, D)
    lower: Matrix  # (G, D (D - 1) / 2), or (G, 0)
    weights: Vector  # (G,)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _four_squares(
    frames: Matrix, rows: tuple[int, int, int, int], table: Gaussians,
    a0: Vector, a1: Vector, a2: Vector, a3: Vector,
) -> None:  # fmt: skip
    """Fill in ``|z|^2`` of four frames for each Gaussian with a diagonal covariance."""
    means, scales, _, _ = table
    n_features, n_gaussians = means.shape
    t0, t1, t2, t3 = rows
    a0[:], a1[:], a2[:], a3[:] = 0.0, 0.0, 0.0, 0.0
    for d in range(n_features):
        x0, x1, x2, x3 = frames[t0, d], frames[t1, d], frames[t2, d], frames[t3, d]
        for g in range(n_gaussians):
            mean, scale = means[d, g], scales[d, g]
            z0, z1 = (x0 - mean) * scale, (x1 - mean) * scale
            z2, z3 = (x2 - mean) * scale, (x3 - mean) * scale
            a0[g] += z0 * z0
            a1[g] += z1 * z1
            a2[g] += z2 * z2
            a3[g] += z3 * z3


@njit(cache=True, nogil=True, fastmath={"contract"})
def _squares(frames: Matrix, t: int, table: Gaussians, z: Vector, squares: Vector) -> None:
    """Fill in ``|z|^2`` of a frame for each Gaussian with a full covariance."""
    means, scales, lower, _ = table
    n_features, n_gaussians = means.shape
    squares[:], row = 0.0, 0
    for d in range(n_features):
        for g in range(n_gaussians):
            z[g] = frames[t, d] - means[d, g]
        for j in range(d):
            for g in range(n_gaussians):
                z[g] += lower[row, g] * (frames[t, j] - means[j, g])
            row += 1
        for g in range(n_gaussians):
            r = z[g] * scales[d, g]
            squares[g] += r * r


@njit(cache=True, nogil=True)
def _best(table: Gaussians, squares: Vector, n_states: int, out: Matrix, t: int) -> None:
    """Fill in the score of the best Gaussian of each state."""
    constants = table.constants
    for s in range(n_states):
        out[t, s] = constants[s] - 0.5 * squares[s]
    for begin in range(n_states, len(constants), n_states):
        for s in range(n_states):
            v = constants[begin + s] - 0.5 * squares[begin + s]
            out[t, s] = v if v > out[t, s] else out[t, s]


@njit(cache=True, nogil=True)
def fill_best(
    frames: Matrix, first: int, last: int, table: Gaussians, n_states: int, out: Matrix
) -> None:
    """Fill in what each state scores from frame ``first`` to ``last``, by its best Gaussian.

    With as many states as Gaussians these are the scores of all Gaussians.
    """
    n_gaussians = len(table.constants)
    a0, a1 = np.empty(n_gaussians), np.empty(n_gaussians)
    a2, a3 = np.empty(n_gaussians), np.empty(n_gaussians)
    if table.lower.shape[0]:
        for t in range(first, last):
            _squares(frames, t, table, a0, a1)
            _best(table, a1, n_states, out, t - first)
        return
    for t in range(first, last, 4):
        # The last rows may be less than four: then the very last one is computed again.
        t1, t2, t3 = min(t + 1, last - 1), min(t + 2, last - 1), min(t + 3, last - 1)
        _four_squares(frames, (t, t1, t2, t3), table, a0, a1, a2, a3)
        _best(table, a0, n_states, out, t - first)
        _best(table, a1, n_states, out, t1 - first)
        _best(table, a2, n_states, out, t2 - first)
        _best(table, a3, n_states, out, t3 - first)


@njit(cache=True, nogil=True)
def _whiten(frames: Matrix, t: int, table: Gaussians, g: int, z: Vector) -> float:
    """Fill in ``z`` of a frame for one Gaussian; return its score."""
    means, scales, lower, constants = table
    total, row = 0.0, 0
    for d in range(len(z)):
        z[d] = frames[t, d] - means[d, g]
        if lower.shape[0]:
            for j in range(d):
                z[d] += lower[row, g] * (frames[t, j] - means[j, g])
                row += 1
        z[d] *= scales[d, g]
        total += z[d] * z[d]
    return float(constants[g] - 0.5 * total)


@njit(cache=True, nogil=True)
def add_slopes(
    frames: Matrix, t: int, state: int, n_states: int, weight: float, table: Gaussians,
    sums: GaussianSums, z: Vector,
) -> None:  # fmt: skip
    """Add the slopes of the score of a state at a frame, which its best Gaussian has.

    ``z`` is room for a frame.
    """
    g, top = state, -np.inf
    for each in range(state, len(table.constants), n_states):
        score = _whiten(frames, t, table, each, z)
        if score > top:
            g, top = each, score
    _whiten(frames, t, table, g, z)
    sums.weights[g] += weight
    row = 0
    for d in range(len(z)):
        pull = weight * z[d] * table.scales[d, g]  # of the distance from the mean, in z_d
        sums.means[g, d] += pull
        sums.log_sds[g, d] += weight * (z[d] * z[d] - 1.0)
        if table.lower.shape[0]:
            for j in range(d):
                sums.means[g, j] += pull * table.lower[row, g]
                sums.lower[g, row] -= pull * (frames[t, j] - table.means[j, g])
                row += 1


ENTERED = -1  # in place of a jump: the state begins a new segment


class Moves(NamedTuple):
    """Scores of where paths begin, go on and end; minus infinity where they must not."""

    start: Vector  # (S,)
    bands: Matrix  # (n_jumps, S): of arriving in a state by a jump
    jumps: Indices  # (n_jumps,)
    end: Vector  # (S,)
    prior: Vector  # (C,): of the first class
    follow: Matrix  # (C, C): from a class to the next, or (0, 0) if a sequence has only one


class MoveSums(NamedTuple):
    """Sums of slopes by the scores of moves."""

    start: Vector
    bands: Matrix
    end: Vector
    prior: Vector
    follow: Matrix


class Path(NamedTuple):
    """The states of all frames, and by which jump each was reached."""

    states: Labels
    jumps: Labels


@njit(cache=True, nogil=True)
def padding(moves: Moves) -> int:
    """Return how many columns rows are padded by on either side."""
    return int(max(abs(moves.jumps[0]), abs(moves.jumps[-1])))


@njit(cache=True, nogil=True)
def reach(
    E: Matrix, i0: int, n: int, moves: Moves, y: Labels, wrong: float, best: Matrix, row: Vector
) -> None:
    """Fill in the largest score of a path up to each frame and state.

    ``E`` has the scores of states at frames, from its row ``i0`` on. Where classes follow each
    other, ``wrong`` is added for each frame in a state of another class than ``y`` tells: the
    margin to find the worst labels, minus infinity to allow the true ones only, 0 to predict.
    ``row`` is room for the states of a frame, ``best`` is padded.
    """
    start, bands, jumps, end, prior, follow = moves
    n_all, n_classes = len(start), len(prior)
    n_states, pad = n_all // n_classes, padding(moves)
    leave = np.empty(n_classes)
    for t in range(n):
        for s in range(n_all):
            row[s] = -np.inf if t > 0 else prior[s // n_states] + start[s]
        for j in range(len(jumps) if t > 0 else 0):
            shift = pad - jumps[j]
            for s in range(n_all):
                v = best[t - 1, shift + s] + bands[j, s]
                row[s] = v if v > row[s] else row[s]
        if len(follow) and t > 0:
            for c in range(n_classes):
                leave[c] = -np.inf
                for s in range(c * n_states, (c + 1) * n_states):
                    leave[c] = max(leave[c], best[t - 1, pad + s] + end[s])
            for c in range(n_classes):
                enter = -np.inf
                for b in range(n_classes):
                    enter = max(enter, leave[b] + follow[b, c])
                for s in range(c * n_states, (c + 1) * n_states):
                    row[s] = max(row[s], enter + start[s])
        for s in range(n_all):
            best[t, pad + s] = row[s] + E[i0 + t, s]
        for s in range(n_all if wrong != 0.0 else 0):
            if s // n_states != y[i0 + t]:
                best[t, pad + s] += wrong


@njit(cache=True, nogil=True)
def last_state(best: Matrix, n: int, moves: Moves, first: int, last: int) -> tuple[int, float]:
    """Return the best state to end in, of those from ``first`` to ``last``; what paths score."""
    pad, state, top = padding(moves), first, -np.inf
    for s in range(first, last):
        if best[n - 1, pad + s] + moves.end[s] > top:
            state, top = s, best[n - 1, pad + s] + moves.end[s]
    return state, top


@njit(cache=True, nogil=True)
def trace_back(
    best: Matrix, i0: int, n: int, moves: Moves, state: int, states: Labels, taken: Labels
) -> None:
    """Fill in the best path that ends in a state; of ties the first jump, a new segment last."""
    start, bands, jumps, end, prior, follow = moves
    pad, n_states = padding(moves), len(start) // len(prior)
    for t in range(n - 1, 0, -1):
        states[i0 + t] = state
        before, jump, top = state, 0, -np.inf
        for j in range(len(jumps)):
            v = best[t - 1, pad + state - jumps[j]] + bands[j, state]
            if v > top:
                before, jump, top = state - jumps[j], j, v
        if len(follow) and start[state] > -np.inf:
            c = state // n_states
            for s in range(len(start)):
                v = best[t - 1, pad + s] + end[s] + follow[s // n_states, c] + start[state]
                if v > top:
                    before, jump, top = s, ENTERED, v
        taken[i0 + t] = jump
        state = before
    states[i0] = state
    taken[i0] = ENTERED


@njit(cache=True, nogil=True)
def room_for(longest: int, moves: Moves) -> Matrix:
    """Return room for the best scores of a sequence, padded."""
    return np.full((longest, len(moves.start) + 2 * padding(moves)), -np.inf)


@njit(cache=True, nogil=True)
def class_scores(offsets: Indices, first: int, last: int, E: Matrix, moves: Moves) -> Matrix:
    """Return what the best path of each class scores, for the sequences from first to last.

    ``E`` begins with the first frame of the first of them.
    """
    n_classes = len(moves.prior)
    n_states = len(moves.start) // n_classes
    best, row = room_for(longest_in(offsets, first, last), moves), np.empty(len(moves.start))
    scores, nothing = np.empty((last - first, n_classes)), np.empty(0, np.int32)
    for i in range(first, last):
        n = offsets[i + 1] - offsets[i]
        reach(E, offsets[i] - offsets[first], n, moves, nothing, 0.0, best, row)
        for c in range(n_classes):
            _, scores[i - first, c] = last_state(best, n, moves, c * n_states, (c + 1) * n_states)
    return scores


@njit(cache=True, nogil=True)
def worst_classes(
    offsets: Indices, first: int, last: int, E: Matrix, moves: Moves, y: Labels, margin: float,
    worst: Path, true: Path, gains: Vector, mistakes: Vector,
) -> None:  # fmt: skip
    """Find the class with the largest ``score + margin`` if it is wrong, for each sequence.

    ``gains`` are ``score + margin - score of the true class``, and 0 where that one is the worst;
    infinite where scores overflow.
    Only where it is not, best paths of both are filled in, with 1 in ``mistakes``. Paths and ``E``
    begin with the first frame of the first sequence; ``y`` has all sequences.
    """
    n_classes = len(moves.prior)
    n_states = len(moves.start) // n_classes
    best, row = room_for(longest_in(offsets, first, last), moves), np.empty(len(moves.start))
    nothing = np.empty(0, np.int32)
    for i in range(first, last):
        i0, n = offsets[i] - offsets[first], offsets[i + 1] - offsets[i]
        reach(E, i0, n, moves, nothing, 0.0, best, row)
        right, height = last_state(best, n, moves, y[i] * n_states, (y[i] + 1) * n_states)
        state, top = right, height
        for c in range(n_classes):
            if c != y[i]:
                s, v = last_state(best, n, moves, c * n_states, (c + 1) * n_states)
                if v + margin > top:
                    state, top = s, v + margin
        if not (np.isfinite(height) and np.isfinite(top)):
            gains[i], mistakes[i] = np.inf, 0.0
            continue
        gains[i] = 0.0 if state == right else top - height
        mistakes[i] = 0.0 if state == right else 1.0
        if state != right:
            trace_back(best, i0, n, moves, state, worst.states, worst.jumps)
            trace_back(best, i0, n, moves, right, true.states, true.jumps)


@njit(cache=True, nogil=True)
def worst_labels(
    offsets: Indices, first: int, last: int, E: Matrix, moves: Moves, y: Labels, margin: float,
    worst: Path, true: Path, gains: Vector, mistakes: Vector,
) -> None:  # fmt: skip
    """Find the labels with the largest ``score + margin * (wrong frames)``, for each sequence.

    ``gains`` and ``mistakes`` are as in `worst_classes`, but the latter count wrong frames. Paths,
    ``E`` and ``y`` begin with the first frame of the first sequence.
    """
    n_all = len(moves.start)
    n_states = n_all // len(moves.prior)
    best, row = room_for(longest_in(offsets, first, last), moves), np.empty(n_all)
    for i in range(first, last):
        i0, n = offsets[i] - offsets[first], offsets[i + 1] - offsets[i]
        reach(E, i0, n, moves, y, -np.inf, best, row)
        s, height = last_state(best, n, moves, 0, n_all)
        trace_back(best, i0, n, moves, s, true.states, true.jumps)
        reach(E, i0, n, moves, y, margin, best, row)
        s, top = last_state(best, n, moves, 0, n_all)
        trace_back(best, i0, n, moves, s, worst.states, worst.jumps)
        wrong = 0.0
        for t in range(i0, i0 + n):
            if worst.states[t] // n_states != y[t]:
                wrong += 1.0
        if not (np.isfinite(height) and np.isfinite(top)):
            gains[i], mistakes[i] = np.inf, 0.0
        elif wrong == 0.0 or top <= height:  # the latter by rounding only
            gains[i], mistakes[i] = 0.0, 0.0
        else:
            gains[i], mistakes[i] = top - height, wrong


@njit(cache=True, nogil=True)
def best_labels(
    offsets: Indices, first: int, last: int, E: Matrix, moves: Moves, path: Path
) -> None:
    """Fill in the best path through all classes, for each sequence."""
    best, row = room_for(longest_in(offsets, first, last), moves), np.empty(len(moves.start))
    nothing = np.empty(0, np.int32)
    for i in range(first, last):
        i0, n = offsets[i] - offsets[first], offsets[i + 1] - offsets[i]
        reach(E, i0, n, moves, nothing, 0.0, best, row)
        s, _ = last_state(best, n, moves, 0, len(moves.start))
        trace_back(best, i0, n, moves, s, path.states, path.jumps)


@njit(cache=True, nogil=True)
def add_path(path: Path, i0: int, n: int, weight: float, n_states: int, sums: MoveSums) -> None:
    """Add the slopes of a path's score by the scores of its moves."""
    states, jumps = path
    sums.prior[states[i0] // n_states] += weight
    sums.start[states[i0]] += weight
    for t in range(i0 + 1, i0 + n):
        s = states[t]
        if jumps[t] != ENTERED:
            sums.bands[jumps[t], s] += weight
        else:
            before = states[t - 1]
            sums.end[before] += weight
            sums.follow[before // n_states, s // n_states] += weight
            sums.start[s] += weight
    sums.end[states[i0 + n - 1]] += weight


@njit(cache=True, nogil=True)
def add_differences(
    frames: Matrix, offsets: Indices, first: int, last: int, table: Gaussians, n_all: int,
    n_states: int, weights: Vector, mistakes: Vector, worst: Path, true: Path,
    gaussians: GaussianSums, moves: MoveSums,
) -> None:  # fmt: skip
    """Add the weighted slopes of ``score(worst) - score(true)`` of each sequence with mistakes."""
    z = np.empty(frames.shape[1])
    for i in range(first, last):
        if mistakes[i] == 0.0 or weights[i] == 0.0:
            continue
        i0, n = offsets[i] - offsets[first], offsets[i + 1] - offsets[i]
        add_path(worst, i0, n, weights[i], n_states, moves)
        add_path(true, i0, n, -weights[i], n_states, moves)
        for t in range(i0, i0 + n):
            s, r = worst.states[t], true.states[t]
            if s != r:  # elsewhere both have the same density
                at = offsets[first] + t
                add_slopes(frames, at, s, n_all, weights[i], table, gaussians, z)
                add_slopes(frames, at, r, n_all, -weights[i], table, gaussians, z)
