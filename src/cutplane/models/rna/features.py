"""Features of RNA structures, and energies that their weights begin with.

Features of RNA secondary structures, after the loops that thermodynamic models score.

A structure is cut into loops, each with a closing pair: hairpins, stacks of two pairs, bulges,
interior loops, multi-loops, and the exterior. A feature counts how often something occurs in them.
Lengths are counted as "at least k", so that neighboring lengths share what they learn. Mismatches
and dangles are bases beside a pair, on the side of the loop; those of branches count whether the
base is paired or not, so that branches can be scored one by one.

Weights after the nearest-neighbor model of RNA, to begin with or to stay close to.

Free energies at 37 degrees, in kcal/mol and with the opposite sign, since scores are maximized:
stacks, loops by their lengths, dangling bases and multi-loops as in D. Mathews et al. (PNAS 101,
2004), mismatches in hairpins after D. Mathews et al. (J. Mol. Biol. 288, 1999). Stacks, loops and
dangling bases were compared with the tables of ViennaRNA, the mismatches were not. What this model
has no features for is left out: tables of small interior loops, special hairpins.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit

Bases = NDArray[np.int8]
Partners = NDArray[np.int64]

BASES = "ACGU"
LONGEST = 30  # loops are counted up to this length; search looks at no longer interior loops
SHORTEST_HAIRPIN = 3
_MOST_ASYMMETRY = 10

# The six pairs, by their two bases: AU, CG, GC, GU, UA, UG. Others do not pair: -1.
PAIRS = np.array([[-1, -1, -1, 0], [-1, -1, 1, -1], [-1, 2, -1, 3], [4, -1, 5, -1]])
REVERSED = np.array([4, 2, 1, 5, 0, 3])  # the same pair, read from its other base
_UNORDERED = np.array([0, 1, 1, 2, 0, 2])


def stack_places() -> NDArray[np.int64]:
    """Return a number for each stack of two pairs; seen from the other strand it is the same."""
    places = np.full((6, 6), -1)
    for outer in range(6):
        for inner in range(6):
            twin = places[REVERSED[inner], REVERSED[outer]]
            places[outer, inner] = twin if twin >= 0 else places.max() + 1
    return places


_STACKS = stack_places()

_SIZES = {
    "pair": 3,
    "stack": 21,
    "closing": 6,
    "hairpin_mismatch": 96,
    "interior_mismatch": 96,
    "hairpin_length": LONGEST - SHORTEST_HAIRPIN + 1,
    "bulge_length": LONGEST,
    "interior_length": LONGEST - 1,
    "asymmetry": _MOST_ASYMMETRY,
    "left_dangle": 24,
    "right_dangle": 24,
    "multi_open": 1,
    "multi_branch": 1,
    "multi_unpaired": 1,
    "exterior_branch": 1,
    "exterior_unpaired": 1,
}
_ENDS = np.cumsum(list(_SIZES.values())).tolist()
N_FEATURES: int = _ENDS[-1]

PLACES = {
    name: slice(end - size, end) for (name, size), end in zip(_SIZES.items(), _ENDS, strict=True)
}
"""Where the features of each kind are."""

# Where those of each kind begin; Numba takes the numbers for constants.
_AT: Any = namedtuple("_AT", _SIZES)(*(place.start for place in PLACES.values()))


class Scores(NamedTuple):
    """Weights as tables that the search looks scores up in.

    Pairs are numbered as in `PAIRS`. Lengths and sizes are from 0 to `LONGEST`; ``interior`` is
    for the numbers of unpaired bases on both sides. ``loops`` are the weights of a multi-loop, a
    branch and an unpaired base in it, and of a branch and an unpaired base outside.
    """

    pair: Vector
    stack: Matrix
    closing: Vector
    hairpin_mismatch: NDArray[np.float64]
    interior_mismatch: NDArray[np.float64]
    hairpin: Vector
    bulge: Vector
    interior: Matrix
    left_dangle: Matrix
    right_dangle: Matrix
    loops: Vector

    @classmethod
    def of(cls, w: Vector) -> Scores:
        """Return the tables of weights."""
        part = {name: w[place] for name, place in PLACES.items()}
        interior = _at_least(part["interior_length"], 2)
        asymmetry = _at_least(part["asymmetry"], 1)
        sizes = np.arange(LONGEST + 1)
        total = np.minimum(sizes[:, None] + sizes, LONGEST)
        difference = np.minimum(np.abs(sizes[:, None] - sizes), _MOST_ASYMMETRY)
        return cls(
            pair=part["pair"][_UNORDERED],
            stack=part["stack"][_STACKS],
            closing=np.ascontiguousarray(part["closing"]),
            hairpin_mismatch=part["hairpin_mismatch"].reshape(6, 4, 4).copy(),
            interior_mismatch=part["interior_mismatch"].reshape(6, 4, 4).copy(),
            hairpin=_at_least(part["hairpin_length"], SHORTEST_HAIRPIN),
            bulge=_at_least(part["bulge_length"], 1),
            interior=interior[total] + asymmetry[difference],
            left_dangle=part["left_dangle"].reshape(6, 4).copy(),
            right_dangle=part["right_dangle"].reshape(6, 4).copy(),
            loops=np.ascontiguousarray(w[_AT.multi_open :]),
        )


def _at_least(weights: Vector, smallest: int) -> Vector:
    """Return the score of each size from 0 on: the sum of weights up to it."""
    return np.concatenate([np.zeros(smallest), np.cumsum(weights)])


@njit(cache=True, nogil=True)
def count_features(bases: Bases, partners: Partners) -> Vector:
    """Return the features of a structure that has only pairs of `PAIRS`, and no short hairpins."""
    n = len(bases)
    counts = np.zeros(N_FEATURES)
    outside = _AT.exterior_branch, _AT.exterior_unpaired
    _count_branches(counts, bases, partners, 0, n, outside)
    for i in range(n):
        j = partners[i]
        if j <= i:
            continue
        pair = PAIRS[bases[i], bases[j]]
        counts[_AT.pair + _UNORDERED[pair]] += 1.0
        first = i + 1
        while first < j and partners[first] < 0:
            first += 1
        if first == j:  # a hairpin
            counts[_AT.closing + pair] += 1.0
            counts[_AT.hairpin_mismatch + 16 * pair + 4 * bases[i + 1] + bases[j - 1]] += 1.0
            length = min(j - i - 1, LONGEST)
            _count_up(counts, _AT.hairpin_length, length - SHORTEST_HAIRPIN + 1)
            continue
        last = j - 1
        while partners[last] < 0:
            last -= 1
        if partners[first] == last:
            _count_two_pairs(counts, bases, (i, j), (first, last))
            continue
        counts[_AT.multi_open] += 1.0
        counts[_AT.multi_branch] += 1.0
        counts[_AT.closing + pair] += 1.0
        turned = REVERSED[pair]
        counts[_AT.left_dangle + 4 * turned + bases[j - 1]] += 1.0
        counts[_AT.right_dangle + 4 * turned + bases[i + 1]] += 1.0
        inside = _AT.multi_branch, _AT.multi_unpaired
        _count_branches(counts, bases, partners, i + 1, j, inside)
    return counts


@njit(cache=True, nogil=True)
def _count_up(counts: Vector, begin: int, n: int) -> None:
    """Count a length as at least each of the first ``n``."""
    for k in range(begin, begin + n):
        counts[k] += 1.0


@njit(cache=True, nogil=True)
def _count_branches(
    counts: Vector, bases: Bases, partners: Partners, i: int, end: int, places: tuple[int, int]
) -> None:
    """Count what pairs add to the loop that they branch off from, and its unpaired bases."""
    branch, unpaired = places
    while i < end:
        j = partners[i]
        if j < i:
            counts[unpaired] += 1.0
            i += 1
            continue
        pair = PAIRS[bases[i], bases[j]]
        counts[branch] += 1.0
        counts[_AT.closing + REVERSED[pair]] += 1.0
        if i > 0:
            counts[_AT.left_dangle + 4 * pair + bases[i - 1]] += 1.0
        if j < len(bases) - 1:
            counts[_AT.right_dangle + 4 * pair + bases[j + 1]] += 1.0
        i = j + 1


@njit(cache=True, nogil=True)
def _count_two_pairs(
    counts: Vector, bases: Bases, outer: tuple[int, int], inner: tuple[int, int]
) -> None:
    """Count a loop between two pairs: a stack, a bulge or an interior loop."""
    i, j = outer
    k, l = inner
    pair, turned = PAIRS[bases[i], bases[j]], REVERSED[PAIRS[bases[k], bases[l]]]
    left, right = k - i - 1, j - l - 1
    if left == 0 and right == 0:
        counts[_AT.stack + _STACKS[pair, REVERSED[turned]]] += 1.0
        return
    counts[_AT.closing + pair] += 1.0
    counts[_AT.closing + turned] += 1.0
    length = min(left + right, LONGEST)
    if left == 0 or right == 0:
        _count_up(counts, _AT.bulge_length, length)
        return
    counts[_AT.interior_mismatch + 16 * pair + 4 * bases[i + 1] + bases[j - 1]] += 1.0
    counts[_AT.interior_mismatch + 16 * turned + 4 * bases[l + 1] + bases[k - 1]] += 1.0
    _count_up(counts, _AT.interior_length, length - 1)
    _count_up(counts, _AT.asymmetry, min(abs(left - right), _MOST_ASYMMETRY))


# Pairs are in the order of `PAIRS`: AU, CG, GC, GU, UA, UG. Rows: the outer pair; columns: the
# inner pair, read from its other base.
_STACK = [
    [1.1, 2.1, 2.2, 1.4, 0.9, 0.6],
    [2.1, 2.4, 3.3, 2.1, 2.1, 1.4],
    [2.2, 3.3, 3.4, 2.5, 2.4, 1.5],
    [1.4, 2.1, 2.5, -1.3, 1.3, 0.5],
    [0.9, 2.1, 2.4, 1.3, 1.3, 1.0],
    [0.6, 1.4, 1.5, 0.5, 1.0, -0.3],
]
# For each pair: bases A, C, G, U behind it, then before it.
_DANGLE = [
    [0.7, 0.1, 0.7, 0.1, 0.3, 0.3, 0.4, 0.2],
    [1.1, 0.4, 1.3, 0.6, 0.5, 0.3, 0.2, 0.1],
    [1.7, 0.8, 1.7, 1.2, 0.2, 0.3, 0.0, 0.0],
    [0.7, 0.1, 0.7, 0.1, 0.3, 0.3, 0.4, 0.2],
    [0.8, 0.5, 0.8, 0.6, 0.3, 0.1, 0.2, 0.2],
    [0.8, 0.5, 0.8, 0.6, 0.3, 0.1, 0.2, 0.2],
]
# For each pair: the first base inside it, then the last one.
_HAIRPIN_MISMATCH = [
    [0.3, 0.5, 0.3, 0.3, 0.1, 0.2, 1.5, 0.2, 1.1, 1.2, 0.2, -0.2, 0.3, 0.3, 0.6, 1.1],
    [1.5, 1.5, 1.4, 1.8, 1.0, 0.9, 2.9, 0.8, 2.2, 2.0, 1.6, 1.1, 1.7, 1.4, 1.8, 2.0],
    [1.1, 1.5, 1.3, 2.1, 1.1, 0.7, 2.4, 0.5, 2.4, 2.9, 1.4, 1.2, 1.9, 1.0, 2.2, 1.5],
    [-0.2, 0.5, 0.3, 0.3, 0.1, 0.2, 1.5, 0.2, 0.9, 1.1, 0.3, 0.0, 0.3, 0.3, 0.4, 1.1],
    [0.5, 0.3, 0.6, 0.5, 0.2, 0.1, 1.2, 0.0, 1.4, 1.2, 0.7, 0.2, 0.3, 0.1, 0.5, 0.8],
    [0.5, 0.3, 0.6, 0.5, 0.2, 0.1, 1.7, 0.0, 0.8, 1.2, 0.3, 0.7, 0.6, 0.1, 0.6, 0.8],
]
_HAIRPIN = [5.4, 5.6, 5.7, 5.4, 6.0, 5.5, 6.4]
_BULGE = [3.8, 2.8, 3.2, 3.6, 4.0, 4.4]
_INTERIOR = [1.0, 1.0, 1.1, 2.0, 2.0, 2.1, 2.3, 2.4, 2.5]
_LONGER = 1.07856  # times the logarithm of how much longer a loop is than the longest of a table
_WEAK_END = 0.5  # a helix that ends with AU or GU
_GA_OR_UU = 0.8  # in an interior loop
_ASYMMETRY, _MOST_PENALIZED = 0.6, 5
_MULTI_LOOP, _BRANCH = 9.3, -0.9
# A bulge of one base leaves the stack around it, which is no feature: about what it is worth.
_STACK_AROUND_A_BULGE = 2.0


def nearest_neighbor_weights() -> Vector:
    """Return weights after the nearest-neighbor model."""
    w = np.zeros(N_FEATURES)
    stack = np.array(_STACK)[:, REVERSED]
    w[PLACES["stack"]][stack_places()] = stack
    weak = np.array([0, 3, 4, 5])
    w[PLACES["closing"]][weak] = -_WEAK_END
    mismatch = np.array(_HAIRPIN_MISMATCH)
    mismatch[weak] += _WEAK_END  # these tables have it already
    w[PLACES["hairpin_mismatch"]] = mismatch.ravel()
    interior = np.zeros((6, 4, 4))
    interior[:, 0, 2] = interior[:, 2, 0] = interior[:, 3, 3] = _GA_OR_UU
    w[PLACES["interior_mismatch"]] = interior.ravel()
    w[PLACES["hairpin_length"]] = _by_length(_HAIRPIN, 3)
    w[PLACES["bulge_length"]] = _by_length([_BULGE[0] - _STACK_AROUND_A_BULGE, *_BULGE[1:]], 1)
    w[PLACES["interior_length"]] = _by_length(_INTERIOR, 2)
    w[PLACES["asymmetry"]][:_MOST_PENALIZED] = -_ASYMMETRY
    behind, before = np.hsplit(np.array(_DANGLE), 2)
    w[PLACES["left_dangle"]], w[PLACES["right_dangle"]] = before.ravel(), behind.ravel()
    w[PLACES["multi_open"]] = -_MULTI_LOOP
    w[PLACES["multi_branch"]] = -_BRANCH
    return w


def _by_length(known: list[float], shortest: int) -> Vector:
    """Return weights of "at least so long": what each length costs beyond the one before it."""
    longest = shortest + len(known) - 1
    beyond = np.arange(longest + 1, LONGEST + 1)
    costs = np.concatenate([known, known[-1] + _LONGER * np.log(beyond / longest)])
    return -np.diff(costs, prepend=0.0)
