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


def ndcg_queries(y, qid, k, decay=None):
    """Return for each query that counts: its documents, and (slopes, offset) of all rankings."""
    found = []
    for query in np.unique(qid):
        documents = np.flatnonzero(qid == query)
        own = y[documents]
        if own.min() == own.max():
            continue
        n = min(k, int((own > 0.0).sum()))
        weights = np.zeros(len(own))
        weights[:n] = [
            1.0 / np.log2(p + 2.0) if decay is None else (p + 1.0) ** -decay for p in range(n)
        ]
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
        found.append((documents, tangents))
    return found


def ndcg(y, z, qid, weights, k, decay=None):
    queries = ndcg_queries(y, qid, k, decay)
    total = sum(weights[documents[0]] for documents, _ in queries)
    return sum(
        weights[documents[0]]
        / total
        * max(slope @ z[documents] + offset for slope, offset in tangents)
        for documents, tangents in queries
    )
