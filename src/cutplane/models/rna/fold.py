"""The best nested structure of an RNA sequence, by dynamic programming.

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

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.rna.features import (
    LONGEST,
    PAIRS,
    REVERSED,
    SHORTEST_HAIRPIN,
    Bases,
    Partners,
    Scores,
)

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
