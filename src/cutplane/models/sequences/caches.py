"""Labels of chains that were found before, with the compiled loops of block ascent.

Compiled block ascent on kept labels of chains.

A visit scores the kept labels of one sequence at ``w``, moves weight from the worst to the best of
them until that sequence has little to gain, and brings ``w`` up to date: see
:mod:`cutplane.solvers.caches`. Inner products of the ``D[i, p]`` are kept, so only the
beginning and the end of a visit read the features.

Coefficients are stored feature by feature, all labels of a feature side by side: a token's
features then score all labels at once. Pairs of feature and label that have no weight
(``weighted``) stay zero. The labels of sequence ``i`` in place ``p`` begin at
``most * offsets[i] + p * length`` of all labels.

Kept labels of chains: what block ascent keeps of a `ChainRisk`.

Labels take four bytes a token, so that twenty for each sequence are less than its features.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.sequences.loops import Labels, longest_in
from cutplane.models.sequences.losses import WorstLabels
from cutplane.models.sequences.points import ChainPoint
from cutplane.models.sequences.risk import ChainRisk
from cutplane.solvers.caches import (
    Cache,
    Indices,
    Kept,
    Outputs,
    Pull,
    balance,
    note_product,
    place_for,
)


class ChainData(NamedTuple):
    """The features of tokens in CSR, the sequences with their weights, and who has a weight."""

    values: NDArray[Any]
    indices: NDArray[Any]
    starts: NDArray[Any]
    offsets: Indices
    weights: Vector
    weighted: NDArray[np.bool_]
    has_ends: bool


class ChainWeights(NamedTuple):
    """Parameters of a chain, coefficients with one row a feature; ends are start and end."""

    coef: Matrix
    transitions: Matrix
    ends: Matrix

    @classmethod
    def zeros(cls, n_features: int, n_labels: int) -> ChainWeights:
        """Return weights of zero."""
        shapes = (n_features, n_labels), (n_labels, n_labels), (2, n_labels)
        return cls(*map(np.zeros, shapes))


@njit(cache=True, nogil=True)
def score_token(data: ChainData, token: int, coef: Matrix, scores: Matrix, row: int) -> None:
    """Write the scores of a token's labels to a row."""
    n_labels = coef.shape[1]
    for b in range(n_labels):
        scores[row, b] = 0.0
    for e in range(np.uint64(data.starts[token]), np.uint64(data.starts[token + 1])):
        x, feature = data.values[e], np.uint64(data.indices[e])
        for b in range(n_labels):
            scores[row, b] += x * coef[feature, b]


@njit(cache=True, nogil=True)
def add_token(data: ChainData, token: int, label: int, by: float, coef: Matrix) -> None:
    """Add a token's features, times a number, to the coefficients of a label."""
    for e in range(np.uint64(data.starts[token]), np.uint64(data.starts[token + 1])):
        feature = np.uint64(data.indices[e])
        if data.weighted[feature, label]:
            coef[feature, label] += by * data.values[e]


@njit(cache=True, nogil=True)
def _add_pairs(labels: Labels, at: int, n: int, by: float, w: ChainWeights) -> None:
    """Add a number to the transitions and the ends of labels."""
    for t in range(1, n):
        w.transitions[labels[at + t - 1], labels[at + t]] += by
    w.ends[0, labels[at]] += by
    w.ends[1, labels[at + n - 1]] += by


@njit(cache=True, nogil=True)
def _add_labels(
    data: ChainData, i0: int, n: int, labels: Labels, at: int, other: int, by: float,
    w: ChainWeights,
) -> None:  # fmt: skip
    """Add the features of ``labels[at:]``, times a number, but for those also at ``other``."""
    for t in range(n):
        if labels[at + t] != labels[other + t]:
            add_token(data, i0 + t, labels[at + t], by, w.coef)
    _add_pairs(labels, at, n, by, w)


