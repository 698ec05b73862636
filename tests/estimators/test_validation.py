"""``cp.Validation``: scores on other data while a fit runs."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

import cutplane as cp


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 12))
    y = X[:, 0] + rng.normal(size=160)
    return (X[::2], y[::2]), (X[1::2], y[1::2])


def regressor(*callbacks, **options):
    given = {"lam": 1e-4, "method": "bmrm", "tol": 1e-6} | options
    return cp.LinearRegressor("absolute", callbacks=callbacks, **given)


def test_every_iteration_is_scored(data):
    train, test = data
    watch = cp.Validation(test)
    model = regressor(watch).fit(*train)
    assert [iteration for iteration, _ in watch.scores] == list(range(1, model.n_iter_ + 1))
    assert watch.scores[-1][1] == pytest.approx(model.score(*test), abs=1e-9)
    best = max(score for _, score in watch.scores)
    assert watch.best_score == best == watch.best_model.score(*test)
    assert watch.best_iteration == next(i for i, score in watch.scores if score == best)


def test_patience_ends_the_fit(data):
    train, test = data
    watch = cp.Validation(test, patience=3)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model = regressor(watch).fit(*train)
    assert model.certificate_.status == "stopped"
    assert model.n_iter_ == watch.best_iteration + 3
    assert all(score <= watch.best_score for _, score in watch.scores[-3:])


def test_the_best_model_is_a_model(data, tmp_path):
    train, test = data
    watch = cp.Validation(test, patience=2)
    with pytest.warns(ConvergenceWarning):
        regressor(watch).fit(*train)
    best = watch.best_model
    own = best.certificate_
    assert own.lower_bound <= own.objective
    # The certificate is of the copy's own coefficients.
    exact = regressor(tol=1e-9, max_iter=20_000).fit(*train).certificate_
    assert own.lower_bound <= exact.objective
    assert own.objective >= exact.lower_bound
    cp.save_model(best, tmp_path / "model")
    again = cp.load_model(tmp_path / "model")
    assert (again.predict(test[0]) == best.predict(test[0])).all()
    assert again.certificate_ == own
    assert best.callbacks == ()


def test_min_delta_and_every(data):
    train, test = data
    watch = cp.Validation(test, every=5)
    model = regressor(watch).fit(*train)
    assert [i for i, _ in watch.scores] == list(range(5, model.n_iter_ + 1, 5))
    demanding = cp.Validation(test, patience=2, min_delta=10.0)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model = regressor(demanding).fit(*train)
    assert model.n_iter_ == 3
    assert demanding.best_iteration == 1


def test_scorers_of_scikit_learn(data):
    train, test = data
    watch = cp.Validation(test, scoring="neg_mean_absolute_error")
    model = regressor(watch).fit(*train)
    error = np.abs(test[1] - model.predict(test[0])).mean()
    assert watch.scores[-1][1] == pytest.approx(-error, abs=1e-9)
    own = cp.Validation(test, scoring=lambda model, X, y: 7.0)
    regressor(own).fit(*train)
    assert own.best_score == 7.0
    assert own.best_iteration == 1


def test_whoever_listens_may_end_or_raise(data, tmp_path):
    train, test = data
    lines = []

    def listen(iteration, score):
        lines.append(json.dumps({"iteration": iteration, "score": score}))
        return iteration == 4

    with pytest.warns(ConvergenceWarning, match="stopped"):
        regressor(cp.Validation(test, on_score=listen)).fit(*train)
    assert len(lines) == 4

    class Pruned(Exception):
        pass

    def prune(iteration, score):
        raise Pruned

    with pytest.raises(Pruned):
        regressor(cp.Validation(test, on_score=prune)).fit(*train)


def test_a_second_fit_begins_anew(data):
    train, test = data
    watch = cp.Validation(test)
    model = regressor(watch).fit(*train)
    first = list(watch.scores)
    model.fit(*train)
    assert watch.scores == first


def test_searches_clone_it(data):
    train, test = data
    watch = cp.Validation(test)
    assert clone(regressor(watch)).callbacks[0] is not watch
    assert len(cross_val_score(regressor(watch), *train, cv=2)) == 2
    assert watch.scores == []


@pytest.mark.parametrize(
    "model",
    [
        cp.LinearClassifier("logistic", lam=0.1),
        cp.LinearClassifier("logistic", lam=0.1, multi_class="softmax"),
        cp.OrdinalClassifier("logistic", lam=0.1),
        cp.LinearQuantiles(lam=0.1),
        cp.LinearClassifierCV("logistic", lams=[0.1, 1.0], cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_estimators(data, model):
    (X, y), _ = data
    if not isinstance(model, cp.LinearQuantiles):
        joint = getattr(model, "multi_class", "ovr") != "ovr"
        several = joint or isinstance(model, cp.OrdinalClassifier)
        y = np.digitize(y, [-0.7, 0.7] if several else [0.0])
    watch = cp.Validation((X, y))
    fitted = clone(model).set_params(callbacks=[watch]).fit(X, y)
    assert watch.scores[-1][1] == pytest.approx(fitted.score(X, y), abs=0.02)


def test_taggers_and_rankers(data):
    X = [[{"word": "the"}, {"word": "cat"}], [{"word": "cat"}]] * 4
    y = [["D", "N"], ["N"]] * 4
    watch = cp.Validation((X, y))
    tagger = cp.SequenceTagger("crf", lam=0.1, callbacks=[watch]).fit(X, y)
    assert watch.scores[-1][1] == tagger.score(X, y)
    (rows, targets), _ = data
    qid, relevance = np.arange(80) // 8, (targets > 0).astype(float)
    watch = cp.Validation((rows, relevance), score_params={"qid": qid})
    ranker = cp.LinearRanker(lam=0.1, callbacks=[watch]).fit(rows, relevance, qid=qid)
    assert watch.scores[-1][1] == pytest.approx(ranker.score(rows, relevance, qid=qid), abs=1e-9)


def test_classes_one_by_one_have_no_model_to_score(data):
    (X, y), _ = data
    labels = np.digitize(y, [-0.7, 0.7])
    watch = cp.Validation((X, labels))
    with pytest.raises(ValueError, match="multi_class='softmax'"):
        cp.LinearClassifier("logistic", lam=0.1, callbacks=[watch]).fit(X, labels)


def test_wrong_arguments(data):
    _, test = data
    with pytest.raises(ValueError, match="tuple of X and y"):
        cp.Validation(test[0])
    with pytest.raises(ValueError, match="every must be at least 1"):
        cp.Validation(test, every=0)
    with pytest.raises(ValueError, match="patience must be at least 1"):
        cp.Validation(test, patience=0)
    with pytest.raises(ValueError, match="min_delta must not be negative"):
        cp.Validation(test, min_delta=float("nan"))
