"""Compiled: the sum over all labels of chains, by the forward-backward algorithm.

Scores and blocks are those of :mod:`cutplane.models.sequences.loops`. Exponentials are L a
token, not L^2: those of the transitions are taken once. Every step is scaled, so the length of a
sequence does not matter.

`fill_marginals` multiplies by ``exp(T - max T)``. Early candidates of a bundle method may have
transitions that differ by thousands, where that is zero: for these, `fill_marginals_in_log_space`
keeps all as logarithms. That would take L^2 exponentials a token; but of numbers that far apart few
matter, and the others are not computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.losses.logistic import exp_minus
from cutplane.models.sequences.loops import Labels, longest_in

if TYPE_CHECKING:
    from cutplane.models.sequences.chain import Blocks, ChainScores

_REORDER = {"reassoc", "contract", "nsz"}
# exp(-40) is 4e-18 of the sum that it would be added to.
_NEGLIGIBLE = -40.0


class MarginalSums(NamedTuple):
    """What the forward-backward algorithm fills in; all but the losses is weighted."""

    losses: Vector  # (n_sequences,): log Z - score(y)
    entropies: Vector  # (n_blocks,), sums over the sequences of each block
    slopes: Matrix  # (n_tokens, n_labels): probabilities of labels, less those of y
    pairs: NDArray[np.float64]  # (n_blocks, n_labels, padded(n_labels)): sums of probabilities


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _multiply(rows: Matrix, t: int, matrix: Matrix, n_labels: int, out: Vector) -> None:
    """Write ``rows[t] @ matrix`` to ``out``."""
    width = len(out)
    for b in range(width):
        out[b] = 0.0
    fours = n_labels // 4 * 4
    for a in range(0, fours, 4):
        s0, s1, s2, s3 = rows[t, a], rows[t, a + 1], rows[t, a + 2], rows[t, a + 3]
        for b in range(width):
            out[b] += (s0 * matrix[a, b] + s1 * matrix[a + 1, b]) + (
                s2 * matrix[a + 2, b] + s3 * matrix[a + 3, b]
            )
    for a in range(fours, n_labels):
        s = rows[t, a]
        for b in range(width):
            out[b] += s * matrix[a, b]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def _add_products(
    left: Matrix, right: Matrix, n: int, n_labels: int, out: NDArray[np.float64], block: int
) -> None:
    """Add the sum of ``left[t]' right[t]`` over the first n rows to ``out[block]``.

    Four rows at a time: the sums are read and written a quarter as often.
    """
    width = out.shape[2]
    fours = n // 4 * 4
    for t in range(0, fours, 4):
        for a in range(n_labels):
            s0, s1, s2, s3 = left[t, a], left[t + 1, a], left[t + 2, a], left[t + 3, a]
            for b in range(width):
                out[block, a, b] += (s0 * right[t, b] + s1 * right[t + 1, b]) + (
                    s2 * right[t + 2, b] + s3 * right[t + 3, b]
                )
    for t in range(fours, n):
        for a in range(n_labels):
            s = left[t, a]
            for b in range(width):
                out[block, a, b] += s * right[t, b]


@njit(cache=True, nogil=True, fastmath=_REORDER)
def relative_scores(scores: ChainScores, token: int, first: bool, last: bool, row: Vector) -> None:
    """Write the scores of a token's labels to ``row``, ends included, less the largest."""
    S, _, start, end = scores
    n_labels = S.shape[1]
    for b in range(n_labels):
        row[b] = S[token, b]
    if first:
        for b in range(n_labels):
            row[b] += start[b]
    if last:
        for b in range(n_labels):
            row[b] += end[b]
    top = row[0]
    for b in range(1, n_labels):
        top = max(top, row[b])
    for b in range(n_labels):
        row[b] -= top


