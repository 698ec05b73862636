"""Estimators that choose lam: the same choice as a grid search with the plain ones, for less."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cutplane as cp
from cutplane import LinearClassifier, LinearClassifierCV, LinearRegressor, LinearRegressorCV
from cutplane.data import as_rows

LAMS = [10.0, 1.0, 0.1, 0.01]
PINBALL = make_scorer(mean_pinball_loss, alpha=0.9, greater_is_better=False)


@pytest.mark.parametrize(
    ("data", "ours", "plain", "options"),
    [
        ("cancer", LinearClassifierCV, LinearClassifier, {"loss": "hinge"}),
        (
            "cancer",
            LinearClassifierCV,
            LinearClassifier,
            {"loss": "logistic", "scoring": "roc_auc"},
        ),
        ("cancer", LinearClassifierCV, LinearClassifier, {"class_weight": "balanced"}),
        ("iris", LinearClassifierCV, LinearClassifier, {"loss": "squared_hinge"}),
        ("iris", LinearClassifierCV, LinearClassifier, {"loss": "hinge", "fit_intercept": False}),
        ("diabetes", LinearRegressorCV, LinearRegressor, {"loss": "squared"}),
        (
            "diabetes",
            LinearRegressorCV,
            LinearRegressor,
            {"loss": "quantile", "quantile": 0.9, "scoring": PINBALL},
        ),
    ],
)
def test_agrees_with_a_grid_search(data, ours, plain, options, request):
    X, y = request.getfixturevalue(data)
    options = dict(options)
    scoring = options.pop("scoring", None)
    shuffled = (KFold if data == "diabetes" else StratifiedKFold)(4, shuffle=True, random_state=0)
    model = ours(lams=LAMS, cv=shuffled, scoring=scoring, tol=1e-8, **options).fit(X, y)
    search = GridSearchCV(plain(tol=1e-8, **options), {"lam": LAMS}, cv=shuffled, scoring=scoring)
    search.fit(X, y)
    expected = [search.cv_results_[f"split{fold}_test_score"] for fold in range(4)]
    np.testing.assert_allclose(model.scores_, expected, rtol=1e-5)
    np.testing.assert_array_equal(model.lams_, LAMS)
    assert model.lam_ == search.best_params_["lam"]
    np.testing.assert_allclose(model.coef_, search.best_estimator_.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_defaults(data, request):
    X, y = request.getfixturevalue(data)
    model = LinearClassifierCV().fit(X, y)
    assert model.scores_.shape == (5, 20)
    assert model.lams_[0] / model.lams_[-1] == pytest.approx(1e4)
    mean = model.scores_.mean(axis=0)
    assert model.lam_ == model.lams_[mean == mean.max()].max()
    certificates = model.certificate_ if data == "iris" else [model.certificate_]
    assert all(certificate.status == "optimal" for certificate in certificates)
    assert model.score(X, y) > 0.9
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_the_last_fit_is_certified_for_the_chosen_lam(diabetes):
    X, y = diabetes
    model = LinearRegressorCV("absolute", cv=3).fit(X, y)
    plain = LinearRegressor("absolute", lam=model.lam_, tol=1e-8).fit(X, y)
    assert model.certificate_.lower_bound <= plain.certificate_.objective
    assert plain.certificate_.lower_bound <= model.certificate_.objective
    assert model.certificate_.relative_gap <= 1e-3
    assert model.evaluations_ > sum(record.evaluations > 0 for record in model.history_)


def test_order_and_repetition_of_lams_do_not_matter(cancer):
    one = LinearClassifierCV(lams=LAMS, cv=3).fit(*cancer)
    other = LinearClassifierCV(lams=[*LAMS[::-1], 1.0], cv=3).fit(*cancer)
    np.testing.assert_array_equal(one.scores_, other.scores_)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    with pytest.raises(ValueError, match="every lam must be positive and finite, got -1"):
        LinearClassifierCV(lams=[-1.0]).fit(*cancer)


def test_splits_may_come_from_a_generator(diabetes):
    X, y = diabetes
    splitter = ShuffleSplit(2, random_state=0)
    by_splitter = LinearRegressorCV(lams=LAMS, cv=splitter).fit(X, y)
    by_generator = LinearRegressorCV(lams=LAMS, cv=splitter.split(X)).fit(X, y)
    np.testing.assert_array_equal(by_splitter.scores_, by_generator.scores_)


@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csr_array, pd.DataFrame, np.float32])
def test_kinds_of_data(cancer, convert):
    X, y = cancer
    model = LinearClassifierCV(lams=LAMS, cv=3).fit(convert(X), y)
    expected = LinearClassifierCV(lams=LAMS, cv=3).fit(X, y)
    np.testing.assert_allclose(model.scores_, expected.scores_, atol=0.006)
    assert model.predict(convert(X)).shape == y.shape


def test_threads_do_not_change_a_bit(cancer):
    X, y = np.tile(cancer[0], (20, 1)), np.tile(cancer[1], 20)
    one, two = (LinearClassifierCV(lams=[1.0, 0.1], cv=2, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.scores_, two.scores_)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_large_data_are_not_copied_for_the_folds(iris, monkeypatch, convert):
    X, y = convert(iris[0]), iris[1]
    rng = np.random.default_rng(0)
    repeated = rng.integers(len(y), size=100)
    mask = rng.random(len(y)) < 0.6
    lacking = np.flatnonzero(y != 2)
    splits = [(train, np.arange(len(y))) for train in (repeated, mask, lacking)]
    model = LinearClassifierCV("squared_hinge", lams=[1.0, 0.1], cv=splits, tol=1e-9)
    expected = model.fit(X, y).scores_
    monkeypatch.setattr("cutplane.estimators.cross_validation.COPIED_BYTES", 0)
    read = []
    monkeypatch.setattr(
        "cutplane.estimators.linear.as_rows",
        lambda X, **options: read.append(X) or as_rows(X, **options),
    )
    np.testing.assert_array_equal(model.fit(X, y).scores_, expected)
    assert len({id(data) for data in read}) == 1


# -- weights ---------------------------------------------------------------------------------------


def test_weights_count_in_fits_and_scores(diabetes):
    X, y = diabetes
    copies = np.random.default_rng(0).integers(1, 4, len(y))
    halves = np.arange(len(y)) % 2
    splits = [(np.flatnonzero(halves == k), np.flatnonzero(halves != k)) for k in (0, 1)]
    origin = np.repeat(np.arange(len(y)), copies)
    of_copies = [tuple(np.flatnonzero(np.isin(origin, part)) for part in split) for split in splits]
    weighted = LinearRegressorCV(lams=LAMS, cv=splits, tol=1e-9).fit(X, y, sample_weight=copies)
    repeated = LinearRegressorCV(lams=LAMS, cv=of_copies, tol=1e-9).fit(X[origin], y[origin])
    np.testing.assert_allclose(weighted.scores_, repeated.scores_, rtol=1e-5)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-3)


def test_weights_count_in_the_grid_and_in_the_choice(diabetes):
    # Also with the default tolerance, at which coefficients agree as far as they are certified.
    X, y = diabetes
    copies = np.random.default_rng(0).integers(0, 4, len(y))
    origin = np.repeat(np.arange(len(y)), copies)
    splits = [(np.arange(0, 300), np.arange(300, len(y))), (np.arange(150, len(y)), np.arange(150))]
    of_copies = [tuple(np.flatnonzero(np.isin(origin, part)) for part in split) for split in splits]
    weighted = LinearRegressorCV(cv=splits).fit(X, y, sample_weight=copies)
    repeated = LinearRegressorCV(cv=of_copies).fit(X[origin], y[origin])
    np.testing.assert_allclose(weighted.lams_, repeated.lams_, rtol=1e-12)
    assert weighted.lam_ == pytest.approx(repeated.lam_, rel=1e-12)
    distance = np.linalg.norm(weighted.coef_ - repeated.coef_)
    gaps = (weighted.certificate_.gap, repeated.certificate_.gap)
    assert distance <= sum(np.sqrt(2.0 * gap / weighted.lam_) for gap in gaps)


def test_metadata_routing(cancer):
    X, y = cancer
    weights = np.random.default_rng(0).uniform(size=len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LinearClassifierCV(lams=LAMS, cv=3).set_fit_request(sample_weight=True),
        ).fit(X, y, sample_weight=weights)
    alone = LinearClassifierCV(lams=LAMS, cv=3).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model[-1].scores_, alone.scores_, atol=0.006)
    unweighted = LinearClassifierCV(lams=LAMS, cv=3).fit(X, y)
    assert not np.allclose(alone.scores_, unweighted.scores_, atol=1e-6)


# -- awkward folds, limits -------------------------------------------------------------------------


def test_a_fold_may_lack_one_of_several_classes(iris):
    X, y = iris
    splits = [(np.flatnonzero(y != 2), np.flatnonzero(y == 2)), (np.arange(150), np.arange(150))]
    model = LinearClassifierCV(lams=LAMS, cv=splits).fit(X, y)
    np.testing.assert_array_equal(model.scores_[0], 0.0)  # the class was never seen
    assert model.coef_.shape == (3, 4)


def test_a_fold_with_one_class_only(cancer):
    X, y = cancer
    splits = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    with pytest.raises(ValueError, match="needs two classes"):
        LinearClassifierCV(cv=splits).fit(X, y)


def test_scores_must_be_finite(cancer):
    with pytest.raises(ValueError, match="a score is not finite"):
        LinearClassifierCV(lams=LAMS, cv=2, scoring=lambda *_: np.nan).fit(*cancer)


def test_limits_warn_of_all_runs(iris):
    with pytest.warns(ConvergenceWarning, match=r"iteration_limit in \d+ of 15 runs") as record:
        LinearClassifierCV(lams=[1.0, 1e-3], cv=2, max_iter=2).fit(*iris)
    assert record[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="time_limit in 15 of 15 runs"):
        LinearClassifierCV(lams=[1.0, 1e-3], cv=2, time_limit=1e-6).fit(*iris)


def test_ctrl_c_before_lam_is_known(cancer, monkeypatch):
    def interrupt(risk, w):
        if risk.evaluations == 3:
            raise KeyboardInterrupt
        return at(risk, w)

    at = cp.ScoredRisk.at
    monkeypatch.setattr(cp.ScoredRisk, "at", interrupt)
    with pytest.raises(KeyboardInterrupt):
        LinearClassifierCV(lams=LAMS, method="bmrm").fit(*cancer)


def test_callbacks_see_the_last_fit(cancer, capsys):
    seen = []
    model = LinearClassifierCV(
        lams=LAMS, cv=2, callbacks=[lambda state: seen.append(state.history[-1])], verbose=1
    ).fit(*cancer)
    assert seen == model.history_
    assert capsys.readouterr().out.count("objective") == 1


@pytest.mark.parametrize("number", [4, np.int64(4)])
def test_a_whole_number_says_how_many_lams(cancer, number):
    model = LinearClassifierCV(lams=number, cv=2).fit(*cancer)
    assert model.scores_.shape == (2, 4)
    assert model.lams_[0] / model.lams_[-1] == pytest.approx(1e4)
    np.testing.assert_array_equal(model.lams_, cp.path(*cancer, n_lams=4).lams)
