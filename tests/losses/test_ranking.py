"""Ranking losses against all pairs and all rankings, and the laws of a loss."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane.losses as losses_module
from cutplane import NDCGHinge, NDCGListHinge, PairwiseHinge
from cutplane.compute.threads import thread_limit
from cutplane.core.protocols import Quadratic
from cutplane.losses import RANKING, RankingLoss
from cutplane.models.ranking.loss import Judged, Queries
from cutplane.models.ranking.losses import sort_by_keys, sum_of_pair_weights

from .ranking_twins import dcg, discount, ndcg, ndcg_queries, pairs_of, pairwise, steps

PAIRWISE = [
    PairwiseHinge(per, pair_weights)
    for per in ("query", "pair")
    for pair_weights in ("equal", "grades", "gains")
]
NDCG = [kind(k) for kind in (NDCGHinge, NDCGListHinge) for k in (1, 3, 10)]
LOSSES = [*PAIRWISE, *NDCG]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
seeds = st.integers(0, 10**6)


def sample(seed, *, largest=6):
    """Return relevance, scores, queries and weights; ties in all of them, queries interleaved."""
    rng = np.random.default_rng(seed)
    sizes = np.append(rng.integers(1, largest + 1, size=rng.integers(1, 5)), 3)
    qid = np.repeat(rng.permutation(len(sizes)) * 7 - 3, sizes)
    y = rng.integers(0, 4, len(qid)).astype(float)
    y[-3:] = [0.0, 2.0, 1.0]  # at least one query has pairs
    of_query = dict(zip(np.unique(qid), rng.choice([0.0, 0.5, 1.0, 3.0], len(sizes)), strict=True))
    of_query[qid[-1]] = 1.0
    weights = np.array([of_query[query] for query in qid])
    scores = rng.choice([0.3, 1.0, 4.0]) * rng.normal(size=len(qid)).round(1)
    mixed = rng.permutation(len(qid))
    return y[mixed], scores[mixed], qid[mixed], (weights / weights.sum())[mixed], rng


def by_definition(loss, y, scores, qid, weights):
    if isinstance(loss, PairwiseHinge):
        return pairwise(y, scores, qid, weights, loss.per, loss.pair_weights)
    return ndcg(loss, y, scores, qid, weights)


def test_every_loss_is_here():
    classes = {type(loss) for loss in LOSSES}
    assert set(RANKING.values()) == classes
    exported = [getattr(losses_module, name) for name in losses_module.__all__]
    assert classes | {RankingLoss} == {
        thing for thing in exported if isinstance(thing, type) and issubclass(thing, RankingLoss)
    }


@every_loss
@given(seed=seeds)
def test_value_is_that_of_the_definition(loss, seed):
    y, scores, qid, weights, _ = sample(seed, largest=5 if loss in NDCG else 12)
    value, slopes, offset = loss.for_queries(qid).evaluate(y, scores, weights)
    assert value == pytest.approx(by_definition(loss, y, scores, qid, weights), abs=1e-12)
    assert offset + slopes @ scores == pytest.approx(value, abs=1e-12)
    assert slopes.sum() == pytest.approx(0.0, abs=1e-12)


@every_loss
@given(seed=seeds)
def test_tangents_stay_below(loss, seed):
    y, scores, qid, weights, rng = sample(seed)
    bound = loss.for_queries(qid)
    _, slopes, offset = bound.evaluate(y, scores, weights)
    for spread in (0.1, 1.0, 10.0):
        other = scores + spread * rng.normal(size=len(y))
        there = bound.value(y, other, weights)
        assert there >= slopes @ other + offset - 1e-12 * (1.0 + there)
        assert there >= bound.lower_bound


@every_loss
@given(seed=seeds)
def test_slopes_are_derivatives(loss, seed):
    y, scores, qid, weights, rng = sample(seed)
    bound = loss.for_queries(qid)
    scores = scores + rng.uniform(0.001, 0.02, len(y))  # away from kinks
    direction = rng.normal(size=len(y))
    h = 1e-9
    above, below = (bound(y, scores + k * direction, weights) for k in (h, -h))
    if not np.array_equal(above[1], below[1]):
        return  # a kink after all
    value, slopes = bound(y, scores, weights)
    assert np.array_equal(slopes, above[1])
    assert above[0] - below[0] == pytest.approx(2 * h * (slopes @ direction), abs=1e-14)
    assert bound.value(y, scores, weights) == value
    assert np.array_equal(bound.slopes(y, scores, weights), slopes)


@every_loss
@given(seed=seeds)
def test_order_of_documents_and_names_of_queries_do_not_matter(loss, seed):
    y, scores, qid, weights, rng = sample(seed)
    scores = scores + 1e-3 * rng.normal(size=len(y))  # no ties, where several tangents touch
    value, slopes = loss.for_queries(qid)(y, scores, weights)
    mixed = rng.permutation(len(y))
    words = np.array([f"query {query}" for query in qid])
    again, mixed_slopes = loss.for_queries(words[mixed])(y[mixed], scores[mixed], weights[mixed])
    assert again == pytest.approx(value, rel=1e-12)
    assert mixed_slopes == pytest.approx(slopes[mixed], rel=1e-12, abs=1e-15)


@every_loss
@given(seed=seeds)
def test_a_query_of_weight_two_counts_as_two(loss, seed):
    y, scores, qid, _, _ = sample(seed)
    twice = qid == qid[np.argmax(y)]
    weighted = loss.for_queries(qid).value(y, scores, 1.0 + twice)
    copied = loss.for_queries(np.append(qid, qid[twice] * 0 + 1000)).value(
        np.append(y, y[twice]), np.append(scores, scores[twice]), np.ones(len(y) + twice.sum())
    )
    assert weighted == pytest.approx(copied, rel=1e-12)


@every_loss
@given(seed=seeds, slope=st.floats(-1, 1), curvature=st.sampled_from([1e-3, 0.1, 10.0]))
def test_search_leaves_little_to_gain(loss, seed, slope, curvature):
    y, scores, qid, weights, rng = sample(seed)
    bound, direction = loss.for_queries(qid), rng.normal(size=len(scores))

    def total(k):
        value = bound.value(y, scores + k * direction, weights)
        return value + slope * k + 0.5 * curvature * k * k

    step = bound.minimize_along(y, scores, direction, weights, Quadratic(slope, curvature))
    lowest = min(map(total, np.append(np.linspace(0.0, 2.0, 41), 2.0 ** np.arange(1.0, 10.0))))
    assert step >= 0.0
    gained, left = total(0.0) - total(step), total(step) - lowest
    assert left <= 0.2 * gained + 1e-9


@pytest.mark.parametrize("k", [1, 3, 10])
@given(seed=seeds)
def test_ndcg_is_bounded(k, seed):
    y, scores, qid, _, rng = sample(seed)
    scores = scores + 1e-6 * rng.normal(size=len(y))  # no ties
    misses = []
    for query in np.unique(qid):
        own = qid == query
        if len(set(y[own])) > 1:
            gains = 2.0 ** y[own] - 1.0
            discounts = 1.0 / np.log2(np.arange(own.sum()) + 2.0)
            discounts[k:] = 0.0
            ranked, best = gains[np.argsort(-scores[own])], np.sort(gains)[::-1]
            misses.append(1.0 - discounts @ ranked / (discounts @ best))
    for loss in (NDCGHinge(k), NDCGListHinge(k)):
        value = loss.for_queries(qid).value(y, scores, np.ones(len(y)))
        assert value >= np.mean(misses) - 1e-12


@pytest.mark.parametrize("loss", NDCG, ids=repr)
@given(seed=seeds)
def test_every_ranking_costs_what_it_loses(loss, seed):
    # What is added to the scores of a ranking bounds its loss, not only that of the ranking which
    # is the worst for some scores.
    rng = np.random.default_rng(seed)
    y = rng.integers(rng.integers(0, 2), 4, size=5).astype(float)
    best = sorted(range(5), key=lambda i: -y[i])
    for _, lists in ndcg_queries(loss, y, np.zeros(5)):
        for place, ranking in enumerate(permutations(range(5))):
            lost = 1.0 - dcg(y, ranking, loss.k) / dcg(y, best, loss.k)
            assert sum(tangents[place][1] for tangents in lists) >= lost - 1e-12


@pytest.mark.parametrize("relevant", [1, 2, 5, 9])
@pytest.mark.parametrize("k", [1, 2, 5, 10, 40])
def test_no_ranking_of_a_long_list_loses_more_than_its_steps(relevant, k):
    others = 20
    sums = np.append(0.0, np.cumsum(steps(relevant, others, k)))
    # The most that rankings lose beyond their steps, by how many irrelevant documents are above
    # the last relevant one: none has fewer above than the one before.
    most = np.zeros(others + 1)
    for r in range(1, relevant + 1):
        lost = np.array([discount(r, k) - discount(r + m, k) for m in range(others + 1)])
        most = np.maximum.accumulate(most) + lost - sums
    assert most.max() <= 1e-12


@given(seed=seeds)
def test_margins_are_never_below_those_of_pairs(seed):
    y, scores, qid, weights, _ = sample(seed, largest=30)
    y = np.minimum(y, 1.0)
    pairs, bound = PairwiseHinge().for_queries(qid), NDCGHinge().for_queries(qid)
    assert bound.value(y, scores, weights) >= pairs.value(y, scores, weights) - 1e-12


@pytest.mark.parametrize(("relevant", "others", "k"), [(1, 30, 10), (4, 50, 10), (20, 9, 3)])
def test_margins(relevant, others, k):
    # Scores between two margins: those of the relevant documents are 0.
    y = np.repeat([1.0, 0.0], [relevant, others])
    best = sum(discount(p, k) for p in range(1, relevant + 1))
    margins = np.maximum(1.0, steps(relevant, others, k) * relevant * others / best)
    rng = np.random.default_rng(0)
    for spread in (0.5, 2.0, 10.0):
        scores = np.append(np.zeros(relevant), np.sort(rng.normal(-1.0, spread, others))[::-1])
        expected = np.maximum(0.0, margins + scores[relevant:]).mean()
        assert NDCGHinge(k).value(y, scores, np.ones(len(y))) == pytest.approx(expected, rel=1e-12)


def test_relevances_too_close_for_a_gain():
    y, qid = np.array([1e-30, 0.0, 1.0, 0.0]), np.array([0, 0, 1, 1])
    value, slopes, _ = NDCGHinge().for_queries(qid).evaluate(y, np.zeros(4), np.ones(4))
    assert value == 0.5
    assert np.array_equal(slopes, [0.0, 0.0, -0.5, 0.5])


def large_sample():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(400), rng.integers(1, 500, 400))
    y = rng.integers(0, 5, len(qid)).astype(float)
    return y, rng.normal(size=len(qid)), qid, np.full(len(qid), 1.0 / len(qid))


@pytest.mark.parametrize("loss", [PairwiseHinge(), NDCGHinge(), NDCGListHinge()], ids=repr)
def test_threads_and_earlier_calls_leave_no_trace(loss):
    y, scores, qid, weights = large_sample()
    assert len(y) > 2**16  # more than one block
    with thread_limit(1):
        expected = loss.for_queries(qid).evaluate(y, scores, weights)
    bound = loss.for_queries(qid)
    with thread_limit(4):
        bound.value(y, -scores, weights)
        for found in (bound.evaluate(y, scores, weights), bound.evaluate(y, scores, weights)):
            assert found.value == expected.value
            assert found.offset == expected.offset
            assert np.array_equal(found.slopes, expected.slopes)


def test_calls_from_several_threads():
    y, scores, qid, weights = large_sample()
    bound = PairwiseHinge().for_queries(qid)
    scales = [0.1, 0.5, 1.0, 2.0] * 3
    expected = [PairwiseHinge().for_queries(qid).value(y, k * scores, weights) for k in scales]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: bound.value(y, k * scores, weights), scales))
    assert found == expected


@every_loss
def test_what_was_kept_is_not_used_for_other_data(loss):
    y, scores, qid, weights, _ = sample(3)
    bound = loss.for_queries(qid)
    before = bound.value(y, scores, weights)
    scores += np.linspace(0.0, 3.0, len(y))  # in place
    assert bound.value(y, scores, weights) == loss.for_queries(qid).value(y, scores, weights)
    assert bound.value(y, scores, weights) != before
    y[:] = y.max() - y
    assert bound.value(y, scores, weights) == loss.for_queries(qid).value(y, scores, weights)
    _, slopes = bound(y, scores, weights)
    slopes[:] = 0.0
    assert np.abs(bound.slopes(y, scores, weights)).max() > 0.0


@every_loss
def test_pickle(loss):
    y, scores, qid, weights, _ = sample(5)
    bound = loss.for_queries(qid)
    value = bound.value(y, scores, weights)
    assert pickle.loads(pickle.dumps(bound)).value(y, scores, weights) == value


def test_all_documents_of_one_query_without_queries():
    y, scores, _, _, _ = sample(1)
    weights = np.full(len(y), 1.0 / len(y))
    expected = pairwise(y, scores, np.zeros(len(y)), weights, "pair", "equal")
    assert PairwiseHinge().value(y, scores, weights) == pytest.approx(expected)


def test_many_different_relevances():
    rng = np.random.default_rng(0)
    y, scores = rng.normal(size=200), rng.normal(size=200)
    for loss in PAIRWISE:
        expected = pairwise(y, scores, np.zeros(200), np.ones(200), loss.per, loss.pair_weights)
        assert loss.value(y, scores, np.ones(200)) == pytest.approx(expected, rel=1e-12)


def test_large_scores_leave_the_offset_exact():
    y, qid = np.array([1.0, 0.0, 2.0, 0.0]), np.array([0, 0, 1, 1])
    scores = np.array([1e12, 1e12 + 1.0, -1e12, 1e12])
    value, slopes, offset = PairwiseHinge().for_queries(qid).evaluate(y, scores, np.ones(4))
    assert offset == 1.0
    assert np.array_equal(slopes, [-0.5, 0.5, -0.5, 0.5])
    assert value == (2.0 + (2e12 + 1.0)) / 2.0


@given(keys=st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0]) | st.floats(-9, 9), max_size=60))
def test_sorting_has_one_result(keys):
    keys = np.array(keys)
    expected = np.argsort(keys, kind="stable")
    for start in (np.arange(len(keys)), np.arange(len(keys))[::-1].copy(), expected.copy()):
        sort_by_keys(keys, start)
        assert np.array_equal(start, expected)


@given(seed=seeds)
def test_pair_weights_are_summed(seed):
    y, _, qid, weights, _ = sample(seed, largest=12)
    judged = Judged(Queries(qid), y, weights, np.arange(len(y)))
    totals = sum_of_pair_weights(judged.starts, judged.grades, judged.relevance, 1.0)
    expected = [sum(1.0 + v for *_, v in pairs) for pairs in pairs_of(y, qid, "grades")]
    assert totals[totals > 0.0] == pytest.approx(expected)


@given(seed=seeds)
def test_documents_are_in_the_order_they_should_be(seed):
    y, _, qid, weights, _ = sample(seed)
    judged = Judged(Queries(qid), y, weights, np.arange(len(y)))
    for number, query in enumerate(np.unique(qid)):
        own = slice(judged.starts[number], judged.starts[number + 1])
        assert set(judged.documents[own]) == set(np.flatnonzero(qid == query))
        assert (np.diff(judged.relevance[own]) <= 0.0).all()
        levels = np.unique(y[qid == query])
        assert np.array_equal(levels[judged.grades[own] - 1], judged.relevance[own])
        assert np.array_equal(judged.positions()[own], np.arange((qid == query).sum()))


@every_loss
@pytest.mark.parametrize(
    ("y", "qid", "weights", "message"),
    [
        ([1.0, 1.0, 0.0], [1, 1, 2], [1.0, 1.0, 1.0], "nothing to rank"),
        ([1.0, 0.0, 0.0], [1, 2, 3], [1.0, 1.0, 1.0], "nothing to rank"),
        ([1.0, 0.0, 0.0], [1, 1, 2], [0.0, 0.0, 1.0], "nothing to rank"),
        ([1.0, 0.0, 0.0], [1, 1, 2], [1.0, 2.0, 1.0], "must have the same weight"),
        ([1.0, 0.0, 0.0], [1, 1], [1.0, 1.0, 1.0], "3 targets, but queries of 2 documents"),
    ],
)
def test_complaints(loss, y, qid, weights, message):
    bound = loss.for_queries(qid)
    with pytest.raises(ValueError, match=message):
        bound.check_judgements(np.array(y), np.array(weights))


def test_complaints_about_parameters_and_relevance():
    with pytest.raises(ValueError, match="k must be a positive whole number, got 0"):
        NDCGHinge(0)
    with pytest.raises(ValueError, match="per must be one of query, pair"):
        PairwiseHinge("document")
    with pytest.raises(ValueError, match="pair_weights must be one of equal, grades, gains"):
        PairwiseHinge(pair_weights="none")
    with pytest.raises(ValueError, match="not finite"):
        PairwiseHinge().check_targets(np.array([np.nan]))
    with pytest.raises(ValueError, match="must not be negative for NDCG, got -1"):
        NDCGHinge().check_targets(np.array([0.0, -1.0]))
    with pytest.raises(ValueError, match="relevance 2000 is too large"):
        NDCGHinge().check_targets(np.array([0.0, 2000.0]))
    with pytest.raises(ValueError, match="one query a document"):
        PairwiseHinge().for_queries(np.zeros((2, 2)))
