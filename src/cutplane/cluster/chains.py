"""The risk of linear chains on shards.

    R(w) = sum over shards k of  share_k * R_k(w)

``R_k`` is the ordinary risk of a shard's sequences (`cutplane.models.sequences.risk`), so that no
sequence is split. Values and planes of shards are added up along the tree
(`cutplane.compute.blocks`): bits depend on how sequences are cut into shards, not on who has which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cutplane.cluster.minimize import Named, RemoteRisk
from cutplane.cluster.sample import Arrays, Holding, ShardedSample
from cutplane.compute.arrays import Vector, lazy
from cutplane.compute.blocks import add_up, placing, rounded_alike
from cutplane.core.protocols import GroupedPoint, KeptPoint, LibraryPoint, Plane, Quadratic
from cutplane.data import ObservedPairs, Rows, as_rows
from cutplane.models.sequences.losses import ChainLoss
from cutplane.models.sequences.risk import ChainRisk, nearly_best_step, steps_to
from cutplane.risks.composite import InferenceRisk
from cutplane.risks.scored import good_number_of_groups


class ShardTokens(NamedTuple):
    """The sequences of a shard: as `ChainRisk` takes them."""

    X: Any
    y: NDArray[np.int64]
    offsets: NDArray[np.int64]
    weights: Vector


class TokenReader(Protocol):
    """How the arrays of a shard become tokens, the same way on all workers."""

    def tokens(self, arrays: Arrays) -> ShardTokens:
        """Return the tokens of a shard."""


@dataclass(frozen=True)
class ChainShape:
    """What the risks of all shards have in common.

    Attributes
    ----------
    reader : TokenReader
    loss : ChainLoss
    n_features, n_labels : int
    ends : bool
        Whether labels have weights at the start and at the end of a sequence.
    pairs : ndarray of ints, optional
        The pairs that have a weight: ``feature * n_labels + label``. All by default.
    scale : float
        What the weight of a shard is multiplied by; its factor in the sum.
    """

    reader: TokenReader
    loss: ChainLoss
    n_features: int
    n_labels: int
    ends: bool
    pairs: NDArray[np.int64] | None
    scale: float

    def risk(self, tokens: ShardTokens, n_threads: int | None) -> ChainRisk:
        """Return the risk of some sequences."""
        rows = as_rows(tokens.X, n_threads=n_threads)
        features: Rows | ObservedPairs = rows
        if self.pairs is not None:
            weighted = np.zeros((self.n_features, self.n_labels), dtype=np.bool_)
            weighted.ravel()[self.pairs] = True
            features = ObservedPairs(
                rows, tokens.y.astype(np.int32), self.n_labels, weighted=weighted
            )
        return ChainRisk(
            features,
            tokens.y,
            tokens.offsets,
            self.loss,
            n_labels=self.n_labels,
            ends=self.ends,
            weights=tokens.weights if tokens.weights.any() else None,
            n_threads=n_threads,
        )

    def make(self, holding: Holding) -> ShardChains:
        """Make the risk of a worker's shards."""
        return ShardChains(self, holding)


class _Parts(NamedTuple):
    """What a worker has of its shards: risks, points or segments, and factors in the sum.

    A shard without tokens has None.
    """

    factors: tuple[float, ...]
    parts: list[Any]

    def each(self, act: Callable[..., Any], *others: _Parts) -> _Parts:
        """Return what an act makes of each of them."""
        columns = zip(self.parts, *(other.parts for other in others), strict=True)
        with placing(None):  # a shard's sums are its own
            made = [None if own[0] is None else act(*own) for own in columns]
        return _Parts(self.factors, made)

    def total(self, act: Callable[[Any], tuple[Any, ...]], none: Sequence[Any]) -> tuple[Any, ...]:
        """Return the sums over all shards of what an act finds, times their factors."""
        found = self.each(act).parts
        return add_up(
            tuple(none) if sums is None else tuple(factor * each for each in sums)
            for factor, sums in zip(self.factors, found, strict=True)
        )


class _OfShape(InferenceRisk):
    """What the shape alone says of a risk, wherever the sequences are."""

    lower_bound = 0.0

    def _take_shape(self, shape: ChainShape) -> None:
        self._shape, self.loss = shape, shape.loss
        self.probabilities = shape.loss.probabilities
        self.rough_bends = self.probabilities and shape.pairs is not None


