"""The sequence tagger: forms of input, predictions, awkward input, scikit-learn's checks."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cp
from cutplane.models.tagging.tagger import LOSSES
from cutplane.solvers.registry import STRUCTURED_METHODS

from .sequences import Sequences

every_loss = pytest.mark.parametrize("loss", [*LOSSES])


@pytest.fixture(scope="module")
def data():
    return Sequences()


@every_loss
def test_learns_and_says_how_well(loss, data):
    tagger = cp.SequenceTagger(loss, lam=1e-2).fit(data.X, data.y)
    assert tagger.certificate_.status == "optimal"
    assert tagger.certificate_.relative_gap <= 1e-3
    assert len(tagger.history_) == tagger.n_iter_ > 0
    assert tagger.inferences_ > tagger.evaluations_ > 0
    assert list(tagger.classes_) == ["blue", "green", "red"]
    assert tagger.coef_.shape == tagger.transitions_.shape == (3, 3)
    assert tagger.start_.shape == tagger.end_.shape == (3,)
    assert tagger.vectorizer_ is None
    fresh = Sequences(seed=1)
    predicted = tagger.predict(fresh.X)
    assert [len(labels) for labels in predicted] == fresh.lengths
    right = np.concatenate(predicted) == np.concatenate(fresh.y)
    assert tagger.score(fresh.X, fresh.y) == right.mean()
    # Transitions help: without them each token would be on its own.
    alone = np.array(["red", "green", "blue"])[np.concatenate(fresh.X).argmax(axis=1)]
    assert right.mean() > np.mean(alone == np.concatenate(fresh.y))


@every_loss
def test_all_forms_of_input_are_the_same_problem(loss, data):
    names = ["a", "b", "c"]
    dictionaries = [
        [dict(zip(names, map(float, token), strict=True)) for token in X] for X in data.X
    ]
    flat, labels = np.vstack(data.X), np.concatenate(data.y)
    forms = [
        (data.X, data.y, None),
        ([X.tolist() for X in data.X], [y.tolist() for y in data.y], None),
        ([scipy.sparse.csr_array(X) for X in data.X], data.y, None),
        (dictionaries, tuple(data.y), None),
        (flat, labels, data.lengths),
        (scipy.sparse.csr_matrix(flat), labels, data.lengths),
        (flat, [y.tolist() for y in data.y], np.array(data.lengths)),
        ([token for X in dictionaries for token in X], labels.tolist(), data.lengths),
    ]
    fits = []
    for X, y, lengths in forms:
        tagger = cp.SequenceTagger(loss, lam=0.1, tol=1e-6, pairs="all")
        fits.append(tagger.fit(X, y, lengths=lengths))
        predicted = tagger.predict(X, lengths=lengths)
        if lengths is None:
            assert isinstance(predicted, list)
            predicted = np.concatenate(predicted)
        assert predicted.shape == labels.shape
        assert tagger.score(X, y, lengths=lengths) == np.mean(predicted == labels)
        np.testing.assert_allclose(tagger.coef_, fits[0].coef_, atol=2e-3)
    for tagger in fits:
        assert tagger.certificate_.lower_bound <= min(f.certificate_.objective for f in fits)


def test_marginals_are_probabilities(data):
    tagger = cp.SequenceTagger("crf", lam=1e-2).fit(data.X, data.y)
    marginals = tagger.predict_marginals([*data.X[:3], []])
    assert [len(one) for one in marginals] == [*data.lengths[:3], 0]
    together = np.vstack(marginals)
    assert (together >= 0.0).all()
    np.testing.assert_allclose(together.sum(axis=1), 1.0, rtol=1e-13)
    one = tagger.predict_marginals(data.X[0][:1], lengths=[1])
    scores = tagger.coef_ @ data.X[0][0] + tagger.start_ + tagger.end_
    np.testing.assert_allclose(one[0], np.exp(scores) / np.exp(scores).sum(), rtol=1e-12)
    assert not hasattr(cp.SequenceTagger("margin"), "predict_marginals")


def test_features_with_names():
    X = [
        [{"word": "the", "long": False}, {"word": "cat", "long": True, "size": 3.0}],
        [{"word": "dogs", "long": True}],
    ]
    y = [["D", "N"], ["N"]]
    tagger = cp.SequenceTagger(lam=0.01).fit(X, y)
    assert set(tagger.vectorizer_.feature_names_) == {
        "word=the",
        "word=cat",
        "word=dogs",
        "long",
        "size",
    }
    assert tagger.n_features_in_ == 5
    # What was not there in the fit is left out.
    assert tagger.predict([[{"word": "the", "color": "red"}, {"unheard": 1}]])[0][0] == "D"
    strings = [[["the"], ["cat", "long", "long"]], [["dogs", "long"]], [[], ["cat"]]]
    tagger = cp.SequenceTagger(lam=0.01).fit(strings, [*y, ["N", "N"]])
    assert tagger.predict([[["the", "unheard"], {"cat", "long"}]])[0].tolist() == ["D", "N"]


@every_loss
def test_labels_may_be_numbers_and_only_one(loss):
    tagger = cp.SequenceTagger(loss).fit([np.eye(2), np.eye(2)], [[7, 7], [7, 7]])
    assert tagger.predict([np.eye(2)])[0].tolist() == [7, 7]
    assert tagger.certificate_.objective == 0.0


@every_loss
def test_empty_sequences(loss, data):
    X, y = [*data.X[:9], np.empty((0, 3)), []], [*data.y[:9], [], []]
    tagger = cp.SequenceTagger(loss, lam=0.1).fit(X, y)
    assert [len(labels) for labels in tagger.predict(X)] == [*data.lengths[:9], 0, 0]
    assert tagger.predict([]) == []
    assert tagger.predict([[]])[0].shape == (0,)
    # They count as sequences whose loss is zero.
    full = cp.SequenceTagger(loss, lam=0.1 * 11 / 9, tol=1e-6).fit(X[:9], y[:9])
    other = cp.SequenceTagger(loss, lam=0.1, tol=1e-6).fit(X, y)
    assert other.certificate_.objective * 11 / 9 == pytest.approx(
        full.certificate_.objective, rel=2e-6
    )


def test_unseen_labels_are_wrong(data):
    tagger = cp.SequenceTagger(lam=0.1).fit(data.X, data.y)
    assert tagger.score(data.X[:2], [["mauve"] * len(X) for X in data.X[:2]]) == 0.0


@every_loss
def test_weights_are_copies(loss, data):
    X, y = data.X[:6], data.y[:6]
    copies = np.array([1, 0, 2, 1, 3, 1])
    options = {"lam": 0.1, "tol": 1e-8}
    weighted = cp.SequenceTagger(loss, **options).fit(X, y, sample_weight=copies)
    order = np.repeat(np.arange(6), copies)
    copied = cp.SequenceTagger(loss, **options).fit([X[i] for i in order], [y[i] for i in order])
    assert weighted.certificate_.objective == pytest.approx(copied.certificate_.objective, rel=2e-8)


@every_loss
def test_without_ends(loss, data):
    tagger = cp.SequenceTagger(loss, lam=0.1, fit_ends=False).fit(data.X, data.y)
    with_ends = cp.SequenceTagger(loss, lam=0.1).fit(data.X, data.y)
    np.testing.assert_array_equal([tagger.start_, tagger.end_], 0.0)
    assert tagger.certificate_.objective >= with_ends.certificate_.lower_bound


@pytest.mark.parametrize("method", [*STRUCTURED_METHODS, cp.bmrm(planes=20)], ids=str)
def test_every_method_finds_the_same(method, data):
    X, y = data.X[:20], data.y[:20]
    loss = "crf" if str(method).endswith("quasi-newton") else "margin"
    tagger = cp.SequenceTagger(loss, lam=0.1, method=method).fit(X, y)
    tight = cp.SequenceTagger(loss, lam=0.1, tol=1e-6).fit(X, y)
    assert tagger.certificate_.status == "optimal"
    assert tagger.certificate_.lower_bound <= tight.certificate_.objective
    assert tight.certificate_.lower_bound <= tagger.certificate_.objective


def test_jobs_leave_no_trace(data):
    coefs = [cp.SequenceTagger(n_jobs=n).fit(data.X, data.y).coef_ for n in (1, 2, -1)]
    np.testing.assert_array_equal(coefs[0], coefs[1])
    np.testing.assert_array_equal(coefs[0], coefs[2])


def test_clone_and_pickle(data):
    tagger = cp.SequenceTagger("crf", lam=0.1, fit_ends=False)
    assert clone(tagger).get_params() == tagger.get_params()
    tagger.fit(data.X, data.y)
    again = pickle.loads(pickle.dumps(tagger))
    for one, other in zip(tagger.predict(data.X), again.predict(data.X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_limits_warn(data, capsys):
    tagger = cp.SequenceTagger("crf", lam=1e-4, max_iter=2, verbose=1)
    with pytest.warns(ConvergenceWarning, match="SequenceTagger ended with status iteration_limit"):
        tagger.fit(data.X, data.y)
    assert capsys.readouterr().out
    assert tagger.n_iter_ == 2
    stopped = cp.SequenceTagger("crf", lam=1e-4, callbacks=[lambda state: True])
    with pytest.warns(ConvergenceWarning, match="stopped"):
        stopped.fit(data.X, data.y)


def test_what_is_refused(data):
    fit = cp.SequenceTagger().fit
    X, y = data.X[:3], data.y[:3]
    named = [[["a"]], [["b"]]]
    for arguments, options, said in [
        ((np.ones((4, 2)), [0, 1, 0, 1]), {}, "say by lengths"),
        ((scipy.sparse.eye_array(4), [0, 1, 0, 1]), {}, "say by lengths"),
        (("abc", ["a"]), {}, "must be a list of sequences"),
        ((X, y[:2]), {}, "y has 2 sequences, X has 3"),
        ((X, [*y[:2], y[2][:-1]]), {}, rf"sequence 2 has {len(y[2])} tokens, but"),
        ((X, [*y[:2], "red"]), {}, r"y\[2\] must be a list of labels"),
        ((X, None), {}, "y is None"),
        (([X[0], np.ones((2, 5))], y[:2]), {}, "sequence 1 has 5 features, sequence 0 has 3"),
        (([X[0], [[1.0], [2.0, 3.0]]], y[:2]), {}, "sequence 1 have different numbers"),
        (([X[0], np.ones(3)], y[:2]), {}, "sequence 1 must be a matrix"),
        (([X[0], named[0]], y[:2]), {}, "sequence 0 is a matrix, but others have tokens"),
        (([[["a"], 3]], [["x", "y"]]), {}, "token 1 must be a dictionary or a list of strings"),
        (([np.array([[np.nan]])], [["x"]]), {}, "NaN"),
        (([[], []], [[], []]), {}, "no token to learn from"),
        ((X, y), {"sample_weight": np.zeros(3)}, "at least one non-zero"),
        (([X[0], []], [y[0], []]), {"sample_weight": [0.0, 1.0]}, "no token that counts"),
        ((np.ones((4, 2)), [0, 1, 0, 1]), {"lengths": [1, 2]}, "lengths sum to 3, X has 4"),
        ((np.ones((4, 2)), [0, 1, 0]), {"lengths": [1, 3]}, "y has 3 labels, X has 4 tokens"),
        ((np.ones((4, 2)), [0, 1, 0, 1]), {"lengths": [5, -1]}, "whole numbers"),
        ((np.ones((2, 2)), [0.5, 1.0]), {"lengths": [2]}, "continuous"),
    ]:
        with pytest.raises(ValueError, match=said):
            fit(*arguments, **options)
    for options, said in [
        ({"loss": "crv"}, "did you mean 'crf'"),
        ({"pairs": "some"}, "unknown pairs 'some': known are auto, all, observed"),
        ({"method": "newton"}, "unknown method 'newton'"),
        ({"loss": "margin", "method": "quasi-newton"}, "'quasi-newton' is for smooth losses"),
        ({"lam": 0.0}, "lam"),
        ({"C": 0.0}, "C must be positive"),
        ({"C": 1.0, "lam": 1.0}, "give lam or C, not both"),
        ({"n_jobs": 0}, "n_jobs"),
    ]:
        with pytest.raises(ValueError, match=said):
            cp.SequenceTagger(**options).fit(X, y)


def test_predictions_that_are_refused(data):
    with pytest.raises(NotFittedError, match="SequenceTagger instance is not fitted"):
        cp.SequenceTagger().predict(data.X)
    tagger = cp.SequenceTagger(lam=0.1).fit(data.X, data.y)
    named = cp.SequenceTagger(lam=0.1).fit([[["a"], ["b"]]], [["x", "y"]])
    for model, X, said in [
        (tagger, [np.ones((2, 5))], "5 features, but SequenceTagger is expecting 3"),
        (tagger, [[["a"]]], "these tokens have names"),
        (named, data.X, "these are matrices"),
    ]:
        with pytest.raises(ValueError, match=said):
            model.predict(X)
    with pytest.raises(ValueError, match="no token to score"):
        tagger.score([[]], [[]])


class RowTagger(ClassifierMixin, cp.SequenceTagger):
    """A tagger of sequences of one token each: a classifier, which scikit-learn can check."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, lengths=self._ones(X), sample_weight=sample_weight)

    def predict(self, X):
        return super().predict(X, lengths=self._ones(X))

    def score(self, X, y):
        return cp.SequenceTagger.score(self, X, y, lengths=self._ones(X))

    @staticmethod
    def _ones(X):
        return np.ones((X if hasattr(X, "shape") else np.asarray(X)).shape[:1], dtype=int)


