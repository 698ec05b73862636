"""Block ascent on cached outputs: every inference of a structured model is used many times.

The loss of an example is a maximum over outputs, so any weights of outputs that sum to one give a
plane below it, and the planes of all examples together one below the risk. An evaluation finds the
worst output of every example. These are kept, and the weights of all that were kept are improved,
example by example, until little is left to gain by it (block-coordinate ascent in the dual, with
caches as in N. Shah, V. Kolmogorov, C. Lampert: A multi-plane block-coordinate Frank-Wolfe
algorithm, 2015). The weights' plane bounds the optimum.

With a small ``lam`` the plane's minimizer moves far when the weights move a little, and the
objective there is high long after the bound is good. So the weights are improved for the problem
with a proximal term around the best point, ``mu/2 |w - w*|^2``, and the minimizer of that is where
the risk is evaluated next. The bound is that of the problem without the term.

What an example has to gain is known after each visit. Those with little wait until the next
evaluation.

Output ``p`` of example ``i`` has the features ``D[i, p]`` beyond those of the true output, which is
in place 0. Weights ``alpha[i, p]`` that sum to one for each example give a plane below the risk, of
slope ``a = sum_i weight_i * sum_p alpha[i, p] * D[i, p]``. With a proximal term of strength ``mu``
around a center, the minimizer of regularizer, plane and term is

    w = (mu * center - a) / (lam + mu).

What the outputs are, and how ``w`` is laid out in memory while weights move, differs between chains
(`cutplane.models.sequences.steps`) and other models (`ModelOutputs`). Of those an output is kept as
its features beyond those of the true output, and its loss: the model is not asked again. Output
``p`` of example ``i`` has the entries from ``begins[i, p]`` to ``ends[i, p]`` of a store of indices
and values; the true output has none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.pace import hurried
from cutplane.core.protocols import Plane, Point
from cutplane.core.solver import Need, Solver, Step
from cutplane.core.state import Run
from cutplane.models.structured.risk import StructuredPoint, StructuredRisk
from cutplane.risks.composite import InferenceRisk
from cutplane.solvers.ascent import worth_a_visit
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.needs import PLAIN_L2

Indices = NDArray[np.int64]

Found = TypeVar("Found", bound=Point)


class Kept(NamedTuple):
    """Losses, inner products and weights of the outputs kept for ``n`` examples.

    Attributes
    ----------
    counts : ndarray of shape (n,)
        How many outputs of each example there are, the true one included.
    losses : ndarray of shape (n, most)
    gram : ndarray of shape (n, most, most)
        Inner products of the ``D[i, p]`` of an example.
    idle : ndarray of shape (n, most)
        For how many evaluations an output has had no weight.
    alpha : ndarray of shape (n, most)
        The weights of outputs.
    """

    counts: Annotated[Indices, "i8[n]"]
    losses: Annotated[Matrix, "f8[n, m]"]
    gram: Annotated[NDArray[np.float64], "f8[n, m, m]"]
    idle: Annotated[Indices, "i8[n, m]"]
    alpha: Annotated[Matrix, "f8[n, m]>=0"]

    @classmethod
    def truths(cls, n: int, most: int) -> Kept:
        """Return the true output of each example, with room for ``most``."""
        alpha = np.zeros((n, most))
        alpha[:, 0] = 1.0
        counts, idle = np.ones(n, dtype=np.int64), np.zeros((n, most), dtype=np.int64)
        return cls(counts, np.zeros((n, most)), np.zeros((n, most, most)), idle, alpha)

    def fits(self, risk: InferenceRisk, solver: object) -> bool:
        """Say whether no example has more outputs than there is room for."""
        return bool(((self.counts >= 1) & (self.counts <= self.losses.shape[1])).all())


class ProximalTerm(NamedTuple):
    """A regularizer with a proximal term: ``w = center - slope / curvature``, the center scaled."""

    curvature: float
    center: Vector

    @classmethod
    def toward(cls, center: Vector, strength: float, lam: float) -> ProximalTerm:
        """Return ``lam/2 |w|^2 + strength/2 |w - center|^2``."""
        return cls(lam + strength, strength / (lam + strength) * center)


@dataclass
class Cache:
    """Weights of outputs, and what the outputs are, in the form that suits the risk."""

    kept: Kept
    outputs: Annotated[Any, "Store | i4[*]"]

    def fits(self, risk: InferenceRisk, solver: object) -> bool:
        """Say whether there are outputs for all places, and labels are labels."""
        n, most = self.kept.losses.shape
        if isinstance(risk, StructuredRisk):
            store: Store = self.outputs
            return type(store) is Store and store.begins.shape == (n, most)
        n_tokens, n_labels = risk.label_counts
        labels = type(self.outputs) is np.ndarray and len(self.outputs) == most * n_tokens
        return labels and bool(((self.outputs >= 0) & (self.outputs < n_labels)).all())


class Outputs(ABC, Generic[Found]):
    """What does not change while outputs are kept: the examples, their features and weights.

    A `Cache` holds all that does change. ``w`` is the minimizer in the form in which compiled code
    moves it.
    """

    weights: Vector

    @abstractmethod
    def first(self, most: int) -> Cache:
        """Return the true outputs alone, with room for ``most`` of each example."""

    @abstractmethod
    def learn(self, cache: Cache, point: Found) -> Cache:
        """Take in the worst output of each example at a point."""

    @abstractmethod
    def minimizer(self, cache: Cache, term: ProximalTerm) -> tuple[Any, Vector]:
        """Return the minimizer, computed afresh, and the slope of the weights' plane."""

    @abstractmethod
    def ascend(self, cache: Cache, w: Any, term: ProximalTerm, examples: Indices) -> Vector:
        """Improve the weights of examples in this order; return what each of all had to gain.

        The weights are improved in place, and ``w`` goes along.
        """

    def vector(self, w: Any) -> Vector:
        """Return the minimizer as a vector of parameters."""
        vector: Vector = w
        return vector

    def examples(self, cache: Cache) -> Indices:
        """Return the examples whose weights can move."""
        return np.flatnonzero((cache.kept.counts > 1) & (self.weights > 0.0))

    def squared_norm(self, cache: Cache) -> float:
        """Return the squared norm of the longest kept difference of features, on average."""
        # No length is negative, whatever a checkpoint says.
        longest = np.einsum("ipp->ip", cache.kept.gram).max(axis=1, initial=0.0)
        return float(np.sum(self.weights * longest))

    def plane(self, cache: Cache, term: ProximalTerm) -> tuple[Plane, Vector]:
        """Return the plane of the weights, and the minimizer that belongs to it exactly."""
        kept = cache.kept
        np.divide(kept.alpha, kept.alpha.sum(axis=1, keepdims=True), out=kept.alpha)
        w, slope = self.minimizer(cache, term)
        losses = np.einsum("ip,ip->i", kept.alpha, kept.losses)
        return Plane(slope, float(np.sum(self.weights * losses))), self.vector(w)


