"""The risk of a linear chain: the mean loss of whole sequences of labels.

    R(w) = sum_i weight_i * loss(y_i, scores of sequence i)

The parameters are one vector: coefficients of the tokens' features for each label (one row per
label), then a matrix of transitions from label (row) to label (column), then, if wanted, the
weights of each label at the start and at the end of a sequence.

As in :mod:`cutplane.risks.scored` a point carries its scores, so moving along the line between two
points costs no pass over the features, but a dynamic program on each sequence. So a line search is
not exact: it ends where the objective is nearly flat, or after three trials.

Where nothing is to be kept of a sequence, the risk is evaluated part by part. With sparse features,
scores and their slopes take more memory than the features, and to write them to memory and read
them again takes time: a part is a few sequences whose scores and slopes stay in a core's cache.
Where a network computes the scores, its parameters take the place of the coefficients, the risk is
not convex, and points know value and plane only: a part is a batch of whole sequences, whose
derivatives go back through the network before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cutplane.compute.arrays import MappedFile, Matrix, Vector
from cutplane.compute.products import dot
from cutplane.compute.threads import summed
from cutplane.core.protocols import KeptPoint, LibraryPoint, Plane, Quadratic
from cutplane.core.search import Trial, between, beyond, model_minimum
from cutplane.data import AllPairs, ObservedPairs, PairMap, Rows, ScoreMap, TorchScores, as_rows
from cutplane.data.observed_pairs import PairSums
from cutplane.models.sequences.chain import Chains, ChainScores, Indices, cut, tokens_of
from cutplane.models.sequences.losses import ChainLoss, ChainOutcome, ChainSlopes, LabeledChains
from cutplane.risks.composite import InferenceRisk
from cutplane.risks.scored import good_number_of_groups, normalized, require_finite


class ChainSettings(NamedTuple):
    """What was chosen on data (docs/decisions/2026-11-18-structured-measured.md), or by size.

    Attributes
    ----------
    flat : float
        A trial of a search is good enough where the slope is at most this share of that at the
        start.
    most_trials : int
        Of a search, beyond its two ends.
    margin : float
        Trials keep this share of a bracket away from its ends: good steps are often that short.
    rounding : float
        What is left to be gained is rounding if it is a smaller share of the objective.
    scores : int
        Of a piece: half a megabyte, as much for their slopes, and the entries of the features.
    flatter : float
        The share of the model's own distribution in a mean with the right labels.
    parts_each : int
        Runs of consecutive sequences that a group is dealt.
    """

    flat: float = 0.3
    most_trials: int = 3
    margin: float = 0.02
    rounding: float = 1e-12
    scores: int = 1 << 16
    flatter: float = 0.97
    parts_each: int = 4


SETTINGS = ChainSettings()


class ChainPoint(LibraryPoint):
    """The risk of a linear chain at ``w``, with the scores there.

    Attributes
    ----------
    w : ndarray
        Parameters.
    scores : ChainScores
        Of all labels and transitions.
    """

    def __init__(self, risk: ChainRisk, w: Vector, scores: ChainScores) -> None:
        self.risk, self.w, self.scores = risk, w, scores
        self._group_planes: dict[int, list[Plane]] = {}

    @cached_property
    def outcome(self) -> ChainOutcome:
        """What the dynamic programs found: computed on first use, then kept."""
        return self.risk.evaluate(self.scores)

    @property
    def value(self) -> float:
        """The risk."""
        return self.outcome.value

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        return self.risk.pull_back(self.outcome.slopes())

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group, all in one pass over the data, the first time."""
        if n_groups not in self._group_planes:
            planes = self.risk.pull_back_groups(self.outcome.slopes(), n_groups)
            self._group_planes[n_groups] = planes
        return self._group_planes[n_groups]

    def toward(self, other: ChainPoint) -> ChainSegment:
        """Return the risk on the ray from here through ``other``."""
        return ChainSegment(self, other)


