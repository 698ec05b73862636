"""The risk of a linear chain: the mean loss of whole sequences of labels.

    R(w) = sum_i weight_i * loss(y_i, scores of sequence i)

The parameters are one vector: coefficients of the tokens' features for each label (one row a
label), then a matrix of transitions from label (row) to label (column), then, if wanted, the
weights of each label at the start and at the end of a sequence.

As in :mod:`cutplane.risks.scored` a point carries its scores, so moving along the line between two
points costs no pass over the features. It costs a dynamic program on each sequence.

Where a network computes the scores, its parameters take the place of the coefficients, the risk is
not convex, and points know value and plane only: see :mod:`cutplane.models.sequences.pieces`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import KeptPoint, Plane
from cutplane.data import AllPairs, ObservedPairs, PairMap, ScoreMap, TorchScores, rows_and_map
from cutplane.models.sequences.chain import Chains, ChainScores
from cutplane.models.sequences.loops import Indices
from cutplane.models.sequences.losses import ChainLoss, ChainOutcome, ChainSlopes, LabeledChains
from cutplane.models.sequences.pieces import (
    FLATTER,
    ChainBatches,
    ChainPieces,
    sums_beside_emissions,
)
from cutplane.models.sequences.points import ChainPoint
from cutplane.risks.checks import normalized, require_finite
from cutplane.risks.composite import Summable
from cutplane.risks.groups import good_number_of_groups

# Runs of consecutive sequences that a group is dealt.
_PARTS_EACH = 4


class ChainRisk(Summable):
    """Mean loss of a linear chain on labeled sequences.

    Parameters
    ----------
    rows : Rows, ScoreMap or array-like of shape (n_tokens, n_features)
        The features of all tokens, sequence after sequence; see `cutplane.as_rows`. Or a map from
        parameters to the scores of labels, such as `cutplane.TorchScores`.
    y : array-like of shape (n_tokens,)
        Labels, numbered from 0 on.
    offsets : array-like of shape (n_sequences + 1,)
        The token where each sequence begins, and where the last ends. Sequences may be empty.
    loss : ChainLoss
        `cutplane.ChainMargin` or `cutplane.ChainCRF`.
    n_labels : int, optional
        By default as many as a map has scores, or one more than the largest of ``y``.
    ends : bool
        Whether labels have weights at the start and at the end of a sequence.
    observed_only : bool
        Whether only those pairs of feature and label have a weight that occur together, in
        sequences that count. The features must be sparse.
    weights : ndarray of shape (n_sequences,), optional
        Weights of the sequences, not negative; scaled to sum to one. Equal by default.
    per_token : bool
        Whether the risk is divided by the mean length of a sequence, and so is the mean loss of a
        token.
    n_threads : int, optional
        Number of threads; all cores by default. It has no influence on the results.

    Attributes
    ----------
    inferences : int
        How often a dynamic program ran on a sequence, in evaluations and searches.
    """

    lower_bound = 0.0
    output_kind = "labels"

    def __init__(
        self,
        rows: Any,
        y: Any,
        offsets: Any,
        loss: ChainLoss,
        *,
        n_labels: int | None = None,
        ends: bool = False,
        observed_only: bool = False,
        weights: Vector | None = None,
        per_token: bool = False,
        n_threads: int | None = None,
    ) -> None:
        if not isinstance(loss, ChainLoss):
            raise TypeError(f"loss must be a ChainLoss such as cp.ChainMargin(), got {loss!r}")
        self.rows, given = rows_and_map(rows, n_threads=n_threads)
        if given is not None and given.linear and not isinstance(given, PairMap):
            raise TypeError(f"a chain needs weights for pairs of label and feature, got {given}")
        if given is not None and len(given.score_shape) != 1 and n_labels != 1:
            raise TypeError(f"a chain needs a score for each label, {given} has one a token")
        n_tokens, self.n_features = self.rows.shape
        if n_tokens == 0:
            raise ValueError("a risk needs at least one token")
        labels = np.array(y, dtype=np.int32)
        if labels.shape != (n_tokens,):
            raise ValueError(f"y has shape {labels.shape}, X has {n_tokens} rows")
        if (labels != np.asarray(y)).any() or labels.min() < 0:
            raise ValueError("labels are numbered 0, 1, 2, ...")
        if n_labels is None:
            n_labels = int(labels.max()) + 1 if given is None else given.score_shape[0]
        self.n_labels = n_labels
        if given is not None and (given.score_shape or (1,)) != (n_labels,):
            raise ValueError(f"{given} has {given.score_shape[0]} scores for {n_labels} labels")
        if not labels.max() < self.n_labels:
            raise ValueError(f"y has label {labels.max()}, there are {self.n_labels} labels")
        chains = Chains(offsets, self.n_labels, n_threads=n_threads)
        if chains.n_tokens != n_tokens:
            raise ValueError(f"offsets end at {chains.n_tokens}, X has {n_tokens} rows")
        shares = normalized(weights, chains.n_sequences)
        self.data = LabeledChains(chains, labels, shares)
        self._divisor = 1.0
        if per_token:
            self._divide_by(float(shares @ chains.lengths))
        self.loss = loss
        self.ends = ends
        self.map: ScoreMap = given or AllPairs(self.rows, self.n_labels)
        if observed_only and given is None:
            counted = np.repeat(self.data.weights > 0.0, chains.lengths)
            self.map = ObservedPairs(self.rows, np.where(counted, labels, -1), self.n_labels)
        if not self.map.linear:
            self.convex = False
            self.unproven = f"the scores of {self.map} are not linear in the parameters"
        self.n_parameters = self.map.n_parameters + self.n_labels * (self.n_labels + 2 * ends)
        self.evaluations = 0
        self.inferences = 0

    @property
    def pairs(self) -> PairMap:
        """The map, where it is one with weights for pairs of label and feature."""
        return cast(PairMap, self.map)

    @property
    def n_examples(self) -> int:
        """Number of sequences, empty ones too."""
        return self.data.chains.n_sequences

    @property
    def weights(self) -> Vector:
        """Weights of the sequences, which sum to one."""
        return self.data.weights * self._divisor

    @property
    def inference_steps(self) -> int:
        """How many steps the dynamic programs of all sequences take."""
        return self.data.chains.n_tokens * self.n_labels**2

    @property
    def label_probabilities(self) -> bool:
        """Whether points know the probabilities of labels, and features all second derivatives."""
        all_pairs = self.map.linear and not self.map.observed
        return self.loss.probabilities and all_pairs and self.rows.second_derivatives

    @property
    def rough_bends(self) -> bool:
        """Whether `bends_at` is known: that of a conditional random field on observed pairs."""
        return self.loss.probabilities and self.map.observed

    @property
    def worst_outputs(self) -> bool:
        """Whether the loss is a maximum over labels, on features that can be read one by one."""
        return self.map.linear and self.loss.worst_labels and self.entries is not None

    @cached_property
    def entries(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
        """The features in CSR: values, columns, and starts of rows; None if they are not known."""
        return self.rows.entries() if self.map.linear else None

    @cached_property
    def weighted(self) -> NDArray[np.bool_]:
        """Whether a feature (row) and a label (column) have a weight."""
        return self.pairs.weighted()

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest."""
        return good_number_of_groups(self.rows) if self.map.linear else 1

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return np.zeros(n_groups)

    def at(self, w: Vector) -> ChainPoint | KeptPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        if not self.map.linear:
            self.inferences += self.n_examples
            inner, *rest = self._parts(w)
            return self._batches.evaluate(self.loss, w, inner, rest, ends=self.ends)
        scores = self.scores(w)
        require_finite(scores, w)
        return ChainPoint(self, w, scores)

    def part(self, examples: Indices | slice) -> ChainRisk:
        """Return the risk of some sequences, by their numbers or as a slice.

        The parameters are the same; weights are scaled to sum to one. Where the risk is a mean over
        tokens, that of a part is divided by the same number.
        """
        chains = self.data.chains
        chosen = np.arange(chains.n_sequences)[examples]
        lengths = chains.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.repeat(chains.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        part = ChainRisk(
            self.map.part(tokens),
            self.data.y[tokens],
            offsets,
            self.loss,
            n_labels=self.n_labels,
            ends=self.ends,
            weights=self.data.weights[chosen],
            n_threads=chains.n_threads,
        )
        part._divide_by(self._divisor)
        return part

    def _divide_by(self, divisor: float) -> None:
        self._divisor = divisor
        self.data = LabeledChains(self.data.chains, self.data.y, self.data.weights / divisor)

    def evaluate_once(self, w: Vector) -> KeptPoint:
        """Evaluate the risk at ``w``, and keep nothing but value and plane.

        With observed pairs, where tokens are many and features sparse, the sequences are dealt with
        piece by piece: see :mod:`cutplane.models.sequences.pieces`.
        """
        if not self.map.observed:
            point = self.at(w)
            return KeptPoint(w, point.value, point.plane())
        self.evaluations += 1
        self.inferences += self.n_examples
        coef, *rest = self._parts(w)
        found = self._pieces.evaluate(self.loss, w, coef, rest, ends=self.ends)
        slope = np.concatenate([found.pairs.by_pair(), found.rest])
        plane, flatter = Plane(slope, found.offset), None
        if self.loss.probabilities:
            flatter = Plane(FLATTER * slope, FLATTER * found.offset + found.mixing)
        return KeptPoint(w, found.value, plane, flatter)

    def bends_at(self, w: Vector) -> Vector:
        """Return a rough second derivative by each parameter: as much work as an evaluation."""
        self.evaluations += 1
        self.inferences += self.n_examples
        coef, *rest = self._parts(w)
        found = self._pieces.bends(self.loss, w, coef, rest, ends=self.ends)
        return np.concatenate([found.pairs.by_pair(), found.rest])

    @cached_property
    def _batches(self) -> ChainBatches:
        return ChainBatches(self.data, cast(TorchScores, self.map))

    @cached_property
    def _pieces(self) -> ChainPieces:
        return ChainPieces(self.data, cast(ObservedPairs, self.map))

    def scores(self, w: Vector) -> ChainScores:
        """Return the scores of labels and transitions: one pass over the data."""
        emissions, *rest = self._parts(w)
        return ChainScores(self.map.scores(emissions).reshape(-1, self.n_labels), *rest)

    def split(self, w: Vector) -> tuple[Any, Any, Vector, Vector]:
        """Return coefficients, transitions, and weights at start and end (zero if there are none).

        They are views of ``w``; if only observed pairs have a weight, coefficients are a sparse
        matrix instead.
        """
        emissions, *rest = self._parts(w)
        return self.pairs.as_matrix(emissions), *rest

    def beside_emissions(self, w: Vector) -> tuple[Any, Vector, Vector]:
        """Return transitions, and weights at start and end (zero if there are none)."""
        _, transitions, start, end = self._parts(w)
        return transitions, start, end

    def _parts(self, w: Vector) -> tuple[Vector, Any, Vector, Vector]:
        n = self.n_labels
        emissions, transitions, ends = np.split(w, np.cumsum([self.map.n_parameters, n * n]))
        start, end = (ends[:n], ends[n:]) if self.ends else (np.zeros(n), np.zeros(n))
        return emissions, transitions.reshape(n, n), start, end

    def evaluate(self, scores: ChainScores) -> ChainOutcome:
        """Run the dynamic program on all sequences."""
        self.inferences += self.n_examples
        return self.loss.evaluate(self.data, scores)

    def pull_back(self, slopes: ChainSlopes) -> Plane:
        """Return the plane with these slopes by the scores: one pass over the data."""
        rest = sums_beside_emissions(self.data.chains, slopes, ends=self.ends)
        slope = np.concatenate([self.map.pullback(slopes.emissions), rest])
        return Plane(slope, float(slopes.offsets.sum()))

    def pull_back_groups(self, slopes: ChainSlopes, n_groups: int) -> list[Plane]:
        """Return the plane of each group of sequences: one pass over the data.

        Consecutive sequences are dealt out to the groups in turn: see `cutplane.risks.groups`.
        """
        emissions, chains = slopes.emissions, self.data.chains
        n_parts = n_groups * _PARTS_EACH
        blocks = np.arange(n_parts + 1) * chains.n_blocks // n_parts
        tokens = chains.offsets[chains.bounds[blocks]]
        sums = [
            list(self.pairs.block_pullbacks(emissions, tokens)),
            [slopes.transitions[i:j].sum(axis=0) for i, j in pairwise(blocks)],
        ]
        if self.ends:
            for ends in (chains.firsts, chains.lasts):
                cuts = np.searchsorted(ends, tokens)
                sums.append([emissions[ends[i:j]].sum(axis=0) for i, j in pairwise(cuts)])
        offsets = [slopes.offsets[i:j].sum() for i, j in pairwise(blocks)]
        return [
            Plane(
                np.concatenate([np.sum(part[k::n_groups], axis=0).ravel() for part in sums]),
                float(np.sum(offsets[k::n_groups])),
            )
            for k in range(n_groups)
        ]

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "features": self.rows if self.map.linear else self.map,
            "labels": (self.data.y, self.n_labels),
            "sequences": self.data.chains.offsets,
            "weights": self.data.weights,
            "loss": self.loss,
            "ends": self.ends,
            "observed pairs": self.map.observed,
        }

    def __repr__(self) -> str:
        ends = ", observed pairs" if self.map.observed else ""
        ends += ", ends" if self.ends else ""
        return (
            f"ChainRisk({self.rows if self.map.linear else self.map}, {self.n_examples} sequences, "
            f"{self.n_labels} labels, {self.loss!r}{ends})"
        )
