"""RNA secondary structure as a structured model, searched by dynamic programming; and its files.

**Features** follow the loops that thermodynamic models score. A structure is cut into loops, each
with a closing pair: hairpins, stacks of two pairs, bulges, interior loops, multi-loops, and the
exterior. A feature counts how often something occurs in them. Lengths are counted as "at least k",
so that neighboring lengths share what they learn. Mismatches and dangles are bases beside a pair,
on the side of the loop; those of branches count whether the base is paired or not, so that branches
can be scored one by one.

**Search.** With ``closed[i, j]`` the best score of the part from i to j if they pair:

    closed   = pair + max(hairpin, stack, bulge, interior, multi-loop)
    one      = a branch that begins at i, then unpaired bases
    some     = max(unpaired + some[i+1, j],  one,  two)
    two      = max_k some[i, k-1] + one[k, j]                  inside a multi-loop: two or more

The time is of order n^3 for ``two``, and n^2 times 30^2 / 2 for interior loops, which have at most
30 unpaired bases. Both are computed for all j at once, row by row, so that they are vectorized.
"""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.io.files import InputError, name_of, read_text
from cutplane.models.structured.model import LibraryModel

Bases = NDArray[np.int8]
Partners = NDArray[np.int64]
Pair = tuple[int, int]

BASES = "ACGU"
LONGEST = 30  # loops are counted up to this length; search looks at no longer interior loops
SHORTEST_HAIRPIN = 3
_MOST_ASYMMETRY = 10

# The six pairs, by their two bases: AU, CG, GC, GU, UA, UG. Others do not pair: -1.
PAIRS = np.array([[-1, -1, -1, 0], [-1, -1, 1, -1], [-1, 2, -1, 3], [4, -1, 5, -1]])
REVERSED = np.array([4, 2, 1, 5, 0, 3])  # the same pair, read from its other base
_UNORDERED = np.array([0, 1, 1, 2, 0, 2])


def _stack_places() -> NDArray[np.int64]:
    """Return a number for each stack of two pairs; seen from the other strand it is the same."""
    places = np.full((6, 6), -1)
    for outer, inner in np.ndindex(6, 6):
        twin = places[REVERSED[inner], REVERSED[outer]]
        places[outer, inner] = twin if twin >= 0 else places.max() + 1
    return places


_STACKS = _stack_places()

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


