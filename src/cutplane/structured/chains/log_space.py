"""The forward-backward algorithm for transitions too far apart to be exponentiated.

The fast kernel (:func:`cutplane.structured.chains.marginals.fill_marginals`) multiplies by
``exp(T - max T)``. Early candidates of a bundle method may have transitions that differ by
thousands, where that is zero. Here all is kept as logarithms. That would take L^2 exponentials a
token; but of numbers that far apart few matter, and the others are not computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.structured.chains.kernels import Labels, longest_in
from cutplane.structured.chains.marginals import MarginalSums, relative_scores

if TYPE_CHECKING:
    from cutplane.structured.chains.chain import Blocks, ChainScores

# exp(-40) is 4e-18 of the sum that it would be added to.
_NEGLIGIBLE = -40.0


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
    scores: ChainScores, y: Labels, weights: Vector,
    blocks: Blocks, first_block: int, last_block: int, found: MarginalSums,
) -> None:  # fmt: skip
    """Fill in what `fill_marginals` does, for any transitions."""
    losses, entropies, slopes, pairs = found
    offsets, bounds = blocks
    T, n_labels = scores.transitions, scores.emissions.shape[1]
    longest = longest_in(offsets, bounds[first_block], bounds[last_block])
    alpha, rows = np.zeros((longest, n_labels)), np.zeros((longest, n_labels))
    totals = np.zeros(longest)
    sums, ahead, beta = np.zeros(n_labels), np.zeros(n_labels), np.zeros(n_labels)
    pairs[first_block:last_block] = 0.0
    for block in range(first_block, last_block):
        entropy = 0.0
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
                entropy -= weight * surprise
        entropies[block] = entropy