@njit(cache=True, nogil=True)
def balance(kept: Kept, i: int, curvature: float, heights: Vector, moved: Vector) -> float:
    """Move weight between the outputs of an example; return what it had to gain before.

    ``heights`` are loss plus score of each output, but for what all have in common. ``moved`` gets
    the changes of the weights, and stays zero where there are none.
    """
    alpha, gram, count = kept.alpha, kept.gram, kept.counts[i]
    gap = 0.0
    first_lead = 0.0
    # A visit ends after so many moves for each kept output, or when the best one is ahead of the
    # worst with weight by a small share of what it was.
    for move in range(3 * count):
        best, worst = 0, -1
        for p in range(count):
            if heights[p] > heights[best]:
                best = p
            if alpha[i, p] > 0.0 and (worst < 0 or heights[p] < heights[worst]):
                worst = p
        lead = heights[best] - heights[worst]
        if move == 0:
            first_lead = lead
            for p in range(count):
                gap += alpha[i, p] * (heights[best] - heights[p])
        if lead <= 0.1 * first_lead and (move > 0 or lead <= 0.0):
            break
        bend = curvature * (
            gram[i, best, best] - 2.0 * gram[i, best, worst] + gram[i, worst, worst]
        )
        step = alpha[i, worst]
        if bend * step > lead:
            step = lead / bend
        if step == 0.0:
            break
        alpha[i, best] += step
        alpha[i, worst] = max(alpha[i, worst] - step, 0.0)
        moved[best] += step
        moved[worst] -= step
        for p in range(count):
            heights[p] -= curvature * step * (gram[i, p, best] - gram[i, p, worst])
    return gap


