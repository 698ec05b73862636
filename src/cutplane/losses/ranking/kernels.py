"""Compiled loops of the ranking losses, query by query.

Documents are in the order of `Judged`: by query, and the most relevant first. Each kernel does the
queries ``first <= q < last``; it writes the slope of every document, and for every query what the
loss is and its offset, the part of it that does not move with the scores. All three are zeros at
the start, and stay so for queries that do not count:

    loss_q(z) = offset_q + sum_i slope_i * z_i

``given`` are the scores, the documents in this order, and where the queries start; ``results`` are
sorting, slopes, values and offsets. Sorting holds for every query an order of its documents,
numbered from 0. It may be any order at the start, and is the true one at the end: a query that was
nearly sorted before costs little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.compiled import njit

# Moves for each document, after which sorting starts anew with a method that needs no good start.
_PATIENCE = 8


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
        if moves > _PATIENCE * len(order):
            order[:] = np.argsort(keys, kind="mergesort")
            return


@njit(cache=True, nogil=True)
def sum_of_pair_weights(starts: Any, grades: Any, levels: Any, base: float) -> Any:
    """Return for every query the sum of ``base + level_i - level_j`` over its pairs."""
    totals = np.zeros(len(starts) - 1)
    for q in range(len(totals)):
        better = 0  # how many documents are more relevant than the present ones, and their levels
        above = 0.0
        i = starts[q]
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
def pairwise_hinge(
    first: int,
    last: int,
    given: Any,
    grades: Any,
    levels: Any,
    base: float,
    scales: Any,
    results: Any,
) -> None:
    """Sum ``(base + level_i - level_j) * max(0, 1 - (z_i - z_j))`` over pairs with i better than j.

    Grades are numbered from 1, the least relevant, within each query. Two sweeps over the sorted
    scores find for each document the pairs that are not a margin of 1 apart. A Fenwick tree over
    the grades counts the partners: ``n log n`` for a query of n documents, and no pair is listed.
    """
    (scores, documents, starts), (sorting, slopes, values, offsets) = given, results
    largest = np.diff(starts[first : last + 1]).max()
    most_grades = grades[starts[first:last]].max()
    keys = np.empty(largest)
    # Sorted by score: the same documents as in ``order``, side by side in memory.
    z = np.empty(largest)
    grade = np.empty(largest, dtype=np.int64)
    level = np.empty(largest)
    slope = np.empty(largest)
    counts = np.empty(most_grades + 1)
    sums = np.empty(most_grades + 1)
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
        entered = 0
        everything = 0.0
        for t in range(n):
            while entered < n and z[entered] - z[t] < 1.0:
                _add(counts, sums, top, grade[entered], 1.0, level[entered])
                everything += level[entered]
                entered += 1
            count, total = _below(counts, sums, grade[t] + 1)
            slope[t] = (entered - count) * (base - level[t]) + (everything - total)

        # The better one: partners leave the tree, which is full by now, a margin below it.
        offset = 0.0
        left = 0
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
def ndcg_hinge(
    first: int,
    last: int,
    given: Any,
    grades: Any,
    first_grade: Any,
    prices: Any,
    begins: Any,
    margins: Any,
    results: Any,
) -> None:
    """Sum ``price * max(0, margin_m + z_j - z_i)`` over grades and their pairs.

    Document i has at least the grade, j is the m-th by score of those that have not. As neither
    scores nor margins increase with m, those that have a loss are the first ones, and the more the
    lower i: one sweep over the sorted scores for each grade. For the tables see `margin_tables`.
    """
    (scores, documents, starts), (sorting, slopes, values, offsets) = given, results
    largest = np.diff(starts[first : last + 1]).max()
    keys = np.empty(largest)
    z = np.empty(largest)
    grade = np.empty(largest, dtype=np.int64)
    slope = np.empty(largest)
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
        relevant = n
        offset = 0.0
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
def ndcg_list_hinge(
    first: int,
    last: int,
    given: Any,
    gains: Any,
    ideal: Any,
    discounts: Any,
    lengths: Any,
    scales: Any,
    results: Any,
) -> None:
    """Find the ranking that violates the margin most: the documents sorted by ``z_i - gain_i``.

    Gains are divided by the best possible sum of gains times discounts; ``ideal`` is the position
    weight of each document in a perfect ranking. In any ranking it is the discount of its position
    up to the length of the query's list, and zero below.
    """
    (scores, documents, starts), (sorting, slopes, values, offsets) = given, results
    largest = np.diff(starts[first : last + 1]).max()
    keys = np.empty(largest)
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
        offset = 1.0
        value = 0.0
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
