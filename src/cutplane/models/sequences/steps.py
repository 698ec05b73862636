"""Compiled visits of single sequences: stochastic steps, and block ascent on kept labels.

A stochastic gradient step is

    w <- shrink * w - length * (subgradient of a sequence's loss at w)

What a sequence does not touch is not read: parameters are kept as ``scale * v``, so that shrinking
them is one product. Coefficients are stored feature by feature, all labels of a feature side by
side: a token's features then score all labels at once. Pairs of feature and label that have no
weight (``weighted``) stay zero.

Block ascent (`cutplane.solvers.block_ascent`) scores the kept labels of a sequence at ``w``, moves
weight from the worst to the best of them until that sequence has little to gain, and updates ``w``.
Inner products of the ``D[i, p]`` are kept, so only the beginning and the end of a visit read the
features. The labels of sequence ``i`` in place ``p`` begin at ``most * offsets[i] + p * length`` of
all labels. They take four bytes per token, so that twenty for each sequence are less than its
features.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.core.protocols import Risk
from cutplane.models.sequences.chain import (
    Blocks,
    Buffers,
    ChainScores,
    Labels,
    buffers_for,
    find_best,
    longest_in,
    padded,
)
from cutplane.models.sequences.losses import MarginalSums, WorstLabels, fill_marginals
from cutplane.models.sequences.risk import ChainPoint, ChainRisk
from cutplane.risks.scored import require_finite
from cutplane.solvers.block_ascent import (
    Cache,
    Indices,
    Kept,
    Outputs,
    ProximalTerm,
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
def add_pairs(data: ChainData, labels: Labels, by: float, w: ChainWeights) -> None:
    """Add a number to the transitions and the ends of labels."""
    for t in range(1, len(labels)):
        w.transitions[labels[t - 1], labels[t]] += by
    if data.has_ends:
        w.ends[0, labels[0]] += by
        w.ends[1, labels[-1]] += by


@njit(cache=True, nogil=True)
def add_labels(
    data: ChainData, i0: int, labels: Labels, other: Labels, by: float, w: ChainWeights
) -> None:
    """Add the features of labels, times a number; those of tokens where they differ."""
    for t in range(len(labels)):
        if labels[t] != other[t]:
            add_token(data, i0 + t, labels[t], by, w.coef)
    add_pairs(data, labels, by, w)


@njit(cache=True, nogil=True)
def move_labels(
    data: ChainData, i0: int, labels: Labels, true: Labels, by: float, w: ChainWeights
) -> None:
    """Add what the features of labels have beyond those of the true ones, times a number."""
    add_labels(data, i0, labels, true, by, w)
    add_labels(data, i0, true, labels, -by, w)


@njit(cache=True, nogil=True)
def clear_labels(data: ChainData, i0: int, labels: Labels, w: ChainWeights) -> None:
    """Set all that the features of labels touch to zero."""
    for t in range(len(labels)):
        for e in range(np.uint64(data.starts[i0 + t]), np.uint64(data.starts[i0 + t + 1])):
            w.coef[np.uint64(data.indices[e]), labels[t]] = 0.0
        if t > 0:
            w.transitions[labels[t - 1], labels[t]] = 0.0
    w.ends[0, labels[0]] = w.ends[1, labels[-1]] = 0.0


@njit(cache=True, nogil=True)
def ascend(
    data: ChainData, kept: Kept, labels: Labels, curvature: float, w: ChainWeights,
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
        for p in range(count):  # loss and score, but for what all of them have in common
            at = first + p * n
            height = kept.losses[i, p] + w.ends[0, labels[at]] + w.ends[1, labels[at + n - 1]]
            for t in range(n):
                height += scores[t, labels[at + t]]
            for t in range(1, n):
                height += w.transitions[labels[at + t - 1], labels[at + t]]
            heights[p] = height
        gaps[i] = weights[i] * balance(kept, i, weights[i] / curvature, heights, moved)
        for t in range(n):
            for p in range(count):
                shares[labels[first + p * n + t]] += moved[p]
            for p in range(count):
                label = labels[first + p * n + t]
                by = -weights[i] / curvature * shares[label]
                shares[label] = 0.0
                if by != 0.0:
                    add_token(data, i0 + t, label, by, w.coef)
        for p in range(count):
            if moved[p] != 0.0:
                at = first + p * n
                add_pairs(data, labels[at : at + n], -weights[i] / curvature * moved[p], w)
                moved[p] = 0.0


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
        labels[at : at + n] = found[i0 : i0 + n]
        own, true = labels[at : at + n], labels[first : first + n]
        # The inner products are what the kept labels score with the new features for weights.
        move_labels(data, i0, own, true, 1.0, w)
        for p in range(counts[i]):
            kept_one = labels[first + p * n : first + (p + 1) * n]
            note_product(kept, i, place, p, _gain_of(data, i0, kept_one, true, w))
        clear_labels(data, i0, own, w)
        clear_labels(data, i0, true, w)


@njit(cache=True, nogil=True)
def _gain_of(data: ChainData, i0: int, labels: Labels, truth: Labels, w: ChainWeights) -> float:
    """Return what kept labels score more than the true ones."""
    coef, transitions, ends = w
    gain: float = ends[0, labels[0]] - ends[0, truth[0]]
    gain += ends[1, labels[-1]] - ends[1, truth[-1]]
    for t in range(len(labels)):
        label, true = labels[t], truth[t]
        if label != true:
            for e in range(np.uint64(data.starts[i0 + t]), np.uint64(data.starts[i0 + t + 1])):
                feature = np.uint64(data.indices[e])
                gain += data.values[e] * (coef[feature, label] - coef[feature, true])
        if t > 0:
            gain += transitions[labels[t - 1], label]
            gain -= transitions[truth[t - 1], true]
    return gain


@njit(cache=True, nogil=True)
def add_weighted(
    data: ChainData, kept: Kept, labels: Labels, curvature: float, w: ChainWeights
) -> None:
    """Add up ``w`` from the weights of all kept labels, free of the visits' rounding."""
    alpha, most = kept.alpha, kept.alpha.shape[1]
    for i in range(len(kept.counts)):
        i0, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        first = most * i0
        for p in range(1, kept.counts[i]):
            if alpha[i, p] > 0.0:
                by, at = -data.weights[i] / curvature * alpha[i, p], first + p * n
                move_labels(data, i0, labels[at : at + n], labels[first : first + n], by, w)