@parametrize_with_checks(
    [RowTagger(lam=0.1, tol=1e-9), RowTagger("crf", lam=0.1, tol=1e-9)],
)
def test_estimator_checks(estimator, check):
    check(estimator)


COLUMNS = [[("the", "D"), ("cat", "N"), ("sleeps", "V")], [("dogs", "N"), ("bark", "V")]]
ROLES = [["B", "I", "O"], ["B", "O"]]


@every_loss
def test_templates_make_features_of_columns(loss):
    tagger = cp.SequenceTagger(loss, lam=0.1, templates="U0:%x[0,0]\nU1:%x[-1,1]", tol=1e-6)
    tagger.fit(COLUMNS, ROLES)
    assert set(tagger.vectorizer_.feature_names_) == {
        *(f"U0:{word}" for word in ("the", "cat", "sleeps", "dogs", "bark")),
        *(f"U1:{tag}" for tag in ("_B-1", "D", "N")),
    }
    before = [["_B-1", "D", "N"], ["_B-1", "N"]]
    strings = [
        [[f"U0:{word}", f"U1:{tag}"] for (word, _), tag in zip(x, tags, strict=True)]
        for x, tags in zip(COLUMNS, before, strict=True)
    ]
    same = cp.SequenceTagger(loss, lam=0.1, tol=1e-6).fit(strings, ROLES)
    assert tagger.certificate_.objective == pytest.approx(same.certificate_.objective, rel=2e-6)
    # More columns than templates ask for are left alone; words that were not there have no weight.
    longer = [[(*token, "O") for token in x] for x in [*COLUMNS, [("unheard", "N")]]]
    assert [len(labels) for labels in tagger.predict(longer)] == [3, 2, 1]


