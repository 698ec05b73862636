"""Kept outputs of any structured model.

An output is kept as its features beyond those of the true output, and its loss: the model is not
asked again. Output ``p`` of example ``i`` has the entries from ``begins[i, p]`` to ``ends[i, p]``
of a store of indices and values; the true output, in place 0, has none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.methods.caches.kept import (
    Cache,
    Indices,
    Kept,
    Outputs,
    Pull,
    balance,
    note_product,
    place_for,
)
from cutplane.risks.structured import StructuredPoint, StructuredRisk


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
