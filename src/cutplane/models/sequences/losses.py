"""Losses of whole sequences of labels, with dynamic programs inside.

A sequence has a score for every sequence of labels y' (:mod:`cutplane.models.sequences.loops`):

    margin    max_y' [mistakes(y, y') + score(y') - score(y)]        (max-margin Markov networks)
    crf       log sum_y' exp(score(y')) - score(y)                   (conditional random fields)

Any labels y' give a plane below the first, with their number of mistakes for an offset. Any
distribution of labels gives one below the second: its entropy plus the mean of
``score(y') - score(y)``. So offsets need no difference of large numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.compute.threads import map_blocks
from cutplane.models.sequences.chain import Chains, ChainScores
from cutplane.models.sequences.loops import Labels, fill_gains, padded, with_padding
from cutplane.models.sequences.marginals import (
    MarginalSums,
    fill_marginals,
    fill_marginals_in_log_space,
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

    emissions: Matrix  # (n_tokens, n_labels)
    transitions: NDArray[np.float64]  # (n_blocks, n_labels, n_labels), the part of each block
    offsets: Vector  # (n_blocks,), the part of each block


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
    probabilities = False  # whether its outcomes have the probabilities of labels
    smooth = False

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
    smooth = True
    # Transitions that differ by more are not exponentiated: exp(-500) is 7e-218, and its inverse
    # times a number of tokens must not overflow.
    farthest = 500.0

    def evaluate(self, data: LabeledChains, scores: ChainScores) -> Marginals:
        """Find the probabilities of labels and of pairs of labels."""
        chains, n, T = data.chains, data.chains.n_labels, scores.transitions
        found = MarginalSums(
            losses=np.empty(chains.n_sequences),
            entropies=np.empty(chains.n_blocks),
            slopes=np.empty((chains.n_tokens, n)),
            pairs=np.empty((chains.n_blocks, n, padded(n))),
        )
        arguments = scores, data.y, data.weights, found
        top = float(T.max())
        if top - T.min() <= self.farthest:
            E = with_padding(np.exp(T - top), 0.0)
            chains.run(fill_marginals, *arguments, E, np.ascontiguousarray(E.T), top)
        else:
            chains.run(fill_marginals_in_log_space, *arguments)
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
