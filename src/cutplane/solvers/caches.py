"""Outputs that inference has found before, kept for block ascent.

Outputs that were kept of each example, with weights: a dual point of a structured risk.

Output ``p`` of example ``i`` has the features ``D[i, p]`` beyond those of the true output, which is
in place 0. Weights ``alpha[i, p]`` that sum to one for each example give a plane below the risk, of
slope ``a = sum_i weight_i * sum_p alpha[i, p] * D[i, p]``. With a proximal term of strength ``mu``
around a center, the minimizer of regularizer, plane and term is

    w = (mu * center - a) / (lam + mu).

What the outputs are, and how ``w`` is laid out in memory while weights move, differs between chains
and other models: see the modules beside this one.

Kept outputs of any structured model.

An output is kept as its features beyond those of the true output, and its loss: the model is not
asked again. Output ``p`` of example ``i`` has the entries from ``begins[i, p]`` to ``ends[i, p]``
of a store of indices and values; the true output, in place 0, has none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.core.protocols import Plane
from cutplane.models.structured.risk import StructuredPoint, StructuredRisk

Indices = NDArray[np.int64]

# A visit ends when the best output is ahead of the worst with weight by so small a share of what it
# was, or after so many moves for each kept one.
_FLAT = 0.1
_MOVES_EACH = 3


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

    counts: Indices
    losses: Matrix
    gram: NDArray[np.float64]
    idle: Indices
    alpha: Matrix

    @classmethod
    def truths(cls, n: int, most: int) -> Kept:
        """Return the true output of each example, with room for ``most``."""
        alpha = np.zeros((n, most))
        alpha[:, 0] = 1.0
        counts, idle = np.ones(n, dtype=np.int64), np.zeros((n, most), dtype=np.int64)
        return cls(counts, np.zeros((n, most)), np.zeros((n, most, most)), idle, alpha)


class Pull(NamedTuple):
    """A regularizer with a proximal term: ``w = center - slope / stiffness``, the center scaled."""

    stiffness: float
    center: Vector

    @classmethod
    def toward(cls, center: Vector, strength: float, lam: float) -> Pull:
        """Return ``lam/2 |w|^2 + strength/2 |w - center|^2``."""
        return cls(lam + strength, strength / (lam + strength) * center)


@dataclass
class Cache:
    """Weights of outputs, and what the outputs are, in the form that suits the risk."""

    kept: Kept
    outputs: Any


class Outputs(ABC):
    """What does not change while outputs are kept: the examples, their features and weights.

    A `Cache` holds all that does change. ``w`` is the minimizer in the form in which compiled code
    moves it.
    """

    weights: Vector

    @abstractmethod
    def __init__(self, risk: Any) -> None: ...

    @abstractmethod
    def first(self, most: int) -> Cache:
        """Return the true outputs alone, with room for ``most`` of each example."""

    @abstractmethod
    def learn(self, cache: Cache, point: Any) -> Cache:
        """Take in the worst output of each example at a point."""

    @abstractmethod
    def minimizer(self, cache: Cache, pull: Pull) -> tuple[Any, Vector]:
        """Return the minimizer, computed afresh, and the slope of the weights' plane."""

    @abstractmethod
    def move(self, cache: Cache, w: Any, stiffness: float, examples: Indices, gaps: Vector) -> None:
        """Visit examples in this order; fill in what each had to gain before its visit.

        The weights are improved in place, and ``w`` goes along.
        """

    def vector(self, w: Any) -> Vector:
        """Return the minimizer as a vector of parameters."""
        vector: Vector = w
        return vector

    def ascend(self, cache: Cache, w: Any, pull: Pull, examples: Indices) -> Vector:
        """Improve the weights of examples; return what each of all had to gain before."""
        gaps = np.zeros(len(self.weights))
        self.move(cache, w, pull.stiffness, examples, gaps)
        return gaps

    def examples(self, cache: Cache) -> Indices:
        """Return the examples whose weights can move."""
        return np.flatnonzero((cache.kept.counts > 1) & (self.weights > 0.0))

    def squared_norm(self, cache: Cache) -> float:
        """Return the squared norm of the longest kept difference of features, on average."""
        longest = np.einsum("ipp->ip", cache.kept.gram).max(axis=1)
        return float(np.sum(self.weights * longest))

    def plane(self, cache: Cache, pull: Pull) -> tuple[Plane, Vector]:
        """Return the plane of the weights, and the minimizer that belongs to it exactly."""
        kept = cache.kept
        np.divide(kept.alpha, kept.alpha.sum(axis=1, keepdims=True), out=kept.alpha)
        w, slope = self.minimizer(cache, pull)
        losses = np.einsum("ip,ip->i", kept.alpha, kept.losses)
        return Plane(slope, float(np.sum(self.weights * losses))), self.vector(w)


@njit(cache=True, nogil=True)
def balance(kept: Kept, i: int, stiffness: float, heights: Vector, moved: Vector) -> float:
    """Move weight between the outputs of an example; return what it had to gain before.

    ``heights`` are loss plus score of each output, but for what all have in common. ``moved`` gets
    the changes of the weights, and stays zero where there are none.
    """
    alpha, gram, count = kept.alpha, kept.gram, kept.counts[i]
    gap = 0.0
    first_lead = 0.0
    for move in range(_MOVES_EACH * count):
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
        if lead <= _FLAT * first_lead and (move > 0 or lead <= 0.0):
            break
        bend = stiffness * (
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
            heights[p] -= stiffness * step * (gram[i, p, best] - gram[i, p, worst])
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

    indices: Indices
    values: Vector
    begins: Indices
    ends: Indices
    used: Indices

    @classmethod
    def empty(cls, n_entries: int, n_examples: int, most: int) -> Store:
        """Return a store with room for entries."""
        places = np.zeros((2, n_examples, most), dtype=np.int64)
        indices, used = np.empty(n_entries, dtype=np.int64), np.zeros(1, dtype=np.int64)
        return cls(indices, np.empty(n_entries), places[0], places[1], used)


class ModelOutputs(Outputs):
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

    def minimizer(self, cache: Cache, pull: Pull) -> tuple[Vector, Vector]:
        """Return the minimizer, computed afresh, and the slope of the weights' plane."""
        slope = np.zeros(self._n_parameters)
        add_weighted(cache.kept, cache.outputs, self.weights, slope)
        return pull.center - slope / pull.stiffness, slope

    def move(
        self, cache: Cache, w: Vector, stiffness: float, examples: Indices, gaps: Vector
    ) -> None:
        """Visit examples in this order; fill in what each had to gain before its visit."""
        ascend(cache.kept, cache.outputs, self.weights, stiffness, w, examples, gaps)


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
    kept: Kept, store: Store, weights: Vector, stiffness: float, w: Vector, examples: Indices,
    gaps: Vector,
) -> None:  # fmt: skip
    """Visit examples one after the other; fill in what each had to gain before its visit."""
    most = kept.alpha.shape[1]
    heights, moved = np.empty(most), np.zeros(most)
    for i in examples:
        share = weights[i] / stiffness
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
