"""Losses of whole sequences of labels, with dynamic programs inside.

A sequence has a score for every sequence of labels y' (:mod:`cutplane.models.sequences.chain`):

    margin    max_y' [mistakes(y, y') + score(y') - score(y)]        (max-margin Markov networks)
    crf       log sum_y' exp(score(y')) - score(y)                   (conditional random fields)

Any labels y' give a plane below the first, with their number of mistakes for an offset. Any
distribution of labels gives one below the second: its entropy plus the mean of
``score(y') - score(y)``. So offsets need no difference of large numbers.

The sum over all labels is that of the forward-backward algorithm. It takes L exponentials per
token, not L^2: those of the transitions are taken once. Every step is scaled, so the length of a
sequence does not matter. It multiplies by ``exp(T - max T)``. Early candidates of a
bundle method may have transitions that differ by thousands, where that is zero: for these,
all are kept as logarithms. That would take L^2 exponentials per token;
but of numbers that far apart few matter, and the others are not computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.products import dot
from cutplane.compute.threads import map_blocks
from cutplane.losses.smooth import exp_minus
from cutplane.models.sequences.chain import (
    Blocks,
    Chains,
    ChainScores,
    Labels,
    fill_gains,
    longest_in,
    padded,
)
from cutplane.models.structured.forests import sum_product

_REORDER = {"reassoc", "contract", "nsz"}
# Transitions that differ by more are not exponentiated: exp(-500) is 7e-218, and its inverse times
# a number of tokens must not overflow.
_FARTHEST = 500.0


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
def _fill_marginals(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, weights: Vector, found: MarginalSums,
    E: Matrix, E_transposed: Matrix, top_transition: float,
) -> None:  # fmt: skip
    """Fill in what `fill_marginals` does.

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
def _fill_marginals_in_log_space(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, weights: Vector, found: MarginalSums,
) -> None:  # fmt: skip
    """Fill in what `fill_marginals` does, for any transitions: a chain is a forest too."""
    losses, entropies, slopes, pairs = found
    offsets, bounds = blocks
    n_labels = scores.emissions.shape[1]
    longest = longest_in(offsets, bounds[first_block], bounds[last_block])
    rows, nodes = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    T, both = np.empty((1, n_labels, n_labels)), np.empty((1, n_labels, n_labels))
    T[0] = scores.transitions
    order, log_sums = np.arange(longest), np.empty(longest)
    pairs[first_block:last_block], entropies[first_block:last_block] = 0.0, 0.0
    for block in range(first_block, last_block):
        for i in range(bounds[block], bounds[block + 1]):
            i0, n = offsets[i], offsets[i + 1] - offsets[i]
            for t in range(n):
                relative_scores(scores, i0 + t, t == 0, t == n - 1, rows[t])
            nodes[:n], both[:] = 0.0, 0.0
            entropies[block] += weights[i] * sum_product(
                rows[:n], T, order[:n] - 1, order[:n], nodes[:n], both, log_sums[:n]
            )
            value = 0.0
            for t in range(n):
                value += log_sums[t] - rows[t, y[i0 + t]]
                if t > 0:
                    value -= T[0, y[i0 + t - 1], y[i0 + t]]
                slopes[i0 + t] = weights[i] * nodes[t]
                slopes[i0 + t, y[i0 + t]] -= weights[i]
            losses[i] = max(value, 0.0)
            pairs[block, :, :n_labels] += weights[i] * both[0]


@njit(cache=True, nogil=True)
def fill_marginals(
    blocks: Blocks, first_block: int, last_block: int,
    scores: ChainScores, y: Labels, weights: Vector, found: MarginalSums,
) -> None:  # fmt: skip
    """Fill in values, slopes and entropies by the forward-backward algorithm."""
    T, width = scores.transitions, found.pairs.shape[2]
    top = T.max()
    if top - T.min() > _FARTHEST:
        _fill_marginals_in_log_space(blocks, first_block, last_block, scores, y, weights, found)
        return
    E, E_transposed = np.zeros((width, width)), np.zeros((width, width))
    for a in range(len(T)):
        for b in range(len(T)):
            E[a, b] = E_transposed[b, a] = exp_minus(top - T[a, b])
    _fill_marginals(
        blocks, first_block, last_block, scores, y, weights, found, E, E_transposed, top
    )