class ChainSegment:
    """The risk on the ray from a point through another. Points on it are kept."""

    def __init__(self, start: ChainPoint, end: ChainPoint) -> None:
        self._start = start
        self._way = end.w - start.w
        self._direction = ChainScores(
            *(there - here for here, there in zip(start.scores, end.scores, strict=True))
        )
        self._known = {0.0: start, 1.0: end}
        self._seen: dict[float, tuple[float, float]] = {}

    def minimize(self, regularizer: Quadratic) -> float:
        """Return a step where the risk plus the regularizer on the ray is nearly the lowest."""
        return self.minimize_near(regularizer, None)

    def minimize_near(self, regularizer: Quadratic, expected: float | None) -> float:
        """Return such a step, looked for at an expected distance first.

        The first trial after those at both ends is at the expected distance from the start, such as
        that of the last search: the next one will hardly go much farther or less far. Without it,
        the trial is where the tangents at both ends cross, as at a kink.
        """
        return nearly_best_step(self.along, regularizer, steps_to(expected, self._way))

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        if step not in self._seen:
            outcome = self.at(step).outcome
            self._seen[step] = outcome.value, outcome.slope_along(self._direction)
        return self._seen[step]

    def at(self, step: float) -> ChainPoint:
        """Return the point at ``step``, without a pass over the data."""
        if step not in self._known:
            start = self._start
            self._known[step] = ChainPoint(
                start.risk, start.w + step * self._way, start.scores.moved(step, self._direction)
            )
        return self._known[step]


def steps_to(distance: float | None, way: Vector) -> float | None:
    """Return how many times a way leads that far; None if that is not known."""
    length = float(np.linalg.norm(way))
    return None if distance is None or length == 0.0 else distance / length


def nearly_best_step(
    along: Callable[[float], tuple[float, float]],
    regularizer: Quadratic,
    expected: float | None = None,
) -> float:
    """Return a step where a risk on a ray plus the regularizer is nearly the lowest.

    Parameters
    ----------
    along : callable
        From a step to the risk and its derivative.
    regularizer : Quadratic
        On the same ray.
    expected : float, optional
        Where to look first, once the minimum is known to lie between two steps.
    """

    def trial(step: float) -> Trial:
        """Return value and slope of risk and regularizer together."""
        value, slope = along(step)
        value += regularizer.slope * step + 0.5 * regularizer.curvature * step**2
        return Trial(step, value, slope + regularizer.slope + regularizer.curvature * step)

    start = trial(0.0)
    if start.slope >= 0.0:
        return 0.0
    low, high, trials, step = start, None, [start], 1.0
    for number in range(1 + SETTINGS.most_trials):
        here = trial(step)
        trials.append(here)
        if abs(here.slope) <= SETTINGS.flat * abs(start.slope):
            break
        if here.slope > 0.0:
            high = here
        else:
            low = here
        if high is None:
            step = beyond(low, start)
            continue
        crossing, floor = _floor(along, low.step, high.step, regularizer)
        lowest = min(trial.value for trial in trials)
        if lowest - floor <= SETTINGS.rounding * abs(lowest):
            break
        if number > 0:
            step = between(low, high, SETTINGS.margin)
        else:
            step = crossing if expected is None else expected
        width = high.step - low.step
        step = min(
            max(step, low.step + SETTINGS.margin * width), high.step - SETTINGS.margin * width
        )
    return min(trials, key=lambda trial: trial.value).step


def _floor(
    along: Callable[[float], tuple[float, float]], low: float, high: float, regularizer: Quadratic
) -> tuple[float, float]:
    """Return where the model made of two tangents to the risk is lowest, and how low that is.

    Between two steps, where the objective falls at the first and rises at the second.
    """
    (value_low, slope_low), (value_high, slope_high) = along(low), along(high)
    step = model_minimum(
        Trial(low, value_low, slope_low), Trial(high, value_high, slope_high), regularizer
    )
    tangent = max(value_low + slope_low * (step - low), value_high + slope_high * (step - high))
    return step, tangent + regularizer.slope * step + 0.5 * regularizer.curvature * step**2


