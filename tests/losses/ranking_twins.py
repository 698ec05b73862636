"""The ranking losses once more, by their definitions: all pairs, and all rankings."""

from itertools import permutations

import numpy as np

PAIR_WEIGHTS = {
    "equal": lambda better, worse: 1.0,
    "grades": lambda better, worse: better - worse,
    "gains": lambda better, worse: 2.0**better - 2.0**worse,
}


def pairs_of(y, qid, pair_weights="equal"):
    """Return for each query its pairs (better, worse, weight), if it has any."""
    weight = PAIR_WEIGHTS[pair_weights]
    found = [
        [
            (i, j, weight(y[i], y[j]))
            for i in np.flatnonzero(qid == query)
            for j in np.flatnonzero(qid == query)
            if y[i] > y[j]
        ]
        for query in np.unique(qid)
    ]
    return [pairs for pairs in found if pairs]


def shares_of_pairs(y, qid, weights, per, pair_weights="equal"):
    """Return all pairs (better, worse, share of the loss); the shares sum to one."""
    shares = []
    for pairs in pairs_of(y, qid, pair_weights):
        together = sum(v for _, _, v in pairs) if per == "query" else 1.0
        shares += [(i, j, weights[i] * v / together) for i, j, v in pairs]
    total = sum(share for _, _, share in shares)
    return [(i, j, share / total) for i, j, share in shares]


def pairwise(y, z, qid, weights, per, pair_weights):
    shares = shares_of_pairs(y, qid, weights, per, pair_weights)
    return sum(share * max(0.0, 1.0 - (z[i] - z[j])) for i, j, share in shares)


def dcg(y, ranking, k):
    return sum((2.0 ** y[i] - 1.0) / np.log2(p + 2.0) for p, i in enumerate(ranking[:k]))


def discount(position, k):
    """Return the discount of a position, counted from 1."""
    return 1.0 / np.log2(position + 1.0) if position <= k else 0.0


def steps(relevant, others, k):
    """Return what the m-th irrelevant document costs at least, for all m; never more than before.

    In sum they are the least concave function above the sums of the largest means.
    """
    each = [
        max(
            np.mean([discount(r + m - 1, k) - discount(r + m, k) for r in range(s, relevant + 1)])
            for s in range(1, relevant + 1)
        )
        for m in range(1, others + 1)
    ]
    sums = np.append(0.0, np.cumsum(each))
    concave = [
        max(
            sums[a] + (sums[b] - sums[a]) * (m - a) / max(b - a, 1)
            for a in range(m + 1)
            for b in range(m, others + 1)
        )
        for m in range(others + 1)
    ]
    return np.diff(concave)


def _rankings_by_pairs(own, k):
    """Return for each grade (slopes, offset) of all rankings."""
    best = sorted(own, reverse=True)
    ideal = sum((2.0**y - 1.0) * discount(p, k) for p, y in enumerate(best, start=1))
    found = []
    for low, high in zip(np.unique(own), np.unique(own)[1:], strict=False):
        relevant = own >= high
        n, others = int(relevant.sum()), int((~relevant).sum())
        gain = (2.0**high - 2.0**low) / ideal
        price = gain * sum(discount(p, k) for p in range(1, n + 1)) / (n * others)
        sums = np.append(0.0, np.cumsum(np.maximum(gain * steps(n, others, k), price)))
        tangents = []
        for ranking in permutations(range(len(own))):
            slope, offset, above = np.zeros(len(own)), 0.0, []
            for i in ranking:
                if relevant[i]:
                    slope[i] -= price * len(above)
                    slope[above] += price
                    offset += sums[len(above)]
                else:
                    above.append(i)
            tangents.append((slope, offset))
        found.append(tangents)
    return found


def _rankings_as_lists(own, k):
    """Return one list, of (slopes, offset) of all rankings."""
    n = min(k, int((own > 0.0).sum()))
    weights = np.array([discount(p, n) for p in range(1, len(own) + 1)])
    best = sorted(range(len(own)), key=lambda i: -own[i])
    ideal = np.zeros(len(own))
    for grade in np.unique(own):
        places = [p for p, i in enumerate(best) if own[i] == grade]
        ideal[own == grade] = np.mean(weights[places])
    tangents = []
    for ranking in permutations(range(len(own))):
        slope = -ideal
        slope[list(ranking)] += weights
        tangents.append((slope, 1.0 - dcg(own, ranking, n) / dcg(own, best, n)))
    return [tangents]


RANKINGS = {"NDCGHinge": _rankings_by_pairs, "NDCGListHinge": _rankings_as_lists}


def ndcg_queries(loss, y, qid):
    """Return for each query that counts: its documents, and (slopes, offset) of all rankings.

    There are several lists of them, of which the largest values are summed.
    """
    rankings = RANKINGS[type(loss).__name__]
    queries = [np.flatnonzero(qid == query) for query in np.unique(qid)]
    return [
        (documents, rankings(y[documents], loss.k))
        for documents in queries
        if y[documents].min() < y[documents].max()
    ]


def ndcg(loss, y, z, qid, weights):
    queries = ndcg_queries(loss, y, qid)
    total = sum(weights[documents[0]] for documents, _ in queries)
    return sum(
        weights[documents[0]]
        / total
        * max(slope @ z[documents] + offset for slope, offset in tangents)
        for documents, lists in queries
        for tangents in lists
    )