@njit(cache=True, nogil=True)
def place_for(kept: Kept, i: int, known: int, loss: float) -> int:
    """Return where the output that was found for an example goes, or -1 if it is known.

    Its loss is noted, and how long the others had no weight. In a full cache it takes the place of
    the one that had none for the longest time, or of the lightest, whose weight it takes over. The
    true output stays.
    """
    counts, idle, alpha = kept.counts, kept.idle, kept.alpha
    for p in range(counts[i]):
        idle[i, p] = 0 if alpha[i, p] > 0.0 or p == known else idle[i, p] + 1
    if known >= 0:
        return -1
    place: int = counts[i]
    most = alpha.shape[1]
    if place < most:
        counts[i] += 1
    else:
        place = 1
        for p in range(2, most):
            if idle[i, p] > idle[i, place] or (
                idle[i, p] == 0 and idle[i, place] == 0 and alpha[i, p] < alpha[i, place]
            ):
                place = p
    idle[i, place] = 0
    kept.losses[i, place] = loss
    return place


@njit(cache=True, nogil=True)
def note_product(kept: Kept, i: int, place: int, p: int, product: float) -> None:
    """Note the inner product of two outputs of an example."""
    kept.gram[i, place, p] = product
    kept.gram[i, p, place] = product


class Store(NamedTuple):
    """The features of kept outputs: see above. The first ``used[0]`` entries are taken."""

    indices: Annotated[Indices, "i8[e]"]
    values: Annotated[Vector, "f8~[e]"]
    begins: Annotated[Indices, "i8[n, m]>=0"]
    ends: Annotated[Indices, "i8[n, m]>=0"]
    used: Annotated[Indices, "i8[1]>=0"]

    @classmethod
    def empty(cls, n_entries: int, n_examples: int, most: int) -> Store:
        """Return a store with room for entries."""
        places = np.zeros((2, n_examples, most), dtype=np.int64)
        indices, used = np.empty(n_entries, dtype=np.int64), np.zeros(1, dtype=np.int64)
        return cls(indices, np.empty(n_entries), places[0], places[1], used)

    def fits(self, risk: InferenceRisk, solver: object) -> bool:
        """Say whether all outputs lie within the entries that are taken, which are parameters."""
        used = int(self.used[0])
        taken = self.indices[:used]
        return (
            used <= len(self.indices)
            and bool((self.begins <= self.ends).all())
            and bool((self.ends <= used).all())
            and bool(((taken >= 0) & (taken < risk.n_parameters)).all())
        )


class ModelOutputs(Outputs[StructuredPoint]):
    """Outputs of the examples of a `StructuredRisk`."""

    def __init__(self, risk: StructuredRisk) -> None:
        self.weights = risk.weights
        self._n_parameters = risk.n_parameters

    def first(self, most: int) -> Cache:
        """Return the true outputs alone, with room for ``most`` of each example."""
        n = len(self.weights)
        return Cache(Kept.truths(n, most), Store.empty(0, n, most))

    def learn(self, cache: Cache, point: StructuredPoint) -> Cache:
        """Take in the worst output of each example at a point."""
        n_new = len(point.indices)
        store: Store = cache.outputs
        if store.used[0] + n_new > len(store.indices):
            # Entries of outputs that were dropped are given up.
            room = 2 * (int(np.sum(store.ends - store.begins)) + n_new)
            packed = Store.empty(room, *store.begins.shape)
            pack(cache.kept, store, packed)
            cache.outputs = packed  # all at once: Ctrl-C before it leaves the outputs as they are
        insert(
            cache.kept, cache.outputs, point.examples, point.starts, point.indices, point.values,
            point.losses, np.zeros(self._n_parameters),
        )  # fmt: skip
        return cache

    def minimizer(self, cache: Cache, term: ProximalTerm) -> tuple[Vector, Vector]:
        """Return the minimizer, computed afresh, and the slope of the weights' plane."""
        slope = np.zeros(self._n_parameters)
        add_weighted(cache.kept, cache.outputs, self.weights, slope)
        return term.center - slope / term.curvature, slope

    def ascend(self, cache: Cache, w: Vector, term: ProximalTerm, examples: Indices) -> Vector:
        """Improve the weights of examples in this order; return what each of all had to gain."""
        gaps = np.zeros(len(self.weights))
        ascend(cache.kept, cache.outputs, self.weights, term.curvature, w, examples, gaps)
        return gaps


