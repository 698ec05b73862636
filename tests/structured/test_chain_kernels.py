"""The dynamic programs against the list of all labels, and against a program of logarithms."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.models.sequences.chain import Chains, ChainScores
from cutplane.models.sequences.losses import LabeledChains
from cutplane.models.structured import ChainCRF, ChainMargin

from .sequences import all_labels, score

logsumexp = np.logaddexp.reduce
scales = st.sampled_from([0.0, 1.0, 30.0, 1e3, 1e6])


class Problem:
    """Sequences with random scores, some of them extreme."""

    def __init__(self, seed, lengths, n_labels, *, emission=1.0, transition=1.0, n_threads=None):
        rng = np.random.default_rng(seed)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.chains = Chains(offsets, n_labels, n_threads=n_threads)
        y = rng.integers(0, n_labels, offsets[-1]).astype(np.int32)
        weights = rng.uniform(0.5, 1.5, len(lengths))
        self.data = LabeledChains(self.chains, y, weights / weights.sum())
        self.scores = ChainScores(
            emission * rng.normal(size=(offsets[-1], n_labels)),
            transition * rng.normal(size=(n_labels, n_labels)),
            emission * rng.normal(size=n_labels),
            emission * rng.normal(size=n_labels),
        )

    def sequences(self):
        """Yield scores of tokens, labels and weight of each sequence."""
        offsets = self.chains.offsets
        for k, (i, j) in enumerate(itertools.pairwise(offsets)):
            yield self.scores.emissions[i:j], self.data.y[i:j], self.data.weights[k]

    def size(self):
        return 1.0 + max(float(np.abs(part).max(initial=0.0)) for part in self.scores)


def listed(problem, S):
    """All labels of a sequence, and their scores."""
    candidates = all_labels(problem.chains.n_labels, len(S))
    return candidates, np.array([score(S, *problem.scores[1:], labels) for labels in candidates])


lengths = st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any)


def problems(most_labels):
    """Problems with few short sequences, of up to so many labels."""
    return st.builds(
        Problem,
        st.integers(0, 10**6),
        lengths,
        st.integers(1, most_labels),
        emission=scales,
        transition=scales,
    )


@given(problem=problems(4))
def test_worst_labels_are_the_worst_of_all(problem):
    outcome = ChainMargin().evaluate(problem.data, problem.scores)
    expected, begin = 0.0, 0
    for S, y, weight in problem.sequences():
        candidates, scores = listed(problem, S)
        found = outcome.labels[begin : begin + len(y)]
        own = score(S, *problem.scores[1:], y)
        worst = max(
            np.sum(labels != y) + (value - own)
            for labels, value in zip(candidates, scores, strict=True)
        )
        reached = np.sum(found != y) + score(S, *problem.scores[1:], found) - own
        assert reached == pytest.approx(worst, rel=1e-12, abs=1e-14 * problem.size())
        expected += weight * worst
        begin += len(y)
    assert outcome.value == pytest.approx(expected, rel=1e-12, abs=1e-13 * problem.size())
    assert outcome.value >= 0.0


@given(problem=problems(6))
def test_best_labels_are_the_best_of_all(problem):
    labels, begin = problem.chains.best(problem.scores), 0
    for S, y, _ in problem.sequences():
        found = labels[begin : begin + len(y)]
        reached = score(S, *problem.scores[1:], found)
        assert reached == pytest.approx(
            listed(problem, S)[1].max(), rel=1e-12, abs=1e-14 * problem.size()
        )
        begin += len(y)


@given(problem=problems(4))
def test_marginals_are_those_of_all_labels(problem):
    outcome = ChainCRF().evaluate(problem.data, problem.scores)
    slopes = outcome.slopes()
    tiny = 1e-13 * problem.size()
    value = entropy = 0.0
    emissions = np.zeros_like(problem.scores.emissions)
    transitions = np.zeros((problem.chains.n_labels, problem.chains.n_labels))
    begin = 0
    for S, y, weight in problem.sequences():
        candidates, scores = listed(problem, S)
        value += weight * logsumexp(scores - score(S, *problem.scores[1:], y))
        logs = scores - logsumexp(scores)
        entropy -= weight * np.exp(logs) @ logs
        shares = [*weight * np.exp(logs), -weight]
        for labels, share in zip([*candidates, y], shares, strict=True):
            emissions[begin + np.arange(len(y)), labels] += share
            np.add.at(transitions, (labels[:-1], labels[1:]), share)
        begin += len(y)
    assert outcome.value == pytest.approx(value, rel=1e-12, abs=tiny)
    assert outcome.value >= 0.0
    np.testing.assert_allclose(slopes.emissions, emissions, atol=tiny)
    np.testing.assert_allclose(slopes.transitions.sum(axis=0), transitions, atol=tiny)
    assert slopes.offsets.sum() == pytest.approx(entropy, abs=10 * tiny)


def in_logarithms(problem):
    """Values and marginals by the forward-backward algorithm, all logarithms, in plain NumPy.

    Each step is scaled: sums as large as the whole score would lose digits.
    """
    value, emissions = 0.0, []
    _, T, start, end = problem.scores
    for S, y, weight in problem.sequences():
        S = S.copy()
        S[0] += start
        S[-1] += end
        forward, backward = [S[0] - logsumexp(S[0])], [np.zeros(S.shape[1])]
        losses = [logsumexp(S[0]) - S[0, y[0]]]
        for t in range(1, len(S)):
            step = logsumexp(forward[-1][:, None] + T, axis=0) + S[t]
            losses.append(logsumexp(step) - T[y[t - 1], y[t]] - S[t, y[t]])
            forward.append(step - logsumexp(step))
            step = logsumexp(T + S[-t] + backward[-1], axis=1)
            backward.append(step - logsumexp(step))
        together = np.array(forward) + np.array(backward[::-1])
        probabilities = np.exp(together - logsumexp(together, axis=1)[:, None])
        value += weight * np.sum(losses)
        emissions.append(weight * (probabilities - np.eye(S.shape[1])[y]))
    return value, np.concatenate(emissions)


@pytest.mark.parametrize("emission", [1.0, 1e3])
@pytest.mark.parametrize("transition", [1.0, 80.0, 1e3])  # 80: nearly too far for the fast kernel
@pytest.mark.parametrize("n_labels", [2, 5, 17])
def test_long_sequences(n_labels, emission, transition):
    problem = Problem(0, [10_000, 3], n_labels, emission=emission, transition=transition)
    value, emissions = in_logarithms(problem)
    outcome = ChainCRF().evaluate(problem.data, problem.scores)
    # An error of eps in a score of this size is one of that size in the exponent.
    tiny = 1e-13 * problem.size()
    assert outcome.value == pytest.approx(value, rel=1e-12, abs=tiny)
    np.testing.assert_allclose(outcome.slopes().emissions, emissions, atol=tiny)


class CRFInLogarithms(ChainCRF):
    farthest = -1.0


def test_fast_kernel_and_logarithms_agree_where_both_work():
    problem = Problem(3, [40, 1, 0, 300], 7, emission=5.0, transition=30.0)
    fast = ChainCRF().evaluate(problem.data, problem.scores)
    slow = CRFInLogarithms().evaluate(problem.data, problem.scores)
    assert fast.value == pytest.approx(slow.value, rel=1e-13)
    for one, other in zip(fast.slopes(), slow.slopes(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("loss", [ChainMargin(), ChainCRF()], ids=repr)
@pytest.mark.parametrize("transition", [1.0, 1e3])
def test_threads_leave_no_trace(loss, transition):
    lengths = np.random.default_rng(1).integers(0, 20, 700)
    outcomes = []
    for n_threads in (1, 2, 3):
        problem = Problem(1, lengths, 9, transition=transition, n_threads=n_threads)
        outcomes.append(loss.evaluate(problem.data, problem.scores))
    for other in outcomes[1:]:
        assert other.value == outcomes[0].value
        for one, two in zip(outcomes[0].slopes(), other.slopes(), strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("loss", [ChainMargin(), ChainCRF()], ids=repr)
def test_slope_along_a_direction(loss):
    problem = Problem(5, [3, 0, 6, 1, 9], 4)
    direction = Problem(6, [3, 0, 6, 1, 9], 4).scores
    outcome = loss.evaluate(problem.data, problem.scores)
    emissions, transitions, _ = outcome.slopes()
    chains = problem.chains
    expected = (
        np.vdot(emissions, direction.emissions)
        + np.vdot(transitions.sum(axis=0), direction.transitions)
        + emissions[chains.firsts].sum(axis=0) @ direction.start
        + emissions[chains.lasts].sum(axis=0) @ direction.end
    )
    assert outcome.slope_along(direction) == pytest.approx(expected, rel=1e-12)
