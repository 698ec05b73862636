"""RNA secondary structure as a structured model, searched by dynamic programming.

With ``closed[i, j]`` the best score of the part from i to j if they pair, and the loops of
:mod:`cutplane.models.rna.features`:

    closed   = pair + max(hairpin, stack, bulge, interior, multi-loop)
    one      = a branch that begins at i, then unpaired bases
    some     = max(unpaired + some[i+1, j],  one,  two)
    two      = max_k some[i, k-1] + one[k, j]                  inside a multi-loop: two or more

The time is of order n^3 for ``two``, and n^2 times 30^2 / 2 for interior loops, which have at most
30 unpaired bases. Both are computed for all j at once, row by row, so that they are vectorized.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.rna.features import (
    BASES,
    LONGEST,
    N_FEATURES,
    PAIRS,
    PLACES,
    REVERSED,
    SHORTEST_HAIRPIN,
    Bases,
    Partners,
    Scores,
    count_features,
    nearest_neighbor_weights,
)
from cutplane.models.structured.model import LibraryModel

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
    score: float
    if left == 0 and right == 0:
        score = scores.stack[pair, REVERSED[turned]]
        return score
    score = scores.closing[pair] + scores.closing[turned]
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
def _widen(best: Vector, within: Matrix, i: int, sizes: tuple[int, int], score: float) -> None:
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
            _branches(scores, bases, some, one, (i + 1, j - 1, split), stack)
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
    scores: Scores,
    bases: Bases,
    some: Matrix,
    one: Matrix,
    part: tuple[int, int, int],
    stack: list[tuple[int, int]],
) -> None:
    """Put the branches of a multi-loop on the stack; the last one begins at the split."""
    i, j, split = part
    unpaired = scores.loops[2]
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
        """Return weights after the nearest-neighbor model, in kcal/mol: a start, or a center."""
        return nearest_neighbor_weights()

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


def _pairs(partners: Partners) -> Iterator[tuple[int, int]]:
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