def sums_beside_emissions(chains: Chains, slopes: ChainSlopes, *, ends: bool) -> Vector:
    """Return the derivatives by transitions and, perhaps, by the labels at start and end."""
    parts = [slopes.transitions.sum(axis=0).ravel()]
    if ends:
        parts += [slopes.emissions[tokens].sum(axis=0) for tokens in (chains.firsts, chains.lasts)]
    return np.concatenate(parts)


def rough_bends(piece: LabeledChains, slopes: ChainSlopes) -> ChainSlopes:
    """Return rough second derivatives of a conditional random field in place of the first ones.

    A label of probability p bends the loss by ``p (1 - p)`` along its score, a transition by less
    than its expected number. The slope of a score is ``p``, or ``p - 1`` where the label is right,
    times the weight of the sequence: either way its size ``s`` gives ``s - s^2 / weight``.
    """
    weights = np.repeat(piece.weights, piece.chains.lengths)[:, None]
    sizes = np.abs(slopes.emissions)
    shares = np.divide(sizes, weights, out=np.zeros_like(sizes), where=weights > 0.0)
    emissions = sizes * np.maximum(1.0 - shares, 0.0)
    return slopes._replace(
        emissions=emissions, transitions=slopes.transitions + piece.observed_pairs
    )


class ChainRisk(InferenceRisk):
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
        rows: Rows | ScoreMap | NDArray[Any] | csr_array,
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
        given = rows if isinstance(rows, ScoreMap) else None
        self.rows = as_rows(rows, n_threads=n_threads) if given is None else given.rows
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
        self.inference_steps: int = n_tokens * n_labels**2
        self.label_counts = n_tokens, n_labels
        self.probabilities = loss.probabilities
        self.rough_bends = loss.probabilities and self.map.observed
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
    def files(self) -> tuple[MappedFile, ...]:
        """The files that the features are read from while a run goes on."""
        return self.rows.files

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
        if not self.map.linear:
            return 1
        return good_number_of_groups(self.rows.n_entries, self.rows.shape[1])

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return np.zeros(n_groups)

    def at(self, w: Vector) -> ChainPoint | KeptPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        if not self.map.linear:
            return self._at_batches(w)
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
        tokens, offsets = tokens_of(chains.offsets, chosen)
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
        piece by piece: see :mod:`cutplane.models.sequences.risk`.
        """
        if not self.map.observed:
            point = self.at(w)
            return KeptPoint(w, point.value, point.plane())
        self.evaluations += 1
        slope, (value, offset, mixing) = self._summed(w)
        plane, flatter, share = Plane(slope, offset), None, SETTINGS.flatter
        if self.loss.probabilities:
            flatter = Plane(share * slope, share * offset + mixing)
        return KeptPoint(w, value, plane, flatter)

    def bends_at(self, w: Vector) -> Vector:
        """Return a rough second derivative by each parameter: as much work as an evaluation."""
        self.evaluations += 1
        return self._summed(w, bends=True)[0]

    def _summed(self, w: Vector, *, bends: bool = False) -> tuple[Vector, list[float]]:
        """Return derivatives and sums over all pieces, with observed pairs, on several threads.

        The sums are those of `_evaluate_piece`. With `bends`, rough second derivatives in place of
        derivatives.
        """
        self.inferences += self.n_examples
        coef, *rest = self.parts(w)
        features, (pieces, bounds) = cast(ObservedPairs, self.map), self._pieces
        score, by = features.scorer(coef), features.squared() if bends else features
        n_sums = min(features.n_sums, len(pieces))
        cuts = np.arange(n_sums + 1) * len(pieces) // n_sums

        def part(number: int) -> tuple[PairSums, Vector]:
            pairs, sums = by.sums(), np.zeros(self._n_sums)
            for k in range(cuts[number], cuts[number + 1]):
                begin, end = bounds[k : k + 2]
                scores = ChainScores(np.empty((end - begin, self.n_labels)), *rest)
                score(begin, end, scores.emissions)
                require_finite(scores, w)
                found, slopes = self._evaluate_piece(pieces[k], scores, bends=bends)
                pairs.add(slopes, begin)
                sums += found
            return pairs, sums

        def add(total: tuple[PairSums, Vector], other: tuple[PairSums, Vector]) -> None:
            total[0].add_sums(other[0])
            total[1][...] += other[1]

        pairs, sums = summed(part, n_sums, add, n_threads=self.data.chains.n_threads)
        return np.concatenate([pairs.by_pair(), sums[:-3]]), sums[-3:].tolist()

    def _evaluate_piece(
        self, piece: LabeledChains, scores: ChainScores, *, bends: bool = False
    ) -> tuple[Vector, Matrix]:
        """Return what some sequences add to the sums of the risk, and their slopes by emissions.

        The sums are other slopes, then the value, the plane's offset, and the entropy that the
        flatter plane gains. With `bends`, rough second derivatives in place of slopes.
        """
        outcome = self.loss.evaluate(piece, scores)
        slopes = outcome.slopes()
        if bends:
            slopes = rough_bends(piece, slopes)
        rest = sums_beside_emissions(piece.chains, slopes, ends=self.ends)
        sums = outcome.value, slopes.offsets.sum(), outcome.mixing(SETTINGS.flatter)
        return np.append(rest, sums), slopes.emissions

    def _at_batches(self, w: Vector) -> KeptPoint:
        """Return the point at ``w`` of a map that is not linear: a piece is a batch of it."""
        self.inferences += self.n_examples
        inner, *rest = self.parts(w)
        network, (pieces, bounds) = cast(TorchScores, self.map), self._pieces
        found = np.zeros((len(pieces), self._n_sums))

        def slopes_of(k: int, emissions: Matrix) -> Matrix:
            # One label's scores come as a vector.
            emissions = np.ascontiguousarray(emissions.reshape(len(emissions), -1))
            scores = ChainScores(emissions, *rest)
            require_finite(scores, w, whose=f"scores of {network}")
            found[k], slopes = self._evaluate_piece(pieces[k], scores)
            return slopes

        slope = network.pullback_through(inner, bounds, slopes_of)
        sums = sum(found, np.zeros(self._n_sums))
        slope, value = np.concatenate([slope, sums[:-3]]), float(sums[-3])
        require_finite([slope], w, whose=f"derivatives of {network}")
        return KeptPoint(w, value, Plane(slope, value - dot(slope, w)))

    @property
    def _n_sums(self) -> int:
        return self.n_parameters - self.map.n_parameters + 3

    @cached_property
    def _pieces(self) -> tuple[list[LabeledChains], Indices]:
        """Some sequences behind each other, and the tokens where each piece begins and ends.

        They are the batches of a network, or so few that their scores stay in a core's cache.
        """
        chains = self.data.chains
        if self.map.linear:
            n_pieces = chains.n_tokens * self.n_labels // SETTINGS.scores
        else:
            n_pieces = -(-chains.n_tokens // cast(TorchScores, self.map).batch)
        cuts = np.unique(cut(chains.offsets, max(n_pieces, 1)))
        # Sequences without tokens alone make no piece.
        cuts = cuts[np.append(np.diff(chains.offsets[cuts]) > 0, True)]
        cuts[0] = 0
        return [self.data.part(i, j) for i, j in pairwise(cuts)], chains.offsets[cuts]

    def scores(self, w: Vector) -> ChainScores:
        """Return the scores of labels and transitions: one pass over the data."""
        emissions, *rest = self.parts(w)
        return ChainScores(self.map.scores(emissions).reshape(-1, self.n_labels), *rest)

    def split(self, w: Vector) -> tuple[Any, Any, Vector, Vector]:
        """Return coefficients, transitions, and weights at start and end (zero if there are none).

        They are views of ``w``; if only observed pairs have a weight, coefficients are a sparse
        matrix instead.
        """
        emissions, *rest = self.parts(w)
        return self.pairs.as_matrix(emissions), *rest

    def parts(self, w: Vector) -> tuple[Vector, Any, Vector, Vector]:
        """Return the map's parameters, transitions, and weights at start and end: views of ``w``.

        The last two are zero if there are none.
        """
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

        Consecutive sequences are dealt out to the groups in turn: see `cutplane.risks.scored`.
        """
        emissions, chains = slopes.emissions, self.data.chains
        n_parts = n_groups * SETTINGS.parts_each
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
