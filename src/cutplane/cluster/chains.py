"""The risk of linear chains whose sequences lie elsewhere, in shards on the members of a team.

    R(w) = sum over shards k of  share_k * R_k(w)

``R_k`` is the ordinary risk of a shard's sequences (`cutplane.models.sequences.risk`), so that none
is split. Values and planes of shards are added up along the tree (`cutplane.compute.blocks`): bits
depend on how sequences are cut into shards, not on who has which. Searches along a ray are led from
here, because each trial costs dynamic programs on all sequences and two numbers to send.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cutplane.cluster import calls
from cutplane.cluster.member import Arrays, Holding, name_of
from cutplane.cluster.sample import ShardedSample, Step
from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import placing
from cutplane.core.protocols import KeptPoint, Plane, Quadratic
from cutplane.data import ObservedPairs, Rows, as_rows
from cutplane.models.sequences.losses import ChainLoss
from cutplane.models.sequences.risk import ChainRisk, nearly_best_step, steps_to
from cutplane.risks.composite import Summable
from cutplane.risks.groups import good_number_for


class ShardTokens(NamedTuple):
    """The sequences of a shard: as `ChainRisk` takes them."""

    X: Any
    y: NDArray[np.int64]
    offsets: NDArray[np.int64]
    weights: Vector


class TokenReader(Protocol):
    """How the arrays of a shard become tokens, the same way on all members."""

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


class _Held(NamedTuple):
    """What a member keeps, shard by shard: risks, points or segments, and factors in the sum.

    A shard without tokens has None.
    """

    factors: tuple[float, ...]
    parts: list[Any]

    def each(self, act: Callable[..., Any], *others: _Held) -> _Held:
        """Return what an act makes of each of them."""
        columns = zip(self.parts, *(other.parts for other in others), strict=True)
        with placing(None):  # a shard's sums are its own
            made = [None if own[0] is None else act(*own) for own in columns]
        return _Held(self.factors, made)

    def total(self, holding: Holding, act: Callable[[Any], tuple[Any, ...]], none: Any) -> Any:
        """Return the sums over all shards of what an act finds, times their factors."""
        found = self.each(act).parts
        return holding.total(
            [
                none if sums is None else tuple(factor * each for each in sums)
                for factor, sums in zip(self.factors, found, strict=True)
            ]
        )


def make_chains(holding: Holding, shape: ChainShape) -> tuple[_Held, tuple[int, int]]:
    """Make the risks of a member's shards; tell how many tokens and entries there are."""
    factors, risks, counts = [], [], []
    for arrays in holding.shards():
        tokens = shape.reader.tokens(arrays)
        with placing(None):
            some = bool(tokens.offsets[-1])
            risk = shape.risk(tokens, holding.n_threads) if some else None
        risks.append(risk)
        factors.append(shape.scale * float(tokens.weights.sum()))
        counts.append((0, 0) if risk is None else (risk.rows.shape[0], risk.rows.n_entries))
    n_tokens, n_entries = holding.total(counts)
    return _Held(tuple(factors), risks), (int(n_tokens), int(n_entries))


def at(holding: Holding, held: _Held, w: Vector) -> tuple[_Held, float]:
    """Evaluate the risk."""
    points = held.each(lambda risk: risk.at(w))
    return points, _value(holding, points)


def _value(holding: Holding, points: _Held) -> float:
    return float(points.total(holding, lambda point: (point.value,), (0.0,))[0])


def at_once(holding: Holding, held: _Held, w: Vector) -> tuple[float, Plane]:
    """Evaluate the risk where no search will begin."""

    def evaluate(risk: ChainRisk) -> tuple[Any, ...]:
        point = risk.evaluate_once(w)
        return point.value, point.plane().slope, point.plane().offset

    value, slope, offset = held.total(holding, evaluate, (0.0, np.zeros(len(w)), 0.0))
    return float(value), Plane(slope, float(offset))


def bends(holding: Holding, held: _Held, w: Vector) -> Vector:
    """Return rough second derivatives."""
    found: Vector = held.total(holding, lambda risk: (risk.bends_at(w),), (np.zeros(len(w)),))[0]
    return found


def plane(holding: Holding, points: _Held, n_parameters: int) -> Plane:
    """Return the plane that touches at a point."""

    def touching(point: Any) -> tuple[Any, ...]:
        own = point.plane()
        return own.slope, own.offset

    slope, offset = points.total(holding, touching, (np.zeros(n_parameters), 0.0))
    return Plane(slope, float(offset))


def planes(holding: Holding, points: _Held, n_parameters: int, n_groups: int) -> list[Plane]:
    """Return the plane of each group: of the same share of the sequences of all shards."""

    def touching(point: Any) -> tuple[Any, ...]:
        own = point.planes(n_groups)
        return np.array([each.slope for each in own]), np.array([each.offset for each in own])

    none = np.zeros((n_groups, n_parameters)), np.zeros(n_groups)
    slopes, offsets = points.total(holding, touching, none)
    return [Plane(slope, float(offset)) for slope, offset in zip(slopes, offsets, strict=True)]


def segment(holding: Holding, start: _Held, end: _Held) -> tuple[_Held, None]:
    """Make the ray through two points."""
    return start.each(lambda a, b: a.toward(b), end), None


def along(holding: Holding, segments: _Held, step: float) -> tuple[float, float]:
    """Return the risk on a ray, and its derivative by the step."""
    value, slope = segments.total(holding, lambda each: each.along(step), (0.0, 0.0))
    return float(value), float(slope)