@dataclass(frozen=True)
class LabeledChains:
    """Sequences, their labels, and their weights."""

    chains: Chains
    y: Labels
    weights: Vector

    @cached_property
    def observed_pairs(self) -> NDArray[np.float64]:
        """How often labels follow each other in each block, weighted."""
        return self.chains.count_pairs(self.y, self.weights)

    @cached_property
    def largest_entropies(self) -> Vector:
        """The weighted entropy of each block if all labels are equally likely."""
        lengths = self.weights * self.chains.lengths
        return np.asarray(self.chains.sum_by_block(lengths) * np.log(self.chains.n_labels))

    def part(self, first: int, last: int) -> LabeledChains:
        """Return the sequences ``first <= i < last``, in one block for one thread."""
        chains = self.chains
        offsets = chains.offsets[first : last + 1]
        part = Chains(offsets - offsets[0], chains.n_labels, n_threads=1, n_blocks=1)
        tokens = slice(offsets[0], offsets[-1])
        return LabeledChains(part, self.y[tokens], self.weights[first:last])


class ChainSlopes(NamedTuple):
    """The derivatives of a weighted sum of losses, and the offset of the tangent."""

    emissions: Annotated[Matrix, "f8[t, l]"]  # of tokens and labels
    transitions: Annotated[NDArray[np.float64], "f8[b, l, l]"]  # the part of each block
    offsets: Annotated[Vector, "f8[b]"]  # the part of each block


class ChainOutcome(ABC):
    """What a pass over all sequences found at some scores."""

    value: float

    @abstractmethod
    def slopes(self) -> ChainSlopes:
        """Return the derivatives by all scores, weighted."""

    @abstractmethod
    def slope_along(self, direction: ChainScores) -> float:
        """Return the derivative of the value if the scores move."""

    def mixing(self, share: float) -> float:
        """Return the sum of `entropy_of_mixing`, weighted; zero where it is not known."""
        return 0.0


