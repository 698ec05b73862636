"""Compiled: products with features whose weights belong to pairs of a feature and a class.

Entries of common features name a row of a table, which has a column for each class. All other
entries are written out as the pairs of their feature. Rows of the table are a multiple of `LANES`
numbers long, and dealt with so many at a time: loops whose length the compiler knows become a few
vector instructions, others take several times as long on rows that are so short. Positions are
unsigned for the reason given in `cutplane.maps.csr`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import REORDER, njit
from cutplane.maps.rows import Entries

LANES = 8


class SplitEntries(NamedTuple):
    """The entries of a matrix, split into those of common features and the pairs of all others.

    Where all entries are one, there is a single value for all of them.
    """

    common_starts: NDArray[np.int64]  # where the entries of each example begin
    common_rows: NDArray[np.int32]  # the row of the table
    common_values: NDArray[Any]
    rare_starts: NDArray[np.int64]  # where the pairs of each example begin
    rare_pairs: NDArray[Any]
    rare_classes: NDArray[Any]
    rare_values: NDArray[Any]


@njit(cache=True, nogil=True)
def mark_pairs(
    csr: Entries, y: NDArray[np.int32], seen: NDArray[np.bool_], counts: NDArray[np.int64]
) -> None:
    """Mark the pairs that occur, and count the entries of each feature."""
    values, indices, starts = csr
    for i in range(len(y)):
        for entry in range(starts[i], starts[i + 1]):
            counts[indices[entry]] += 1
            if y[i] >= 0 and values[entry] != 0.0:
                seen[indices[entry], y[i]] = True


@njit(cache=True, nogil=True)
def count_parts(
    csr: Entries, pair_starts: NDArray[np.int64], place: NDArray[np.int32], into: SplitEntries
) -> None:
    """Fill in where the entries of each example begin; ``place`` is a row of the table, or -1."""
    _, indices, starts = csr
    for i in range(len(starts) - 1):
        common, rare = into.common_starts[i], into.rare_starts[i]
        for entry in range(starts[i], starts[i + 1]):
            j = indices[entry]
            if place[j] >= 0:
                common += 1
            else:
                rare += pair_starts[j + 1] - pair_starts[j]
        into.common_starts[i + 1], into.rare_starts[i + 1] = common, rare


@njit(cache=True, nogil=True)
def fill_parts(
    csr: Entries,
    pair_starts: NDArray[np.int64],
    classes: NDArray[Any],
    place: NDArray[np.int32],
    into: SplitEntries,
) -> None:
    """Fill in the entries, once it is known where those of each example begin."""
    values, indices, starts = csr
    with_common, with_rare = len(into.common_values) > 1, len(into.rare_values) > 1
    for i in range(len(starts) - 1):
        common, rare = into.common_starts[i], into.rare_starts[i]
        for entry in range(starts[i], starts[i + 1]):
            j = indices[entry]
            if place[j] >= 0:
                into.common_rows[common] = place[j]
                if with_common:
                    into.common_values[common] = values[entry]
                common += 1
            else:
                for pair in range(pair_starts[j], pair_starts[j + 1]):
                    into.rare_pairs[rare] = pair
                    into.rare_classes[rare] = classes[pair]
                    if with_rare:
                        into.rare_values[rare] = values[entry]
                    rare += 1


@njit(cache=True, nogil=True, fastmath=REORDER)
def fill_scores(
    entries: SplitEntries, w: Vector, table: Vector, width: int, begin: int, end: int,
    out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write the scores of examples ``begin <= i < end`` to the rows of ``out``."""
    starts, rows, values, rare_starts, pairs, classes, rare_values = entries
    step, rare_step = min(len(values) - 1, 1), min(len(rare_values) - 1, 1)
    z = np.zeros(width)
    for i in range(begin, end):
        for c in range(0, width, LANES):
            z0 = z1 = z2 = z3 = z4 = z5 = z6 = z7 = 0.0
            for entry in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                x = np.float64(values[np.uint64(entry * step)])
                k = np.uint64(rows[entry]) * np.uint64(width) + np.uint64(c)
                z0 += x * table[k]
                z1 += x * table[k + np.uint64(1)]
                z2 += x * table[k + np.uint64(2)]
                z3 += x * table[k + np.uint64(3)]
                z4 += x * table[k + np.uint64(4)]
                z5 += x * table[k + np.uint64(5)]
                z6 += x * table[k + np.uint64(6)]
                z7 += x * table[k + np.uint64(7)]
            z[c], z[c + 1], z[c + 2], z[c + 3] = z0, z1, z2, z3
            z[c + 4], z[c + 5], z[c + 6], z[c + 7] = z4, z5, z6, z7
        for entry in range(np.uint64(rare_starts[i]), np.uint64(rare_starts[i + 1])):
            x = np.float64(rare_values[np.uint64(entry * rare_step)])
            z[np.uint64(classes[entry])] += x * w[np.uint64(pairs[entry])]
        for label in range(out.shape[1]):
            out[i - begin, label] = z[label]


@njit(cache=True, nogil=True, fastmath=REORDER)
def add_pullback(
    entries: SplitEntries, slopes: NDArray[np.float64], total: Vector, table: Vector, width: int,
    begin: int,
) -> None:  # fmt: skip
    """Add what examples contribute, from ``begin`` on, to the sums over pairs and the table."""
    starts, rows, values, rare_starts, pairs, classes, rare_values = entries
    step, rare_step = min(len(values) - 1, 1), min(len(rare_values) - 1, 1)
    n_classes = slopes.shape[1]
    s = np.zeros(width)
    for i in range(len(slopes)):
        some = False
        for label in range(n_classes):
            s[label] = slopes[i, label]
            some = some or s[label] != 0.0
        if not some:  # as most examples of a margin loss
            continue
        first, last = np.uint64(starts[begin + i]), np.uint64(starts[begin + i + 1])
        for c in range(0, width, LANES):
            s0, s1, s2, s3 = s[c], s[c + 1], s[c + 2], s[c + 3]
            s4, s5, s6, s7 = s[c + 4], s[c + 5], s[c + 6], s[c + 7]
            for entry in range(first, last):
                x = np.float64(values[np.uint64(entry * step)])
                k = np.uint64(rows[entry]) * np.uint64(width) + np.uint64(c)
                table[k] += x * s0
                table[k + np.uint64(1)] += x * s1
                table[k + np.uint64(2)] += x * s2
                table[k + np.uint64(3)] += x * s3
                table[k + np.uint64(4)] += x * s4
                table[k + np.uint64(5)] += x * s5
                table[k + np.uint64(6)] += x * s6
                table[k + np.uint64(7)] += x * s7
        first, last = np.uint64(rare_starts[begin + i]), np.uint64(rare_starts[begin + i + 1])
        for entry in range(first, last):
            x = np.float64(rare_values[np.uint64(entry * rare_step)])
            total[np.uint64(pairs[entry])] += x * s[np.uint64(classes[entry])]