@njit(cache=True, nogil=True)
def _score(store: Store, i: int, p: int, w: Vector) -> float:
    total = 0.0
    for entry in range(store.begins[i, p], store.ends[i, p]):
        total += store.values[entry] * w[store.indices[entry]]
    return total


@njit(cache=True, nogil=True)
def _add(store: Store, i: int, p: int, by: float, vector: Vector) -> None:
    for entry in range(store.begins[i, p], store.ends[i, p]):
        vector[store.indices[entry]] += by * store.values[entry]


@njit(cache=True, nogil=True)
def ascend(
    kept: Kept, store: Store, weights: Vector, curvature: float, w: Vector, examples: Indices,
    gaps: Vector,
) -> None:  # fmt: skip
    """Visit examples one after the other; fill in what each had to gain before its visit."""
    most = kept.alpha.shape[1]
    heights, moved = np.empty(most), np.zeros(most)
    for i in examples:
        share = weights[i] / curvature
        for p in range(kept.counts[i]):
            heights[p] = kept.losses[i, p] + _score(store, i, p, w)
        gaps[i] = weights[i] * balance(kept, i, share, heights, moved)
        for p in range(kept.counts[i]):
            if moved[p] != 0.0:
                _add(store, i, p, -share * moved[p], w)
                moved[p] = 0.0


@njit(cache=True, nogil=True)
def insert(
    kept: Kept, store: Store, examples: Indices, starts: Indices, found_indices: Indices,
    found_values: Vector, found_losses: Vector, scratch: Vector,
) -> None:  # fmt: skip
    """Keep the output that was found for each example, if it is new.

    The store has room for all of them; ``scratch`` is zero before and after.
    """
    counts, losses = kept.counts, kept.losses
    indices, values, begins, ends, used = store
    for k in range(len(examples)):
        i, start, size = examples[k], starts[k], starts[k + 1] - starts[k]
        known = -1
        for p in range(counts[i]):
            same = losses[i, p] == found_losses[k] and ends[i, p] - begins[i, p] == size
            for entry in range(size):
                own, other = begins[i, p] + entry, start + entry
                if not same:
                    break
                same = indices[own] == found_indices[other] and values[own] == found_values[other]
            known = p if same else known
        place = place_for(kept, i, known, found_losses[k])
        if place < 0:
            continue
        begin = used[0]
        used[0] += size
        begins[i, place], ends[i, place] = begin, begin + size
        for entry in range(size):
            indices[begin + entry] = found_indices[start + entry]
            values[begin + entry] = found_values[start + entry]
            scratch[found_indices[start + entry]] = found_values[start + entry]
        for p in range(counts[i]):
            note_product(kept, i, place, p, _score(store, i, p, scratch))
        for entry in range(size):
            scratch[found_indices[start + entry]] = 0.0


@njit(cache=True, nogil=True)
def pack(kept: Kept, store: Store, packed: Store) -> None:
    """Copy the entries of all outputs to the beginning of another store."""
    used = 0
    for i in range(len(kept.counts)):
        for p in range(kept.counts[i]):
            begin, size = store.begins[i, p], store.ends[i, p] - store.begins[i, p]
            for entry in range(size):
                packed.indices[used + entry] = store.indices[begin + entry]
                packed.values[used + entry] = store.values[begin + entry]
            packed.begins[i, p], packed.ends[i, p] = used, used + size
            used += size
    packed.used[0] = used


@njit(cache=True, nogil=True)
def add_weighted(kept: Kept, store: Store, weights: Vector, slope: Vector) -> None:
    """Add up the slope of the weights' plane."""
    for i in range(len(kept.counts)):
        for p in range(kept.counts[i]):
            if kept.alpha[i, p] > 0.0:
                _add(store, i, p, weights[i] * kept.alpha[i, p], slope)


WORST_OUTPUTS = Need(
    "risk",
    InferenceRisk,
    "a structured model, and a loss that is a maximum over outputs which exact inference finds",
    lambda risk: risk.worst_outputs,
)