# A smaller scale is multiplied into the parameters, before they get large.
SMALLEST_SCALE = 1e-6


class ChainSteps:
    """Features and parameters of a risk of chains as compiled code reads them, and steps."""

    def __init__(self, risk: ChainRisk) -> None:
        if risk.entries is None:
            raise ValueError("block ascent needs features as an array or in CSR")
        self._risk = risk
        data = risk.data
        self.data = ChainData(
            *risk.entries, data.chains.offsets, data.weights, risk.weighted, risk.ends
        )

    def zeros(self) -> ChainWeights:
        """Return parameters of zero."""
        n_features, n_labels = self._risk.n_features, self._risk.n_labels
        shapes = (n_features, n_labels), (n_labels, n_labels), (2, n_labels)
        return ChainWeights(*map(np.zeros, shapes))

    def add(self, w: Vector, tables: ChainWeights) -> ChainWeights:
        """Add a vector of parameters to tables."""
        coef, transitions, *ends = self._risk.parts(w)
        self._risk.pairs.add_to_table(coef, tables.coef)
        tables.transitions[...] += transitions
        tables.ends[...] += ends
        return tables

    def vector(self, tables: ChainWeights) -> Vector:
        """Return parameters as one vector."""
        parts = [self._risk.pairs.from_table(tables.coef), tables.transitions.ravel()]
        return np.concatenate(parts + ([tables.ends.ravel()] if self._risk.ends else []))

    def follow(self, w: Vector, sequences: Indices, shrinks: Vector, lengths: Vector) -> Vector:
        """Take a step on each of some sequences; return the parameters after the last.

        Raises `NonFiniteRisk` if they overflow.
        """
        risk, tables = self._risk, self.add(w, self.zeros())
        take = _margin_steps if risk.loss.worst_labels else _crf_steps
        take(self.data, risk.data.y, sequences, shrinks, lengths, tables, padded(risk.n_labels))
        return self.finite_vector(tables, w)

    def finite_vector(self, tables: ChainWeights, before: Vector) -> Vector:
        """Return parameters as one vector; `NonFiniteRisk` if steps from ``before`` overflowed."""
        after = self.vector(tables)
        require_finite([after], before)
        return after