@every_loss
def test_observed_pairs_have_weights(loss):
    every = cp.SequenceTagger(loss, lam=0.1, templates="chunking", pairs="all")
    every.fit(COLUMNS, ROLES)
    some = cp.SequenceTagger(loss, lam=0.1, templates="chunking", pairs="observed")
    some.fit(COLUMNS, ROLES)
    assert some.coef_.shape == every.coef_.shape
    assert some.coef_.nnz < every.coef_.size
    # Fewer weights can do no better.
    assert some.certificate_.objective >= every.certificate_.lower_bound
    emissions = some.coef_.toarray() @ some.vectorizer_.transform(COLUMNS[1], np.array([2])).T
    first, second = np.asarray(emissions.T)
    scores = first[:, None] + second + some.transitions_ + some.start_[:, None] + some.end_
    best = np.unravel_index(scores.argmax(), scores.shape)
    assert some.predict(COLUMNS)[1].tolist() == some.classes_[list(best)].tolist()
    by_kind = cp.SequenceTagger(loss, lam=0.1, templates="chunking").fit(COLUMNS, ROLES)
    np.testing.assert_array_equal(by_kind.coef_.toarray(), some.coef_.toarray())
    assert some.predict([[]])[0].shape == (0,)


def test_pairs_are_chosen_by_the_kind_of_features(data, tmp_path):
    by_kind = cp.SequenceTagger(lam=0.1)
    dictionaries = [[{"word": word} for word in words] for words in (["a", "b"], ["c"])]
    labels = [["x", "y"], ["y"]]
    for X, y, observed in ((data.X, data.y, False), (dictionaries, labels, True)):
        tagger = by_kind.fit(X, y)
        assert scipy.sparse.issparse(tagger.coef_) == observed
        cp.save_model(tagger, tmp_path / "model")
        loaded = cp.load_model(tmp_path / "model")
        assert loaded.pairs == "auto"
        for one, other in zip(
            tagger.predict_marginals(X), loaded.predict_marginals(X), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_columns_that_are_refused():
    for options, X, said in [
        ({"templates": "chunking"}, [np.eye(2)], "templates need tokens that are lists"),
        ({"templates": "chunking"}, [[["a"], ["b"]]], "the templates ask for 2"),
        ({"templates": "nothing"}, COLUMNS, "a template begins with U"),
        ({"templates": "words", "min_count": 0}, COLUMNS, "min_count"),
        ({"pairs": "obserbed"}, COLUMNS, "did you mean 'observed'"),
        ({"pairs": "observed"}, [np.eye(2)], "need a sparse matrix"),
    ]:
        with pytest.raises(ValueError, match=said):
            cp.SequenceTagger(**options).fit(X, [["x", "y"], ["x"]][: len(X)])


@pytest.mark.parametrize(
    ("loss", "method"),
    [
        (loss, method)
        for loss in LOSSES
        for method in STRUCTURED_METHODS
        if loss == "crf" or not method.endswith("quasi-newton")  # which are for smooth losses
    ],
)
def test_methods_for_observed_pairs(loss, method):
    rng = np.random.default_rng(0)
    words = [[f"w{k}" for k in rng.integers(0, 9, size)] for size in rng.integers(1, 7, 30)]
    X = [[(word,) for word in sentence] for sentence in words]
    y = [[int(word[1]) % 3 if rng.random() < 0.8 else 0 for word in x] for x in words]
    options = {"lam": 0.01, "pairs": "observed", "templates": "words"}
    exact = cp.SequenceTagger(loss, **options, tol=1e-5, method="bmrm").fit(X, y).certificate_
    tagger = cp.SequenceTagger(loss, **options, method=method)
    if (loss, method) == ("crf", "block-ascent"):
        with pytest.raises(ValueError, match="a loss that is a maximum over outputs"):
            tagger.fit(X, y)
        return
    found = tagger.fit(X, y).certificate_
    assert found.status == "optimal"
    assert found.lower_bound <= exact.objective
    assert exact.lower_bound <= found.objective


class Watch:
    """A callback as scikit-learn has them, which scores the model after every iteration."""

    def __init__(self, *, stop=False):
        self.stop, self.tasks, self.scores = stop, [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X, y, metadata, fitted_estimator):
        self.tasks.append(context.task_name)
        self.scores.append(fitted_estimator.score(X, y, **(metadata or {})))
        return self.stop and context.task_name == "iteration"


@pytest.mark.parametrize("flat", [False, True])
def test_scikit_learn_callbacks(flat):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from version 1.9 on")
    X = [np.eye(3), np.eye(2, 3), -np.eye(3)]
    y = [[0, 1, 2], [0, 1], [2, 2, 0]]
    form = {"lengths": [3, 2, 3]} if flat else {}
    if flat:
        X, y = np.vstack(X), np.concatenate(y)
    watch = Watch()
    tagger = cp.SequenceTagger("crf", lam=0.01).set_callbacks(watch).fit(X, y, **form)
    assert watch.tasks == ["iteration"] * tagger.n_iter_ + ["fit"]
    assert watch.scores[-1] == tagger.score(X, y, **form)
    tagger = cp.SequenceTagger("crf", lam=0.01).set_callbacks(Watch(stop=True))
    with pytest.warns(ConvergenceWarning, match="stopped"):
        tagger.fit(X, y, **form)
    assert tagger.n_iter_ == 1


@pytest.mark.parametrize("callbacks", [None, print])
def test_callbacks_are_a_sequence(callbacks):
    with pytest.raises(ValueError, match="callbacks must be a sequence of callables"):
        cp.SequenceTagger(callbacks=callbacks).fit([np.eye(2)], [[0, 1]])
