"""The n best labels against the sorted list of all labels."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.models.sequences.chain import Chains, ChainScores, n_best
from cutplane.models.structured import ChainCRF

from .sequences import all_labels, score
from .test_chain_kernels import Problem, problems, scales


def listed(scores, i, j, n):
    """The n best scores of a sequence with their labels, of all; ties from the last label on."""
    S, *rest = scores
    rows = [
        (-score(S[i:j], *rest, labels), labels[::-1].tolist())
        for labels in all_labels(S.shape[1], j - i)
    ]
    return [(-negative, backwards[::-1]) for negative, backwards in sorted(rows)[:n]]


@given(problem=problems(4), n=st.integers(1, 300))
def test_the_best_of_all(problem, n):
    found = n_best(problem.chains, problem.scores, n)
    tiny = 1e-14 * problem.size()
    for k, (i, j) in enumerate(itertools.pairwise(problem.chains.offsets)):
        expected = [value for value, _ in listed(problem.scores, i, j, n)]
        count = found.counts[k]
        labels = found.labels[:count, i:j]
        behind = found.behind[k, :count]
        assert count == len(expected)
        assert len({tuple(row) for row in labels.tolist()}) == count  # no labels twice
        assert behind[0] == 0.0
        assert (np.diff(behind) >= 0.0).all()
        reached = [score(problem.scores.emissions[i:j], *problem.scores[1:], row) for row in labels]
        np.testing.assert_allclose(reached, expected, rtol=1e-12, atol=tiny)
        np.testing.assert_allclose(
            found.top_scores[k] - behind, expected, rtol=1e-12, atol=10 * tiny
        )


@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    n_labels=st.integers(1, 3),
    n=st.integers(1, 300),
    spread=st.integers(0, 2),
)
def test_the_order_of_ties(seed, lengths, n_labels, n, spread):
    # Sums of small whole numbers are exact, and many of them are the same.
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shapes = (offsets[-1], n_labels), (n_labels, n_labels), (n_labels,), (n_labels,)
    scores = ChainScores(*(rng.integers(-spread, spread + 1, shape) * 1.0 for shape in shapes))
    found = n_best(Chains(offsets, n_labels), scores, n)
    for k, (i, j) in enumerate(itertools.pairwise(offsets)):
        expected = listed(scores, i, j, n)
        assert found.counts[k] == len(expected)
        for rank, (value, labels) in enumerate(expected):
            assert found.labels[rank, i:j].tolist() == labels
            assert found.top_scores[k] - found.behind[k, rank] == value


@given(problem=problems(4))
def test_probabilities_of_all_sum_to_one(problem):
    found = n_best(problem.chains, problem.scores, 10**30)
    logs = ChainCRF().log_probabilities(problem.chains, problem.scores, found.labels[0])
    assert (logs <= 0.0).all()
    for k, length in enumerate(problem.chains.lengths):
        assert found.counts[k] == problem.chains.n_labels**length
        probabilities = np.exp(logs[k] - found.behind[k, : found.counts[k]])
        # An error of eps in a score of this size is one of that size in the exponent.
        assert probabilities.sum() == pytest.approx(1.0, abs=1e-13 * problem.size())


@given(seed=st.integers(0, 10**6), n_labels=st.integers(1, 9), emission=scales, transition=scales)
def test_the_first_is_viterbis(seed, n_labels, emission, transition):
    problem = Problem(seed, [0, 30, 1, 0, 7], n_labels, emission=emission, transition=transition)
    found = n_best(problem.chains, problem.scores, 3)
    np.testing.assert_array_equal(found.labels[0], problem.chains.best(problem.scores))


def by_lists(S, T, start, end, n):
    """What the n best score less than the best: n sums for each token and label, in NumPy."""
    sums = [[value] for value in S[0] + start]
    for t in range(1, len(S)):
        into = [
            sorted((v + T[a, b] for a in range(len(T)) for v in sums[a]), reverse=True)[:n]
            for b in range(len(T))
        ]
        top = max(values[0] for values in into)
        sums = [[v - top + S[t, b] for v in into[b]] for b in range(len(T))]
    last = sorted((v + end[a] for a in range(len(T)) for v in sums[a]), reverse=True)[:n]
    return last[0] - np.array(last)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_long_sequences(size):
    problem = Problem(0, [3_000], 4, emission=size, transition=size)
    found = n_best(problem.chains, problem.scores, 10)
    np.testing.assert_allclose(
        found.behind[0], by_lists(*problem.scores, 10), rtol=1e-9, atol=1e-12 * size
    )


def test_threads_leave_no_trace():
    sizes = np.random.default_rng(1).integers(0, 20, 700)
    problems = [Problem(1, sizes, 9, n_threads=n_threads) for n_threads in (1, 2, 3)]
    first, *others = (n_best(problem.chains, problem.scores, 5) for problem in problems)
    for other in others:
        np.testing.assert_array_equal(first.counts, other.counts)
        np.testing.assert_array_equal(first.top_scores, other.top_scores)
        for k, (i, j) in enumerate(itertools.pairwise(problems[0].chains.offsets)):
            there = slice(first.counts[k])
            np.testing.assert_array_equal(first.labels[there, i:j], other.labels[there, i:j])
            np.testing.assert_array_equal(first.behind[k, there], other.behind[k, there])


def seconds(problem, n):
    begin = time.process_time()
    n_best(problem.chains, problem.scores, n)
    return time.process_time() - begin


@pytest.mark.parametrize("scale", [1.0, 0.0], ids=["different", "all-equal"])
def test_time_grows_with_the_tokens(scale):
    options = {"emission": scale, "transition": scale, "n_threads": 1}
    short, long = (Problem(0, [length], 9, **options) for length in (5_000, 40_000))
    ratios = [seconds(long, 10) / seconds(short, 10) for _ in range(5)]
    assert min(ratios) < 16  # eight times the tokens; 64 if every token met every other


def test_no_sequences():
    found = n_best(Chains([0], 3), ChainScores(np.empty((0, 3)), np.eye(3), *np.ones((2, 3))), 4)
    assert found.labels.shape == (1, 0)
    assert found.counts.shape == (0,)
