"""The margins of the bound on NDCG.

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
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.compute.compiled import njit


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
