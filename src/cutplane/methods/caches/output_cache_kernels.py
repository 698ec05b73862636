"""Compiled block ascent on cached outputs of any structured model.

The formulas are those of `chain_cache_kernels`. An output of example ``i`` in
place ``p`` has the entries ``begins[i, p]`` to ``ends[i, p]`` of a store of indices and values: its
features beyond those of the true output. Those of the true output, in place 0, are none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.methods.caches.chain_cache_kernels import balance, place_for_one

Places = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _score(indices: Places, values: Vector, begin: int, end: int, w: Vector) -> float:
    total = 0.0
    for entry in range(begin, end):
        total += values[entry] * w[indices[entry]]
    return total


@njit(cache=True, nogil=True)
def _add(
    indices: Places, values: Vector, begin: int, end: int, by: float, vector: Vector
) -> None:  # fmt: skip
    for entry in range(begin, end):
        vector[indices[entry]] += by * values[entry]


@njit(cache=True, nogil=True)
def ascend(
    indices: Places, values: Vector, begins: Places, ends: Places, losses: Matrix,
    counts: Places, alpha: Matrix, gram: NDArray[np.float64], weights: Vector, lam: float,
    w: Vector, examples: Places, gaps: Vector,
) -> None:  # fmt: skip
    """Visit examples one after the other; fill in what each had to gain before its visit."""
    most = alpha.shape[1]
    heights, moved = np.empty(most), np.zeros(most)
    for i in examples:
        count, stiffness = counts[i], weights[i] / lam
        for p in range(count):
            heights[p] = losses[i, p] + _score(indices, values, begins[i, p], ends[i, p], w)
        gaps[i] = weights[i] * balance(alpha, gram, i, count, stiffness, heights, moved)
        for p in range(count):
            if moved[p] != 0.0:
                _add(indices, values, begins[i, p], ends[i, p], -stiffness * moved[p], w)
                moved[p] = 0.0


@njit(cache=True, nogil=True)
def insert(
    indices: Places, values: Vector, begins: Places, ends: Places, losses: Matrix,
    counts: Places, alpha: Matrix, gram: NDArray[np.float64], idle: Places, used: Places,
    examples: Places, starts: Places, found_indices: Places, found_values: Vector,
    found_losses: Vector, scratch: Vector,
) -> int:  # fmt: skip
    """Put the output that was found for each example into its cache, if it is new.

    The store has room for all of them behind its ``used[0]`` entries; ``scratch`` is zero before
    and after. Returns how often an output took over the weight of another.
    """
    taken_over = 0
    for k in range(len(examples)):
        i, start, size = examples[k], starts[k], starts[k + 1] - starts[k]
        known = False
        for p in range(counts[i]):
            idle[i, p] = 0 if alpha[i, p] > 0.0 else idle[i, p] + 1
            same = losses[i, p] == found_losses[k] and ends[i, p] - begins[i, p] == size
            for entry in range(size):
                if not same:
                    break
                kept = begins[i, p] + entry
                same = (
                    indices[kept] == found_indices[start + entry]
                    and values[kept] == found_values[start + entry]
                )
            if same:
                known = True
                idle[i, p] = 0
        if known:
            continue
        place = place_for_one(counts, alpha, idle, i)
        if alpha[i, place] > 0.0:
            taken_over += 1
        losses[i, place] = found_losses[k]
        begin = used[0]
        used[0] += size
        begins[i, place], ends[i, place] = begin, begin + size
        for entry in range(size):
            indices[begin + entry] = found_indices[start + entry]
            values[begin + entry] = found_values[start + entry]
            scratch[found_indices[start + entry]] = found_values[start + entry]
        for p in range(counts[i]):
            product = _score(indices, values, begins[i, p], ends[i, p], scratch)
            gram[i, place, p] = product
            gram[i, p, place] = product
        for entry in range(size):
            scratch[found_indices[start + entry]] = 0.0
    return taken_over


@njit(cache=True, nogil=True)
def pack(
    indices: Places, values: Vector, begins: Places, ends: Places, counts: Places,
    new_indices: Places, new_values: Vector, new_begins: Places, new_ends: Places,
) -> int:  # fmt: skip
    """Copy the entries of all outputs to the beginning of another store; return their number."""
    used = 0
    for i in range(len(counts)):
        for p in range(counts[i]):
            begin, size = begins[i, p], ends[i, p] - begins[i, p]
            for entry in range(size):
                new_indices[used + entry] = indices[begin + entry]
                new_values[used + entry] = values[begin + entry]
            new_begins[i, p], new_ends[i, p] = used, used + size
            used += size
    return used


@njit(cache=True, nogil=True)
def slope_of(
    indices: Places, values: Vector, begins: Places, ends: Places, counts: Places,
    alpha: Matrix, weights: Vector, n_parameters: int,
) -> Vector:  # fmt: skip
    """Return the slope of the weights' plane."""
    slope = np.zeros(n_parameters)
    for i in range(len(counts)):
        for p in range(counts[i]):
            if alpha[i, p] > 0.0:
                by = weights[i] * alpha[i, p]
                _add(indices, values, begins[i, p], ends[i, p], by, slope)
    return slope