def on_segment(holding: Holding, segments: _Held, step: float) -> tuple[_Held, float]:
    """Return the point on a ray."""
    points = segments.each(lambda each: each.at(step))
    return points, _value(holding, points)


class ShardedChainRisk(Summable):
    """Mean loss of a linear chain on labeled sequences that lie elsewhere.

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

    sharded = True
    lower_bound = 0.0

    def __init__(self, sample: ShardedSample, shape: ChainShape) -> None:
        self.sample, self.loss, self._shape = sample, shape.loss, shape
        self._step = Step(name_of(make_chains), (), (shape,))
        self.n_tokens, self._n_entries = sample.keep(self, self._step)
        n_pairs = shape.n_features * shape.n_labels if shape.pairs is None else len(shape.pairs)
        self.n_parameters = n_pairs + shape.n_labels * (shape.n_labels + 2 * shape.ends)
        self.evaluations = self.inferences = 0

    @property
    def n_examples(self) -> int:
        """Number of sequences."""
        return self.sample.source.n_rows

    @property
    def inference_steps(self) -> int:
        """How many steps the dynamic programs of all sequences take."""
        return int(self.n_tokens * self._shape.n_labels**2)

    @property
    def rough_bends(self) -> bool:
        """Whether `bends_at` is known: that of a conditional random field on observed pairs."""
        return self.loss.probabilities and self._shape.pairs is not None

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest."""
        return good_number_for(self._n_entries, self._shape.n_features)

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return np.zeros(n_groups)

    def at(self, w: Vector) -> ShardedChainPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        w = self._counted(w)
        return ShardedChainPoint(self, w, Step(name_of(at), (self._step,), (w,)))

    def evaluate_once(self, w: Vector) -> KeptPoint:
        """Evaluate the risk at ``w``, and keep nothing but value and plane."""
        w = self._counted(w)
        return KeptPoint(w, *self.sample.ask(at_once, [self._step], w))

    def bends_at(self, w: Vector) -> Vector:
        """Return a rough second derivative by each parameter: as much work as an evaluation."""
        found: Vector = self.sample.ask(bends, [self._step], self._counted(w))
        return found

    def _counted(self, w: Vector) -> Vector:
        self.evaluations += 1
        self.inferences += self.n_examples
        return np.array(w, dtype=np.float64)

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of: of its sequences their digests, shard by shard."""
        return {"shards": self._digests, "shape": self._shape}

    @cached_property
    def _digests(self) -> NDArray[np.uint8]:
        digests: NDArray[np.uint8] = self.sample.ask(calls.digests)
        return digests

    def __repr__(self) -> str:
        return (
            f"ShardedChainRisk({self.n_examples} sequences, {self._shape.n_labels} labels, "
            f"{self.loss!r}), {self.sample.n_shards} shards"
        )


class ShardedChainPoint:
    """The risk at ``w``; the scores there are where the sequences are."""

    has_segment = True

    def __init__(
        self,
        risk: ShardedChainRisk,
        w: Vector,
        step: Step,
        history: list[Step] | None = None,
    ) -> None:
        self._risk, self.w = risk, w
        # In this order a checkpoint tells how the point is made without going in circles.
        self._history = [*(history or []), step]
        self.value: float = risk.sample.keep(self, step)
        self._group_planes: dict[int, list[Plane]] = {}

    @property
    def step(self) -> Step:
        """How the members have made the point."""
        return self._risk.sample.kept(self, self._history[-1])

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        found: Plane = self._risk.sample.ask(plane, [self.step], self._risk.n_parameters)
        return found

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group, all in one pass over the data, the first time."""
        if n_groups not in self._group_planes:
            self._group_planes[n_groups] = self._risk.sample.ask(
                planes, [self.step], self._risk.n_parameters, n_groups
            )
        return self._group_planes[n_groups]

    def toward(self, other: ShardedChainPoint) -> ShardedChainSegment:
        """Return the risk on the ray from here through ``other``."""
        return ShardedChainSegment(self._risk, self, other)


class ShardedChainSegment:
    """The risk on the ray from a point through another. Points on it are kept, by the members."""

    uses_distance = True

    def __init__(
        self, risk: ShardedChainRisk, start: ShardedChainPoint, end: ShardedChainPoint
    ) -> None:
        self._risk, self._start, self._end = risk, start, end
        self._step = Step(name_of(segment), (start.step, end.step))
        risk.sample.keep(self, self._step)
        self._seen: dict[float, tuple[float, float]] = {}
        self._known = {0.0: start, 1.0: end}

    def minimize(self, regularizer: Quadratic, expected: float | None = None) -> float:
        """Return a step where the risk plus the regularizer on the ray is nearly the lowest."""
        first = steps_to(expected, self._end.w - self._start.w)
        return nearly_best_step(self.along, regularizer, first)

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        if step not in self._seen:
            if step not in self._known:
                self._risk.inferences += self._risk.n_examples
            self._seen[step] = self._risk.sample.ask(along, [self._step], step)
        return self._seen[step]

    def at(self, step: float) -> ShardedChainPoint:
        """Return the point at ``step``, without a pass over the data."""
        if step not in self._known:
            start, end = self._start, self._end
            w = start.w + step * (end.w - start.w)
            history = list(dict.fromkeys([*start._history, *end._history, self._step]))
            made = Step(name_of(on_segment), (self._step,), (step,))
            self._known[step] = ShardedChainPoint(self._risk, w, made, history)
        return self._known[step]