@njit(cache=True, nogil=True, fastmath=_REORDER, error_model="numpy")
def fill_marginals(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, weights: Vector, found: MarginalSums,
    E: Matrix, E_transposed: Matrix, top_transition: float,
) -> None:  # fmt: skip
    """Fill in values, slopes and entropies by the forward-backward algorithm.

    ``E`` is ``exp(T - top_transition)``, padded with zeros, and not smaller than 1e-217. Then no
    sum underflows, whatever the other scores: a step is at least as likely as its transition.
    """
    losses, entropies, slopes, pairs = found
    offsets, bounds = blocks
    S, T = scores.emissions, scores.transitions
    n_labels, width = S.shape[1], E.shape[1]
    first, last = bounds[first_block], bounds[last_block]
    longest = longest_in(offsets, first, last)
    alpha, factors = np.zeros((longest, width)), np.zeros((longest, width))
    message, row, ahead = np.zeros(width), np.zeros(width), np.zeros((longest, width))
    pairs[first_block:last_block] = 0.0
    for block in range(first_block, last_block):
        entropy = 0.0
        for i in range(bounds[block], bounds[block + 1]):
            i0, i1 = offsets[i], offsets[i + 1]
            weight, value = weights[i], 0.0
            for t in range(i1 - i0):
                token = i0 + t
                relative_scores(scores, token, t == 0, token == i1 - 1, row)
                value -= row[y[token]]
                for b in range(n_labels):
                    factors[t, b] = exp_minus(-row[b])
                if t == 0:
                    for b in range(n_labels):
                        message[b] = 1.0
                else:
                    _multiply(alpha, t - 1, E, n_labels, message)
                    value += top_transition - T[y[token - 1], y[token]]
                for b in range(n_labels):
                    alpha[t, b] = message[b] * factors[t, b]
                total = 0.0
                for b in range(n_labels):
                    total += alpha[t, b]
                scale = 1.0 / total
                for b in range(n_labels):
                    alpha[t, b] *= scale
                log_total = np.log(total)
                value += log_total
                entropy += weight * log_total
            losses[i] = max(value, 0.0)
            for t in range(i1 - i0 - 1, -1, -1):
                token = i0 + t
                if token == i1 - 1:
                    for a in range(n_labels):
                        message[a] = 1.0
                else:
                    for b in range(n_labels):
                        ahead[t, b] = factors[t + 1, b] * message[b]
                    _multiply(ahead, t, E_transposed, n_labels, message)
                total = 0.0
                for a in range(n_labels):
                    total += alpha[t, a] * message[a]
                scale = 1.0 / total
                for a in range(n_labels):
                    message[a] *= scale
                if token < i1 - 1:
                    for b in range(n_labels):
                        ahead[t, b] *= scale * weight
                relative_scores(scores, token, t == 0, token == i1 - 1, row)
                surprise = 0.0
                for b in range(n_labels):
                    surprise += alpha[t, b] * message[b] * row[b]
                for b in range(n_labels):
                    slopes[token, b] = weight * (alpha[t, b] * message[b])
                slopes[token, y[token]] -= weight
                entropy -= weight * surprise
            _add_products(alpha, ahead, max(i1 - i0 - 1, 0), n_labels, pairs, block)
        for a in range(n_labels):
            for b in range(n_labels):
                pairs[block, a, b] *= E[a, b]
            for b in range(n_labels):
                entropy -= pairs[block, a, b] * (T[a, b] - top_transition)
        entropies[block] = entropy


@njit(cache=True, nogil=True)
def _log_sum_exp(values: Vector, n: int) -> float:
    top: float = values[0]
    for b in range(1, n):
        top = max(top, values[b])
    total = 0.0
    for b in range(n):
        if values[b] - top > _NEGLIGIBLE:
            total += np.exp(values[b] - top)
    top += np.log(total)
    return top


@njit(cache=True, nogil=True)
def fill_marginals_in_log_space(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, weights: Vector, found: MarginalSums,
) -> None:  # fmt: skip
    """Fill in what `fill_marginals` does, for any transitions."""
    losses, entropies, slopes, pairs = found
    offsets, bounds = blocks
    T, n_labels = scores.transitions, scores.emissions.shape[1]
    longest = longest_in(offsets, bounds[first_block], bounds[last_block])
    alpha, rows = np.zeros((longest, n_labels)), np.zeros((longest, n_labels))
    totals = np.zeros(longest)
    sums, ahead, beta = np.zeros(n_labels), np.zeros(n_labels), np.zeros(n_labels)
    pairs[first_block:last_block], entropies[first_block:last_block] = 0.0, 0.0
    for block in range(first_block, last_block):
        for i in range(bounds[block], bounds[block + 1]):
            i0, i1 = offsets[i], offsets[i + 1]
            weight, value = weights[i], 0.0
            for token in range(i0, i1):
                t = token - i0
                relative_scores(scores, token, t == 0, token == i1 - 1, rows[t])
                for b in range(n_labels):
                    alpha[t, b] = rows[t, b]
                    if t > 0:
                        for a in range(n_labels):
                            sums[a] = alpha[t - 1, a] + T[a, b]
                        alpha[t, b] += _log_sum_exp(sums, n_labels)
                totals[t] = _log_sum_exp(alpha[t], n_labels)
                for b in range(n_labels):
                    alpha[t, b] -= totals[t]
                value += totals[t] - rows[t, y[token]]
                if t > 0:
                    value -= T[y[token - 1], y[token]]
            losses[i] = max(value, 0.0)
            for t in range(i1 - i0 - 1, -1, -1):
                token = i0 + t
                for b in range(n_labels):
                    if token < i1 - 1:
                        ahead[b] = rows[t + 1, b] + beta[b]
                for a in range(n_labels):
                    sums[a] = alpha[t, a]
                if token < i1 - 1:
                    for a in range(n_labels):
                        for b in range(n_labels):
                            beta[b] = T[a, b] + ahead[b]
                        sums[a] += _log_sum_exp(beta, n_labels)
                scale = _log_sum_exp(sums, n_labels)
                surprise = -totals[t]
                if token < i1 - 1:
                    for a in range(n_labels):
                        for b in range(n_labels):
                            exponent = alpha[t, a] + T[a, b] + ahead[b] - scale
                            if exponent > _NEGLIGIBLE:
                                p = np.exp(exponent)
                                surprise += p * T[a, b]
                                pairs[block, a, b] += weight * p
                for b in range(n_labels):
                    beta[b] = sums[b] - scale - alpha[t, b]
                    p = np.exp(sums[b] - scale)
                    surprise += p * rows[t, b]
                    slopes[token, b] = weight * p
                slopes[token, y[token]] -= weight
                entropies[block] -= weight * surprise
