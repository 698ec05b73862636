"""The n best labels that a tagger predicts: their scores, their probabilities, awkward input."""

import itertools
import math

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import cutplane as cp
from cutplane.models.tagging.tagger import LOSSES

from .sequences import Sequences

every_loss = pytest.mark.parametrize("loss", [*LOSSES])


@pytest.fixture(scope="module")
def data():
    return Sequences()


def score_of(tagger, X, labels):
    numbers = np.searchsorted(tagger.classes_, labels)
    total = sum(tagger.coef_[k] @ x for x, k in zip(X, numbers, strict=True))
    total += sum(tagger.transitions_[pair] for pair in itertools.pairwise(numbers))
    return total + tagger.start_[numbers[0]] + tagger.end_[numbers[-1]]


@every_loss
def test_best_labels_come_first(loss, data):
    tagger = cp.SequenceTagger(loss, lam=1e-2).fit(data.X, data.y)
    found = tagger.predict_n_best(data.X, 4)
    assert len(found) == len(data.X)
    for X, ranked, predicted in zip(data.X, found, tagger.predict(data.X), strict=True):
        assert len(ranked) == min(4, 3 ** len(X))
        np.testing.assert_array_equal(ranked[0].labels, predicted)
        scores = [one.score for one in ranked]
        assert scores == sorted(scores, reverse=True)
        np.testing.assert_allclose(scores, [score_of(tagger, X, one.labels) for one in ranked])
        assert all((one.log_probability is None) == (loss == "margin") for one in ranked)


def test_probabilities_of_all_labels(data):
    tagger = cp.SequenceTagger("crf", lam=1e-2).fit(data.X, data.y)
    for X, ranked in zip(data.X, tagger.predict_n_best(data.X, 3**8), strict=True):
        assert len(ranked) == 3 ** len(X)
        probabilities = np.exp([one.log_probability for one in ranked])
        assert probabilities.sum() == pytest.approx(1.0, rel=1e-12)
        logs = [one.score - one.log_probability for one in ranked]  # log Z
        np.testing.assert_allclose(logs, logs[0], rtol=1e-12)
        # Each token's marginals are sums over all labels of the sequence.
        for t, marginals in enumerate(tagger.predict_marginals([X])[0]):
            for label, marginal in zip(tagger.classes_, marginals, strict=True):
                there = [one.labels[t] == label for one in ranked]
                assert probabilities[there].sum() == pytest.approx(marginal, abs=1e-12)


@every_loss
def test_empty_sequences_have_one_labeling(loss, data):
    tagger = cp.SequenceTagger(loss, lam=0.1).fit(data.X, data.y)
    log = 0.0 if loss == "crf" else None
    for X in ([[]], [[], data.X[0], []]):
        ((labels, *values),) = tagger.predict_n_best(X, 5)[0]
        assert labels.shape == (0,)
        assert values == [0.0, log]
        assert math.copysign(1.0, values[0]) == 1.0
    assert tagger.predict_n_best([], 5) == []


def test_one_matrix_and_named_tokens(data):
    flat, labels = np.vstack(data.X), np.concatenate(data.y)
    tagger = cp.SequenceTagger("crf", lam=0.1).fit(flat, labels, lengths=data.lengths)
    listed = tagger.predict_n_best(data.X, 2)
    together = tagger.predict_n_best(flat, 2, lengths=data.lengths)
    for one, other in zip(listed, together, strict=True):
        assert [x.score for x in one] == [x.score for x in other]
    named = cp.SequenceTagger("crf", pairs="observed").fit([[["a"], ["b"]]], [["x", "y"]])
    (ranked,) = named.predict_n_best([[["a"], ["unheard"]]], np.int64(9))
    assert ranked[0].labels.tolist() == ["x", "y"]
    assert len(ranked) == 4


def test_jobs_leave_no_trace(data):
    taggers = [cp.SequenceTagger("crf", lam=0.1, n_jobs=n).fit(data.X, data.y) for n in (1, 3)]
    first, second = (tagger.predict_n_best(data.X, 7) for tagger in taggers)
    for one, other in zip(itertools.chain(*first), itertools.chain(*second), strict=True):
        assert one.labels.tolist() == other.labels.tolist()
        assert one[1:] == other[1:]


def test_long_sequences():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 10_000)
    X = np.eye(5)[labels] + rng.normal(size=(10_000, 5))
    tagger = cp.SequenceTagger("crf", lam=0.1, tol=0.1).fit(X, labels, lengths=[50] * 200)
    (ranked,) = tagger.predict_n_best([X], 10)
    assert len({tuple(one.labels) for one in ranked}) == 10
    logs = [one.log_probability for one in ranked]
    assert logs == sorted(logs, reverse=True)
    # Too unlikely for a probability to be told from zero; its logarithm is finite.
    assert -np.inf < logs[-1] < logs[0] < -745.0


def test_what_is_refused(data):
    tagger = cp.SequenceTagger(lam=0.1).fit(data.X, data.y)
    for n, error, said in [
        (0, ValueError, "n == 0, must be >= 1"),
        (-3, ValueError, "n == -3"),
        (2.0, TypeError, "n must be an instance of"),
        ("3", TypeError, "n must be an instance of"),
        (None, TypeError, "n must be an instance of"),
    ]:
        with pytest.raises(error, match=said):
            tagger.predict_n_best(data.X, n)
    for X, options, said in [
        (np.vstack(data.X), {"lengths": [1, 2]}, "lengths sum to 3, X has"),
        (np.vstack(data.X), {}, "say by lengths"),
        ([np.ones((2, 5))], {}, "5 features"),
        ([np.tile(1e308 * np.sign(tagger.coef_[0]), (20, 1))], {}, "the scores overflow"),
    ]:
        with pytest.raises(ValueError, match=said):
            tagger.predict_n_best(X, 2, **options)
    with pytest.raises(NotFittedError, match="SequenceTagger instance is not fitted"):
        cp.SequenceTagger().predict_n_best(data.X, 2)