class ChainOutputs(Outputs[ChainPoint]):
    """Labels of the sequences of a `ChainRisk` with the loss `cutplane.ChainMargin`."""

    def __init__(self, risk: ChainRisk) -> None:
        self.weights, self._labeled = risk.data.weights, risk.data
        self._tables = ChainSteps(risk)

    def first(self, most: int) -> Cache:
        """Return the true labels alone, with space for ``most`` of each sequence."""
        chains, y = self._labeled.chains, self._labeled.y
        labels = np.zeros(most * chains.n_tokens, dtype=np.int32)
        starts = np.repeat(chains.offsets[:-1], chains.lengths)
        labels[most * starts + np.arange(chains.n_tokens) - starts] = y
        return Cache(Kept.truths(chains.n_sequences, most), labels)

    def learn(self, cache: Cache, point: ChainPoint) -> Cache:
        """Take in the worst labels of each sequence at a point."""
        worst, tables = cast(WorstLabels, point.outcome), self._tables
        insert(tables.data, cache.kept, cache.outputs, worst.labels, worst.mistakes, tables.zeros())
        return cache

    def minimizer(self, cache: Cache, term: ProximalTerm) -> tuple[ChainWeights, Vector]:
        """Return the minimizer, computed from all weights, and the slope of the weights' plane."""
        w = self._tables.zeros()
        add_weighted(self._tables.data, cache.kept, cache.outputs, term.curvature, w)
        slope = -term.curvature * self.vector(w)
        return self._tables.add(term.center, w), slope

    def ascend(
        self, cache: Cache, w: ChainWeights, term: ProximalTerm, examples: Indices
    ) -> Vector:
        """Improve the weights of sequences in this order; return what each of all had to gain."""
        gaps, data = np.zeros(len(self.weights)), self._tables.data
        ascend(data, cache.kept, cache.outputs, term.curvature, w, examples, gaps)
        return gaps

    def vector(self, w: ChainWeights) -> Vector:
        """Return the minimizer as a vector of parameters."""
        return self._tables.vector(w)


def as_chains(risk: Risk) -> ChainRisk | None:
    """Return a risk of chains that steps are compiled for, or None."""
    if not isinstance(risk, ChainRisk) or risk.entries is None:
        return None
    smooth = risk.loss.probabilities and not risk.pairs.observed
    return risk if smooth or risk.loss.worst_labels else None


@njit(cache=True, nogil=True)
def multiply(w: ChainWeights, by: float) -> None:
    """Multiply all parameters by a number."""
    for part in (w.coef, w.transitions, w.ends):
        part *= by


@njit(cache=True, nogil=True)
def _score(data: ChainData, i: int, w: ChainWeights, scale: float, scores: ChainScores) -> None:
    """Fill in the scores of sequence ``i``; transitions have padding, which stays."""
    S, T, start, end = scores
    n_labels = S.shape[1]
    i0, i1 = data.offsets[i], data.offsets[i + 1]
    for t in range(i1 - i0):
        score_token(data, i0 + t, w.coef, S, t)
        for b in range(n_labels):
            S[t, b] *= scale
    T[:n_labels, :n_labels] = scale * w.transitions
    start[:], end[:] = scale * w.ends[0], scale * w.ends[1]


@njit(cache=True, nogil=True)
def _shrunk(w: ChainWeights, scale: float, shrink: float) -> float:
    """Return the scale of the parameters after they were shrunk."""
    scale *= shrink
    if abs(scale) >= SMALLEST_SCALE:
        return scale
    multiply(w, scale)
    return 1.0