@njit(cache=True, nogil=True)
def _rank(
    scores: Matrix, w: ChainWeights, n: int, labels: Labels, first: int, kept: Kept, i: int,
    heights: Vector,
) -> None:  # fmt: skip
    """Fill in ``loss + score`` of each kept label sequence, but for what all have in common."""
    for p in range(kept.counts[i]):
        at = first + p * n
        height = kept.losses[i, p] + w.ends[0, labels[at]] + w.ends[1, labels[at + n - 1]]
        for t in range(n):
            height += scores[t, labels[at + t]]
        for t in range(1, n):
            height += w.transitions[labels[at + t - 1], labels[at + t]]
        heights[p] = height


@njit(cache=True, nogil=True)
def ascend(
    data: ChainData, kept: Kept, labels: Labels, stiffness: float, w: ChainWeights,
    examples: Indices, gaps: Vector,
) -> None:  # fmt: skip
    """Visit examples one after the other; fill in what each had to gain before its visit."""
    n_labels, most = w.coef.shape[1], kept.alpha.shape[1]
    offsets, weights = data.offsets, data.weights
    scores = np.zeros((longest_in(offsets, 0, len(offsets) - 1), n_labels))
    heights, moved = np.empty(most), np.zeros(most)
    shares = np.zeros(n_labels)
    for i in examples:
        count, i0, n = kept.counts[i], offsets[i], offsets[i + 1] - offsets[i]
        gaps[i] = 0.0
        if count < 2:
            continue
        first = most * i0
        for t in range(n):
            differ = False
            for p in range(1, count):
                if labels[first + p * n + t] != labels[first + t]:
                    differ = True
            if differ:
                score_token(data, i0 + t, w.coef, scores, t)
            else:
                scores[t, labels[first + t]] = 0.0
        _rank(scores, w, n, labels, first, kept, i, heights)
        gaps[i] = weights[i] * balance(kept, i, weights[i] / stiffness, heights, moved)
        for t in range(n):
            for p in range(count):
                shares[labels[first + p * n + t]] += moved[p]
            for p in range(count):
                label = labels[first + p * n + t]
                by = -weights[i] / stiffness * shares[label]
                shares[label] = 0.0
                if by != 0.0:
                    add_token(data, i0 + t, label, by, w.coef)
        for p in range(count):
            if moved[p] != 0.0:
                _add_pairs(labels, first + p * n, n, -weights[i] / stiffness * moved[p], w)
                moved[p] = 0.0
        if not data.has_ends:
            w.ends[:] = 0.0


@njit(cache=True, nogil=True)
def insert(
    data: ChainData, kept: Kept, labels: Labels, found: Labels, mistakes: Indices, w: ChainWeights
) -> None:
    """Keep the labels that were found for each sequence, if they are new.

    ``w`` is all zero before and after.
    """
    counts, most = kept.counts, kept.alpha.shape[1]
    for i in range(len(counts)):
        i0, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        first = most * i0
        if n == 0:
            continue
        known = -1
        for p in range(counts[i]):
            t = 0
            while t < n and labels[first + p * n + t] == found[i0 + t]:
                t += 1
            known = p if t == n else known
        place = place_for(kept, i, known, mistakes[i])
        if place < 0:
            continue
        at = first + place * n
        for t in range(n):
            labels[at + t] = found[i0 + t]
        # The inner products are what the kept labels score with the new features for weights.
        _add_labels(data, i0, n, labels, at, first, 1.0, w)
        _add_labels(data, i0, n, labels, first, at, -1.0, w)
        if not data.has_ends:
            w.ends[:] = 0.0
        for p in range(counts[i]):
            product = _gain_of(data, i0, n, labels, first + p * n, first, w)
            note_product(kept, i, place, p, product)
        for t in range(n):
            for label in (labels[at + t], labels[first + t]):
                for e in range(np.uint64(data.starts[i0 + t]), np.uint64(data.starts[i0 + t + 1])):
                    w.coef[np.uint64(data.indices[e]), label] = 0.0
            if t > 0:
                w.transitions[labels[at + t - 1], labels[at + t]] = 0.0
                w.transitions[labels[first + t - 1], labels[first + t]] = 0.0
        w.ends[:] = 0.0


