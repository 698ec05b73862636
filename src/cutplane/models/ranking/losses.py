"""Losses of rankings: pairs, NDCG of pairs and of whole lists; with their compiled loops.

Compiled loops of the ranking losses, query by query.

Documents are in the order of `Judged`: by query, and the most relevant first. Each kernel does the
queries ``first <= q < last``; it writes the slope of every document, and for every query what the
loss is and its offset, the part of it that does not move with the scores. All three are zeros at
the start, and stay so for queries that do not count:

    loss_q(z) = offset_q + sum_i slope_i * z_i

``given`` are the scores, the documents in this order, and where the queries start; ``tables`` what
a loss needs besides; ``results`` are sorting, slopes, values and offsets. Sorting holds for every
query an order of its documents, numbered from 0. It may be any order at the start, and is the true
one at the end: a query that was nearly sorted before costs little.

The margins of the bound on NDCG.

Of n documents let R be relevant, all alike, and p a ranking. The r-th relevant one has the position
``r + m_r``, if ``m_r`` irrelevant ones are above it, and ``m_1 <= ... <= m_R``. What it loses is a
sum over them, with D for the discounts, which are zero below position k:

    D(r) - D(r + m_r) = sum for m = 1 to m_r of  D(r + m - 1) - D(r + m)

The steps b_m must be as large, in sum over r, for all rankings, but may not depend on r. For each m
the relevant documents with ``m_r >= m`` are the last ones, so that it is enough if

    b_m >= max over s of the mean over r >= s of  D(r + m - 1) - D(r + m)

    b_m = (D(m) - D(m + R)) / R                    if m + R <= k, since D is convex there
    b_m = max(D(m) / R, D(k) / (m + R - k))        else: between the two, D(p) / (m + R - p) is less

With steps that do not increase the worst ranking is found by sorting. They become so by means over
neighbors, of which the sums are no smaller.

The losses for ranking: hinge losses of pairs of documents, and convex bounds on NDCG.

**Pairs.** Over the pairs of a query, i more relevant than j, each with a weight ``v_ij``:

    sum of  v_ij max(0, 1 - (z_i - z_j))

**NDCG by pairs.** NDCG is a mean over grades: with the documents of at least a grade for relevant,
all alike, and the others for irrelevant, it is the NDCG of two grades. The grade's share is its
step in gain times the best sum of discounts that its documents can have. For each grade the loss is

    max over rankings p of  sum over pairs (i, j) in the wrong order in p of  margin_m + z_j - z_i

divided by the number of all pairs of a relevant document i and another one j, which is the m-th of
those above i in ``p``. For the ranking by score no ``z_j - z_i`` is negative. So this is a bound on
``1 - NDCG@k`` if for every ranking the margins sum to no less than that (`margins.py`), and it is
at least the mean hinge loss of pairs, since no margin is below 1.

A bound in which only documents at the top count is tighter, but its optimum is ``w = 0`` as soon as
noise lifts some of many irrelevant documents above the mean relevant one. Here all pairs weigh the
same, as in the pairwise loss, and only the margins are larger at the top.

**NDCG by whole rankings** (O. Chapelle, Q. Le, A. Smola: Large margin optimization of ranking
measures, 2007), where ``a`` is the weight of a position:

    max over rankings p of  1 - NDCG@k(p) + sum_i a_p(i) z_i - sum_i a_ideal(i) z_i

It bounds ``1 - NDCG@k`` of the ranking by scores from above. Two choices are ours:

- The ideal ranking gives documents of the same relevance the mean weight of their positions. So the
  loss is convex, and does not depend on the order of the documents.
- Positions count up to ``k``, but not beyond the number of relevant documents. NDCG with this
  shorter list is not larger, so the bound holds. With weight on the positions below, irrelevant
  documents would have to have equal scores: on MQ2008 the optimum was ``w = 0``.

At ``w = 0`` the ranking that counts has irrelevant documents only. A direction makes the loss less
if it lifts the mean relevant document above the highest of the irrelevant ones; where there are
many, noise prevents that, and ``w = 0`` is the optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import njit
from cutplane.models.ranking.loss import (
    Competition,
    Judged,
    RankingLoss,
    discounts_at,
    discounts_of,
    gains_of,
    total_of,
)


@njit(cache=True, nogil=True)
def sort_by_keys(keys: Any, order: Any) -> None:
    """Sort ``order`` by increasing keys, equal ones by their number; the result is unique."""
    moves = 0
    for t in range(1, len(order)):
        i = order[t]
        key = keys[i]
        s = t
        while s > 0 and (
            keys[order[s - 1]] > key or (keys[order[s - 1]] == key and order[s - 1] > i)
        ):
            order[s] = order[s - 1]
            s -= 1
        order[s] = i
        moves += t - s
        if moves > 8 * len(order):  # no good start: better by a method that needs none
            order[:] = np.argsort(keys, kind="mergesort")
            return


@njit(cache=True, nogil=True)
def sum_of_pair_weights(starts: Any, grades: Any, levels: Any, base: float) -> Any:
    """Return for every query the sum of ``base + level_i - level_j`` over its pairs."""
    totals = np.zeros(len(starts) - 1)
    for q in range(len(totals)):
        # How many documents are more relevant than the present ones, and their levels.
        better, above, i = 0, 0.0, starts[q]
        while i < starts[q + 1]:
            end = i
            while end < starts[q + 1] and grades[end] == grades[i]:
                end += 1
            totals[q] += (end - i) * (better * (base - levels[i]) + above)
            better += end - i
            above += (end - i) * levels[i]
            i = end
    return totals


@njit(cache=True, nogil=True)
def pairwise_hinge(first: int, last: int, given: Any, tables: Any, results: Any) -> None:
    """Sum ``(base + level_i - level_j) * max(0, 1 - (z_i - z_j))`` over pairs with i better than j.

    Grades are numbered from 1, the least relevant, within each query. Two sweeps over the sorted
    scores find for each document the pairs that are not a margin of 1 apart. A Fenwick tree over
    the grades counts the partners: ``n log n`` for a query of n documents, and no pair is listed.
    """
    (scores, documents, starts), (sorting, slopes, values, offsets) = given, results
    grades, levels, base, scales = tables
    largest = np.diff(starts[first : last + 1]).max()
    most_grades = grades[starts[first:last]].max()
    keys, slope = np.empty(largest), np.empty(largest)
    # Sorted by score: the same documents as in ``order``, side by side in memory.
    z, grade, level = np.empty(largest), np.empty(largest, dtype=np.int64), np.empty(largest)
    counts, sums = np.empty(most_grades + 1), np.empty(most_grades + 1)
    for q in range(first, last):
        begin, n = starts[q], starts[q + 1] - starts[q]
        if scales[q] == 0.0:
            continue
        for i in range(n):
            keys[i] = scores[documents[begin + i]]
        order = sorting[begin : begin + n]
        sort_by_keys(keys[:n], order)
        for t in range(n):
            i = order[t]
            z[t], grade[t], level[t] = keys[i], grades[begin + i], levels[begin + i]
        top = grades[begin]

        # The worse one of a pair: partners enter the tree when less than a margin above it.
        counts[: top + 1] = 0.0
        sums[: top + 1] = 0.0
        entered, everything = 0, 0.0
        for t in range(n):
            while entered < n and z[entered] - z[t] < 1.0:
                _add(counts, sums, top, grade[entered], 1.0, level[entered])
                everything += level[entered]
                entered += 1
            count, total = _below(counts, sums, grade[t] + 1)
            slope[t] = (entered - count) * (base - level[t]) + (everything - total)

        # The better one: partners leave the tree, which is full by now, a margin below it.
        offset, left = 0.0, 0
        for t in range(n):
            while z[t] - z[left] >= 1.0:
                _add(counts, sums, top, grade[left], -1.0, -level[left])
                left += 1
            count, total = _below(counts, sums, grade[t])
            weight = count * (base + level[t]) - total
            slope[t] -= weight
            offset += weight

        # Slopes sum to zero: measured from the lowest score, large scores leave no rounding errors.
        value = offset
        for t in range(n):
            value += slope[t] * (z[t] - z[0])
            slopes[documents[begin + order[t]]] = scales[q] * slope[t]
        values[q] = scales[q] * max(value, 0.0)
        offsets[q] = scales[q] * offset


@njit(cache=True, nogil=True)
def _add(counts: Any, sums: Any, top: int, grade: int, count: float, level: float) -> None:
    """Add to a grade in the Fenwick tree."""
    while grade <= top:
        counts[grade] += count
        sums[grade] += level
        grade += grade & -grade


@njit(cache=True, nogil=True)
def _below(counts: Any, sums: Any, grade: int) -> Any:
    """Return how many in the tree have a lower grade, and the sum of their levels."""
    count = total = 0.0
    grade -= 1
    while grade > 0:
        count += counts[grade]
        total += sums[grade]
        grade -= grade & -grade
    return count, total


@njit(cache=True, nogil=True)
def ndcg_hinge(first: int, last: int, given: Any, tables: Any, results: Any) -> None:
    """Sum ``price * max(0, margin_m + z_j - z_i)`` over grades and their pairs.

    Document i has at least the grade, j is the m-th by score of those that have not. As neither
    scores nor margins increase with m, those that have a loss are the first ones, and the more the
    lower i: one sweep over the sorted scores for each grade. For the tables see `margin_tables`.
    """
    (scores, documents, starts), (sorting, slopes, values, offsets) = given, results
    grades, first_grade, prices, begins, margins = tables
    largest = np.diff(starts[first : last + 1]).max()
    keys, slope = np.empty(largest), np.empty(largest)
    z, grade = np.empty(largest), np.empty(largest, dtype=np.int64)
    for q in range(first, last):
        begin, n = starts[q], starts[q + 1] - starts[q]
        top = first_grade[q + 1] - first_grade[q] + 1
        if top == 1:
            continue
        for i in range(n):
            keys[i] = -scores[documents[begin + i]]
        order = sorting[begin : begin + n]
        sort_by_keys(keys[:n], order)
        for t in range(n):
            z[t], grade[t], slope[t] = -keys[order[t]], grades[begin + order[t]], 0.0
        relevant, offset = n, 0.0
        for level in range(2, top + 1):
            while grades[begin + relevant - 1] < level:
                relevant -= 1
            at = first_grade[q] + level - 2
            price = prices[at]
            own = margins[begins[at] : begins[at + 1]]
            done = reached = others = 0  # relevant ones; documents so far, and others among them
            together = 0.0  # the margins of these
            for t in range(n):
                if grade[t] < level:
                    continue
                while reached < n:
                    if grade[reached] < level:
                        margin = own[others] if others < len(own) else 1.0
                        if z[t] - z[reached] >= margin:
                            break
                        together += margin
                        others += 1
                        slope[reached] += price * (relevant - done)
                    reached += 1
                offset += price * together
                slope[t] -= price * others
                done += 1
        value = offset
        for t in range(n):
            value += slope[t] * (z[t] - z[n - 1])
            slopes[documents[begin + order[t]]] = slope[t]
        values[q] = max(value, 0.0)
        offsets[q] = offset


@njit(cache=True, nogil=True)
def ndcg_list_hinge(first: int, last: int, given: Any, tables: Any, results: Any) -> None:
    """Find the ranking that violates the margin most: the documents sorted by ``z_i - gain_i``.

    Gains are divided by the best possible sum of gains times discounts; ``ideal`` is the position
    weight of each document in a perfect ranking. In any ranking it is the discount of its position
    up to the length of the query's list, and zero below.
    """
    (scores, documents, starts), (sorting, slopes, values, offsets) = given, results
    gains, ideal, discounts, lengths, scales = tables
    keys = np.empty(np.diff(starts[first : last + 1]).max())
    for q in range(first, last):
        begin, n = starts[q], starts[q + 1] - starts[q]
        if scales[q] == 0.0:
            continue
        lowest = np.inf
        for i in range(n):
            score = scores[documents[begin + i]]
            lowest = min(lowest, score)
            keys[i] = gains[begin + i] - score
        order = sorting[begin : begin + n]
        sort_by_keys(keys[:n], order)
        offset, value = 1.0, 0.0
        for t in range(n):
            i = order[t]
            weight = discounts[t] if t < lengths[q] else 0.0
            offset -= weight * gains[begin + i]
            slope = weight - ideal[begin + i]
            document = documents[begin + i]
            value += slope * (scores[document] - lowest)
            slopes[document] = scales[q] * slope
        values[q] = scales[q] * max(offset + value, 0.0)
        offsets[q] = scales[q] * offset


@njit(cache=True, nogil=True)
def margin_tables(starts: Any, grades: Any, gains: Any, scales: Any, discounts: Any) -> Any:
    """Return the margins above 1 of every query and grade, for documents in the order of `Judged`.

    ``first_grade`` says where the grades of each query, from the second lowest up, begin in the
    next two; ``prices`` what a pair of a document of at least this grade and one below counts;
    ``begins`` where its margins begin, and at last their number; ``margins`` are these, largest
    first. After them, margins are 1.
    """
    k = len(discounts)
    best = np.zeros(k + 1)  # sums of the first discounts
    best[1:] = np.cumsum(discounts)
    first_grade = np.zeros(len(starts), dtype=np.int64)
    room = 0
    for q in range(len(scales)):
        begin, end = starts[q], starts[q + 1]
        first_grade[q + 1] = first_grade[q] + grades[begin] - 1
        for i in range(begin + 1, end):
            if grades[i] != grades[i - 1]:
                room += min(k, end - i)
    prices = np.empty(first_grade[-1])
    begins = np.zeros(first_grade[-1] + 1, dtype=np.int64)
    margins = np.empty(room)
    for q in range(len(scales)):
        begin, end = starts[q], starts[q + 1]
        n, top = end - begin, gains[begin]
        if grades[begin] == 1:
            continue
        if top == 0.0:  # relevances that differ, but by too little for a gain
            prices[first_grade[q] : first_grade[q + 1]] = 0.0
            begins[first_grade[q] + 1 : first_grade[q + 1] + 1] = begins[first_grade[q]]
            continue
        total = gains[end - 1] / top * best[min(n, k)]
        for i in range(begin + 1, end):
            total += (gains[i - 1] - gains[i]) / top * best[min(i - begin, k)]
        # From the lowest grade up, as grades are numbered.
        for i in range(end - 1, begin, -1):
            if grades[i] == grades[i - 1]:
                continue
            relevant = i - begin
            pairs = relevant * (n - relevant)
            ideal = best[min(relevant, k)]
            grade = first_grade[q] + grades[i] - 1
            share = (gains[i - 1] - gains[i]) / top * ideal / total
            prices[grade] = scales[q] * share / pairs
            own = margins[begins[grade] :]
            count = _steps(relevant, n - relevant, discounts, own)
            kept = 0
            while kept < count and own[kept] * pairs > ideal:
                own[kept] *= pairs / ideal
                kept += 1
            begins[grade + 1] = begins[grade] + kept
    return first_grade, prices, begins, margins[: begins[-1]].copy()


@njit(cache=True, nogil=True)
def _steps(relevant: int, others: int, discounts: Any, out: Any) -> int:
    """Write the steps b_m that are not zero, and return how many there are."""
    k = len(discounts)
    count = min(k, others)
    widths = np.empty(count, dtype=np.int64)
    blocks = 0
    for m in range(1, count + 1):
        beyond = m + relevant - k
        step = discounts[m - 1] / relevant
        if beyond <= 0:
            step -= discounts[m + relevant - 1] / relevant
        else:
            step = max(step, discounts[k - 1] / beyond)
        width = 1
        while blocks > 0 and out[blocks - 1] <= step:
            blocks -= 1
            step = (width * step + widths[blocks] * out[blocks]) / (width + widths[blocks])
            width += widths[blocks]
        out[blocks], widths[blocks] = step, width
        blocks += 1
    m = count
    for block in range(blocks - 1, -1, -1):  # the last first: it has the most room to move to
        step = out[block]
        for _ in range(widths[block]):
            m -= 1
            out[m] = step
    return count


class PairwiseHinge(RankingLoss):
    """``max(0, 1 - (z_i - z_j))`` over pairs of a query, document i more relevant than j.

    Ties in relevance make no pair.

    Parameters
    ----------
    per : {"query", "pair"}
        The mean over queries of the mean over their pairs, or the mean over all pairs. The second
        is what a support vector machine on differences of documents minimizes.
    pair_weights : {"equal", "grades", "gains"}
        What a pair counts: 1, the difference of relevance, or of ``2^relevance``.
    """

    _kernel = staticmethod(pairwise_hinge)

    def __init__(self, per: str = "query", pair_weights: str = "equal") -> None:
        super().__init__()
        self.per, self.pair_weights = per, pair_weights
        for name, value, known in (
            ("per", per, ("query", "pair")),
            ("pair_weights", pair_weights, ("equal", "grades", "gains")),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")

    def _tables(self, competition: Competition, judged: Judged) -> tuple[Any, ...]:
        base, levels = 0.0, judged.relevance
        if self.pair_weights == "equal":
            base, levels = 1.0, np.zeros_like(levels)
        elif self.pair_weights == "gains":
            levels = gains_of(levels)
        totals = sum_of_pair_weights(judged.starts, judged.grades, levels, base)
        each = totals if self.per == "pair" else (totals > 0.0).astype(np.float64)
        scales = np.zeros_like(totals)
        weights = judged.weights * each
        total = total_of(competition, weights)
        np.divide(weights, total * totals, where=totals > 0.0, out=scales)
        return judged.grades, levels, base, scales

    def __repr__(self) -> str:
        return f"PairwiseHinge(per={self.per!r}, pair_weights={self.pair_weights!r})"


class NDCGLoss(RankingLoss):
    """What losses for the first ``k`` positions share."""

    def __init__(self, k: int = 10) -> None:
        super().__init__()
        if isinstance(k, bool) or int(k) != k or k < 1:
            raise ValueError(f"k must be a positive whole number, got {k}")
        self.k = int(k)

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if a gain would be negative or infinite."""
        super().check_targets(y)
        if (y < 0.0).any():
            raise ValueError(f"relevance must not be negative for NDCG, got {y.min():g}")
        gains_of(y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k})"