@dataclass(frozen=True, slots=True)
class BlockAscent(Solver[Cache | None]):
    """Block ascent on cached outputs.

    Parameters
    ----------
    outputs : int or None
        How many outputs are kept for each example; with None as the number of examples allows.
    passes : int
        The most visits to an example between two evaluations.
    proximal : float
        How strong the proximal term is: mu is this multiple of ``sqrt(lam * S)``, where S is the
        squared norm of features of a wrong output beyond those of the true one. So ``mu / lam``
        grows as lam falls. Chosen on the OCR letters, as are the two below:
        docs/decisions/2026-11-18-constants-of-solvers.md.
    planes : int or None
        How many planes are combined, besides the aggregated one; None for all.
    """

    # Passes end when the caches have so small a share of the gap left to gain.
    enough: ClassVar[float] = 0.2
    # Examples with less than this share of the mean gain wait for the next evaluation.
    worthwhile: ClassVar[float] = 0.05
    # Where the risk at the best point is below this share of the first objective, nearly all
    # examples are told apart, and what is left is to make weights small. If one example alone can
    # then move the weights far, since S / (lam * examples) is this large, the term only holds them
    # back.
    told_apart: ClassVar[float] = 0.05
    stiff: ClassVar[float] = 1e5
    # Inner products of kept outputs, for all examples together: 8 MB. A cache that is full of
    # outputs with weight can bring a run to a halt, so few examples get more room.
    products: ClassVar[int] = 1_000_000
    fewest: ClassVar[int] = 20
    most: ClassVar[int] = 100

    needs = (WORST_OUTPUTS, PLAIN_L2)
    outputs: int | None = None
    passes: int = 20
    proximal: float = 0.0075
    planes: int | None = 4
    name: str = "block-ascent"

    def step(self, run: Run, own: Cache | None) -> Step[Cache | None]:
        """Improve the weights, then evaluate the risk at their minimizer."""
        risk, lam = WORST_OUTPUTS.of(run.problem), run.problem.norm.lam
        outputs = outputs_of(risk)
        kept = own
        if kept is None:
            by_memory = math.isqrt(self.products // len(outputs.weights))
            room = self.outputs or min(max(by_memory, self.fewest), self.most)
            kept = outputs.learn(outputs.first(room), run.best)
        # How strongly the next point is drawn to the best one.
        squared_norm = outputs.squared_norm(kept)
        first = run.history[0].objective if run.history else 0.0
        apart = run.best.value < self.told_apart * first
        held_back = apart and squared_norm > self.stiff * lam * len(outputs.weights)
        strength = 0.0 if held_back else self.proximal * math.sqrt(lam * squared_norm)
        term = ProximalTerm.toward(run.best.w, strength, lam)
        w, _ = outputs.minimizer(kept, term)
        # The order depends on the iteration alone, so that a resumed run goes on the same way.
        order = np.random.default_rng(run.iteration)
        examples = outputs.examples(kept)
        for _ in range(self.passes):
            gaps = outputs.ascend(kept, w, term, order.permutation(examples))
            if gaps.sum() <= self.enough * run.gap or hurried():
                break
            examples = worth_a_visit(gaps, self.worthwhile)
        plane, minimizer = outputs.plane(kept, term)
        point = risk.at(minimizer)
        return Step([point], outputs.learn(kept, point), [plane])


def block_ascent(*, outputs: int | None = None, passes: int = 20, planes: int = 4) -> BlockAscent:
    """Block ascent on cached outputs, for structured models: few inferences.

    The method where inference is what takes the time. It needs a `cutplane.StructuredRisk`, or a
    `cutplane.ChainRisk` with the loss `cutplane.ChainMargin`, and the regularizer ``lam/2 |w|^2``.

    Parameters
    ----------
    outputs : int, optional
        How many outputs are kept for each example, the true one included. By default 20 to 100: the
        more, the fewer examples there are.
    passes : int
        The most visits to an example between two evaluations. Fewer save time where inference is
        fast, and cost evaluations.
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    if outputs is not None and outputs < 2:
        raise ValueError(f"at least 2 outputs must be kept, got {outputs}")
    return BlockAscent(outputs, passes, planes=checked_planes(planes))


def outputs_of(risk: InferenceRisk) -> Outputs[Any]:
    """Return what does not change while outputs of a risk are kept."""
    if isinstance(risk, StructuredRisk):
        return ModelOutputs(risk)
    # Which need this module.
    from cutplane.models.sequences.risk import ChainRisk
    from cutplane.models.sequences.steps import ChainOutputs

    assert isinstance(risk, ChainRisk)
    return ChainOutputs(risk)
