"""lam by cross-validation, in every estimator: the folds, the rule, the path, the picture."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

import cutplane as cp
from cutplane.estimators import ESTIMATORS
from cutplane.estimators.description import defaults_of
from cutplane.estimators.lams import RULES, chosen_lam, standard_errors

from .registered import data_for, made

SEARCH = cp.CrossValidation(cv=3, lams=[1.0, 0.1, 0.01])
N = 60


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    return X, X[:, 0] + 0.5 * rng.normal(size=N)


def sequences():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(3, 2)) for _ in range(18)]
    return X, [["a" if row[0] > 0 else "b" for row in x] for x in X]


def problem(name):
    """Return an estimator, and data that suit it."""
    X, z = rows()
    grades = np.digitize(z, [-0.5, 0.5])
    some = np.where(np.arange(N) % 2, -1, (z > 0).astype(int))
    chains, tags = sequences()
    hmm = {"n_states": 1, "likelihood_iter": 2, "tol": 0.1}
    known = {
        "LinearClassifier": (cp.LinearClassifier("logistic"), X, grades, {}),
        "LinearRegressor": (cp.LinearRegressor("absolute"), X, z, {}),
        "OrdinalClassifier": (cp.OrdinalClassifier(), X, grades, {}),
        "LinearRanker": (cp.LinearRanker(), X, grades, {"qid": np.arange(N) // 6}),
        "TransductiveClassifier": (cp.TransductiveClassifier(), X, some, {}),
        "SequenceTagger": (cp.SequenceTagger("crf"), chains, tags, {}),
        "LinearQuantiles": (cp.LinearQuantiles([0.2, 0.8], tol=0.01), X, z, {}),
        "VectorRegressor": (cp.VectorRegressor(), X, np.column_stack([z, X[:, 0] - z]), {}),
        "MultilabelClassifier": (cp.MultilabelClassifier(), X, (X[:, :2] > 0).astype(int), {}),
        "StructuredPredictor": (cp.StructuredPredictor(cp.MulticlassModel()), X, grades, {}),
        "HMMClassifier": (cp.HMMClassifier(**hmm), chains, [tag[0] for tag in tags], {}),
        "KernelClassifier": (cp.KernelClassifier(), X, grades, {}),
        "KernelRegressor": (cp.KernelRegressor("absolute"), X, z, {}),
        "HMMTagger": (cp.HMMTagger(**hmm), chains, tags, {}),
    }
    return known[name] if name in known else (made(ESTIMATORS[name]), *data_for(ESTIMATORS[name]))


WITH_LAM = [name for name, of in ESTIMATORS.items() if "lam" in defaults_of(of)]


@pytest.mark.parametrize("name", WITH_LAM)
def test_every_estimator_with_a_lam_can_choose_it(tmp_path, name):
    estimator, X, y, options = problem(name)
    model = estimator.set_params(lam=SEARCH).fit(X, y, **options)
    assert model.lam is SEARCH
    assert model.lam_ in (1.0, 0.1, 0.01)
    assert model.scores_.shape == (3, 3)
    assert model.lams_.tolist() == [1.0, 0.1, 0.01]
    assert len(model.path_certificates_) == 3
    best = model.scores_.mean(axis=0)
    assert model.lam_ == model.lams_[best.argmax()]
    plain = clone(estimator).set_params(lam=model.lam_).fit(X, y, **options)
    np.testing.assert_array_equal(_flat(model.predict(X)), _flat(plain.predict(X)))
    assert model.evaluations_ > plain.evaluations_
    cp.save_model(model, tmp_path / "m")
    assert cp.load_model(tmp_path / "m").lam == model.lam_
    assert len(model.plot_path().axes) == 3
    assert not hasattr(model.set_params(lam=0.1).fit(X, y, **options), "scores_")


@pytest.mark.parametrize("name", WITH_LAM)
def test_every_estimator_with_a_lam_can_choose_it_by_weights(name):
    estimator, X, y, options = problem(name)
    estimator.set_params(lam=SEARCH)
    plain = clone(estimator).fit(X, y, **options)
    weighted = estimator.fit(X, y, **options, sample_weight=np.ones(len(X)))
    np.testing.assert_allclose(weighted.scores_, plain.scores_, atol=1e-12)
    assert weighted.lam_ == plain.lam_


def test_tokens_have_the_weight_of_their_sequence():
    X, y = sequences()
    counts = np.arange(len(X)) % 3
    copies = [[each for each, k in zip(of, counts, strict=True) for _ in range(k)] for of in (X, y)]
    for model in (
        cp.SequenceTagger(lam=10.0),
        cp.HMMTagger(n_states=1, likelihood_iter=2, tol=0.1),
    ):
        model.fit(X, [["b", *tags[1:]] for tags in y])
        assert model.score(X, y) < 1.0
        assert model.score(X, y, sample_weight=counts) == pytest.approx(model.score(*copies))


def _flat(predicted):
    return np.concatenate([np.ravel(each) for each in predicted])


def test_scores_are_those_of_fits_by_hand():
    X, z = rows()
    grades = np.digitize(z, [-0.5, 0.5])
    cases = [
        (cp.OrdinalClassifier(tol=1e-8), grades, {}, StratifiedKFold(3).split(X, grades)),
        (cp.LinearQuantiles([0.2, 0.8], tol=1e-7), z, {}, KFold(3).split(X)),
    ]
    for estimator, y, options, splits in cases:
        model = clone(estimator).set_params(lam=SEARCH).fit(X, y, **options)
        for scores, (train, test) in zip(model.scores_, splits, strict=True):
            by_hand = [
                clone(estimator).set_params(lam=lam).fit(X[train], y[train]).score(X[test], y[test])
                for lam in model.lams_
            ]
            np.testing.assert_allclose(scores, by_hand, atol=2e-3)


def test_documents_of_a_query_stay_together():
    X, z = rows()
    y, qid = np.digitize(z, [-0.5, 0.5]), np.array([f"q{k % 10}" for k in range(N)])
    model = cp.LinearRanker(lam=SEARCH, tol=1e-8).fit(X, y, qid=qid)
    groups = np.unique(qid, return_inverse=True)[1]
    for scores, (train, test) in zip(
        model.scores_, GroupKFold(3).split(X, groups=groups), strict=True
    ):
        assert not set(qid[train]) & set(qid[test])
        fitted = cp.LinearRanker(lam=0.1, tol=1e-8).fit(X[train], y[train], qid=qid[train])
        by_hand = fitted.score(X[test], y[test], qid=qid[test])
        assert scores[1] == pytest.approx(by_hand, abs=0.02)


def test_of_few_labels_some_are_hidden():
    """Unlabeled examples are neither scored nor left out of a fit."""
    X, z = rows()
    y = np.where(np.arange(N) % 3, None, np.where(z > 0, "up", "down"))
    model = cp.TransductiveClassifier(lam=SEARCH).fit(X, y)
    assert ((model.scores_ * 20 / 3 % 1 < 1e-9) | (model.scores_ <= 1)).all()
    assert model.scores_.max() > 0.5
    assert set(model.classes_) == {"up", "down"}


def test_the_default_grid_reaches_four_decades():
    X, z = rows()
    model = cp.LinearQuantiles([0.5], lam=cp.CrossValidation(cv=2, lams=3), tol=0.05).fit(X, z)
    assert model.lams_[0] / model.lams_[-1] == pytest.approx(1e4)
    assert len(cp.OrdinalClassifier(lam="cv", tol=0.1).fit(X, z > 0).lams_) == 10


def test_weights_and_scoring():
    X, z = rows()
    weights = np.where(np.arange(N) < 40, 1.0, 0.0)
    splits = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(1, N, 2), np.arange(0, N, 2))]
    search = cp.CrossValidation(splits, [1.0, 0.1], scoring="neg_mean_absolute_error")
    model = cp.LinearRegressor(lam=search).fit(X, z, sample_weight=weights)
    assert (model.scores_ < 0).all()
    kept = [(train[train < 40], test[test < 40]) for train, test in splits]
    search = cp.CrossValidation(
        [(np.searchsorted(np.arange(40), a), b) for a, b in kept],
        [1.0, 0.1],
        scoring="neg_mean_absolute_error",
    )
    other = cp.LinearRegressor(lam=search).fit(X[:40], z[:40])
    np.testing.assert_allclose(model.scores_, other.scores_, rtol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_rules_in_all_places(run_cli, tmp_path, rule):
    X, z = rows()
    y = np.digitize(z, [0.0])
    generic = cp.LinearClassifier(lam=cp.CrossValidation(3, [1.0, 0.1, 0.01], rule)).fit(X, y)
    twin = cp.LinearClassifierCV(lams=[1.0, 0.1, 0.01], cv=3, rule=rule).fit(X, y)
    for model in (generic, twin):
        assert model.lam_ == model.lams_[chosen_lam(model.scores_, rule)]
        assert len(model.path_certificates_) == 3
    report = run_cli(X, y, "--cv", "3", "--rule", rule.replace("_", "-"))
    found = report["cross_validation"]
    expected = cp.LinearClassifierCV(cv=3, rule=rule).fit(X, y)
    assert report["lam"] == pytest.approx(expected.lam_)
    np.testing.assert_allclose(found["scores"], expected.scores_.mean(axis=0), atol=0.05)
    assert report["estimator"] == "LinearClassifier"


@pytest.fixture
def run_cli(tmp_path):
    from sklearn.datasets import dump_svmlight_file
    from typer.testing import CliRunner

    from cutplane.cli.app import app

    def run(X, y, *options):
        dump_svmlight_file(X, y, str(tmp_path / "d.svm"), zero_based=False)
        result = CliRunner().invoke(app, ["fit", str(tmp_path / "d.svm"), "--json", "-q", *options])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


@given(
    st.integers(2, 6).flatmap(
        lambda folds: st.lists(
            st.lists(st.floats(-1, 1), min_size=folds, max_size=folds), min_size=1, max_size=6
        )
    )
)
def test_one_standard_error(columns):
    """The largest lam that is good enough: not better than the best, and never a smaller lam."""
    scores = np.array(columns).T
    best, careful = chosen_lam(scores, "best"), chosen_lam(scores, "one_standard_error")
    means, errors = scores.mean(axis=0), standard_errors(scores)
    assert means[best] == means.max()
    assert careful <= best
    assert means[careful] >= means[best] - errors[best]
    assert all(means[k] < means[best] - errors[best] for k in range(careful))


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (cp.LinearRegressor(lam="auto"), "lam must be positive and finite, or 'cv'"),
        (cp.LinearRegressor(lam="cv", C=1.0), "give lam or C, not both"),
        (cp.LinearRegressorCV(rule="wurst"), "rule must be one of best, one_standard_error"),
        (cp.LinearRegressor(lam=cp.CrossValidation(lams=0)), "lams must be at least 1"),
        (cp.LinearRegressor(lam=cp.CrossValidation(lams=[-1])), "every lam must be positive"),
    ],
)
def test_what_is_refused(estimator, said):
    with pytest.raises(ValueError, match=said):
        estimator.fit(*rows())


def test_what_else_is_refused():
    X, z = rows()
    with pytest.raises(ValueError, match="rule must be one of best, one_standard_error"):
        cp.CrossValidation(rule="wurst")
    with pytest.raises(ValueError, match="'cv' is for fit"):
        cp.LinearRegressor(lam="cv").partial_fit(X, z)
    with pytest.raises(ValueError, match="takes a list of sequences"):
        cp.SequenceTagger(lam="cv").fit(X, z > 0, lengths=[30, 30])


def test_no_picture_without_a_search():
    X, z = rows()
    with pytest.raises(AttributeError, match="fit with lam='cv' first"):
        cp.LinearRegressor(lam=0.1).fit(X, z).plot_path()


def test_a_time_limit_is_for_all():
    X, z = rows()
    estimator = cp.LinearQuantiles(lam="cv", time_limit=1e-6, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        estimator.fit(X, z)


def test_ctrl_c_ends_a_search(monkeypatch):
    X, z = rows()
    monkeypatch.setattr("cutplane.estimators.cross_validation.interrupted_so_far", lambda: True)
    with pytest.raises(KeyboardInterrupt):
        cp.LinearRegressor(lam="cv").fit(X, z)