class ChainLoss(ABC):
    """A convex function of the scores of sequences of labels."""

    worst_labels = False  # whether it is a maximum over labels, its outcomes are `WorstLabels`
    probabilities = False  # whether its outcomes have the probabilities of labels: it is smooth

    @abstractmethod
    def evaluate(self, data: LabeledChains, scores: ChainScores) -> ChainOutcome:
        """Run the dynamic program on each sequence."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ChainMargin(ChainLoss):
    """``max_y' [mistakes(y, y') + score(y') - score(y)]``: a max-margin Markov network.

    Mistakes are counted, not divided by the length of a sequence.
    """

    worst_labels = True

    def evaluate(self, data: LabeledChains, scores: ChainScores) -> WorstLabels:
        """Find the worst labels of each sequence."""
        labels, gains, mistakes = data.chains.worst(scores, data.y, 1.0)
        return WorstLabels(data, labels, gains, mistakes)


class WorstLabels(ChainOutcome):
    """The labels that each sequence's loss comes from."""

    def __init__(
        self, data: LabeledChains, labels: Labels, gains: Vector, mistakes: NDArray[np.int64]
    ) -> None:
        self._data = data
        self.labels = labels
        self.mistakes = mistakes
        self.value = dot(data.weights, gains + mistakes)

    def slopes(self) -> ChainSlopes:
        """Return the derivatives: weights where labels are assigned, their negatives where y is."""
        data = self._data
        chains, y, weights = data.chains, data.y, data.weights
        wrong = np.flatnonzero(self.labels != y)
        shares = np.repeat(weights, chains.lengths)[wrong]
        emissions = np.zeros((chains.n_tokens, chains.n_labels))
        emissions[wrong, self.labels[wrong]] = shares
        emissions[wrong, y[wrong]] = -shares
        transitions = chains.count_pairs(self.labels, weights) - data.observed_pairs
        return ChainSlopes(emissions, transitions, chains.sum_by_block(weights * self.mistakes))

    def slope_along(self, direction: ChainScores) -> float:
        """Return the derivative of the value if the scores move."""
        data = self._data
        gains = np.empty(data.chains.n_sequences)
        data.chains.run(fill_gains, direction, data.y, self.labels, gains)
        return dot(data.weights, gains)


class ChainCRF(ChainLoss):
    """``log sum_y' exp(score(y')) - score(y)``: a linear-chain conditional random field."""

    probabilities = True

    def evaluate(self, data: LabeledChains, scores: ChainScores) -> Marginals:
        """Find the probabilities of labels and of pairs of labels."""
        chains, n = data.chains, data.chains.n_labels
        found = MarginalSums(
            losses=np.empty(chains.n_sequences),
            entropies=np.empty(chains.n_blocks),
            slopes=np.empty((chains.n_tokens, n)),
            pairs=np.empty((chains.n_blocks, n, padded(n))),
        )
        chains.run(fill_marginals, scores, data.y, data.weights, found)
        return Marginals(data, found)

    def marginals(self, chains: Chains, scores: ChainScores) -> Matrix:
        """Return the probability of each token's labels, given all of its sequence."""
        first = np.zeros(chains.n_tokens, dtype=np.int32)
        data = LabeledChains(chains, first, np.ones(chains.n_sequences))
        probabilities = self.evaluate(data, scores).slopes().emissions
        probabilities[:, 0] += 1.0  # slopes are less one where y is
        return np.clip(probabilities, 0.0, 1.0)

    def log_probabilities(self, chains: Chains, scores: ChainScores, labels: Labels) -> Vector:
        """Return the logarithm of the probability of each sequence's labels."""
        data = LabeledChains(chains, labels, np.ones(chains.n_sequences))
        return 0.0 - self.evaluate(data, scores).losses  # not -0.0


def entropy_of_mixing(losses: Vector, share: float) -> Vector:
    """Return the entropy that a mean of a distribution and the right labels has beyond its share.

    Any distribution of labels gives a plane, with its entropy for an offset. That of ``share``
    times the model's, and else the right labels, has ``share`` times the slope. The right labels
    have the probability ``p``, whose negative logarithm is the loss: so the terms of the entropy
    ``H`` that change are known, and it is ``share * H`` plus what this returns.
    """
    p = np.exp(-np.maximum(losses, 0.0))
    right = (1.0 - share) + share * p  # not zero, however small p is
    gain = -share * (1.0 - p) * np.log(share) - share * p * np.maximum(losses, 0.0)
    return np.asarray(np.maximum(gain - right * np.log(right), 0.0))


class Marginals(ChainOutcome):
    """The loss of each sequence; the probabilities of labels and of pairs, less those of y."""

    def __init__(self, data: LabeledChains, found: MarginalSums) -> None:
        self.losses = found.losses
        self.value = dot(data.weights, found.losses)
        # An entropy lies in this range; beyond it is rounding, which must not lift a plane.
        offsets = np.clip(found.entropies, 0.0, data.largest_entropies)
        pairs = found.pairs[:, :, : data.chains.n_labels] - data.observed_pairs
        self._slopes = ChainSlopes(found.slopes, pairs, offsets)
        self._chains, self._weights = data.chains, data.weights

    def mixing(self, share: float) -> float:
        """Return the sum of `entropy_of_mixing`, weighted."""
        return dot(self._weights, entropy_of_mixing(self.losses, share))

    def slopes(self) -> ChainSlopes:
        """Return the derivatives: probabilities, less one where y is, weighted."""
        return self._slopes

    def slope_along(self, direction: ChainScores) -> float:
        """Return the derivative of the value if the scores move."""
        emissions, transitions, _ = self._slopes
        parts = map_blocks(
            lambda i: dot(emissions[i].ravel(), direction.emissions[i].ravel()),
            len(emissions),
            width=emissions.shape[1],
        )
        return float(
            sum(parts)
            + np.vdot(transitions.sum(axis=0), direction.transitions)
            + emissions[self._chains.firsts].sum(axis=0) @ direction.start
            + emissions[self._chains.lasts].sum(axis=0) @ direction.end
        )
