"""Compiled: stochastic gradient steps on the sequences of a chain, one after the other.

    w <- shrink * w - length * (subgradient of a sequence's loss at w)

What a sequence does not touch is not read: parameters are kept as ``scale * v``, so that shrinking
them is one product. Coefficients have one row a feature, as in
:mod:`cutplane.models.sequences.caches`.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple, cast

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.core.needs import offers
from cutplane.core.protocols import Risk
from cutplane.losses.logistic import exp_minus
from cutplane.models.sequences.caches import ChainData, ChainWeights, add_token, score_token
from cutplane.models.sequences.chain import Blocks, ChainScores
from cutplane.models.sequences.loops import (
    Labels,
    last_label,
    longest_in,
    padded,
    reach_labels,
    trace_back,
)
from cutplane.models.sequences.losses import ChainCRF
from cutplane.models.sequences.marginals import (
    MarginalSums,
    fill_marginals,
    fill_marginals_in_log_space,
)
from cutplane.models.sequences.risk import ChainRisk
from cutplane.risks.checks import require_finite
from cutplane.solvers.sgd.step_rules import Indices

_FARTHEST = ChainCRF.farthest
# A smaller scale is multiplied into the parameters, before they get large.
_SMALLEST_SCALE = 1e-6


def as_chains(risk: Risk) -> ChainRisk | None:
    """Return a risk of chains that steps are compiled for, or None."""
    if not (offers(risk, "pairs") and offers(risk, "entries")):
        return None
    chains = cast(ChainRisk, risk)
    smooth = chains.loss.probabilities and not chains.pairs.observed
    return chains if smooth or chains.loss.worst_labels else None


class ChainSteps:
    """Steps on the sequences of a risk of chains."""

    def __init__(self, risk: ChainRisk) -> None:
        assert risk.entries is not None
        self._risk = risk
        data = risk.data
        self.data = ChainData(
            *risk.entries, data.chains.offsets, data.weights, risk.weighted, risk.ends
        )

    def follow(self, w: Vector, sequences: Indices, shrinks: Vector, lengths: Vector) -> Vector:
        """Take a step on each of some sequences; return the parameters after the last."""
        risk, tables = self._risk, self.tables_of(w)
        take = _margin_steps if risk.loss.worst_labels else _crf_steps
        take(self.data, risk.data.y, sequences, shrinks, lengths, tables, padded(risk.n_labels))
        return self.flat(tables, w)

    def no_tables(self) -> ChainWeights:
        """Return parameters of zero, as the kernels read them."""
        return ChainWeights.zeros(self._risk.n_features, self._risk.n_labels)

    def tables_of(self, w: Vector) -> ChainWeights:
        """Return parameters as the kernels read them."""
        risk, n, tables = self._risk, self._risk.n_labels, self.no_tables()
        coef, transitions, ends = np.split(w, [*accumulate((risk.pairs.n_parameters, n * n))])
        risk.pairs.add_to_table(coef, tables.coef)
        tables.transitions[...] = transitions.reshape(n, n)
        if risk.ends:
            tables.ends[...] = ends.reshape(2, n)
        return tables

    def flat(self, tables: ChainWeights, before: Vector) -> Vector:
        """Return parameters as one vector; `NonFiniteRisk` if steps from ``before`` overflowed."""
        parts = [self._risk.pairs.from_table(tables.coef), tables.transitions.ravel()]
        after = np.concatenate(parts + ([tables.ends.ravel()] if self._risk.ends else []))
        require_finite([after], before)
        return after


class Room(NamedTuple):
    """What finding the worst labels of a sequence needs: its labels, theirs, scores and more."""

    own_y: Labels
    labels: Labels
    scores: ChainScores
    best: Matrix
    reach: Vector
    backward: Matrix


@njit(cache=True, nogil=True)
def multiply(w: ChainWeights, by: float) -> None:
    """Multiply all parameters by a number."""
    for part in (w.coef, w.transitions, w.ends):
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                part[i, j] *= by


@njit(cache=True, nogil=True)
def _score(
    data: ChainData, i: int, y: Labels, w: ChainWeights, scale: float,
    own_y: Labels, scores: ChainScores,
) -> None:  # fmt: skip
    """Fill in labels and scores of sequence ``i``; transitions have padding, which stays."""
    S, T, start, end = scores
    n_labels = S.shape[1]
    i0, i1 = data.offsets[i], data.offsets[i + 1]
    for t in range(i1 - i0):
        own_y[t] = y[i0 + t]
        score_token(data, i0 + t, w.coef, S, t)
        for b in range(n_labels):
            S[t, b] *= scale
    for a in range(n_labels):
        for b in range(n_labels):
            T[a, b] = scale * w.transitions[a, b]
        start[a], end[a] = scale * w.ends[0, a], scale * w.ends[1, a]


@njit(cache=True, nogil=True)
def _shrunk(w: ChainWeights, scale: float, shrink: float) -> float:
    """Return the scale of the parameters after they were shrunk."""
    scale *= shrink
    if abs(scale) >= _SMALLEST_SCALE:
        return scale
    multiply(w, scale)
    return 1.0


@njit(cache=True, nogil=True)
def add_labels(
    data: ChainData, i0: int, n: int, labels: Labels, other: Labels, by: float, w: ChainWeights
) -> None:
    """Add the features of labels, times a number; those of tokens where they differ."""
    for t in range(n):
        if labels[t] != other[t]:
            add_token(data, i0 + t, labels[t], by, w.coef)
        if t > 0:
            w.transitions[labels[t - 1], labels[t]] += by
    if data.has_ends:
        w.ends[0, labels[0]] += by
        w.ends[1, labels[n - 1]] += by


@njit(cache=True, nogil=True)
def room_for(offsets: Indices, n_labels: int, width: int) -> Room:
    """Return room for any of the sequences; rows of transitions are this wide."""
    longest = longest_in(offsets, 0, len(offsets) - 1)
    T = np.full((width, width), -np.inf)
    return Room(
        np.zeros(longest, dtype=np.int32),
        np.zeros(longest, dtype=np.int32),
        ChainScores(np.zeros((longest, n_labels)), T, np.zeros(n_labels), np.zeros(n_labels)),
        np.full((longest, width), -np.inf),
        np.zeros(width),
        np.zeros((n_labels, n_labels)),
    )


@njit(cache=True, nogil=True)
def find_worst(
    data: ChainData, i: int, y: Labels, w: ChainWeights, scale: float, room: Room
) -> None:
    """Fill in the labels of a sequence that is not empty, and those of the largest loss."""
    own_y, labels, scores, best, reach, backward = room
    n, n_labels = data.offsets[i + 1] - data.offsets[i], w.coef.shape[1]
    _score(data, i, y, w, scale, own_y, scores)
    for a in range(n_labels):
        for b in range(n_labels):
            backward[b, a] = scores.transitions[a, b]
    reach_labels(scores, own_y, 1.0, 0, n, best, reach)
    labels[n - 1] = last_label(best, n, scores.end)
    trace_back(best, backward, 0, n - 1, labels)


@njit(cache=True, nogil=True)
def _margin_steps(
    data: ChainData, y: Labels, sequences: Indices, shrinks: Vector, lengths: Vector,
    w: ChainWeights, width: int,
) -> None:  # fmt: skip
    """Take steps for the loss `ChainMargin`, on the labels that are worst."""
    room = room_for(data.offsets, w.coef.shape[1], width)
    scale = 1.0
    for k in range(len(sequences)):
        i = sequences[k]
        i0, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        if n > 0:
            find_worst(data, i, y, w, scale, room)
        scale = _shrunk(w, scale, shrinks[k])
        if n > 0:
            add_labels(data, i0, n, room.labels, room.own_y, -lengths[k] / scale, w)
            add_labels(data, i0, n, room.own_y, room.labels, lengths[k] / scale, w)
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
    longest = longest_in(data.offsets, 0, len(data.offsets) - 1)
    own_y, one = np.zeros(longest, dtype=np.int32), np.ones(1)
    T = np.zeros((n_labels, n_labels))
    scores = ChainScores(np.zeros((longest, n_labels)), T, np.zeros(n_labels), np.zeros(n_labels))
    found = MarginalSums(
        np.zeros(1), np.zeros(1), np.zeros((longest, n_labels)), np.zeros((1, n_labels, width))
    )
    blocks = Blocks(np.zeros(2, dtype=np.int64), np.array([0, 1], dtype=np.int64))
    E, E_transposed = np.zeros((width, width)), np.zeros((width, width))
    scale = 1.0
    for k in range(len(sequences)):
        i = sequences[k]
        i0, n = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        if n > 0:
            _score(data, i, y, w, scale, own_y, scores)
            blocks.offsets[1] = n
            top = T.max()
            if top - T.min() <= _FARTHEST:
                for a in range(n_labels):
                    for b in range(n_labels):
                        E[a, b] = exp_minus(top - T[a, b])
                for a in range(n_labels):
                    for b in range(n_labels):
                        E_transposed[b, a] = E[a, b]
                fill_marginals(blocks, 0, 1, scores, own_y, one, found, E, E_transposed, top)
            else:
                fill_marginals_in_log_space(blocks, 0, 1, scores, own_y, one, found)
        scale = _shrunk(w, scale, shrinks[k])
        if n > 0:
            _add_slopes(data, i0, n, own_y, found, -lengths[k] / scale, w)
    multiply(w, scale)