class ShardChains(_OfShape):
    """Mean loss of a linear chain on the sequences of a worker's shards, and those of all others.

    Parameters
    ----------
    shape : ChainShape
    holding : Holding
        The shards.

    Attributes
    ----------
    inferences : int
        How often a dynamic program ran on a sequence, of all workers.
    """

    def __init__(self, shape: ChainShape, holding: Holding) -> None:
        factors, risks, counts = list[float](), list[Any](), list[tuple[int, ...]]()
        for arrays in holding.shards():
            tokens = shape.reader.tokens(arrays)
            with placing(None):
                some = bool(tokens.offsets[-1])
                risk = shape.risk(tokens, holding.n_threads) if some else None
            risks.append(risk)
            factors.append(shape.scale * float(tokens.weights.sum()))
            size = (0, 0) if risk is None else (risk.rows.shape[0], risk.rows.n_entries)
            counts.append((len(tokens.weights), *size))
        self._take_shape(shape)
        self._risks = _Parts(tuple(factors), risks)
        self._n_sequences, self.n_tokens, self.n_entries = map(int, holding.worker.total(counts))
        n_pairs = shape.n_features * shape.n_labels if shape.pairs is None else len(shape.pairs)
        self.n_parameters = n_pairs + shape.n_labels * (shape.n_labels + 2 * shape.ends)
        self.evaluations = self.inferences = 0

    @property
    def n_examples(self) -> int:
        """Number of sequences, of all workers."""
        return self._n_sequences

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest."""
        return good_number_of_groups(self.n_entries, self._shape.n_features)

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return np.zeros(n_groups)

    def at(self, w: Vector) -> ShardChainPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        w = self._counted(w)
        return ShardChainPoint(self, w, self._risks.each(lambda risk: risk.at(w)))

    def evaluate_once(self, w: Vector) -> KeptPoint:
        """Evaluate the risk at ``w``, and keep nothing but value and plane."""
        w = self._counted(w)

        def evaluate(risk: ChainRisk) -> tuple[Any, ...]:
            point = risk.evaluate_once(w)
            return point.value, point.plane().slope, point.plane().offset

        value, slope, offset = self._risks.total(evaluate, (0.0, np.zeros(len(w)), 0.0))
        return KeptPoint(w, float(value), Plane(slope, float(offset)))

    def bends_at(self, w: Vector) -> Vector:
        """Return a rough second derivative by each parameter: as much work as an evaluation."""
        w = self._counted(w)
        found: Vector
        (found,) = self._risks.total(lambda risk: (risk.bends_at(w),), (np.zeros(len(w)),))
        return found

    def _counted(self, w: Vector) -> Vector:
        self.evaluations += 1
        self.inferences += self.n_examples
        return rounded_alike(np.array(w, dtype=np.float64))


class ShardChainPoint(LibraryPoint):
    """The risk at ``w``, with the points of the shards."""

    def __init__(self, risk: ShardChains, w: Vector, parts: _Parts) -> None:
        self.risk, self.w, self.parts = risk, w, parts
        self.value = float(parts.total(lambda point: (point.value,), (0.0,))[0])
        self._group_planes: dict[int, list[Plane]] = {}

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        plane: Plane = self._plane
        return plane

    @lazy
    def _plane(self) -> Plane:
        def touching(point: GroupedPoint) -> tuple[Any, ...]:
            own = point.plane()
            return own.slope, own.offset

        slope, offset = self.parts.total(touching, (np.zeros(self.risk.n_parameters), 0.0))
        return Plane(slope, float(offset))

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group: of the same share of the sequences of all shards."""

        def touching(point: GroupedPoint) -> tuple[Any, ...]:
            own = point.planes(n_groups)
            return np.array([each.slope for each in own]), np.array([each.offset for each in own])

        if n_groups not in self._group_planes:
            none = np.zeros((n_groups, self.risk.n_parameters)), np.zeros(n_groups)
            found = zip(*self.parts.total(touching, none), strict=True)
            planes = [Plane(slope, float(offset)) for slope, offset in found]
            self._group_planes[n_groups] = planes
        return self._group_planes[n_groups]

    def toward(self, other: ShardChainPoint) -> ShardChainSegment:
        """Return the risk on the ray from here through ``other``."""
        return ShardChainSegment(self, other)


class ShardChainSegment:
    """The risk on the ray from a point through another."""

    def __init__(self, start: ShardChainPoint, end: ShardChainPoint) -> None:
        self._risk, self._start, self._way = start.risk, start, end.w - start.w
        self._parts = start.parts.each(lambda a, b: a.toward(b), end.parts)
        self._seen: dict[float, tuple[float, float]] = {}
        self._known = {0.0: start, 1.0: end}

    def minimize(self, regularizer: Quadratic) -> float:
        """Return a step where the risk plus the regularizer on the ray is nearly the lowest."""
        return self.minimize_near(regularizer, None)

    def minimize_near(self, regularizer: Quadratic, expected: float | None) -> float:
        """Return such a step, looked for at an expected distance first."""
        first = steps_to(expected, self._way)
        return rounded_alike(nearly_best_step(self.along, regularizer, first))

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        if step not in self._seen:
            if step not in self._known:
                self._risk.inferences += self._risk.n_examples
            value, slope = self._parts.total(lambda each: each.along(step), (0.0, 0.0))
            self._seen[step] = float(value), float(slope)
        return self._seen[step]

    def at(self, step: float) -> ShardChainPoint:
        """Return the point at ``step``, without a pass over the data."""
        if step not in self._known:
            parts = self._parts.each(lambda each: each.at(step))
            w = self._start.w + step * self._way
            self._known[step] = ShardChainPoint(self._risk, w, parts)
        return self._known[step]


def _facts(holding: Holding, named: Named) -> tuple[int, int]:
    risk: ShardChains = named.risk(holding)
    return risk.n_parameters, risk.n_tokens


class ShardedChainRisk(RemoteRisk, _OfShape):
    """Mean loss of a linear chain on labeled sequences that lie on workers.

    Parameters
    ----------
    sample : ShardedSample
        The sequences.
    shape : ChainShape

    Attributes
    ----------
    inferences : int
        How often a dynamic program ran on a sequence, in evaluations and searches.
    """

    def __init__(self, sample: ShardedSample, shape: ChainShape) -> None:
        super().__init__(sample, shape)
        self._take_shape(shape)
        self.n_parameters, self.n_tokens = sample.ask(_facts, self.named)
        self.inference_steps = int(self.n_tokens * shape.n_labels**2)
        self.inferences = 0

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of: of its sequences their digests, shard by shard."""
        return {"shards": self.digests, "shape": self._shape}

    def __repr__(self) -> str:
        return (
            f"ShardedChainRisk({self.n_examples} sequences, {self._shape.n_labels} labels, "
            f"{self.loss!r}), {self.sample.n_shards} shards"
        )