def _by_length(known: list[float], shortest: int) -> Vector:
    """Return weights of "at least so long": what each length costs beyond the one before it.

    What a loop costs grows with the logarithm of how much longer it is than the longest known one.
    """
    longest = shortest + len(known) - 1
    beyond = np.arange(longest + 1, LONGEST + 1)
    costs = np.concatenate([known, known[-1] + 1.07856 * np.log(beyond / longest)])
    return -np.diff(costs, prepend=0.0)


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
            longer = min(j - i - 1, LONGEST) - SHORTEST_HAIRPIN + 1
            counts[_AT.hairpin_length : _AT.hairpin_length + longer] += 1.0
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
def _count_branches(
    counts: Vector, bases: Bases, partners: Partners, i: int, end: int, places: Pair
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
def _count_two_pairs(counts: Vector, bases: Bases, outer: Pair, inner: Pair) -> None:
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
        counts[_AT.bulge_length : _AT.bulge_length + length] += 1.0
        return
    counts[_AT.interior_mismatch + 16 * pair + 4 * bases[i + 1] + bases[j - 1]] += 1.0
    counts[_AT.interior_mismatch + 16 * turned + 4 * bases[l + 1] + bases[k - 1]] += 1.0
    counts[_AT.interior_length : _AT.interior_length + length - 1] += 1.0
    counts[_AT.asymmetry : _AT.asymmetry + min(abs(left - right), _MOST_ASYMMETRY)] += 1.0


_NONE = -np.inf
_ROWS = LONGEST + 2


@njit(cache=True, nogil=True)
def _raise(best: Vector, row: Vector, more: float) -> None:
    """Raise the entries of a vector to those of another one, plus a number."""
    for j in range(len(best)):
        score = row[j] + more
        best[j] = score if score > best[j] else best[j]


@njit(cache=True, nogil=True)
def _branch(scores: Scores, bases: Bases, i: int, j: int) -> float:
    """Return what a pair adds to the loop that it branches off from, but for the branch itself."""
    pair = PAIRS[bases[i], bases[j]]
    score: float = scores.closing[REVERSED[pair]]
    if i > 0:
        score += scores.left_dangle[pair, bases[i - 1]]
    if j < len(bases) - 1:
        score += scores.right_dangle[pair, bases[j + 1]]
    return score


@njit(cache=True, nogil=True)
def _opening(scores: Scores, bases: Bases, i: int, j: int) -> float:
    """Return what the closing pair adds to a multi-loop."""
    pair = PAIRS[bases[i], bases[j]]
    turned = REVERSED[pair]
    score: float = scores.loops[0] + scores.loops[1] + scores.closing[pair]
    score += scores.left_dangle[turned, bases[j - 1]]
    score += scores.right_dangle[turned, bases[i + 1]]
    return score


@njit(cache=True, nogil=True)
def _hairpin(scores: Scores, bases: Bases, i: int, j: int) -> float:
    """Return the score of the hairpin that a pair closes."""
    pair = PAIRS[bases[i], bases[j]]
    score: float = scores.closing[pair] + scores.hairpin[min(j - i - 1, LONGEST)]
    score += scores.hairpin_mismatch[pair, bases[i + 1], bases[j - 1]]
    return score


@njit(cache=True, nogil=True)
def _two_pairs(scores: Scores, bases: Bases, i: int, j: int, k: int, l: int) -> float:
    """Return the score of the loop between the pairs (i, j) and (k, l)."""
    pair, turned = PAIRS[bases[i], bases[j]], REVERSED[PAIRS[bases[k], bases[l]]]
    left, right = k - i - 1, j - l - 1
    if left == 0 and right == 0:
        return float(scores.stack[pair, REVERSED[turned]])
    score: float = scores.closing[pair] + scores.closing[turned]
    if left == 0 or right == 0:
        score += scores.bulge[left + right]
        return score
    score += scores.interior[left, right]
    score += scores.interior_mismatch[pair, bases[i + 1], bases[j - 1]]
    score += scores.interior_mismatch[turned, bases[l + 1], bases[k - 1]]
    return score


@njit(cache=True, nogil=True)
def fill(
    bases: Bases, scores: Scores, bonus: Vector, truth: Partners
) -> tuple[Matrix, Matrix, Matrix]:
    """Return the tables ``closed``, ``some`` and ``one``.

    ``bonus`` is what a pair of ``truth`` gets, and one that is not.
    """
    n = len(bases)
    closed, some, one = np.full((n, n), _NONE), np.full((n, n), _NONE), np.full((n, n), _NONE)
    # As `closed`, with what a pair adds to a bulge or an interior loop around it. Only the last
    # rows are needed: row i is kept in the place of row i + _ROWS.
    in_bulge, in_interior = np.full((_ROWS, n), _NONE), np.full((_ROWS, n), _NONE)
    two_below = np.full(n, _NONE)
    for i in range(n - 1, -1, -1):
        bulge, interior = np.full(n, _NONE), np.full(n, _NONE)
        for size in range(1, LONGEST + 1):
            _widen(bulge, in_bulge, i, (size, 0), scores.bulge[size])
            _widen(bulge, in_bulge, i, (0, size), scores.bulge[size])
            for left in range(1, size):
                score = scores.interior[left, size - left]
                _widen(interior, in_interior, i, (left, size - left), score)
        in_bulge[i % _ROWS], in_interior[i % _ROWS] = _NONE, _NONE
        for j in range(i + SHORTEST_HAIRPIN + 1, n):
            pair = PAIRS[bases[i], bases[j]]
            if pair >= 0:
                turned = REVERSED[pair]
                mismatch = scores.interior_mismatch[pair, bases[i + 1], bases[j - 1]]
                best = max(
                    _hairpin(scores, bases, i, j),
                    scores.closing[pair] + bulge[j],
                    scores.closing[pair] + mismatch + interior[j],
                    _opening(scores, bases, i, j) + two_below[j - 1],
                )
                if closed[i + 1, j - 1] > _NONE:
                    inner = PAIRS[bases[i + 1], bases[j - 1]]
                    best = max(best, closed[i + 1, j - 1] + scores.stack[pair, inner])
                best += scores.pair[pair] + bonus[0 if truth[i] == j else 1]
                closed[i, j] = best
                in_bulge[i % _ROWS, j] = best + scores.closing[turned]
                if i > 0 and j < n - 1:
                    mismatch = scores.interior_mismatch[turned, bases[j + 1], bases[i - 1]]
                    in_interior[i % _ROWS, j] = best + scores.closing[turned] + mismatch
                one[i, j] = best + scores.loops[1] + _branch(scores, bases, i, j)
            one[i, j] = max(one[i, j], one[i, j - 1] + scores.loops[2])
        two = np.full(n, _NONE)
        for j in range(i + SHORTEST_HAIRPIN + 1, n):
            # All that begins before j has been seen, so `two[j]` is what it will be.
            some[i, j] = max(some[i + 1, j] + scores.loops[2], one[i, j], two[j])
            if j < n - 1:
                _raise(two[j + 1 :], one[j + 1, j + 1 :], some[i, j])
        two_below = two
    return closed, some, one


@njit(cache=True, nogil=True)
def _widen(best: Vector, within: Matrix, i: int, sizes: Pair, score: float) -> None:
    """Raise the scores of pairs (i, j), for all j, to those with a loop of these two sizes."""
    left, right = sizes
    k = i + 1 + left
    l = k + SHORTEST_HAIRPIN + 1  # the first base that k may pair with
    if l + 1 + right < len(best):
        _raise(best[l + 1 + right :], within[k % _ROWS, l : len(best) - 1 - right], score)


@njit(cache=True, nogil=True)
def fold(bases: Bases, scores: Scores, bonus: Vector, truth: Partners) -> Partners:
    """Return the partner of each base in the best structure, -1 for none."""
    n = len(bases)
    closed, some, one = fill(bases, scores, bonus, truth)
    partners = np.full(n, -1, dtype=np.int64)
    stack = [(0, 0)]  # pairs whose inside is still to be found; the first entry is for its type
    stack.pop()
    # The exterior: the best score of each beginning, and where its last branch begins.
    best = np.zeros(n + 1)
    begins = np.full(n + 1, -1)
    for j in range(n):
        best[j + 1] = best[j] + scores.loops[4]
        for i in range(j - SHORTEST_HAIRPIN):
            if closed[i, j] > _NONE:
                score = best[i] + closed[i, j] + scores.loops[3] + _branch(scores, bases, i, j)
                if score > best[j + 1]:
                    best[j + 1] = score
                    begins[j + 1] = i
    j = n
    while j > 0:
        if begins[j] >= 0:
            stack.append((begins[j], j - 1))
            j = begins[j]
        else:
            j -= 1
    while len(stack) > 0:
        i, j = stack.pop()
        partners[i], partners[j] = j, i
        k, l, split = _inside(bases, scores, closed, some, one, i, j)
        if split >= 0:
            _branches(some, one, scores.loops[2], i + 1, j - 1, split, stack)
        elif k >= 0:
            stack.append((k, l))
    return partners


@njit(cache=True, nogil=True)
def _inside(
    bases: Bases, scores: Scores, closed: Matrix, some: Matrix, one: Matrix, i: int, j: int
) -> tuple[int, int, int]:
    """Return the best inside of a pair.

    It is the next pair, or where the last branch of a multi-loop begins, else -1.
    """
    best, inner_i, inner_j, split = _hairpin(scores, bases, i, j), -1, -1, -1
    for left in range(min(LONGEST, j - i - SHORTEST_HAIRPIN - 3) + 1):
        for right in range(min(LONGEST, j - i - SHORTEST_HAIRPIN - 3) - left + 1):
            k, l = i + 1 + left, j - 1 - right
            if closed[k, l] > _NONE:
                score = closed[k, l] + _two_pairs(scores, bases, i, j, k, l)
                if score > best:
                    best, inner_i, inner_j = score, k, l
    opening = _opening(scores, bases, i, j)
    for k in range(i + 2, j):
        score = opening + some[i + 1, k - 1] + one[k, j - 1]
        if score > best:
            best, split = score, k
    return inner_i, inner_j, split


@njit(cache=True, nogil=True)
def _branches(
    some: Matrix, one: Matrix, unpaired: float, i: int, j: int, split: int, stack: list[Pair]
) -> None:
    """Put the branches of a multi-loop on the stack; the last one begins at the split."""
    while True:
        # The last branch, with unpaired bases behind it.
        last = j
        while one[split, last - 1] + unpaired >= one[split, last]:
            last -= 1
        stack.append((split, last))
        if split == i:
            return
        j = split - 1
        # Before it there is one branch or more, perhaps after unpaired bases.
        while True:
            split, best = i, one[i, j]
            for k in range(i + 1, j + 1):
                score = some[i, k - 1] + one[k, j]
                if score > best:
                    split, best = k, score
            if some[i + 1, j] + unpaired <= best:
                break
            i += 1


_CODES = {letter: code for code, letter in enumerate(BASES)} | {"T": BASES.index("U")}
_CODES |= {letter.lower(): code for letter, code in _CODES.items()}


class PairCounts(NamedTuple):
    """The pairs of two structures: in both, in the first only, in the second only."""

    right: int
    missed: int
    wrong: int

    @classmethod
    def of(cls, y: str, y_hat: str) -> PairCounts:
        """Compare two structures of the same length, in dots and brackets."""
        if len(y) != len(y_hat):
            raise ValueError(f"structures of {len(y)} and {len(y_hat)} bases cannot be compared")
        true, said = (set(_pairs(partners_of(one))) for one in (y, y_hat))
        return cls(len(true & said), len(true - said), len(said - true))

    @property
    def sensitivity(self) -> float:
        """The share of the true pairs that was found; 1 if there are none."""
        true = self.right + self.missed
        return self.right / true if true else 1.0

    @property
    def ppv(self) -> float:
        """The share of the predicted pairs that is true; 1 if there are none."""
        said = self.right + self.wrong
        return self.right / said if said else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        total = 2 * self.right + self.missed + self.wrong
        return 2 * self.right / total if total else 1.0


class RNAFolding(LibraryModel):
    """The nested structure of an RNA sequence.

    Inputs are sequences of A, C, G and U, outputs structures in dots and brackets of the same
    length. Structures have no pseudoknots, only the pairs AU, CG and GU, and hairpins of three
    bases or more; those that the search finds have at most 30 unpaired bases in an interior loop.
    The loss counts pairs that are missed and pairs that are wrong.

    Parameters
    ----------
    missed, wrong : float
        What a pair costs that is missed, or wrong.

    Attributes
    ----------
    places : dict
        Where the weights of each kind of feature are, as slices: ``w[model.places["stack"]]``.
    """

    n_parameters = N_FEATURES
    places = PLACES

    def __init__(self, *, missed: float = 1.0, wrong: float = 1.0) -> None:
        if not (missed >= 0.0 and wrong >= 0.0):
            raise ValueError(f"losses must not be negative, got {missed} and {wrong}")
        self.missed = missed
        self.wrong = wrong

    def joint_feature(self, x: str, y: str) -> Vector:
        """Return how often each feature occurs in a structure."""
        bases, partners = bases_of(x), partners_of(y)
        if len(bases) != len(partners):
            raise ValueError(f"a structure of {len(y)} bases for a sequence of {len(x)}")
        for i, j in _pairs(partners):
            if not _can_pair(bases, i, j):
                raise ValueError(
                    f"bases {i + 1} and {j + 1} cannot pair: {x[i]}-{x[j]} with {j - i - 1} bases "
                    "between them; clean the structure by RNAFolding.without_odd_pairs"
                )
        return count_features(bases, partners)

    def loss(self, y: str, y_hat: str) -> float:
        """Return what the missed and the wrong pairs cost."""
        counts = PairCounts.of(y, y_hat)
        return self.missed * counts.missed + self.wrong * counts.wrong

    def inference(self, x: str, w: Vector) -> str:
        """Return the structure with the highest score."""
        bases = bases_of(x)
        return _written(fold(bases, Scores.of(w), np.zeros(2), np.full(len(bases), -1)))

    def loss_augmented_inference(self, x: str, y: str, w: Vector) -> str:
        """Return the structure with the highest sum of score and loss."""
        # All true pairs count as missed, and each that is there counts back.
        bonus = np.array([-self.missed, self.wrong])
        return _written(fold(bases_of(x), Scores.of(w), bonus, partners_of(y)))

    def outputs(self, x: str) -> list[str]:
        """Return all structures of a short sequence, but for long interior loops."""
        return [_written(partners) for partners in _structures(bases_of(x), 0, len(x))]

    @staticmethod
    def nearest_neighbor_weights() -> Vector:
        """Return weights after the nearest-neighbor model, in kcal/mol: a start, or a center.

        Loops by their lengths and multi-loops are as in D. Mathews et al. (PNAS 101, 2004), other
        tables as ``energies.txt`` says. What this model has no features for is left out: tables of
        small interior loops, special hairpins.
        """
        lines = files(__package__).joinpath("energies.txt").read_text("utf-8").splitlines()
        stack, before, behind, mismatch = np.split(np.loadtxt(lines), [6, 10, 14], axis=1)
        w = np.zeros(N_FEATURES)
        part = {name: w[place] for name, place in PLACES.items()}
        part["stack"][_STACKS] = stack[:, REVERSED]
        weak, weak_end = [0, 3, 4, 5], 0.5  # a helix that ends with AU or GU
        part["closing"][weak] = -weak_end
        mismatch[weak] += weak_end  # these tables have it already
        part["hairpin_mismatch"][:] = mismatch.ravel()
        interior = part["interior_mismatch"].reshape(6, 4, 4)
        interior[:, 0, 2] = interior[:, 2, 0] = interior[:, 3, 3] = 0.8  # GA or UU
        part["hairpin_length"][:] = _by_length([5.4, 5.6, 5.7, 5.4, 6.0, 5.5, 6.4], 3)
        # A bulge of one base leaves the stack around it, which is no feature: worth about 2.
        part["bulge_length"][:] = _by_length([3.8 - 2.0, 2.8, 3.2, 3.6, 4.0, 4.4], 1)
        part["interior_length"][:] = _by_length([1.0, 1.0, 1.1, 2.0, 2.0, 2.1, 2.3, 2.4, 2.5], 2)
        part["asymmetry"][:5] = -0.6
        part["left_dangle"][:], part["right_dangle"][:] = before.ravel(), behind.ravel()
        part["multi_open"][:], part["multi_branch"][:] = -9.3, 0.9
        return w

    @staticmethod
    def without_odd_pairs(x: str, y: str) -> str:
        """Return a structure without the pairs that the model does not know."""
        bases, partners = bases_of(x), partners_of(y)
        for i, j in _pairs(partners):
            if not _can_pair(bases, i, j):
                partners[i] = partners[j] = -1
        return _written(partners)


def bases_of(x: str) -> Bases:
    """Return a sequence as numbers."""
    try:
        return np.array([_CODES[letter] for letter in x], dtype=np.int8)
    except KeyError as error:
        place = x.index(error.args[0])
        raise ValueError(f"base {place + 1} is {x[place]!r}, not one of A, C, G and U") from None


def partners_of(y: str) -> Partners:
    """Return the partner of each base of a structure, -1 for none."""
    partners = np.full(len(y), -1, dtype=np.int64)
    opened: list[int] = []
    for j, sign in enumerate(y):
        if sign == "(":
            opened.append(j)
        elif sign == ")":
            if not opened:
                raise ValueError(f"the bracket at base {j + 1} closes none")
            i = opened.pop()
            partners[i], partners[j] = j, i
        elif sign != ".":
            raise ValueError(f"base {j + 1} of the structure is {sign!r}, not one of . ( )")
    if opened:
        raise ValueError(f"the bracket at base {opened[-1] + 1} is not closed")
    return partners


def _written(partners: Partners) -> str:
    places = np.arange(len(partners))
    return "".join(np.where(partners < 0, ".", np.where(partners > places, "(", ")")))


def _pairs(partners: Partners) -> Iterator[Pair]:
    opening = np.flatnonzero(partners > np.arange(len(partners)))
    return zip(opening.tolist(), partners[opening].tolist(), strict=True)


def _can_pair(bases: Bases, i: int, j: int) -> bool:
    return bool(PAIRS[bases[i], bases[j]] >= 0) and j - i > SHORTEST_HAIRPIN


def _structures(bases: Bases, begin: int, end: int) -> Iterator[Partners]:
    """Yield all structures of a part of a sequence."""
    if end - begin <= SHORTEST_HAIRPIN + 1:
        yield np.full(len(bases), -1, dtype=np.int64)
        return
    yield from _structures(bases, begin + 1, end)
    for j in range(begin + SHORTEST_HAIRPIN + 1, end):
        if _can_pair(bases, begin, j):
            for inner in _structures(bases, begin + 1, j):
                for rest in _structures(bases, j + 1, end):
                    both = np.maximum(inner, rest)
                    both[begin], both[j] = j, begin
                    yield both


class FoldedRNA(NamedTuple):
    """A sequence and its structure, with a name."""

    name: str
    sequence: str
    structure: str


def read_structures(path: str | os.PathLike[str], *, clean: bool = False) -> list[FoldedRNA]:
    """Return the items of a file; each has a line ``>name``, its sequence and its structure.

    Parameters
    ----------
    path : str or PathLike
        The file, in text, compressed or not; ``-`` for standard input.
    clean : bool
        Whether to take out pairs that `cutplane.RNAFolding` does not know.

    Raises
    ------
    InputError
        With the number of the line, if it is not what it should be.
    """
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    items = []
    for begin in range(0, len(lines), 3):
        name, sequence, structure, *_ = [*map(str.strip, lines[begin : begin + 3]), "", ""]
        if not name.startswith(">"):
            raise InputError(
                f"{name_of(path)}:{begin + 1}: expected a name after >, found {name[:20]!r}"
            )
        if not sequence:
            raise InputError(f"{name_of(path)}:{begin + 2}: the sequence is missing")
        for line, (read, text) in enumerate([(bases_of, sequence), (partners_of, structure)], 2):
            try:
                read(text)
            except ValueError as error:
                raise InputError(f"{name_of(path)}:{begin + line}: {error}") from error
        if len(sequence) != len(structure):
            raise InputError(
                f"{name_of(path)}:{begin + 3}: a structure of {len(structure)} bases for a "
                f"sequence of {len(sequence)}"
            )
        if clean:
            structure = RNAFolding.without_odd_pairs(sequence, structure)
        items.append(FoldedRNA(name[1:].strip(), sequence, structure))
    return items
