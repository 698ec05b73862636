"""Measures of rankings against scikit-learn's, and against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from cutplane.models.ranking.loss import Queries
from cutplane.models.ranking.quality import Rankings, mean_of_defined


def sample(seed, *, ties):
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, 4, size=30)
    y = rng.integers(0, 3, size=30) * (qid > 0.0)  # the first query has no relevant document
    scores = rng.normal(size=30)
    return y.astype(float), scores.round(0) if ties else scores, qid


def of_each_query(measure, y, scores, qid):
    return [measure(y[qid == query], scores[qid == query]) for query in np.unique(qid)]


@given(seed=st.integers(0, 10**6), k=st.integers(1, 12))
def test_ndcg_is_that_of_scikit_learn(seed, k):
    y, scores, qid = sample(seed, ties=False)

    def ndcg(y, scores):
        if len(y) == 1:  # scikit-learn refuses a single document
            return 1.0 if y[0] > 0.0 else np.nan
        return ndcg_score([2.0**y - 1.0], [scores], k=k) if y.any() else np.nan

    expected = of_each_query(ndcg, y, scores, qid)
    found = Rankings(y, scores, Queries(qid)).ndcg(k)
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(seed=st.integers(0, 10**6))
def test_average_precision_is_that_of_scikit_learn(seed):
    y, scores, qid = sample(seed, ties=False)

    def precision(y, scores):
        return average_precision_score(y > 0.0, scores) if y.any() else np.nan

    found = Rankings(y, scores, Queries(qid)).average_precision()
    assert found == pytest.approx(of_each_query(precision, y, scores, qid), nan_ok=True)


@pytest.mark.parametrize("ties", [False, True])
@given(seed=st.integers(0, 10**6))
def test_reciprocal_rank_and_pairs(ties, seed):
    y, scores, qid = sample(seed, ties=ties)

    def reciprocal(y, scores):
        ranked = sorted(zip(-scores, y, strict=True))  # ties: the least relevant first
        places = [1.0 / p for p, (_, relevance) in enumerate(ranked, 1) if relevance > 0.0]
        return max(places, default=np.nan)

    def accuracy(y, scores):
        right = [
            0.5 * (1.0 + np.sign(scores[i] - scores[j]))
            for i in range(len(y))
            for j in range(len(y))
            if y[i] > y[j]
        ]
        return np.mean(right) if right else np.nan

    rankings = Rankings(y, scores, Queries(qid))
    expected = of_each_query(reciprocal, y, scores, qid)
    assert rankings.reciprocal_rank() == pytest.approx(expected, nan_ok=True)
    accuracies = of_each_query(accuracy, y, scores, qid)
    assert rankings.pairwise_accuracy() == pytest.approx(np.nanmean(accuracies))


def test_ties_are_ranked_worst_first():
    y = np.array([2.0, 1.0, 0.0, 0.0])
    rankings = Rankings(y, np.zeros(4), Queries.one(4))
    assert rankings.ndcg(2) == [0.0]
    assert rankings.reciprocal_rank() == [1 / 3]
    assert rankings.average_precision() == pytest.approx([(1 / 3 + 2 / 4) / 2])
    assert rankings.pairwise_accuracy() == 0.5


def test_nothing_relevant():
    rankings = Rankings(np.zeros(3), np.arange(3.0), Queries([1, 1, 2]))
    for values in (rankings.ndcg(3), rankings.average_precision(), rankings.reciprocal_rank()):
        assert np.isnan(values).all()
        assert mean_of_defined(values) is None
    assert rankings.pairwise_accuracy() is None


def test_negative_relevance_is_refused():
    with pytest.raises(ValueError, match="relevance must not be negative"):
        Rankings(np.array([-1.0]), np.zeros(1), Queries([0]))