@njit(cache=True, nogil=True)
def _gain_of(
    data: ChainData, i0: int, n: int, labels: Labels, at: int, true_at: int, w: ChainWeights
) -> float:
    """Return what kept labels score more than the true ones."""
    coef, transitions, ends = w
    gain: float = ends[0, labels[at]] - ends[0, labels[true_at]]
    gain += ends[1, labels[at + n - 1]] - ends[1, labels[true_at + n - 1]]
    for t in range(n):
        label, true = labels[at + t], labels[true_at + t]
        if label != true:
            for e in range(np.uint64(data.starts[i0 + t]), np.uint64(data.starts[i0 + t + 1])):
                feature = np.uint64(data.indices[e])
                gain += data.values[e] * (coef[feature, label] - coef[feature, true])
        if t > 0:
            gain += transitions[labels[at + t - 1], label]
            gain -= transitions[labels[true_at + t - 1], true]
    return gain


@njit(cache=True, nogil=True)
def add_weighted(
    data: ChainData, kept: Kept, labels: Labels, stiffness: float, w: ChainWeights
) -> None:
    """Add up ``w`` from the weights of all kept labels, free of the visits' rounding."""
    alpha, most = kept.alpha, kept.alpha.shape[1]
    for i in range(len(kept.counts)):
        i0, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        first = most * i0
        for p in range(1, kept.counts[i]):
            if alpha[i, p] > 0.0:
                by, at = -data.weights[i] / stiffness * alpha[i, p], first + p * n
                _add_labels(data, i0, n, labels, at, first, by, w)
                _add_labels(data, i0, n, labels, first, at, -by, w)
    if not data.has_ends:
        w.ends[:] = 0.0


class ChainOutputs(Outputs):
    """Labels of the sequences of a `ChainRisk` with the loss `cutplane.ChainMargin`."""

    def __init__(self, risk: ChainRisk) -> None:
        self._risk = risk
        self.weights = risk.data.weights
        if risk.entries is None:
            raise ValueError("block ascent needs features as an array or in CSR")
        offsets = risk.data.chains.offsets
        self._data = ChainData(*risk.entries, offsets, self.weights, risk.weighted, risk.ends)

    def first(self, most: int) -> Cache:
        """Return the true labels alone, with room for ``most`` of each sequence."""
        chains, y = self._risk.data.chains, self._risk.data.y
        labels = np.zeros(most * chains.n_tokens, dtype=np.int32)
        starts = np.repeat(chains.offsets[:-1], chains.lengths)
        labels[most * starts + np.arange(chains.n_tokens) - starts] = y
        return Cache(Kept.truths(chains.n_sequences, most), labels)

    def learn(self, cache: Cache, point: ChainPoint) -> Cache:
        """Take in the worst labels of each sequence at a point."""
        worst = cast(WorstLabels, point.outcome)
        insert(self._data, cache.kept, cache.outputs, worst.labels, worst.mistakes, self._zeros())
        return cache

    def minimizer(self, cache: Cache, pull: Pull) -> tuple[ChainWeights, Vector]:
        """Return the minimizer, computed afresh, and the slope of the weights' plane."""
        w = self._zeros()
        add_weighted(self._data, cache.kept, cache.outputs, pull.stiffness, w)
        slope = -pull.stiffness * self.vector(w)
        pairs = self._risk.pairs
        coef, transitions, ends = np.split(
            pull.center, [*accumulate((pairs.n_parameters, w.transitions.size))]
        )
        pairs.add_to_table(coef, w.coef)
        w.transitions[...] += transitions.reshape(w.transitions.shape)
        if self._risk.ends:
            w.ends[...] += ends.reshape(w.ends.shape)
        return w, slope

    def move(
        self, cache: Cache, w: ChainWeights, stiffness: float, examples: Indices, gaps: Vector
    ) -> None:
        """Visit sequences in this order; fill in what each had to gain before its visit."""
        ascend(self._data, cache.kept, cache.outputs, stiffness, w, examples, gaps)

    def vector(self, w: ChainWeights) -> Vector:
        """Return the minimizer as a vector of parameters."""
        parts = [self._risk.pairs.from_table(w.coef), w.transitions.ravel()]
        return np.concatenate(parts + ([w.ends.ravel()] if self._risk.ends else []))

    def _zeros(self) -> ChainWeights:
        return ChainWeights.zeros(self._risk.n_features, self._risk.n_labels)