class NDCGHinge(NDCGLoss):
    """A convex bound on ``1 - NDCG@k``: the hinge loss of pairs, with larger margins at the top.

    The first ``k`` positions count. The gain of a document is ``2^relevance - 1``, the discount of
    position p is ``1/log2(1 + p)``. A query of n documents takes ``n log n`` steps, and n for each
    of its grades.
    """

    _kernel = staticmethod(ndcg_hinge)

    def _tables(self, competition: Competition, judged: Judged) -> tuple[Any, ...]:
        starts, grades = judged.starts, judged.grades
        discounts = discounts_of(min(self.k, int(np.diff(starts).max())))
        gains = gains_of(judged.relevance)
        return grades, *margin_tables(
            starts, grades, gains, _query_scales(competition, judged), discounts
        )


class NDCGListHinge(NDCGLoss):
    """A convex bound on ``1 - NDCG@k``, by the ranking that violates its margin most.

    The first ``k`` positions count. The gain of a document is ``2^relevance - 1``, the discount of
    position p is ``1/log2(1 + p)``.

    The optimum is ``w = 0`` where queries have many irrelevant documents, unless relevant ones are
    easily told from them: `NDCGHinge` is the one to try first.
    """

    _kernel = staticmethod(ndcg_list_hinge)

    def _tables(self, competition: Competition, judged: Judged) -> tuple[Any, ...]:
        begins, sizes = judged.starts[:-1], np.diff(judged.starts)
        gains = gains_of(judged.relevance)
        lengths = np.minimum(np.add.reduceat((gains > 0.0).astype(np.int64), begins), self.k)
        discounts = discounts_of(int(lengths.max()))
        positions = judged.positions()
        ideal = np.where(
            positions < np.repeat(lengths, sizes), discounts_at(positions, len(discounts)), 0.0
        )
        best = np.add.reduceat(gains * ideal, begins)
        scales = _query_scales(competition, judged)
        gains /= np.repeat(np.where(judged.grades[begins] > 1, best, 1.0), sizes)
        return gains, judged.means(ideal), discounts, lengths, scales


def _query_scales(competition: Competition, judged: Judged) -> Vector:
    """Return the weights of the queries with different relevances, scaled to sum to one."""
    some = judged.grades[judged.starts[:-1]] > 1
    weights = np.where(some, judged.weights, 0.0)
    return weights / total_of(competition, weights)