@njit(cache=True, nogil=True)
def scores_for(data: ChainData, n_labels: int, width: int) -> ChainScores:
    """Return memory for the scores of any sequence; rows of transitions are this wide."""
    S = np.zeros((longest_in(data.offsets, 0, len(data.offsets) - 1), n_labels))
    T = np.full((width, width), -np.inf)
    return ChainScores(S, T, np.zeros(n_labels), np.zeros(n_labels))


@njit(cache=True, nogil=True)
def find_worst(
    data: ChainData, i: int, y: Labels, w: ChainWeights, scale: float, scores: ChainScores,
    buffers: Buffers, labels: Labels,
) -> None:  # fmt: skip
    """Fill in the labels with the largest loss of a sequence that is not empty."""
    i0, i1 = data.offsets[i], data.offsets[i + 1]
    _score(data, i, w, scale, scores)
    n_labels = len(buffers.backward)
    buffers.backward[:] = scores.transitions[:n_labels, :n_labels].T
    find_best(scores, y[i0:i1], 1.0, 0, i1 - i0, buffers, labels)


@njit(cache=True, nogil=True)
def _margin_steps(
    data: ChainData, y: Labels, sequences: Indices, shrinks: Vector, lengths: Vector,
    w: ChainWeights, width: int,
) -> None:  # fmt: skip
    """Take steps for the loss `ChainMargin`, on the labels that are worst."""
    scores = scores_for(data, w.coef.shape[1], width)
    longest = len(scores.emissions)
    buffers, found = buffers_for(longest, w.coef.shape[1], width), np.zeros(longest, dtype=np.int32)
    scale = 1.0
    for k in range(len(sequences)):
        i = sequences[k]
        i0, i1 = data.offsets[i], data.offsets[i + 1]
        if i1 > i0:
            find_worst(data, i, y, w, scale, scores, buffers, found)
        scale = _shrunk(w, scale, shrinks[k])
        if i1 > i0:
            move_labels(data, i0, found[: i1 - i0], y[i0:i1], -lengths[k] / scale, w)
    multiply(w, scale)


@njit(cache=True, nogil=True)
def _add_slopes(
    data: ChainData, i0: int, n: int, y: Labels, found: MarginalSums, by: float, w: ChainWeights
) -> None:
    """Add the features of all labels, times their slopes and a number."""
    slopes, pairs = found.slopes, found.pairs
    n_labels = w.coef.shape[1]
    for t in range(n):
        for e in range(np.uint64(data.starts[i0 + t]), np.uint64(data.starts[i0 + t + 1])):
            feature, x = np.uint64(data.indices[e]), by * data.values[e]
            for b in range(n_labels):
                w.coef[feature, b] += x * slopes[t, b]
        if t > 0:
            w.transitions[y[t - 1], y[t]] -= by
    for a in range(n_labels):
        for b in range(n_labels):
            w.transitions[a, b] += by * pairs[0, a, b]
        if data.has_ends:
            w.ends[0, a] += by * slopes[0, a]
            w.ends[1, a] += by * slopes[n - 1, a]


@njit(cache=True, nogil=True)
def _crf_steps(
    data: ChainData, y: Labels, sequences: Indices, shrinks: Vector, lengths: Vector,
    w: ChainWeights, width: int,
) -> None:  # fmt: skip
    """Take steps for the loss `ChainCRF`."""
    n_labels = w.coef.shape[1]
    scores, one = scores_for(data, n_labels, n_labels), np.ones(1)
    found = MarginalSums(
        np.zeros(1), np.zeros(1), np.zeros_like(scores.emissions), np.zeros((1, n_labels, width))
    )
    blocks = Blocks(np.zeros(2, dtype=np.int64), np.array([0, 1], dtype=np.int64))
    scale = 1.0
    for k in range(len(sequences)):
        i = sequences[k]
        i0, i1 = data.offsets[i], data.offsets[i + 1]
        if i1 > i0:
            _score(data, i, w, scale, scores)
            blocks.offsets[1] = i1 - i0
            fill_marginals(blocks, 0, 1, scores, y[i0:i1], one, found)
        scale = _shrunk(w, scale, shrinks[k])
        if i1 > i0:
            _add_slopes(data, i0, i1 - i0, y[i0:i1], found, -lengths[k] / scale, w)
    multiply(w, scale)
